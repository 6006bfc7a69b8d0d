// Package zitadel runs package authz/connection against a second authorization
// server of somebody else's, in this process: the example provider of
// zitadel/oidc. It differs from oidc-provider (package oauth) where servers do
// differ: it says no issuer with its answers (RFC 9207), knows no resources (RFC
// 8707), has only OpenID Connect's metadata, ends the access token when the
// refresh token rotates, and does not end the grant when a spent one comes back.
//
// It is a module of its own, so that the SDK does not depend on the server.
package zitadel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

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

	// Users of the example provider. The first exists for issuers at localhost.
	first, firstID = "test-user@localhost", "id1"
	second         = "test-user2"
	password       = "verysecure"

	read, more = storage.CustomScope, "profile" // scopes that it grants
)

// The example provider logs each request to the default logger.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// sent is a request to the token or revocation endpoint, and its answer.
type sent struct {
	form   url.Values
	status int
}

// server is the example provider, and what came to it.
type server struct {
	issuer string
	next   http.Handler
	drop   atomic.Bool // the next refresh is acted on, and its answer lost

	mu              sync.Mutex
	tokens, revoked []sent
}

func start(t *testing.T) *server {
	t.Helper()
	s := &server{}
	h := httptest.NewUnstartedServer(s)
	_, port, err := net.SplitHostPort(h.Listener.Addr().String())
	require.NoError(t, err)
	s.issuer = "http://localhost:" + port
	clients := map[string]*storage.Client{
		"host": storage.WebClient("host", secret, redirect),
	}
	// No logger: it would replace the one of the process.
	s.next = exampleop.SetupServer(s.issuer, storage.NewStorageWithClients(storage.NewUserStore(s.issuer), clients), nil, false)
	h.Start()
	t.Cleanup(h.Close)
	return s
}

func (s *server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var to *[]sent
	switch r.URL.Path {
	case "/oauth/token":
		to = &s.tokens
	case "/revoke":
		to = &s.revoked
	default:
		s.next.ServeHTTP(rw, r)
		return
	}
	_ = r.ParseForm()
	rec := httptest.NewRecorder()
	s.next.ServeHTTP(rec, r)
	s.mu.Lock()
	*to = append(*to, sent{r.PostForm, rec.Code})
	s.mu.Unlock()
	if r.PostForm.Get("grant_type") == "refresh_token" && s.drop.CompareAndSwap(true, false) {
		panic(http.ErrAbortHandler)
	}
	for k, v := range rec.Header() {
		rw.Header()[k] = v
	}
	rw.WriteHeader(rec.Code)
	_, _ = rec.Body.WriteTo(rw)
}

// grants returns what came to the token endpoint with one grant.
func (s *server) grants(grant string) (out []sent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.tokens {
		if x.form.Get("grant_type") == grant {
			out = append(out, x)
		}
	}
	return out
}

// refresh spends a refresh token behind the SDK's back.
func (s *server) refresh(t *testing.T, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.issuer+"/oauth/token", strings.NewReader(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("host", url.QueryEscape(secret))
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var body struct{ Error string }
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&body))
	if resp.StatusCode != http.StatusOK {
		require.Equal(t, "invalid_grant", body.Error)
	}
	return resp.StatusCode
}

// world is a host, the provider's API, and the provider's authorization server.
type world struct {
	t      *testing.T
	srv    *server
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
	return egress.Profile{Name: "provider", BaseURL: base, Plaintext: true,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}} // localhost may be both
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, srv: start(t), store: &connection.Memory{}}
	w.alice, w.host = authztest.Principal(t, "acme", "alice")
	w.api = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.api.Close)
	meta, err := connection.Discover(t.Context(), w.srv.issuer, loopback(w.srv.issuer+"/.well-known/openid-configuration"), nil)
	require.NoError(t, err)
	require.True(t, meta.S256)
	require.False(t, meta.SendsIssuer)
	w.prov = &connection.Provider{
		Name: "tickets", Grant: connection.AuthorizationCode, Connectors: []string{"tickets"}, RedirectURI: redirect,
		Token: loopback(""), Revocation: loopback(""), ClientID: "host", ClientAuth: connection.SecretBasic,
		Secret: func(context.Context) ([]byte, error) { return []byte(secret), nil },
		Scopes: []string{"openid", "offline_access", read, more}, Always: []string{"openid", "offline_access"},
		Resource: resource, ExpectRefresh: true, API: loopback(w.api.URL), Confirm: whoami,
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

// active asks the authorization server about a token. It answers the client that
// the token was issued to, and nobody else.
func (w *world) active(token string) (sub string, ok bool) {
	req, err := http.NewRequest(http.MethodPost, w.srv.issuer+"/oauth/introspect", strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		return "", false
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("host", url.QueryEscape(secret))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	var body struct {
		Active bool
		Sub    string
	}
	err = json.NewDecoder(resp.Body).Decode(&body)
	return body.Sub, err == nil && body.Active
}

// serve is the API: it believes the authorization server and nobody else.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.last.Store(token)
	sub, ok := w.active(token)
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

// browse is a browser that follows the provider's redirects, signs in at its page,
// and stops where one leads back to us.
func (w *world) browse(to, user string) url.Values {
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
	resp, err := c.Get(to)
	require.NoError(w.t, err)
	resp.Body.Close()
	id := resp.Request.URL.Query().Get("authRequestID")
	require.NotEmpty(w.t, id, "the server showed a page of its own: %s", resp.Request.URL)
	resp, err = c.PostForm(w.srv.issuer+"/login/username", url.Values{"id": {id}, "username": {user}, "password": {password}})
	if answer == nil {
		require.NoError(w.t, err)
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		require.FailNow(w.t, "the server showed a page of its own", "%s: %s", resp.Status, text)
	}
	require.Empty(w.t, answer.Query()["iss"], "this server does not say who it is")
	return answer.Query()
}

// depart goes as far as the provider's door.
func (w *world) depart(req connection.BeginRequest) connection.Departure {
	w.t.Helper()
	req.Provider = "tickets"
	link, err := w.m.Begin(w.t.Context(), w.alice, &req)
	require.NoError(w.t, err)
	d, err := w.m.Open(w.t.Context(), w.alice, link.ID)
	require.NoError(w.t, err)
	return d
}

// connect goes the whole way.
func (w *world) connect(req connection.BeginRequest) (connection.Outcome, error) {
	w.t.Helper()
	d := w.depart(req)
	return w.m.Callback(w.t.Context(), w.alice, d.Browser, w.browse(d.URL, first))
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
		get("tickets.get", read), get("tickets.more", more))
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

// record is the one that is stored.
func (w *world) record() connection.Record {
	w.t.Helper()
	list, err := w.store.List(w.t.Context(), &connection.Query{Tenant: "acme", Limit: 10})
	require.NoError(w.t, err)
	require.Len(w.t, list, 1)
	return list[0]
}

// C1 C3 C5 C8: connect, call, refresh, extend the scopes, disconnect, refused
// afterwards, at a server that is lax where oidc-provider is strict.
// H2-01 H2-07 H2-11 H2-17 H2-24 H2-30 H2-53 H2-95: PKCE, an issuer that is not
// advertised and not sent, the redirect URI, the resource, the rotation, a secret
// with odd characters, and the revocation, the refresh token first.
func TestSecondHop_C1_C3_C5_C8(t *testing.T) {
	w := newWorld(t)
	inv := w.invoker(w.m)
	require.Equal(t, toolresult.ConnectionRequired, toolresult.Code(w.call(inv, "tickets.get").Err()))
	out, err := w.connect(connection.BeginRequest{Scopes: []string{read}})
	require.NoError(t, err)
	require.Equal(t, firstID, out.Connection.Account)
	require.Equal(t, []string{read, "offline_access", "openid"}, out.Connection.Scopes)
	require.False(t, out.Connection.NoRefresh)
	codes := w.srv.grants("authorization_code")
	require.Len(t, codes, 1)
	require.NotEmpty(t, codes[0].form.Get("code_verifier"))
	require.Equal(t, redirect, codes[0].form.Get("redirect_uri"))
	require.Equal(t, resource, codes[0].form.Get("resource"), "it is sent, although this server does not care")
	r := w.call(inv, "tickets.get")
	require.NoError(t, r.Err())
	require.JSONEq(t, `{"id":"7","sub":"id1"}`, string(r.Data))

	old := w.last.Load().(string)
	w.refuse.Store(true) // a 401: the token is renewed, and the read sent once more
	require.NoError(t, w.call(inv, "tickets.get").Err())
	for _, m := range []*connection.Manager{w.m, w.manager(), w.manager()} {
		require.NoError(t, w.call(w.invoker(m), "tickets.get").Err())
	}
	require.NotEqual(t, old, w.last.Load())
	_, ok := w.active(old)
	require.False(t, ok, "this server ends the access token when the refresh token rotates")
	spent := w.srv.grants("refresh_token")
	require.Len(t, spent, 1, "one refresh for all processes")
	require.Equal(t, resource, spent[0].form.Get("resource"))
	require.Equal(t, http.StatusBadRequest, w.srv.refresh(t, spent[0].form.Get("refresh_token")), "it works once")
	require.NoError(t, w.call(inv, "tickets.get").Err(), "and this server leaves the grant alone")
	rec := w.record()
	rec.RefreshAt = time.Now().Add(-time.Second) // due
	_, err = w.store.CompareAndSwap(t.Context(), rec)
	require.NoError(t, err)
	require.NoError(t, w.call(inv, "tickets.get").Err())
	again := w.srv.grants("refresh_token")
	require.Len(t, again, 3)
	require.Equal(t, http.StatusOK, again[2].status)
	require.NotEqual(t, spent[0].form.Get("refresh_token"), again[2].form.Get("refresh_token"), "the new one was stored")

	r = w.call(inv, "tickets.more")
	require.Equal(t, toolresult.InsufficientScope, toolresult.Code(r.Err()))
	require.Equal(t, []string{more}, r.Error.Connect.Missing)
	extended, err := w.connect(connection.BeginRequest{Connection: out.Connection.ID, Scopes: []string{more}})
	require.NoError(t, err)
	require.Equal(t, out.Connection.ID, extended.Connection.ID)
	require.Equal(t, []string{read, "offline_access", "openid", more}, extended.Connection.Scopes)
	require.NoError(t, w.call(inv, "tickets.more").Err())
	require.NoError(t, w.call(inv, "tickets.get").Err())

	w.srv.mu.Lock()
	before := len(w.srv.revoked)
	w.srv.mu.Unlock()
	gone, err := w.m.Disconnect(t.Context(), w.alice, out.Connection.ID)
	require.NoError(t, err)
	require.Equal(t, connection.Disconnected, gone.State)
	require.Equal(t, connection.StepDone, gone.Disconnection.Remote)
	w.srv.mu.Lock()
	revoked := w.srv.revoked[before:]
	w.srv.mu.Unlock()
	require.NotEmpty(t, revoked)
	require.Equal(t, "refresh_token", revoked[0].form.Get("token_type_hint"))
	for _, x := range revoked {
		require.Equal(t, http.StatusOK, x.status)
	}
	_, ok = w.active(w.last.Load().(string))
	require.False(t, ok, "the access token is over at the server")
	require.Equal(t, http.StatusBadRequest, w.srv.refresh(t, revoked[0].form.Get("token")), "and so is the refresh token")
	require.Equal(t, toolresult.ConnectionRequired, toolresult.Code(w.call(inv, "tickets.get").Err()))

	anew, err := w.connect(connection.BeginRequest{Scopes: []string{read}})
	require.NoError(t, err, "and it can be connected anew")
	require.NotEqual(t, out.Connection.ID, anew.Connection.ID)
	require.NoError(t, w.call(inv, "tickets.get").Err())
}

// H2-04 H2-12 H2-13: an answer is acted on once; a code of somebody else's is
// refused by the server, and connects nothing.
func TestCodes_H2_04_H2_12_H2_13(t *testing.T) {
	w := newWorld(t)
	mine, other := w.depart(connection.BeginRequest{Scopes: []string{read}}), w.depart(connection.BeginRequest{Scopes: []string{read}})
	good, stolen := w.browse(mine.URL, first), w.browse(other.URL, second)
	_, err := w.m.Callback(t.Context(), w.alice, mine.Browser, url.Values{"state": good["state"], "code": stolen["code"]})
	require.ErrorIs(t, err, toolresult.ProviderError)
	_, err = w.m.Callback(t.Context(), w.alice, mine.Browser, good)
	require.Error(t, err, "the transaction is over")
	codes := w.srv.grants("authorization_code")
	require.Len(t, codes, 1)
	require.Equal(t, http.StatusBadRequest, codes[0].status)
	list, err := w.m.Connections(t.Context(), w.alice)
	require.NoError(t, err)
	require.Empty(t, list)
}

// H2-07: an issuer that was not announced is compared all the same.
func TestIssuer_H2_07(t *testing.T) {
	w := newWorld(t)
	d := w.depart(connection.BeginRequest{Scopes: []string{read}})
	q := w.browse(d.URL, first)
	q.Set("iss", w.srv.issuer+"/")
	_, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
	require.Error(t, err)
	require.Empty(t, w.srv.grants("authorization_code"), "no code was sent")

	d = w.depart(connection.BeginRequest{Scopes: []string{read}})
	q = w.browse(d.URL, first)
	q.Set("iss", w.srv.issuer)
	_, err = w.m.Callback(t.Context(), w.alice, d.Browser, q)
	require.NoError(t, err)
}

// H2-49 H2-53: the answer to a refresh is lost after the server acted, and this
// server has ended the old access token with it. There is one late retry, and the
// user is told that the outcome was unknown.
func TestLostAnswer_H2_49_H2_53(t *testing.T) {
	w := newWorld(t)
	_, err := w.connect(connection.BeginRequest{Scopes: []string{read}})
	require.NoError(t, err)
	inv := w.invoker(w.m)
	require.NoError(t, w.call(inv, "tickets.get").Err())
	w.srv.drop.Store(true)
	rec := w.record()
	rec.RefreshAt = time.Now().Add(-time.Second) // due
	_, err = w.store.CompareAndSwap(t.Context(), rec)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		w.call(inv, "tickets.get")
		return w.record().State == connection.Reauthorize
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, connection.ReasonUnknown, w.record().Reason)
	for range 5 {
		require.Equal(t, toolresult.ConnectionRequired, toolresult.Code(w.call(inv, "tickets.get").Err()))
	}
	sent := w.srv.grants("refresh_token")
	require.Len(t, sent, 2, "one, and one late retry")
	require.Equal(t, http.StatusOK, sent[0].status)
	require.Equal(t, http.StatusBadRequest, sent[1].status)
}
