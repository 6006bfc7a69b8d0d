package mcpadapter_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

// A8: what one client wants to hear of is bounded, and costs one look at what it
// may see, however much it names.
func TestSubscriptionsAreBounded_A8(t *testing.T) {
	t.Run("a connection", func(t *testing.T) {
		d := newDesk(t, false)
		a, err := mcpadapter.New(d.inv, as(d.alice), d.options())
		require.NoError(t, err)
		server, client := mcp.NewInMemoryTransports()
		ss, err := a.Connect(t.Context(), server)
		require.NoError(t, err)
		cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), client, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		require.NoError(t, err)
		defer func() {
			require.NoError(t, cs.Close())
			require.NoError(t, ss.Wait())
		}()
		for i := range 1000 {
			require.NoError(t, cs.Subscribe(t.Context(), &mcp.SubscribeParams{URI: fmt.Sprint("note://", i)}))
		}
		require.NoError(t, cs.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "note://1"}), "one of them again")
		require.Error(t, cs.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "note://more"}))
		require.NoError(t, cs.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "note://1"}))
		require.NoError(t, cs.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "note://more"}))
	})
	t.Run("a stream", func(t *testing.T) {
		d := newDesk(t, false)
		a, err := mcpadapter.New(d.inv, d.byToken, d.options())
		require.NoError(t, err)
		srv := httptest.NewServer(a.HTTP())
		defer srv.Close()
		defer srv.CloseClientConnections()
		var uris []string
		for i := range 5000 {
			uris = append(uris, fmt.Sprint("note://", i))
		}
		list, err := json.Marshal(uris)
		require.NoError(t, err)
		body := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":` + string(list) + `},
			"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader(body))
		require.NoError(t, err)
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
			"Mcp-Method": "subscriptions/listen", "Authorization": "Bearer alice"} {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		}
		require.Equal(t, 1000, strings.Count(lines.Text(), "note://"))
		d.mu.Lock()
		defer d.mu.Unlock()
		require.Less(t, d.asked, 50, "the policy is asked about what there is to see, and not about each name")
	})
}

// A5: a policy that does not answer has not said that there is nothing to hear of.
func TestSubscribingWithoutPolicy_A5(t *testing.T) {
	d := newDesk(t, false)
	a, err := mcpadapter.New(d.inv, d.byToken, d.options())
	require.NoError(t, err)
	server, client := mcp.NewInMemoryTransports()
	ss, err := a.Connect(t.Context(), server)
	require.NoError(t, err)
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), client, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	d.mu.Lock()
	d.down = true
	d.mu.Unlock()
	require.ErrorContains(t, cs.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "note://1"}), "cannot be found out now")
	got := post(t, a.HTTP(), "alice", modern("subscriptions/listen", 7, `"notifications":{"resourceSubscriptions":["note://1"]}`))
	require.NotNil(t, got.Error, got.Text)
	require.Equal(t, "POLICY_UNAVAILABLE", got.Error.Data["code"])
	require.NoError(t, cs.Close())
	_ = ss.Wait()
}

// A long URI is held against no template: that takes time by the square of it.
func TestLongURIs(t *testing.T) {
	d := newDesk(t, false)
	a, err := mcpadapter.New(d.inv, as(d.alice), d.options())
	require.NoError(t, err)
	cs := inMemory(t, a, nil)
	_, err = cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note://" + strings.Repeat("a", 505)})
	require.NoError(t, err)
	_, err = cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note://" + strings.Repeat("a", 506)})
	require.Error(t, err)
}
