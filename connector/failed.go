package connector

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// failed is the error of a connector's code, made harmless: the error that the
// code returned is asked once, in the code's own goroutine, because its methods
// are the code's as well and may panic or never return.
type failed struct {
	code     toolresult.ErrorCode // empty: neither ours nor a context's; what the transport saw decides
	message  *toolresult.Error    // what the connector said, if it was an Error
	ours     bool                 // a hook of the SDK said it
	cause    error                // a context error, or text for operators
	problems []toolresult.Problem
}

// Error is for operators.
func (f *failed) Error() string { return "connector: " + string(f.code) }

func (f *failed) orNil() error {
	if f == nil {
		return nil
	}
	return f
}

// longestCause bounds what is kept of an error's text, in bytes.
const longestCause = 2 << 10

// tame reads what there is to know about an error. It returns nil for nil.
func tame(err error) *failed {
	if err == nil {
		return nil
	}
	if f, ok := err.(*failed); ok {
		return f
	}
	text := strings.ToValidUTF8(err.Error(), "?")
	f := &failed{cause: errors.New(text[:min(len(text), longestCause)])}
	walk(err, deepest, f.look)
	return f
}

// deepest bounds how many errors of a tree are looked at: Unwrap is the
// connector's code, and may go round in circles.
const deepest = 100

// walk visits err and what it wraps, until visit says that it has seen enough.
// It returns how many more may be visited, 0 for enough.
func walk(err error, left int, visit func(error) bool) int {
	for err != nil && left > 0 {
		if left--; visit(err) {
			return 0
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				left = walk(e, left, visit)
			}
			return left
		default:
			return left
		}
	}
	return left
}

// look notes what an error says, and reports whether that is final.
func (f *failed) look(err error) bool {
	switch e := err.(type) {
	case *egress.Error:
		if e == nil {
			return true
		}
		if cause, ok := errors.AsType[*toolresult.Error](e.Cause()); ok && cause != nil { // a hook of ours said no, and why
			f.code, f.message, f.ours = cause.Code, cause, true
			f.within(cause)
			return true
		}
	case *toolresult.Error:
		if e != nil {
			f.code, f.message, f.problems = e.Code, e, append(f.problems, e.Problems...)
			f.within(e.Cause())
		}
		return true
	}
	is := func(target error) bool {
		x, ok := err.(interface{ Is(error) bool })
		return err == target || ok && x.Is(target)
	}
	switch {
	case is(context.DeadlineExceeded):
		f.code, f.cause = toolresult.Timeout, context.DeadlineExceeded
	case is(context.Canceled):
		f.code, f.cause = toolresult.Cancelled, context.Canceled
	case is(toolresult.EgressDenied): // by the client of another call, perhaps
		f.code = toolresult.EgressDenied
	default:
		return false
	}
	return true
}

// panicked says what a connector panicked with and where, for operators. It is
// called in the deferred function that recovered.
func panicked(value any) string {
	text := "the connector panicked: " + fmt.Sprint(value)
	text = strings.ToValidUTF8(text[:min(len(text), longestCause/2)], "?")
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)]) // 3: behind the panic itself
	for f, more := frames.Next(); more; f, more = frames.Next() {
		if !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s (%s:%d)", text, f.File, f.Line)
		}
	}
	return text
}

// within keeps what an Error was wrapped around, for operators.
func (f *failed) within(cause error) {
	if cause == nil || f.cause == nil {
		return
	}
	text := strings.ToValidUTF8(f.cause.Error()+": "+cause.Error(), "?")
	f.cause = errors.New(text[:min(len(text), longestCause)])
}

// error is what is shown for a code: the connector's own words if they are about
// this code, else the SDK's.
func (f *failed) error(code toolresult.ErrorCode, sdk *toolresult.Error) *toolresult.Error {
	e := toolresult.WrapError(code, sdk.Message, f.cause)
	if f.message != nil && f.code == code {
		e = toolresult.WrapError(code, f.message.Message, f.cause)
		e.Problems = f.problems
	}
	return e
}

// codeOf is the code of an error that the SDK or the connector made, and empty
// for a library's: that is classified by what the transport saw.
func codeOf(err error) toolresult.ErrorCode {
	if f := tame(err); f != nil {
		return f.code
	}
	return ""
}
