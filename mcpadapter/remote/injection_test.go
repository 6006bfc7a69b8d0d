package remote_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/remote"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// attack is a text of testdata/injection.json. Each holds the word marker-zq.
type attack struct {
	Kind, Why, Text string
	Gone            []string // what must not come through
}

func attacks(t *testing.T) (out []attack) {
	text, err := os.ReadFile("testdata/injection.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out))
	require.GreaterOrEqual(t, len(out), 30)
	return out
}

func quoteJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// fields are the places of an answer where a server can put a text.
var fields = map[string]string{
	"a text":              `{"content":[{"type":"text","text":@@}]}`,
	"a resource":          `{"content":[{"type":"resource","resource":{"uri":"x:y","text":@@,"mimeType":"text/plain"}}]}`,
	"a resource's name":   `{"content":[{"type":"resource","resource":{"uri":@@,"blob":"AAAA"}}]}`,
	"a link's words":      `{"content":[{"type":"resource_link","uri":"x:y","name":"n","description":@@}]}`,
	"a link's address":    `{"content":[{"type":"resource_link","uri":@@,"name":@@}]}`,
	"a type of media":     `{"content":[{"type":"image","data":"AAAA","mimeType":@@}]}`,
	"structured data":     `{"content":[],"structuredContent":{"rows":[{"note":@@}]}}`,
	"a name in data":      `{"content":[],"structuredContent":{@@:1}}`,
	"data that is a text": `{"content":[],"structuredContent":@@}`,
	"text and data":       `{"content":[{"type":"text","text":@@}],"structuredContent":{"note":@@}}`,
}

// M5, acceptance 5, J-01 to J-09: whatever a server writes into an answer arrives
// labelled and harmless in each projection, and the original is kept.
func TestInjection_M5_J01_J09(t *testing.T) {
	h := &hostile{tools: `[{"name":"read","inputSchema":{"type":"object"}}]`}
	w := newWorld(t, setup{handler: h, tools: []remote.Tool{{Name: "read", Class: reads}}, trust: toolresult.FirstParty})
	for _, a := range attacks(t) {
		for place, form := range fields {
			t.Run(a.Kind+", "+a.Why+", "+place, func(t *testing.T) {
				h.result = strings.ReplaceAll(form, "@@", quoteJSON(t, a.Text))
				r := w.call("far.read", `{}`)
				if r.Error != nil && strings.Contains(a.Text, "\x00") {
					return
				}
				require.NoError(t, r.Err())
				require.Equal(t, toolresult.Untrusted, r.Provenance.Trust, "although the operator trusts the connector, nobody trusts its content")
				w.structured(t, r, a)
				modelText(t, r.Text(nil), a)
				audit(t, r)
				w.original(t, r, a)
			})
		}
	}
}

// structured is the projection for programs.
func (w *world) structured(t *testing.T, r *toolresult.Result, a attack) {
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(text), `"trust":"untrusted"`)
	var data any
	require.NoError(t, json.Unmarshal(r.Data, &data))
	for _, s := range texts(data, nil) {
		for _, bad := range a.Gone {
			require.NotContains(t, s, bad)
		}
	}
	require.Contains(t, strings.Join(texts(data, nil), " "), "marker-zq", "what a reader can read is still there")
}

// texts lists every string of a value, names included.
func texts(v any, out []string) []string {
	switch v := v.(type) {
	case string:
		return append(out, v)
	case []any:
		for _, e := range v {
			out = texts(e, out)
		}
	case map[string]any:
		for k, e := range v {
			out = texts(e, append(out, k))
		}
	}
	return out
}

// modelText is the projection for a model: the SDK's lines, and then the content
// between fences, all of which is in lines that the SDK begins.
func modelText(t *testing.T, text string, a attack) {
	own, rest, ok := strings.Cut(text, "\ncontent: untrusted data between the two fence lines")
	require.True(t, ok, text)
	require.NotContains(t, own, "marker-zq", "no word of a stranger is among the SDK's")
	_, body, ok := strings.Cut(rest, "----- begin of content ")
	require.True(t, ok)
	word, body, _ := strings.Cut(body, " -----\n")
	body, after, ok := strings.Cut(body, "----- end of content "+word+" -----\n")
	require.True(t, ok && after == "", "nothing follows the content")
	for line := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
		name, _, _ := strings.Cut(line, ": ")
		require.Contains(t, []string{"source", "data", "provider's error"}, name, "a stranger begins no line")
	}
	for _, bad := range append([]string{"<", "\x1b"}, a.Gone...) {
		require.NotContains(t, body, bad)
	}
}

func audit(t *testing.T, r *toolresult.Result) {
	text, err := json.Marshal(r.Record())
	require.NoError(t, err)
	require.Contains(t, string(text), `"trust":"untrusted"`)
	require.NotContains(t, string(text), "marker-zq")
}

// original is what was sent, for whoever may read it.
func (w *world) original(t *testing.T, r *toolresult.Result, a attack) {
	var data struct {
		Changed  int
		Original string
	}
	require.NoError(t, json.Unmarshal(r.Data, &data))
	if data.Original == "" {
		require.Empty(t, a.Gone, "something was changed, and there is no original")
		return
	}
	ref, err := artifact.ParseRef(data.Original)
	require.NoError(t, err)
	_, body, err := w.inv.ReadArtifact(t.Context(), &connector.ArtifactRequest{Principal: w.alice, Ref: ref})
	require.NoError(t, err)
	defer body.Close()
	kept, err := io.ReadAll(body)
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(kept, &v))
	require.Contains(t, texts(v, nil), a.Text, "as it was sent")
	_, _, err = w.inv.ReadArtifact(t.Context(), &connector.ArtifactRequest{Principal: w.bob, Ref: ref})
	require.Equal(t, toolresult.NotFound, toolresult.Code(err), "having the reference grants nothing")
}

// The same on function calling: what goes back to a vendor.
func TestInjectionOnFunctionCalling_M3_M5(t *testing.T) {
	h := &hostile{tools: `[{"name":"read","inputSchema":{"type":"object"}}]`}
	w := newWorld(t, setup{handler: h, tools: []remote.Tool{{Name: "read", Class: reads}}})
	for _, a := range attacks(t) {
		h.result = strings.ReplaceAll(fields["text and data"], "@@", quoteJSON(t, a.Text))
		turn, err := functioncall.Dispatch(t.Context(), w.inv, w.alice, functioncall.AnthropicMessages,
			[]byte(`{"content":[{"type":"tool_use","id":"toolu_1","name":"far-read","input":{}}]}`), nil)
		require.NoError(t, err)
		require.Len(t, turn.Outputs, 1)
		var found []string
		var v any
		require.NoError(t, json.Unmarshal(turn.Outputs[0], &v))
		for _, s := range texts(v, nil) {
			if strings.Contains(s, "marker-zq") {
				found = append(found, s)
			}
		}
		require.Len(t, found, 1, "%s", turn.Outputs[0])
		modelText(t, found[0], a)
	}
}

// J-06: an error's text, in a result and in JSON-RPC.
func TestInjectionInErrors_M5_J06(t *testing.T) {
	for _, form := range []string{`"result":{"isError":true,"content":[{"type":"text","text":@@}]}`, `"error":{"code":-32603,"message":@@}`, `"error":{"code":-32602,"message":@@,"data":{"x":@@}}`} {
		h := &hostile{tools: `[{"name":"read","inputSchema":{"type":"object"}}]`}
		w := newWorld(t, setup{handler: h, tools: []remote.Tool{{Name: "read", Class: reads}}, trust: toolresult.FirstParty})
		for _, a := range attacks(t) {
			h.call = func(rw http.ResponseWriter, id string) {
				rw.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,%s}`, id, strings.ReplaceAll(form, "@@", quoteJSON(t, a.Text)))
			}
			r := w.call("far.read", `{}`)
			require.NotNil(t, r.Error)
			require.NotContains(t, string(r.Error.Message), "marker-zq")
			require.LessOrEqual(t, len(r.Error.Diagnostics.ProviderText), 512)
			require.NotContains(t, r.Error.Diagnostics.ProviderText, "\n")
			a.Gone = nil // an error's text is bounded and on one line; it is the label and the fence that count
			modelText(t, r.Text(nil), a)
			audit(t, r)
			for _, c := range r.Error.Diagnostics.ProviderText {
				require.False(t, c < ' ' || c >= 0x7f && c < 0xa0, "%q", r.Error.Diagnostics.ProviderText)
			}
		}
	}
}

// J-02: an address of a host that the operator allows stays one, in text only.
func TestAllowedHosts_M5_J02(t *testing.T) {
	h := &hostile{tools: `[{"name":"read","inputSchema":{"type":"object"}}]`, result: `{"content":[{"type":"text","text":"![a](https://good.example/x.png) https://good.example/1 https://evil.example/2"}]}`}
	w := newWorld(t, setup{handler: h, tools: []remote.Tool{{Name: "read", Class: reads}}, server: func(s *remote.Server) { s.Hosts = []string{"good.example"} }})
	data := string(w.call("far.read", `{}`).Data)
	require.Contains(t, data, "https://good.example/1")
	require.Contains(t, data, "hxxps://evil[.]example/2")
	require.NotContains(t, data, "](")
}

// Trust labels flow: what joins several sources has the lowest of their trust,
// and an own server's content is trusted only if the operator says so.
func TestTrust_M5(t *testing.T) {
	for why, row := range map[string]struct {
		server, tool toolresult.Trust
		want         toolresult.Trust
	}{
		"nothing is said":             {0, 0, toolresult.Untrusted},
		"the connector is trusted":    {toolresult.FirstParty, 0, toolresult.Untrusted},
		"the content is":              {0, toolresult.FirstParty, toolresult.Untrusted},
		"both are, and it is our own": {toolresult.FirstParty, toolresult.FirstParty, toolresult.FirstParty},
	} {
		h := &hostile{tools: `[{"name":"read","inputSchema":{"type":"object"}}]`, result: `{"content":[]}`}
		w := newWorld(t, setup{handler: h, trust: row.server, tools: []remote.Tool{{Name: "read", Class: reads, Trust: row.tool}},
			server: func(s *remote.Server) { s.Party = remote.PartyOwn }})
		r := w.call("far.read", `{}`)
		require.NoError(t, r.Err())
		require.Equal(t, row.want, r.Provenance.Trust, why)
		require.Len(t, r.Provenance.Sources, 1)
		require.Equal(t, "far (own)", r.Provenance.Sources[0].Service)
	}
}
