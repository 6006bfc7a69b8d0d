package connection_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// A provider, a manager, and the way from a refused call to the provider's page.
func Example() {
	key := make([]byte, 32) // from a secret store
	keys, err := credential.NewKeyring("2026-01", map[string][]byte{"2026-01": key})
	if err != nil {
		return
	}
	tickets := &connection.Provider{
		Name: "tickets", Title: "Enterprise Tickets", Grant: connection.AuthorizationCode, Connectors: []string{"enterprise-tickets"},
		Issuer: "https://login.tickets.example", SendsIssuer: true, S256: true,
		AuthorizationEndpoint: "https://login.tickets.example/authorize",
		Token:                 egress.Profile{Name: "tickets-token", BaseURL: "https://login.tickets.example/token"},
		Revocation:            egress.Profile{Name: "tickets-revoke", BaseURL: "https://login.tickets.example/revoke"},
		RedirectURI:           "https://agents.acme.example/callback/tickets",
		ClientID:              "agents", ClientAuth: connection.SecretBasic,
		Secret:        func(context.Context) ([]byte, error) { return []byte("from a secret store"), nil },
		Scopes:        []string{"tickets.read", "tickets.write"},
		ExpectRefresh: true,
		API:           egress.Profile{Name: "tickets-prod", BaseURL: "https://api.tickets.example"},
		Confirm: func(ctx context.Context, c *http.Client, base string) (connection.Account, error) {
			var me struct{ ID, Workspace, Name string }
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/me", nil)
			if err != nil {
				return connection.Account{}, err
			}
			resp, err := c.Do(req)
			if err != nil {
				return connection.Account{}, err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return connection.Account{}, errors.New("the provider does not say who it is")
			}
			err = json.NewDecoder(resp.Body).Decode(&me)
			return connection.Account{ID: me.ID, Org: me.Workspace, Label: me.Name}, err
		},
	}
	m, err := connection.New(&connection.Memory{}, keys, []*connection.Provider{tickets}, &connection.Options{
		ConnectURL: func(id string) string { return "https://agents.acme.example/connect/" + id },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer m.Close(ctx)

	host := authz.NewAuthority("this host")
	alice, _ := host.Principal(authz.Identity{Tenant: "acme", Issuer: "https://login.acme.example", Subject: "alice"})
	_, err = m.Resolve(ctx, &credential.ResolveRequest{Principal: alice, Connector: "enterprise-tickets", Scopes: []string{"tickets.read"}})
	fmt.Println(err)

	link, err := m.Begin(ctx, alice, &connection.BeginRequest{Provider: "tickets", Scopes: []string{"tickets.read"}})
	if err != nil {
		return
	}
	page, _ := m.Pending(ctx, alice, link.ID)
	fmt.Println(page.Title, page.Scopes)
	// Output:
	// CONNECTION_REQUIRED: there is no usable account for this call: connect one
	// Enterprise Tickets [tickets.read]
}
