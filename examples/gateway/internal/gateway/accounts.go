package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// Desk is the name of the provider's profile.
const Desk = "desk"

// Accounts is the second hop over a store that all replicas share.
func Accounts(c *Config, store connection.Store, log *slog.Logger) (*connection.Manager, error) {
	keys, err := credential.NewKeyring(c.Key, c.Keys)
	if err != nil {
		return nil, err
	}
	at := func(path string) egress.Profile {
		return egress.Profile{Name: "desk", BaseURL: c.Provider + path, Plaintext: true, Private: private(), Limits: egress.Limits{Total: 3 * time.Second}}
	}
	p := &connection.Provider{
		Name: Desk, Title: "The desk", Grant: connection.AuthorizationCode, Connectors: []string{"tickets", "runbooks"},
		Issuer: c.ProviderIssuer, SendsIssuer: true, S256: true, AuthorizationEndpoint: c.Provider + "/authorize", RedirectURI: c.Return,
		Token: at("/token"), Revocation: at("/revoke"), ClientID: c.Client, ClientAuth: connection.SecretBasic, Secret: c.secret,
		Scopes: []string{"desk"}, Always: []string{"desk"}, ExpectRefresh: true, API: at(""), Confirm: whoami,
	}
	return connection.New(store, keys, []*connection.Provider{p}, &connection.Options{
		ConnectURL: func(id string) string { return c.ConnectPage + id },
		Lease:      8 * time.Second, // 5 s longer than a request to the token endpoint may take
		Log:        log})
}

// whoami asks the provider whose account it is.
func whoami(ctx context.Context, c *http.Client, base string) (connection.Account, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/userinfo", nil)
	if err != nil {
		return connection.Account{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return connection.Account{}, err
	}
	defer resp.Body.Close()
	var me struct{ Sub, Org string }
	if resp.StatusCode != http.StatusOK {
		return connection.Account{}, errors.New("gateway: the provider did not say whose account it is")
	}
	err = json.NewDecoder(resp.Body).Decode(&me)
	return connection.Account{ID: me.Sub, Org: me.Org}, err
}
