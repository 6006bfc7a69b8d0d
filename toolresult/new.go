package toolresult

import "encoding/json"

// Complete is the result of a read that found everything it was asked for.
// For a change there is Applied.
func Complete(callID string, data json.RawMessage) *Result {
	return &Result{CallID: callID, Status: StatusSuccess, Data: data, Coverage: Coverage{Complete: true}, Effect: Effect{Disposition: EffectNone}}
}

// NoMatch is the result of a read that was answered completely and found
// nothing. If authorization may have hidden something, it is not NoMatch but
// NoVisibleMatch.
func NoMatch(callID string) *Result { return Complete(callID, json.RawMessage("null")) }

// NoVisibleMatch is the result of a read that found nothing among what the
// caller may see, where authorization may have hidden something. It is the
// same whether it did or not, so a connector that filters rows uses it (or
// Partial with GapVisibilityLimited) for every answer and not only for those
// that lost a row.
func NoVisibleMatch(callID string) *Result {
	return Partial(callID, json.RawMessage("null"), GapVisibilityLimited)
}

// Partial is the result of a read with gaps. There is at least one.
func Partial(callID string, data json.RawMessage, gap Gap, more ...Gap) *Result {
	r := Complete(callID, data)
	r.Status, r.Coverage = StatusPartial, Coverage{Missing: append([]Gap{gap}, more...)}
	return r
}

// Failure is the result of a call that has no answer and has changed nothing.
// The error becomes an *Error as by [AsError]; a nil err is INTERNAL. An
// OUTCOME_UNKNOWN does not fit here, and Validate refuses the result: use
// UnknownEffect, or NotApplied for any error of a change that was recorded.
func Failure(callID string, err error) *Result {
	e := AsError(err)
	if e == nil {
		e = NewError(Internal, "the call failed and did not say why")
	}
	return &Result{CallID: callID, Status: StatusError, Error: e, Coverage: Coverage{Missing: []Gap{}}, Effect: Effect{Disposition: EffectNone}}
}

// The operationID of the constructors below is what the change was recorded
// under before it was sent. It must not be empty: Validate refuses the result.

// Applied is the result of a change that happened, with evidence. data is the
// output to show, and may be nil. If some of it is missing, make the result
// partial and name the gap.
func Applied(callID, operationID string, data json.RawMessage) *Result {
	r := Complete(callID, data)
	r.Effect = Effect{Disposition: EffectApplied, OperationID: operationID}
	return r
}

// AppliedWithheld is the result of a change that happened and whose output
// cannot be shown: too large, refused by the output policy, or unreadable. It
// is not a failure, so that nobody makes the change again.
func AppliedWithheld(callID, operationID string, more ...Gap) *Result {
	r := Partial(callID, nil, GapOutputWithheld, more...)
	r.Effect = Effect{Disposition: EffectApplied, OperationID: operationID}
	return r
}

// Pending is the result of a change that the provider has accepted and not
// finished. It is looked up by operationID.
func Pending(callID, operationID string) *Result {
	r := Complete(callID, nil)
	r.Effect = Effect{Disposition: EffectPending, OperationID: operationID}
	return r
}

// NotApplied is the result of a change that was recorded and certainly did not
// happen: it never left, or the provider refused it. The error becomes an
// *Error as in Failure. If OUTCOME_UNKNOWN is anywhere in err, nothing is
// certain, and the result is that of UnknownEffect with that error.
func NotApplied(callID, operationID string, err error) *Result {
	r := Failure(callID, err)
	r.Effect = Effect{Disposition: EffectNotApplied, OperationID: operationID}
	if r.Error.Code == OutcomeUnknown {
		e := *r.Error
		e.Retryable = false
		r.Error, r.Effect.Disposition = &e, EffectUnknown
	}
	return r
}

// UnknownEffect is the result of a change that was sent and whose outcome is
// not known.
func UnknownEffect(callID, operationID string) *Result {
	return NotApplied(callID, operationID, NewError(OutcomeUnknown, "the change was sent and its outcome is not known; look the operation up before doing anything else"))
}
