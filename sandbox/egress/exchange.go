package egress

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Effect says whether a request may change anything at the provider. The zero
// Effect is the careful one.
type Effect uint8

const (
	Changes Effect = iota // it may; it is sent at most once
	Reads                 // it does not; it is sent again if a used connection turns out to be dead
)

// String returns "changes" or "reads".
func (e Effect) String() string {
	switch e {
	case Changes:
		return "changes"
	case Reads:
		return "reads"
	}
	return "Effect(" + strconv.Itoa(int(e)) + ")"
}

// Hooks decide about the requests of one session. Each may be nil. They are
// called in the order of the fields, by the goroutine that called RoundTrip, so
// concurrently if requests are. Their context ends with the session and with
// the request, and carries the values of the session's context; values of the
// request's context, which the handler chose, reach no hook.
//
// An error from one of the first three keeps the request here (PhaseNotSent,
// ReasonRefused; an [Error] of the hook with another refusing Reason keeps
// that). It is found by [Error.Cause].
type Hooks struct {
	// Allow says whether the request may go out and what it does. It may add
	// to req.Header, and what it adds is sent under the rules that hold for
	// the handler. It must not change req otherwise. Nil: GET and HEAD read,
	// everything else changes.
	Allow func(ctx context.Context, req *Request) (Effect, error)

	// Authorize puts the credential into headers or query of req, a copy that
	// nobody else sees; any other change to it is refused. origin is
	// "https://host:port". Everything that it adds is taken to be secret and
	// cut out of the answer. Nil: no credential.
	Authorize func(ctx context.Context, origin string, req *http.Request) error

	// Commit is called once for each request that may change something,
	// immediately before its first byte. What it records must be durable when
	// it returns.
	Commit func(ctx context.Context, req *Request) error

	// Observe is told about every exchange exactly once, before the handler
	// sees the answer; also about those that were refused. resp is nil unless
	// status and headers arrived; its Body is nil when the body did not arrive
	// whole (x.Reason says why).
	Observe func(ctx context.Context, req *Request, resp *Response, x Exchange)
}

// Request is what a hook may know about a request. It never holds the
// credential. A request that was refused for its destination has a Method only.
type Request struct {
	Method string
	Path   string // escaped, below the profile's base; "" is the base itself
	Query  string // raw
	Header http.Header
	Body   []byte // whole; empty if there is none
}

// Response is what came back. It never holds the session's credential.
type Response struct {
	Status int
	Header http.Header // without Set-Cookie
	Body   []byte      // whole and decoded; nil if it did not arrive whole
}

// Exchange is what happened, without secrets and without bodies.
type Exchange struct {
	Profile, Method, Path string // as in the Profile and the Request
	Effect                Effect
	Phase                 Phase
	Reason                Reason // "" only if a complete answer arrived
	Status                int    // 0 when there was no answer
	Sent                  int64  // bytes of the body that were handed to a connection
	Received              int64  // bytes of the answer's body, before decompression
	Duration              time.Duration
}

// Phase is how far a request got. It is the evidence by which a failed write
// is classified, and the zero Phase is the careful one.
type Phase uint8

const (
	PhaseUnanswered Phase = iota // some of it may have left, and no status came back
	PhaseNotSent                 // certainly no byte of it left
	PhaseAnswered                // status and headers arrived
)

var phases = [...]string{"unanswered", "not sent", "answered"}

// String returns the words of the constants' names.
func (p Phase) String() string {
	if int(p) < len(phases) {
		return phases[p]
	}
	return "Phase(" + strconv.Itoa(int(p)) + ")"
}

// Reason says why an exchange failed. The set may grow.
type Reason string

const (
	ReasonDestination Reason = "destination" // not in the profile, or not in a form that may leave
	ReasonAddress     Reason = "address"     // resolves to a refused address
	ReasonRefused     Reason = "refused"     // a hook said no
	ReasonSecond      Reason = "second"      // a second change in one call (a hook says so)
	ReasonOver        Reason = "over"        // the call that the client belongs to has ended
	ReasonDial        Reason = "dial"        // no connection
	ReasonTLS         Reason = "tls"         // no trust
	ReasonTimeout     Reason = "timeout"     // a limit or a context's deadline
	ReasonCancelled   Reason = "cancelled"   // a context's owner gave up, or the session ended meanwhile
	ReasonTooLarge    Reason = "too_large"   // over a limit of bytes
	ReasonBroken      Reason = "broken"      // a connection or body ended early, or is no HTTP
)

// refuses reports whether r is a decision of ours rather than a mishap.
func (r Reason) refuses() bool {
	switch r {
	case ReasonDestination, ReasonAddress, ReasonRefused, ReasonSecond, ReasonOver:
		return true
	}
	return false
}

// Error is a failed exchange. It prints neither URL, header nor body, and its
// chain ends here: it is no net.Error and matches no context error, because
// whether it may be tried again depends on the Phase.
//
// It matches toolresult.EgressDenied when the exchange was refused.
type Error struct {
	Phase   Phase
	Reason  Reason
	Profile string
	cause   error
}

// Error returns one line.
func (e *Error) Error() string {
	return fmt.Sprintf("egress: %s: %s (%s)", e.Profile, e.Reason, e.Phase)
}

// Is implements the match of toolresult.EgressDenied.
func (e *Error) Is(target error) bool {
	return e.Reason.refuses() && target == toolresult.EgressDenied
}

// Cause returns what happened, for operators: the error of a hook as it was
// returned, or that of the network, without the session's credential. It may
// hold text of the provider, and is not part of the error's chain.
func (e *Error) Cause() error { return e.cause }

// Format implements [fmt.Formatter], so that no verb prints the cause.
func (e *Error) Format(f fmt.State, _ rune) { fmt.Fprint(f, e.Error()) }
