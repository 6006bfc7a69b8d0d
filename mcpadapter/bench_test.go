package mcpadapter_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

type benchQuery struct {
	Query string `json:"query"`
}

type benchIn struct {
	Query    string  `json:"query"`
	PageSize int     `json:"page_size"`
	Cursor   *string `json:"cursor,omitempty"`
}

type (
	benchItem struct{ ID, Title, Status string }
	benchOut  struct {
		Status string      `json:"status"`
		Items  []benchItem `json:"items"`
	}
)

func benchItems() []benchItem {
	out := make([]benchItem, 10)
	for i := range out {
		out[i] = benchItem{"T-1", "hello world", "open"}
	}
	return out
}

// governed is an adapter with one listing that needs no network.
func governed(t testing.TB) *mcpadapter.Adapter {
	t.Helper()
	alice, host := authztest.Principal(t, "acme", "alice")
	c, err := connector.New(connector.Info{ID: "bench", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.List(connector.ListSpec{More: provider.NoSignal("nothing is asked"), Spec: connector.Spec{Name: "t", Description: "x", Sensitivity: risk.Internal}},
			connector.OnConnection[benchQuery], func(context.Context, *connector.ReadCall, benchQuery, connector.PageRequest) (*connector.Page[benchItem], error) {
				return connector.NewPage(benchItems(), cursor.End()), nil
			}))
	require.NoError(t, err)
	inv, err := connector.NewInvoker(authztest.AllowScope(authz.WholeConnection()), []*authz.Authority{host}, []connector.Connector{c}, nil)
	require.NoError(t, err)
	a, err := mcpadapter.New(inv, as(alice), nil)
	require.NoError(t, err)
	return a
}

// plain is the same tool without anything of ours.
func plain(t testing.TB) *mcp.ClientSession {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "t"}, func(context.Context, *mcp.CallToolRequest, benchIn) (*mcp.CallToolResult, benchOut, error) {
		return nil, benchOut{"ok", benchItems()}, nil
	})
	server, client := mcp.NewInMemoryTransports()
	ss, err := s.Connect(context.Background(), server, nil)
	require.NoError(t, err)
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(context.Background(), client, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = cs.Close()
		_ = ss.Wait()
	})
	return cs
}

// BenchmarkGovernedCall is one tools/call in memory through the SDK's client:
// governed, and the same tool added with the SDK's typed AddTool.
func BenchmarkGovernedCall(b *testing.B) {
	for name, cs := range map[string]*mcp.ClientSession{"governed": inMemory(b, governed(b), nil), "sdk-typed": plain(b)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := cs.CallTool(context.Background(), &mcp.CallToolParams{Name: "t", Arguments: map[string]any{"query": "x", "page_size": 10}})
				if err != nil || r.IsError {
					b.Fatal(err, r)
				}
			}
		})
	}
}
