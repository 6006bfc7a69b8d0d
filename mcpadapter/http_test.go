package mcpadapter_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// answer is what came back over HTTP: the status and the JSON-RPC message.
type answer struct {
	Status int
	Header http.Header
	Text   string
	ID     any
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    map[string]any
	}
}

// post sends a body to a handler with the headers that its method wants.
func post(t testing.TB, h http.Handler, token, body string, change ...func(*http.Request)) answer {
	t.Helper()
	r := httptest.NewRequest("POST", "http://127.0.0.1/mcp", strings.NewReader(body))
	var m struct {
		Method string
		Params struct{ Name string }
	}
	_ = json.Unmarshal([]byte(body), &m)
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": m.Method, "Mcp-Name": m.Params.Name} {
		if v != "" {
			r.Header.Set(k, v)
		}
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, f := range change {
		f(r)
	}
	rw := httptest.NewRecorder()
	h.ServeHTTP(rw, r)
	out := answer{Status: rw.Code, Header: rw.Header(), Text: rw.Body.String()}
	text := out.Text
	if i := strings.Index(text, "data: "); i >= 0 {
		text = text[i+len("data: "):]
	}
	_ = json.Unmarshal([]byte(text), &out)
	require.NotContains(t, out.Text, "canary")
	return out
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestHTTPRefusals_A1_A3(t *testing.T) {
	w := newWorld(t)
	h := w.adapter(t, w.byToken, &mcpadapter.Options{MaxRequestBytes: 4096, Origins: []string{"https://app.example"}}).HTTP()
	list := modern("tools/list", 7, "")
	rows := []struct {
		name, token, body string
		change            func(*http.Request)
		status, code      int
		id                any
		says              string
	}{
		{"nobody is not known, and the answer has the id of the request", "", list, nil, 401, 401, 7.0, "the caller is not known"},
		{"a text id is kept", "mallory", strings.Replace(list, `"id":7`, `"id":"a<b"`, 1), nil, 401, 401, "a<b", "the caller is not known"},
		{"a body that cannot be read gives the id null", "", "{", nil, 401, 401, nil, "the caller is not known"},
		{"an id that is no id is null", "", `{"id":{"a":1}}`, nil, 401, 401, nil, "the caller is not known"},
		{"a token without the scopes is known and not allowed", "low", list, nil, 403, 403, 7.0, "not allowed"},
		{"a directory that is away is no verdict", "later", list, nil, 503, 503, 7.0, "cannot be found out now"},
		{"the principal comes first: a call of nobody is not looked at", "", modern("tools/call", 7, `"name":"tickets.get"`), nil, 401, 401, 7.0, "not known"},
		{"a body over the limit", "alice", modern("tools/list", 7, `"x":"`+strings.Repeat("x", 5000)+`"`), nil, 413, 413, nil, "too large"},
		{"a batch", "alice", " [" + list + "]", nil, 400, 400, nil, "batches"},
		{"a body that is no JSON, and nothing of it comes back", "alice", `{"id":7,"jsonrpc":"2.0","method":canary}`, nil, 400, 400, nil, "not one JSON-RPC message"},
		{"another version of JSON-RPC", "alice", strings.Replace(list, `"2.0"`, `"canary"`, 1), nil, 400, 400, 7.0, "not one JSON-RPC message"},
		{"a body without anything", "alice", "", nil, 400, 400, nil, "non-empty body"},
		{"another kind of body", "alice", list, header("Content-Type", "text/plain"), 415, 415, 7.0, "application/json"},
		{"an answer that cannot be read", "alice", list, header("Accept", "image/png"), 400, 400, 7.0, "text/event-stream"},
		{"an older revision that nobody speaks", "alice", list, header("Mcp-Protocol-Version", "2020-01-01"), 400, 400, 7.0, "2025-11-25"},
		{"a page of another origin", "alice", list, header("Origin", "https://evil.example"), 403, 403, nil, "origin"},
		{"a page of no origin", "alice", list, header("Origin", "null"), 403, 403, nil, "origin"},
		{"a cross-site request by its own account", "alice", list, header("Sec-Fetch-Site", "cross-site"), 403, 403, nil, "origin"},
		{"a header that contradicts the body", "alice", list, header("Mcp-Method", "tools/call"), 400, -32020, 7.0, "Mcp-Method"},
		{"a revision that nobody speaks", "alice", strings.Replace(list, "2026-07-28", "2099-01-01", 1), header("Mcp-Protocol-Version", "2099-01-01"), 400, -32022, 7.0, "unsupported"},
		{"a method that is not served", "alice", modern("resources/list", 7, ""), nil, 404, -32601, 7.0, "method not found"},
		{"one that does not exist", "alice", modern("no/such", 7, ""), nil, 404, -32601, 7.0, "not"},
		{"the handshake is gone", "alice", modern("initialize", 7, ""), nil, 404, -32601, 7.0, "not found"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.change == nil {
				row.change = func(*http.Request) {}
			}
			got := post(t, h, row.token, row.body, row.change)
			require.Equal(t, row.status, got.Status, got.Text)
			require.NotNil(t, got.Error, got.Text)
			require.Equal(t, row.code, got.Error.Code)
			require.Equal(t, row.id, got.ID)
			require.Contains(t, got.Error.Message, row.says)
			require.Equal(t, row.status == 401, got.Header.Get("WWW-Authenticate") != "")
		})
	}
	require.Zero(t, w.count(""), "the provider hears of none of it")
	require.Contains(t, w.log.String(), canaryText, "the operator does")

	got := post(t, h, "alice", list, header("Origin", "https://app.example"))
	require.Equal(t, 200, got.Status, "a page that is trusted may call")
}

func TestHTTPServesOnlyPOST(t *testing.T) {
	w := newWorld(t)
	h := w.adapter(t, w.byToken, nil).HTTP()
	for _, method := range []string{"GET", "DELETE", "PUT", "OPTIONS"} {
		got := post(t, h, "alice", "", func(r *http.Request) { r.Method = method })
		require.Equal(t, 405, got.Status)
		require.Equal(t, "POST", got.Header.Get("Allow"))
	}
}

func TestHTTPHosts(t *testing.T) {
	w := newWorld(t)
	list := modern("tools/list", 1, "")
	local := func(r *http.Request) {
		addr := &fakeAddr{"127.0.0.1:80"}
		*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	open := w.adapter(t, w.byToken, nil).HTTP()
	closed := w.adapter(t, w.byToken, &mcpadapter.Options{Hosts: []string{"mcp.example.com"}}).HTTP()
	rows := []struct {
		name   string
		h      http.Handler
		host   string
		status int
	}{
		{"a loopback name on loopback", open, "localhost:80", 200},
		{"a loopback address of the other family", open, "[::1]:80", 200},
		{"somebody's name that points at loopback", open, "evil.example", 403},
		{"a name that begins well", open, "localhost.evil.example", 403},
		{"a host that is listed, behind a proxy", closed, "MCP.example.com:443", 200},
		{"a host that is not listed", closed, "localhost", 403},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.status, post(t, row.h, "alice", list, local, host(row.host)).Status)
		})
	}
}

type fakeAddr struct{ s string }

func (f *fakeAddr) Network() string { return "tcp" }
func (f *fakeAddr) String() string  { return f.s }

// Each request is its caller's, whatever came before it on the same connection
// and under the same session id.
func TestTwoPrincipalsOnOneConnection_A4_A8(t *testing.T) {
	w := newWorld(t)
	h := w.adapter(t, w.byToken, nil).HTTP()
	session := header("Mcp-Session-Id", "one-and-the-same")
	list, call := modern("tools/list", 1, ""), modern("tools/call", 2, `"name":"tickets.get","arguments":{"id":"1"}`)
	for range 3 {
		got := post(t, h, "alice", list, session)
		require.Contains(t, got.Text, `"tickets.get"`)
		require.Contains(t, got.Text, `"cacheScope":"private"`)
		got = post(t, h, "bob", list, session)
		require.Contains(t, got.Text, `"tickets.search"`)
		require.NotContains(t, got.Text, "tickets.get")
		require.NotContains(t, got.Text, "operation_status", "who sees no change has nothing to look up")

		require.Contains(t, post(t, h, "alice", call, session).Text, `"status":"success"`)
		denied := post(t, h, "bob", call, session)
		require.Equal(t, -32602, denied.Error.Code)
	}
	require.Equal(t, 3, w.count("GET /tickets/1"), "alice's three and none of bob's")
}

// Many callers at once, each with what is theirs.
func TestManyCallersAtOnce_A8(t *testing.T) {
	w := newWorld(t)
	h := w.adapter(t, w.byToken, nil).HTTP()
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			token, sees := "alice", true
			if i%2 == 0 {
				token, sees = "bob", false
			}
			assert.Equal(t, sees, strings.Contains(post(t, h, token, modern("tools/list", i, "")).Text, `"tickets.get"`))
			got := post(t, h, token, modern("tools/call", i, `"name":"tickets.get","arguments":{"id":"1"}`))
			assert.Equal(t, sees, got.Error == nil, got.Text)
		})
	}
	wg.Wait()
	require.Equal(t, 16, w.count("GET /tickets/1"))
}

// What is hidden and what does not exist are one answer, byte for byte, also
// when headers describe the tool and its parameters.
//
// H1-71: hidden in the list and denied in the call.
func TestNoExistenceOracle_A9_E7(t *testing.T) {
	w := newWorld(t)
	h := w.adapter(t, w.byToken, nil).HTTP()
	encoded := func(r *http.Request) {
		r.Header.Set("Mcp-Name", "=?base64?"+base64.StdEncoding.EncodeToString([]byte(r.Header.Get("Mcp-Name")))+"?=")
	}
	rows := map[string][]func(*http.Request){
		"plain":                      nil,
		"with a parameter's header":  {header("Mcp-Param-Id", "1")},
		"with another name's header": {header("Mcp-Name", "tickets.search")},
		"without a name's header":    {func(r *http.Request) { r.Header.Del("Mcp-Name") }},
		"with an encoded name":       {encoded},
		"in an older revision":       {older},
	}
	for name, change := range rows {
		t.Run(name, func(t *testing.T) {
			write := modern
			if name == "in an older revision" {
				write = legacy
			}
			try := func(tool, args string) answer {
				return post(t, h, "bob", write("tools/call", 1, `"name":"`+tool+`","arguments":`+args), change...)
			}
			missing := try("tickets.got", `{"id":"1"}`)
			require.NotNil(t, missing.Error, missing.Text)
			for _, args := range []string{`{"id":"1"}`, `{}`, `{"id":7}`, `[]`} {
				hidden := try("tickets.get", args)
				require.Equal(t, missing.Status, hidden.Status)
				require.Equal(t, strings.ReplaceAll(missing.Text, "tickets.got", "tickets.get"), hidden.Text)
				require.Equal(t, missing.Header, hidden.Header)
			}
		})
	}
}

// legacy is a request of revisions before 2026-07-28.
func legacy(method string, id int, params string) string {
	return compact(`{"jsonrpc":"2.0","id":` + itoa(id) + `,"method":"` + method + `","params":{` + params + `}}`)
}

// older makes a request one of revision 2025-11-25.
func older(r *http.Request) {
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	r.Header.Del("Mcp-Method")
	r.Header.Del("Mcp-Name")
}

// Older revisions work as far as they need no session.
func TestOlderRevisions_M1(t *testing.T) {
	w := newWorld(t)
	h := w.adapter(t, w.byToken, nil).HTTP()
	got := post(t, h, "alice", legacy("initialize", 1, `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`), older)
	require.Contains(t, got.Text, `"protocolVersion":"2025-11-25"`)
	require.Empty(t, got.Header.Get("Mcp-Session-Id"), "there are no sessions")
	require.Contains(t, post(t, h, "alice", legacy("tools/list", 2, ""), older).Text, `"tickets.get"`)
	got = post(t, h, "alice", legacy("tools/call", 3, `"name":"tickets.get","arguments":{"id":"1"}`), older)
	require.Contains(t, got.Text, `"status":"success"`)
	require.NotContains(t, got.Text, "resultType")
	require.Equal(t, 401, post(t, h, "", legacy("initialize", 1, ""), older).Status)
}

// An encoded name is the same tool.
func TestEncodedName(t *testing.T) {
	w := newWorld(t)
	h := w.adapter(t, w.byToken, nil).HTTP()
	call := modern("tools/call", 1, `"name":"tickets.get","arguments":{"id":"1"}`)
	got := post(t, h, "alice", call, header("Mcp-Name", "=?base64?dGlja2V0cy5nZXQ=?="))
	require.Contains(t, got.Text, `"status":"success"`)
	got = post(t, h, "alice", call, header("Mcp-Name", "=?base64?***?="))
	require.Equal(t, -32020, got.Error.Code)
}

// A right that is taken away between the list and the call is gone.
func TestRevocationBetweenListAndCall_A4_A8(t *testing.T) {
	w := newWorld(t)
	a := w.adapter(t, w.byToken, nil)
	srv := httptest.NewServer(a.HTTP())
	t.Cleanup(srv.Close)
	overHTTP, pipe := w.client(t, srv.URL, "alice"), inMemory(t, w.adapter(t, as(w.alice), nil), nil)
	for _, cs := range []*mcp.ClientSession{overHTTP, pipe} {
		w.hide("alice", "tickets.get", false)
		l, err := cs.ListTools(t.Context(), nil)
		require.NoError(t, err)
		require.Contains(t, names(l.Tools), "tickets.get")
		w.hide("alice", "tickets.get", true)
		before := w.count("")
		_, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "tickets.get", Arguments: map[string]any{"id": "1"}})
		require.ErrorContains(t, err, "unknown tool")
		require.Equal(t, before, w.count(""), "the provider hears nothing")
		w.hide("alice", "tickets.get", false)
		_, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "tickets.get", Arguments: map[string]any{"id": "1"}})
		require.NoError(t, err, "and what was just granted works without a new list")
	}
}

// client connects the SDK's client over HTTP with a token.
func (w *world) client(t testing.TB, url, token string) *mcp.ClientSession {
	t.Helper()
	tr := &http.Transport{}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(),
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{tr, token}}}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = cs.Close()
		tr.CloseIdleConnections()
	})
	return cs
}

type bearer struct {
	next  http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// One refused call leaves a client's session usable.
func TestRefusalLeavesTheSession(t *testing.T) {
	w := newWorld(t)
	token := "alice"
	var mu sync.Mutex
	who := func(ctx context.Context, r *http.Request) (authz.Principal, error) {
		mu.Lock()
		defer mu.Unlock()
		r.Header.Set("Authorization", "Bearer "+token)
		return w.byToken(ctx, r)
	}
	srv := httptest.NewServer(w.adapter(t, who, nil).HTTP())
	t.Cleanup(srv.Close)
	cs := w.client(t, srv.URL, "")
	set := func(s string) { mu.Lock(); defer mu.Unlock(); token = s }
	for _, bad := range []string{"nobody", "low", "later"} {
		set(bad)
		_, err := cs.ListTools(t.Context(), nil)
		require.Error(t, err)
		set("alice")
		_, err = cs.ListTools(t.Context(), nil)
		require.NoError(t, err)
	}
}

// A client that goes away takes its call with it, down to the provider.
func TestDisconnectCancelsTheCall_M4(t *testing.T) {
	for name, connect := range map[string]func(*testing.T, *world) *mcp.ClientSession{
		"http": func(t *testing.T, w *world) *mcp.ClientSession {
			srv := httptest.NewServer(w.adapter(t, w.byToken, nil).HTTP())
			t.Cleanup(srv.Close)
			return w.client(t, srv.URL, "alice")
		},
		"stdio": func(t *testing.T, w *world) *mcp.ClientSession {
			return inMemory(t, w.adapter(t, as(w.alice), nil), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			cs := connect(t, w)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "tickets.get", Arguments: map[string]any{"id": "slow"}})
				failed <- err
			}()
			<-w.arrived
			cancel()
			require.ErrorIs(t, <-failed, context.Canceled)
			<-w.ended
		})
	}
}

// A policy that cannot be asked is an envelope for a call, an error for a list,
// and nothing at all for what needs no policy.
func TestPolicyDown_A5(t *testing.T) {
	w := newWorld(t)
	h := w.adapter(t, w.byToken, nil).HTTP()
	cs := inMemory(t, w.adapter(t, as(w.alice), nil), nil)
	w.mu.Lock()
	w.down = true
	w.mu.Unlock()
	call := `"name":"tickets.get","arguments":{"id":"1"}`
	for _, got := range []answer{
		post(t, h, "alice", modern("tools/call", 1, call)),
		post(t, h, "alice", legacy("tools/call", 1, call), older),
	} {
		require.Contains(t, got.Text, `"POLICY_UNAVAILABLE"`)
		require.Contains(t, got.Text, `"isError":true`)
	}
	got := post(t, h, "alice", modern("tools/list", 1, ""))
	require.Equal(t, 503, got.Error.Code)
	require.Equal(t, "POLICY_UNAVAILABLE", got.Error.Data["code"])

	r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "tickets.get", Arguments: map[string]any{"id": "1"}})
	require.NoError(t, err)
	require.Equal(t, toolresult.PolicyUnavailable, decoded(t, r).Error.Code)
	_, err = cs.ListTools(t.Context(), nil)
	require.ErrorContains(t, err, "cannot be found out now")
	require.Zero(t, w.count(""))
}

// A PrincipalFunc sees the request and cannot take its body away.
func TestPrincipalFuncHasNoBody(t *testing.T) {
	w := newWorld(t)
	var asked int
	h := w.adapter(t, func(_ context.Context, r *http.Request) (authz.Principal, error) {
		asked++
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Empty(t, text)
		r.Header.Set("Mcp-Method", "nonsense")
		return w.alice, nil
	}, nil).HTTP()
	require.Contains(t, post(t, h, "", modern("tools/list", 1, "")).Text, "tickets.get")
	require.Equal(t, 1, asked, "once for a request")
}
