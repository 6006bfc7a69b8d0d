package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

const tools = 20

const listRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// listing compares a list of twenty tools, filtered for its caller, with the same
// tools in a server of the SDK's that knows no callers. Both are asked over HTTP,
// in memory, without a session. The policy is one that can say its revision.
func listing() (row, error) {
	ours, err := governedList()
	if err != nil {
		return row{}, err
	}
	bare := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	for i := range tools {
		mcp.AddTool(bare, &mcp.Tool{Name: fmt.Sprint("t", i), Description: "lists"}, func(context.Context, *mcp.CallToolRequest, toolQuery) (*mcp.CallToolResult, toolAnswer, error) {
			return nil, toolAnswer{}, nil
		})
	}
	base := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return bare }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	for _, h := range []http.Handler{ours, base} {
		if n := strings.Count(ask(h), `"inputSchema"`); n != tools {
			return row{}, fmt.Errorf("%d tools are listed", n)
		}
	}
	return row{func() { ask(ours) }, func() { ask(base) }}, nil
}

func ask(h http.Handler) string {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(listRequest))
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusOK {
		panic(fmt.Sprint("a list was answered with ", w.Code, w.Body))
	}
	return w.Body.String()
}

// revised is a policy that costs nothing and can say when it changes.
type revised struct{ everything }

func (revised) Revision(context.Context, string) (string, error) { return "1", nil }

func governedList() (http.Handler, error) {
	var caps []connector.Capability
	for i := range tools {
		caps = append(caps, connector.List(connector.ListSpec{More: provider.NoSignal("nothing is asked"),
			Spec: connector.Spec{Name: fmt.Sprint("t", i), Description: "lists", Sensitivity: risk.Internal}}, connector.OnConnection[listQuery], listTools))
	}
	c, err := connector.New(connector.Info{ID: "bench", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}}, caps...)
	if err != nil {
		return nil, err
	}
	host := authz.NewAuthority("host")
	alice, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "https://issuer.test", Subject: "alice"})
	if err != nil {
		return nil, err
	}
	var policy authz.PolicyWithRevision = revised{}
	inv, err := connector.NewInvoker(policy, []*authz.Authority{host}, []connector.Connector{c}, nil)
	if err != nil {
		return nil, err
	}
	a, err := mcpadapter.New(inv, func(context.Context, *http.Request) (authz.Principal, error) { return alice, nil }, nil)
	if err != nil {
		return nil, err
	}
	return a.HTTP(), nil
}
