package egress

import (
	"net/http"
)

// Session is one call's way out. It is an [http.RoundTripper], safe for
// concurrent use.
type Session struct{ _ [0]func() }

// Client returns an http client on the session. Copies of it die with the session too.
func (s *Session) Client() *http.Client { return &http.Client{Transport: s} }

// RoundTrip implements [http.RoundTripper]. The error is always an *Error.
func (s *Session) RoundTrip(req *http.Request) (*http.Response, error) {
	return nil, &Error{Phase: PhaseNotSent, Reason: ReasonOver}
}

// Close ends the session.
func (s *Session) Close() {}
