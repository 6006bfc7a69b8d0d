package functioncall_test

import (
	"context"
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall"
)

type Greeting struct {
	Name string `json:"name" jsonschema:"who is greeted"`
}

func greet(_ context.Context, _ *connector.ReadCall, in Greeting) (*connector.Answer[string], error) {
	return connector.Found("hello, " + in.Name), nil
}

func Example() {
	ctx := context.Background()
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

	defs, err := functioncall.Definitions(ctx, inv, alice, functioncall.AnthropicMessages, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(defs.Tools[0]))

	answer := []byte(`{"content":[{"type":"tool_use","id":"toolu_1","name":"greetings-say","input":{"name":"Ada"}}]}`)
	turn, err := functioncall.Dispatch(ctx, inv, alice, functioncall.AnthropicMessages, answer, nil)
	if err != nil {
		panic(err)
	}
	for _, o := range turn.Outcomes {
		fmt.Println(o.Call.ID, o.Call.Capability, o.Result.Meaning(), string(o.Result.Data))
	}
	// Output:
	// {"name":"greetings-say","description":"Greets somebody.","input_schema":{"additionalProperties":false,"properties":{"name":{"description":"who is greeted","maxLength":4096,"type":"string"}},"required":["name"],"type":"object"}}
	// toolu_1 greetings.say complete "hello, Ada"
}
