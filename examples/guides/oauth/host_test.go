package oauth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer/bearertest"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/oauth"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

const resource = "http://127.0.0.1/mcp"

// world is the host between two authorization servers: one for callers, one of
// the provider. It lives in a bubble, where hours pass at once.
type world struct {
	t        *testing.T
	mux      *http.ServeMux
	callers  *bearertest.Server
	provider *authserver.Server
	cookies  []*http.Cookie
}

func at(name, path string) egress.Profile {
	return egress.Profile{Name: name, BaseURL: "http://127.0.0.1" + path, Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, callers: bearertest.New(t), provider: authserver.New(&authserver.Options{Issuer: "http://127.0.0.1", AccessFor: time.Minute})}
	w.provider.AddClient(authserver.Client{ID: "agents", Secret: "s3cret", Redirects: []string{"http://localhost/callback/rooms"}})
	api, eg := egresstest.Serve(t, http.HandlerFunc(w.serve))
	api.Name = "rooms"
	keys, err := credential.NewKeyring("k1", map[string][]byte{"k1": bytes.Repeat([]byte("k"), 32)})
	require.NoError(t, err)
	rooms := oauth.Rooms("http://127.0.0.1", at, api, eg, func(context.Context) ([]byte, error) { return []byte("s3cret"), nil })
	accounts, err := connection.New(&connection.Memory{}, keys, []*connection.Provider{rooms},
		&connection.Options{ConnectURL: func(id string) string { return "http://localhost/connect/" + id }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, accounts.Close(context.Background())) })
	b, err := oauth.FirstHop(resource, w.callers.Issuer, w.callers.Keys(), w.callers.Egress())
	require.NoError(t, err)
	signIn := authz.NewAuthority("the pages")
	session := func(r *http.Request) (authz.Principal, error) { // a real one reads its own cookie
		return signIn.Principal(authz.Identity{Tenant: "acme", Issuer: w.callers.Issuer, Subject: r.Header.Get("Test-User")})
	}
	audit := connector.AuditFunc(func(context.Context, *connector.AuditEvent) error { return nil })
	w.mux, err = oauth.Mount(b, authztest.AllowAsked(), accounts, api, eg, audit, session)
	require.NoError(t, err)
	return w
}

// serve is the provider: its authorization server, and an API that takes its
// tokens and no others.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/me" && r.URL.Path != "/mine" {
		w.provider.ServeHTTP(rw, r)
		return
	}
	token, ok := w.provider.Bearer(r)
	switch {
	case !ok:
		rw.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/me":
		_ = json.NewEncoder(rw).Encode(map[string]string{"id": token.User.ID, "company": token.User.Org})
	default:
		_ = json.NewEncoder(rw).Encode([]oauth.Booking{{Title: "review of " + token.User.ID}})
	}
}

// call is a tools/call with an access token.
func (w *world) call(token string) (int, string, http.Header) {
	w.t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"my_bookings","arguments":{},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	r := httptest.NewRequest(http.MethodPost, resource, strings.NewReader(body)).WithContext(w.t.Context())
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "my_bookings"} {
		r.Header.Set(name, value)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	rw := httptest.NewRecorder()
	w.mux.ServeHTTP(rw, r)
	return rw.Code, rw.Body.String(), rw.Header()
}

// browse is a request of a user's browser at the pages.
func (w *world) browse(user, method, path string, form url.Values) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(form.Encode())).WithContext(w.t.Context())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Test-User", user)
	for _, c := range w.cookies {
		r.AddCookie(c)
	}
	rw := httptest.NewRecorder()
	w.mux.ServeHTTP(rw, r)
	w.cookies = append(w.cookies, rw.Result().Cookies()...)
	return rw
}

// The whole way of a caller: no token, too few scopes, no account, consent, a
// call, a renewal, the end. A1 C1 C3 C5 C6 C8.
func TestBothHops_A1_C1_C3_C5_C6_C8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		status, _, header := w.call("")
		require.Equal(t, 401, status)
		require.Equal(t, `Bearer resource_metadata="http://127.0.0.1/.well-known/oauth-protected-resource/mcp", scope="mcp rooms.read"`, header.Get("WWW-Authenticate"))
		status, _, header = w.call(w.callers.Token(resource, "alice", "mcp"))
		require.Equal(t, 403, status)
		require.Contains(t, header.Get("WWW-Authenticate"), `error="insufficient_scope"`)
		status, _, _ = w.call(w.callers.Token("https://another.example/mcp", "alice", "mcp", "rooms.read"))
		require.Equal(t, 401, status, "a token for another server")
		token := w.callers.Token(resource, "alice", "mcp", "rooms.read")

		// The first hop is good; at the second there is no account yet.
		status, body, _ := w.call(token)
		require.Equal(t, 200, status)
		require.Contains(t, body, "CONNECTION_REQUIRED")
		_, rest, ok := strings.Cut(body, "http://localhost/connect/")
		require.True(t, ok, "the result has the link to the page: %s", body)
		page := "/connect/" + rest[:strings.IndexAny(rest, `"\ `)]
		require.Equal(t, 404, w.browse("mallory", http.MethodGet, page, nil).Code, "nobody else's link")
		require.Equal(t, 200, w.browse("alice", http.MethodGet, page, nil).Code)
		went := w.browse("alice", http.MethodPost, page, url.Values{"do": {"connect"}})
		to, ok := strings.CutPrefix(went.Header().Get("Refresh"), "0; url=")
		require.True(t, ok)
		back, err := w.provider.Consent(to, authserver.User{ID: "ann", Org: "acme-rooms"}, nil)
		require.NoError(t, err)
		require.Equal(t, 200, w.browse("alice", http.MethodGet, "/callback/rooms?"+back.Encode(), nil).Code)
		_, body, _ = w.call(token)
		require.Contains(t, body, "review of ann")

		// The access token of the provider is over after a minute; nobody notices.
		time.Sleep(2 * time.Minute)
		_, body, _ = w.call(w.callers.Token(resource, "alice", "mcp", "rooms.read"))
		require.Contains(t, body, "review of ann")
		require.Equal(t, 1, w.provider.Count("issued refresh_token"))

		// Alice disconnects.
		list := w.browse("alice", http.MethodGet, "/connect/", nil).Body.String()
		_, rest, ok = strings.Cut(list, `href="/connect/accounts/`)
		require.True(t, ok, list)
		account, _, _ := strings.Cut(rest, `"`)
		over := w.browse("alice", http.MethodPost, "/connect/accounts/"+account, url.Values{"do": {"disconnect"}})
		require.Contains(t, over.Body.String(), "The provider has confirmed that the access is revoked")
		access, refresh := w.provider.Live("ann")
		require.Zero(t, access+refresh, "nothing is good at the provider")
		_, body, _ = w.call(w.callers.Token(resource, "alice", "mcp", "rooms.read"))
		require.Contains(t, body, "CONNECTION_REQUIRED")
	})
}
