package remote_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/remote"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// raw answers with a body as it is.
func raw(contentType, body string) func(http.ResponseWriter, string) {
	return func(rw http.ResponseWriter, id string) {
		if contentType != "" {
			rw.Header().Set("Content-Type", contentType)
		}
		_, _ = rw.Write([]byte(strings.ReplaceAll(body, "ID", id)))
	}
}

func endless(contentType, first, again string, pause time.Duration) func(http.ResponseWriter, string) {
	return func(rw http.ResponseWriter, id string) {
		rw.Header().Set("Content-Type", contentType)
		_, err := rw.Write([]byte(strings.ReplaceAll(first, "ID", id)))
		for err == nil {
			time.Sleep(pause)
			_, err = rw.Write([]byte(again))
			rw.(http.Flusher).Flush()
		}
	}
}

// misbehaviours are what a server does wrong, and the named error that comes of
// it. Empty: the call succeeds all the same, because what is wrong does not
// concern it.
var misbehaviours = []struct {
	why   string
	h     hostile
	code  toolresult.ErrorCode
	says  string // in the message
	slow  bool   // it takes all the time that it gets
	tools string
}{
	{why: "a body that never ends", h: hostile{call: endless("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"x":"`, strings.Repeat("a", 64<<10), 0)}, code: toolresult.ResultTooLarge},
	{why: "a message over the limit", h: hostile{call: raw("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"`+strings.Repeat("a", 5<<20)+`"}]}}`)},
		code: toolresult.ResultTooLarge},
	{why: "a bomb", h: hostile{call: bomb}, code: toolresult.ResultTooLarge},
	{why: "nesting without end", h: hostile{call: raw("application/json", strings.Repeat("[", 100_000))}, code: toolresult.ProviderError, says: "not JSON"},
	{why: "nesting in a result", h: hostile{call: raw("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"a":`+strings.Repeat(`[`, 200)+strings.Repeat(`]`, 200)+`}}`)}, code: toolresult.ProviderError, says: "not JSON"},
	{why: "a name twice", h: hostile{call: raw("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"isError":true,"isError":false,"content":[]}}`)}, code: toolresult.ProviderError, says: "more than one way"},
	{why: "bytes that are no text", h: hostile{call: raw("application/json", "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"x\":\"\xff\"}}")}, code: toolresult.ProviderError, says: "not JSON"},
	{why: "something behind the message", h: hostile{call: raw("application/json", `{"jsonrpc":"2.0","id":ID,"result":{}} {}`)}, code: toolresult.ProviderError, says: "not JSON"},
	{why: "a batch", h: hostile{call: raw("application/json", `[{"jsonrpc":"2.0","id":ID,"result":{}}]`)}, code: toolresult.ProviderError, says: "not one message"},
	{why: "another id", h: hostile{call: raw("application/json", `{"jsonrpc":"2.0","id":"other","result":{"content":[]}}`)}, code: toolresult.ProviderError, says: "was not made"},
	{why: "no id", h: hostile{call: raw("application/json", `{"jsonrpc":"2.0","id":null,"result":{"content":[]}}`)}, code: toolresult.ProviderError, says: "was not made"},
	{why: "a result and an error", h: hostile{call: raw("application/json", `{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"x"}}`)}, code: toolresult.ProviderError, says: "not one message"},
	{why: "neither", h: hostile{call: raw("application/json", `{"jsonrpc":"2.0","id":ID}`)}, code: toolresult.ProviderError, says: "not one message"},
	{why: "an error without a code", h: hostile{call: raw("application/json", `{"jsonrpc":"2.0","id":ID,"error":"all fine"}`)}, code: toolresult.ProviderError, says: "not one message"},
	{why: "a result that is a list", h: hostile{call: raw("application/json", `{"jsonrpc":"2.0","id":ID,"result":[]}`)}, code: toolresult.ProviderError, says: "form of the protocol"},
	{why: "a page for signing in", h: hostile{call: raw("text/html", `<!DOCTYPE html><form action="https://evil.example">`)}, code: toolresult.ProviderError, says: "neither JSON"},
	{why: "no content type", h: hostile{call: func(rw http.ResponseWriter, id string) {
		rw.Header()["Content-Type"] = nil
		raw("", `{"jsonrpc":"2.0","id":ID,"result":{}}`)(rw, id)
	}}, code: toolresult.ProviderError, says: "neither JSON"},
	{why: "a stream that ends too early", h: hostile{call: raw("text/event-stream", ": hello\n\n")}, code: toolresult.ProviderError, says: "without having answered"},
	{why: "a stream of noise", h: hostile{call: raw("text/event-stream", strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n", 20_000))}, code: toolresult.ProviderError, says: "more messages"},
	{why: "a question in a stream", h: hostile{call: raw("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n")}, code: toolresult.Unsupported, says: "asks for something"},
	{why: "a stream that stays open", h: hostile{call: endless("text/event-stream", ": hello\n\n", ": still here\n\n", time.Second)}, code: toolresult.Timeout, slow: true},
	{why: "a byte now and then", h: hostile{call: endless("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"x":"`, "a", 5*time.Second)}, code: toolresult.Timeout, slow: true},
	{why: "no answer at all", h: hostile{call: func(rw http.ResponseWriter, _ string) { time.Sleep(time.Hour) }}, code: toolresult.Timeout, slow: true},
	{why: "a connection that breaks", h: hostile{call: func(rw http.ResponseWriter, _ string) {
		rw.Header().Set("Content-Length", "100")
		_, _ = rw.Write([]byte("{"))
		panic(http.ErrAbortHandler)
	}}, code: toolresult.ProviderUnavailable},
	{why: "a kind of result that nobody knows", h: hostile{result: `{"resultType":"task","taskId":"1"}`}, code: toolresult.ProviderError, says: "kind of result"},
	{why: "questions without end", h: hostile{result: `{"resultType":"input_required","requestState":"again"}`}, code: toolresult.ProviderError, says: "again and again"},
	{why: "a question for a secret", h: hostile{result: `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"your password?"}}}}`}, code: toolresult.Unsupported, says: "asks for something"},
	{why: "a question to a model", h: hostile{result: `{"resultType":"input_required","inputRequests":{"k":{"method":"sampling/createMessage","params":{}}}}`}, code: toolresult.Unsupported, says: "asks for something"},
	{why: "a state that is no text", h: hostile{result: `{"resultType":"input_required","requestState":{"a":1}}`}, code: toolresult.ProviderError, says: "form of the protocol"},
	{why: "content that is no list", h: hostile{result: `{"content":"all fine"}`}, code: toolresult.ProviderError, says: "form of the protocol"},
	{why: "ten thousand blocks", h: hostile{result: `{"content":[` + strings.Repeat(`{"type":"text","text":""},`, 9_999) + `{"type":"text","text":""}]}`}, code: toolresult.ProviderError, says: "form of the protocol"},
	{why: "blocks of no kind", h: hostile{result: `{"content":[null,7,{"type":"hologram"},{"type":7}]}`}},
	{why: "an answer that is not what was declared", h: hostile{result: `{"content":[],"structuredContent":{"ids":"all of them"}}`}, code: toolresult.ProviderError, says: "approved definition", tools: "[" + approvedTool + "]"},
	{why: "no answer where one was declared", h: hostile{result: `{"content":[]}`}, code: toolresult.ProviderError, says: "approved definition", tools: "[" + approvedTool + "]"},
	{why: "another place", h: hostile{call: func(rw http.ResponseWriter, _ string) {
		rw.Header().Set("Location", "https://evil.example/mcp")
		rw.WriteHeader(http.StatusTemporaryRedirect)
	}}, code: toolresult.ProviderError},
	{why: "the credential in the answer", h: hostile{result: `{"content":[{"type":"text","text":"your key is ` + canary + `"}]}`}},
	{why: "headers without end", h: hostile{call: func(rw http.ResponseWriter, id string) {
		for i := range 5_000 {
			rw.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("a", 100))
		}
		say(rw, id, `{"content":[]}`)
	}}, code: toolresult.ResultTooLarge},
	{why: "a session where there are none", h: hostile{call: func(rw http.ResponseWriter, id string) {
		rw.Header().Set("Mcp-Session-Id", "evil")
		say(rw, id, `{"content":[]}`)
	}}},
	{why: "tools: [null]", h: hostile{tools: `[null,{"name":"search","inputSchema":{"type":"object"}},7,{"name":7},{"name":""},{"inputSchema":{}}]`, result: `{"content":[]}`}},
	{why: "a tool with a bad header", h: hostile{tools: `[{"name":"search","inputSchema":{"type":"object"}},{"name":"x","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b\r\n"}}}}]`, result: `{"content":[]}`}},
	{why: "a list that is none", h: hostile{list: listing(`{"tools":"all"}`)}, code: toolresult.ProviderError, says: "something else than tools"},
	{why: "a list that is null", h: hostile{list: listing(`{"tools":null}`)}, code: toolresult.ProviderError, says: "something else than tools"},
	{why: "pages without end", h: hostile{list: func(rw http.ResponseWriter, id, _ string, n int64) {
		say(rw, id, fmt.Sprintf(`{"tools":[],"nextCursor":"c%d"}`, n))
	}}, code: toolresult.ProviderError, says: "more pages"},
	{why: "one cursor for ever", h: hostile{list: listing(`{"tools":[],"nextCursor":"c"}`)}, code: toolresult.ProviderError, says: "repeats a cursor"},
	{why: "an empty cursor for ever", h: hostile{list: listing(`{"tools":[],"nextCursor":""}`)}, code: toolresult.ProviderError, says: "repeats a cursor"},
	{why: "a cursor that is no text", h: hostile{list: listing(`{"tools":[],"nextCursor":{"$ne":1}}`)}, code: toolresult.ProviderError, says: "form of the protocol"},
	{why: "a hundred thousand tools", h: hostile{list: listing(`{"tools":[` + strings.Repeat(`{},`, 99_999) + `{}]}`)}, code: toolresult.ProviderError, says: "more of them than the limit"},
	{why: "a definition over the limit", h: hostile{tools: `[{"name":"search","inputSchema":{"type":"object"}},{"name":"big","description":"` + strings.Repeat("a", 1<<20) + `","inputSchema":{"type":"object"}}]`, result: `{"content":[]}`}},
	{why: "a list that it takes back", h: hostile{tools: `[]`}, code: toolresult.Unsupported, says: "any more"},
	{why: "no revision that anybody speaks", h: hostile{discover: raw("application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"x","data":{"supported":["2031-01-01"]}}}`)}, code: toolresult.Unsupported, says: "no revision"},
	{why: "a revision and not", h: hostile{discover: raw("application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}}`)}, code: toolresult.ProviderUnavailable},
	{why: "a discovery of no form", h: hostile{discover: raw("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"supportedVersions":7}}`)}, code: toolresult.ProviderError, says: "form of the protocol"},
	{why: "asks to slow down", h: hostile{call: func(rw http.ResponseWriter, _ string) {
		rw.Header().Set("Retry-After", "99999999999999999999")
		rw.WriteHeader(http.StatusTooManyRequests)
	}}, code: toolresult.RateLimited},
	{why: "a challenge that goes on and on", h: hostile{call: func(rw http.ResponseWriter, _ string) {
		rw.Header().Set("WWW-Authenticate", "Bearer "+strings.Repeat(`realm="x", `, 4000))
		rw.WriteHeader(http.StatusUnauthorized)
	}}, code: toolresult.ConnectionRequired},
}

func listing(result string) func(http.ResponseWriter, string, string, int64) {
	return func(rw http.ResponseWriter, id, _ string, _ int64) { say(rw, id, result) }
}

func bomb(rw http.ResponseWriter, id string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(rw)
	fmt.Fprintf(z, `{"jsonrpc":"2.0","id":%s,"result":{"x":"`, id)
	for range 1 << 10 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			return
		}
	}
	_ = z.Close()
}

// M5, acceptance 2: a hostile server is contained, whatever it does: a named
// error, bounded memory and time, and no other connector affected.
func TestHostileServer_M5(t *testing.T) {
	require.GreaterOrEqual(t, len(misbehaviours), 25)
	for i := range misbehaviours {
		row := &misbehaviours[i]
		t.Run(row.why, func(t *testing.T) { contained(t, &row.h, row.tools, row.code, row.says, row.slow) })
	}
}

func contained(t *testing.T, h *hostile, tools string, code toolresult.ErrorCode, says string, slow bool) {
	synctest.Test(t, func(t *testing.T) {
		if tools == "" {
			tools = `[{"name":"search","inputSchema":{"type":"object"}}]`
		}
		good := &hostile{tools: tools}
		var now atomic.Pointer[hostile]
		now.Store(good)
		w := newWorld(t, setup{handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(rw, r) }),
			tools: []remote.Tool{{Name: "search", Class: reads}}, others: []connector.Connector{neighbour(t)}})
		if h.tools == "" {
			h.tools = tools
		}
		now.Store(h)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		args := `{}`
		if strings.Contains(tools, `"q"`) {
			args = `{"q":"x"}`
		}
		done := make(chan *toolresult.Result, 1)
		go func() { done <- w.call("far.search", args) }()
		require.Equal(t, toolresult.MeaningComplete, w.call("near.ping", `{}`).Meaning(), "another connector, meanwhile")
		r := <-done
		runtime.ReadMemStats(&after)
		require.Less(t, int64(after.TotalAlloc-before.TotalAlloc), int64(200<<20), "memory is bounded")
		require.LessOrEqual(t, time.Since(began), 31*time.Second, "time is bounded")
		require.True(t, slow || time.Since(began) < time.Second)
		if code == "" {
			require.Equal(t, toolresult.MeaningComplete, r.Meaning(), "%s", r.Text(nil))
		} else {
			require.NotNil(t, r.Error, "%s", r.Text(nil))
			require.Equal(t, code, r.Error.Code, "%s", r.Text(nil))
			require.Contains(t, string(r.Error.Message), says)
			require.NotContains(t, string(r.Error.Message), "evil")
		}

		// And afterwards the server is as good as it was.
		good.result = `{"content":[],"structuredContent":{"ids":[]}}`
		now.Store(good)
		if strings.Contains(r.Text(nil), "suspended") {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		again := w.inv.Invoke(ctx, &connector.InvokeRequest{Principal: w.bob, Capability: "far.search", Arguments: json.RawMessage(args)})
		require.Equal(t, toolresult.MeaningComplete, again.Meaning(), "%s", again.Text(nil))
		require.Zero(t, w.inv.Abandoned())
		time.Sleep(2 * time.Hour) // virtual; what hangs in the handlers of the test ends
	})
}

// neighbour is another connector of the same host.
func neighbour(t testing.TB) connector.Connector {
	type none struct{}
	c, err := connector.New(connector.Info{ID: "near", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Read(connector.Spec{Name: "near.ping", Description: "Answers.", Sensitivity: risk.Internal}, connector.OnConnection[none],
			func(context.Context, *connector.ReadCall, none) (*connector.Answer[string], error) {
				return connector.Found("pong"), nil
			}))
	require.NoError(t, err)
	return c
}
