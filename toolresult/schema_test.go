package toolresult_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	google "github.com/google/jsonschema-go/jsonschema"
	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// schemas returns the published schema as two implementations read it.
func schemas(t require.TestingT) map[string]func(text []byte) error {
	doc, err := oracle.UnmarshalJSON(bytes.NewReader(toolresult.Schema()))
	require.NoError(t, err)
	var s google.Schema
	require.NoError(t, json.Unmarshal(toolresult.Schema(), &s))
	second, err := s.Resolve(nil)
	require.NoError(t, err)
	return map[string]func([]byte) error{
		"santhosh-tekuri/jsonschema": compile(t, doc),
		"google/jsonschema-go": func(text []byte) error {
			var v any
			if err := json.Unmarshal(text, &v); err != nil {
				panic(err) // the caller wrote it
			}
			return second.Validate(v)
		},
	}
}

func compile(t require.TestingT, doc any) func(text []byte) error {
	id := doc.(map[string]any)["$id"].(string)
	c := oracle.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource(id, doc))
	s, err := c.Compile(id)
	require.NoError(t, err)
	return func(text []byte) error {
		v, err := oracle.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			panic(err)
		}
		return s.Validate(v)
	}
}

// Every result that a constructor makes means what its name says, is written
// as JSON that the schema accepts, and comes back with the same bytes and
// the same meaning.
func TestEveryResult_R1_R2_R5_R11(t *testing.T) {
	accepts := schemas(t)
	rapid.Check(t, func(t *rapid.T) {
		r, means := valid(t)
		require.NoError(t, r.Validate(nil), "%+v", problems(r.Validate(nil)))
		if r.Status == toolresult.StatusSuccess && r.Effect.Disposition == toolresult.EffectNone && string(r.Data) == "[]" {
			means = toolresult.MeaningNoMatch
		}
		require.Equal(t, means, r.Meaning())
		text, err := json.Marshal(r)
		require.NoError(t, err)
		for name, accept := range accepts {
			require.NoError(t, accept(text), "%s: %s", name, text)
		}
		var back toolresult.Result
		require.NoError(t, json.Unmarshal(text, &back))
		require.NoError(t, back.Validate(nil), "%+v", problems(back.Validate(nil)))
		require.Equal(t, r.Meaning(), back.Meaning())
		again, err := json.Marshal(back)
		require.NoError(t, err)
		require.Equal(t, string(text), string(again))
	})
}

// R11: members of a newer peer pass the schema and the decoder at every place, and
// come back where they were kept.
func TestUnknownMembers_R11(t *testing.T) {
	accepts := schemas(t)
	for name, r := range golden() {
		if r.Validate(nil) != nil {
			continue
		}
		text, err := json.Marshal(r)
		require.NoError(t, err)
		var v any
		require.NoError(t, json.Unmarshal(text, &v))
		grease(v, "")
		text, err = json.Marshal(v)
		require.NoError(t, err)
		for impl, accept := range accepts {
			require.NoError(t, accept(text), "%s: %s", impl, name)
		}
		var back toolresult.Result
		require.NoError(t, json.Unmarshal(text, &back), name)
		require.Equal(t, r.Meaning(), back.Meaning())
		again, err := json.Marshal(back)
		require.NoError(t, err)
		require.Contains(t, string(again), `"later":{"a":[null]}`)
	}
}

// grease adds a member to each object but to those that hold content.
func grease(v any, at string) {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			if name != "data" {
				grease(e, at+"/"+name)
			}
		}
		v["later"] = map[string]any{"a": []any{nil}}
	case []any:
		for _, e := range v {
			grease(e, at)
		}
	}
}

func TestSchemaIsPublishable_R11(t *testing.T) {
	s := string(toolresult.Schema())
	require.Contains(t, s, `"$schema": "https://json-schema.org/draft/2020-12/schema"`)
	require.Contains(t, s, `"$id": "https://drawbridge.dev/schema/toolresult/v1"`)
	for i, ref := range strings.Split(s, `"$ref": "`)[1:] {
		require.True(t, strings.HasPrefix(ref, "#/$defs/"), "reference %d leaves the document", i)
	}
	// no reference is circular: inlining ends
	var doc map[string]any
	require.NoError(t, json.Unmarshal([]byte(s), &doc))
	var follow func(v any, depth int)
	follow = func(v any, depth int) {
		require.Less(t, depth, 100)
		switch v := v.(type) {
		case map[string]any:
			for name, e := range v {
				if name == "$ref" {
					e = doc["$defs"].(map[string]any)[strings.TrimPrefix(e.(string), "#/$defs/")]
					require.NotNil(t, e)
				}
				if depth > 0 || name != "$defs" {
					follow(e, depth+1)
				}
			}
		case []any:
			for _, e := range v {
				follow(e, depth+1)
			}
		}
	}
	follow(doc, 0)

	mine := toolresult.Schema()
	mine[0] = 'x'
	require.Equal(t, s, string(toolresult.Schema()), "the caller owns the bytes")
}

func problems(err error) []toolresult.Problem {
	if err == nil {
		return nil
	}
	return toolresult.AsError(err).Problems
}

func page() *toolresult.Result {
	r := toolresult.Partial("call_1", json.RawMessage(`[{"id":1}]`), toolresult.GapRemainingPages)
	r.NextCursor = "sealed"
	return r
}

func failed() *toolresult.Result {
	return toolresult.Failure("call_1", toolresult.NewError(toolresult.NotFound, "no such ticket"))
}

func nested(levels int) toolresult.Provenance {
	p := toolresult.Provenance{Service: "s"}
	for range levels {
		p = toolresult.Provenance{Service: "s", Sources: []toolresult.Provenance{p}}
	}
	return p
}

// A rule of Validate: a valid result, what breaks the rule, where Validate
// points, and what the schema says of it.
type rule struct {
	rule   string
	base   func() *toolresult.Result
	broken func(*toolresult.Result)
	at     string
	// The schema refuses what the broken result is written as, unless one of these is set.
	edit   func(m map[string]any) // makes the broken JSON where the encoder would not write it
	cannot string                 // why the schema cannot see it
}

var rules = []rule{
	{rule: "call_id is not empty", base: page, broken: func(r *toolresult.Result) { r.CallID = "" }, at: "/call_id"},
	{rule: "call_id is one line", base: page, broken: func(r *toolresult.Result) { r.CallID = "a\nb" }, at: "/call_id"},
	{rule: "call_id is at most 512 bytes", base: page, broken: func(r *toolresult.Result) { r.CallID = strings.Repeat("a", 513) }, at: "/call_id"},
	{rule: "call_id is at most 512 bytes, also of longer characters", base: page, broken: func(r *toolresult.Result) { r.CallID = strings.Repeat("é", 257) }, at: "/call_id", cannot: "counts characters"},
	{rule: "operation_id is one line", base: applied, broken: func(r *toolresult.Result) { r.Effect.OperationID = "a\u2028b" }, at: "/effect/operation_id"},
	{rule: "operation_id is at most 512 bytes", base: applied, broken: func(r *toolresult.Result) { r.Effect.OperationID = strings.Repeat("a", 513) }, at: "/effect/operation_id"},
	{rule: "next_cursor is one line", base: page, broken: func(r *toolresult.Result) { r.NextCursor = "a\x7fb" }, at: "/next_cursor"},
	{rule: "next_cursor is at most 16 KiB", base: page, broken: func(r *toolresult.Result) { r.NextCursor = strings.Repeat("a", 16385) }, at: "/next_cursor"},
	{rule: "data_ref is one line", base: page, broken: func(r *toolresult.Result) { r.DataRef = "a\x00b" }, at: "/data_ref"},
	{rule: "data_ref is at most 1024 bytes", base: page, broken: func(r *toolresult.Result) { r.DataRef = strings.Repeat("a", 1025) }, at: "/data_ref"},
	{rule: "names are UTF-8", base: page, broken: func(r *toolresult.Result) { r.CallID = "\xff" }, at: "/call_id", cannot: "JSON is UTF-8: the encoder writes U+FFFD"},

	{rule: "status is a status", base: page, broken: func(r *toolresult.Result) { r.Status = "fine" }, at: "/status"},
	{rule: "status is not forgotten", base: page, broken: func(r *toolresult.Result) { r.Status = "" }, at: "/status"},
	{rule: "disposition is a disposition", base: applied, broken: func(r *toolresult.Result) { r.Effect.Disposition = 200 }, at: "/effect/disposition", edit: func(m map[string]any) { m["effect"].(map[string]any)["disposition"] = "perhaps" }},
	{rule: "a gap is a name", base: page, broken: func(r *toolresult.Result) { r.Coverage.Missing[0] = "Two words" }, at: "/coverage/missing"},
	{rule: "a gap is not empty", base: page, broken: func(r *toolresult.Result) {
		r.Coverage.Missing = append(r.Coverage.Missing, "")
	}, at: "/coverage/missing"},
	{rule: "a gap is at most 64 bytes", base: page, broken: func(r *toolresult.Result) {
		r.Coverage.Missing = append(r.Coverage.Missing, toolresult.Gap(strings.Repeat("a", 65)))
	}, at: "/coverage/missing"},
	{rule: "there are at most 128 gaps", base: page, broken: func(r *toolresult.Result) {
		for range 128 {
			r.Coverage.Missing = append(r.Coverage.Missing, "x")
		}
	}, at: "/coverage/missing"},
	{rule: "a code is well formed", base: failed, broken: func(r *toolresult.Result) { r.Error.Code = "not found" }, at: "/error/code"},
	{rule: "a code is not forgotten", base: failed, broken: func(r *toolresult.Result) { r.Error.Code = "" }, at: "/error/code"},

	{rule: "data is JSON", base: page, broken: func(r *toolresult.Result) { r.Data = json.RawMessage(`{"a"}`) }, at: "/data", cannot: "is not JSON at all"},
	{rule: "data is not an empty text", base: page, broken: func(r *toolresult.Result) { r.Data = json.RawMessage{} }, at: "/data", cannot: "is not JSON at all"},
	{rule: "data is UTF-8", base: page, broken: func(r *toolresult.Result) { r.Data = json.RawMessage("[\"\xff\"]") }, at: "/data", cannot: "is not JSON at all"},
	{rule: "data has no repeated names", base: page, broken: func(r *toolresult.Result) { r.Data = json.RawMessage(`[{"a":{"b":1,"\u0062":2}}]`) }, at: "/data", cannot: "a validator sees one of the two"},
	{rule: "data is nested at most 128 deep", base: page, broken: func(r *toolresult.Result) {
		r.Data = json.RawMessage(strings.Repeat("[", 129) + strings.Repeat("]", 129))
	}, at: "/data", cannot: "no keyword counts depth in a value of any shape"},

	{rule: "success: no error", base: complete, broken: func(r *toolresult.Result) { r.Error = toolresult.NewError(toolresult.Internal, "") }, at: "/error"},
	{rule: "success: complete coverage", base: complete, broken: func(r *toolresult.Result) { r.Coverage.Complete = false }, at: "/coverage/complete"},
	{rule: "partial: no error", base: page, broken: func(r *toolresult.Result) { r.Error = toolresult.NewError(toolresult.Internal, "") }, at: "/error"},
	{rule: "partial: something is named", base: page, broken: func(r *toolresult.Result) { r.NextCursor, r.Coverage.Missing = "", nil }, at: "/coverage/missing"},
	{rule: "partial: coverage is not complete", base: page, broken: func(r *toolresult.Result) { r.Coverage.Complete = true }, at: "/coverage/missing"},
	{rule: "error: an error", base: failed, broken: func(r *toolresult.Result) { r.Error = nil }, at: "/error"},
	{rule: "error: no data", base: failed, broken: func(r *toolresult.Result) { r.Data = json.RawMessage(`[]`) }, at: "/data"},
	{rule: "error: no data_ref", base: failed, broken: func(r *toolresult.Result) { r.DataRef = "artifact://run/name/1" }, at: "/data_ref"},
	{rule: "error: coverage is not complete", base: failed, broken: func(r *toolresult.Result) { r.Coverage.Complete = true }, at: "/coverage/complete"},
	{rule: "applied never goes with error", base: failed, broken: func(r *toolresult.Result) {
		r.Effect = toolresult.Effect{Disposition: toolresult.EffectApplied, OperationID: "op"}
	}, at: "/effect/disposition"},
	{rule: "pending never goes with error", base: failed, broken: func(r *toolresult.Result) {
		r.Effect = toolresult.Effect{Disposition: toolresult.EffectPending, OperationID: "op"}
	}, at: "/effect/disposition"},
	{rule: "not_applied is a failure, never an answer", base: applied, broken: func(r *toolresult.Result) { r.Effect.Disposition = toolresult.EffectNotApplied }, at: "/effect/disposition"},
	{rule: "an answer has data, unless something was changed", base: complete, broken: func(r *toolresult.Result) { r.Data = nil }, at: "/data"},

	{rule: "complete coverage: nothing in missing", base: complete, broken: func(r *toolresult.Result) { r.Coverage.Missing = []toolresult.Gap{"x"} }, at: "/coverage/complete"},
	{rule: "truncated: coverage is not complete", base: complete, broken: func(r *toolresult.Result) { r.Truncated = true }, at: "/coverage/complete"},
	{rule: "next_cursor: remaining_pages is missing", base: page, broken: func(r *toolresult.Result) { r.Coverage.Missing[0] = toolresult.GapRemainingRows }, at: "/next_cursor"},

	{rule: "unknown has OUTCOME_UNKNOWN", base: unknown, broken: func(r *toolresult.Result) { r.Error.Code = toolresult.Timeout }, at: "/effect/disposition"},
	{rule: "unknown is no answer", base: applied, broken: func(r *toolresult.Result) { r.Effect.Disposition = toolresult.EffectUnknown }, at: "/effect/disposition"},
	{rule: "OUTCOME_UNKNOWN has unknown: a lost receipt is never not_applied", base: unknown, broken: func(r *toolresult.Result) { r.Effect.Disposition = toolresult.EffectNotApplied }, at: "/effect/disposition"},
	{rule: "OUTCOME_UNKNOWN has unknown: a lost receipt is never a plain error", base: unknown, broken: func(r *toolresult.Result) { r.Effect = toolresult.Effect{Disposition: toolresult.EffectNone} }, at: "/effect/disposition"},
	{rule: "applied has an operation_id", base: applied, broken: func(r *toolresult.Result) { r.Effect.OperationID = "" }, at: "/effect/operation_id"},
	{rule: "unknown has an operation_id", base: unknown, broken: func(r *toolresult.Result) { r.Effect.OperationID = "" }, at: "/effect/operation_id"},
	{rule: "what may have happened is not retryable", base: unknown, broken: func(r *toolresult.Result) { r.Error.Retryable = true }, at: "/error/retryable"},

	{rule: "a message is one line", base: failed, broken: func(r *toolresult.Result) { r.Error.Message = "a\nb" }, at: "/error/message"},
	{rule: "provider text is at most 512 bytes", base: failed, broken: func(r *toolresult.Result) { r.Error.Diagnostics.ProviderText = strings.Repeat("a", 513) }, at: "/error/diagnostics",
		edit: func(m map[string]any) { diagnostics(m, "untrusted_text", strings.Repeat("a", 513)) }},
	{rule: "provider text is one line", base: failed, broken: func(r *toolresult.Result) { r.Error.Diagnostics.ProviderText = "a\r\nb" }, at: "/error/diagnostics",
		edit: func(m map[string]any) { diagnostics(m, "untrusted_text", "a\r\nb") }},
	{rule: "a provider's code is at most 256 bytes", base: failed, broken: func(r *toolresult.Result) { r.Error.Diagnostics.ProviderCode = strings.Repeat("a", 257) }, at: "/error/diagnostics",
		edit: func(m map[string]any) { diagnostics(m, "provider_code", strings.Repeat("a", 257)) }},
	{rule: "a request id is one line", base: failed, broken: func(r *toolresult.Result) { r.Error.Diagnostics.RequestID = "a\tb" }, at: "/error/diagnostics",
		edit: func(m map[string]any) { diagnostics(m, "provider_request_id", "a\tb") }},
	{rule: "an HTTP status is at most 999", base: failed, broken: func(r *toolresult.Result) { r.Error.Diagnostics.HTTPStatus = 1000 }, at: "/error/diagnostics",
		edit: func(m map[string]any) { diagnostics(m, "http_status", 1000) }},

	{rule: "a window ends at or after its start", base: page, broken: func(r *toolresult.Result) {
		r.Provenance.Window = toolresult.Interval{Start: time.Unix(2, 0), End: time.Unix(1, 0)}
	}, at: "/provenance/window", cannot: "compares no times"},
	{rule: "a window has both ends", base: page, broken: func(r *toolresult.Result) { r.Provenance.Window.End = time.Unix(1, 0) }, at: "/provenance/window", cannot: "compares no times"},
	{rule: "years have four digits", base: page, broken: func(r *toolresult.Result) { r.Provenance.FetchedAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, at: "/provenance/fetched_at",
		edit: func(m map[string]any) { m["provenance"].(map[string]any)["fetched_at"] = "10000-01-01T00:00:00Z" }},
	{rule: "years have four digits in next steps", base: failed, broken: func(r *toolresult.Result) {
		r.Error.Approval = &toolresult.ApprovalStep{Expires: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	}, at: "/error", edit: func(m map[string]any) {
		m["error"].(map[string]any)["approval"] = map[string]any{"id": "a", "digest": "d", "expires_at": "10000-01-01T00:00:00Z"}
	}},
	{rule: "sources are nested at most four levels", base: page, broken: func(r *toolresult.Result) { r.Provenance = nested(5) }, at: "/provenance/sources",
		edit: func(m map[string]any) {
			p := m["provenance"].(map[string]any)
			for range 5 {
				p = map[string]any{"trust": "untrusted", "sources": []any{p}}
			}
			m["provenance"] = p
		}},
	{rule: "no source is trusted less than the whole", base: page, broken: func(r *toolresult.Result) {
		r.Provenance = nested(3)
		r.Provenance.Sources[0].Sources[0].Trust = toolresult.FirstParty
	}, at: "/provenance/trust"},
	{rule: "corroborated names a source", base: page, broken: func(r *toolresult.Result) { r.Verification = toolresult.Corroborated }, at: "/verification_state"},
	{rule: "contradicted names a source", base: page, broken: func(r *toolresult.Result) { r.Verification = toolresult.Contradicted }, at: "/verification_state"},
}

func complete() *toolresult.Result { return toolresult.Complete("call_1", json.RawMessage(`{"id":1}`)) }
func applied() *toolresult.Result {
	return toolresult.Applied("call_1", "op-1", json.RawMessage(`{"id":1}`))
}
func unknown() *toolresult.Result { return toolresult.UnknownEffect("call_1", "op-1") }

func diagnostics(m map[string]any, name string, value any) {
	m["error"].(map[string]any)["diagnostics"] = map[string]any{name: value}
}

// write returns what the schema gets to see of a row's broken result.
func (row *rule) write(t require.TestingT) []byte {
	r := row.base()
	var v any = r
	if row.edit == nil {
		row.broken(r)
	} else {
		text, err := json.Marshal(r)
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(text, &m))
		row.edit(m)
		v = m
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// R3, R4, R5, R7: Validate and the schema refuse each broken rule, and neither the unbroken result.
func TestRules_R3_R4_R5_R7_R11_E4(t *testing.T) {
	accepts := schemas(t)
	for _, row := range rules {
		t.Run(row.rule, func(t *testing.T) {
			r := row.base()
			require.NoError(t, r.Validate(nil))
			text, err := json.Marshal(r)
			require.NoError(t, err)
			for name, accept := range accepts {
				require.NoError(t, accept(text), name)
			}
			row.broken(r)
			err = r.Validate(nil)
			require.ErrorIs(t, err, toolresult.ContractViolation)
			require.Equal(t, toolresult.MeaningInvalid, r.Meaning())
			var at []string
			for _, p := range problems(err) {
				at = append(at, p.Pointer)
			}
			require.Contains(t, at, row.at)
			if row.cannot != "" {
				return
			}
			text = row.write(t)
			for name, accept := range accepts {
				if name == "google/jsonschema-go" && strings.Contains(row.rule, "years") {
					continue // asserts no formats
				}
				require.Error(t, accept(text), "%s accepts %s", name, text)
			}
		})
	}
}

// No condition of the schema is idle: without it, a broken result passes.
func TestSchemaConditionsBite_R11(t *testing.T) {
	parse := func() map[string]any {
		doc, err := oracle.UnmarshalJSON(bytes.NewReader(toolresult.Schema()))
		require.NoError(t, err)
		return doc.(map[string]any)
	}
	for i, condition := range parse()["allOf"].([]any) {
		doc := parse()
		all := doc["allOf"].([]any)
		doc["allOf"] = append(all[:i:i], all[i+1:]...)
		accept := compile(t, doc)
		idle := true
		for _, row := range rules {
			if row.cannot == "" && accept(row.write(t)) == nil {
				idle = false
			}
		}
		require.False(t, idle, "%v", condition.(map[string]any)["$comment"])
	}
}

// The rule that only Validate can hold: the schema does not know the capability.
func TestReadHasNoEffect_R5(t *testing.T) {
	read := &toolresult.ValidateOptions{ReadOnly: true}
	require.NoError(t, page().Validate(read))
	require.NoError(t, failed().Validate(read))
	for _, r := range []*toolresult.Result{applied(), unknown(), toolresult.Pending("c", "op"), toolresult.NotApplied("c", "op", nil)} {
		require.NoError(t, r.Validate(nil))
		require.ErrorIs(t, r.Validate(read), toolresult.ContractViolation, "%v", r)
	}
}
