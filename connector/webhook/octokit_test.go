package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
)

// payloads returns real deliveries of GitHub, by event and as they were sent,
// from the npm package @octokit/webhooks-examples 7.6.1 in DRAWBRIDGE_NODE.
func payloads(t *testing.T) (events []string, bodies [][]byte) {
	file := filepath.Join(os.Getenv("DRAWBRIDGE_NODE"), "node_modules", "@octokit", "webhooks-examples", "api.github.com", "index.json")
	text, err := os.ReadFile(file)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI=true says that DRAWBRIDGE_NODE holds @octokit/webhooks-examples: ", err)
		}
		t.Skip("DRAWBRIDGE_NODE names no directory with @octokit/webhooks-examples@7.6.1")
	}
	var list []struct {
		Name     string
		Examples []json.RawMessage
	}
	require.NoError(t, json.Unmarshal(text, &list))
	for _, e := range list {
		for _, body := range e.Examples {
			events, bodies = append(events, e.Name), append(bodies, body)
		}
	}
	require.Greater(t, len(bodies), 150)
	return events, bodies
}

// P5: real payloads go through the scheme of GitHub and the inbox, byte for
// byte, and come out once.
func TestRealPayloads_P5(t *testing.T) {
	events, bodies := payloads(t)
	var m webhook.Memory
	e, err := webhook.NewEndpoint(must(webhook.GitHub([]string{secret}, nil)), &m, place, nil)
	require.NoError(t, err)
	want := map[string]int{}
	for i, body := range bodies {
		for attempt := range 2 {
			r := delivery(fmt.Sprint("delivery ", i), string(body))
			r.Header.Set("X-GitHub-Event", events[i])
			require.Equal(t, http.StatusOK, serve(e, r).Code, "%s, attempt %d", events[i], attempt)
		}
		want[string(body)]++
		changed := delivery(fmt.Sprint("forged ", i), string(body))
		changed.Body = delivery("", "["+string(body[1:])).Body
		require.Equal(t, http.StatusUnauthorized, serve(e, changed).Code)
	}
	got := map[string]string{}
	p := process(t, &m, func(_ context.Context, e *webhook.Event) error {
		if _, twice := got[string(e.Body)]; twice {
			return fmt.Errorf("%s was handled twice", e.ID)
		}
		got[string(e.Body)] = e.Type
		r := e.Result("call")
		return r.Validate(nil)
	}, webhook.ProcessorOptions{Workers: 1, Observe: func(_ context.Context, r *webhook.Report) { require.NoError(t, r.Err) }})
	require.NoError(t, p.Drain(t.Context()))
	require.Len(t, got, len(want), "each body once: the package has some twice")
	for body := range want {
		require.NotEmpty(t, got[body])
	}
}
