package toolresult_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// E1: the table is a promise to peers and to dashboards: each row was read once
// by a person and is written down here a second time.
func TestTaxonomy_E1(t *testing.T) {
	want := strings.Fields(`
		INVALID_INPUT:false:model:fix_input AUTHENTICATION_REQUIRED:false:user:connect_account CONNECTION_REQUIRED:false:user:connect_account
		INSUFFICIENT_SCOPE:false:user:grant_scope PERMISSION_DENIED:false:admin:contact_admin APPROVAL_REQUIRED:false:user:request_approval
		APPROVAL_INVALID:false:user:request_approval NOT_FOUND:false:model:fix_input CONFLICT:false:model:fix_input RATE_LIMITED:true:runtime:wait
		QUOTA_EXCEEDED:false:admin:contact_admin TIMEOUT:true:runtime:narrow_scope CANCELLED:false:nobody:stop PROVIDER_UNAVAILABLE:true:runtime:wait
		PROVIDER_ERROR:false:nobody:stop RESULT_TOO_LARGE:false:model:narrow_scope CURSOR_INVALID:false:model:restart_listing
		OUTCOME_UNKNOWN:false:runtime:query_operation POLICY_UNAVAILABLE:true:runtime:wait EGRESS_DENIED:false:admin:contact_admin
		UNSUPPORTED:false:nobody:stop CAPABILITY_UNKNOWN:false:model:fix_input CONTRACT_VIOLATION:false:nobody:stop INTERNAL:false:nobody:stop`)
	var got []string
	for _, i := range toolresult.Codes() {
		got = append(got, fmt.Sprintf("%s:%v:%s:%s", i.Code, i.Retryable, i.Actor, i.Next))
		require.True(t, i.Code.Known())
		require.Equal(t, i, i.Code.Info())
		require.Equal(t, i.Retryable, toolresult.NewError(i.Code, "").Retryable)
	}
	require.Equal(t, want, got)

	for _, c := range []toolresult.ErrorCode{"", "FROM_THE_FUTURE", "not_found"} {
		require.False(t, c.Known())
		require.Equal(t, toolresult.CodeInfo{Code: c, Actor: toolresult.ActorNobody, Next: toolresult.StepStop}, c.Info())
	}
	toolresult.Codes()[0].Retryable = true
	require.False(t, toolresult.InvalidInput.Info().Retryable, "the caller owns the slice")
}

// Retrying fixes no number of attempts: the envelope has two facts about it
// and nothing else.
func TestRetryEvidence_E2(t *testing.T) {
	for _, row := range []struct {
		says string
		wait time.Duration
		want string
	}{
		{"seconds are rounded up", 1500 * time.Millisecond, `"retry_after_seconds":2,`},
		{"whole seconds stay", 2 * time.Second, `"retry_after_seconds":2,`},
		{"the shortest wait is a second", 1, `"retry_after_seconds":1,`},
		{"nothing said is null", 0, `"retry_after_seconds":null,`},
		{"nobody waits for the past", -time.Hour, `"retry_after_seconds":null,`},
		{"the longest wait is 2^31 seconds", math.MaxInt64, `"retry_after_seconds":2147483648,`},
	} {
		e := toolresult.NewError(toolresult.RateLimited, "slow down")
		e.RetryAfter = row.wait
		text, err := json.Marshal(e)
		require.NoError(t, err)
		require.Contains(t, string(text), row.want, row.says)
		require.Contains(t, string(text), `"retryable":true`)
		var back toolresult.Error
		require.NoError(t, json.Unmarshal(text, &back))
		again, err := json.Marshal(back)
		require.NoError(t, err)
		require.Equal(t, string(text), string(again), row.says)
	}
	for in, want := range map[string]time.Duration{"17": 17e9, "17.0": 17e9, "16.1": 17e9, "-3": 0, "1e99": 1 << 31 * time.Second, "null": 0} {
		var e toolresult.Error
		require.NoError(t, json.Unmarshal([]byte(`{"code":"RATE_LIMITED","retry_after_seconds":`+in+`}`), &e))
		require.Equal(t, want, e.RetryAfter, in)
	}
}

// One and the same timeout, by how far the request came.
func TestTimeoutByPhase_E3(t *testing.T) {
	lost := fmt.Errorf("read: %w", context.DeadlineExceeded)

	read := toolresult.Failure("c", lost)
	require.Equal(t, toolresult.Timeout, read.Error.Code, "a read: nothing was changed")
	require.True(t, read.Error.Retryable)
	require.ErrorIs(t, read.Err(), context.DeadlineExceeded)

	unsent := toolresult.NotApplied("c", "op", lost)
	require.Equal(t, toolresult.Timeout, unsent.Error.Code, "a write that did not leave: nothing was changed")
	require.Equal(t, toolresult.MeaningFailed, unsent.Meaning())
	require.True(t, unsent.Error.Retryable)

	sent := toolresult.NotApplied("c", "op", toolresult.WrapError(toolresult.OutcomeUnknown, "sent, no answer", lost))
	for _, sent := range []*toolresult.Result{sent, toolresult.UnknownEffect("c", "op")} {
		require.Equal(t, toolresult.MeaningUnknownEffect, sent.Meaning(), "a write that left")
		require.Equal(t, toolresult.Effect{Disposition: toolresult.EffectUnknown, OperationID: "op"}, sent.Effect)
		require.False(t, sent.Error.Retryable)
		require.NotErrorIs(t, sent.Err(), context.DeadlineExceeded)
		require.NotErrorIs(t, sent.Err(), toolresult.Timeout)
		sent.Error.Code = toolresult.Timeout
		require.Equal(t, toolresult.MeaningInvalid, sent.Meaning(), "TIMEOUT of a write that left is refused")
	}
	answered := toolresult.NotApplied("c", "op", toolresult.NewError(toolresult.Conflict, "changed meanwhile"))
	require.Equal(t, toolresult.MeaningFailed, answered.Meaning(), "a write that was refused")
}

// Diagnostics are bounded whoever fills them, and hold the provider's code and
// request id.
func TestDiagnosticsAreBounded_E4(t *testing.T) {
	long := "line one\nline two\r\x00" + strings.Repeat("é", 600)
	byHand := failed()
	byHand.Error.Diagnostics = toolresult.Diagnostics{Provider: long, ProviderCode: long, RequestID: long, HTTPStatus: 100000, ProviderText: long}
	require.ErrorIs(t, byHand.Validate(nil), toolresult.ContractViolation)
	text, err := json.Marshal(byHand)
	require.NoError(t, err)
	var peer toolresult.Result
	require.NoError(t, json.Unmarshal([]byte(`{"error":{"code":"PROVIDER_ERROR","diagnostics":{"untrusted_text":`+string(mustJSON(t, long))+`,"provider_code":`+string(mustJSON(t, long))+`,"http_status":-1}}}`), &peer))
	var back toolresult.Result
	require.NoError(t, json.Unmarshal(text, &back))
	for _, d := range []toolresult.Diagnostics{byHand.Error.WithDiagnostics(byHand.Error.Diagnostics).Diagnostics, byHand.Error.Diagnostics.Bounded(), back.Error.Diagnostics, peer.Error.Diagnostics, byHand.Record().Diagnostics} {
		require.LessOrEqual(t, len(d.ProviderText), 512)
		require.LessOrEqual(t, len(d.ProviderCode), 256)
		require.NotContains(t, d.ProviderText+d.ProviderCode+d.RequestID, "\n")
		require.Zero(t, d.HTTPStatus)
		require.Equal(t, d, d.Bounded())
	}
	require.Empty(t, byHand.Record().Diagnostics.ProviderText)

	kept := failed().Error.WithDiagnostics(toolresult.Diagnostics{Provider: "tickets", ProviderCode: "E42", RequestID: "req-1", HTTPStatus: 404})
	require.Contains(t, string(mustJSON(t, kept)), `"diagnostics":{"provider":"tickets","provider_code":"E42","provider_request_id":"req-1","http_status":404}`)

	// a peer's message and problems are cut as well
	require.NoError(t, json.Unmarshal([]byte(`{"error":{"code":"X","message":`+string(mustJSON(t, strings.Repeat(long, 9)))+`,"problems":[{"pointer":"/a","text":`+string(mustJSON(t, strings.Repeat(long, 9)))+`}]}}`), &peer))
	require.LessOrEqual(t, len(peer.Error.Message), 1024)
	require.LessOrEqual(t, len(peer.Error.Problems[0].Text), 1024)
	require.NotContains(t, string(peer.Error.Message)+peer.Error.Problems[0].Text, "\n")
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// No failure can become an answer, and no answer with a failure is accepted.
func TestFailureIsNeverEmptySuccess_E5(t *testing.T) {
	var typedNil *toolresult.Error
	for _, err := range []error{
		toolresult.NewError(toolresult.AuthenticationRequired, "sign in"), toolresult.ConnectionRequired, errors.New("anything"), nil, typedNil,
		fmt.Errorf("x: %w", typedNil), &toolresult.Error{}, toolresult.ErrorCode(""), context.Canceled, errors.Join(typedNil, toolresult.AuthenticationRequired),
	} {
		for _, r := range []*toolresult.Result{toolresult.Failure("c", err), toolresult.NotApplied("c", "op", err)} {
			require.Equal(t, toolresult.MeaningFailed, r.Meaning(), "%v: %v", err, problems(r.Validate(nil)))
			require.Error(t, r.Err())
			require.NotEmpty(t, r.Error.Code)
			require.NotContains(t, string(mustJSON(t, r)), `"data"`)
		}
	}
	require.Equal(t, toolresult.AuthenticationRequired, toolresult.Failure("c", errors.Join(typedNil, toolresult.AuthenticationRequired)).Error.Code)

	signIn := toolresult.NoMatch("c")
	signIn.Error = toolresult.NewError(toolresult.AuthenticationRequired, "sign in")
	require.Equal(t, toolresult.MeaningInvalid, signIn.Meaning(), "an authentication failure is never no results")
	require.Error(t, signIn.Err())
	for name, r := range map[string]*toolresult.Result{"zero": {}, "nil": nil, "only data": {Data: json.RawMessage(`[]`)}} {
		require.Equal(t, toolresult.MeaningInvalid, r.Meaning(), name)
	}
	for _, text := range []string{``, `null`, `[]`, `{}`, `{"error":{"code":"NOT_FOUND"}}`, `{"status":"success","Status":"error"}`} {
		r := toolresult.NoMatch("c")
		_ = json.Unmarshal([]byte(text), r)
		if text != "" && text != "null" { // encoding/json does not call the decoder for these
			require.Equal(t, toolresult.MeaningInvalid, r.Meaning(), text)
		}
	}
}

// E6: errors.Is and errors.As find codes through wrapping, and a context's end
// maps itself.
func TestErrorsIsAndAs_E6(t *testing.T) {
	limited := fmt.Errorf("search: %w", errors.Join(errors.New("x"), toolresult.NewError(toolresult.RateLimited, "slow down").WithRetryAfter(time.Second)))
	require.ErrorIs(t, limited, toolresult.RateLimited)
	require.NotErrorIs(t, limited, toolresult.Timeout)
	var e *toolresult.Error
	require.ErrorAs(t, limited, &e)
	require.Equal(t, time.Second, e.RetryAfter)
	require.Same(t, e, toolresult.AsError(limited))

	for _, row := range []struct {
		says string
		err  error
		want toolresult.ErrorCode
	}{
		{"no error has no code", nil, ""},
		{"a cancelled context", fmt.Errorf("x: %w", context.Canceled), toolresult.Cancelled},
		{"a deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), toolresult.Timeout},
		{"an error beats the context error behind it", toolresult.WrapError(toolresult.ProviderError, "", context.Canceled), toolresult.ProviderError},
		{"a bare code", fmt.Errorf("x: %w", toolresult.NotFound), toolresult.NotFound},
		{"anything else", errors.New("x"), toolresult.Internal},
		{"the first of two", errors.Join(toolresult.NewError(toolresult.NotFound, ""), toolresult.NewError(toolresult.Conflict, "")), toolresult.NotFound},
		{"an unknown outcome anywhere", errors.Join(toolresult.NewError(toolresult.Timeout, ""), fmt.Errorf("x: %w", toolresult.NewError(toolresult.OutcomeUnknown, ""))), toolresult.OutcomeUnknown},
	} {
		require.Equal(t, row.want, toolresult.Code(row.err), row.says)
		if got := toolresult.AsError(row.err); row.err == nil {
			require.Nil(t, got)
		} else {
			require.Equal(t, row.want, got.Code, row.says)
		}
	}
	kept := toolresult.NewError(toolresult.OutcomeUnknown, "lost").With("/a", "b")
	require.Same(t, kept, toolresult.AsError(errors.Join(toolresult.NewError(toolresult.Timeout, ""), kept)), "with its details")
	require.ErrorIs(t, toolresult.AsError(context.Canceled), context.Canceled)
}

// A retry loop that looks for a timeout does not find it in a write that may
// have happened.
func TestUnknownIsNothingElse_R4_E6(t *testing.T) {
	timeout := toolresult.WrapError(toolresult.Timeout, "no answer", context.DeadlineExceeded)
	require.ErrorIs(t, timeout, context.DeadlineExceeded)
	unknown := fmt.Errorf("create ticket: %w", toolresult.WrapError(toolresult.OutcomeUnknown, "sent, no answer", timeout))
	for _, target := range []error{toolresult.Timeout, toolresult.Cancelled, context.DeadlineExceeded, context.Canceled} {
		require.NotErrorIs(t, unknown, target)
	}
	var netErr net.Error
	require.False(t, errors.As(unknown, &netErr))
	require.ErrorIs(t, unknown, toolresult.OutcomeUnknown)
}

// errors.Is(res.Error, X) on a success asks a nil *Error.
func TestNilErrorDoesNotPanic_E6(t *testing.T) {
	e := toolresult.NoMatch("c").Error
	require.Nil(t, e)
	for _, target := range []error{toolresult.NotFound, context.Canceled, nil, e} {
		require.Equal(t, target == error(e), errors.Is(e, target))
	}
	var found *toolresult.Error
	require.ErrorAs(t, error(e), &found)
	require.NoError(t, e.Unwrap())
	require.NoError(t, e.Cause())
	require.Nil(t, e.With("/a", "b"))
	require.Nil(t, e.WithDiagnostics(toolresult.Diagnostics{}))
	require.Nil(t, e.WithRetryAfter(1))
	require.Equal(t, "<nil> <nil> \"<nil>\"", fmt.Sprintf("%v %s %q", e, error(e), e))
	require.Equal(t, "<nil>", slog.AnyValue(e).Resolve().String())
	require.Equal(t, "null", string(mustJSON(t, e)))
	require.NoError(t, toolresult.NoMatch("c").Err(), "not a nil *Error in an interface")
	require.ErrorIs(t, (*toolresult.Result)(nil).Err(), toolresult.ContractViolation)
}

func TestNoVerbPrintsTheCause_R10(t *testing.T) {
	e := toolresult.WrapError(toolresult.ProviderError, "the provider failed", errors.New("SECRET"))
	for _, v := range []any{e, fmt.Errorf("x: %w", e), struct{ E error }{e}, struct{ E *toolresult.Error }{e}, []error{e}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			require.NotContains(t, fmt.Sprintf(verb, v), "SECRET", "%s of %T", verb, v)
		}
	}
}

// Copies do not share what they add.
func TestWithCopies_E6(t *testing.T) {
	base := toolresult.NewError(toolresult.InvalidInput, "the arguments are wrong").With("/a", "is missing")
	left, right := base.With("/b", "x"), base.With("/c", "y")
	require.Len(t, base.Problems, 1)
	require.Equal(t, "/b", left.Problems[1].Pointer)
	require.Equal(t, "/c", right.Problems[1].Pointer)
	require.ErrorIs(t, left, toolresult.InvalidInput)
	long := base.With(strings.Repeat("/a", 5000), "two\nlines")
	require.Len(t, long.Problems[1].Pointer, 1024)
	require.Equal(t, "two lines", long.Problems[1].Text)

	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Error("x", "err", left)
	require.Contains(t, log.String(), `"problems":["/a","/b"]`)
	require.NotContains(t, log.String(), "is missing", "what is wrong with an argument may quote it")
}
