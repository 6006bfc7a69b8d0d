package mcpadapter_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// A caller makes one call and returns its envelope as JSON.
type caller func(tool, args, key string) json.RawMessage

// surfaces are the ways to call.
var surfaces = map[string]func(*testing.T, *world) caller{
	"Go": func(t *testing.T, w *world) caller {
		return func(tool, args, key string) json.RawMessage {
			r := w.inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: w.alice, Capability: tool, Arguments: json.RawMessage(args), Key: key})
			return written(t, r)
		}
	},
	"MCP stdio": func(t *testing.T, w *world) caller { return byMCP(t, inMemory(t, w.adapter(t, as(w.alice), nil), nil)) },
	"MCP HTTP": func(t *testing.T, w *world) caller {
		srv := httptest.NewServer(w.adapter(t, w.byToken, nil).HTTP())
		t.Cleanup(srv.Close)
		return byMCP(t, w.client(t, srv.URL, "alice"))
	},
	"OpenAI":    func(t *testing.T, w *world) caller { return byFunction(t, w, functioncall.OpenAIResponses) },
	"Anthropic": func(t *testing.T, w *world) caller { return byFunction(t, w, functioncall.AnthropicMessages) },
}

func byMCP(t *testing.T, cs *mcp.ClientSession) caller {
	return func(tool, args, key string) json.RawMessage {
		r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta(key), Name: tool, Arguments: json.RawMessage(args)})
		require.NoError(t, err)
		return written(t, decoded(t, r))
	}
}

func byFunction(t *testing.T, w *world, v functioncall.Vendor) caller {
	return func(tool, args, key string) json.RawMessage {
		turn, err := functioncall.Dispatch(t.Context(), w.inv, w.alice, v, answerOf(t, v, tool, args), &functioncall.Options{
			OperationID: func(context.Context, *functioncall.Call) string { return key }})
		require.NoError(t, err)
		return written(t, turn.Outcomes[0].Result)
	}
}

func written(t *testing.T, r *toolresult.Result) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	return text
}

// answerOf is a model's answer with one call.
func answerOf(t *testing.T, v functioncall.Vendor, tool, args string) []byte {
	t.Helper()
	item := map[string]any{"type": "tool_use", "id": "id", "name": strings.ReplaceAll(tool, ".", "-"), "input": json.RawMessage(args)}
	if v == functioncall.OpenAIResponses {
		item = map[string]any{"type": "function_call", "call_id": "id", "name": item["name"], "arguments": args}
	}
	text, err := json.Marshal([]any{item})
	require.NoError(t, err)
	return text
}

// What differs from one call to the next on the same surface: its id, when the
// provider was asked, the id of an operation, and the sealed cursor.
var perCall = regexp.MustCompile(`"(call_id|fetched_at|operation_id|next_cursor)":"[^"]*"`)

// M3: the same call gives the same envelope on every surface, for every capability
// and every meaning.
func TestSameEnvelopeOnEverySurface_M3(t *testing.T) {
	for _, row := range means {
		t.Run(row.tool+row.args+row.key, func(t *testing.T) {
			// Each surface has a world of its own, so that a change is made and
			// not repeated.
			got := map[string]string{}
			for name, open := range surfaces {
				text := open(t, newWorld(t))(row.tool, row.args, row.key)
				var r toolresult.Result
				require.NoError(t, json.Unmarshal(text, &r))
				require.Equal(t, row.meaning, r.Meaning(), name)
				got[name] = perCall.ReplaceAllString(string(text), `"$1":"*"`)
			}
			for name, text := range got {
				require.Equal(t, got["Go"], text, name)
			}
		})
	}
}

// A change that one surface made is the same change on another.
func TestOneOperationOnEverySurface_M3_W2(t *testing.T) {
	w := newWorld(t)
	ids := map[string]bool{}
	for _, open := range surfaces {
		var r toolresult.Result
		require.NoError(t, json.Unmarshal(open(t, w)("tickets.create", `{"subject":"x"}`, "one-intent"), &r))
		require.Equal(t, toolresult.EffectApplied, r.Effect.Disposition)
		ids[r.Effect.OperationID] = true
	}
	require.Len(t, ids, 1)
	require.Equal(t, 1, w.count("POST"))
}
