package skills_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/skills"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
)

func ExampleNewServer() {
	trusted := []*authz.Authority{authz.NewAuthority("host")}
	reg, err := registry.New("acme", &registry.Memory{}, nil, trusted, nil) // nil policy: denies
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := skills.NewServer(reg, "prod", &skills.ServerOptions{Prefix: "acme/sre"})
	if err != nil {
		fmt.Println(err)
		return
	}
	inv, err := connector.NewInvoker(nil, trusted, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	who := func(context.Context, *http.Request) (authz.Principal, error) { return authz.Principal{}, nil }
	_, err = mcpadapter.New(inv, who, &mcpadapter.Options{Extensions: []mcpadapter.Extension{s}})
	fmt.Println(s.Methods(), err)
	// Output: [skills/list skills/get resources/directory/read] <nil>
}
