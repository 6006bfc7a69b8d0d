package functioncall_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall"
)

// streams are the same two parallel calls, whose arguments arrive in turns, as
// each vendor streams them.
var streams = map[functioncall.Vendor][]string{
	functioncall.OpenAIResponses: {
		`{"type":"response.created","response":{}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs"}}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc1","call_id":"call00001","name":"tickets-get_one","arguments":"","status":"in_progress"}}`,
		`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc2","call_id":"call00002","name":"tickets-get_one","arguments":"","status":"in_progress"}}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"id\":"}`,
		`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"id\":"}`,
		`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"\"é\"}"}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"\"b\"}"}`,
		`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"call00002","name":"tickets-get_one","arguments":"{\"id\":\"b\"}","status":"completed"}}`,
		`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"call00001","name":"tickets-get_one","arguments":"{\"id\":\"é\"}","status":"completed"}}`,
		`{"type":"response.completed","response":{}}`,
	},
	functioncall.OpenAIChat:  chatStream,
	functioncall.AzureChat:   chatStream,
	functioncall.MistralChat: {`{"choices":[{"index":0,"delta":{"content":""}}]}`, `{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"call00001","function":{"name":"tickets-get_one","arguments":"{\"id\":\"é\"}"}},{"id":"call00002","function":{"name":"tickets-get_one","arguments":{"id":"b"}}}]},"finish_reason":"tool_calls"}]}`, `[DONE]`},
	functioncall.AnthropicMessages: {
		`{"type":"message_start","message":{}}`, `{"type":"ping"}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"call00001","name":"tickets-get_one","input":{}}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call00002","name":"tickets-get_one","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"id\":"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"id\":\"é\"}"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"b\"}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`,
	},
	functioncall.GeminiGenerate: {
		`{"responseId":"r1","candidates":[{"content":{"parts":[{"text":"x"}]}}]}`,
		`{"responseId":"r1","candidates":[{"content":{"parts":[{"functionCall":{"id":"call00001","name":"tickets-get_one","args":{"id":"é"}}}]}}]}`,
		`{"responseId":"r1","candidates":[{"content":{"parts":[{"functionCall":{"id":"call00002","name":"tickets-get_one","args":{"id":"b"}}}]},"finishReason":"STOP"}]}`,
	},
	functioncall.BedrockConverse: {
		`{"messageStart":{"role":"assistant"}}`,
		`{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"text":"x"}}}`,
		`{"contentBlockStart":{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"call00001","name":"tickets-get_one"}}}}`,
		`{"contentBlockStart":{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"call00002","name":"tickets-get_one"}}}}`,
		`{"contentBlockDelta":{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"id\":\"b"}}}}`,
		`{"contentBlockDelta":{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"id\":\"é\"}"}}}}`,
		`{"contentBlockDelta":{"contentBlockIndex":2,"delta":{"toolUse":{"input":"\"}"}}}}`,
		`{"contentBlockStop":{"contentBlockIndex":1}}`, `{"messageStop":{"stopReason":"tool_use"}}`, `{"metadata":{}}`,
	},
}

var chatStream = []string{
	`{"choices":[{"index":0,"delta":{"role":"assistant"}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call00001","type":"function","function":{"name":"tickets-get_one","arguments":""}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call00002","type":"function","function":{"name":"tickets-get_one","arguments":"{"}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"id\":\"é\"}"}},{"index":1,"function":{"arguments":"\"id\":\"b\"}"}}]}}]}`,
	`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
	`{"choices":[],"usage":{}}`, `[DONE]`,
}

func assemble(v functioncall.Vendor, events []string) ([]byte, error) {
	s := functioncall.NewStream(v)
	for _, e := range events {
		if err := s.Add([]byte(e)); err != nil {
			return nil, err
		}
	}
	return s.Answer()
}

// M2: fragments of parallel calls come together, whoever streams them, and run.
func TestStream_M2(t *testing.T) {
	for _, v := range vendors {
		answer, err := assemble(v, streams[v])
		require.NoError(t, err, v)
		d := newDesk(t)
		turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, v, answer, nil)
		require.NoError(t, err, v)
		require.Len(t, turn.Outcomes, 2, v)
		for i, id := range []string{"é", "b"} {
			require.Equal(t, fmt.Sprintf("call0000%d", i+1), turn.Outcomes[i].Call.ID)
			require.JSONEq(t, `{"id":"`+id+`","limit":10}`, string(turn.Outcomes[i].Result.Data), "%s %v", v, turn.Outcomes[i].Result.Error)
		}
	}
}

// M2: of an answer that is not whole nothing runs, wherever it was cut.
func TestStreamThatEnds_M2(t *testing.T) {
	ends := map[functioncall.Vendor]int{functioncall.OpenAIResponses: 1, functioncall.OpenAIChat: 3, functioncall.AzureChat: 3, functioncall.MistralChat: 2,
		functioncall.AnthropicMessages: 1, functioncall.GeminiGenerate: 1, functioncall.BedrockConverse: 2}
	for _, v := range vendors {
		for n := range len(streams[v]) - ends[v] + 1 {
			_, err := assemble(v, streams[v][:n])
			require.ErrorContains(t, err, "nothing of it has run", "%s %d", v, n)
		}
	}
	cut := append(append([]string{}, chatStream[:3]...), `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)
	answer, err := assemble(functioncall.OpenAIChat, cut)
	require.NoError(t, err)
	d := newDesk(t)
	turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, functioncall.OpenAIChat, answer, nil)
	require.NoError(t, err)
	for _, o := range turn.Outcomes {
		require.NotNil(t, o.Result.Error, "a model that was stopped finished none of these")
	}
	require.Empty(t, d.order)
}

func TestAttacksOnStreams_M2(t *testing.T) {
	rows := []struct {
		name   string
		vendor functioncall.Vendor
		events []string
		says   string
	}{
		{"no JSON", functioncall.OpenAIChat, []string{`{`}, "not JSON of the vendor's form"},
		{"a fragment of a call that did not begin", functioncall.OpenAIChat, []string{`{"choices":[{"delta":{"tool_calls":[{"index":7,"function":{"arguments":"{}"}}]}}]}`}, "belongs to no call"},
		{"a fragment without a place", functioncall.OpenAIChat, []string{`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"x"}}]}}]}`}, "belongs to no call"},
		{"another call in the place of one", functioncall.AzureChat, []string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x"}}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"y"}}]}}]}`}, "belongs to no call"},
		{"two choices", functioncall.OpenAIChat, []string{`{"choices":[{"index":1,"delta":{}}]}`}, "several alternatives"},
		{"an error in the middle", functioncall.OpenAIChat, []string{chatStream[1], `{"error":{"message":"canary"}}`}, "ended the answer with an error"},
		{"a failure", functioncall.OpenAIResponses, []string{`{"type":"response.failed"}`}, "ended the answer with an error"},
		{"a delta that is an object", functioncall.OpenAIResponses, []string{`{"type":"response.function_call_arguments.delta","delta":{}}`}, "not JSON of the vendor's form"},
		{"a delta before the item", functioncall.OpenAIResponses, []string{`{"type":"response.function_call_arguments.delta","delta":"x"}`}, "belongs to no call"},
		{"an error", functioncall.AnthropicMessages, []string{`{"type":"error","error":{"type":"overloaded_error"}}`}, "ended the answer with an error"},
		{"a fragment of nothing", functioncall.AnthropicMessages, []string{`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{}"}}`}, "belongs to no call"},
		{"an exception", functioncall.BedrockConverse, []string{`{"throttlingException":{}}`}, "ended the answer with an error"},
		{"a fragment of nothing", functioncall.BedrockConverse, []string{`{"contentBlockDelta":{"contentBlockIndex":1,"delta":{"toolUse":{"input":"x"}}}}`}, "belongs to no call"},
		{"an error", functioncall.GeminiGenerate, []string{`{"error":{"code":503}}`}, "ended the answer with an error"},
		{"two candidates", functioncall.GeminiGenerate, []string{`{"candidates":[{},{}]}`}, "several alternatives"},
		{"a vendor that there is not", "other", []string{`{}`}, "vendor"},
		{"too long", functioncall.OpenAIChat, []string{strings.Repeat(" ", 1<<20) + `{"a":"` + strings.Repeat("x", 9<<20) + `"}`}, "over 8388608 bytes"},
	}
	for _, row := range rows {
		_, err := assemble(row.vendor, row.events)
		require.ErrorContains(t, err, row.says, "%s %s", row.vendor, row.name)
		require.NotContains(t, err.Error(), "canary")
	}
	s := functioncall.NewStream(functioncall.OpenAIChat)
	require.Error(t, s.Add([]byte(`{`)))
	require.Error(t, s.Add([]byte(`{}`)), "it does not go on after an error")
	_, err := s.Answer()
	require.Error(t, err)
}

// Whatever the events are, nothing panics, and an answer is one that can be read
// or refused.
func FuzzStream(f *testing.F) {
	for i, v := range vendors {
		f.Add(uint8(i), []byte(strings.Join(streams[v], "\n")))
	}
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		v := vendors[int(which)%len(vendors)]
		answer, err := assemble(v, strings.Split(string(text), "\n"))
		if err != nil {
			return
		}
		calls, err := functioncall.ParseCalls(v, answer)
		for _, c := range calls {
			require.NoError(t, err)
			require.NotEmpty(t, c.ID)
		}
	})
}
