package mcpadapter_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// A7: resources, templates, prompts and completions pass through the same gate
// as tools: they are listed if the capability may be seen now, and each reading
// is a call of it. What is behind them is no tool unless that is said.
func TestResourcesAndPrompts_A7_M1(t *testing.T) {
	d := newDesk(t, false)
	srv := d.serve(t, d.options())
	list := func(who, method, what string) int {
		return len(at(t, rpc(t, srv.URL, who, method, nil, noMode), "result", what).([]any))
	}
	require.Equal(t, 2, list("alice", "resources/templates/list", "resourceTemplates"), "notes and artifacts")
	require.Equal(t, 0, list("alice", "resources/list", "resources"))
	require.Equal(t, 1, list("alice", "prompts/list", "prompts"))
	require.Equal(t, 3, list("alice", "tools/list", "tools"), "notes.tool, notes.write and operation_status")
	read := func(who, uri string) map[string]any {
		return rpc(t, srv.URL, who, "resources/read", map[string]any{"uri": uri}, noMode)
	}
	r := read("alice", "note://a")
	require.Equal(t, "private", at(t, r, "result", "cacheScope"))
	require.Equal(t, "complete", at(t, r, "result", "resultType"))
	require.Contains(t, at(t, r, "result", "contents").([]any)[0].(map[string]any)["text"], "the text of a")
	require.Equal(t, "partial", at(t, read("alice", "note://gap"), "result", "_meta", mcpadapter.ResultMeta, "status"), "what is missing is said beside the contents")
	require.NotContains(t, at(t, read("alice", "note://gap"), "result", "_meta", mcpadapter.ResultMeta), "data")
	for _, uri := range []string{"note://none", "note://", "note://a/b", "other://a", "note://" + strings.Repeat("x", 3000), "artifact://no/such/1", "artifact://../x/1"} {
		require.EqualValues(t, -32602, at(t, read("alice", uri), "error", "code"), uri)
	}
	r = read("alice", "note://error")
	require.NotContains(t, r, canaryText)
	require.Equal(t, "INTERNAL", at(t, r, "error", "data", "error", "code"), "and never an empty success")

	prompt := map[string]any{"name": "explain", "arguments": map[string]any{"id": "a"}}
	r = rpc(t, srv.URL, "alice", "prompts/get", prompt, noMode)
	require.Len(t, at(t, r, "result", "messages").([]any), 1, r)
	r = rpc(t, srv.URL, "alice", "prompts/get", map[string]any{"name": "explain", "arguments": map[string]any{"nothing": "a"}}, noMode)
	require.EqualValues(t, -32602, at(t, r, "error", "code"), "the arguments are validated: %v", r)
	complete := map[string]any{"ref": map[string]any{"type": "ref/prompt", "name": "explain"}, "argument": map[string]any{"name": "id", "value": "x"}}
	r = rpc(t, srv.URL, "alice", "completion/complete", complete, noMode)
	require.Len(t, at(t, r, "result", "completion", "values").([]any), 2, r)

	// A right that is taken away is gone with the next request, whatever was listed.
	d.hide("alice notes.read", true)
	d.hide("alice notes.prompt", true)
	require.Equal(t, 1, list("alice", "resources/templates/list", "resourceTemplates"))
	require.Equal(t, 0, list("alice", "prompts/list", "prompts"))
	require.EqualValues(t, -32602, at(t, read("alice", "note://a"), "error", "code"))
	require.EqualValues(t, -32602, at(t, rpc(t, srv.URL, "alice", "prompts/get", prompt, noMode), "error", "code"))
	require.EqualValues(t, -32602, at(t, rpc(t, srv.URL, "alice", "completion/complete", complete, noMode), "error", "code"))
	require.NotNil(t, at(t, read("bob", "note://a"), "result"), "and bob's is not")
	for _, method := range []string{"resources/list", "resources/templates/list", "prompts/list"} {
		require.EqualValues(t, -32602, at(t, rpc(t, srv.URL, "bob", method, map[string]any{"cursor": "bm90ZXMucmVhZA"}, noMode), "error", "code"), "no list has a second page")
	}
}

// R8: having a data_ref grants nothing. Reading it asks for the rights that the
// reader has now, and somebody else's is not there.
func TestArtifacts_R8(t *testing.T) {
	d := newDesk(t, false)
	srv := d.serve(t, d.options())
	r := rpc(t, srv.URL, "alice", "tools/call", map[string]any{"name": "notes.tool", "arguments": map[string]any{"id": "large"}}, noMode)
	ref := at(t, r, "result", "structuredContent", "data_ref").(string)
	require.True(t, strings.HasPrefix(ref, "artifact://"), r)
	read := func(who string) map[string]any {
		return rpc(t, srv.URL, who, "resources/read", map[string]any{"uri": ref}, noMode)
	}
	r = read("alice")
	require.Greater(t, len(at(t, r, "result", "contents").([]any)[0].(map[string]any)["text"].(string)), 300<<10)
	missing := read("bob")
	require.EqualValues(t, -32602, at(t, missing, "error", "code"))
	d.hide("alice notes.tool", true)
	require.Equal(t, missing, read("alice"), "one answer")

	opts := d.options()
	opts.MaxContentBytes = 1000
	d.hide("alice notes.tool", false)
	r = rpc(t, d.serve(t, opts).URL, "alice", "resources/read", map[string]any{"uri": ref}, noMode)
	require.Equal(t, "RESULT_TOO_LARGE", at(t, r, "error", "data", "error", "code"))
}

// A7, K2: what may change something is no resource and no prompt, and what is
// not there cannot be shown.
func TestNewRefusesResources_A7(t *testing.T) {
	d := newDesk(t, false)
	for name, o := range map[string]mcpadapter.Options{
		"a write as a resource":   {Resources: []mcpadapter.Resource{{URI: "note://{id}", Capability: "notes.write"}}},
		"a write as a prompt":     {Prompts: []mcpadapter.Prompt{{Name: "p", Capability: "notes.write"}}},
		"a write as a completion": {Prompts: []mcpadapter.Prompt{{Name: "p", Capability: "notes.read", Completions: map[string]mcpadapter.Completion{"id": {Capability: "notes.write"}}}}},
		"nothing":                 {Resources: []mcpadapter.Resource{{URI: "note://{id}", Capability: "notes.nope"}}},
		"no URI":                  {Resources: []mcpadapter.Resource{{URI: "notes", Capability: "notes.read"}}},
		"a bad template":          {Resources: []mcpadapter.Resource{{URI: "note://{id", Capability: "notes.read"}}},
		"a fixed variable":        {Resources: []mcpadapter.Resource{{URI: "note://{id}", Capability: "notes.read", Arguments: map[string]any{"id": "1"}}}},
		"an artifact":             {Resources: []mcpadapter.Resource{{URI: "artifact://{id}", Capability: "notes.read"}}},
		"a name twice":            {Prompts: []mcpadapter.Prompt{{Name: "p", Capability: "notes.read"}, {Name: "p", Capability: "notes.tool"}}},
		"a short key":             {StateKey: "k", StateKeys: map[string][]byte{"k": make([]byte, 16)}},
		"no key":                  {StateKey: "k"},
		"a negative timeout":      {SessionTimeout: -1},
		"a negative limit":        {MaxContentBytes: -1},
	} {
		_, err := mcpadapter.New(d.inv, d.byToken, &o)
		require.Error(t, err, name)
	}
}

// A8, H1-14: a session of an older client has no identity. Each request is its
// sender's, and a session of somebody else is not there; a right that is taken
// away is gone with the next request.
func TestSessions_A8_H1_14(t *testing.T) {
	d := newDesk(t, false)
	opts := d.options()
	opts.SessionTimeout = time.Minute
	a, err := mcpadapter.New(d.inv, d.byToken, opts)
	require.NoError(t, err)
	srv := httptest.NewServer(a.HTTP())
	defer srv.Close()
	send := func(method, who, session, body string, headers ...string) (*http.Response, string) {
		req, err := http.NewRequest(method, srv.URL, strings.NewReader(body))
		require.NoError(t, err)
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + who, "Mcp-Protocol-Version": "2025-11-25"} {
			req.Header.Set(k, v)
		}
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp, readAll(t, resp.Body)
	}
	resp, _ := send("POST", "alice", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session := resp.Header.Get("Mcp-Session-Id")
	require.NotEmpty(t, session)
	send("POST", "alice", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"notes.tool","arguments":{"id":"a"}}}`
	list := `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`
	_, text := send("POST", "alice", session, call)
	require.Contains(t, text, "the text of a")
	for _, method := range []string{"POST", "DELETE"} {
		resp, text = send(method, "bob", session, call)
		require.Equal(t, 404, resp.StatusCode, text)
		resp, _ = send(method, "nobody", session, call)
		require.Equal(t, 401, resp.StatusCode)
	}
	for _, made := range []string{"x", "x.y", session + "A", strings.Repeat("x", 5000)} {
		resp, _ = send("POST", "alice", made, call)
		require.Equal(t, 404, resp.StatusCode, made)
	}
	resp, _ = send("GET", "bob", session, "")
	require.Equal(t, 404, resp.StatusCode, "nor can somebody else listen")
	resp, _ = send("GET", "alice", session, "", "Origin", "https://evil.test", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, 403, resp.StatusCode, "nor a page of another origin")
	_, text = send("POST", "alice", session, call, "X-Drawbridge-Call", "made up")
	require.Contains(t, text, "the text of a", "what only the adapter says is not read from outside")

	_, text = send("POST", "alice", session, list)
	require.Contains(t, text, "notes.tool")
	d.hide("alice notes.tool", true)
	_, text = send("POST", "alice", session, call)
	require.Contains(t, text, "unknown tool", "a list that the client keeps does not help")
	_, text = send("POST", "alice", session, list)
	require.NotContains(t, text, "notes.tool")
	resp, _ = send("DELETE", "alice", session, "")
	require.Equal(t, 204, resp.StatusCode)
	d.hide("alice notes.tool", false)
	resp, _ = send("POST", "alice", session, call)
	require.Equal(t, 404, resp.StatusCode)
	require.NoError(t, a.Shutdown(t.Context()))
	resp, _ = send("POST", "alice", "", list)
	require.Equal(t, 503, resp.StatusCode, "after Shutdown nothing begins")
}

// A7, A8: who has subscribed hears of a change if they may read it then, and
// others do not, also if they share a server of the SDK.
func TestSubscriptions_A7_M1(t *testing.T) {
	d := newDesk(t, false)
	a, err := mcpadapter.New(d.inv, d.byToken, d.options())
	require.NoError(t, err)
	heard := make(chan string, 10)
	server, client := mcp.NewInMemoryTransports()
	ss, err := a.Connect(t.Context(), server)
	require.NoError(t, err)
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { heard <- r.Params.URI },
	}).Connect(t.Context(), client, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	require.Error(t, cs.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "other://a"}), "it is no resource")
	require.NoError(t, cs.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "note://a"}))
	a.ResourceUpdated(t.Context(), "note://b")
	a.ResourceUpdated(t.Context(), "note://a")
	require.Equal(t, "note://a", <-heard)
	d.hide("alice notes.read", true)
	a.ResourceUpdated(t.Context(), "note://a") // alice may not know
	d.hide("alice notes.read", false)
	a.ResourceUpdated(t.Context(), "note://a")
	require.Equal(t, "note://a", <-heard)
	require.NoError(t, cs.Ping(t.Context(), nil)) // what was sent has arrived
	require.Empty(t, heard)
	require.NoError(t, cs.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "note://a"}))
	a.ResourceUpdated(t.Context(), "note://a")
	require.NoError(t, cs.Ping(t.Context(), nil))
	require.Empty(t, heard)
	require.NoError(t, cs.Close())
	_ = ss.Wait()
}

// M1: what a host adds to a result comes behind its text, is bounded, and is
// not asked for when the result is an error.
func TestContent_M1(t *testing.T) {
	d := newDesk(t, false)
	opts := d.options()
	opts.MaxContentBytes = 2000
	opts.Content = func(_ context.Context, _ string, r *toolresult.Result) []mcp.Content {
		return []mcp.Content{&mcp.ImageContent{Data: make([]byte, 900), MIMEType: "image/png"}, &mcp.ImageContent{Data: make([]byte, 900), MIMEType: "image/png"}}
	}
	srv := d.serve(t, opts)
	r := rpc(t, srv.URL, "alice", "tools/call", map[string]any{"name": "notes.tool", "arguments": map[string]any{"id": "a"}}, noMode)
	blocks := at(t, r, "result", "content").([]any)
	require.Len(t, blocks, 3)
	require.Equal(t, "text", at(t, blocks[0], "type"))
	require.Equal(t, "image", at(t, blocks[1], "type"))
	require.Contains(t, at(t, blocks[2], "text"), "left out")
	r = rpc(t, srv.URL, "alice", "tools/call", map[string]any{"name": "notes.tool", "arguments": map[string]any{"id": "none"}}, noMode)
	require.Len(t, at(t, r, "result", "content").([]any), 1)
}

// M1: what a client negotiated is logged when it introduces itself, in both
// eras, and nothing about who calls.
func TestNegotiationIsLogged_M1(t *testing.T) {
	d := newDesk(t, false)
	var log strings.Builder
	var mu sync.Mutex
	opts := d.options()
	opts.Logger = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	srv := d.serve(t, opts)
	rpc(t, srv.URL, "alice", "server/discover", map[string]any{"_meta": map[string]any{"io.modelcontextprotocol/clientInfo": map[string]any{"name": "a\nb", "version": "3"}}}, pages)
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"old","version":"1"}}}`
	req, err := http.NewRequest(http.MethodPost, srv.URL, strings.NewReader(body))
	require.NoError(t, err)
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer alice"} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	readAll(t, resp.Body)
	require.NoError(t, resp.Body.Close())
	mu.Lock()
	defer mu.Unlock()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2, log.String())
	require.Contains(t, lines[0], `method=server/discover protocol_version=2026-07-28 client="a b" client_version=3 form=true url=true sampling=false`)
	require.Contains(t, lines[1], `method=initialize protocol_version=2025-06-18 client=old client_version=1 form=false url=false sampling=true`)
	require.NotContains(t, log.String(), "alice")
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// M4: Shutdown lets a call that is under way end, and cuts it off when there is
// no more time; streams end at once.
func TestShutdown_M4(t *testing.T) {
	for name, enough := range map[string]bool{"enough time": true, "no time": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.adapter(t, w.byToken, &mcpadapter.Options{Subscriptions: true, Artifacts: true})
			srv := httptest.NewServer(a.HTTP())
			defer srv.Close()
			defer srv.CloseClientConnections()
			answered := make(chan string, 1)
			id := "slow"
			go func() { answered <- rawCall(srv.URL, id) }()
			<-w.arrived
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			if enough {
				srv.CloseClientConnections() // the client goes, and so the call ends
			} else {
				cancel()
			}
			go func() { ended <- a.Shutdown(ctx) }()
			err := <-ended
			<-w.ended // the provider's request was given up
			if enough {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			<-answered
			require.NoError(t, a.Shutdown(t.Context()), "once more")
		})
	}
}

// rawCall calls a tool of the tickets and returns what came.
func rawCall(url, id string) string {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tickets.get","arguments":{"id":"` + id + `"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": "tickets.get", "Authorization": "Bearer alice"} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// A7, M4: a stream of 2026-07-28 acknowledges what its caller may hear of, tells
// of it, and ends with the service.
func TestListen_A7_M4(t *testing.T) {
	d := newDesk(t, false)
	a, err := mcpadapter.New(d.inv, d.byToken, d.options())
	require.NoError(t, err)
	srv := httptest.NewServer(a.HTTP())
	defer srv.Close()
	defer srv.CloseClientConnections()
	d.hide("bob notes.read", true)
	open := func(who string) (*bufio.Scanner, io.Closer) {
		body := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["note://a","note://a","other://x"],"toolsListChanged":true},
			"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		req, err := http.NewRequest(http.MethodPost, srv.URL, strings.NewReader(body))
		require.NoError(t, err)
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
			"Mcp-Method": "subscriptions/listen", "Authorization": "Bearer " + who} {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		return bufio.NewScanner(resp.Body), resp.Body
	}
	next := func(s *bufio.Scanner) string {
		for s.Scan() {
			if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				return data
			}
		}
		return "the end"
	}
	stream, body := open("alice")
	defer body.Close()
	require.Contains(t, next(stream), `"notifications":{"resourceSubscriptions":["note://a"]}`, "once, and nothing that is not there")
	a.ResourceUpdated(t.Context(), "note://a")
	require.Contains(t, next(stream), `"notifications/resources/updated"`)
	other, otherBody := open("bob")
	defer otherBody.Close()
	require.NotContains(t, next(other), "note://a", "bob may not know of it")
	require.Contains(t, next(other), `"id":7`, "and has nothing to wait for")
	require.NoError(t, a.Shutdown(t.Context()))
	require.Contains(t, next(stream), `"id":7`, "the stream ends with an answer")
	require.Equal(t, "the end", next(stream))
}
