package mcpwire_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/internal/mcpwire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var me = mcpwire.Client{Name: "c", Version: "1"}

// M1, M5: a modern request describes itself, an older one does not, and equal
// messages are equal bytes.
func TestEncode_M5(t *testing.T) {
	m := &mcpwire.Message{ID: "1", Method: "tools/call", Params: map[string]any{"name": "x", "_meta": map[string]any{"k": "v"}}}
	text, err := m.Encode(me, nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"x","_meta":{"k":"v","io.modelcontextprotocol/protocolVersion":"2026-07-28",
		"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}}`, string(text))
	again, err := m.Encode(me, &mcpwire.Peer{Version: mcpwire.Modern})
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
	require.Len(t, m.Params["_meta"], 1, "the caller's map is not changed")
	text, err = (&mcpwire.Message{Method: "notifications/initialized"}).Encode(me, &mcpwire.Peer{Version: "2025-11-25"})
	require.NoError(t, err)
	require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, string(text))
}

func TestRequestHeaders_M5(t *testing.T) {
	h := &mcpwire.HTTP{URL: "http://x.test/mcp", Client: me}
	for name, want := range map[string]string{
		"plain": "plain", "ünï": "=?base64?w7xuw68=?=", " padded ": "=?base64?IHBhZGRlZCA=?=", "=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=", "a\r\nb": "=?base64?YQ0KYg==?=",
	} {
		r, err := h.Request(t.Context(), nil, &mcpwire.Message{ID: "1", Method: "tools/call", Name: name, Headers: map[string]string{"Mcp-Param-X": "1"}})
		require.NoError(t, err)
		require.Equal(t, want, r.Header.Get("Mcp-Name"))
		require.Equal(t, "2026-07-28", r.Header.Get("Mcp-Protocol-Version"))
		require.Equal(t, "1", r.Header.Get("Mcp-Param-X"))
	}
	r, err := h.Request(t.Context(), &mcpwire.Peer{Version: "2025-11-25", Session: "s"}, &mcpwire.Message{ID: "1", Method: "tools/call", Name: "x"})
	require.NoError(t, err)
	require.Equal(t, "s", r.Header.Get("Mcp-Session-Id"))
	require.Empty(t, r.Header.Get("Mcp-Method"))
	r, err = h.Request(t.Context(), &mcpwire.Peer{}, &mcpwire.Message{ID: "1", Method: "initialize"})
	require.NoError(t, err)
	require.Empty(t, r.Header.Get("Mcp-Protocol-Version"), "nothing is agreed yet")
}

func TestHeaderPlan_M5(t *testing.T) {
	plan := func(schema string) (mcpwire.HeaderPlan, error) {
		var v any
		require.NoError(t, json.Unmarshal([]byte(schema), &v))
		return mcpwire.PlanHeaders(v)
	}
	p, err := plan(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"object","properties":{"c":{"type":"integer","x-mcp-header":"C"},"x-mcp-header":{"type":"string"}}},"d":{"type":"boolean","x-mcp-header":"D"}}}`)
	require.NoError(t, err)
	require.Equal(t, []string{"Mcp-Param-A", "Mcp-Param-C", "Mcp-Param-D"}, p.Names())
	v, err := p.Values(json.RawMessage(`{"a":"é","b":{"c":1.0},"d":false,"e":1}`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"Mcp-Param-A": "=?base64?w6k=?=", "Mcp-Param-C": "1", "Mcp-Param-D": "false"}, v)
	v, err = p.Values(json.RawMessage(`{"a":null}`))
	require.NoError(t, err)
	require.Empty(t, v)
	for _, bad := range []string{`{"b":{"c":9007199254740993}}`, `{"b":{"c":1.5}}`, `{"b":{"c":1e999}}`} {
		_, err = p.Values(json.RawMessage(bad))
		require.Error(t, err, bad)
	}
	for _, bad := range []string{
		`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, `{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`, `{"properties":{"a":{"type":"string","x-mcp-header":7}}}`,
		`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, `{"properties":{"a":{"x-mcp-header":"A"}}}`, `{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
		`{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`, `{"oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`,
		`{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}`, `{"x-mcp-header":"A"}`,
	} {
		_, err := plan(bad)
		require.Error(t, err, bad)
	}
}

// link answers by method.
type link map[string]func(m *mcpwire.Message) (*mcpwire.Answer, http.Header, error)

func (l link) Send(_ context.Context, _ *mcpwire.Peer, m *mcpwire.Message) (*mcpwire.Answer, http.Header, error) {
	if f := l[m.Method]; f != nil {
		return f(m)
	}
	if m.ID == "" {
		return nil, nil, nil
	}
	return &mcpwire.Answer{Err: &mcpwire.Error{Code: mcpwire.CodeMethod}}, nil, nil
}

func status(code int) func(*mcpwire.Message) (*mcpwire.Answer, http.Header, error) {
	return func(*mcpwire.Message) (*mcpwire.Answer, http.Header, error) {
		return nil, nil, &mcpwire.Status{Code: code}
	}
}

func old(version, session string) func(*mcpwire.Message) (*mcpwire.Answer, http.Header, error) {
	return func(*mcpwire.Message) (*mcpwire.Answer, http.Header, error) {
		return &mcpwire.Answer{Result: map[string]any{"protocolVersion": version}}, http.Header{"Mcp-Session-Id": {session}}, nil
	}
}

// M5: which revision it becomes, and what is no reason to try an older one.
func TestNegotiate_M5(t *testing.T) {
	for why, row := range map[string]struct {
		discover, initialize func(*mcpwire.Message) (*mcpwire.Answer, http.Header, error)
		version              string
		err                  error
	}{
		"an error that it does not know the method": {nil, old("2025-11-25", "s"), "2025-11-25", nil},
		"a 400 without a message":                   {status(400), old("2025-06-18", ""), "2025-06-18", nil},
		"a 404":                                     {status(404), old("2025-03-26", ""), "2025-03-26", nil},
		"a 500":                                     {status(500), old("2024-11-05", ""), "2024-11-05", nil},
		"a 401 is no old revision":                  {status(401), old("2025-11-25", ""), "", &mcpwire.Status{Code: 401}},
		"a 429 neither":                             {status(429), old("2025-11-25", ""), "", &mcpwire.Status{Code: 429}},
		"a revision that nobody knows":              {nil, old("1999-01-01", ""), "", mcpwire.FaultVersion},
		"a session id that ends a header":           {nil, old("2025-11-25", "a\r\nX: y"), "", mcpwire.FaultSession},
		"a session id without end":                  {nil, old("2025-11-25", strings.Repeat("a", 2000)), "", mcpwire.FaultSession},
		"neither":                                   {nil, nil, "", mcpwire.FaultVersion},
	} {
		t.Run(why, func(t *testing.T) {
			p, err := mcpwire.Negotiate(t.Context(), link{"server/discover": row.discover, "initialize": row.initialize}, me, 0)
			if row.err != nil {
				require.Equal(t, row.err, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.version, p.Version)
		})
	}
}

func TestStreamOfEvents_M5(t *testing.T) {
	for why, row := range map[string]struct {
		body string
		err  error
	}{
		"LF":                  {"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\ndata: \"result\":{}}\n\n", nil},
		"CRLF":                {"\ufeffid: 7\r\nretry: 1\r\ndata:{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\r\n\r\n", nil},
		"CR":                  {"data: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\r\r", nil},
		"no end":              {"data: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}", nil},
		"a progress before":   {"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\n\n", nil},
		"a priming event":     {"id: 1\ndata: \n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\n\n", nil},
		"another event":       {"event: endpoint\ndata: /evil\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}\n\n", nil},
		"somebody's answer":   {"data: {\"jsonrpc\":\"2.0\",\"id\":\"2\",\"result\":{}}\n\n", mcpwire.FaultID},
		"an id that is 1":     {"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", mcpwire.FaultID},
		"half a message":      {"data: {\"jsonrpc\":\"2.0\",\n\n", mcpwire.FaultJSON},
		"a comment":           {": data: x\n\n", mcpwire.FaultNoAnswer},
		"only a notification": {"data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", mcpwire.FaultNoAnswer},
	} {
		_, err := mcpwire.ParseAnswer("text/event-stream; charset=utf-8", []byte(row.body), "1")
		require.Equal(t, row.err, err, why)
	}
}

func FuzzParseAnswer(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":"1","result":{}}`, "data: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\"error\":{\"code\":1,\"message\":\"x\"}}\n\n", `[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}`} {
		f.Add("application/json", s)
		f.Add("text/event-stream", s)
	}
	f.Fuzz(func(t *testing.T, kind, body string) {
		a, err := mcpwire.ParseAnswer(kind, []byte(body), "1")
		require.Equal(t, err == nil, a != nil)
		if a != nil {
			require.NotEqual(t, a.Err == nil, a.Result == nil, "an answer is one of two")
		}
	})
}

// The list of a server is whatever a server says.
func FuzzList(f *testing.F) {
	for _, s := range []string{`{"tools":[null]}`, `{"tools":[{"name":"x","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}],"nextCursor":"c"}`, `{"tools":[{"name":"x","inputSchema":{}},{"name":"x","inputSchema":{"a":1}}]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, page string) {
		a, err := mcpwire.ParseAnswer("application/json", []byte(`{"jsonrpc":"2.0","id":"1","result":`+page+`}`), "1")
		if err != nil {
			return
		}
		tools, _, err := mcpwire.List(t.Context(), func(context.Context, *mcpwire.Message) (*mcpwire.Answer, error) { return a, nil }, mcpwire.ListLimits{Pages: 3})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, d := range tools {
			require.NotEmpty(t, d.Name)
			require.False(t, seen[d.Name])
			seen[d.Name] = true
			require.True(t, json.Valid(d.Input))
			require.Equal(t, d.Digest(), d.Digest())
		}
	})
}
