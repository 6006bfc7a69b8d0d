// Package oauth runs package authz/connection against an authorization server of
// somebody else's: oidc-provider, which is certified, strict, and written by
// nobody who knows our tests. What passes against our own authserver only proves
// what we believe.
//
// DRAWBRIDGE_NODE names:
//
//	npm install --prefix "$DRAWBRIDGE_NODE" node@22.23.3 oidc-provider@9.13.3
package oauth_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	redirect = "http://127.0.0.1:7777/callback" // nobody listens there: the test reads the address
	resource = "https://api.tickets.test"
	secret   = "CANARY-secret:%+&="
)

// program returns Node, or skips the test.
func program(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DRAWBRIDGE_NODE")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("DRAWBRIDGE_NODE is not set, and CI=true says that it is")
		}
		t.Skip("DRAWBRIDGE_NODE names no directory with node@22.23.3 and oidc-provider@9.13.3")
	}
	node := filepath.Join(dir, "node_modules", "node", "bin", "node")
	for _, f := range []string{node, filepath.Join(dir, "node_modules", "oidc-provider", "lib", "index.js")} {
		_, err := os.Stat(f)
		require.NoError(t, err, "DRAWBRIDGE_NODE is set and does not hold what it should")
	}
	return node
}

// start runs the server and returns its issuer.
func start(t *testing.T, life string) string {
	t.Helper()
	cmd := exec.Command(program(t), "testdata/provider.mjs")
	cmd.Env = append(os.Environ(), "ACCESS_FOR="+life, "HOME="+t.TempDir())
	var log bytes.Buffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "http://") {
			return lines.Text()
		}
	}
	require.NoError(t, cmd.Wait(), log.String())
	return ""
}

// world is a host, the provider's API, and the provider's authorization server.
type world struct {
	t      *testing.T
	issuer string
	api    *httptest.Server
	m      *connection.Manager
	store  *connection.Memory
	prov   *connection.Provider
	alice  authz.Principal
	host   *authz.Authority
	refuse atomic.Bool // the API refuses the next token
	last   atomic.Value
}

func loopback(base string) egress.Profile {
	return egress.Profile{Name: "provider", BaseURL: base, Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func newWorld(t *testing.T, life string) *world {
	w := &world{t: t, issuer: start(t, life), store: &connection.Memory{}}
	w.alice, w.host = authztest.Principal(t, "acme", "alice")
	w.api = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.api.Close)
	at, err := connection.WellKnown(w.issuer)
	require.NoError(t, err)
	meta, err := connection.Discover(t.Context(), w.issuer, loopback(at), nil)
	require.NoError(t, err)
	require.True(t, meta.S256 && meta.SendsIssuer)
	w.prov = &connection.Provider{
		Name: "tickets", Grant: connection.AuthorizationCode, Connectors: []string{"tickets"}, RedirectURI: redirect,
		Token: loopback(""), Revocation: loopback(""), ClientID: "host", ClientAuth: connection.SecretBasic,
		Secret: func(context.Context) ([]byte, error) { return []byte(secret), nil },
		Scopes: []string{"tickets.read", "tickets.write"}, Resource: resource, ExpectRefresh: true,
		API: loopback(w.api.URL), Confirm: whoami,
	}
	meta.Fill(w.prov)
	w.m = w.manager()
	return w
}

// manager is another process on the same store.
func (w *world) manager() *connection.Manager {
	w.t.Helper()
	keys, err := credential.NewKeyring("k1", map[string][]byte{"k1": bytes.Repeat([]byte{1}, 32)})
	require.NoError(w.t, err)
	m, err := connection.New(w.store, keys, []*connection.Provider{w.prov}, &connection.Options{ConnectURL: func(id string) string { return "https://host.test/connect/" + id }})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, m.Close(context.Background())) })
	return m
}

// active asks the authorization server about a token, as the API's own client.
func (w *world) active(token string) (sub string, scopes []string, ok bool) {
	req, err := http.NewRequest(http.MethodPost, w.issuer+"/token/introspection", strings.NewReader(url.Values{"token": {token}}.Encode()))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("rs", "rs-secret")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	var body struct {
		Active          bool
		Sub, Aud, Scope string
	}
	require.NoError(w.t, json.NewDecoder(resp.Body).Decode(&body))
	return body.Sub, strings.Fields(body.Scope), body.Active && body.Aud == resource
}

// serve is the API: it believes the authorization server and nobody else.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.last.Store(token)
	sub, _, ok := w.active(token)
	if !ok || w.refuse.CompareAndSwap(true, false) {
		rw.WriteHeader(http.StatusUnauthorized)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(map[string]string{"id": "7", "sub": sub})
}

func whoami(ctx context.Context, c *http.Client, base string) (connection.Account, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/me", nil)
	if err != nil {
		return connection.Account{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return connection.Account{}, err
	}
	defer resp.Body.Close()
	var me struct{ Sub string }
	if resp.StatusCode != http.StatusOK {
		return connection.Account{}, errors.New("not confirmed")
	}
	err = json.NewDecoder(resp.Body).Decode(&me)
	return connection.Account{ID: me.Sub}, err
}

// browse is a browser that follows the provider's redirects until one leads back
// to us.
func (w *world) browse(to, hint string) url.Values {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(w.t, err)
	back := errors.New("back")
	var answer *url.URL
	c := &http.Client{Jar: jar, Timeout: 20 * time.Second, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), redirect) {
			answer = r.URL
			return back
		}
		return nil
	}}
	resp, err := c.Get(to + "&login_hint=" + url.QueryEscape(hint))
	if answer == nil {
		require.NoError(w.t, err)
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		require.FailNow(w.t, "the server showed a page of its own", "%s: %s", resp.Status, text)
	}
	return answer.Query()
}

// connect goes the whole way.
func (w *world) connect(req connection.BeginRequest, hint string) (connection.Outcome, error) {
	w.t.Helper()
	req.Provider = "tickets"
	link, err := w.m.Begin(w.t.Context(), w.alice, &req)
	require.NoError(w.t, err)
	d, err := w.m.Open(w.t.Context(), w.alice, link.ID)
	require.NoError(w.t, err)
	return w.m.Callback(w.t.Context(), w.alice, d.Browser, w.browse(d.URL, hint))
}

func (w *world) counters() (out map[string]int) {
	w.t.Helper()
	resp, err := http.Get(w.issuer + "/__counters")
	require.NoError(w.t, err)
	defer resp.Body.Close()
	require.NoError(w.t, json.NewDecoder(resp.Body).Decode(&out))
	return out
}

type ticketArgs struct {
	Ticket string `json:"ticket" jsonschema:"number of the ticket"`
}

type ticket struct {
	ID  string `json:"id"`
	Sub string `json:"sub"`
}

// invoker is the governed path, with one capability for each scope.
func (w *world) invoker(m *connection.Manager) *connector.Invoker {
	w.t.Helper()
	get := func(name, scope string) connector.Capability {
		return connector.Read(connector.Spec{Name: name, Description: "One ticket.", Sensitivity: risk.Internal, Scopes: []string{scope},
			Routes: []connector.Route{{Pattern: "GET /tickets/{ticket}", Effect: connector.Reads, Touches: []string{"ticket:{ticket}"}}}},
			connector.ByArgs(func(in ticketArgs) authz.ResourceID { return authz.ResourceID{Type: "ticket", ID: in.Ticket} }),
			func(ctx context.Context, c *connector.ReadCall, in ticketArgs) (*connector.Answer[ticket], error) {
				var out ticket
				if _, err := c.Get(ctx, "/tickets/{ticket}", connector.Params{"ticket": in.Ticket}, &out); err != nil {
					return nil, err
				}
				return connector.Found(out), nil
			})
	}
	c, err := connector.New(connector.Info{ID: "tickets", Version: "1.0.0", Owner: "team", Endpoint: "provider", Auth: connector.Auth{Mode: connector.AuthDelegatedOAuth}},
		get("tickets.get", "tickets.read"), get("tickets.more", "tickets.write"))
	require.NoError(w.t, err)
	inv, err := connector.NewInvoker(authztest.AllowAsked(), []*authz.Authority{w.host}, []connector.Connector{c},
		&connector.Options{Endpoints: []egress.Profile{loopback(w.api.URL)}, Credentials: m, Forgetful: true,
			Audit: connector.AuditFunc(func(context.Context, *connector.AuditEvent) error { return nil })})
	require.NoError(w.t, err)
	return inv
}

func (w *world) call(inv *connector.Invoker, capability string) *toolresult.Result {
	w.t.Helper()
	return inv.Invoke(w.t.Context(), &connector.InvokeRequest{Principal: w.alice, Capability: capability, Arguments: json.RawMessage(`{"ticket":"7"}`)})
}

// C1 C3 C5 C8: connect, call, refresh, extend the scopes, disconnect, refused
// afterwards, all of it judged by somebody else's server.
// H2-01 H2-11 H2-17 H2-24 H2-30 H2-95: PKCE, the redirect URI, the resource, the
// rotation, a secret with odd characters and the revocation are as it wants them.
func TestSecondHop_C1_C3_C5_C8(t *testing.T) {
	w := newWorld(t, "60")
	inv := w.invoker(w.m)
	r := w.call(inv, "tickets.get")
	require.Equal(t, toolresult.ConnectionRequired, toolresult.Code(r.Err()))
	out, err := w.connect(connection.BeginRequest{Scopes: []string{"tickets.read"}}, "ann")
	require.NoError(t, err)
	require.Equal(t, "ann", out.Connection.Account)
	require.Equal(t, []string{"tickets.read"}, out.Connection.Scopes)
	r = w.call(inv, "tickets.get")
	require.NoError(t, r.Err())
	require.JSONEq(t, `{"id":"7","sub":"ann"}`, string(r.Data))

	w.refuse.Store(true) // a 401: the token is renewed, and the read sent once more
	require.NoError(t, w.call(inv, "tickets.get").Err())
	for _, m := range []*connection.Manager{w.m, w.manager(), w.manager()} {
		require.NoError(t, w.call(w.invoker(m), "tickets.get").Err())
	}
	require.Equal(t, 1, w.counters()["refreshed"])

	r = w.call(inv, "tickets.more")
	require.Equal(t, toolresult.InsufficientScope, toolresult.Code(r.Err()))
	require.Equal(t, []string{"tickets.write"}, r.Error.Connect.Missing)
	extended, err := w.connect(connection.BeginRequest{Connection: out.Connection.ID, Scopes: []string{"tickets.write"}}, "ann")
	require.NoError(t, err)
	require.Equal(t, out.Connection.ID, extended.Connection.ID)
	require.Equal(t, []string{"tickets.read", "tickets.write"}, extended.Connection.Scopes)
	require.NoError(t, w.call(inv, "tickets.more").Err())
	require.NoError(t, w.call(inv, "tickets.get").Err())

	gone, err := w.m.Disconnect(t.Context(), w.alice, out.Connection.ID)
	require.NoError(t, err)
	require.Equal(t, connection.Disconnected, gone.State)
	require.Equal(t, connection.StepDone, gone.Disconnection.Remote)
	_, _, ok := w.active(w.last.Load().(string))
	require.False(t, ok, "the token is over at the server")
	require.Equal(t, toolresult.ConnectionRequired, toolresult.Code(w.call(inv, "tickets.get").Err()))
	require.Zero(t, w.counters()["refused"], "the server refused nothing that we sent")

	again, err := w.connect(connection.BeginRequest{Scopes: []string{"tickets.read"}}, "ann")
	require.NoError(t, err, "and it can be connected anew")
	require.NotEqual(t, out.Connection.ID, again.Connection.ID)
	require.NoError(t, w.call(inv, "tickets.get").Err())
}

// H2-08 H2-26: a user who says no, and one who allows less than was asked for.
func TestConsents_H2_08_H2_26(t *testing.T) {
	w := newWorld(t, "60")
	_, err := w.connect(connection.BeginRequest{Scopes: []string{"tickets.read"}}, "deny:ann")
	require.ErrorIs(t, err, toolresult.PermissionDenied)
	require.Zero(t, w.counters()["authorization_code"], "no code was sent")
	both := []string{"tickets.read", "tickets.write"}
	out, err := w.connect(connection.BeginRequest{Scopes: both}, "partial:bob")
	require.NoError(t, err)
	require.Equal(t, []string{"tickets.read"}, out.Connection.Scopes)
	inv := w.invoker(w.m)
	require.NoError(t, w.call(inv, "tickets.get").Err())
	require.Equal(t, toolresult.InsufficientScope, toolresult.Code(w.call(inv, "tickets.more").Err()))
}

// H2-04 H2-12 H2-13: an answer is acted on once; a code of somebody else's is
// refused by the server, and connects nothing.
func TestCodes_H2_04_H2_12_H2_13(t *testing.T) {
	w := newWorld(t, "60")
	begin := func() connection.Departure {
		link, err := w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets", Scopes: []string{"tickets.read"}})
		require.NoError(t, err)
		d, err := w.m.Open(t.Context(), w.alice, link.ID)
		require.NoError(t, err)
		return d
	}
	mine, other := begin(), begin()
	good, stolen := w.browse(mine.URL, "ann"), w.browse(other.URL, "mallory")
	injected := url.Values{"state": good["state"], "iss": good["iss"], "code": stolen["code"]}
	_, err := w.m.Callback(t.Context(), w.alice, mine.Browser, injected)
	require.ErrorIs(t, err, toolresult.ProviderError)
	_, err = w.m.Callback(t.Context(), w.alice, mine.Browser, good)
	require.Error(t, err, "the transaction is over")
	require.Equal(t, 1, w.counters()["authorization_code"])
	list, err := w.m.Connections(t.Context(), w.alice)
	require.NoError(t, err)
	require.Empty(t, list)
}

// H2-49 H2-51: the answer to a refresh is lost after the server acted. It is
// sent once more, late; the server ends the grant, and the user is told that the
// outcome was unknown, and not that somebody revoked it.
func TestLostAnswer_H2_49_H2_51(t *testing.T) {
	w := newWorld(t, "2")
	_, err := w.connect(connection.BeginRequest{Scopes: []string{"tickets.read"}}, "ann")
	require.NoError(t, err)
	resp, err := http.Post(w.issuer+"/__fault?mode=drop", "", nil)
	require.NoError(t, err)
	resp.Body.Close()
	inv := w.invoker(w.m)
	var list []connection.Record
	require.Eventually(t, func() bool {
		w.call(inv, "tickets.get")
		list, err = w.store.List(t.Context(), &connection.Query{Tenant: "acme", Limit: 10})
		return err == nil && len(list) == 1 && list[0].State == connection.Reauthorize
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, connection.ReasonUnknown, list[0].Reason)
	for range 5 {
		require.Equal(t, toolresult.ConnectionRequired, toolresult.Code(w.call(inv, "tickets.get").Err()))
	}
	n := w.counters()
	require.Equal(t, 2, n["refresh_token"], "one, and one late retry")
	require.Equal(t, 1, n["refreshed"])
}

// The server that is gone is no reason to lose an account.
func TestServerGone_H2_48(t *testing.T) {
	w := newWorld(t, "60")
	_, err := w.connect(connection.BeginRequest{Scopes: []string{"tickets.read"}}, "ann")
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	list, err := w.store.List(t.Context(), &connection.Query{Tenant: "acme", Limit: 10})
	require.NoError(t, err)
	rec := list[0]
	rec.TokenEndpoint, rec.RefreshAt = closed+"/token", time.Now().Add(-time.Second) // due, at a server that is not there
	_, err = w.store.CompareAndSwap(t.Context(), rec)
	require.NoError(t, err)
	w.prov.Token.BaseURL = closed + "/token"
	require.NoError(t, w.call(w.invoker(w.manager()), "tickets.get").Err(), "the token that is there is used")
	list, err = w.store.List(t.Context(), &connection.Query{Tenant: "acme", Limit: 10})
	require.NoError(t, err)
	require.True(t, list[0].State.Usable())
}
