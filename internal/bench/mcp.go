package main

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

// governedCall compares a governed tools/call with the same tool made with the
// SDK's typed AddTool and nothing of ours. Both go through the SDK's client and
// a pipe in memory.
func governedCall() (row, error) {
	ctx := context.Background()
	ours, err := governedSide(ctx)
	if err != nil {
		return row{}, err
	}
	base, err := typedSide(ctx)
	if err != nil {
		return row{}, err
	}
	run := func(s *side) func() {
		return func() {
			if err := s.call(ctx); err != nil {
				panic(err)
			}
		}
	}
	return row{run(ours), run(base)}, nil
}

type listQuery struct {
	Query string `json:"query"`
}

type toolQuery struct {
	Query    string  `json:"query"`
	PageSize int     `json:"page_size"`
	Cursor   *string `json:"cursor,omitempty"`
}

type toolItem struct{ ID, Title, Status string }

type toolAnswer struct {
	Status string     `json:"status"`
	Items  []toolItem `json:"items"`
}

func toolItems() []toolItem {
	out := make([]toolItem, 10)
	for i := range out {
		out[i] = toolItem{"T-1", "hello world", "open"}
	}
	return out
}

// A side is one end of the comparison.
type side struct {
	client *mcp.ClientSession
}

// call makes one call: query, page_size, and ten items of three strings back.
func (s *side) call(ctx context.Context) error {
	r, err := s.client.CallTool(ctx, &mcp.CallToolParams{Name: "t", Arguments: map[string]any{"query": "x", "page_size": 10}})
	if err == nil && r.IsError {
		err = errors.New("the call failed")
	}
	return err
}

// governedSide serves a listing that needs no provider.
func governedSide(ctx context.Context) (*side, error) {
	c, err := connector.New(connector.Info{ID: "bench", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.List(connector.ListSpec{More: provider.NoSignal("nothing is asked"), Spec: connector.Spec{Name: "t", Description: "lists", Sensitivity: risk.Internal}},
			connector.OnConnection[listQuery], listTools))
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

func listTools(context.Context, *connector.ReadCall, listQuery, connector.PageRequest) (*connector.Page[toolItem], error) {
	return connector.NewPage(toolItems(), cursor.End()), nil
}

// everything is a policy that costs nothing.
type everything struct{}

func (everything) Decide(context.Context, *authz.Request) (authz.Decision, error) {
	return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "1"}, nil
}

// typedSide serves the same tool without governance.
func typedSide(ctx context.Context) (*side, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "t"}, func(context.Context, *mcp.CallToolRequest, toolQuery) (*mcp.CallToolResult, toolAnswer, error) {
		return nil, toolAnswer{"ok", toolItems()}, nil
	})
	return connect(ctx, func(t mcp.Transport) (*mcp.ServerSession, error) { return s.Connect(ctx, t, nil) })
}

func connect(ctx context.Context, serve func(mcp.Transport) (*mcp.ServerSession, error)) (*side, error) {
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
	return &side{cs}, nil
}
