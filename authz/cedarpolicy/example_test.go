package cedarpolicy_test

import (
	"context"
	"fmt"
	"log"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/cedarpolicy"
)

func ExampleNew() {
	policy, err := cedarpolicy.New(map[string][]byte{"oncall.cedar": []byte(`
// Who is on call reads the services of the incident, in its window.
@window("2026-04-29T02:35:00Z/2026-04-29T02:50:00Z")
permit(principal in Group::"acme/oncall", action == Action::"logs.search", resource == service::"acme/loki/order-service");

@approval("required")
permit(principal in Group::"acme/oncall", action == Action::"tickets.create", resource in Tenant::"acme");

@prohibit
forbid(principal, action == Action::"service.restart", resource);
`)}, &cedarpolicy.Options{
		Groups: func(context.Context, authz.Principal) ([]string, error) { return []string{"oncall"}, nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	alice, err := authz.NewAuthority("example").Principal(authz.Identity{Tenant: "acme", Issuer: "https://as.example", Subject: "alice"})
	if err != nil {
		log.Fatal(err)
	}
	grant, err := authz.Authorize(context.Background(), policy, &authz.Request{
		Principal: alice,
		Action:    authz.Action{Connector: "loki", Capability: "logs.search"},
		Target:    authz.On(authz.Object{ResourceID: authz.ResourceID{Type: "service", ID: "order-service"}}),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range grant.Scope().Resources() {
		fmt.Println(r.Type, r.ID, r.Window)
	}
	// Output: service order-service 2026-04-29T02:35:00Z/2026-04-29T02:50:00Z
}
