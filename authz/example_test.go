package authz_test

import (
	"context"
	"fmt"
	"log"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// ownProject lets everybody read the project that is named after them.
type ownProject struct{}

func (ownProject) Decide(_ context.Context, req *authz.Request) (authz.Decision, error) {
	own := authz.ResourceID{Type: "project", ID: req.Principal.Key().Subject}
	return authz.Decision{Verdict: authz.Allow, Scope: authz.Only(own), Revision: "1"}, nil
}

func ExampleAuthorize() {
	host := authz.NewAuthority("stdio")
	alice, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: "alice"})
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"alice", "bob"} {
		target := authz.ResourceID{Type: "project", ID: id}
		grant, err := authz.Authorize(context.Background(), ownProject{}, &authz.Request{
			Principal: alice,
			Action:    authz.Action{Connector: "tickets", Capability: "tickets.list"},
			Target:    authz.On(authz.Object{ResourceID: target}),
		})
		fmt.Println(id, grant.Permits(target), err)
	}
	// Output:
	// alice true <nil>
	// bob false PERMISSION_DENIED: not allowed
}
