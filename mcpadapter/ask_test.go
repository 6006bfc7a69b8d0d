package mcpadapter_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// A desk serves notes, which are read as tools, resources and prompts, and may
// be changed.
type desk struct {
	asked      int // how often the policy was
	inv        *connector.Invoker
	host       *authz.Authority
	alice, bob authz.Principal

	mu       sync.Mutex
	hidden   map[string]bool // "alice notes.read"
	approver string
	sent     int
	down     bool // the policy does not answer
}

type noteID struct {
	ID string `json:"id"`
}

func newDesk(t testing.TB, self bool) *desk {
	t.Helper()
	d := &desk{hidden: map[string]bool{}, approver: "alice"}
	d.alice, d.host = authztest.Principal(t, "acme", "alice")
	d.bob = authztest.Caller(t, d.host, "acme", "bob")
	spec := func(name string) connector.Spec {
		return connector.Spec{Name: name, Description: "about " + name, Sensitivity: risk.Internal}
	}
	read := func(_ context.Context, _ *connector.ReadCall, in noteID) (*connector.Answer[string], error) {
		switch in.ID {
		case "none":
			return nil, toolresult.NewError(toolresult.NotFound, "there is no such note")
		case "error":
			return nil, errors.New(canaryText)
		case "large":
			return connector.Found(strings.Repeat("x", 300<<10)), nil
		case "gap":
			a := connector.Found("half")
			a.Missing = []toolresult.Gap{toolresult.GapRemainingRows}
			return a, nil
		}
		return connector.Found("the text of " + in.ID), nil
	}
	c, err := connector.New(connector.Info{ID: "notes", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Read(spec("notes.read"), connector.OnConnection[noteID], read),
		connector.Read(spec("notes.prompt"), connector.OnConnection[noteID], read),
		connector.Read(spec("notes.tool"), connector.OnConnection[noteID], read),
		connector.Write(connector.WriteSpec{Spec: spec("notes.write"), SideEffect: risk.CompensableWrite, Approval: connector.ApprovalAlways},
			connector.OnConnection[noteID], connector.Reconcilable(d.write, d.lookUp)))
	require.NoError(t, err)
	d.inv, err = connector.NewInvoker(authztest.Policy(d.decide), []*authz.Authority{d.host}, []connector.Connector{c},
		&connector.Options{Forgetful: true, Approvals: &authz.MemoryApprovals{}, SelfApproval: self, Artifacts: artifact.NewMemory(8 << 20)})
	require.NoError(t, err)
	return d
}

func (d *desk) write(ctx context.Context, call *connector.WriteCall, in noteID) (*connector.Receipt[string], error) {
	if err := call.Dispatch(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent++
	return connector.Applied("written", in.ID), nil
}

func (d *desk) lookUp(context.Context, *connector.ReadCall, noteID, operation.Operation) (*connector.Evidence[string], error) {
	return nil, nil
}

func (d *desk) writes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent
}

func (d *desk) hide(what string, hidden bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hidden[what] = hidden
}

func (d *desk) decide(r *authz.Request) (authz.Decision, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.down {
		return authz.Decision{}, errors.New("no policy")
	}
	who := r.Principal.Key().Subject
	if d.hidden[who+" "+r.Action.Capability] || r.Purpose == authz.Approve && who != d.approver {
		return authz.Decision{Verdict: authz.Deny, Revision: "r1"}, nil
	}
	return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "r1"}, nil
}

func (d *desk) byToken(_ context.Context, r *http.Request) (authz.Principal, error) {
	switch {
	case r == nil, r.Header.Get("Authorization") == "Bearer alice":
		return d.alice, nil
	case r.Header.Get("Authorization") == "Bearer bob":
		return d.bob, nil
	}
	return authz.Principal{}, errors.New("nobody")
}

func (d *desk) options() *mcpadapter.Options {
	return &mcpadapter.Options{
		Artifacts: true, Subscriptions: true,
		Resources: []mcpadapter.Resource{{URI: "note://{id}", Capability: "notes.read"}},
		Prompts: []mcpadapter.Prompt{{Name: "explain", Capability: "notes.prompt",
			Completions: map[string]mcpadapter.Completion{"id": {Capability: "notes.prompt", Values: func(r *toolresult.Result) ([]string, error) { return []string{"a", "b"}, nil }}}}},
	}
}

func (d *desk) serve(t testing.TB, opts *mcpadapter.Options) *httptest.Server {
	t.Helper()
	a, err := mcpadapter.New(d.inv, d.byToken, opts)
	require.NoError(t, err)
	srv := httptest.NewServer(a.HTTP())
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv
}

// rpc is one request of revision 2026-07-28, as somebody.
func rpc(t testing.TB, url, who, method string, params map[string]any, client string) map[string]any {
	t.Helper()
	p := map[string]any{}
	for k, v := range params {
		p[k] = v
	}
	meta := map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": json.RawMessage(client)}
	if m, ok := p["_meta"].(map[string]any); ok {
		for k, v := range m {
			meta[k] = v
		}
	}
	p["_meta"] = meta
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": p})
	require.NoError(t, err)
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(string(body)))
	require.NoError(t, err)
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": method, "Authorization": "Bearer " + who} {
		req.Header.Set(k, v)
	}
	for _, k := range []string{"name", "uri"} {
		if v, ok := p[k].(string); ok {
			req.Header.Set("Mcp-Name", v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text := readAll(t, resp.Body)
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && strings.Contains(data, `"id":1`) {
			text = data
		}
	}
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &out), text)
	return out
}

func at(t testing.TB, v any, path ...string) any {
	t.Helper()
	for _, p := range path {
		m, ok := v.(map[string]any)
		require.True(t, ok, "%v has no %s", v, p)
		v = m[p]
	}
	return v
}

const (
	forms  = `{"elicitation":{"form":{}}}`
	pages  = `{"elicitation":{"form":{},"url":{}}}`
	noMode = `{}`
)

// sizes asks which size is meant, and calls with the answer.
func sizes(field string) func(context.Context, *mcpadapter.Asking) (*mcpadapter.Questions, error) {
	return func(_ context.Context, a *mcpadapter.Asking) (*mcpadapter.Questions, error) {
		if r, ok := a.Answers["which"].(*mcp.ElicitResult); ok {
			text, err := json.Marshal(map[string]any{"id": r.Content[field]})
			return &mcpadapter.Questions{Arguments: text}, err
		}
		return &mcpadapter.Questions{Ask: mcp.InputRequestMap{"which": &mcp.ElicitParams{Mode: "form", Message: "Which?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"` + field + `":{"type":"string","maxLength":5}},"required":["` + field + `"]}`)}}}, nil
	}
}

func accepted(content string) map[string]any {
	return map[string]any{"which": map[string]any{"action": "accept", "content": json.RawMessage(content)}}
}

// H1-75, A8: a requestState is good for the principal, the method, the name, the
// arguments and the operation that it was made for, once, and until it ends;
// edited or under another key it is nothing. All of them are one answer.
func TestRequestState_H1_75_A8(t *testing.T) {
	d := newDesk(t, false)
	opts := d.options()
	opts.Ask = sizes("size")
	srv, other := d.serve(t, opts), d.serve(t, opts)
	call := func(extra map[string]any) map[string]any {
		p := map[string]any{"name": "notes.tool", "arguments": map[string]any{"id": "x"}}
		for k, v := range extra {
			p[k] = v
		}
		return p
	}
	fresh := func() string {
		r := rpc(t, srv.URL, "alice", "tools/call", call(nil), forms)
		require.Equal(t, "input_required", at(t, r, "result", "resultType"), r)
		return at(t, r, "result", "requestState").(string)
	}
	answer := accepted(`{"size":"s"}`)
	for name, row := range map[string]struct {
		url, who, method string
		params           func(state string) map[string]any
	}{
		"another principal": {srv.URL, "bob", "tools/call", func(s string) map[string]any {
			return call(map[string]any{"inputResponses": answer, "requestState": s})
		}},
		"other arguments": {srv.URL, "alice", "tools/call", func(s string) map[string]any {
			return call(map[string]any{"arguments": map[string]any{"id": "y"}, "inputResponses": answer, "requestState": s})
		}},
		"another operation": {srv.URL, "alice", "tools/call", func(s string) map[string]any {
			return call(map[string]any{"_meta": map[string]any{mcpadapter.OperationMeta: "op-1"}, "inputResponses": answer, "requestState": s})
		}},
		"another tool": {srv.URL, "alice", "tools/call", func(s string) map[string]any {
			return call(map[string]any{"name": "notes.write", "inputResponses": answer, "requestState": s})
		}},
		"another method": {srv.URL, "alice", "prompts/get", func(s string) map[string]any {
			return map[string]any{"name": "explain", "arguments": map[string]any{"id": "x"}, "inputResponses": answer, "requestState": s}
		}},
		"edited": {srv.URL, "alice", "tools/call", func(s string) map[string]any {
			return call(map[string]any{"inputResponses": answer, "requestState": s[:len(s)-2] + "AA"})
		}},
		"longer": {srv.URL, "alice", "tools/call", func(s string) map[string]any {
			return call(map[string]any{"inputResponses": answer, "requestState": s + "-TAMPERED"})
		}},
		"another key": {other.URL, "alice", "tools/call", func(s string) map[string]any {
			return call(map[string]any{"inputResponses": answer, "requestState": s})
		}},
		"made up": {srv.URL, "alice", "tools/call", func(string) map[string]any {
			return call(map[string]any{"inputResponses": answer, "requestState": "own."})
		}},
	} {
		r := rpc(t, row.url, row.who, row.method, row.params(fresh()), forms)
		require.EqualValues(t, -32602, at(t, r, "error", "code"), "%s: %v", name, r)
		require.Contains(t, at(t, r, "error", "message"), "requestState", name)
	}
	state := fresh()
	p := call(map[string]any{"inputResponses": answer, "requestState": state})
	r := rpc(t, srv.URL, "alice", "tools/call", p, forms)
	require.Equal(t, "the text of s", at(t, r, "result", "structuredContent", "data"), r)
	r = rpc(t, srv.URL, "alice", "tools/call", p, forms)
	require.EqualValues(t, -32602, at(t, r, "error", "code"), "it was used: %v", r)
	for range 3 { // the wording of the arguments does not matter, their meaning does
		r = rpc(t, srv.URL, "alice", "tools/call", call(map[string]any{"arguments": json.RawMessage(`{ "id" : "x" }`), "inputResponses": answer, "requestState": fresh()}), forms)
		require.Nil(t, at(t, r, "error"), r)
	}
}

// C7: a form asks for harmless choices only. One that asks for a secret, in
// whichever words, is refused before the client sees it, and so is a page that
// is not at an https URL. Nothing of it is told to the client.
func TestFormForASecret_C7(t *testing.T) {
	d := newDesk(t, false)
	form := func(schema string) mcp.InputRequestMap {
		return mcp.InputRequestMap{"which": &mcp.ElicitParams{Message: "?", RequestedSchema: json.RawMessage(schema)}}
	}
	for name, ask := range map[string]mcp.InputRequestMap{
		"field":       form(`{"type":"object","properties":{"slack_password":{"type":"string"}}}`),
		"title":       form(`{"type":"object","properties":{"a":{"type":"string","title":"API key"}}}`),
		"description": form(`{"type":"object","properties":{"a":{"type":"string","description":"the one-time code from your phone"}}}`),
		"format":      form(`{"type":"object","properties":{"a":{"type":"string","format":"password"}}}`),
		"write only":  form(`{"type":"object","properties":{"a":{"type":"string","writeOnly":true}}}`),
		"nested":      form(`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}}}}`),
		"no object":   form(`{"type":"string"}`),
		"no schema":   {"which": &mcp.ElicitParams{Message: "?"}},
		"plain page":  {"which": &mcp.ElicitParams{Message: "?", URL: "http://example.com/"}},
		"script":      {"which": &mcp.ElicitParams{Message: "?", URL: "javascript:alert(1)"}},
	} {
		opts := d.options()
		opts.Ask = func(context.Context, *mcpadapter.Asking) (*mcpadapter.Questions, error) {
			return &mcpadapter.Questions{Ask: ask}, nil
		}
		srv := d.serve(t, opts)
		r := rpc(t, srv.URL, "alice", "tools/call", map[string]any{"name": "notes.tool", "arguments": map[string]any{"id": "x"}}, pages)
		require.Equal(t, "internal error", at(t, r, "error", "message"), "%s: %v", name, r)
	}
}

// C7: a client that lacks the mode is told what it lacks, and not asked in
// another way; one that declines is answered, and nothing is done. An answer
// that does not fit is asked for again.
func TestAsking_C7(t *testing.T) {
	d := newDesk(t, false)
	opts := d.options()
	opts.Ask = sizes("size")
	srv := d.serve(t, opts)
	ask := func(client string, extra map[string]any) map[string]any {
		p := map[string]any{"name": "notes.tool", "arguments": map[string]any{"id": "x"}}
		for k, v := range extra {
			p[k] = v
		}
		return rpc(t, srv.URL, "alice", "tools/call", p, client)
	}
	for _, client := range []string{noMode, `{"elicitation":{"url":{}}}`, `{"sampling":{}}`} {
		r := ask(client, nil)
		require.EqualValues(t, -32021, at(t, r, "error", "code"), r)
		require.Equal(t, map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}, at(t, r, "error", "data", "requiredCapabilities"))
	}
	require.Equal(t, "input_required", at(t, ask(`{"elicitation":{}}`, nil), "result", "resultType"), "which is a form")
	for _, content := range []string{`{}`, `{"size":7}`, `{"size":"far too long"}`, `null`} {
		r := ask(forms, map[string]any{"inputResponses": accepted(content)})
		require.Equal(t, "input_required", at(t, r, "result", "resultType"), "%s: %v", content, r)
	}
	for _, action := range []string{"decline", "cancel"} {
		r := ask(forms, map[string]any{"inputResponses": map[string]any{"which": map[string]any{"action": action}}})
		require.Equal(t, "CANCELLED", at(t, r, "result", "structuredContent", "error", "code"), r)
	}
	r := ask(forms, map[string]any{"inputResponses": accepted(`{"size":"none"}`)})
	require.Equal(t, "NOT_FOUND", at(t, r, "result", "structuredContent", "error", "code"), "and an answer is an argument like any other")
}

// A4, A9: nobody is asked anything about what they may not see: a hidden tool,
// resource or prompt and one that is not there are one answer, whatever comes
// with the request.
func TestNothingIsAskedAboutWhatIsHidden_A9_E7(t *testing.T) {
	d := newDesk(t, false)
	opts := d.options()
	opts.Ask = sizes("size")
	opts.Resources = append(opts.Resources, mcpadapter.Resource{URI: "secret://one", Capability: "notes.tool", Tool: true})
	srv := d.serve(t, opts)
	for _, c := range []string{"notes.read", "notes.prompt", "notes.tool", "notes.write"} {
		d.hide("bob "+c, true)
	}
	for _, extra := range []map[string]any{nil, {"requestState": "own.AAAA"}, {"inputResponses": accepted(`{"size":"s"}`)}} {
		with := func(p map[string]any) map[string]any {
			for k, v := range extra {
				p[k] = v
			}
			return p
		}
		for _, pair := range [][2]map[string]any{
			{with(map[string]any{"name": "notes.tool"}), with(map[string]any{"name": "notes.nope"})},
			{with(map[string]any{"uri": "secret://one"}), with(map[string]any{"uri": "secret://two"})},
			{with(map[string]any{"name": "explain", "arguments": map[string]any{"id": "x"}}), with(map[string]any{"name": "nothing", "arguments": map[string]any{"id": "x"}})},
		} {
			method := "tools/call"
			if pair[0]["uri"] != nil {
				method = "resources/read"
			} else if pair[0]["name"] == "explain" {
				method = "prompts/get"
			}
			hidden, missing := rpc(t, srv.URL, "bob", method, pair[0], forms), rpc(t, srv.URL, "bob", method, pair[1], forms)
			if e, ok := at(t, hidden, "error", "data").(map[string]any); ok {
				require.Equal(t, pair[0]["uri"], e["uri"])
				e["uri"] = at(t, missing, "error", "data", "uri")
			}
			require.Equal(t, missing, hidden, method)
			require.EqualValues(t, -32602, at(t, hidden, "error", "code"))
		}
	}
	r := rpc(t, srv.URL, "bob", "completion/complete", map[string]any{"ref": map[string]any{"type": "ref/prompt", "name": "explain"}, "argument": map[string]any{"name": "id", "value": ""}}, noMode)
	require.EqualValues(t, -32602, at(t, r, "error", "code"))
}

// H1-75: a state ends.
func TestRequestStateEnds_H1_75(t *testing.T) {
	d := newDesk(t, false)
	opts := d.options()
	opts.Ask = sizes("size")
	a, err := mcpadapter.New(d.inv, d.byToken, opts)
	require.NoError(t, err)
	post := func(state string) string {
		p := `"name":"notes.tool","arguments":{"id":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + forms + `}`
		if state != "" {
			p += `,"requestState":"` + state + `","inputResponses":{"which":{"action":"accept","content":{"size":"s"}}}`
		}
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+p+`}}`))
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
			"Mcp-Method": "tools/call", "Mcp-Name": "notes.tool", "Authorization": "Bearer alice"} {
			req.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		a.HTTP().ServeHTTP(w, req)
		return w.Body.String()
	}
	synctest.Test(t, func(t *testing.T) {
		state := func() string {
			_, s, ok := strings.Cut(post(""), `"requestState":"`)
			require.True(t, ok)
			s, _, _ = strings.Cut(s, `"`)
			return s
		}
		in, late := state(), state()
		time.Sleep(14 * time.Minute)
		require.Contains(t, post(in), "the text of s")
		time.Sleep(time.Minute)
		require.Contains(t, post(late), "requestState is not valid")
	})
}

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}
