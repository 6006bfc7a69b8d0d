package mcpadapter_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// pair is one world served with the short path and without it.
type pair struct {
	*world
	short, long *mcpadapter.Adapter
	ways        [2]http.Handler
}

func newPair(t testing.TB, opts mcpadapter.Options) *pair {
	w := newWorld(t)
	p := &pair{world: w}
	first, second := opts, opts
	p.short, p.long = w.adapter(t, w.byToken, &first), mcpadapter.Long(w.adapter(t, w.byToken, &second))
	p.ways = [2]http.Handler{p.short.HTTP(), p.long.HTTP()}
	return p
}

// wire is a request as it arrives.
type wire struct {
	method string
	header http.Header
	body   []byte
}

func (r wire) clone() wire {
	return wire{r.method, r.header.Clone(), bytes.Clone(r.body)}
}

func (r wire) send(h http.Handler) (int, http.Header, string) {
	req := httptest.NewRequest(r.method, "http://127.0.0.1/mcp", bytes.NewReader(r.body))
	req.Header = r.header.Clone()
	rw := httptest.NewRecorder()
	h.ServeHTTP(rw, req)
	return rw.Code, rw.Header(), rw.Body.String()
}

// once is what is different in each answer: ids of calls, times, sealed cursors,
// the fences around content.
var once = regexp.MustCompile(`call_[A-Z2-7]{26}|fetched_at\\*":\\*"[^"\\]*|next_cursor(\\*")?:\s*\\*"[^"\\]*|content [0-9a-f]{16} |requestState":"[^"]*`)

// difference shows where two texts part.
func difference(a, b string) string {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	cut := func(s string) string { return s[max(0, i-60):min(len(s), i+120)] }
	return fmt.Sprintf("at %d of %d and %d\nshort %q\nlong  %q", i, len(a), len(b), cut(a), cut(b))
}

// same sends a request both ways and wants one answer: the same status, the same
// headers but for the length that only one of them knows, and the same bytes but
// for what is different each time.
func (p *pair) same(t testing.TB, r wire) (status int, text string) {
	t.Helper()
	var statuses [2]int
	var headers [2]http.Header
	var texts [2]string
	for i, h := range p.ways {
		statuses[i], headers[i], texts[i] = r.send(h)
		if n := headers[i].Get("Content-Length"); n != "" {
			require.Equal(t, fmt.Sprint(len(texts[i])), n)
			headers[i].Del("Content-Length")
		}
		texts[i] = once.ReplaceAllString(texts[i], "...")
		require.NotContains(t, texts[i], "canary")
	}
	about := fmt.Sprintf("%s\n%v\n%q", r.method, r.header, r.body)
	if statuses[0] != statuses[1] || texts[0] != texts[1] {
		t.Fatalf("%s\n%d and %d\n%s", about, statuses[0], statuses[1], difference(texts[0], texts[1]))
	}
	require.Equal(t, headers[1], headers[0], about)
	return statuses[0], texts[0]
}

func plainWire(token, method, name, params string) wire {
	r := wire{"POST", http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Authorization": {"Bearer " + token},
	}, []byte(modern(method, 7, params))}
	if name != "" {
		r.header.Set("Mcp-Name", name)
	}
	return r
}

// seeds are plain requests of all kinds.
func seeds() []wire {
	out := []wire{plainWire("alice", "tools/list", "", ""), plainWire("bob", "tools/list", "", ""), plainWire("mallory", "tools/list", "", "")}
	for _, token := range []string{"alice", "bob", "later"} {
		for _, c := range []struct{ name, args string }{
			{"tickets.get", `{"id":"1"}`}, {"tickets.get", `{"id":"none"}`}, {"tickets.get", `{"id":"broken"}`}, {"tickets.get", `{"id":"gap"}`},
			{"tickets.get", `{"id":"empty"}`}, {"tickets.get", `{"id":"panic"}`}, {"tickets.get", `{"id":"error"}`}, {"tickets.get", `{"id":"unauthorized"}`},
			{"tickets.get", `{"id":7}`}, {"tickets.get", `{}`}, {"tickets.got", `{"id":"1"}`},
			{"tickets.search", `{"query":"<b>&\u2028"}`}, {"tickets.search", `{"query":"nothing"}`}, {"tickets.search", `{"query":"x","cursor":"forged"}`},
			{"operation_status", `{"operation_id":"op_x"}`}, {"tickets.create", `{"subject":"x"}`},
		} {
			out = append(out, plainWire(token, "tools/call", c.name, `"name":"`+c.name+`","arguments":`+c.args))
		}
	}
	return out
}

// asking is a host that has something to say about every call.
func asking() mcpadapter.Options {
	return mcpadapter.Options{
		OperationID: func(_ context.Context, c *mcpadapter.Change) string { return "" },
		Content: func(context.Context, string, *toolresult.Result) []mcp.Content {
			return []mcp.Content{&mcp.TextContent{Text: "<more>\n"}}
		},
		Ask: func(_ context.Context, a *mcpadapter.Asking) (*mcpadapter.Questions, error) {
			if a.Capability != "tickets.search" {
				return nil, nil
			}
			return &mcpadapter.Questions{Ask: mcp.InputRequestMap{"which": &mcp.ElicitParams{Mode: "form", Message: "<which>",
				RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}}}}, nil
		},
		Resources: []mcpadapter.Resource{{URI: "ticket://{id}", Capability: "tickets.get"}}, Logging: true,
	}
}

// Plain requests are answered without the SDK, and as it would; also where the
// host asks, adds, and shows a capability as something else.
func TestShortPathPlain_M1_M4(t *testing.T) {
	busy := newPair(t, asking())
	for _, r := range seeds() {
		busy.same(t, r)
		r.body = bytes.Replace(r.body, []byte(`Capabilities":{}`), []byte(`Capabilities":{"elicitation":{}}`), 1)
		status, text := busy.same(t, r)
		if r.header.Get("Mcp-Name") == "tickets.search" && r.header.Get("Authorization") == "Bearer alice" {
			require.Contains(t, text, "input_required", "control: %d", status)
		}
	}
	p := newPair(t, mcpadapter.Options{Name: "a<b", Instructions: "x"})
	taken := 0
	for _, r := range seeds() {
		if mcpadapter.Short(p.short, r.header, r.body) {
			taken++
		}
		p.same(t, r)
	}
	require.Equal(t, len(seeds()), taken, "control: they are what the short path is for")
}

// Every way to be unusual that somebody thought of. The row says whether the
// short path may take it, if it comes so far; both ways answer alike in any case.
func TestShortPathUnusual_M1_A9(t *testing.T) {
	p := newPair(t, mcpadapter.Options{MaxRequestBytes: 64 << 10})
	call := plainWire("alice", "tools/call", "tickets.get", `"name":"tickets.get","arguments":{"id":"1"}`)
	list := plainWire("alice", "tools/list", "", "")
	body := func(old, new string) func(*wire) {
		return func(r *wire) {
			if !bytes.Contains(r.body, []byte(old)) {
				panic("the row changes nothing: " + old)
			}
			r.body = bytes.Replace(r.body, []byte(old), []byte(new), 1)
		}
	}
	set := func(name string, values ...string) func(*wire) {
		return func(r *wire) { r.header[http.CanonicalHeaderKey(name)] = values }
	}
	const caps = `"io.modelcontextprotocol/clientCapabilities":{}`
	for _, row := range []struct {
		says   string
		short  bool
		from   wire
		change func(*wire)
	}{
		{"control", true, call, func(*wire) {}},
		{"space between everything", true, call, func(r *wire) { r.body = bytes.ReplaceAll(r.body, []byte(`":`), []byte("\" \n:\t\r ")) }},
		{"a text id", true, call, body(`"id":7`, `"id":"<x>&"`)},
		{"an id with an escape", false, call, body(`"id":7`, `"id":"\u003c"`)},
		{"an id that is not ASCII", false, call, body(`"id":7`, `"id":"ü"`)},
		{"an empty id", false, call, body(`"id":7`, `"id":""`)},
		{"a negative id", true, call, body(`"id":7`, `"id":-7`)},
		{"minus nothing", false, call, body(`"id":7`, `"id":-0`)},
		{"an id with a fraction", false, call, body(`"id":7`, `"id":7.5`)},
		{"an id with an exponent", false, call, body(`"id":7`, `"id":7e2`)},
		{"an id over 2^53", false, call, body(`"id":7`, `"id":9007199254740993`)},
		{"an id null", false, call, body(`"id":7`, `"id":null`)},
		{"an id that is an object", false, call, body(`"id":7`, `"id":{}`)},
		{"no id", false, call, body(`"id":7,`, ``)},
		{"two ids", false, call, body(`"id":7`, `"id":7,"id":8`)},
		{"two methods", false, list, body(`"method":"tools/list"`, `"method":"tools/call","method":"tools/list"`)},
		{"a method in other letters", false, list, body(`"method":"tools/list"`, `"Method":"tools/call","method":"tools/list"`)},
		{"a method with an escape", false, list, body(`tools/list`, `tools\/list`)},
		{"two params", false, call, body(`"params":`, `"params":{},"params":`)},
		{"params null", false, list, func(r *wire) { r.body = []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":null}`) }},
		{"params a list", false, list, func(r *wire) { r.body = []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[]}`) }},
		{"no params", false, list, func(r *wire) { r.body = []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`) }},
		{"no _meta", false, list, func(r *wire) { r.body = []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}`) }},
		{"another version of JSON-RPC", false, list, body(`"2.0"`, `"1.0"`)},
		{"a version that is a number", false, list, body(`"2.0"`, `2.0`)},
		{"a result beside the method", false, list, body(`"id":7`, `"id":7,"result":{}`)},
		{"something behind the object", false, list, func(r *wire) { r.body = append(r.body, " {}"...) }},
		{"something before it", false, list, func(r *wire) { r.body = append([]byte("\xef\xbb\xbf"), r.body...) }},
		{"a batch", false, list, func(r *wire) { r.body = slices.Concat([]byte("["), r.body, []byte("]")) }},
		{"an empty body", false, list, func(r *wire) { r.body = nil }},
		{"half a body", false, list, func(r *wire) { r.body = r.body[:len(r.body)/2] }},
		{"a body that is not UTF-8", false, call, body(`"id":"1"`, "\"id\":\"\xff\"")},
		{"half of a pair", true, call, body(`"id":"1"`, `"id":"\ud800"`)},
		{"a body over the limit", true, call, body(`"id":"1"`, `"id":"`+strings.Repeat("1", 70<<10)+`"`)},
		{"deep arguments", false, call, body(`"id":"1"`, `"id":`+strings.Repeat("[", 80)+strings.Repeat("]", 80))},
		{"arguments null", false, call, body(`{"id":"1"}`, `null`)},
		{"arguments a list", false, call, body(`{"id":"1"}`, `["1"]`)},
		{"no arguments", true, call, body(`,"arguments":{"id":"1"}`, ``)},
		{"two arguments", false, call, body(`"arguments":`, `"arguments":{},"arguments":`)},
		{"an argument twice", true, call, body(`"id":"1"`, `"id":"1","id":"2"`)},
		{"an argument too many", true, call, body(`"id":"1"`, `"id":"1","x":1`)},
		{"two names", false, call, body(`"name":`, `"name":"tickets.search","name":`)},
		{"a name in other letters beside", false, call, body(`"name":`, `"NAME":"tickets.search","name":`)},
		{"a name with an escape", false, call, body(`"name":"tickets.get"`, `"name":"tickets\u002eget"`)},
		{"a name that is a number", false, call, body(`"name":"tickets.get"`, `"name":7`)},
		{"an empty name", false, call, body(`"name":"tickets.get"`, `"name":""`)},
		{"no name", false, call, body(`"name":"tickets.get",`, ``)},
		{"a member that nobody knows", false, call, body(`"name":`, `"task":{},"name":`)},
		{"an answer to a question", false, call, body(`"name":`, `"inputResponses":{},"name":`)},
		{"a state", false, call, body(`"name":`, `"requestState":"x","name":`)},
		{"a cursor", false, list, body(`"_meta":`, `"cursor":"x","_meta":`)},
		{"an empty cursor", false, list, body(`"_meta":`, `"cursor":"","_meta":`)},
		{"two _meta", false, list, body(`"_meta":`, `"_meta":{},"_meta":`)},
		{"_meta null", false, list, func(r *wire) {
			r.body = []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":null}}`)
		}},
		{"a trace", true, call, body(caps, caps+`,"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"`)},
		{"a trace twice", false, call, body(caps, caps+`,"tracestate":"a=1","tracestate":"b=2"`)},
		{"a token for progress", false, list, body(caps, caps+`,"progressToken":1`)},
		{"a level of logging", false, call, body(caps, caps+`,"io.modelcontextprotocol/logLevel":"debug"`)},
		{"a client that says who it is", true, call, body(caps, caps+`,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}`)},
		{"a client that is a text", false, call, body(caps, caps+`,"io.modelcontextprotocol/clientInfo":"c"`)},
		{"a client that is null", false, call, body(caps, caps+`,"io.modelcontextprotocol/clientInfo":null`)},
		{"a client whose name is a number", false, call, body(caps, caps+`,"io.modelcontextprotocol/clientInfo":{"name":1}`)},
		{"what the client can do", true, call, body(caps, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"x":1}`)},
		{"what it can do is a list", false, call, body(caps, `"io.modelcontextprotocol/clientCapabilities":[]`)},
		{"what it can do is null", false, call, body(caps, `"io.modelcontextprotocol/clientCapabilities":null`)},
		{"what it can do makes no sense", false, call, body(caps, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":7}`)},
		{"it does not say what it can do", false, call, body(","+caps, ``)},
		{"it says so twice", false, call, body(caps, caps+","+caps)},
		{"two revisions in _meta", false, call, body(caps, caps+`,"io.modelcontextprotocol/protocolVersion":"2026-07-28"`)},
		{"an older revision in _meta", false, call, body(`"2026-07-28"`, `"2025-11-25"`)},
		{"a revision that is a number", false, call, body(`"2026-07-28"`, `20260728`)},
		{"a newer revision in _meta", false, call, body(`"2026-07-28"`, `"2027-01-01"`)},
		{"an operation key", true, call, body(caps, caps+`,"drawbridge.dev/operation":"k"`)},
		{"an operation key that is none", false, call, body(caps, caps+`,"drawbridge.dev/operation":7`)},
		{"an empty operation key", false, call, body(caps, caps+`,"drawbridge.dev/operation":""`)},

		{"no revision in the headers", false, call, set("Mcp-Protocol-Version")},
		{"an older one", false, call, set("Mcp-Protocol-Version", "2025-11-25")},
		{"one that nobody speaks", false, call, set("Mcp-Protocol-Version", "2099-01-01")},
		{"two", false, call, set("Mcp-Protocol-Version", "2026-07-28", "2025-11-25")},
		{"no method in the headers", false, call, set("Mcp-Method")},
		{"another", false, call, set("Mcp-Method", "tools/list")},
		{"two methods in the headers", false, call, set("Mcp-Method", "tools/call", "tools/list")},
		{"no name in the headers", false, call, set("Mcp-Name")},
		{"another name", false, call, set("Mcp-Name", "tickets.search")},
		{"two names in the headers", false, call, set("Mcp-Name", "tickets.get", "tickets.search")},
		{"a name in other letters", false, call, set("Mcp-Name", "TICKETS.GET")},
		{"an encoded name", true, call, set("Mcp-Name", "=?base64?dGlja2V0cy5nZXQ=?=")},
		{"an encoded other name", false, call, set("Mcp-Name", "=?base64?dGlja2V0cy5nb3Q=?=")},
		{"a name that is encoded badly", false, call, set("Mcp-Name", "=?base64?***?=")},
		{"a name for a list", false, list, set("Mcp-Name", "tickets.get")},
		{"a header for a parameter", false, call, set("Mcp-Param-Id", "1")},
		{"a session", true, call, set("Mcp-Session-Id", "x")},
		{"the last event", false, call, set("Last-Event-ID", "1_2")},
		{"JSON alone", false, call, set("Accept", "application/json")},
		{"events alone", false, call, set("Accept", "text/event-stream")},
		{"anything", false, call, set("Accept", "*/*")},
		{"nothing", false, call, set("Accept")},
		{"in two headers", false, call, set("Accept", "application/json", "text/event-stream")},
		{"in the other order", true, call, set("Accept", "text/event-stream,application/json")},
		{"with a weight", false, call, set("Accept", "application/json;q=0.5, text/event-stream")},
		{"a kind with parameters", true, call, set("Content-Type", "application/json; charset=utf-8")},
		{"in big letters", false, call, set("Content-Type", "Application/JSON")},
		{"another kind", false, call, set("Content-Type", "text/plain")},
		{"a form", false, call, set("Content-Type", "application/x-www-form-urlencoded")},
		{"no kind", false, call, set("Content-Type")},
		{"two kinds", false, call, set("Content-Type", "application/json", "text/plain")},
		{"GET", true, list, func(r *wire) { r.method = "GET" }},
		{"another origin", true, list, set("Origin", "https://evil.example")},
	} {
		t.Run(row.says, func(t *testing.T) {
			r := row.from.clone()
			row.change(&r)
			maps.DeleteFunc(r.header, func(_ string, v []string) bool { return len(v) == 0 })
			require.Equal(t, row.short, mcpadapter.Short(p.short, r.header, r.body))
			p.same(t, r)
			p.same(t, r) // and again, with all that is remembered
		})
	}
}

// Thousands of requests that something happened to.
func TestShortPathMutated_M1(t *testing.T) {
	plain, busy := newPair(t, mcpadapter.Options{}), newPair(t, asking())
	n := 4000
	if testing.Short() {
		n = 400
	}
	random := rand.New(rand.NewPCG(2026, 7))
	all, taken := seeds(), 0
	for i := range n {
		p := plain
		if i%4 == 0 {
			p = busy
		}
		r := all[random.IntN(len(all))].clone()
		for range 1 + random.IntN(3) {
			mutate(random, &r, all)
		}
		if mcpadapter.Short(p.short, r.header, r.body) {
			taken++
		}
		p.same(t, r)
	}
	t.Logf("%d of %d requests took the short path", taken, n)
	require.Greater(t, taken, n/50, "control: some of them are plain still")
	require.Less(t, taken, n*9/10, "control: most of them are not")
}

// mutate changes one thing about a request.
func mutate(random *rand.Rand, r *wire, all []wire) {
	pieces := []string{`"`, `\`, `{`, `}`, `[`, `]`, `,`, `:`, " ", "\n", "\x00", "ü", "\xff", `\u0000`, `null`, `true`, `7`, `-0`, `1e3`,
		`"id":8,`, `"name":"tickets.search",`, `"Name":"x",`, `"method":"tools/list",`, `"_meta":{},`, `"cursor":"x",`, `"arguments":{},`}
	names := []string{"Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Accept", "Content-Type", "Mcp-Param-Id", "Mcp-Session-Id", "Last-Event-Id", "Authorization"}
	values := []string{"", "tools/list", "tools/call", "tickets.get", "tickets.got", "tickets.search", "2026-07-28", "2025-11-25", "2099-01-01", "*/*",
		"application/json", "text/event-stream", "application/json, text/event-stream", "text/plain", "application/json; charset=utf-8",
		"=?base64?" + base64.StdEncoding.EncodeToString([]byte("tickets.get")) + "?=", "Bearer alice", "Bearer bob", "x y"}
	at := 0
	if len(r.body) > 0 {
		at = random.IntN(len(r.body))
	}
	switch name := names[random.IntN(len(names))]; random.IntN(9) {
	case 0: // a byte less
		r.body = slices.Delete(r.body, at, min(at+1, len(r.body)))
	case 1: // a piece more
		r.body = slices.Insert(r.body, at, []byte(pieces[random.IntN(len(pieces))])...)
	case 2: // a piece more where it is likely to fit
		if i := bytes.IndexByte(r.body[at:], '{'); i >= 0 {
			r.body = slices.Insert(r.body, at+i+1, []byte(pieces[random.IntN(len(pieces))])...)
		}
	case 3: // a part of another request
		other := all[random.IntN(len(all))].body
		from := random.IntN(len(other))
		r.body = append(r.body[:at:at], other[from:]...)
	case 4: // a part twice
		end := min(len(r.body), at+random.IntN(40))
		r.body = slices.Insert(r.body, end, bytes.Clone(r.body[at:end])...)
	case 5:
		r.header[name] = []string{values[random.IntN(len(values))]}
	case 6:
		r.header[name] = append(r.header[name], values[random.IntN(len(values))])
	case 7:
		delete(r.header, name)
	case 8: // the headers of another request
		r.header = all[random.IntN(len(all))].header.Clone()
	}
}

// FuzzShortPath holds the two ways together for any body.
func FuzzShortPath(f *testing.F) {
	for _, r := range seeds() {
		f.Add(r.body, r.header.Get("Mcp-Method"), r.header.Get("Mcp-Name"))
	}
	p := newPair(f, mcpadapter.Options{})
	f.Fuzz(func(t *testing.T, body []byte, method, name string) {
		if bytes.Contains(body, []byte("slow")) || bytes.Contains(body, []byte(`\u00`)) && bytes.Contains(body, []byte(`s\u`)) {
			t.Skip("an id that the provider waits for")
		}
		r := plainWire("alice", method, name, "")
		r.body = body
		p.same(t, r)
	})
}

// A hidden tool and one that is not there are one answer the short way too, with
// as many questions to the policy, and as many lines in the record.
func TestShortPathNoOracle_A9_E7(t *testing.T) {
	w := newWorld(t)
	asked := 0
	w.inv = w.invoker(t, authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		asked++
		return w.decide(r)
	}))
	h := w.adapter(t, w.byToken, &mcpadapter.Options{}).HTTP()
	try := func(tool string) (string, int) {
		asked = 0
		_, _, text := plainWire("bob", "tools/call", tool, `"name":"`+tool+`","arguments":{"id":"1"}`).send(h)
		return text, asked
	}
	elsewhere := w.adapter(t, w.byToken, &mcpadapter.Options{Resources: []mcpadapter.Resource{{URI: "ticket://{id}", Capability: "tickets.get"}}}).HTTP()
	_, _, text := plainWire("alice", "tools/call", "tickets.get", `"name":"tickets.get","arguments":{"id":"1"}`).send(elsewhere)
	require.Contains(t, text, "unknown tool", "what is shown as a resource is no tool")
	require.Equal(t, 1, asked)
	require.Zero(t, w.count(""))
	for range 2 { // at first, and when everything is remembered
		hidden, n := try("tickets.get")
		missing, m := try("tickets.got")
		require.Equal(t, missing, hidden)
		require.Contains(t, hidden, "unknown tool")
		require.Equal(t, m, n)
	}
	w.mu.Lock()
	w.down = true
	w.mu.Unlock()
	hidden, _ := try("tickets.get")
	missing, _ := try("tickets.got")
	require.Equal(t, once.ReplaceAllString(missing, ""), once.ReplaceAllString(hidden, ""), "nor does an outage tell")
	require.Contains(t, hidden, "POLICY_UNAVAILABLE")
}
