package toolresult_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// The same bytes through every encoder, and again after decoding.
func TestBytesAreStable_R11(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, _ := valid(t)
		escaped, err := json.Marshal(r)
		require.NoError(t, err)
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		require.NoError(t, e.Encode(map[string]any{"r": r}))
		require.Equal(t, `{"r":`+string(escaped)+"}\n", b.String())
		appended, err := r.AppendJSON([]byte("before{"))
		require.NoError(t, err)
		require.Equal(t, "before{"+string(escaped), string(appended))

		// a document that carries the envelope in other spacing is the same envelope
		b.Reset()
		require.NoError(t, json.Indent(&b, escaped, " ", "\t"))
		var back toolresult.Result
		require.NoError(t, json.Unmarshal(b.Bytes(), &back))
		again, err := json.Marshal(back)
		require.NoError(t, err)
		require.Equal(t, string(escaped), string(again))
		require.NotContains(t, string(escaped), "CANARY")
	})
}

// The parts write and read themselves as they do inside of an envelope.
func TestParts_R11(t *testing.T) {
	for name, r := range golden() {
		parts := map[string]any{"coverage": r.Coverage, "effect": r.Effect, "error": r.Error, "provenance": r.Provenance}
		fresh := map[string]any{"coverage": &toolresult.Coverage{}, "effect": &toolresult.Effect{}, "error": &toolresult.Error{}, "provenance": &toolresult.Provenance{}}
		if e := r.Error; e != nil {
			for part, v := range map[string][2]any{"connect": {e.Connect, &toolresult.ConnectStep{}}, "approval": {e.Approval, &toolresult.ApprovalStep{}},
				"diagnostics": {e.Diagnostics, &toolresult.Diagnostics{}}} {
				parts[part], fresh[part] = v[0], v[1]
			}
			for _, p := range e.Problems {
				parts["problem"], fresh["problem"] = p, &toolresult.Problem{}
			}
		}
		whole, err := json.Marshal(r)
		require.NoError(t, err)
		for part, v := range parts {
			text, err := json.Marshal(v)
			require.NoError(t, err)
			if string(text) == "null" || part == "diagnostics" && string(text) == "{}" {
				continue
			}
			require.Contains(t, string(whole), string(text), "%s of %s", part, name)
			require.NoError(t, json.Unmarshal(text, fresh[part]))
			again, err := json.Marshal(fresh[part])
			require.NoError(t, err)
			require.Equal(t, string(text), string(again))
		}
	}
}

// Absent operation_id, next_cursor and error are null; every member of R1 is
// there, and data and data_ref when there are any.
func TestMembers_R1(t *testing.T) {
	for name, r := range golden() {
		text, err := json.Marshal(r)
		require.NoError(t, err)
		var m map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(text, &m))
		for _, member := range []string{"call_id", "status", "summary", "coverage", "effect", "truncated", "next_cursor", "error", "provenance", "verification_state"} {
			require.Contains(t, m, member, name)
		}
		require.Equal(t, r.Data != nil, m["data"] != nil)
		require.Equal(t, r.DataRef != "", m["data_ref"] != nil)
		require.Equal(t, r.NextCursor == "", string(m["next_cursor"]) == "null")
		require.Equal(t, r.Error == nil, string(m["error"]) == "null")
		require.Equal(t, r.Effect.OperationID == "", strings.Contains(string(m["effect"]), `"operation_id":null`))
		require.NotContains(t, string(m["coverage"]), "null")
	}
}

// The envelope of the source document, which has a window of times without a
// date, and no verification_state.
func TestForeignEnvelope_R1(t *testing.T) {
	var r toolresult.Result
	require.NoError(t, json.Unmarshal([]byte(`{
		"call_id": "call_logs_01", "status": "partial", "summary": "one page",
		"data_ref": "artifact://run_0429_017/logs/1",
		"coverage": {"complete": false, "missing": ["remaining_pages"]},
		"effect": {"disposition": "none", "operation_id": null},
		"truncated": false, "next_cursor": "opaque-scoped-cursor", "error": null,
		"provenance": {"service": "order-service", "window": "02:35Z/02:50Z", "source_version": "logs-snapshot-1"}
	}`), &r))
	require.Equal(t, toolresult.MeaningGaps, r.Meaning())
	require.Equal(t, "02:35Z/02:50Z", r.Provenance.Window.String())
	require.True(t, r.Provenance.Window.Start.IsZero())
	require.False(t, r.Provenance.Window.IsZero())
}

// What a decoder refuses, where it points, and that nothing of it is kept.
func TestDecoderRefuses_R11(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	for _, row := range []struct{ says, text, at, problem string }{
		{"a name twice", `{"call_id":"a","call_id":"b"}`, "", "a name twice"},
		{"a name twice in data", `{"data":{"a":[{"b":1,"b":2}]}}`, "", "a name twice"},
		{"a name twice, once escaped", `{"data":{"a":1,"\u0061":2}}`, "", "a name twice"},
		{"names that are the same when read", `{"data":{"\ud800":1,"\udc00":2}}`, "", "a name twice"},
		{"a name twice in a member of a newer peer", `{"later":{"a":1,"a":2}}`, "", "a name twice"},
		{"a case twin after", `{"status":"error","Status":"success"}`, "/status", "another case"},
		{"a case twin alone", `{"ERROR":null}`, "/error", "another case"},
		{"a case twin that folds", `{"\u017ftatus":"success"}`, "/status", "another case"},
		{"a case twin below", `{"effect":{"Disposition":"none"}}`, "/effect/disposition", "another case"},
		{"a case twin in a step", `{"error":{"connect":{"URL":"x"}}}`, "/error/connect/url", "another case"},
		{"bytes that are not UTF-8", "{\"summary\":\"\xff\"}", "", "UTF-8"},
		{"bytes that are not UTF-8 in data", "{\"data\":[\"\xc3\"]}", "", "UTF-8"},
		{"an array", `[]`, "", "object"},
		{"a string", `"x"`, "", "object"},
		{"a number for a string", `{"call_id":1}`, "/call_id", "string"},
		{"a string for a truth value", `{"truncated":"true"}`, "/truncated", "true or false"},
		{"an object for a list", `{"coverage":{"missing":{}}}`, "/coverage/missing", "array"},
		{"a number for a gap", `{"coverage":{"missing":["a",1]}}`, "/coverage/missing/1", "string"},
		{"a number for a word", `{"effect":{"disposition":1}}`, "/effect/disposition", "string"},
		{"a word for an object", `{"error":"NOT_FOUND"}`, "/error", "object"},
		{"a string for a number", `{"error":{"retry_after_seconds":"soon"}}`, "/error/retry_after_seconds", "number"},
		{"a null for an object in a list", `{"error":{"problems":[null]}}`, "/error/problems/0", "object"},
		{"a time without a date", `{"provenance":{"fetched_at":"02:35Z"}}`, "/provenance/fetched_at", "RFC 3339"},
		{"a time that has no year in UTC", `{"provenance":{"fetched_at":"0000-01-01T00:00:00+23:00"}}`, "/provenance/fetched_at", "RFC 3339"},
		{"a time in a step", `{"error":{"approval":{"expires_at":"9999-12-31T23:59:59-01:00"}}}`, "/error/approval/expires_at", "RFC 3339"},
		{"data nested too deeply", `{"data":` + deep(128) + `}`, "", "too deeply"},
		{"a member of a newer peer nested too deeply", `{"later":` + deep(5000) + `}`, "", "too deeply"},
		{"sources nested too deeply", `{"provenance":` + strings.Repeat(`{"sources":[`, 5) + `{}` + strings.Repeat(`]}`, 5) + `}`, "/provenance/sources/0/sources/0/sources/0/sources/0/sources/0", "too deeply"},
		{"sources nested very deeply", `{"provenance":` + strings.Repeat(`{"sources":[`, 4000) + `{}` + strings.Repeat(`]}`, 4000) + `}`, "", "too deeply"},
	} {
		r := page()
		err := json.Unmarshal([]byte(row.text), r)
		require.ErrorIs(t, err, toolresult.ContractViolation, row.says)
		require.Len(t, problems(err), 1, row.says)
		require.Equal(t, row.at, problems(err)[0].Pointer, row.says)
		require.Contains(t, problems(err)[0].Text, row.problem, row.says)
		require.Equal(t, toolresult.Result{}, *r, "%s: something is kept", row.says)
	}
	var r toolresult.Result
	require.NoError(t, json.Unmarshal([]byte(`{"data":`+deep(127)+`}`), &r))
	require.NoError(t, json.Unmarshal([]byte(`{"provenance":`+strings.Repeat(`{"sources":[`, 4)+`{}`+strings.Repeat(`]}`, 4)+`}`), &r))
	for _, text := range []string{``, ` `, `{`, `{"a"`, `{"a":1}}`, `nul`} {
		require.ErrorIs(t, r.UnmarshalJSON([]byte(text)), toolresult.ContractViolation, "called by hand: %q", text)
	}
	for _, part := range []json.Unmarshaler{&toolresult.Coverage{}, &toolresult.Effect{}, &toolresult.Error{}, &toolresult.Problem{}, &toolresult.ConnectStep{}, &toolresult.ApprovalStep{}, &toolresult.Diagnostics{}, &toolresult.Provenance{}} {
		require.ErrorIs(t, part.UnmarshalJSON([]byte(`{"a":1,"a":2}`)), toolresult.ContractViolation, "%T", part)
		require.ErrorIs(t, part.UnmarshalJSON([]byte(`[]`)), toolresult.ContractViolation, "%T", part)
		require.NoError(t, part.UnmarshalJSON([]byte(` {"later" : {} } `)), "%T", part)
	}
}

// What JSON cannot say is an error and not a lie.
func TestEncoderRefuses_R11(t *testing.T) {
	loop := toolresult.Provenance{Sources: make([]toolresult.Provenance, 1)}
	loop.Sources[0] = loop
	far := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for says, r := range map[string]*toolresult.Result{
		"data that is not JSON":      {Data: json.RawMessage(`{"a"`)},
		"data that is two values":    {Data: json.RawMessage(`1 2`)},
		"data that is not UTF-8":     {Data: json.RawMessage("\"\xff\"")},
		"a source in itself":         {Provenance: loop},
		"a year of five digits":      {Provenance: toolresult.Provenance{FetchedAt: far}},
		"the same in a step":         {Error: &toolresult.Error{Connect: &toolresult.ConnectStep{Expires: far}}},
		"the same in a source of it": {Provenance: toolresult.Provenance{Sources: []toolresult.Provenance{{FetchedAt: far}}}},
	} {
		_, err := json.Marshal(r)
		require.Error(t, err, says)
		kept, err := r.AppendJSON([]byte("kept"))
		require.Error(t, err, says)
		require.Equal(t, "kept", string(kept))
		require.Equal(t, toolresult.MeaningInvalid, r.Meaning(), says)
	}
}

// Words of a newer peer become the careful ones.
func TestUnfamiliarWords_R4(t *testing.T) {
	for _, word := range []string{"unknown", "", "UNKNOWN", "maybe"} {
		d, v, tr := toolresult.EffectApplied, toolresult.Corroborated, toolresult.FirstParty
		require.NoError(t, d.UnmarshalText([]byte(word)))
		require.NoError(t, v.UnmarshalText([]byte(word)))
		require.NoError(t, tr.UnmarshalText([]byte(word)))
		require.Equal(t, toolresult.EffectUnknown, d, word)
		require.Equal(t, toolresult.Unverified, v, word)
		require.Equal(t, toolresult.Untrusted, tr, word)
	}
	for d := toolresult.EffectUnknown; d <= toolresult.EffectPending; d++ {
		text, err := d.MarshalText()
		require.NoError(t, err)
		var back toolresult.Disposition
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, d, back)
	}
	require.Equal(t, "unknown unverified untrusted Meaning(99)", strings.Join([]string{toolresult.Disposition(99).String(), toolresult.Verification(99).String(), toolresult.Trust(99).String(), toolresult.Meaning(99).String()}, " "))
}

// R2, R3: the five meanings (and the two of a change that is not finished) from the
// envelope alone.
func TestMeaning_R2_R3(t *testing.T) {
	gapsInAnAppliedChange := applied()
	gapsInAnAppliedChange.Status, gapsInAnAppliedChange.Coverage = toolresult.StatusPartial, toolresult.Coverage{Missing: []toolresult.Gap{"labels"}}
	emptyButApplied := toolresult.Applied("c", "op", json.RawMessage(`[]`))
	elsewhere := toolresult.Complete("c", nil)
	elsewhere.DataRef = "artifact://run/name/1"
	both := toolresult.Complete("c", json.RawMessage(`[]`))
	both.DataRef = elsewhere.DataRef
	pendingWithGaps := toolresult.Pending("c", "op")
	pendingWithGaps.Status, pendingWithGaps.Coverage = toolresult.StatusPartial, toolresult.Coverage{Missing: []toolresult.Gap{"labels"}}
	for _, row := range []struct {
		says string
		r    *toolresult.Result
		want toolresult.Meaning
	}{
		{"data is an answer", complete(), toolresult.MeaningComplete},
		{"an empty object is an answer", toolresult.Complete("c", json.RawMessage(`{}`)), toolresult.MeaningComplete},
		{"a change is complete with or without output", toolresult.Applied("c", "op", nil), toolresult.MeaningComplete},
		{"an empty output of a change is not no match", emptyButApplied, toolresult.MeaningComplete},
		{"an answer behind a reference is not empty", elsewhere, toolresult.MeaningComplete},
		{"nor when there is an empty preview", both, toolresult.MeaningComplete},
		{"null is no match", toolresult.NoMatch("c"), toolresult.MeaningNoMatch},
		{"an empty list is no match", toolresult.Complete("c", json.RawMessage(" [\n] ")), toolresult.MeaningNoMatch},
		{"a named gap", page(), toolresult.MeaningGaps},
		{"a change that happened can have gaps", gapsInAnAppliedChange, toolresult.MeaningGaps},
		{"its output can be withheld", toolresult.AppliedWithheld("c", "op", "labels"), toolresult.MeaningGaps},
		{"no answer", failed(), toolresult.MeaningFailed},
		{"a change that certainly did not happen", toolresult.NotApplied("c", "op", toolresult.NewError(toolresult.Conflict, "")), toolresult.MeaningFailed},
		{"a change that is not finished", toolresult.Pending("c", "op"), toolresult.MeaningPending},
		{"pending is said before gaps", pendingWithGaps, toolresult.MeaningPending},
		{"a change that may have happened", unknown(), toolresult.MeaningUnknownEffect},
		{"an unknown effect of no operation", toolresult.UnknownEffect("c", ""), toolresult.MeaningInvalid},
		{"an unknown effect of a read", toolresult.Failure("c", toolresult.OutcomeUnknown), toolresult.MeaningInvalid},
		{"no call", toolresult.NoMatch(""), toolresult.MeaningInvalid},
		{"nothing", &toolresult.Result{}, toolresult.MeaningInvalid},
		{"no result", nil, toolresult.MeaningInvalid},
	} {
		require.Equal(t, row.want, row.r.Meaning(), "%s: %v", row.says, problems(row.r.Validate(nil)))
	}
}

// A call over a hard limit has no answer and names a narrower request; an
// answer that was cut to a soft one says so and names what is missing.
func TestLimits_R7(t *testing.T) {
	refused := toolresult.Failure("c", toolresult.NewError(toolresult.ResultTooLarge, "the answer is over 1 MiB").With("/limit", "ask for at most 100"))
	require.Equal(t, toolresult.MeaningFailed, refused.Meaning())
	for _, want := range []string{"next step: narrow_scope", "who acts next: model", `problem: at "/limit": "ask for at most 100"`} {
		require.Contains(t, refused.Text(nil), want)
	}
	cut := toolresult.Partial("c", json.RawMessage(`[1]`), toolresult.GapTruncated)
	cut.Truncated = true
	require.Equal(t, toolresult.MeaningGaps, cut.Meaning())
	require.Contains(t, cut.Text(nil), "truncated: ")
	require.True(t, cut.Record().Truncated)
	cut.Status, cut.Coverage = toolresult.StatusSuccess, toolresult.Coverage{Complete: true}
	require.ErrorIs(t, cut.Validate(nil), toolresult.ContractViolation)
}

func TestInterval_R11(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "2026-04-29T10:35:00+08:00/2026-04-29T02:50:00Z": "2026-04-29T02:35:00Z/2026-04-29T02:50:00Z",
		"2026-04-29T02:50:00Z/2026-04-29T02:35:00Z": "2026-04-29T02:50:00Z/2026-04-29T02:35:00Z", "last\nweek": "last week",
		strings.Repeat("é", 200): strings.Repeat("é", 128), "2026-04-29T02:50:00Z": "2026-04-29T02:50:00Z",
	} {
		var i toolresult.Interval
		require.NoError(t, i.UnmarshalText([]byte(in)))
		require.Equal(t, want, i.String())
		require.Equal(t, want == "", i.IsZero())
		text, err := i.MarshalText()
		require.NoError(t, err)
		var back toolresult.Interval
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, i, back)
	}
}

// likeStd is unfit by encoding/json: slow and simple.
func likeStd(text []byte) bool {
	if !utf8.Valid(text) || !json.Valid(text) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a number that no double holds is JSON all the same
	var value func(depth int) bool
	value = func(depth int) bool {
		t, err := d.Token()
		if err != nil || depth > 128 {
			return false
		}
		delim, ok := t.(json.Delim)
		if !ok {
			return true
		}
		if depth == 128 {
			return false
		}
		seen := map[string]bool{}
		for d.More() {
			if delim == '{' {
				t, err := d.Token()
				if err != nil || seen[t.(string)] {
					return false
				}
				seen[t.(string)] = true
			}
			if !value(depth + 1) {
				return false
			}
		}
		_, err = d.Token()
		return err == nil
	}
	return value(0)
}

// The scanner takes exactly what encoding/json takes, less what it should not.
func TestScanner_R5(t *testing.T) {
	for _, text := range []string{`{"a":1,"a":2}`, `{"a":{"a":1},"b":[{"a":1},{"a":1}]}`, `["a","a",":"]`, `{"a":"b","b":"a"}`, `{"\\":1,"\\\\":2}`, `{"\"":1,"\u0022":2}`,
		` { "a" : [ ] , "b" : { } } `, `"a"`, `1`, `[1 2]`, `{"a":1,}`, ``, `{"":1,"":2}`, `1e999999`, `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"k":11,"l":12,"m":13,"n":14,"a":15}`,
		strings.Repeat("[", 128) + strings.Repeat("]", 128), strings.Repeat("[", 129) + strings.Repeat("]", 129)} {
		require.Equal(t, likeStd([]byte(text)), toolresult.Applied("c", "op", json.RawMessage(text)).Validate(nil) == nil, text)
	}
}
