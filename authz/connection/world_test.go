package connection_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clientSecret = "CANARY-client-secret-51c0"
	callback     = "http://localhost/callback/tickets"
	origin       = "http://provider.test:80"
)

// world is a host with one provider: an authorization server and an API behind
// the same pipe. It lives in a synctest bubble, so that hours pass at once.
type world struct {
	t     testing.TB
	as    *authserver.Server
	store *flaky
	keys  *credential.Keyring
	m     *connection.Manager
	prov  *connection.Provider
	opts  connection.Options
	alice authz.Principal
	host  *authz.Authority
	logs  bytes.Buffer

	mu   sync.Mutex
	api  []string          // Authorization headers that the API saw
	wire map[string]string // everything that was sent, by host
	eg   *egress.Options
}

type setup struct {
	as       *authserver.Options
	provider func(*connection.Provider)
	opts     func(*connection.Options)
	api      http.HandlerFunc
}

func loopback(path string) egress.Profile {
	return egress.Profile{Name: "as", BaseURL: "http://127.0.0.1" + path, Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func ring(t testing.TB, current string, ids ...string) *credential.Keyring {
	t.Helper()
	keys := map[string][]byte{}
	for _, id := range append(ids, current) {
		keys[id] = bytes.Repeat([]byte(id[len(id)-1:]), 32)
	}
	k, err := credential.NewKeyring(current, keys)
	require.NoError(t, err)
	return k
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, s setup, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, s)) })
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{t: t, store: &flaky{Store: &connection.Memory{}}, keys: ring(t, "k1"), wire: map[string]string{}}
	if s.as == nil {
		s.as = &authserver.Options{}
	}
	if s.as.Issuer == "" {
		s.as.Issuer = "http://127.0.0.1"
	}
	w.as = authserver.New(s.as)
	w.as.AddClient(authserver.Client{ID: "host", Secret: clientSecret, Redirects: []string{callback}})
	w.alice, w.host = authztest.Principal(t, "acme", "alice")
	_, w.eg = egresstest.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		w.wire[r.Host] += fmt.Sprintln(r.Method, r.URL, r.Header, string(body))
		w.mu.Unlock()
		if r.Host != "provider.test" {
			w.as.ServeHTTP(rw, r)
			return
		}
		w.mu.Lock()
		w.api = append(w.api, r.Header.Get("Authorization"))
		w.mu.Unlock()
		if r.URL.Path == "/userinfo" || s.api == nil {
			w.as.ServeHTTP(rw, r)
			return
		}
		s.api(rw, r)
	}))
	w.prov = &connection.Provider{
		Name: "tickets", Title: "Tickets", Grant: connection.AuthorizationCode, Connectors: []string{"tickets"},
		Issuer: s.as.Issuer, SendsIssuer: true, S256: true,
		AuthorizationEndpoint: "http://127.0.0.1/authorize", RedirectURI: callback,
		Token: loopback("/token"), Revocation: loopback("/revoke"),
		ClientID: "host", ClientAuth: connection.SecretBasic,
		Secret: func(context.Context) ([]byte, error) { return []byte(clientSecret), nil },
		Scopes: []string{"read", "write", "admin"}, ExpectRefresh: true,
		API: egresstest.Profile(), Confirm: whoami, Egress: w.eg,
	}
	if s.provider != nil {
		s.provider(w.prov)
	}
	w.opts = connection.Options{ConnectURL: func(id string) string { return "https://host.test/connect/" + id },
		Log: slog.New(slog.NewJSONHandler(&lockedWriter{w: &w.logs}, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if s.opts != nil {
		s.opts(&w.opts)
	}
	w.m = w.manager()
	return w
}

// sent is every byte that went to a host.
func (w *world) sent(host string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wire[host]
}

type lockedWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// manager is another process on the same store.
func (w *world) manager() *connection.Manager {
	w.t.Helper()
	m, err := connection.New(w.store, w.keys, []*connection.Provider{w.prov}, &w.opts)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, m.Close(context.Background())) })
	return m
}

// whoami confirms an account at the test's provider.
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
	var body struct{ Sub, Org string }
	if resp.StatusCode != http.StatusOK {
		return connection.Account{}, errors.New("not confirmed")
	}
	err = json.NewDecoder(resp.Body).Decode(&body)
	return connection.Account{ID: body.Sub, Org: body.Org, Label: body.Sub + "@" + body.Org}, err
}

var ann = authserver.User{ID: "ann", Org: "org-1"}

// depart begins and opens a transaction of alice.
func (w *world) depart(req connection.BeginRequest) connection.Departure {
	w.t.Helper()
	if req.Provider == "" {
		req.Provider = "tickets"
	}
	link, err := w.m.Begin(w.t.Context(), w.alice, &req)
	require.NoError(w.t, err)
	d, err := w.m.Open(w.t.Context(), w.alice, link.ID)
	require.NoError(w.t, err)
	return d
}

func (w *world) consent(d connection.Departure, u authserver.User, c *authserver.Consents) url.Values {
	w.t.Helper()
	q, err := w.as.Consent(d.URL, u, c)
	require.NoError(w.t, err)
	return q
}

// connect connects ann's account for alice.
func (w *world) connect(scopes ...string) connection.Connection {
	w.t.Helper()
	d := w.depart(connection.BeginRequest{Scopes: scopes})
	out, err := w.m.Callback(w.t.Context(), w.alice, d.Browser, w.consent(d, ann, nil))
	require.NoError(w.t, err)
	return out.Connection
}

func (w *world) record(id string) connection.Record {
	w.t.Helper()
	r, err := w.store.Get(w.t.Context(), "acme", id)
	require.NoError(w.t, err)
	return r
}

func (w *world) ask(scopes ...string) *credential.ResolveRequest {
	return &credential.ResolveRequest{Principal: w.alice, Connector: "tickets", Capability: "tickets.get", Call: "c1", Run: "r1", Mode: "oauth2", Scopes: scopes}
}

func (w *world) resolve(m *connection.Manager, scopes ...string) (credential.Resolved, error) {
	return m.Resolve(w.t.Context(), w.ask(scopes...))
}

// use resolves, applies, and returns the access token that went on the request.
func (w *world) use(m *connection.Manager) (string, error) {
	r, err := w.resolve(m)
	if err != nil {
		return "", err
	}
	return w.apply(m, r.Handle)
}

func (w *world) apply(m *connection.Manager, h credential.Handle) (string, error) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://provider.test/tickets", nil)
	require.NoError(w.t, err)
	if err := m.Apply(w.t.Context(), h, origin, req); err != nil {
		require.Empty(w.t, req.Header, "a request that is refused is left as it was")
		return "", err
	}
	return req.Header.Get("Authorization")[len("Bearer "):], nil
}

// flaky is a store that fails when it is told to.
type flaky struct {
	connection.Store
	mu    sync.Mutex
	fails int                          // swaps that fail before they are made
	after int                          // swaps that fail after they were made
	only  func(connection.Record) bool // which; nil: all
}

var errDisk = errors.New("disk full")

func (f *flaky) CompareAndSwap(ctx context.Context, r connection.Record) (connection.Record, error) {
	f.mu.Lock()
	fits := f.only == nil || f.only(r)
	before, after := fits && f.fails > 0, fits && f.fails == 0 && f.after > 0
	if before {
		f.fails--
	} else if after {
		f.after--
	}
	f.mu.Unlock()
	if before {
		return connection.Record{}, errDisk
	}
	next, err := f.Store.CompareAndSwap(ctx, r)
	if after && err == nil {
		return connection.Record{}, errDisk
	}
	return next, err
}

func code(err error) toolresult.ErrorCode { return toolresult.Code(err) }

func elapse(d time.Duration) { time.Sleep(d) } // in a bubble
