package mcpadapter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	oauth "github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer/bearertest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const mcpURL = "http://127.0.0.1/mcp"

// guarded is a world behind a Bearer, with one issuer.
type guarded struct {
	*world
	as  *bearertest.Server
	b   *oauth.Bearer
	mux *http.ServeMux

	rec  sync.Mutex
	sent []string // all that the provider got, headers and bodies
}

// newGuarded makes one. ask chooses introspection over JWTs.
func newGuarded(t *testing.T, ask bool) *guarded {
	t.Helper()
	g := &guarded{world: newWorld(t), as: bearertest.New(t), mux: http.NewServeMux()}
	var v *oauth.Verifier
	var err error
	if ask {
		secret := oauth.ClientSecret(bearertest.Client, func(context.Context) ([]byte, error) { return []byte(bearertest.Secret), nil })
		v, err = oauth.NewIntrospection(g.as.Issuer, g.as.Introspection(), secret, oauth.OneTenant("acme"), &oauth.IntrospectionOptions{Egress: g.as.Egress()})
	} else {
		v, err = oauth.NewJWT(g.as.Issuer, g.as.Keys(), oauth.OneTenant("acme"), &oauth.JWTOptions{Egress: g.as.Egress()})
	}
	require.NoError(t, err)
	g.b, err = oauth.New(mcpURL, []*oauth.Verifier{v}, &oauth.Options{
		Scopes: []string{"mcp"},
		ToolScopes: func(_ context.Context, _ authz.Principal, tool string) []string {
			return map[string][]string{"tickets.get": {"tickets.read"}, "tickets.create": {"tickets.read", "tickets.write"}}[tool]
		},
		Cached: func(tool string) bool { return tool != "tickets.create" },
	})
	require.NoError(t, err)
	c, err := connector.New(connector.Info{ID: "tickets", Version: "1.0.0", Owner: "team", Endpoint: "test",
		Auth: connector.Auth{Mode: connector.AuthAPIKey}}, capabilities()...)
	require.NoError(t, err)
	profile, eg := egresstest.Serve(t, http.HandlerFunc(g.record))
	g.inv, err = connector.NewInvoker(authztest.Policy(g.decide), []*authz.Authority{g.b.Authority()}, []connector.Connector{c},
		&connector.Options{Endpoints: []egress.Profile{profile}, Egress: eg, Credentials: keys{}, Forgetful: true})
	require.NoError(t, err)
	g.mux.Handle(g.b.MetadataPath(), g.b.Metadata())
	g.mux.Handle("/mcp", g.b.Handler(g.adapter(t, g.b.Principal, nil).HTTP()))
	return g
}

// record keeps what arrives at the provider and hands it on.
func (g *guarded) record(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text, _ := json.Marshal(r.Header)
	g.rec.Lock()
	g.sent = append(g.sent, r.URL.String()+string(text)+string(body))
	g.rec.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.provider(w, r)
}

// token is a good one for a subject.
func (g *guarded) token(subject string, scopes ...string) string {
	return g.as.Token(mcpURL, subject, scopes...)
}

// The story of a client: it is told where to look, gets a token, lists, is told
// which scopes it lacks, steps up once, and calls. In both revisions.
func TestFirstHop_A1_A5(t *testing.T) {
	for name, era := range map[string]struct {
		write  func(string, int, string) string
		change []func(*http.Request)
	}{"2026-07-28": {modern, nil}, "2025-11-25": {legacy, []func(*http.Request){older}}} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t, false)
			list := era.write("tools/list", 1, "")
			call := era.write("tools/call", 2, `"name":"tickets.get","arguments":{"id":"1"}`)
			get := `resource_metadata="http://127.0.0.1/.well-known/oauth-protected-resource/mcp"`

			got := post(t, g.mux, "", list, era.change...)
			require.Equal(t, 401, got.Status)
			require.Equal(t, `Bearer `+get+`, scope="mcp"`, got.Header.Get("WWW-Authenticate"))
			require.Equal(t, 1.0, got.ID)

			rw := httptest.NewRecorder()
			g.mux.ServeHTTP(rw, httptest.NewRequest("GET", g.b.MetadataURL(), nil))
			var meta struct {
				Resource string
				Servers  []string `json:"authorization_servers"`
			}
			require.NoError(t, json.Unmarshal(rw.Body.Bytes(), &meta))
			require.Equal(t, mcpURL, meta.Resource)
			require.Equal(t, []string{g.as.Issuer}, meta.Servers)

			token := g.token("alice", "mcp")
			got = post(t, g.mux, token, list, era.change...)
			require.Equal(t, 200, got.Status)
			require.Contains(t, got.Text, `"tickets.get"`)

			got = post(t, g.mux, token, call, era.change...)
			require.Equal(t, 403, got.Status)
			require.Equal(t, `Bearer error="insufficient_scope", `+get+`, scope="mcp tickets.read"`, got.Header.Get("WWW-Authenticate"))
			require.Equal(t, 2.0, got.ID)
			require.Equal(t, "INSUFFICIENT_SCOPE", got.Error.Data["code"])
			require.Zero(t, g.count(""), "the provider hears of none of it")

			got = post(t, g.mux, g.token("alice", "mcp", "tickets.read"), call, era.change...)
			require.Equal(t, 200, got.Status)
			require.Contains(t, got.Text, `"status":"success"`)
			require.Equal(t, 1, g.count("GET /tickets/1"))
		})
	}
}

// H1-73: headers by which the scopes are chosen are what the body says, or nothing runs.
func TestHeadersCannotLowerTheScope_H1_73(t *testing.T) {
	g := newGuarded(t, false)
	token := g.token("alice", "mcp", "tickets.read")
	create := `"name":"tickets.create","arguments":{"subject":"x"},"_meta":{"drawbridge.dev/operation":"k",` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	now, before := legacy("tools/call", 3, create), legacy("tools/call", 3, strings.Replace(create, "2026-07-28", "2025-11-25", 1))
	bare := legacy("tools/call", 3, `"name":"tickets.create","arguments":{"subject":"x"}`)
	name := func(s string) func(*http.Request) { return header("Mcp-Name", s) }
	rows := []struct {
		name, body string
		change     []func(*http.Request)
		status     int
	}{
		{"control: no lie", now, nil, 403},
		{"control: no lie, in an older revision", bare, []func(*http.Request){older}, 403},
		{"another tool", now, []func(*http.Request){name("tickets.get")}, 400},
		{"another tool, encoded", now, []func(*http.Request){name("=?base64?dGlja2V0cy5nZXQ=?=")}, 400},
		{"another method", now, []func(*http.Request){header("Mcp-Method", "tools/list")}, 400},
		{"a tool in other letters", now, []func(*http.Request){name("TICKETS.CREATE")}, 400},
		{"a body that says nothing of a revision", bare, []func(*http.Request){name("tickets.get")}, 400},
		{"a body of an older revision", before, []func(*http.Request){name("tickets.get")}, 400},
		{"headers of an older revision with a body of this one", now, []func(*http.Request){header("Mcp-Protocol-Version", "2025-11-25"), name("tickets.get")}, 403},
		{"two names", now, []func(*http.Request){func(r *http.Request) { r.Header["Mcp-Name"] = []string{"tickets.get", "tickets.create"} }}, 403},
		{"two names in the body", strings.Replace(now, `"name"`, `"name":"tickets.get","name"`, 1), []func(*http.Request){name("tickets.get")}, 400},
		{"a name in other letters beside", strings.Replace(now, `"name"`, `"NAME":"tickets.get","name"`, 1), []func(*http.Request){name("tickets.get")}, 400},
		{"two methods in the body", strings.Replace(now, `"method"`, `"method":"tools/list","method"`, 1), []func(*http.Request){header("Mcp-Method", "tools/list")}, 400},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := post(t, g.mux, token, row.body, row.change...)
			require.Equal(t, row.status, got.Status, got.Text)
			require.NotContains(t, got.Text, `"status":"success"`)
			require.Zero(t, g.count("POST"), "nothing is sent")
		})
	}
	got := post(t, g.mux, g.token("alice", "mcp", "tickets.read", "tickets.write"), now)
	require.NotEqual(t, 403, got.Status, "control: with the scope the hop lets it through")
}

// H1-14: two callers on one connection are two callers, and what one of them loses, one
// way or another, is gone with the next request.
func TestConnectionHasNoIdentity_H1_14_A8(t *testing.T) {
	g := newGuarded(t, true)
	srv := httptest.NewServer(g.mux)
	t.Cleanup(srv.Close)
	tr := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(tr.CloseIdleConnections)
	fresh := 0
	send := func(token, body string) (int, string) {
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			if !i.Reused {
				fresh++
			}
		}}), "POST", srv.URL+"/mcp", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Session-Id", "one-and-the-same")
		resp, err := tr.RoundTrip(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	alice, bob := g.as.Opaque(g.as.Claims(mcpURL, "alice", "mcp", "tickets.read", "tickets.write")), g.as.Opaque(g.as.Claims(mcpURL, "bob", "mcp", "tickets.read"))
	list, get := legacy("tools/list", 1, ""), legacy("tools/call", 2, `"name":"tickets.get","arguments":{"id":"1"}`)
	for range 3 {
		_, text := send(alice, list)
		require.Contains(t, text, `"tickets.get"`)
		_, text = send(bob, list)
		require.NotContains(t, text, `"tickets.get"`)
		_, text = send(alice, get)
		require.Contains(t, text, `"status":"success"`)
		_, text = send(bob, get)
		require.Contains(t, text, "unknown tool")
		status, _ := send("nobody", list)
		require.Equal(t, 401, status)
	}
	// The token is revoked: a change notices with the next request.
	g.as.Revoke(alice)
	create := legacy("tools/call", 3, `"name":"tickets.create","arguments":{"subject":"x"},"_meta":{"drawbridge.dev/operation":"k"}`)
	status, text := send(alice, create)
	require.Equal(t, 401, status, text)
	status, _ = send(alice, get)
	require.Equal(t, 401, status, "and then everything does")
	require.Zero(t, g.count("POST"))
	// The right is revoked, and the token is as good as before.
	carol := g.as.Opaque(g.as.Claims(mcpURL, "carol", "mcp", "tickets.read"))
	_, text = send(carol, get)
	require.Contains(t, text, `"status":"success"`)
	g.hide("carol", "tickets.get", true)
	_, text = send(carol, get)
	require.Contains(t, text, "unknown tool")
	require.Equal(t, 1, fresh, "all of it on one connection")
}

// H1-15, H1-74: the two hops do not mix: no token of a caller is sent to the provider, and no
// refusal of the provider makes the caller get another token.
func TestHopsDoNotMix_C6_H1_15_H1_74(t *testing.T) {
	g := newGuarded(t, false)
	token := g.token("alice", "mcp", "tickets.read")
	for _, id := range []string{"1", "unauthorized", "none", "broken"} {
		got := post(t, g.mux, token, modern("tools/call", 1, `"name":"tickets.get","arguments":{"id":"`+id+`"}`))
		require.Equal(t, 200, got.Status, "what the provider says is a result")
		require.Empty(t, got.Header.Get("WWW-Authenticate"))
	}
	require.Len(t, g.sent, 4)
	for _, s := range g.sent {
		require.Contains(t, s, canaryKey, "control: the provider's own credential is there")
		require.NotContains(t, s, token)
		require.NotContains(t, s, token[strings.LastIndex(token, ".")+1:])
		require.NotContains(t, s, "Authorization")
	}
	require.NotContains(t, g.log.String(), token)
}

// A client of the SDK goes on after each refusal.
func TestRefusalsOfTheFirstHopLeaveTheSession(t *testing.T) {
	g := newGuarded(t, false)
	var mu sync.Mutex
	token := g.token("alice", "mcp")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		r.Header.Set("Authorization", "Bearer "+token)
		mu.Unlock()
		g.mux.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	cs := g.client(t, srv.URL+"/mcp", "")
	call := func(with string) (*mcp.CallToolResult, error) {
		mu.Lock()
		token = with
		mu.Unlock()
		return cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "tickets.get", Arguments: map[string]any{"id": "1"}})
	}
	for _, bad := range []string{"invalid", "two tokens", g.token("alice", "mcp")} {
		_, err := call(bad)
		require.Error(t, err)
		r, err := call(g.token("alice", "mcp", "tickets.read"))
		require.NoError(t, err)
		require.Equal(t, toolresult.StatusSuccess, decoded(t, r).Status)
	}
}

// Whoever forgets the Handler is told so, and serves nobody.
func TestForgottenHandler(t *testing.T) {
	g := newGuarded(t, false)
	h := g.adapter(t, g.b.Principal, &mcpadapter.Options{}).HTTP()
	got := post(t, h, g.token("alice", "mcp", "tickets.read"), modern("tools/list", 1, ""))
	require.Equal(t, 500, got.Status)
	_, err := g.adapter(t, g.b.Principal, nil).Connect(t.Context(), nil)
	require.ErrorIs(t, err, toolresult.AuthenticationRequired, "a local host is not somebody with a token")
}

// H1-04, H1-05: a 401 of the adapter's own, for an identity that ended between
// the first hop and the list, says where to get another token; behind a Handler,
// and without one.
func TestOwnRefusalNamesTheMetadata_H1_04_H1_05(t *testing.T) {
	const metadata = `resource_metadata="http://127.0.0.1/.well-known/oauth-protected-resource/mcp"`
	g := newGuarded(t, false)
	over := g.adapter(t, func(ctx context.Context, r *http.Request) (authz.Principal, error) {
		if _, err := g.b.Principal(ctx, r); err != nil {
			return authz.Principal{}, err
		}
		return g.world.alice, nil // of an authority that this invoker does not trust, as if over
	}, nil).HTTP()
	h := g.b.Handler(over)
	token := g.token("alice", "mcp", "tickets.read")
	got := post(t, h, token, modern("tools/list", 1, ""))
	require.Equal(t, 401, got.Status, got.Text)
	require.Equal(t, `Bearer error="invalid_token", `+metadata+`, scope="mcp"`, got.Header.Get("WWW-Authenticate"))
	require.Equal(t, 1.0, got.ID)
	got = post(t, h, token, modern("tools/call", 1, `"name":"tickets.get","arguments":{"id":"1"}`))
	require.Equal(t, 401, got.Status, got.Text)
	require.Equal(t, `Bearer error="invalid_token", `+metadata+`, scope="mcp tickets.read"`, got.Header.Get("WWW-Authenticate"))

	// Without a Handler, for a server without scopes per tool.
	v, err := oauth.NewJWT(g.as.Issuer, g.as.Keys(), oauth.OneTenant("acme"), &oauth.JWTOptions{Egress: g.as.Egress()})
	require.NoError(t, err)
	b, err := oauth.New(mcpURL, []*oauth.Verifier{v}, &oauth.Options{Scopes: []string{"mcp"}})
	require.NoError(t, err)
	h = g.adapter(t, b.Principal, nil).HTTP()
	for token, want := range map[string]string{
		"":                                   `Bearer ` + metadata + `, scope="mcp"`,
		"nonsense":                           `Bearer error="invalid_token", ` + metadata + `, scope="mcp"`,
		g.as.Token(mcpURL, "alice", "other"): `Bearer error="insufficient_scope", ` + metadata + `, scope="mcp"`,
	} {
		got := post(t, h, token, modern("tools/list", 1, ""))
		require.Equal(t, want, got.Header.Get("WWW-Authenticate"), got.Text)
		require.Equal(t, 1.0, got.ID)
	}
}
