package bearer_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// scoped has scopes per tool, and a scope that includes others.
func scoped(s *setup) {
	s.opts.Scopes = []string{"mcp"}
	s.opts.Implies = map[string][]string{"tickets.admin": {"tickets.manage"}, "tickets.manage": {"tickets.read", "tickets.write"}, "loop": {"loop"}}
	s.opts.ToolScopes = func(_ context.Context, _ authz.Principal, tool string) []string {
		return map[string][]string{"tickets.get": {"tickets.read"}, "tickets.create": {"tickets.write", "tickets.read"}}[tool]
	}
}

// A1: how a token may be presented: in the header, once.
func TestPresenting_A1(t *testing.T) {
	w := newWorld(t)
	token := w.as.Token(resource, "alice")
	rows := []struct {
		name, id string
		change   func(*http.Request)
		status   int
		oauth    string
	}{
		{"the scheme in lower case", "H1-11", set("Authorization", "bearer "+token), 200, ""},
		{"the scheme in capitals", "H1-11", set("Authorization", "BEARER "+token), 200, ""},
		{"several spaces", "H1-11", set("Authorization", "Bearer   "+token), 200, ""},
		{"nothing", "H1-04", func(*http.Request) {}, 401, ""},
		{"an empty header", "H1-04", set("Authorization", ""), 401, ""},
		{"Basic", "H1-11", set("Authorization", "Basic YTpi"), 401, ""},
		{"DPoP, which is off", "H1-61", set("Authorization", "DPoP "+token), 401, ""},
		{"a scheme that begins well", "H1-11", set("Authorization", "BearerX "+token), 401, ""},
		{"a tab for a space", "H1-11", set("Authorization", "Bearer\t"+token), 401, ""},
		{"no token after the scheme", "H1-10", set("Authorization", "Bearer"), 400, "invalid_request"},
		{"spaces after the scheme", "H1-10", set("Authorization", "Bearer  "), 400, "invalid_request"},
		{"two tokens in one header", "H1-10", set("Authorization", "Bearer "+token+" "+token), 400, "invalid_request"},
		{"two headers made one by a proxy", "H1-10", set("Authorization", "Bearer "+token+", Bearer "+token), 400, "invalid_request"},
		{"two headers (go-sdk takes the first)", "H1-10", set("Authorization", "Bearer "+token, "Bearer "+token), 400, "invalid_request"},
		{"two headers of different schemes", "H1-10", set("Authorization", "Basic YTpi", "Bearer "+token), 400, "invalid_request"},
		{"a quoted token", "H1-31", set("Authorization", `Bearer "`+token+`"`), 400, "invalid_request"},
		{"a token that is no ASCII", "H1-31", set("Authorization", "Bearer ü"), 400, "invalid_request"},
		{"in the query alone", "H1-09", query("access_token=" + token), 400, "invalid_request"},
		{"in the query, escaped", "H1-09", query("x=1&access%5Ftoken=" + token), 400, "invalid_request"},
		{"in the query, after a semicolon", "H1-09", query("x=1;access_token=" + token), 400, "invalid_request"},
		{"in the query and in the header", "H1-10", both(query("access_token="+token), set("Authorization", "Bearer "+token)), 400, "invalid_request"},
		{"in a form alone", "H1-09", form("access_token=" + token), 400, "invalid_request"},
		{"in a form and in the header", "H1-10", both(form("a=b&access_token="+token), set("Authorization", "Bearer "+token)), 400, "invalid_request"},
		{"a form without a token", "H1-09", both(form("a=b"), set("Authorization", "Bearer "+token)), 200, ""},
		{"in a cookie", "H1-09", set("Cookie", "access_token="+token), 401, ""},
		{"in a header of another name", "H1-09", set("X-Access-Token", token), 401, ""},
	}
	for _, row := range rows {
		t.Run(row.id+" "+row.name, func(t *testing.T) {
			got := w.post("", row.change)
			require.Equal(t, row.status, got.Status, got.Text)
			require.NotContains(t, got.Text, token)
			if row.status == 200 {
				require.Empty(t, got.Challenge)
				return
			}
			require.Contains(t, got.Challenge, `resource_metadata="`+metadataURL+`"`)
			if row.oauth == "" {
				require.NotContains(t, got.Challenge, "error", "who sent no token is told of no error (RFC 6750, section 3.1)")
				return
			}
			require.Contains(t, got.Challenge, `error="`+row.oauth+`"`)
		})
	}
}

func query(raw string) func(*http.Request) { return func(r *http.Request) { r.URL.RawQuery = raw } }

func form(body string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		*r = *r.WithContext(r.Context())
		n := httptest.NewRequest("POST", resource, strings.NewReader(body))
		r.Body = n.Body
	}
}

func both(fs ...func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		for _, f := range fs {
			f(r)
		}
	}
}

func TestChallenges_A1(t *testing.T) {
	w := newWorld(t, scoped)
	meta := `resource_metadata="` + metadataURL + `"`
	low, read := w.as.Token(resource, "alice", "other"), w.as.Token(resource, "alice", "mcp", "tickets.read")
	rows := []struct {
		name, id, token, body string
		change                func(*http.Request)
		status                int
		challenge             string
	}{
		{"nobody lists", "H1-04 H1-05", "", list, nil, 401, `Bearer ` + meta + `, scope="mcp"`},
		{"nobody calls, in an older revision", "H1-05", "", call("tickets.get"), nil, 401, `Bearer ` + meta + `, scope="mcp tickets.read"`},
		{"nobody calls, in this one", "H1-05", "", call("tickets.get"), modern("tools/call", "tickets.get"), 401, `Bearer ` + meta + `, scope="mcp tickets.read"`},
		{"nobody sends nonsense", "H1-04", "", "{", nil, 401, `Bearer ` + meta + `, scope="mcp"`},
		{"an invalid token", "H1-06", "x", call("tickets.get"), nil, 401, `Bearer error="invalid_token", ` + meta + `, scope="mcp tickets.read"`},
		{"too few for anything", "H1-07", low, list, nil, 403, `Bearer error="insufficient_scope", ` + meta + `, scope="mcp"`},
		{"all scopes of the tool at once, also the ones that are there", "H1-07", read, call("tickets.create"), nil, 403, `Bearer error="insufficient_scope", ` + meta + `, scope="mcp tickets.read tickets.write"`},
		{"the same by headers", "H1-07 H1-73", read, call("tickets.create"), modern("tools/call", "tickets.create"), 403, `Bearer error="insufficient_scope", ` + meta + `, scope="mcp tickets.read tickets.write"`},
		{"an encoded name", "H1-73", read, call("tickets.create"), modern("tools/call", "=?base64?dGlja2V0cy5jcmVhdGU=?="), 403, `Bearer error="insufficient_scope", ` + meta + `, scope="mcp tickets.read tickets.write"`},
	}
	for _, row := range rows {
		t.Run(row.id+" "+row.name, func(t *testing.T) {
			if row.change == nil {
				row.change = func(*http.Request) {}
			}
			got := w.send(row.token, row.body, row.change)
			require.Equal(t, row.status, got.Status)
			require.Equal(t, row.challenge, got.Challenge)
			require.Equal(t, row.status, got.Error.Code)
			require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
			require.NotContains(t, got.Challenge, "offline_access", "H1-03")
		})
	}
}

// H1-73: which tool is called, and so which scopes are needed, is what the handler
// behind will read, whatever a request pretends.
func TestScopeOfTheTool_H1_73(t *testing.T) {
	w := newWorld(t, scoped)
	read := w.as.Token(resource, "alice", "mcp", "tickets.read")
	create := call("tickets.create")
	rows := []struct {
		name, body string
		change     func(*http.Request)
		status     int
	}{
		{"control: what is allowed", call("tickets.get"), nil, 200},
		{"control: what is allowed, by headers", call("tickets.get"), modern("tools/call", "tickets.get"), 200},
		{"what is not", create, nil, 403},
		{"headers of this revision are believed, and held against the body behind", create, modern("tools/call", "tickets.get"), 200},
		{"headers of an older revision are not", create, both(modern("tools/call", "tickets.get"), set("Mcp-Protocol-Version", "2025-11-25")), 403},
		{"nor of a later one", create, both(modern("tools/call", "tickets.get"), set("Mcp-Protocol-Version", "2027-01-01")), 403},
		{"nor without a revision", create, both(modern("tools/call", "tickets.get"), set("Mcp-Protocol-Version")), 403},
		{"nor with two revisions", create, both(modern("tools/call", "tickets.get"), set("Mcp-Protocol-Version", "2026-07-28", "2025-11-25")), 403},
		{"nor with two names", create, both(modern("tools/call", "tickets.get"), set("Mcp-Name", "tickets.get", "tickets.create")), 403},
		{"nor with two methods", create, both(modern("tools/list", ""), set("Mcp-Method", "tools/list", "tools/call")), 403},
		{"nor without a name", create, modern("tools/call", ""), 403},
		{"nor with a name that does not decode", create, modern("tools/call", "=?base64?***?="), 403},
		{"a method that is written otherwise", strings.Replace(create, `"method"`, `"Method"`, 1), nil, 403},
		{"parameters that are written otherwise", strings.Replace(create, `"params"`, `"PARAMS"`, 1), nil, 403},
		{"a name that is written otherwise", strings.Replace(create, `"name"`, `"Name"`, 1), nil, 403},
		{"a method that is escaped", strings.Replace(create, `"method"`, `"\u006dethod"`, 1), nil, 403},
		{"two methods", strings.Replace(create, `"method"`, `"method":"tools/list","method"`, 1), nil, 400},
		{"two methods but for case", strings.Replace(create, `"method"`, `"METHOD":"tools/list","method"`, 1), nil, 400},
		{"two names", strings.Replace(create, `"name"`, `"name":"tickets.get","name"`, 1), nil, 400},
		{"a batch", "[" + create + "]", nil, 400},
		{"two messages", list + create, nil, 400},
		{"no JSON, whatever it is called", "hello", set("Content-Type", "text/plain"), 400},
		{"JSON that is not called so", create, set("Content-Type", "text/plain"), 403},
		{"no body", "", nil, 400},
		{"a tool without scopes of its own", call("unknown"), nil, 200},
		{"a call without a name", `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, nil, 200},
		{"too long", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.change == nil {
				row.change = func(*http.Request) {}
			}
			before := w.runs
			got := w.send(read, row.body, row.change)
			require.Equal(t, row.status, got.Status, got.Text)
			require.Equal(t, row.status == 200, w.runs > before)
			if row.status == 200 {
				require.Equal(t, row.body, w.body, "the body is there for the handler")
			}
		})
	}
	get := func(r *http.Request) { r.Method = "GET" }
	require.Equal(t, 200, w.send(read, "", get).Status, "what is no POST calls no tool")
}

// H1-70: a scope includes others, and the principal carries them, so that the policy
// sees what was decided by.
func TestScopeHierarchy_H1_70(t *testing.T) {
	w := newWorld(t, scoped)
	for _, scope := range []string{"tickets.manage", "tickets.admin"} {
		got := w.send(w.as.Token(resource, "alice", "mcp", scope), call("tickets.create"))
		require.Equal(t, 200, got.Status)
		require.True(t, w.who.HasScope("tickets.write"))
	}
	require.False(t, w.who.HasScope("loop"))
	require.Equal(t, 403, w.send(w.as.Token(resource, "alice", "mcp", "tickets.write"), call("tickets.create")).Status, "not upwards")
}

// ToolScopes is told who asks, so that a tool that is to be hidden stays so.
func TestToolScopesKnowsTheCaller_A9(t *testing.T) {
	w := newWorld(t, func(s *setup) {
		s.opts.ToolScopes = func(_ context.Context, who authz.Principal, tool string) []string {
			switch {
			case tool == "broken":
				return []string{`a"b`}
			case tool == "offline":
				return []string{"offline_access"}
			case who.Key().Subject == "alice" && tool == "secret":
				return []string{"tickets.secret"}
			}
			return nil
		}
	})
	require.Equal(t, 403, w.send(w.as.Token(resource, "alice"), call("secret")).Status)
	require.Equal(t, 200, w.send(w.as.Token(resource, "bob"), call("secret")).Status, "which then finds no such tool")
	require.Equal(t, w.send("", call("secret")).Text, w.send("", call("nothing")).Text)
	require.Equal(t, w.send("", call("secret")).Challenge, w.send("", call("nothing")).Challenge)
	for _, tool := range []string{"broken", "offline"} {
		got := w.send(w.as.Token(resource, "alice"), call(tool))
		require.Equal(t, 500, got.Status, "a scope that is none asks for nothing (H1-03)")
		require.Equal(t, "INTERNAL", got.Error.Data["code"])
	}
}

// H1-12: the body of a refusal carries the id of the request, or null.
func TestRefusalsAreJSONRPC_H1_12(t *testing.T) {
	w := newWorld(t)
	rows := []struct {
		name, body string
		id         any
	}{
		{"a number", list, 7.0},
		{"a text", strings.Replace(list, "7", `"a<b"`, 1), "a<b"},
		{"an id that is none", strings.Replace(list, "7", `{"a":1}`, 1), nil},
		{"a long id", strings.Replace(list, "7", `"`+strings.Repeat("x", 600)+`"`, 1), nil},
		{"no JSON", "{", nil},
		{"a batch", "[" + list + "]", nil},
		{"a notification", `{"jsonrpc":"2.0","method":"x"}`, nil},
		{"a body over the limit", strings.Repeat(" ", 2<<20), nil},
	}
	for _, row := range rows {
		got := w.send("", row.body)
		require.Equal(t, 401, got.Status, row.name)
		require.Equal(t, row.id, got.ID, row.name)
		require.True(t, json.Valid([]byte(got.Text)))
		require.Equal(t, "an access token is needed", got.Error.Message)
		require.Equal(t, "AUTHENTICATION_REQUIRED", got.Error.Data["code"])
	}
}

// H1-74: the handler behind never sees the token, and nor do the host's functions.
func TestTokenStopsHere_H1_74_C6(t *testing.T) {
	const canary = "canary"
	w := newWorld(t, func(s *setup) {
		s.opts.Confirm = map[string]func(context.Context, *bearer.Proof) error{"x5t#S256": func(_ context.Context, p *bearer.Proof) error {
			require.Empty(t, p.Request.Header["Authorization"])
			return nil
		}}
	})
	token := w.as.Sign(w.with(map[string]any{"cnf": map[string]any{"x5t#S256": "x"}, "jti": canary}), nil)
	r := httptest.NewRequest("POST", resource, strings.NewReader(list))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-Other", "stays")
	w.h.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, 1, w.runs)
	for name, values := range w.seen.Header {
		require.NotContains(t, strings.Join(values, " "), token, name)
	}
	require.Equal(t, "stays", w.seen.Header.Get("X-Other"))
	require.NotContains(t, w.seen.Header, "Authorization")
	require.NotEmpty(t, r.Header.Get("Authorization"), "the request of whoever called is not changed")
}

// H1-14: each request is its caller's, and a token that is over is over at once.
func TestEveryRequestByItself_H1_14_A8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alice, bob := w.as.Token(resource, "alice"), w.as.Token(resource, "bob")
		for range 3 {
			require.Equal(t, 200, w.post(alice, set("Mcp-Session-Id", "one")).Status)
			require.Equal(t, "acme/alice", w.who.String())
			require.Equal(t, 401, w.post("", set("Mcp-Session-Id", "one")).Status)
			require.Equal(t, 200, w.post(bob, set("Mcp-Session-Id", "one")).Status)
			require.Equal(t, "acme/bob", w.who.String())
		}
		require.True(t, w.b.Authority().Vouches(w.who))
		time.Sleep(329 * time.Second)
		require.Equal(t, 200, w.post(alice).Status, "within the leeway")
		require.True(t, w.b.Authority().Vouches(w.who), "a principal that was let in is not over yet")
		time.Sleep(time.Second)
		require.Equal(t, 401, w.post(alice).Status)
		require.False(t, w.b.Authority().Vouches(w.who))
	})
}

func TestPrincipalWithoutHandler(t *testing.T) {
	w := newWorld(t, func(s *setup) { s.opts.Scopes = []string{"mcp"} })
	ask := func(token string) (authz.Principal, error) {
		r := httptest.NewRequest("POST", resource, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return w.b.Principal(t.Context(), r)
	}
	who, err := ask(w.as.Token(resource, "alice", "mcp"))
	require.NoError(t, err)
	require.Equal(t, "acme/alice", who.String())
	for name, want := range map[string]struct {
		token string
		code  toolresult.ErrorCode
	}{
		"no token":       {"", toolresult.AuthenticationRequired},
		"invalid":        {"x", toolresult.AuthenticationRequired},
		"malformed":      {"a b", toolresult.InvalidInput},
		"too few scopes": {w.as.Token(resource, "alice"), toolresult.InsufficientScope},
	} {
		who, err := ask(want.token)
		require.ErrorIs(t, err, want.code, name)
		require.True(t, who.IsZero())
	}
	_, err = w.b.Principal(t.Context(), nil)
	require.ErrorIs(t, err, toolresult.AuthenticationRequired, "a local host's identity is no token (C6)")

	w.as.Fail(500)
	cold := newWorld(t, func(s *setup) { s.as.Fail(500) })
	_, err = cold.b.Principal(t.Context(), withToken(cold.as.Token(resource, "alice")))
	require.ErrorIs(t, err, toolresult.PolicyUnavailable)
	e, _ := errors.AsType[*toolresult.Error](err)
	require.Positive(t, e.RetryAfter)

	rules := newWorld(t, scoped)
	_, err = rules.b.Principal(t.Context(), withToken(rules.as.Token(resource, "alice", "mcp")))
	require.ErrorIs(t, err, toolresult.ContractViolation, "scopes per tool are not dropped silently")
	var none bearer.Bearer
	_, err = none.Principal(t.Context(), withToken("x"))
	require.ErrorIs(t, err, toolresult.ContractViolation)
	rw := httptest.NewRecorder()
	none.Handler(nil).ServeHTTP(rw, withToken("x"))
	require.Equal(t, 500, rw.Code, "the zero Bearer lets nobody in")
}

func withToken(token string) *http.Request {
	r := httptest.NewRequest("POST", resource, strings.NewReader(list))
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// A principal of one Bearer is nobody's at another.
func TestAnotherBearersPrincipal_A3(t *testing.T) {
	one, two := newWorld(t), newWorld(t)
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := two.b.Principal(r.Context(), r)
		require.ErrorIs(t, err, toolresult.AuthenticationRequired)
		w.WriteHeader(204)
	})
	rw := httptest.NewRecorder()
	one.b.Handler(inner).ServeHTTP(rw, withToken(one.as.Token(resource, "alice")))
	require.Equal(t, 204, rw.Code)
	require.False(t, two.b.Authority().Vouches(one.who))
}

// H1-01, H1-02: the metadata say whose server this is, byte for byte, at the path that
// belongs to it.
func TestMetadata_H1_01_H1_02(t *testing.T) {
	w := newWorld(t, func(s *setup) {
		s.opts.Scopes = []string{"b", "a", "a"}
		s.opts.DisplayName, s.opts.Documentation = "Tickets <1>", "https://docs.test/?a&b"
	})
	get := func(b *bearer.Bearer, method, target string) *httptest.ResponseRecorder {
		rw := httptest.NewRecorder()
		b.Metadata().ServeHTTP(rw, httptest.NewRequest(method, target, nil))
		return rw
	}
	require.Equal(t, metadataURL, w.b.MetadataURL())
	got := get(w.b, "GET", w.b.MetadataURL())
	require.Equal(t, 200, got.Code)
	require.Equal(t, "application/json", got.Header().Get("Content-Type"))
	require.Equal(t, "*", got.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, `{"resource":"`+resource+`","authorization_servers":["https://issuer.test"],"scopes_supported":["a","b"],`+
		`"bearer_methods_supported":["header"],"resource_name":"Tickets <1>","resource_documentation":"https://docs.test/?a&b"}`+"\n", got.Body.String())
	require.Equal(t, 405, get(w.b, "POST", metadataURL).Code)
	for _, elsewhere := range []string{resource + "/.well-known/oauth-protected-resource", "https://mcp.test/.well-known/oauth-protected-resource", metadataURL + "/x"} {
		require.Equal(t, 404, get(w.b, "GET", elsewhere).Code, elsewhere)
	}
	for res, path := range map[string]string{
		"https://h.test":          "/.well-known/oauth-protected-resource",
		"https://h.test/":         "/.well-known/oauth-protected-resource",
		"https://h.test:8443/mcp": "/.well-known/oauth-protected-resource/mcp",
		"https://h.test/mcp/":     "/.well-known/oauth-protected-resource/mcp/",
		"http://127.0.0.1:80/mcp": "/.well-known/oauth-protected-resource/mcp",
	} {
		v, err := bearer.NewJWT("https://i.test", w.as.Keys(), bearer.OneTenant("a"), nil)
		require.NoError(t, err)
		b, err := bearer.New(res, []*bearer.Verifier{v}, nil)
		require.NoError(t, err)
		require.Equal(t, path, b.MetadataPath())
		text := get(b, "GET", b.MetadataURL()).Body.String()
		require.Contains(t, text, `"resource":"`+res+`"`, "byte for byte")
		require.NotContains(t, text, "scopes_supported")
	}
}

// H1-15: a provider's refusal is none of this hop's business: what the handler answers
// goes out as it is.
func TestHandlersAnswerPasses_H1_15(t *testing.T) {
	w := newWorld(t)
	h := w.b.Handler(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(404) }))
	rw := httptest.NewRecorder()
	h.ServeHTTP(rw, withToken(w.as.Token(resource, "alice")))
	require.Equal(t, 404, rw.Code)
	require.Empty(t, rw.Header().Get("WWW-Authenticate"))
}
