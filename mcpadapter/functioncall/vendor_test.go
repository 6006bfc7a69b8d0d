package functioncall_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall/dialect"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var vendors = []functioncall.Vendor{functioncall.OpenAIResponses, functioncall.OpenAIChat, functioncall.AzureChat, functioncall.AnthropicMessages,
	functioncall.GeminiGenerate, functioncall.MistralChat, functioncall.BedrockConverse}

// said is a call as each vendor's model writes it.
type said struct{ id, name, args string }

// whole writes an answer in the form of a vendor.
func whole(t testing.TB, v functioncall.Vendor, stopped bool, calls ...said) []byte {
	t.Helper()
	list := []any{}
	for _, c := range calls {
		var item any
		switch v {
		case functioncall.OpenAIResponses:
			item = map[string]any{"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.args, "status": "completed"}
		case functioncall.AnthropicMessages:
			item = map[string]any{"type": "tool_use", "id": c.id, "name": c.name, "input": json.RawMessage(c.args)}
		case functioncall.GeminiGenerate:
			item = map[string]any{"functionCall": map[string]any{"id": c.id, "name": c.name, "args": json.RawMessage(c.args)}}
		case functioncall.BedrockConverse:
			item = map[string]any{"toolUse": map[string]any{"toolUseId": c.id, "name": c.name, "input": json.RawMessage(c.args)}}
		default:
			item = map[string]any{"id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": c.args}}
		}
		list = append(list, item)
	}
	var out any
	pick := func(yes, no string) string { return map[bool]string{true: yes, false: no}[stopped] }
	switch v {
	case functioncall.OpenAIResponses:
		out = map[string]any{"output": list}
	case functioncall.AnthropicMessages:
		out = map[string]any{"content": list, "stop_reason": pick("max_tokens", "tool_use")}
	case functioncall.GeminiGenerate:
		out = map[string]any{"responseId": "r1", "candidates": []any{map[string]any{"content": map[string]any{"parts": list}, "finishReason": pick("MAX_TOKENS", "STOP")}}}
	case functioncall.BedrockConverse:
		out = map[string]any{"output": map[string]any{"message": map[string]any{"content": list}}, "stopReason": pick("max_tokens", "tool_use")}
	default:
		out = map[string]any{"choices": []any{map[string]any{"message": map[string]any{"tool_calls": list}, "finish_reason": pick("length", "tool_calls")}}}
	}
	text, err := json.Marshal(out)
	require.NoError(t, err)
	return text
}

// M2: each vendor's definition of the same tool, word for word.
func TestDefinitionForms_M2(t *testing.T) {
	d := newDesk(t)
	schema := `{"type":"object","additionalProperties":false,"required":["subject"],"properties":{"subject":{"type":"string","description":"one line","maxLength":4096}}}`
	open := `{"type":"object","required":["subject"],"properties":{"subject":{"type":"string","description":"one line","maxLength":4096}}}`
	const head = `"name":"tickets-create","description":"about tickets.create"`
	want := map[functioncall.Vendor]string{
		functioncall.OpenAIResponses:   `{"type":"function",` + head + `,"strict":false,"parameters":` + schema + `}`,
		functioncall.OpenAIChat:        `{"type":"function","function":{` + head + `,"strict":false,"parameters":` + schema + `}}`,
		functioncall.AzureChat:         `{"type":"function","function":{` + head + `,"strict":false,"parameters":` + schema + `}}`,
		functioncall.MistralChat:       `{"type":"function","function":{` + head + `,"parameters":` + schema + `}}`,
		functioncall.AnthropicMessages: `{` + head + `,"input_schema":` + schema + `}`,
		functioncall.GeminiGenerate:    `{` + head + `,"parameters":` + open + `}`,
		functioncall.BedrockConverse:   `{"toolSpec":{` + head + `,"inputSchema":{"json":` + schema + `}}}`,
	}
	for _, v := range vendors {
		got, err := functioncall.Definitions(t.Context(), d.inv, d.alice, v, nil)
		require.NoError(t, err)
		require.JSONEq(t, want[v], string(got.Tools[0]), v)
		if v == functioncall.GeminiGenerate {
			require.JSONEq(t, `{"name":"tickets-meet","description":"about tickets.meet"}`, string(got.Tools[2]), "an object without properties is refused: no parameters at all")
		}
	}
}

// M2: calls are correlated and answered in each vendor's form, failures too, and
// one that the model did not finish does not run.
func TestAnswersOfEveryVendor_M2(t *testing.T) {
	outputs := map[functioncall.Vendor][2]string{
		functioncall.OpenAIResponses:   {`{"type":"function_call_output","call_id":"ID","output":TEXT}`, `{"type":"function_call_output","call_id":"ID","output":TEXT}`},
		functioncall.OpenAIChat:        {`{"role":"tool","tool_call_id":"ID","content":TEXT}`, `{"role":"tool","tool_call_id":"ID","content":TEXT}`},
		functioncall.AzureChat:         {`{"role":"tool","tool_call_id":"ID","content":TEXT}`, `{"role":"tool","tool_call_id":"ID","content":TEXT}`},
		functioncall.MistralChat:       {`{"role":"tool","tool_call_id":"ID","name":"tickets-get_one","content":TEXT}`, `{"role":"tool","tool_call_id":"ID","name":"tickets-get_one","content":TEXT}`},
		functioncall.AnthropicMessages: {`{"type":"tool_result","tool_use_id":"ID","content":TEXT,"is_error":false}`, `{"type":"tool_result","tool_use_id":"ID","content":TEXT,"is_error":true}`},
		functioncall.GeminiGenerate:    {`{"functionResponse":{"id":"ID","name":"tickets-get_one","response":{"output":TEXT}}}`, `{"functionResponse":{"id":"ID","name":"tickets-get_one","response":{"error":TEXT}}}`},
		functioncall.BedrockConverse:   {`{"toolResult":{"toolUseId":"ID","content":[{"text":TEXT}],"status":"success"}}`, `{"toolResult":{"toolUseId":"ID","content":[{"text":TEXT}],"status":"error"}}`},
	}
	for _, v := range vendors {
		d := newDesk(t)
		stopped := v != functioncall.OpenAIResponses // it says so on each item
		text := whole(t, v, stopped, said{"call00001", "tickets-get_one", `{"id":"a"}`}, said{"call00002", "tickets-get_one", `{"id":"error"}`}, said{"call00003", "tickets-get_one", `{"id":"b"}`})
		turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, v, text, nil)
		require.NoError(t, err)
		require.Len(t, turn.Outputs, 3)
		for i, failed := range []int{0, 1} {
			r := turn.Outcomes[i].Result
			said, err := json.Marshal(r.Text(nil))
			require.NoError(t, err)
			want := strings.NewReplacer("ID", turn.Outcomes[i].Call.ID, "TEXT", string(said)).Replace(outputs[v][failed])
			require.JSONEq(t, want, string(turn.Outputs[i]), v)
			require.NotContains(t, string(turn.Outputs[i]), "canary")
		}
		if stopped {
			require.Equal(t, toolresult.InvalidInput, turn.Outcomes[2].Result.Error.Code, "%s: the model was stopped in the last one", v)
			require.NotContains(t, d.order, "get b")
		}
	}
}

// M2: a property that had to be renamed, and null for what was left out, reach the
// connector as it declared them: what vendor and mode made of its schema is undone.
func TestArgumentsComeBack_M2_S13_S25(t *testing.T) {
	d := newDesk(t)
	for _, v := range vendors {
		for _, strict := range []bool{false, true} {
			args := `{"id":"a"}`
			hasStrict := v == functioncall.OpenAIResponses || v == functioncall.OpenAIChat || v == functioncall.AzureChat
			if strict && hasStrict {
				args = `{"id":"a","limit":null}`
			}
			turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, v, whole(t, v, false, said{"call00001", "tickets-get_one", args}), &functioncall.Options{Strict: strict})
			require.NoError(t, err)
			require.JSONEq(t, `{"id":"a","limit":10}`, string(turn.Outcomes[0].Result.Data), "%s %v", v, strict)
			// held to the capability's own schema, whatever the vendor's could say
			turn, err = functioncall.Dispatch(t.Context(), d.inv, d.alice, v, whole(t, v, false, said{"call00001", "tickets-get_one", `{"id":"longer than twelve","limit":7}`}), &functioncall.Options{Strict: strict})
			require.NoError(t, err)
			require.Equal(t, toolresult.InvalidInput, turn.Outcomes[0].Result.Error.Code)
		}
	}
}

// wrapped is a connector with another schema than its author's, as one that was
// written by hand may have.
type wrapped struct {
	connector.Connector
	input string
}

func (w wrapped) Manifest() connector.Manifest {
	m := w.Connector.Manifest()
	m.Capabilities[0].Input = json.RawMessage(w.input)
	return m
}

// nobody is a schema that nothing fits.
const nobody = `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}},"anyOf":[{"type":"string"}]}`

// M2, S-30: a tool that has no form for a vendor is left out alone, and reported.
// The others are offered.
func TestOneBadTool_M2_S30(t *testing.T) {
	alice, host := authztest.Principal(t, "acme", "alice")
	c := plainDesk(t)
	inv, err := connector.NewInvoker(authztest.AllowAsked(), []*authz.Authority{host}, []connector.Connector{wrapped{c, nobody}}, nil)
	require.NoError(t, err)
	for _, v := range vendors {
		got, err := functioncall.Definitions(t.Context(), inv, alice, v, nil)
		require.NoError(t, err)
		require.Len(t, got.Tools, 1, v)
		require.Contains(t, string(got.Tools[0]), "tickets-plain")
		require.Equal(t, dialect.Dropped, got.Losses[0].Kind)
		require.Equal(t, "tickets-map : is not offered: dialect: no branch of \"/anyOf\" is an object", got.Losses[0].String())
	}
}

// M2: a vendor that cannot say a thing says what it cannot, per tool; the others
// stay strict. Azure's strict mode is not OpenAI's.
func TestStrictIsPerTool_M2_S26(t *testing.T) {
	alice, host := authztest.Principal(t, "acme", "alice")
	inv, err := connector.NewInvoker(authztest.AllowAsked(), []*authz.Authority{host}, []connector.Connector{plainDesk(t)}, nil)
	require.NoError(t, err)
	got, err := functioncall.Definitions(t.Context(), inv, alice, functioncall.OpenAIChat, &functioncall.Options{Strict: true})
	require.NoError(t, err)
	require.Contains(t, string(got.Tools[0]), `"strict":false`)
	require.Contains(t, string(got.Tools[1]), `"strict":true`)
	require.Equal(t, dialect.NotStrict, got.Losses[0].Kind)
	require.Contains(t, got.Losses[0].String(), `tickets-map : strict mode is off: at "/properties/scores/additionalProperties"`)
}

// plainDesk is a connector with a map among its arguments and one without.
func plainDesk(t *testing.T) connector.Connector {
	t.Helper()
	type open struct {
		Scores map[string]int `json:"scores"`
	}
	c, err := connector.New(connector.Info{ID: "desk", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Read(spec("tickets.map", ""), connector.OnConnection[open], func(context.Context, *connector.ReadCall, open) (*connector.Answer[nothing], error) {
			return connector.NoMatch[nothing](), nil
		}),
		connector.Read(spec("tickets.plain", ""), connector.OnConnection[creation], func(context.Context, *connector.ReadCall, creation) (*connector.Answer[nothing], error) {
			return connector.NoMatch[nothing](), nil
		}))
	require.NoError(t, err)
	return c
}

// S-29: an id of another vendor's is replaced by one that Mistral takes, and two
// ids never by one.
func TestCallIDs_M2_S29(t *testing.T) {
	ids := []string{"call_PTLP8xhu3uwZk4l3nlnrrJha", "call_PTLP8xhu3uwZk4l3nlnrrJhb", "abcDEF123", "call_PTLP", ""}
	got, err := functioncall.MistralChat.CallIDs(ids)
	require.NoError(t, err)
	for _, id := range ids {
		require.Regexp(t, `^[a-zA-Z0-9]{9}$`, got[id])
	}
	require.Equal(t, "abcDEF123", got["abcDEF123"], "one that is taken stays")
	_, err = functioncall.MistralChat.CallIDs([]string{"x1", "x1"})
	require.ErrorContains(t, err, "cannot be told from")
	_, err = functioncall.MistralChat.CallIDs([]string{ids[0], got[ids[0]]})
	require.ErrorContains(t, err, "cannot be told from", "chopping and digests may collide: that is looked at")
	for _, v := range vendors {
		local, err := v.CallIDs([]string{"toolu_01A", strings.Repeat("é", 300)})
		require.NoError(t, err)
		for _, id := range local {
			require.Regexp(t, `^[a-zA-Z0-9_-]{1,40}$`, id)
		}
	}
}

// Gemini may give no ids. The operation of a change must not be taken for that of
// another turn, so the answer's id is needed.
func TestCallsWithoutIDs_M2(t *testing.T) {
	one := `{"functionCall":{"name":"tickets-get_one","args":{"id":"a"}}}`
	_, err := functioncall.ParseCalls(functioncall.GeminiGenerate, []byte(`[`+one+`]`))
	require.ErrorContains(t, err, "without an id")
	calls, err := functioncall.ParseCalls(functioncall.GeminiGenerate, []byte(`{"responseId":"r7","candidates":[{"content":{"parts":[{"text":"x"},`+one+`,`+one+`]},"finishReason":"STOP"}]}`))
	require.NoError(t, err)
	require.Equal(t, []string{"r7-0", "r7-1"}, []string{calls[0].ID, calls[1].ID})
	d := newDesk(t)
	turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, functioncall.GeminiGenerate, []byte(`{"responseId":"r7","candidates":[{"content":{"parts":[`+one+`]}}]}`), nil)
	require.NoError(t, err)
	require.NotContains(t, string(turn.Outputs[0]), `"id":"r7`, "Gemini hears no id that it did not give")
	require.Equal(t, "r7-0", turn.Outcomes[0].Result.CallID)
}

// Answers that no vendor gives, and some that they do.
func TestAttacksOnAnswers_M2(t *testing.T) {
	f := `{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}}`
	rows := []struct {
		name   string
		vendor functioncall.Vendor
		text   string
		says   string
	}{
		{"two choices", functioncall.OpenAIChat, `{"choices":[{"message":{}},{"message":{}}]}`, "several alternatives"},
		{"no choice", functioncall.OpenAIChat, `{"choices":[]}`, "holds no list"},
		{"a choice without a message", functioncall.OpenAIChat, `{"choices":[{}]}`, "holds no list"},
		{"a name that is there in two cases", functioncall.OpenAIChat, `[{"id":"a","function":{"name":"x"},"Function":null}]`, "members of the wrong type"},
		{"a name that is there in two cases", functioncall.GeminiGenerate, `[{"functionCall":{"name":"x"},"FunctionCall":null}]`, "members of the wrong type"},
		{"a name that is there in two cases", functioncall.BedrockConverse, `[{"toolUse":{"name":"x"},"tooluse":null}]`, "members of the wrong type"},
		{"a function that is a list", functioncall.AzureChat, `[{"id":"a","function":[]}]`, "members of the wrong type"},
		{"arguments that are an object", functioncall.OpenAIChat, `[{"id":"a","function":{"name":"x","arguments":{}}}]`, "members of the wrong type"},
		{"one id twice", functioncall.MistralChat, `[` + f + `,` + f + `]`, "second call with the same id"},
		{"two candidates", functioncall.GeminiGenerate, `{"candidates":[{},{}]}`, "several alternatives"},
		{"a prompt that was blocked", functioncall.GeminiGenerate, `{"promptFeedback":{"blockReason":"SAFETY"}}`, "holds no list"},
		{"an output that is a list", functioncall.BedrockConverse, `{"output":[]}`, "not JSON of the vendor's form"},
		{"an answer of another vendor", functioncall.BedrockConverse, `{"content":[]}`, "holds no list"},
		{"an answer of another vendor", functioncall.OpenAIResponses, `{"output":{"message":{"content":[]}}}`, "not JSON of the vendor's form"},
		{"an id with a control character", functioncall.BedrockConverse, `[{"toolUse":{"toolUseId":"a\u0000","name":"x"}}]`, "without an id of one line"},
		{"null for an item", functioncall.GeminiGenerate, `[null]`, "not an object"},
		{"a vendor that there is not", "other", `[]`, "vendor"},
	}
	d := newDesk(t)
	for _, row := range rows {
		_, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, row.vendor, []byte(row.text), nil)
		require.ErrorContains(t, err, row.says, "%s %s", row.vendor, row.name)
	}
	require.Empty(t, d.order)
	bare, err := functioncall.ParseCalls(functioncall.MistralChat, []byte(`[{"id":"a","function":{"name":"x","arguments":{"a":1}}}]`))
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1}`, string(bare[0].Arguments), "Mistral's older models write an object")
}

// A model's answer never panics a parser, and each call has an id, a name and an
// output.
func FuzzAnswers(f *testing.F) {
	for i, v := range vendors {
		f.Add(uint8(i), whole(f, v, false, said{"call00001", "tickets-get_one", `{"id":"a"}`}))
		f.Add(uint8(i), whole(f, v, true, said{"call00001", "no-such", `{"id":null,"limit":null}`}))
	}
	d := newDesk(f)
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		v := vendors[int(which)%len(vendors)]
		calls, err := functioncall.ParseCalls(v, text)
		if err != nil {
			return
		}
		for _, c := range calls {
			if c.Capability == "tickets.meet" {
				return // those wait for each other
			}
			require.NotEmpty(t, c.ID)
		}
		turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, v, text, &functioncall.Options{Strict: which >= 128})
		require.NoError(t, err)
		require.Len(t, turn.Outputs, len(calls))
		for i, c := range calls {
			require.Equal(t, c.ID, turn.Outcomes[i].Result.CallID)
			require.True(t, json.Valid(turn.Outputs[i]))
		}
	})
}
