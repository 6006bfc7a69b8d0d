package token

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// Kind says what a failure means for the credential that was sent.
type Kind uint8

const (
	Unknown       Kind = iota // the server may have acted: a refresh token may be spent
	NotSent                   // certainly nothing left
	Throttled                 // refused for now, and not acted on
	Dead                      // the code, refresh token or assertion is no longer good
	Misconfigured             // our registration or configuration is wrong; nothing is wrong with the grant
	Refused                   // a client error in no known words
)

var kinds = [...]string{"outcome unknown", "not sent", "throttled", "grant refused", "configuration refused", "refused"}

// String returns the kind in words.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return kinds[Unknown]
}

// Failure is a request without the answer that was wanted. It says a registered
// code and our own words, and nothing that the server wrote: servers echo tokens
// in descriptions, and proxies write pages.
type Failure struct {
	Kind       Kind
	Code       string // a code that this package or the profile knows; "" if there was none, "other" for one that nobody knows
	Status     int    // 0 without an answer
	RetryAfter time.Duration
	cause      error // the transport's, for operators
}

// Error returns one line.
func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString("token endpoint: " + f.Kind.String())
	if f.Code != "" {
		b.WriteString(" (" + f.Code + ")")
	}
	if f.Status != 0 {
		b.WriteString(", status " + strconv.Itoa(f.Status))
	}
	return b.String()
}

// Format implements [fmt.Formatter], so that no verb prints the cause.
func (f *Failure) Format(s fmt.State, _ rune) { io.WriteString(s, f.Error()) }

// Cause is what the transport said, without secrets; nil after an answer.
func (f *Failure) Cause() error { return f.cause }

// transport classifies a failed exchange by how far it got.
func transport(err error) *Failure {
	f := &Failure{cause: err}
	var e *egress.Error
	if errors.As(err, &e) && e.Phase == egress.PhaseNotSent {
		f.Kind = NotSent
	}
	return f
}

// The codes that are known, by what they mean (RFC 6749, section 5.2; RFC 8707;
// RFC 7009; RFC 8693). The last row of the dead is GitHub's.
var meanings = map[string]Kind{
	"invalid_grant": Dead, "bad_refresh_token": Dead, "bad_verification_code": Dead,

	"invalid_client": Misconfigured, "unauthorized_client": Misconfigured, "unsupported_grant_type": Misconfigured, "invalid_scope": Misconfigured,
	"invalid_target": Misconfigured, "incorrect_client_credentials": Misconfigured, "redirect_uri_mismatch": Misconfigured,

	"temporarily_unavailable": Throttled, "slow_down": Throttled, "rate_limited": Throttled,

	"server_error": Unknown,

	"invalid_request": Refused, "unsupported_token_type": Refused, "access_denied": Refused, "interaction_required": Refused,
	"authorization_pending": Refused, "expired_token": Refused,
}

// known returns the code if somebody knows it, so that a server cannot put a
// token in its place.
func (c *Client) known(code string) string {
	if _, ok := meanings[code]; ok || code == "" || slices.Contains(c.c.Dead, code) {
		return code
	}
	return "other"
}

// refusal classifies an answer that holds no tokens. An error code counts
// whatever the status.
func (c *Client) refusal(r *reply, code string) *Failure {
	f := &Failure{Code: c.known(code), Status: r.status, RetryAfter: retryAfter(r.header)}
	kind, ok := meanings[code]
	switch {
	case slices.Contains(c.c.Dead, code):
		f.Kind = Dead
	case r.status == http.StatusTooManyRequests:
		f.Kind = Throttled
	case r.status >= 500:
		f.Kind = Unknown // it may have acted before it failed
	case ok:
		f.Kind = kind
	case r.status == http.StatusRequestTimeout:
		f.Kind = Unknown
	case r.status >= 300 && r.status < 400, r.status == http.StatusUnauthorized, r.status == http.StatusNotFound, r.status == http.StatusMethodNotAllowed:
		f.Kind = Misconfigured // not the endpoint that the profile says
	case r.status >= 400 || code != "":
		f.Kind = Refused
	}
	return f
}

const maxRetryAfter = 24 * time.Hour

// retryAfter reads seconds or a date (RFC 9110, section 10.2.3); 0 if there is
// neither.
func retryAfter(h http.Header) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, min(time.Until(at), maxRetryAfter))
	}
	return 0
}
