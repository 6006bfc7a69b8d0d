package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

func told(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), args, &out), out.String())
	for _, leak := range []string{alr.Canary, "7.77", alr.TicketKey, "readertoken", "tok_secret"} {
		require.NotContains(t, out.String(), leak)
	}
	require.Contains(t, out.String(), "INC-4821, created once")
	require.Contains(t, out.String(), "APPROVAL_REQUIRED")
	require.Contains(t, out.String(), "PERMISSION_DENIED")
	return out.String()
}

func TestStory_X1(t *testing.T) {
	text := told(t)
	for _, want := range []string{"OUTCOME_UNKNOWN", "missing [remaining_pages]", "CURSOR_INVALID", "CONFLICT", "requests that left for a provider: 0", "tickets in the ticket system: 1"} {
		require.Contains(t, text, want)
	}
}

// The same connectors against real servers, with an nginx that loses the receipt
// of the ticket.
func TestStoryReal_X1(t *testing.T) {
	nginx := peers.Nginx(t, peers.Redmine(t))
	lost, err := url.Parse(nginx + "/lost-receipt")
	require.NoError(t, err)
	plain, err := url.Parse(nginx + "/plain")
	require.NoError(t, err)
	var posts atomic.Int32
	way := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		if r.In.Method == http.MethodPost {
			posts.Add(1)
			r.SetURL(lost)
			return
		}
		r.SetURL(plain)
	}})
	defer way.Close()
	told(t, "-prometheus", peers.Prometheus(t), "-alertmanager", peers.Alertmanager(t), "-tickets", way.URL)
	require.Equal(t, int32(1), posts.Load(), "one request that creates, whatever became of its answer")
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"serve"}, {"serve", "-as", "alice"}, {"serve", "-as", "other/alice", "-stdio"}, {"serve", "-as", "acme/alice"}, {"tell"}, {"-nosuch"}} {
		require.Error(t, run(t.Context(), args, &bytes.Buffer{}), args)
	}
}
