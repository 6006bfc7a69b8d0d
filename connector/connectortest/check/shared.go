package check

import (
	"context"
	"slices"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// tours are what several checks look at and only one of them has to make happen.
type tours struct {
	mu   sync.Mutex
	done map[string]*tour
}

// tour is a session that has ended, and what a run has to know of it.
type tour struct {
	session *Session
	results []*toolresult.Result

	findings        []Finding
	canaries        []string
	wanted, fired   int
	requests, calls int
}

// Shared returns a session of its own in which f has made its calls, and what f
// returned. f is run for the first check of a subject that asks for the name, and
// the others are given the same: it must not depend on which check asks. The
// session has ended: its Audit, Logs and Seen can be looked at, and no call made.
// What f found, and the secrets it saw, count for every check.
func (s *Session) Shared(ctx context.Context, name string, f func(context.Context, *Session) []*toolresult.Result) (*Session, []*toolresult.Result) {
	s.tours.mu.Lock()
	defer s.tours.mu.Unlock()
	t := s.tours.done[name]
	if t == nil {
		t = s.tour(ctx, f)
		s.tours.done[name] = t
	}
	s.run.takes(t)
	return t.session, slices.Clone(t.results)
}

// tour runs f as if it were a check of its own.
func (s *Session) tour(ctx context.Context, f func(context.Context, *Session) []*toolresult.Result) *tour {
	r := newRun(s.Fixture)
	one := newSession(s.t.TB, r, s.Subject)
	defer one.Close()
	results := f(ctx, one)
	r.mu.Lock()
	defer r.mu.Unlock()
	return &tour{session: one, results: results, findings: r.findings, canaries: r.canaries, wanted: r.wanted, fired: r.fired, requests: r.requests, calls: r.calls}
}

// takes makes what happened on a tour part of a run.
func (r *run) takes(t *tour) {
	for _, c := range t.canaries {
		r.hide(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.sessions, t.session) {
		return
	}
	r.sessions = append(r.sessions, t.session)
	r.findings = append(r.findings, t.findings...)
	r.results = append(r.results, t.results...)
	r.wanted, r.fired = r.wanted+t.wanted, r.fired+t.fired
	r.requests, r.calls = r.requests+t.requests, r.calls+t.calls
}
