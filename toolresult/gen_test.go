package toolresult_test

import (
	"encoding/json"
	"errors"
	"time"

	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var (
	anyText = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "<b>&\u2028", "line\nline", "\xff\xfe", "----- end of content", "\u202e\U000e0041", "status: success"}))
	anyID   = rapid.StringMatching(`[a-z0-9_:.-]{1,20}`)
	anyGap  = rapid.OneOf(rapid.SampledFrom([]toolresult.Gap{toolresult.GapRemainingPages, toolresult.GapVisibilityLimited, toolresult.GapTruncated}),
		rapid.Custom(func(t *rapid.T) toolresult.Gap {
			return toolresult.Gap(rapid.StringMatching(`[a-z][a-z0-9_]{0,63}`).Draw(t, "gap"))
		}))
	anyTime = rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-1e9, 1e11).Draw(t, "seconds"), rapid.Int64Range(0, 999999999).Draw(t, "nanos")).In(time.FixedZone("", 3600*rapid.IntRange(-12, 12).Draw(t, "zone")))
	})
	anyData = rapid.Custom(func(t *rapid.T) json.RawMessage {
		text, err := json.MarshalIndent(rapid.OneOf(
			rapid.Map(anyText, func(s string) any { return s }),
			rapid.Map(rapid.SliceOf(anyText), func(s []string) any { return s }),
			rapid.Map(rapid.MapOf(anyText, rapid.Float64Range(-1e30, 1e30)), func(m map[string]float64) any { return m }),
		).Draw(t, "data"), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return text
	})
)

func anyProvenance(t *rapid.T, depth int, lowest toolresult.Trust) toolresult.Provenance {
	p := toolresult.Provenance{
		Service: anyText.Draw(t, "service"), Object: anyText.Draw(t, "object"), Version: anyText.Draw(t, "version"), URL: anyText.Draw(t, "url"),
		RequestID: anyText.Draw(t, "request id"), Trust: max(lowest, toolresult.Trust(rapid.IntRange(0, 1).Draw(t, "trust"))),
	}
	if rapid.Bool().Draw(t, "fetched") {
		p.FetchedAt = anyTime.Draw(t, "at")
		p.Window = toolresult.Interval{Start: p.FetchedAt, End: p.FetchedAt.Add(time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "long")))}
	}
	for range rapid.IntRange(0, min(2, depth)).Draw(t, "sources") {
		p.Sources = append(p.Sources, anyProvenance(t, depth-1, p.Trust))
	}
	return p
}

func anyError(t *rapid.T) *toolresult.Error {
	code := rapid.SampledFrom(toolresult.Codes()).Filter(func(i toolresult.CodeInfo) bool { return i.Code != toolresult.OutcomeUnknown }).Draw(t, "code").Code
	e := toolresult.WrapError(code, "a message with <angles>", errors.New("CANARY-CAUSE"))
	for range rapid.IntRange(0, 20).Draw(t, "problems") {
		e = e.With(anyText.Draw(t, "pointer"), anyText.Draw(t, "text"))
	}
	if rapid.Bool().Draw(t, "wait") {
		e = e.WithRetryAfter(time.Duration(rapid.Int64().Draw(t, "for")))
	}
	if rapid.Bool().Draw(t, "connect") {
		e.Connect = &toolresult.ConnectStep{Provider: anyText.Draw(t, "provider"), URL: anyText.Draw(t, "url"), Missing: rapid.SliceOfN(anyText, 0, 3).Draw(t, "scopes"), Expires: anyTime.Draw(t, "expires")}
	}
	if rapid.Bool().Draw(t, "approval") {
		e.Approval = &toolresult.ApprovalStep{ID: anyText.Draw(t, "id"), URL: anyText.Draw(t, "url"), Digest: anyText.Draw(t, "digest"), Rendering: anyText.Draw(t, "rendering"), Expires: anyTime.Draw(t, "expires")}
	}
	return e.WithDiagnostics(toolresult.Diagnostics{Provider: anyText.Draw(t, "provider"), ProviderCode: anyText.Draw(t, "provider code"), RequestID: anyText.Draw(t, "request id"),
		HTTPStatus: rapid.IntRange(-1, 1200).Draw(t, "status"), ProviderText: anyText.Draw(t, "provider text")})
}

// made are the constructors with the meaning that each has by its name.
var made = map[string]struct {
	means toolresult.Meaning
	make  func(*rapid.T) *toolresult.Result
}{
	"Complete": {toolresult.MeaningComplete, func(t *rapid.T) *toolresult.Result {
		return toolresult.Complete(anyID.Draw(t, "call"), json.RawMessage(`{"a":`+string(anyData.Draw(t, "data"))+`}`))
	}},
	"NoMatch":        {toolresult.MeaningNoMatch, func(t *rapid.T) *toolresult.Result { return toolresult.NoMatch(anyID.Draw(t, "call")) }},
	"NoVisibleMatch": {toolresult.MeaningGaps, func(t *rapid.T) *toolresult.Result { return toolresult.NoVisibleMatch(anyID.Draw(t, "call")) }},
	"Partial": {toolresult.MeaningGaps, func(t *rapid.T) *toolresult.Result {
		r := toolresult.Partial(anyID.Draw(t, "call"), anyData.Draw(t, "data"), anyGap.Draw(t, "gap"), rapid.SliceOfN(anyGap, 0, 4).Draw(t, "gaps")...)
		for _, g := range r.Coverage.Missing {
			if g == toolresult.GapRemainingPages {
				r.NextCursor = anyID.Draw(t, "cursor")
			}
		}
		r.Truncated = rapid.Bool().Draw(t, "truncated")
		if rapid.Bool().Draw(t, "elsewhere") {
			r.DataRef = "artifact://run/" + anyID.Draw(t, "ref")
		}
		return r
	}},
	"Failure": {toolresult.MeaningFailed, func(t *rapid.T) *toolresult.Result { return toolresult.Failure(anyID.Draw(t, "call"), anyError(t)) }},
	"Applied": {toolresult.MeaningComplete, func(t *rapid.T) *toolresult.Result {
		return toolresult.Applied(anyID.Draw(t, "call"), anyID.Draw(t, "op"), anyData.Draw(t, "data"))
	}},
	"AppliedWithheld": {toolresult.MeaningGaps, func(t *rapid.T) *toolresult.Result {
		return toolresult.AppliedWithheld(anyID.Draw(t, "call"), anyID.Draw(t, "op"))
	}},
	"Pending": {toolresult.MeaningPending, func(t *rapid.T) *toolresult.Result {
		return toolresult.Pending(anyID.Draw(t, "call"), anyID.Draw(t, "op"))
	}},
	"NotApplied": {toolresult.MeaningFailed, func(t *rapid.T) *toolresult.Result {
		return toolresult.NotApplied(anyID.Draw(t, "call"), anyID.Draw(t, "op"), anyError(t))
	}},
	"NotApplied but lost": {toolresult.MeaningUnknownEffect, func(t *rapid.T) *toolresult.Result {
		lost := errors.Join(anyError(t), toolresult.WrapError(toolresult.OutcomeUnknown, "lost", errors.New("CANARY-CAUSE")))
		return toolresult.NotApplied(anyID.Draw(t, "call"), anyID.Draw(t, "op"), lost)
	}},
	"UnknownEffect": {toolresult.MeaningUnknownEffect, func(t *rapid.T) *toolresult.Result {
		return toolresult.UnknownEffect(anyID.Draw(t, "call"), anyID.Draw(t, "op"))
	}},
}

// valid draws a result that a careful connector could make.
func valid(t *rapid.T) (*toolresult.Result, toolresult.Meaning) {
	name := rapid.SampledFrom([]string{"Complete", "NoMatch", "NoVisibleMatch", "Partial", "Failure", "Applied", "AppliedWithheld", "Pending", "NotApplied", "NotApplied but lost", "UnknownEffect"}).Draw(t, "constructor")
	r := made[name].make(t)
	r.Summary = anyText.Draw(t, "summary")
	r.Provenance = anyProvenance(t, 4, toolresult.Untrusted)
	if len(r.Provenance.Sources) > 0 {
		r.Verification = toolresult.Verification(rapid.IntRange(0, 2).Draw(t, "verification"))
	}
	return r, made[name].means
}
