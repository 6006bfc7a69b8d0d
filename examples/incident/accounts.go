package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// deploymentsKey is what the embedded provider of deployments wants. Users never
// see it: it stands behind an authorization server.
const deploymentsKey = "github-example-token"

const (
	clientSecret = "incident-host-secret" // of the host at the embedded authorization server
	deployScope  = "repo_deployment"
)

// accounts is the second hop: the provider of deployments asks for the token of
// a user, which that user consents to at the authorization server.
type accounts struct {
	as      *authserver.Server
	manager *connection.Manager
	servers []*server
	api     string // of the provider
}

// openAccounts starts the authorization server and puts it before a provider.
func openAccounts(s *state, provider counted) (_ *accounts, err error) {
	a := &accounts{}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	front := &lateHandler{} // its issuer is its own address
	issuer, err := serveLoopback(front)
	if err != nil {
		return nil, err
	}
	a.servers = append(a.servers, issuer)
	// Access tokens live for a second, until the first one was had: so that one
	// has to be renewed.
	a.as = authserver.New(&authserver.Options{Issuer: issuer.url, AccessFor: time.Second})
	redirect := "http://127.0.0.1/callback/deployments"
	a.as.AddClient(authserver.Client{ID: "incident-host", Secret: clientSecret, Redirects: []string{redirect}})
	front.set(a.as)
	api, err := serveLoopback(&guard{a.as, provider})
	if err != nil {
		return nil, err
	}
	a.servers, a.api = append(a.servers, api), api.url
	a.manager, err = connection.New(s.connections, s.keys, []*connection.Provider{a.provider(issuer.url, api.url, redirect)},
		&connection.Options{ConnectURL: func(id string) string { return "http://127.0.0.1/connect/" + id }})
	return a, err
}

func (a *accounts) provider(issuer, api, redirect string) *connection.Provider {
	at := func(name, url string) egress.Profile {
		return egress.Profile{Name: name, BaseURL: url, Plaintext: true, Private: host.Private()}
	}
	return &connection.Provider{
		Name: "deployments", Title: "Deployments of acme", Grant: connection.AuthorizationCode, Connectors: []string{"deployments"},
		Issuer: issuer, SendsIssuer: true, S256: true, AuthorizationEndpoint: issuer + "/authorize",
		Token: at("deployments-token", issuer+"/token"), Revocation: at("deployments-revoke", issuer+"/revoke"),
		RedirectURI: redirect, ClientID: "incident-host", ClientAuth: connection.SecretBasic,
		Secret: func(context.Context) ([]byte, error) { return []byte(clientSecret), nil },
		Scopes: []string{deployScope}, Always: []string{deployScope}, ExpectRefresh: true,
		API: at("deployments-api", api), Confirm: whose,
	}
}

// whose asks the provider whose token it is.
func whose(ctx context.Context, c *http.Client, base string) (connection.Account, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/user", nil)
	if err != nil {
		return connection.Account{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return connection.Account{}, err
	}
	defer resp.Body.Close()
	var me struct{ Login, Company string }
	if resp.StatusCode != http.StatusOK {
		return connection.Account{}, errors.New("the provider does not say whose token it is")
	}
	err = json.NewDecoder(resp.Body).Decode(&me)
	return connection.Account{ID: me.Login, Org: me.Company, Label: me.Login}, err
}

// connect is what a user does in a browser: they open the host's page, go to
// the authorization server, consent there, and come back.
func (a *accounts) connect(ctx context.Context, who authz.Principal) (connection.Connection, error) {
	link, err := a.manager.Begin(ctx, who, &connection.BeginRequest{Provider: "deployments"})
	if err != nil {
		return connection.Connection{}, err
	}
	away, err := a.manager.Open(ctx, who, link.ID)
	if err != nil {
		return connection.Connection{}, err
	}
	back, err := a.as.Consent(away.URL, authserver.User{ID: who.Key().Subject, Org: host.Tenant}, nil)
	if err != nil {
		return connection.Connection{}, err
	}
	out, err := a.manager.Callback(ctx, who, away.Browser, back)
	if err != nil {
		return connection.Connection{}, err
	}
	if out.Connection.ID == "" {
		return connection.Connection{}, fmt.Errorf("the account was not connected")
	}
	a.as.Set(func(o *authserver.Options) { o.AccessFor = time.Hour })
	return out.Connection, nil
}

// Close waits for renewals and ends the servers.
func (a *accounts) Close() error {
	var errs []error
	if a.manager != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		errs = append(errs, a.manager.Close(ctx))
	}
	for _, s := range a.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// guard lets in who shows a token of the authorization server.
type guard struct {
	as       *authserver.Server
	provider counted
}

// ServeHTTP implements [http.Handler].
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, ok := g.as.Bearer(r)
	if ok && r.URL.Path == "/user" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"login": token.User.ID, "company": token.User.Org})
		return
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer no-such-token")
	if ok {
		r.Header.Set("Authorization", "Bearer "+deploymentsKey)
	}
	g.provider.ServeHTTP(w, r)
}
