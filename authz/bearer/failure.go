package bearer

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// A failure is why a request is not let in. Its texts are constants of this
// package; what was in the token or came from the issuer is in none of them.
type failure struct {
	kind  kind
	why   string        // for operators
	cause error         // for operators; nil if why says all
	retry time.Duration // of unavailable: when to come back
	need  []string      // scopes for the challenge; nil if they are not known

	proof     *ProofError // what is wrong with a proof of possession; nil if it is something else
	challenge string      // what Principal found out for Challenge; "" elsewhere
}

// Challenge returns the value of WWW-Authenticate that belongs to an error of
// [Bearer.Principal], for servers that answer themselves; "" for none.
func (f *failure) Challenge() string { return f.challenge }

// A kind decides what the caller is told.
type kind uint8

const (
	broken       kind = iota // a defect of this server
	noToken                  // nothing was presented
	malformed                // the request breaks the rules for presenting a token
	tooLarge                 // the body is over the limit
	notRPC                   // the body is not one JSON-RPC request
	invalid                  // the token does not hold
	insufficient             // it holds, and its scopes are too few
	unavailable              // it cannot be found out now
)

// status is the HTTP status of a kind, and the error code of RFC 6750, section
// 3.1, if it has one.
func (k kind) status() (status int, oauth string) {
	switch k {
	case noToken:
		return http.StatusUnauthorized, ""
	case malformed:
		return http.StatusBadRequest, "invalid_request"
	case tooLarge:
		return http.StatusRequestEntityTooLarge, ""
	case notRPC:
		return http.StatusBadRequest, ""
	case invalid:
		return http.StatusUnauthorized, "invalid_token"
	case insufficient:
		return http.StatusForbidden, "insufficient_scope"
	case unavailable:
		return http.StatusServiceUnavailable, ""
	}
	return http.StatusInternalServerError, ""
}

// public is the failure as an error that may be shown: its text depends on the
// kind alone.
func (f *failure) public() *toolresult.Error {
	switch f.kind {
	case noToken:
		return toolresult.WrapError(toolresult.AuthenticationRequired, "an access token is needed", f)
	case malformed:
		return toolresult.WrapError(toolresult.InvalidInput, "send one access token, in one Authorization header and nowhere else", f)
	case tooLarge:
		return toolresult.WrapError(toolresult.InvalidInput, "the request is too large", f)
	case notRPC:
		return toolresult.WrapError(toolresult.InvalidInput, "the body is not one JSON-RPC message", f)
	case invalid:
		return toolresult.WrapError(toolresult.AuthenticationRequired, "the access token is not valid here", f)
	case insufficient:
		return toolresult.WrapError(toolresult.InsufficientScope, "the access token has too few scopes", f)
	case unavailable:
		return toolresult.WrapError(toolresult.PolicyUnavailable, "it cannot be found out now whether the access token is valid", f).WithRetryAfter(f.retry)
	}
	return toolresult.WrapError(toolresult.ContractViolation, "internal error", f)
}

// Error returns one line, for operators.
func (f *failure) Error() string { return "bearer: " + f.why }

// refused says that a token does not hold.
func refused(why string) *failure { return &failure{kind: invalid, why: why} }

// outage says that the issuer could not be asked.
func outage(why string, retry time.Duration, cause error) *failure {
	return &failure{kind: unavailable, why: why, cause: cause, retry: max(retry, time.Second)}
}

// retryAfter is how long a caller is asked to wait when nothing better is known.
const retryAfter = 5 * time.Second

// log tells the operator. Requests without a token are how clients find the
// issuer, and are not worth a line.
func (b *Bearer) log(ctx context.Context, f *failure) {
	if b.logger == nil || f.kind == noToken {
		return
	}
	level := slog.LevelInfo
	if f.kind == unavailable || f.kind == broken {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("reason", f.why)}
	if f.cause != nil {
		attrs = append(attrs, slog.String("cause", f.cause.Error()))
	}
	if e, ok := errors.AsType[*egress.Error](f.cause); ok && e.Cause() != nil {
		attrs = append(attrs, slog.String("network", e.Cause().Error()))
	}
	b.logger.LogAttrs(ctx, level, "a request was not let in", attrs...)
}
