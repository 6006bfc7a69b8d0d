// Package oauth is the host of the guide: callers come with access tokens of one
// authorization server, and have accounts of their own at the provider.
package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/connectpage"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// Booking is what comes out of the connector.
type Booking struct {
	Title string `json:"title"`
}

// Connector reads what the account itself has booked.
func Connector() (connector.Connector, error) {
	return connector.New(
		connector.Info{ID: "bookings", Version: "1.0.0", Owner: "facilities", Endpoint: "rooms", Auth: connector.Auth{Mode: connector.AuthDelegatedOAuth}},
		connector.Read(connector.Spec{Name: "my_bookings", Description: "What I have booked.", Sensitivity: risk.Internal, Scopes: []string{"bookings.read"},
			Routes: []connector.Route{{Pattern: "GET /mine", Effect: connector.Reads, WholeConnection: true}}},
			connector.OnConnection[struct{}], mine))
}

func mine(ctx context.Context, c *connector.ReadCall, _ struct{}) (*connector.Answer[[]Booking], error) {
	var body []Booking
	if _, err := c.Get(ctx, "/mine", nil, &body); err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return connector.NoMatch[[]Booking](), nil
	}
	return connector.Found(body), nil
}

// FirstHop verifies the access tokens of one issuer, for one resource: this
// server's URL.
func FirstHop(resource, issuer string, keys egress.Profile, eg *egress.Options) (*bearer.Bearer, error) {
	v, err := bearer.NewJWT(issuer, keys, bearer.OneTenant("acme"), &bearer.JWTOptions{Egress: eg})
	if err != nil {
		return nil, err
	}
	return bearer.New(resource, []*bearer.Verifier{v}, &bearer.Options{
		Scopes: []string{"mcp"},
		ToolScopes: func(_ context.Context, _ authz.Principal, tool string) []string {
			return map[string][]string{"my_bookings": {"rooms.read"}}[tool]
		},
	})
}

// Rooms is the provider, as its documentation and its registration say.
func Rooms(as string, at func(name, path string) egress.Profile, api egress.Profile, eg *egress.Options, secret func(context.Context) ([]byte, error)) *connection.Provider {
	return &connection.Provider{
		Name: "rooms", Title: "Rooms", Grant: connection.AuthorizationCode, Connectors: []string{"bookings"},
		Issuer: as, SendsIssuer: true, S256: true,
		AuthorizationEndpoint: as + "/authorize", Token: at("rooms-token", "/token"), Revocation: at("rooms-revoke", "/revoke"),
		RedirectURI: "http://localhost/callback/rooms",
		ClientID:    "agents", ClientAuth: connection.SecretBasic, Secret: secret,
		Scopes: []string{"bookings.read", "bookings.write"}, ExpectRefresh: true,
		API: api, Confirm: whose, Egress: eg,
	}
}

// whose asks the provider whose account it is.
func whose(ctx context.Context, c *http.Client, base string) (connection.Account, error) {
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
	var me struct{ ID, Company string }
	err = json.NewDecoder(resp.Body).Decode(&me)
	return connection.Account{ID: me.ID, Org: me.Company, Label: me.ID}, err
}

// Mount puts the MCP endpoint and the pages for people on one mux. session says
// who is signed in at the pages: the same tenant, issuer and subject as the access
// token has, found out in another way.
func Mount(b *bearer.Bearer, policy authz.Policy, accounts *connection.Manager, api egress.Profile, eg *egress.Options,
	audit connector.Audit, session func(*http.Request) (authz.Principal, error)) (*http.ServeMux, error) {
	c, err := Connector()
	if err != nil {
		return nil, err
	}
	inv, err := connector.NewInvoker(policy, []*authz.Authority{b.Authority()}, []connector.Connector{c},
		&connector.Options{Endpoints: []egress.Profile{api}, Egress: eg, Credentials: accounts, Audit: audit})
	if err != nil {
		return nil, err
	}
	a, err := mcpadapter.New(inv, b.Principal, nil)
	if err != nil {
		return nil, err
	}
	pages, err := connectpage.New(accounts, session, nil)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(b.MetadataPath(), b.Metadata())
	mux.Handle("/mcp", b.Handler(a.HTTP()))
	mux.Handle("/connect/", http.StripPrefix("/connect", pages))
	mux.Handle("/callback/rooms", pages.Callback("rooms"))
	return mux, nil
}
