package authserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
)

const redirect = "https://host.test/callback"

type world struct {
	t  *testing.T
	as *authserver.Server
}

func newWorld(t *testing.T, opts *authserver.Options) *world {
	as := authserver.New(opts)
	as.AddClient(authserver.Client{ID: "host", Secret: "s", Redirects: []string{redirect}})
	as.AddClient(authserver.Client{ID: "other", Secret: "s", Redirects: []string{redirect}})
	return &world{t, as}
}

func (w *world) post(path, client string, form url.Values) (int, map[string]any) {
	w.t.Helper()
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(client, "s")
	rec := httptest.NewRecorder()
	w.as.ServeHTTP(rec, req)
	var body map[string]any
	_ = json.Unmarshal(rec.Body.Bytes(), &body)
	return rec.Code, body
}

// code asks for consent with the verifier and returns the code.
func (w *world) code(verifier string) string {
	w.t.Helper()
	c := oauth2.Config{ClientID: "host", RedirectURL: redirect, Scopes: []string{"read"}, Endpoint: oauth2.Endpoint{AuthURL: "https://as.test/authorize"}}
	q, err := w.as.Consent(c.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)), authserver.User{ID: "ann"}, nil)
	require.NoError(w.t, err)
	require.Equal(w.t, "state", q.Get("state"))
	require.Equal(w.t, "https://as.test", q.Get("iss"))
	return q.Get("code")
}

func (w *world) tokens() (access, refresh string) {
	w.t.Helper()
	v := oauth2.GenerateVerifier()
	status, body := w.post("/token", "host", url.Values{"grant_type": {"authorization_code"}, "code": {w.code(v)}, "redirect_uri": {redirect}, "code_verifier": {v}})
	require.Equal(w.t, 200, status)
	refresh, _ = body["refresh_token"].(string)
	return body["access_token"].(string), refresh
}

func renew(refresh string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}
}

// The server is as strict as its clients need it to be.
func TestStrictness(t *testing.T) {
	w := newWorld(t, nil)
	v := oauth2.GenerateVerifier()
	good := func() url.Values {
		return url.Values{"grant_type": {"authorization_code"}, "code": {w.code(v)}, "redirect_uri": {redirect}, "code_verifier": {v}}
	}
	for why, edit := range map[string]func(url.Values){
		"another verifier":     func(f url.Values) { f.Set("code_verifier", oauth2.GenerateVerifier()) },
		"no verifier":          func(f url.Values) { f.Del("code_verifier") },
		"another redirect URI": func(f url.Values) { f.Set("redirect_uri", redirect+"/") },
		"another code":         func(f url.Values) { f.Set("code", "code-x") },
	} {
		f := good()
		edit(f)
		_, body := w.post("/token", "host", f)
		require.Equal(t, "invalid_grant", body["error"], why)
	}
	_, body := w.post("/token", "other", good())
	require.Equal(t, "invalid_grant", body["error"], "another client's code")
	f := good()
	status, first := w.post("/token", "host", f)
	require.Equal(t, 200, status)
	_, body = w.post("/token", "host", f)
	require.Equal(t, "invalid_grant", body["error"], "a code works once")
	_, ok := w.as.Active(first["access_token"].(string))
	require.False(t, ok, "and the second time ends what the first gave")

	for _, bad := range []string{
		"https://as.test/authorize?response_type=code&client_id=host&redirect_uri=" + redirect + "/x",
		"https://as.test/authorize?response_type=code&client_id=nobody&redirect_uri=" + redirect,
	} {
		_, err := w.as.Consent(bad, authserver.User{ID: "ann"}, nil)
		require.Error(t, err)
	}
	q, err := w.as.Consent("https://as.test/authorize?response_type=code&client_id=host&redirect_uri="+redirect, authserver.User{ID: "ann"}, nil)
	require.NoError(t, err)
	require.Equal(t, "invalid_request", q.Get("error"), "no PKCE")
}

// Rotation, and what a second use of a refresh token costs.
func TestRotation(t *testing.T) {
	for _, row := range []struct {
		rotation authserver.Rotation
		again    bool // the old one works a second time
	}{{authserver.Strict, false}, {authserver.Grace, true}, {authserver.Never, true}} {
		w := newWorld(t, &authserver.Options{Rotation: row.rotation})
		_, old := w.tokens()
		status, second := w.post("/token", "host", renew(old))
		require.Equal(t, 200, status)
		status, _ = w.post("/token", "host", renew(old))
		require.Equal(t, row.again, status == 200)
		_, alive := w.as.Active(second["access_token"].(string))
		require.Equal(t, row.again, alive, "a strict server ends the grant")
		if row.rotation == authserver.Grace {
			next := second["refresh_token"].(string)
			status, _ = w.post("/token", "host", renew(next))
			require.Equal(t, 200, status)
			status, _ = w.post("/token", "host", renew(old))
			require.Equal(t, 400, status, "over when the new one was used")
		}
	}
}

// Revocation (RFC 7009), introspection (RFC 7662) and faults.
func TestRevocationAndFaults(t *testing.T) {
	w := newWorld(t, nil)
	access, refresh := w.tokens()
	_, body := w.post("/introspect", "host", url.Values{"token": {access}})
	require.Equal(t, true, body["active"])
	status, _ := w.post("/revoke", "other", url.Values{"token": {refresh}})
	require.Equal(t, 200, status)
	_, ok := w.as.Active(access)
	require.True(t, ok, "another client's token is left alone")
	for range 2 {
		status, _ = w.post("/revoke", "host", url.Values{"token": {refresh}})
		require.Equal(t, 200, status, "also of one that is revoked")
	}
	_, ok = w.as.Active(access)
	require.False(t, ok)
	_, body = w.post("/introspect", "host", url.Values{"token": {access}})
	require.Equal(t, map[string]any{"active": false}, body)

	_, refresh = w.tokens()
	w.as.Fail(authserver.Fault{Endpoint: "token", Grant: "refresh_token", Before: true, Status: 503})
	status, _ = w.post("/token", "host", renew(refresh))
	require.Equal(t, 503, status)
	status, _ = w.post("/token", "host", renew(refresh))
	require.Equal(t, 200, status, "it had not acted")
	_, refresh = w.tokens()
	w.as.Fail(authserver.Fault{Endpoint: "token", Grant: "refresh_token", Status: 503, Body: "%s"})
	req := w.as.Count("reuse")
	status, _ = w.post("/token", "host", renew(refresh))
	require.Equal(t, 503, status)
	status, _ = w.post("/token", "host", renew(refresh))
	require.Equal(t, 400, status, "it had acted")
	require.Equal(t, req+1, w.as.Count("reuse"))
}
