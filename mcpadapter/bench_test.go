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

type (
	benchQuery struct {
		Query string `json:"query"`
	}
	benchIn struct {
		Query    string  `json:"query"`
		PageSize int     `json:"page_size"`
		Cursor   *string `json:"cursor,omitempty"`
	}
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
func governed(t testing.TB) *mcp.ClientSession {
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
	return inMemory(t, a, nil)
}

// typed is the same tool made with the SDK's AddTool and nothing of ours.
func typed(t testing.TB) *mcp.ClientSession {
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

func benchCall(t testing.TB, cs *mcp.ClientSession) {
	r, err := cs.CallTool(context.Background(), &mcp.CallToolParams{Name: "t", Arguments: map[string]any{"query": "x", "page_size": 10}})
	if err != nil || r.IsError {
		t.Fatal(err, r)
	}
}

// BenchmarkGovernedCall is one tools/call in memory through the SDK's client:
// governed, and the same tool added with the SDK's typed AddTool.
func BenchmarkGovernedCall(b *testing.B) {
	for name, open := range map[string]func(testing.TB) *mcp.ClientSession{"governed": governed, "sdk-typed": typed} {
		b.Run(name, func(b *testing.B) {
			cs := open(b)
			b.ReportAllocs()
			for b.Loop() {
				benchCall(b, cs)
			}
		})
	}
}

// What governance may cost in allocations is a promise: at most 0.6 of the SDK's
// typed tool.
func TestGovernedCallAllocates(t *testing.T) {
	count := func(cs *mcp.ClientSession) float64 { return testing.AllocsPerRun(100, func() { benchCall(t, cs) }) }
	ours, base := count(governed(t)), count(typed(t))
	t.Logf("governed %.0f, typed %.0f, ratio %.2f", ours, base, ours/base)
	require.LessOrEqual(t, ours, 0.6*base)
}
