package mcpadapter_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

// bearerTransport sends a token with each request.
type bearerTransport string

func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// A4, A8, A9, H1-71: a right that is taken away is gone with the next request,
// although the client has the list, and what is hidden then is what is not
// there: in both eras, over both transports, with sessions and without.
func TestRevokedEverywhere_A4_A8_A9(t *testing.T) {
	for name, row := range map[string]struct {
		http     bool
		version  string
		sessions time.Duration
	}{
		"HTTP, 2026-07-28":               {true, "2026-07-28", 0},
		"HTTP, 2026-07-28 with sessions": {true, "2026-07-28", time.Minute},
		"HTTP, 2025-11-25":               {true, "2025-11-25", 0},
		"HTTP, 2025-11-25 in a session":  {true, "2025-11-25", time.Minute},
		"a connection, 2026-07-28":       {false, "2026-07-28", 0},
		"a connection, 2025-11-25":       {false, "2025-11-25", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, false)
			opts := d.options()
			opts.SessionTimeout = row.sessions
			a, err := mcpadapter.New(d.inv, d.byToken, opts)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var transport mcp.Transport
			if row.http {
				srv := httptest.NewServer(a.HTTP())
				defer srv.Close()
				defer srv.CloseClientConnections()
				transport = &mcp.StreamableClientTransport{Endpoint: srv.URL, HTTPClient: &http.Client{Transport: bearerTransport("alice")}, DisableStandaloneSSE: true}
			} else {
				server, client := mcp.NewInMemoryTransports()
				ss, err := a.Connect(ctx, server)
				require.NoError(t, err)
				defer func() { _ = ss.Wait() }()
				transport = client
			}
			cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: row.version})
			require.NoError(t, err)
			defer cs.Close()
			call := func(tool string) (*mcp.CallToolResult, error) {
				return cs.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"id": "a"}})
			}
			read := func(uri string) error {
				_, err := cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
				return err
			}
			get := func(prompt string) error {
				_, err := cs.GetPrompt(ctx, &mcp.GetPromptParams{Name: prompt, Arguments: map[string]string{"id": "a"}})
				return err
			}
			code := func(err error) (int64, string) {
				var e *jsonrpc.Error
				require.ErrorAs(t, err, &e)
				return e.Code, e.Message
			}
			list, err := cs.ListTools(ctx, nil)
			require.NoError(t, err)
			require.Equal(t, []string{"notes.tool", "notes.write", "operation_status"}, names(list.Tools))
			r, err := call("notes.tool")
			require.NoError(t, err)
			require.False(t, r.IsError)
			require.NoError(t, read("note://a"))
			require.NoError(t, get("explain"))

			for _, c := range []string{"notes.tool", "notes.write", "notes.read", "notes.prompt"} {
				d.hide("alice "+c, true)
			}
			for _, tool := range []string{"notes.tool", "notes.write", "operation_status", "notes.read", "notes.nope"} {
				_, err = call(tool)
				c, text := code(err)
				require.EqualValues(t, -32602, c, tool)
				require.Equal(t, "unknown tool", text, tool)
			}
			for _, uri := range []string{"note://a", "nothing://a"} {
				c, _ := code(read(uri))
				require.EqualValues(t, -32602, c)
			}
			for _, prompt := range []string{"explain", "nothing"} {
				c, text := code(get(prompt))
				require.EqualValues(t, -32602, c)
				require.Equal(t, "unknown prompt", text)
			}
			list, err = cs.ListTools(ctx, nil)
			require.NoError(t, err)
			require.Empty(t, list.Tools)
			templates, err := cs.ListResourceTemplates(ctx, nil)
			require.NoError(t, err)
			require.Len(t, templates.ResourceTemplates, 1, "artifacts")
			prompts, err := cs.ListPrompts(ctx, nil)
			require.NoError(t, err)
			require.Empty(t, prompts.Prompts)
		})
	}
}
