package connectpage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/connectpage"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a host with the pages, for whoever the header says, and two providers.
type site struct {
	t       *testing.T
	as      *authserver.Server
	m       *connection.Manager
	mux     *http.ServeMux
	people  map[string]authz.Principal
	failing error
	label   string
	jars    map[string]map[string]string // cookies, by browser
}

func newSite(t *testing.T, opts *connectpage.Options) *site {
	s := &site{t: t, people: map[string]authz.Principal{}, jars: map[string]map[string]string{}}
	var host *authz.Authority
	s.people["alice"], host = authztest.Principal(t, "acme", "alice")
	s.people["mallory"] = authztest.Caller(t, host, "acme", "mallory")
	s.people["stranger"] = authztest.Caller(t, host, "other", "alice")
	s.as = authserver.New(&authserver.Options{Issuer: "http://127.0.0.1"})
	s.as.AddClient(authserver.Client{ID: "host", Secret: "s", Redirects: []string{"http://localhost/callback/tickets", "http://localhost/callback/wiki"}})
	_, eg := egresstest.Serve(t, s.as)
	at := func(path string) egress.Profile {
		return egress.Profile{Name: "as", BaseURL: "http://127.0.0.1" + path, Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	}
	var providers []*connection.Provider
	for _, name := range []string{"tickets", "wiki"} {
		providers = append(providers, &connection.Provider{
			Name: name, Title: strings.ToUpper(name), Grant: connection.AuthorizationCode, Connectors: []string{name},
			Issuer: "http://127.0.0.1", SendsIssuer: true, S256: true, AuthorizationEndpoint: "http://127.0.0.1/authorize",
			RedirectURI: "http://localhost/callback/" + name, Token: at("/token"), Revocation: at("/revoke"),
			ClientID: "host", ClientAuth: connection.SecretBasic, Secret: func(context.Context) ([]byte, error) { return []byte("s"), nil },
			Scopes: []string{"read", "write"}, ExpectRefresh: true, API: at(""), Egress: eg,
			Confirm: func(context.Context, *http.Client, string) (connection.Account, error) {
				return connection.Account{ID: "ann", Org: "org-1", Label: s.label}, nil
			},
		})
	}
	keys, err := credential.NewKeyring("k1", map[string][]byte{"k1": bytes.Repeat([]byte{1}, 32)})
	require.NoError(t, err)
	s.m, err = connection.New(&connection.Memory{}, keys, providers, &connection.Options{ConnectURL: func(id string) string { return "http://localhost/connect/" + id }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.m.Close(context.Background())) })
	pages, err := connectpage.New(s.m, func(r *http.Request) (authz.Principal, error) {
		p, ok := s.people[r.Header.Get("Test-User")]
		switch {
		case s.failing != nil:
			return authz.Principal{}, s.failing
		case !ok:
			return authz.Principal{}, toolresult.NewError(toolresult.AuthenticationRequired, "nobody")
		}
		return p, nil
	}, opts)
	require.NoError(t, err)
	s.mux = http.NewServeMux()
	s.mux.Handle("/connect/", http.StripPrefix("/connect", pages))
	s.mux.Handle("/callback/tickets", pages.Callback("tickets"))
	s.mux.Handle("/callback/wiki", pages.Callback("wiki"))
	return s
}

// do is a request of a browser, in which user is signed in.
func (s *site) do(user, method, path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(form.Encode())).WithContext(s.t.Context())
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Test-User", user)
	for name, v := range s.jars[user] {
		r.AddCookie(&http.Cookie{Name: name, Value: v})
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if s.jars[user] == nil {
			s.jars[user] = map[string]string{}
		}
		s.jars[user][c.Name] = c.Value
	}
	h := w.Header()
	require.Contains(s.t, h.Get("Content-Security-Policy"), "default-src 'none'", "%s %s", method, path)
	require.Contains(s.t, h.Get("Content-Security-Policy"), "form-action 'self';")
	require.Contains(s.t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	require.Equal(s.t, "no-store", h.Get("Cache-Control"))
	require.Equal(s.t, "no-referrer", h.Get("Referrer-Policy"))
	require.NotContains(s.t, w.Body.String(), "<script")
	return w
}

func (s *site) begin(req connection.BeginRequest) string {
	s.t.Helper()
	if req.Provider == "" {
		req.Provider = "tickets"
	}
	if req.Scopes == nil && req.Connection == "" {
		req.Scopes = []string{"read"}
	}
	link, err := s.m.Begin(s.t.Context(), s.people["alice"], &req)
	require.NoError(s.t, err)
	return strings.TrimPrefix(link.URL, "http://localhost")
}

var yes = url.Values{"do": {"connect"}}

// leave goes on to the provider, and returns the query that it answers with.
func (s *site) leave(path string) string {
	s.t.Helper()
	w := s.do("alice", "POST", path, yes)
	require.Equal(s.t, 200, w.Code, w.Body)
	to, ok := strings.CutPrefix(w.Header().Get("Refresh"), "0; url=")
	require.True(s.t, ok)
	q, err := s.as.Consent(to, authserver.User{ID: "ann", Org: "org-1"}, nil)
	require.NoError(s.t, err)
	return "?" + q.Encode()
}

func (s *site) connected(user string) []connection.Connection {
	s.t.Helper()
	list, err := s.m.Connections(s.t.Context(), s.people[user])
	require.NoError(s.t, err)
	return list
}

// The whole way without a script: the page, the provider, the answer, the list,
// the end.
func TestConnectAndDisconnect_C1_C8(t *testing.T) {
	words := map[string]string{"read": "read your tickets <b>"}
	s := newSite(t, &connectpage.Options{Words: func(_, scope string) string { return words[scope] }})
	s.label = "Ann \u202e<i>"
	path := s.begin(connection.BeginRequest{Scopes: []string{"read", "write"}, Org: "org-1"})
	shown := s.do("alice", "GET", path, nil)
	require.Equal(t, 200, shown.Code)
	body := shown.Body.String()
	require.Contains(t, body, "<title>Connect TICKETS?</title>")
	require.Contains(t, body, "<li>read your tickets &lt;b&gt;</li>", "a scope in plain words")
	require.Contains(t, body, "<code>write</code> (the provider", "and one that nobody has words for, as such")
	require.Contains(t, body, "<strong>org-1</strong>")
	require.Contains(t, body, `<html lang="en">`)
	require.Empty(t, shown.Result().Cookies(), "looking begins nothing")
	require.Zero(t, s.as.Count("token"))

	q := s.leave(path)
	w := s.do("alice", "GET", "/callback/tickets"+q, nil)
	require.Equal(t, 200, w.Code, w.Body)
	require.Contains(t, w.Body.String(), `Ann \u{202e}&lt;i&gt;`, "the provider's text is text")
	require.Len(t, s.connected("alice"), 1)
	again := s.do("alice", "GET", "/callback/tickets"+q, nil)
	require.Equal(t, 200, again.Code, "the same answer once more shows what came of the first")
	require.Equal(t, 1, s.as.Count("token"))

	list := s.do("alice", "GET", "/connect/", nil).Body.String()
	m := regexp.MustCompile(`href="(/connect/accounts/[^"]+)"`).FindStringSubmatch(list)
	require.NotNil(t, m, list)
	require.Contains(t, s.do("alice", "GET", m[1], nil).Body.String(), "Disconnect this account")
	over := s.do("alice", "POST", m[1], url.Values{"do": {"disconnect"}})
	require.Equal(t, 200, over.Code)
	for _, part := range []string{"No more calls are made", "The provider has confirmed that the access is revoked", "What was stored because of this account is removed"} {
		require.Contains(t, over.Body.String(), part)
	}
	access, refresh := s.as.Live("ann")
	require.Zero(t, access+refresh)
	require.Empty(t, s.connected("alice"))
	require.Equal(t, 404, s.do("alice", "POST", m[1], url.Values{"do": {"disconnect"}}).Code)
	require.Contains(t, s.do("alice", "GET", "/connect/", nil).Body.String(), "no accounts")
}

// H2-05 H2-78: a link works for the user it was made for, and its answer in the
// browser in which it was followed. Nothing is sent for anybody else.
func TestSomebodyElse_H2_05_H2_78(t *testing.T) {
	s := newSite(t, nil)
	path := s.begin(connection.BeginRequest{})
	for _, user := range []string{"mallory", "stranger"} {
		for _, w := range []*httptest.ResponseRecorder{s.do(user, "GET", path, nil), s.do(user, "POST", path, yes)} {
			require.Equal(t, 404, w.Code, user)
			require.Empty(t, w.Result().Cookies())
			require.NotContains(t, w.Body.String(), "TICKETS", "nor is it said what the link is for")
		}
		nobody := s.do(user, "GET", "/connect/NOLINK", nil)
		require.Equal(t, nobody.Body.String(), s.do(user, "GET", path, nil).Body.String(), "as if there were none")
	}
	q := s.leave(path)
	for _, user := range []string{"mallory", "stranger"} {
		s.jars[user] = s.jars["alice"] // the cookie, too
		require.Equal(t, 404, s.do(user, "GET", "/callback/tickets"+q, nil).Code, user)
		require.Empty(t, s.connected(user))
	}
	cookies := s.jars["alice"]
	for why, jar := range map[string]map[string]string{"no cookie": nil, "another's": {"__Host-drawbridge-connect-0000000000000000": "x"}} {
		s.jars["alice"] = jar
		require.Equal(t, 404, s.do("alice", "GET", "/callback/tickets"+q, nil).Code, why)
	}
	require.Zero(t, s.as.Count("token"), "no code was sent")
	s.jars["alice"] = cookies
	require.Equal(t, 200, s.do("alice", "GET", "/callback/tickets"+q, nil).Code, "alice's own answer is as good as before")
	id := s.connected("alice")[0].ID
	for _, user := range []string{"mallory", "stranger"} {
		require.Equal(t, 404, s.do(user, "GET", "/connect/accounts/"+id, nil).Code)
		require.Equal(t, 404, s.do(user, "POST", "/connect/accounts/"+id, url.Values{"do": {"disconnect"}}).Code)
	}
	require.Len(t, s.connected("alice"), 1)
}

// H2-15: what a browser loads ahead, and what a program asks with HEAD, uses up
// nothing.
func TestLoadedAhead_H2_15(t *testing.T) {
	s := newSite(t, nil)
	path := s.begin(connection.BeginRequest{})
	q := s.leave(path)
	for _, h := range [][2]string{{"Sec-Purpose", "prefetch"}, {"Sec-Purpose", "prefetch;prerender"}, {"Purpose", "prefetch"}, {"X-Moz", "prefetch"}} {
		for _, p := range []string{path, "/callback/tickets" + q} {
			require.Equal(t, 204, s.do("alice", "GET", p, nil, h[0], h[1]).Code)
		}
	}
	for _, method := range []string{"HEAD", "POST", "OPTIONS", "PUT"} {
		require.Equal(t, 405, s.do("alice", method, "/callback/tickets"+q, nil).Code, method)
	}
	require.Zero(t, s.as.Count("token"))
	require.Equal(t, 200, s.do("alice", "GET", "/callback/tickets"+q, nil).Code)
}

// Another site cannot begin, nor end, anything.
func TestOtherOrigins_H2_05(t *testing.T) {
	s := newSite(t, nil)
	path := s.begin(connection.BeginRequest{})
	for _, h := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.test"}} {
		w := s.do("alice", "POST", path, yes, h[0], h[1])
		require.Equal(t, 403, w.Code, h)
		require.Empty(t, w.Result().Cookies())
	}
	s.do("alice", "GET", "/callback/tickets"+s.leave(path), nil)
	id := s.connected("alice")[0].ID
	require.Equal(t, 403, s.do("alice", "POST", "/connect/accounts/"+id, url.Values{"do": {"disconnect"}}, "Sec-Fetch-Site", "cross-site").Code)
	require.Len(t, s.connected("alice"), 1)
}

// The cookie is this browser's, this origin's and this transaction's.
func TestCookie_H2_05(t *testing.T) {
	s := newSite(t, nil)
	one, two := s.begin(connection.BeginRequest{}), s.begin(connection.BeginRequest{Provider: "wiki"})
	w := s.do("alice", "POST", one, yes)
	line := w.Header().Get("Set-Cookie")
	for _, part := range []string{"__Host-", "; Path=/;", "; HttpOnly", "; Secure", "; SameSite=Lax", "Max-Age="} {
		require.Contains(t, line, part)
	}
	require.NotContains(t, line, "Domain")
	q1, q2 := s.leave(one), s.leave(two)
	require.Equal(t, 200, s.do("alice", "GET", "/callback/tickets"+q1, nil).Code, "two that are open side by side")
	require.Equal(t, 200, s.do("alice", "GET", "/callback/wiki"+q2, nil).Code)
	require.Len(t, s.connected("alice"), 2)
}

// H2-11 H2-10: an answer at another provider's address is refused before
// anything is sent.
func TestOtherAddress_H2_10_H2_11(t *testing.T) {
	s := newSite(t, nil)
	q := s.leave(s.begin(connection.BeginRequest{}))
	w := s.do("alice", "GET", "/callback/wiki"+q, nil)
	require.Equal(t, 403, w.Code)
	require.Contains(t, w.Body.String(), "another provider")
	require.Zero(t, s.as.Count("token"))
	require.Empty(t, s.connected("alice"))
}

// H2-14: after the callback the user goes where the link said when it was made,
// and nowhere that a request says.
func TestReturn_H2_14(t *testing.T) {
	s := newSite(t, nil)
	q := s.leave(s.begin(connection.BeginRequest{ReturnTo: "/tasks/7"}))
	w := s.do("alice", "GET", "/callback/tickets"+q+"&return_to=https://evil.test&ReturnTo=//evil.test", nil)
	require.Equal(t, 303, w.Code)
	require.Equal(t, "/tasks/7", w.Header().Get("Location"))
}

// H2-08: what an answer says in words is nobody's to show; an error of another
// issuer is not acted on.
func TestErrors_H2_07_H2_08(t *testing.T) {
	for _, row := range []struct {
		why, iss, errorCode, shows string
		status                     int
	}{
		{"the user says no", "http://127.0.0.1", "access_denied", "Consent was not given", 403},
		{"an error of another issuer", "https://evil.test", "access_denied", "does not come from the provider", 403},
		{"no issuer where one is promised", "", "access_denied", "does not come from the provider", 403},
		{"an unknown error", "http://127.0.0.1", "server_error", "did not connect the account", 502},
	} {
		s := newSite(t, nil)
		q, err := url.ParseQuery(s.leave(s.begin(connection.BeginRequest{}))[1:])
		require.NoError(t, err)
		bad := url.Values{"state": q["state"], "error": {row.errorCode}, "error_description": {"CANARY call +1 555"}, "error_uri": {"https://CANARY.test"}}
		if row.iss != "" {
			bad.Set("iss", row.iss)
		}
		w := s.do("alice", "GET", "/callback/tickets?"+bad.Encode(), nil)
		require.Equal(t, row.status, w.Code, row.why)
		require.Contains(t, w.Body.String(), row.shows, row.why)
		require.NotContains(t, w.Body.String(), "CANARY", row.why)
		require.Zero(t, s.as.Count("token"), row.why)
		require.Empty(t, s.connected("alice"), row.why)
	}
}

// H2-76: what is already allowed and what would be new are told apart, and no
// leaves everything as it was.
func TestExtend_H2_76(t *testing.T) {
	s := newSite(t, nil)
	s.do("alice", "GET", "/callback/tickets"+s.leave(s.begin(connection.BeginRequest{})), nil)
	c := s.connected("alice")[0]
	path := s.begin(connection.BeginRequest{Connection: c.ID, Scopes: []string{"write"}})
	body := s.do("alice", "GET", path, nil).Body.String()
	would, already, ok := strings.Cut(body, "It already is allowed to")
	require.True(t, ok)
	require.Contains(t, would, "<code>write</code>")
	require.NotContains(t, would, "<code>read</code>")
	require.Contains(t, already, "<code>read</code>")
	w := s.do("alice", "POST", path, url.Values{"do": {"no"}})
	require.Contains(t, w.Body.String(), "Not connected")
	require.Empty(t, w.Header().Get("Refresh"))
	require.Equal(t, []string{"read"}, s.connected("alice")[0].Scopes)
	s.do("alice", "GET", "/callback/tickets"+s.leave(path), nil)
	require.Equal(t, []string{"read", "write"}, s.connected("alice")[0].Scopes)
	require.Equal(t, 410, s.do("alice", "GET", path, nil).Code, "a link that was used is over")
}

// Without a session, and without an answer about the session, nothing happens.
func TestNotSignedIn(t *testing.T) {
	s := newSite(t, nil)
	path := s.begin(connection.BeginRequest{})
	q := s.leave(path)
	for _, p := range []string{path, "/connect/", "/callback/tickets" + q, "/connect/accounts/x"} {
		require.Equal(t, 401, s.do("", "GET", p, nil).Code, p)
	}
	s.failing = errors.New("CANARY dial tcp 10.0.0.5")
	w := s.do("alice", "GET", "/callback/tickets"+q, nil)
	require.Equal(t, 503, w.Code)
	require.NotContains(t, w.Body.String(), "CANARY")
	s.failing = nil
	require.Equal(t, 200, s.do("alice", "GET", "/callback/tickets"+q, nil).Code, "the answer is as good as before")
	s = newSite(t, &connectpage.Options{SignIn: "/login"})
	w = s.do("", "GET", s.begin(connection.BeginRequest{}), nil)
	require.Equal(t, 303, w.Code)
	require.Equal(t, "/login", w.Header().Get("Location"))
	s.people["alice"] = authz.Principal{}
	require.Equal(t, 303, s.do("alice", "GET", "/connect/", nil).Code, "a host that says nobody and no error")
}

// What is not a form of these pages changes nothing.
func TestOddForms(t *testing.T) {
	s := newSite(t, nil)
	path := s.begin(connection.BeginRequest{})
	s.do("alice", "GET", "/callback/tickets"+s.leave(path), nil)
	account := "/connect/accounts/" + s.connected("alice")[0].ID
	for _, form := range []url.Values{nil, {}, {"do": {"disconnect", "disconnect"}}, {"do": {"delete"}}, {"do": {strings.Repeat("x", 5000)}}} {
		require.Equal(t, 400, s.do("alice", "POST", account, form).Code, fmt.Sprint(form)[:min(40, len(fmt.Sprint(form)))])
	}
	require.Equal(t, 400, s.do("alice", "POST", account+"?do=disconnect", url.Values{}).Code, "an address is no form")
	require.Len(t, s.connected("alice"), 1)
	for _, q := range []string{"", "?state=", "?state=.", "?state=a.b&state=c.d", "?code=x", "?state=%00.%ff", "?%zz"} {
		require.Equal(t, 404, s.do("alice", "GET", "/callback/tickets"+q, nil).Code, q)
	}
	require.Equal(t, 1, s.as.Count("token"))
}

// The words about a disconnect say what is known, and no more.
func TestStepsAreTrue_H2_95_H2_96(t *testing.T) {
	s := newSite(t, nil)
	s.do("alice", "GET", "/callback/tickets"+s.leave(s.begin(connection.BeginRequest{})), nil)
	s.as.Fail(authserver.Fault{Endpoint: "revoke", Before: true, Status: 503, Times: -1})
	account := "/connect/accounts/" + s.connected("alice")[0].ID
	body := s.do("alice", "POST", account, url.Values{"do": {"disconnect"}}).Body.String()
	require.Contains(t, body, "No more calls are made")
	require.Contains(t, body, "has not confirmed yet")
	require.NotContains(t, body, "has confirmed")
	require.NotContains(t, body, "Connect it again")
	require.Contains(t, s.do("alice", "GET", account, nil).Body.String(), "has not confirmed yet", "it stays on the page")
}

func TestNew(t *testing.T) {
	_, err := connectpage.New(nil, nil, nil)
	require.Error(t, err)
}

// The pages beside the host's own.
func ExampleNew() {
	session := func(*http.Request) (authz.Principal, error) { return authz.Principal{}, nil } // the host's own
	var m connection.Manager                                                                  // of connection.New
	pages, err := connectpage.New(&m, session, &connectpage.Options{
		Words: func(_, scope string) string { return map[string]string{"tickets.read": "read your tickets"}[scope] },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/connect/", http.StripPrefix("/connect", pages))
	mux.Handle("/callback/tickets", pages.Callback("tickets"))
	fmt.Println("ready")
	// Output: ready
}
