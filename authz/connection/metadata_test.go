package connection_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

const wellKnown = "/.well-known/oauth-authorization-server"

// H2-02 H2-09 (cases O-10, O-11): metadata count if they are of the issuer that
// was asked for, byte for byte, and say S256.
func TestDiscover_H2_02_H2_09_O_10_O_11(t *testing.T) {
	as := authserver.New(&authserver.Options{Issuer: "http://127.0.0.1"})
	for _, row := range []struct {
		why, issuer string
		edit        func(map[string]any)
		says        string
	}{
		{"as it is", "http://127.0.0.1", nil, ""},
		{"a slash more", "http://127.0.0.1/", nil, "byte for byte"},
		{"another case", "http://127.0.0.1", func(m map[string]any) { m["issuer"] = "HTTP://127.0.0.1" }, "byte for byte"},
		{"the root's document for a path", "http://127.0.0.1/tenant", nil, "byte for byte"},
		{"no issuer", "http://127.0.0.1", func(m map[string]any) { delete(m, "issuer") }, "byte for byte"},
		{"no PKCE methods", "http://127.0.0.1", func(m map[string]any) { delete(m, "code_challenge_methods_supported") }, "S256"},
		{"plain only", "http://127.0.0.1", func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} }, "S256"},
		{"javascript:", "http://127.0.0.1", func(m map[string]any) { m["authorization_endpoint"] = "javascript:x" }, "authorization_endpoint"},
		{"a token endpoint over http", "http://127.0.0.1", func(m map[string]any) { m["token_endpoint"] = "http://as.example/token" }, "token_endpoint"},
		{"no token endpoint", "http://127.0.0.1", func(m map[string]any) { delete(m, "token_endpoint") }, "token_endpoint"},
	} {
		t.Run(row.why, func(t *testing.T) {
			_, eg := egresstest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if row.edit == nil {
					as.ServeHTTP(w, r)
					return
				}
				m := map[string]any{"issuer": "http://127.0.0.1", "authorization_endpoint": "http://127.0.0.1/authorize", "token_endpoint": "http://127.0.0.1/token",
					"code_challenge_methods_supported": []string{"S256"}}
				row.edit(m)
				json.NewEncoder(w).Encode(m)
			}))
			m, err := connection.Discover(t.Context(), row.issuer, loopback(wellKnown), eg)
			if row.says != "" {
				require.ErrorContains(t, err, row.says)
				require.Zero(t, m)
				return
			}
			require.NoError(t, err)
			var p connection.Provider
			m.Fill(&p)
			require.True(t, p.S256 && p.SendsIssuer)
			require.Equal(t, "http://127.0.0.1/token", p.Token.BaseURL)
			require.Equal(t, "http://127.0.0.1/revoke", p.Revocation.BaseURL)
		})
	}
}

// H2-09: a redirect, a failure or something else than JSON is no metadata.
func TestDiscoverFails_H2_09(t *testing.T) {
	for why, h := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://attacker.test", http.StatusFound)
		},
		"500":      func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) },
		"HTML":     func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>") },
		"an array": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "[]") },
		"too much": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, strings.Repeat(" ", 1<<20), "{}") },
	} {
		_, eg := egresstest.Serve(t, h)
		_, err := connection.Discover(t.Context(), "http://127.0.0.1", loopback(wellKnown), eg)
		require.Error(t, err, why)
	}
}

func TestWellKnown_H2_09(t *testing.T) {
	for issuer, want := range map[string]string{
		"https://as.example":          "https://as.example" + wellKnown,
		"https://as.example/":         "https://as.example" + wellKnown,
		"https://as.example/tenant/1": "https://as.example" + wellKnown + "/tenant/1",
		"http://as.example":           "", "https://as.example?x=1": "", "https://as.example#x": "", "as.example": "", "": "",
	} {
		got, err := connection.WellKnown(issuer)
		require.Equal(t, want, got, issuer)
		require.Equal(t, want == "", err != nil)
	}
}

// H2-18 (case O-17): a client that is known by its document: the id is the
// document's own address, and no secret is in it.
func TestClientDocument_H2_18_O_17(t *testing.T) {
	const id, redirect = "https://host.example/oauth/client.json", "https://host.example/callback/tickets"
	text, err := connection.ClientDocument(id, "Host", connection.PublicClient, redirect)
	require.NoError(t, err)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(text, &doc))
	require.Equal(t, id, doc["client_id"])
	require.Equal(t, "Host", doc["client_name"])
	require.Equal(t, []any{redirect}, doc["redirect_uris"])
	require.NotContains(t, doc, "client_secret")
	for why, make := range map[string]func() ([]byte, error){
		"http":    func() ([]byte, error) { return connection.ClientDocument("http://h.example/c", "H", "none", redirect) },
		"no path": func() ([]byte, error) { return connection.ClientDocument("https://h.example/", "H", "none", redirect) },
		"a query": func() ([]byte, error) { return connection.ClientDocument(id+"?x=1", "H", "none", redirect) },
		"a dot segment": func() ([]byte, error) {
			return connection.ClientDocument("https://h.example/a/../c", "H", "none", redirect)
		},
		"a fragment":      func() ([]byte, error) { return connection.ClientDocument(id+"#x", "H", "none", redirect) },
		"no name":         func() ([]byte, error) { return connection.ClientDocument(id, "", "none", redirect) },
		"no redirects":    func() ([]byte, error) { return connection.ClientDocument(id, "H", "none") },
		"a shared secret": func() ([]byte, error) { return connection.ClientDocument(id, "H", connection.SecretBasic, redirect) },
		"app:":            func() ([]byte, error) { return connection.ClientDocument(id, "H", "none", "app://x") },
	} {
		_, err := make()
		require.Error(t, err, why)
	}
}
