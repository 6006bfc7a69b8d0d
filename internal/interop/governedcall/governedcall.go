// Package governedcall makes one call over MCP in two ways, for benchmarks: to a
// governed capability, and to the same tool made with the SDK's typed AddTool
// and nothing of ours. Both go through the SDK's client and a pipe in memory.
package governedcall

import (
	"context"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

type query struct {
	Query string `json:"query"`
}

type typedQuery struct {
	Query    string  `json:"query"`
	PageSize int     `json:"page_size"`
	Cursor   *string `json:"cursor,omitempty"`
}

type item struct{ ID, Title, Status string }

type answer struct {
	Status string `json:"status"`
	Items  []item `json:"items"`
}

func items() []item {
	out := make([]item, 10)
	for i := range out {
		out[i] = item{"T-1", "hello world", "open"}
	}
	return out
}

// A Side is one end of the comparison.
type Side struct {
	client *mcp.ClientSession
	server *mcp.ServerSession
}

// Call makes one call: query, page_size, and ten items of three strings back.
func (s *Side) Call(ctx context.Context) error {
	r, err := s.client.CallTool(ctx, &mcp.CallToolParams{Name: "t", Arguments: map[string]any{"query": "x", "page_size": 10}})
	if err == nil && r.IsError {
		err = errors.New("governedcall: the call failed")
	}
	return err
}

// Close ends the connection.
func (s *Side) Close() {
	_ = s.client.Close()
	_ = s.server.Wait()
}

// Governed serves a listing that needs no provider.
func Governed(ctx context.Context) (*Side, error) {
	c, err := connector.New(connector.Info{ID: "bench", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.List(connector.ListSpec{More: provider.NoSignal("nothing is asked"), Spec: connector.Spec{Name: "t", Description: "lists", Sensitivity: risk.Internal}},
			connector.OnConnection[query], list))
	if err != nil {
		return nil, err
	}
	host := authz.NewAuthority("host")
	alice, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "https://issuer.test", Subject: "alice"})
	if err != nil {
		return nil, err
	}
	inv, err := connector.NewInvoker(everything{}, []*authz.Authority{host}, []connector.Connector{c}, nil)
	if err != nil {
		return nil, err
	}
	a, err := mcpadapter.New(inv, func(context.Context, *http.Request) (authz.Principal, error) { return alice, nil }, nil)
	if err != nil {
		return nil, err
	}
	return connect(ctx, func(t mcp.Transport) (*mcp.ServerSession, error) { return a.Connect(ctx, t) })
}

func list(context.Context, *connector.ReadCall, query, connector.PageRequest) (*connector.Page[item], error) {
	return connector.NewPage(items(), cursor.End()), nil
}

// everything is a policy that costs nothing.
type everything struct{}

func (everything) Decide(context.Context, *authz.Request) (authz.Decision, error) {
	return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "1"}, nil
}

// Typed serves the same tool without governance.
func Typed(ctx context.Context) (*Side, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "t"}, func(context.Context, *mcp.CallToolRequest, typedQuery) (*mcp.CallToolResult, answer, error) {
		return nil, answer{"ok", items()}, nil
	})
	return connect(ctx, func(t mcp.Transport) (*mcp.ServerSession, error) { return s.Connect(ctx, t, nil) })
}

func connect(ctx context.Context, serve func(mcp.Transport) (*mcp.ServerSession, error)) (*Side, error) {
	near, far := mcp.NewInMemoryTransports()
	ss, err := serve(near)
	if err != nil {
		return nil, err
	}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(ctx, far, nil)
	if err != nil {
		_ = ss.Close()
		return nil, err
	}
	return &Side{cs, ss}, nil
}
