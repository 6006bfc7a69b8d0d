package functioncall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canaryText = "canary-postgres://u:hunter2@db"

// desk is a host with two reads and a change that need no network.
type desk struct {
	inv   *connector.Invoker
	alice authz.Principal

	mu     sync.Mutex
	hidden map[string]bool
	order  []string     // what ran, as it ended
	meet   atomic.Int32 // reads under way
	both   chan struct{}
}

type (
	look struct {
		ID    string `json:"id" jsonschema:"of the ticket"`
		Limit int    `json:"limit,omitempty" jsonschema:"the most"`
	}
	creation struct {
		Subject string `json:"subject" jsonschema:"one line"`
	}
	nothing struct{}
	seen    struct {
		ID    string `json:"id"`
		Limit int    `json:"limit"`
	}
)

func newDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{hidden: map[string]bool{}, both: make(chan struct{})}
	alice, host := authztest.Principal(t, "acme", "alice")
	d.alice = alice
	c, err := connector.New(connector.Info{ID: "desk", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Read(spec("tickets.get_one", `{"properties":{"limit":{"default":10,"minimum":1,"maximum":50},"id":{"maxLength":12}}}`), connector.OnConnection[look], d.get),
		connector.Read(spec("tickets.meet", ""), connector.OnConnection[nothing], d.together),
		connector.Write(connector.WriteSpec{Spec: spec("tickets.create", ""), SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy},
			connector.OnConnection[creation], connector.Reconcilable(d.create, cannotTell)))
	require.NoError(t, err)
	d.inv, err = connector.NewInvoker(authztest.Policy(d.decide), []*authz.Authority{host}, []connector.Connector{c}, &connector.Options{Forgetful: true})
	require.NoError(t, err)
	return d
}

func spec(name, input string) connector.Spec {
	s := connector.Spec{Name: name, Description: "about " + name, Sensitivity: risk.Internal}
	if input != "" {
		s.Input = json.RawMessage(input)
	}
	return s
}

func (d *desk) decide(r *authz.Request) (authz.Decision, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hidden[r.Action.Capability] {
		return authz.Decision{Verdict: authz.Deny, Revision: "r1", Reason: canaryText}, nil
	}
	return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "r1"}, nil
}

func (d *desk) note(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order = append(d.order, s)
}

func (d *desk) get(_ context.Context, call *connector.ReadCall, in look) (*connector.Answer[seen], error) {
	defer d.note("get " + in.ID)
	call.Progress(connector.Progress{Done: 1})
	if in.ID == "error" {
		return nil, errors.New(canaryText)
	}
	return connector.Found(seen(in)), nil
}

// together ends when two of it run at the same time.
func (d *desk) together(ctx context.Context, _ *connector.ReadCall, _ nothing) (*connector.Answer[nothing], error) {
	if d.meet.Add(1) == 2 {
		close(d.both)
	}
	select {
	case <-d.both:
		return connector.Found(nothing{}), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *desk) create(ctx context.Context, call *connector.WriteCall, in creation) (*connector.Receipt[seen], error) {
	if err := call.Dispatch(ctx); err != nil {
		return nil, err
	}
	d.note("create " + in.Subject)
	return connector.Applied(seen{ID: in.Subject}, in.Subject), nil
}

func cannotTell(context.Context, *connector.ReadCall, creation, operation.Operation) (*connector.Evidence[seen], error) {
	return nil, nil
}

func TestDefinitions_M2(t *testing.T) {
	d := newDesk(t)
	for _, row := range []struct {
		vendor functioncall.Vendor
		want   string
	}{
		{functioncall.OpenAIResponses, `{"type":"function","name":"tickets-create","description":"about tickets.create","strict":false,
			"parameters":{"type":"object","additionalProperties":false,"required":["subject"],"properties":{"subject":{"type":"string","description":"one line","maxLength":4096}}}}`},
		{functioncall.AnthropicMessages, `{"name":"tickets-create","description":"about tickets.create",
			"input_schema":{"type":"object","additionalProperties":false,"required":["subject"],"properties":{"subject":{"type":"string","description":"one line","maxLength":4096}}}}`},
	} {
		t.Run(string(row.vendor), func(t *testing.T) {
			got, err := functioncall.Definitions(t.Context(), d.inv, d.alice, row.vendor, nil)
			require.NoError(t, err)
			require.JSONEq(t, row.want, string(got.Tools[0]))
			require.Equal(t, []string{"tickets-create", "tickets-get_one", "tickets-meet", "operation_status"}, toolNames(t, got))
			require.Empty(t, got.Losses)
			require.Contains(t, string(got.Tools[2]), `"properties":{}`, "also a tool without arguments has properties")
		})
	}
	d.hidden["tickets.create"] = true
	got, err := functioncall.Definitions(t.Context(), d.inv, d.alice, functioncall.OpenAIResponses, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"tickets-get_one", "tickets-meet"}, toolNames(t, got), "A4: only what is allowed now; no change, nothing to look up")

	_, err = functioncall.Definitions(t.Context(), d.inv, d.alice, "", nil)
	require.ErrorContains(t, err, "vendor")
	_, err = functioncall.Definitions(t.Context(), d.inv, authz.Principal{}, functioncall.OpenAIResponses, nil)
	require.ErrorIs(t, err, toolresult.AuthenticationRequired)
}

func toolNames(t *testing.T, s *functioncall.Toolset) (out []string) {
	t.Helper()
	for _, text := range s.Tools {
		var def struct{ Name string }
		require.NoError(t, json.Unmarshal(text, &def))
		require.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, def.Name)
		out = append(out, def.Name)
	}
	return out
}

// In strict mode every property is required, what was optional may be null, and
// what the mode cannot say is a loss.
func TestStrict_M2(t *testing.T) {
	d := newDesk(t)
	opts := &functioncall.Options{Strict: true}
	got, err := functioncall.Definitions(t.Context(), d.inv, d.alice, functioncall.OpenAIResponses, opts)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"function","name":"tickets-get_one","description":"about tickets.get_one","strict":true,"parameters":{
		"type":"object","additionalProperties":false,"required":["id","limit"],"properties":{
			"id":{"type":"string","description":"of the ticket"},
			"limit":{"description":"the most Default: 10.","anyOf":[{"type":"integer","minimum":1,"maximum":50},{"type":"null"}]}}}}`, string(got.Tools[1]))
	var losses []string
	for _, l := range got.Losses {
		losses = append(losses, l.String())
	}
	require.Contains(t, losses, "tickets-get_one /properties/id/maxLength: is not known to the vendor, and is left out")
	require.Contains(t, losses, "tickets-get_one /properties/limit/default: is said in the description only")

	turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, functioncall.OpenAIResponses,
		[]byte(`[{"type":"function_call","call_id":"c1","name":"tickets-get_one","arguments":"{\"id\":\"a\",\"limit\":null}"},
			{"type":"function_call","call_id":"c2","name":"tickets-get_one","arguments":"{\"id\":null,\"limit\":1}"}]`), opts)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"a","limit":10}`, string(turn.Outcomes[0].Result.Data), "null is what was left out")
	require.Equal(t, toolresult.InvalidInput, turn.Outcomes[1].Result.Error.Code, "and no value for what is needed")
}

// The same calls in the form of both vendors.
const (
	openAI = `{"id":"resp_1","output":[
		{"type":"reasoning","summary":[]},
		{"type":"function_call","id":"fc_1","call_id":"call_1","name":"tickets-get_one","arguments":"{\"id\":\"a\"}","status":"completed"},
		{"type":"message","content":[]},
		{"type":"function_call","id":"fc_2","call_id":"call_2","name":"no-such","arguments":"{}","status":"completed"},
		{"type":"function_call","id":"fc_3","call_id":"call_3","name":"tickets-get_one","arguments":"{\"id\":","status":"completed"},
		{"type":"function_call","id":"fc_4","call_id":"call_4","name":"tickets-get_one","arguments":"{\"id\":\"error\"}","status":"completed"},
		{"type":"function_call","id":"fc_5","call_id":"call_5","name":"tickets-create","arguments":"{\"subject\":\"x\"}","status":"completed"},
		{"type":"function_call","id":"fc_6","call_id":"call_6","name":"tickets-get_one","arguments":"{\"id\":\"a\"}","status":"incomplete"}]}`
	anthropic = `{"id":"msg_1","role":"assistant","stop_reason":"max_tokens","content":[
		{"type":"text","text":"x"},
		{"type":"tool_use","id":"call_1","name":"tickets-get_one","input":{"id":"a"}},
		{"type":"tool_use","id":"call_2","name":"no-such","input":{}},
		{"type":"tool_use","id":"call_3","name":"tickets-get_one","input":[]},
		{"type":"tool_use","id":"call_4","name":"tickets-get_one","input":{"id":"error"}},
		{"type":"tool_use","id":"call_5","name":"tickets-create","input":{"subject":"x"}},
		{"type":"tool_use","id":"call_6","name":"tickets-get_one","input":{"id":"a"}}]}`
)

func TestDispatch_M2(t *testing.T) {
	for vendor, answer := range map[functioncall.Vendor]string{functioncall.OpenAIResponses: openAI, functioncall.AnthropicMessages: anthropic} {
		t.Run(string(vendor), func(t *testing.T) {
			d := newDesk(t)
			var asked []string
			turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, vendor, []byte(answer), &functioncall.Options{
				OperationID: func(_ context.Context, c *functioncall.Call) string {
					asked = append(asked, c.ID+" "+c.Capability)
					return "conversation-7:" + c.ID
				},
			})
			require.NoError(t, err)
			require.Equal(t, []string{"call_5 tickets.create"}, asked, "only a change needs a key")
			wants := []struct {
				meaning toolresult.Meaning
				code    toolresult.ErrorCode
			}{
				{toolresult.MeaningComplete, ""},
				{toolresult.MeaningFailed, toolresult.CapabilityUnknown},
				{toolresult.MeaningFailed, toolresult.InvalidInput},
				{toolresult.MeaningFailed, toolresult.Internal},
				{toolresult.MeaningComplete, ""},
				{toolresult.MeaningFailed, toolresult.InvalidInput},
			}
			require.Len(t, turn.Outputs, len(wants))
			for i, want := range wants {
				r := turn.Outcomes[i].Result
				require.NoError(t, r.Validate(nil))
				require.Equal(t, want.meaning, r.Meaning(), "%d %v", i, r.Error)
				if want.code != "" {
					require.Equal(t, want.code, r.Error.Code, "%d", i)
				}
				id := fmt.Sprintf("call_%d", i+1)
				require.Equal(t, id, r.CallID)
				checkOutput(t, vendor, turn.Outputs[i], id, r)
			}
			require.Equal(t, toolresult.EffectApplied, turn.Outcomes[4].Result.Effect.Disposition)
		})
	}
}

func checkOutput(t *testing.T, v functioncall.Vendor, text json.RawMessage, id string, r *toolresult.Result) {
	t.Helper()
	require.NotContains(t, string(text), "canary")
	var got map[string]any
	require.NoError(t, json.Unmarshal(text, &got))
	said := "output"
	if v == functioncall.AnthropicMessages {
		said = "content"
		require.Equal(t, id, got["tool_use_id"])
		require.Equal(t, r.Status == toolresult.StatusError, got["is_error"])
		require.Equal(t, "tool_result", got["type"])
	} else {
		require.Equal(t, id, got["call_id"])
		require.Equal(t, "function_call_output", got["type"])
	}
	require.Contains(t, got[said], "meaning: "+r.Meaning().String())
}

// A change without the runtime's key is refused, whatever the model writes; and
// an operation can be looked up by those who see a change.
func TestOperations_W2(t *testing.T) {
	d := newDesk(t)
	call := func(opts *functioncall.Options, name, args string) *toolresult.Result {
		text, err := json.Marshal([]map[string]any{{"type": "tool_use", "id": "c", "name": name, "input": json.RawMessage(args)}})
		require.NoError(t, err)
		turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, functioncall.AnthropicMessages, text, opts)
		require.NoError(t, err)
		return turn.Outcomes[0].Result
	}
	r := call(nil, "tickets-create", `{"subject":"x"}`)
	require.Equal(t, toolresult.InvalidInput, r.Error.Code)
	r = call(nil, "tickets-create", `{"subject":"x","operation_id":"mine"}`)
	require.Equal(t, toolresult.InvalidInput, r.Error.Code)
	require.Empty(t, d.order)

	key := &functioncall.Options{OperationID: func(context.Context, *functioncall.Call) string { return "intent-1" }}
	r = call(key, "tickets-create", `{"subject":"x"}`)
	require.Equal(t, toolresult.EffectApplied, r.Effect.Disposition)
	again := call(key, "tickets-create", `{"subject":"x"}`)
	require.Equal(t, r.Effect, again.Effect)
	require.Equal(t, []string{"create x"}, d.order, "the same intent is one change")

	look := call(nil, functioncall.StatusTool, `{"operation_id":"`+r.Effect.OperationID+`"}`)
	require.Equal(t, r.Effect, look.Effect)
	require.Equal(t, toolresult.InvalidInput, call(nil, functioncall.StatusTool, `{"operation":"x"}`).Error.Code)
	require.Equal(t, toolresult.NotFound, call(nil, functioncall.StatusTool, `{"operation_id":"x"}`).Error.Code)
	d.hidden["tickets.create"] = true
	require.Equal(t, toolresult.CapabilityUnknown, call(nil, functioncall.StatusTool, `{"operation_id":"x"}`).Error.Code)
}

// Neighbouring reads run at the same time (these two wait for each other), and a
// change runs alone and in its place.
func TestParallelCalls(t *testing.T) {
	d := newDesk(t)
	turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, functioncall.AnthropicMessages, []byte(`[
		{"type":"tool_use","id":"1","name":"tickets-meet","input":{}},
		{"type":"tool_use","id":"2","name":"tickets-meet","input":{}},
		{"type":"tool_use","id":"3","name":"tickets-create","input":{"subject":"first"}},
		{"type":"tool_use","id":"4","name":"tickets-get_one","input":{"id":"then"}},
		{"type":"tool_use","id":"5","name":"tickets-create","input":{"subject":"last"}}]`),
		&functioncall.Options{OperationID: func(_ context.Context, c *functioncall.Call) string { return "turn-1:" + c.ID }})
	require.NoError(t, err)
	for i, o := range turn.Outcomes {
		require.Equal(t, toolresult.MeaningComplete, o.Result.Meaning(), "%d %v", i, o.Result.Error)
	}
	require.Equal(t, []string{"create first", "get then", "create last"}, d.order)
}

func TestCancelledTurn(t *testing.T) {
	d := newDesk(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	turn, err := functioncall.Dispatch(ctx, d.inv, d.alice, functioncall.AnthropicMessages, []byte(`[{"type":"tool_use","id":"1","name":"tickets-get_one","input":{"id":"a"}}]`), nil)
	require.NoError(t, err)
	require.Equal(t, toolresult.Cancelled, turn.Outcomes[0].Result.Error.Code)
	require.Empty(t, d.order)
}

func TestEnvelopeAndProgress(t *testing.T) {
	d := newDesk(t)
	progress := make(chan string, 4)
	turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, functioncall.OpenAIResponses, []byte(`[{"type":"function_call","call_id":"c1","name":"tickets-get_one","arguments":"{\"id\":\"a\"}"}]`),
		&functioncall.Options{Envelope: true, Progress: func(id string, p connector.Progress) { progress <- fmt.Sprint(id, p.Done) }})
	require.NoError(t, err)
	var out struct{ Output string }
	require.NoError(t, json.Unmarshal(turn.Outputs[0], &out))
	want, err := json.Marshal(turn.Outcomes[0].Result)
	require.NoError(t, err)
	require.JSONEq(t, string(want), out.Output)
	require.Equal(t, "c11", <-progress)
}

func TestAnswersThatCannotBeRead(t *testing.T) {
	call := `{"type":"function_call","call_id":"a","name":"x","arguments":"{}"}`
	rows := []struct{ name, text, says string }{
		{"not JSON", `{`, "not JSON of the vendor's form"},
		{"no list", `{"content":[]}`, "holds no list"},
		{"null", `null`, "holds no list"},
		{"output of another type", `{"output":7}`, "not JSON of the vendor's form"},
		{"an item that is no object", `[7]`, "item 0"},
		{"a call without an id", `[{"type":"function_call","name":"x","arguments":"{}"}]`, "without an id"},
		{"an id of two lines", `[{"type":"function_call","call_id":"a\nb","name":"x"}]`, "without an id of one line"},
		{"a long id", `[{"type":"function_call","call_id":"` + strings.Repeat("x", 257) + `","name":"x"}]`, "at most 256"},
		{"a call without a name", `[{"type":"function_call","call_id":"a"}]`, "without a name"},
		{"arguments of another type", `[{"type":"function_call","call_id":"a","name":"x","arguments":{}}]`, "members of the wrong type"},
		{"one id twice", `[` + call + `,` + call + `]`, "item 1 of the answer is a second call with the same id"},
		{"too long", strings.Repeat(" ", 9<<20), "over 8388608 bytes"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := functioncall.ParseCalls(functioncall.OpenAIResponses, []byte(row.text))
			require.ErrorContains(t, err, row.says)
		})
	}
	var many []string
	for i := range 129 {
		many = append(many, strings.Replace(call, `"a"`, fmt.Sprintf(`"%d"`, i), 1))
	}
	_, err := functioncall.ParseCalls(functioncall.OpenAIResponses, []byte("["+strings.Join(many, ",")+"]"))
	require.ErrorContains(t, err, "over 128 calls")
	none, err := functioncall.ParseCalls(functioncall.OpenAIResponses, []byte(`[{"type":"message"},{"type":"web_search_call","id":"x"}]`))
	require.NoError(t, err)
	require.Empty(t, none)
}

// Whatever a model's answer is, each of its calls has one output with its id, and
// nothing panics.
func FuzzDispatch(f *testing.F) {
	f.Add(true, []byte(openAI))
	f.Add(false, []byte(anthropic))
	f.Add(true, []byte(`[{"type":"function_call","call_id":"é","name":"tickets-get_one","arguments":"{\"id\":null,\"limit\":null}"}]`))
	d := newDesk(f)
	f.Fuzz(func(t *testing.T, isOpenAI bool, text []byte) {
		v := functioncall.AnthropicMessages
		if isOpenAI {
			v = functioncall.OpenAIResponses
		}
		calls, err := functioncall.ParseCalls(v, text)
		if err != nil || slices.ContainsFunc(calls, func(c functioncall.Call) bool { return c.Capability == "tickets.meet" }) {
			return // those wait for each other
		}
		turn, err := functioncall.Dispatch(t.Context(), d.inv, d.alice, v, text, &functioncall.Options{Strict: isOpenAI})
		require.NoError(t, err)
		require.Len(t, turn.Outputs, len(calls))
		for i, c := range calls {
			require.Equal(t, c.ID, turn.Outcomes[i].Result.CallID)
			require.NoError(t, turn.Outcomes[i].Result.Validate(nil))
		}
	})
}

// The strict schema accepts what a model would write, and a second reader of
// schemas takes it.
func TestStrictSchemaIsASchema(t *testing.T) {
	d := newDesk(t)
	got, err := functioncall.Definitions(t.Context(), d.inv, d.alice, functioncall.OpenAIResponses, &functioncall.Options{Strict: true})
	require.NoError(t, err)
	for _, text := range got.Tools {
		var def struct{ Parameters json.RawMessage }
		require.NoError(t, json.Unmarshal(text, &def))
		doc, err := oracle.UnmarshalJSON(bytes.NewReader(def.Parameters))
		require.NoError(t, err)
		c := oracle.NewCompiler()
		require.NoError(t, c.AddResource("mem:x", doc))
		_, err = c.Compile("mem:x")
		require.NoError(t, err)
	}
}
