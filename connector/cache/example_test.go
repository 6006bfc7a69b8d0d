package cache_test

import (
	"context"
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cache"
	"github.com/drawbridge-sdk/drawbridge/connector/cache/generation"
)

// allow is a policy for an example.
type allow struct{}

func (allow) Decide(_ context.Context, r *authz.Request) (authz.Decision, error) {
	return authz.Decision{Verdict: authz.Allow, Scope: r.Target.Scope(), Revision: "1"}, nil
}

func ExampleGet() {
	c, err := cache.New("weather", &generation.Memory{}, nil) // several processes share sqlstore's Generations
	if err != nil {
		fmt.Println(err)
		return
	}
	asked := 0
	read := connector.Read(connector.Spec{Name: "weather.get", Description: "Gets the weather.", Sensitivity: risk.Internal},
		connector.ByArgs(func(in get) authz.ResourceID { return authz.ResourceID{Type: "place", ID: in.ID} }),
		func(ctx context.Context, call *connector.ReadCall, in get) (*connector.Answer[string], error) {
			found, err := cache.Get(ctx, c, call, cache.Read{Name: "get", Arguments: in, Objects: []authz.ResourceID{{Type: "place", ID: in.ID}}},
				func(context.Context) (string, error) { asked++; return "rain", nil })
			if err != nil {
				return nil, err
			}
			return connector.Found(found.Value), nil
		})
	conn, err := connector.New(connector.Info{ID: "weather", Version: "1.0.0", Owner: "example", Auth: connector.Auth{Mode: connector.AuthNone}}, read)
	if err != nil {
		fmt.Println(err)
		return
	}
	host := authz.NewAuthority("host")
	inv, err := connector.NewInvoker(allow{}, []*authz.Authority{host}, []connector.Connector{conn}, &connector.Options{Audit: c.Audit(nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, who := range []string{"alice", "alice", "bob"} {
		p, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: who})
		if err != nil {
			fmt.Println(err)
			return
		}
		r := inv.Invoke(context.Background(), &connector.InvokeRequest{Principal: p, Capability: "weather.get", Arguments: []byte(`{"id":"Oslo"}`)})
		fmt.Println(who, string(r.Data), asked)
	}
	// Output:
	// alice "rain" 1
	// alice "rain" 1
	// bob "rain" 2
}
