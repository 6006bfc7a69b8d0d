package mcpadapter_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

// serve is what the package's documentation shows.
func serve(ctx context.Context, addr string, policy authz.Policy, connectors []connector.Connector, opts *connector.Options) error {
	host := authz.NewAuthority("host")
	inv, err := connector.NewInvoker(policy, []*authz.Authority{host}, connectors, opts)
	if err != nil {
		return err
	}
	// Over stdio the caller is whom the host says; req is nil.
	who := func(_ context.Context, req *http.Request) (authz.Principal, error) {
		return host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: "alice"})
	}
	adapter, err := mcpadapter.New(inv, who, &mcpadapter.Options{Name: "tickets", Version: "1.0.0"})
	if err != nil {
		return err
	}
	if addr == "" {
		return adapter.ServeStdio(ctx) // one caller, whom the host knows
	}
	return http.ListenAndServe(addr, adapter.HTTP()) // many: who asks req, such as bearer.Bearer.Principal does
}

// changeTicket makes a call that changes something, as a client program does.
func changeTicket(ctx context.Context, session *mcp.ClientSession, args map[string]any) (*mcp.CallToolResult, error) {
	r, err := session.CallTool(ctx, &mcp.CallToolParams{
		Name: "tickets.create", Arguments: args,
		Meta: mcp.Meta{mcpadapter.OperationMeta: "alert-17-ticket"},
	})
	return r, err
}

var (
	_ = serve
	_ = changeTicket
)

type Greeting struct {
	Name string `json:"name" jsonschema:"who is greeted"`
}

func greet(_ context.Context, _ *connector.ReadCall, in Greeting) (*connector.Answer[string], error) {
	return connector.Found("hello, " + in.Name), nil
}

func Example() {
	greetings, err := connector.New(
		connector.Info{ID: "greetings", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Read(connector.Spec{Name: "greetings.say", Description: "Greets somebody.", Sensitivity: risk.Public}, connector.OnConnection[Greeting], greet))
	if err != nil {
		panic(err)
	}
	host := authz.NewAuthority("host")
	alice, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "https://issuer.test", Subject: "alice"})
	if err != nil {
		panic(err)
	}
	inv, err := connector.NewInvoker(authztest.AllowAsked(), []*authz.Authority{host}, []connector.Connector{greetings}, nil)
	if err != nil {
		panic(err)
	}
	// Over stdio the caller is whom the host says; req is nil.
	who := func(_ context.Context, req *http.Request) (authz.Principal, error) { return alice, nil }
	adapter, err := mcpadapter.New(inv, who, &mcpadapter.Options{Name: "greetings", Version: "1.0.0"})
	if err != nil {
		panic(err)
	}

	client := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greetings.say","arguments":{"name":"Ada"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	var server strings.Builder
	if err := adapter.Stdio(context.Background(), client, &server); err != nil {
		panic(err)
	}
	fmt.Println(strings.Contains(server.String(), `"data":"hello, Ada"`), strings.Contains(server.String(), `"isError"`))
	// Output: true false
}
