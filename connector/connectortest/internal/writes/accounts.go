package writes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

func needsConsent(s *check.Subject) string {
	if s.Manifest.Auth.Mode != connector.AuthDelegatedOAuth {
		return "nobody consents to an account of this connector"
	}
	return ""
}

// office is a host that connects accounts, over the store of the session's host,
// and the issuer of their tokens: an authorization server whose refresh tokens
// work once.
type office struct {
	*check.Session
	issuer *authserver.Server
	prov   *connection.Provider
	keys   *credential.Keyring
	alice  authz.Principal
	open   []*connection.Manager
}

const callback = "http://localhost/callback/connectortest"

var ann = authserver.User{ID: "ann", Org: "org-1"}

func inOffice(f func(context.Context, *office) error) func(context.Context, *check.Session) {
	return func(ctx context.Context, s *check.Session) {
		o := &office{Session: s, issuer: authserver.New(&authserver.Options{Issuer: "http://127.0.0.1"}), alice: s.Principal(check.Alice)}
		defer o.close(ctx)
		err := o.furnish()
		if err == nil {
			err = f(ctx, o)
		}
		if err != nil {
			s.Inconclusive("an account cannot be connected: " + err.Error())
		}
	}
}

func (o *office) furnish() (err error) {
	const secret = "client-secret-canary-77d1"
	o.Plant(secret)
	o.issuer.AddClient(authserver.Client{ID: "host", Secret: secret, Redirects: []string{callback}})
	at := func(path string) egress.Profile {
		return egress.Profile{Name: "issuer", BaseURL: "http://127.0.0.1" + path, Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	}
	o.prov = &connection.Provider{
		Name: "connectortest", Grant: connection.AuthorizationCode, Connectors: []string{o.Manifest.ID}, Issuer: "http://127.0.0.1", SendsIssuer: true, S256: true,
		AuthorizationEndpoint: "http://127.0.0.1/authorize", RedirectURI: callback, Token: at("/token"), Revocation: at("/revoke"),
		ClientID: "host", ClientAuth: connection.SecretBasic, Secret: func(context.Context) ([]byte, error) { return []byte(secret), nil },
		Scopes: []string{"read"}, ExpectRefresh: true, API: egresstest.Profile(), Confirm: whose, Egress: o.Serve(o.issuer),
	}
	o.keys, err = credential.NewKeyring("k1", map[string][]byte{"k1": bytes.Repeat([]byte{9}, 32)})
	return err
}

func whose(ctx context.Context, c *http.Client, base string) (connection.Account, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/userinfo", nil)
	if err != nil {
		return connection.Account{}, err
	}
	resp, err := c.Do(r)
	if err != nil {
		return connection.Account{}, err
	}
	defer resp.Body.Close()
	var body struct{ Sub, Org string }
	err = json.NewDecoder(resp.Body).Decode(&body)
	return connection.Account{ID: body.Sub, Org: body.Org}, err
}

// start is another process over the same store.
func (o *office) start() (*connection.Manager, error) {
	m, err := connection.New(o.Accounts, o.keys, []*connection.Provider{o.prov}, &connection.Options{ConnectURL: func(id string) string { return "https://host.test/connect/" + id }})
	if err == nil {
		o.open = append(o.open, m)
	}
	return m, err
}

func (o *office) close(ctx context.Context) {
	for _, m := range o.open {
		_ = m.Close(ctx)
	}
}

func (o *office) connect(ctx context.Context, m *connection.Manager) (connection.Connection, error) {
	link, err := m.Begin(ctx, o.alice, &connection.BeginRequest{Provider: o.prov.Name, Scopes: []string{"read"}})
	if err != nil {
		return connection.Connection{}, err
	}
	d, err := m.Open(ctx, o.alice, link.ID)
	if err != nil {
		return connection.Connection{}, err
	}
	back, err := o.issuer.Consent(d.URL, ann, nil)
	if err != nil {
		return connection.Connection{}, err
	}
	got, err := m.Callback(ctx, o.alice, d.Browser, back)
	if err != nil {
		return connection.Connection{}, err
	}
	return got.Connection, nil
}

// works says why the account cannot be used, or nothing.
func (o *office) works(ctx context.Context, m *connection.Manager) string {
	got, err := m.Resolve(ctx, &credential.ResolveRequest{Principal: o.alice, Connector: o.Manifest.ID, Capability: "any", Call: "c1", Run: "r1", Mode: string(o.Manifest.Auth.Mode), Scopes: []string{"read"}})
	if err != nil {
		return err.Error()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, egresstest.Base+"/any", nil)
	if err != nil {
		return err.Error()
	}
	if err := m.Apply(ctx, got.Handle, egresstest.Base+":80", r); err != nil {
		return err.Error()
	}
	if _, live := o.issuer.Bearer(r); !live {
		return "the issuer does not know the token"
	}
	return ""
}

func runRotated(ctx context.Context, o *office) error {
	first, err := o.start()
	if err != nil {
		return err
	}
	if _, err := o.connect(ctx, first); err != nil {
		return err
	}
	for life := range 3 { // each time the process dies after it has renewed the token
		o.Wait(2 * time.Hour)
		before := o.issuer.Count("issued refresh_token")
		m, err := o.start()
		if err != nil {
			return err
		}
		why := o.works(ctx, m)
		if !o.Expect(why == "", fmt.Sprintf("after %d restarts the account does not work: %s", life, why), "an account that works") {
			return nil
		}
		o.Expect(o.issuer.Count("issued refresh_token") == before+1, "the token was not renewed", "one renewal after each two hours")
		next, err := o.start()
		if err != nil {
			return err
		}
		why = o.works(ctx, next)
		o.Expect(why == "", "the process that comes after cannot use what was renewed: "+why, "an account that works")
	}
	o.Expect(o.issuer.Count("reuse") == 0, "a refresh token that had been used was sent again", "the one that replaced it")
	return runUnstored(ctx, o)
}

// runUnstored renews a token that cannot be stored. The issuer lets the old one work
// until the new one is used, as it has to for answers that were lost (RFC 9700
// section 4.14.2): so whoever uses what is stored nowhere ends the account.
func runUnstored(ctx context.Context, o *office) error {
	o.issuer.Set(func(opts *authserver.Options) { opts.Rotation = authserver.Grace })
	o.Wait(2 * time.Hour)
	m, err := o.start()
	if err != nil {
		return err
	}
	o.FullDisk(true)
	asked := o.issuer.Count("issued refresh_token")
	why := o.works(ctx, m)
	o.Expect(o.issuer.Count("issued refresh_token") > asked, "no token was asked for, though the last is over: "+why, "one that cannot be stored")
	o.Expect(why != "", "a token was used that is stored nowhere", "an error")
	o.FullDisk(false)
	o.Wait(2 * time.Hour)
	next, err := o.start()
	if err != nil {
		return err
	}
	why = o.works(ctx, next)
	o.Expect(why == "", "after a renewal that could not be stored the account does not work: "+why, "an account that works")
	return nil
}

// runOneRenewal has two processes of a host need a token that is over, at once.
func runOneRenewal(ctx context.Context, o *office) error {
	var both [2]*connection.Manager
	for i := range both {
		m, err := o.start()
		if err != nil {
			return err
		}
		both[i] = m
	}
	if _, err := o.connect(ctx, both[0]); err != nil {
		return err
	}
	o.Wait(2 * time.Hour)
	before := o.issuer.Count("token refresh_token")
	o.issuer.Fail(authserver.Fault{Endpoint: "token", Grant: "refresh_token", Delay: 2 * time.Second})
	var why [8]string
	var wait sync.WaitGroup
	for i := range why {
		patience := time.Hour
		if i == 0 {
			patience = time.Second // who may be the one that the renewal was begun for
		}
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			why[i] = o.works(ctx, both[i%2])
		})
		o.Wait(10 * time.Millisecond)
	}
	wait.Wait()
	o.Expect(why[0] != "", "who left after a second has a token", "an error")
	for _, w := range why[1:] {
		o.Expect(w == "", "beside a caller who left: "+w, "a token that works")
	}
	n := o.issuer.Count("token refresh_token") - before
	o.Expect(n == 1, fmt.Sprintf("the issuer was asked %d times by 8 callers in two processes", n), "once")
	o.Expect(o.issuer.Count("reuse") == 0, "a refresh token was sent twice", "once")
	return nil
}

func runDisconnect(ctx context.Context, o *office) error {
	m, err := o.start()
	if err != nil {
		return err
	}
	c, err := o.connect(ctx, m)
	if err != nil {
		return err
	}
	if why := o.works(ctx, m); why != "" {
		return fmt.Errorf("it does not work: %s", why)
	}
	o.issuer.Fail(authserver.Fault{Endpoint: "revoke", Before: true, Status: http.StatusServiceUnavailable})
	c, err = m.Disconnect(ctx, o.alice, c.ID)
	o.Expect(err == nil, fmt.Sprintf("disconnecting: %v", err), "no call is possible any more")
	o.Expect(o.works(ctx, m) != "", "the account works after it was disconnected", "CONNECTION_REQUIRED")
	if access, refresh := o.issuer.Live(ann.ID); access+refresh > 0 {
		o.Expect(c.Disconnection.Remote != connection.StepDone, "the issuer failed, and the tokens are said to be revoked", "what is left to do")
	}
	next, err := o.start() // whoever comes after goes on
	if err != nil {
		return err
	}
	for range 5 {
		o.Wait(6 * time.Hour / 5)
		if _, err := next.Resume(ctx, 10); err != nil {
			return err
		}
		access, refresh := o.issuer.Live(ann.ID)
		if refresh == 0 && access == 0 && o.issuer.Count("revoke") > 1 {
			break
		}
	}
	tokens := o.issuer.Count("token")
	o.Wait(24 * time.Hour)
	o.Expect(o.issuer.Count("token") == tokens, "the issuer is asked for tokens of an account that was disconnected", "silence")
	_, refresh := o.issuer.Live(ann.ID)
	o.Expect(refresh == 0 && o.issuer.Count("revoke") > 1, fmt.Sprintf("%d refresh tokens are alive at the issuer, which was asked %d times to revoke", refresh, o.issuer.Count("revoke")), "none: what failed is tried again")
	return nil
}
