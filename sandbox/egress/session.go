package egress

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

var (
	errClosed = errors.New("the session was closed")
	errZero   = errors.New("the session or its endpoint was not made by this package")
)

// Session is one call's way out. It is an [http.RoundTripper], safe for
// concurrent use.
//
// It ends with the context that it was opened with, or with Close: requests in
// flight are cancelled, later ones refused with ReasonOver, whichever client
// and whichever context they come with. The zero Session is over.
type Session struct {
	e      *Endpoint
	hooks  Hooks
	ctx    context.Context // of whoever opened it: values for hooks
	life   context.Context // without values
	cancel context.CancelCauseFunc
	detach func() bool

	mu      sync.Mutex
	secrets *secrets
}

// Open starts a session that ends with ctx or with Close; one of them must come.
// h may be nil: a session without hooks reaches the profile without a
// credential, and is bound by nothing but the profile.
func (e *Endpoint) Open(ctx context.Context, h *Hooks) *Session {
	s := &Session{e: e, ctx: ctx}
	if h != nil {
		s.hooks = *h
	}
	s.life, s.cancel = context.WithCancelCause(context.Background())
	s.detach = context.AfterFunc(ctx, func() { s.cancel(ctx.Err()) })
	return s
}

// Client returns a client on the session. It follows redirects that stay inside
// the profile, as many as the profile says, for GET and HEAD; any other
// redirect is the answer. Copies of it end with the session too.
func (s *Session) Client() *http.Client {
	return &http.Client{Transport: s, CheckRedirect: s.redirect}
}

// redirect implements CheckRedirect of http.Client.
func (s *Session) redirect(req *http.Request, _ []*http.Request) error {
	if s.e == nil || s.e.checkHops(req) != nil {
		return http.ErrUseLastResponse
	}
	if _, _, err := s.e.base.locate(req); err != nil {
		return http.ErrUseLastResponse
	}
	return nil
}

// checkHops holds a redirected request to the profile, also when another client
// than ours follows. http.Client leaves the way in req.Response.
func (e *Endpoint) checkHops(req *http.Request) error {
	hops := 0
	for r := req; r.Response != nil && r.Response.Request != nil; r = r.Response.Request {
		if hops++; hops > e.profile.Redirects {
			return errors.New("more redirects than the profile allows")
		}
		if !repeatable(r.Method) || !repeatable(r.Response.Request.Method) {
			return errors.New("a redirect of a request other than GET and HEAD")
		}
	}
	return nil
}

func repeatable(method string) bool {
	return method == "" || method == http.MethodGet || method == http.MethodHead
}

// RoundTrip implements [http.RoundTripper]. The error is always an *Error. The
// answer is whole and in memory; its Request is req.
func (s *Session) RoundTrip(req *http.Request) (*http.Response, error) {
	if req == nil {
		return nil, &Error{Phase: PhaseNotSent, Reason: ReasonDestination, cause: errors.New("no request")}
	}
	if req.Body != nil {
		defer req.Body.Close()
	}
	if s == nil || s.e == nil || s.e.origin == "" {
		return nil, &Error{Phase: PhaseNotSent, Reason: ReasonOver, cause: errZero}
	}
	t := s.newTrip(req)
	defer t.stop()
	answer, failed := t.run()
	t.observe(answer)
	if failed != nil {
		return nil, failed
	}
	header := answer.Header
	if s.hooks.Observe != nil { // which may keep its own
		header = header.Clone()
	}
	return rebuild(req, answer, header, t.status, t.length), nil
}

// Close ends the session. It may be called more than once, and does not wait.
func (s *Session) Close() {
	if s == nil || s.cancel == nil {
		return
	}
	s.detach()
	s.cancel(errClosed)
}

// over returns why the session has ended, or nil.
func (s *Session) over() error {
	if s.life.Err() != nil {
		return context.Cause(s.life)
	}
	return s.ctx.Err() // before AfterFunc noticed
}

// remember adds what Authorize put on a request to the secrets of the session,
// and returns them all. They are kept beyond their request, because a later
// answer may repeat them.
func (s *Session) remember(before, after http.Header, queryBefore, queryAfter string) *secrets {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = s.secrets.from(before, after, queryBefore, queryAfter)
	return s.secrets
}

func (s *Session) known() *secrets {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secrets
}
