package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

// A Session is one connector on a host of its own, in front of a provider of its
// own. Its methods are for checks, which run one at a time; calls of the
// connector may be made by many goroutines.
type Session struct {
	*Subject
	run *run
	t   *scope

	Connector connector.Connector
	Double    Double
	Policy    *Policy // what the host's policy asks in the end
	Broker    *Broker // likewise, for credentials
	Audit     *Audit
	Logs      *Buffer

	// What outlives a restart of the host.
	Operations operation.Store
	Approvals  authz.ApprovalStore
	Cursors    *cursor.Keyring
	Artifacts  artifact.Store
	Accounts   connection.Store

	// Limits are the endpoint's. Set them before the first call, or call Restart.
	Limits egress.Limits

	authority *authz.Authority
	disk      *disk // below Accounts
	inv       *connector.Invoker
	surface   Surface
	broken    error // why there is no host
	down      bool  // the provider cannot be connected to
	mu        sync.Mutex
	seen      []*Exchange
	plan      fault.Plan
	planned   int // exchanges that a plan was asked about
	began     time.Time
	foreign   []string
}

// Exchange is a request that arrived at the provider's side.
type Exchange struct {
	N       int
	At      time.Duration // since the session began
	Method  string
	URL     string // path and query as they were sent
	Host    string
	Header  http.Header
	Body    []byte
	Changes bool // it may change something, as its route declares
	Fault   fault.Fault
	Reached bool // the provider saw it
	Status  int  // of the provider's answer; 0 if there was none
	Answer  []byte

	AnswerHeader http.Header // nil unless the provider answered
	Credential   string      // the header's value by which the provider knows the caller
}

func newSession(t testing.TB, r *run, subject *Subject) *Session {
	s := &Session{Subject: subject, run: r, t: &scope{TB: t}, began: time.Now(), Operations: &operation.Memory{}, Approvals: &authz.MemoryApprovals{},
		Artifacts: artifact.NewMemory(64 << 20), Accounts: &disk{Store: &connection.Memory{}}, Logs: &Buffer{}, Audit: &Audit{}, authority: authz.NewAuthority("connectortest")}
	k, err := cursor.NewKeyring("k1", map[string][]byte{"k1": bytes.Repeat([]byte{7}, 32)}, nil)
	if err != nil {
		s.broken = err
	}
	s.Cursors = k
	s.disk, _ = s.Accounts.(*disk)
	s.Double = subject.double(s.t)
	s.Policy, s.Broker = newPolicy(subject.Fixture), newBroker(subject, s.Double)
	s.Policy.count, s.Broker.secret = s.Requests, r.hide
	t.Cleanup(s.Close)
	r.sessions = append(r.sessions, s)
	s.start()
	return s
}

// Fresh returns another session: a new connector, a new provider, a new host. What
// it finds counts for the same check.
func (s *Session) Fresh() *Session {
	if s.Brief && s.run.failed() {
		return s
	}
	return newSession(s.t.TB, s.run, s.Subject)
}

// Alone makes the session the only one that the check's transcript shows: the one
// in which it found what it looked for.
func (s *Session) Alone() {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	s.run.shown = s
}

// Restart ends the host and starts it again with a new connector: the provider
// and what is durable stay.
func (s *Session) Restart() {
	s.t.end()
	s.start()
}

// Close ends the host and the provider's server. It is called at the end of the
// check at the latest.
func (s *Session) Close() { s.t.end() }

// scope is a testing.TB whose cleanups can be run before the test ends.
type scope struct {
	testing.TB
	todo []func()
}

// Cleanup implements [testing.TB].
func (s *scope) Cleanup(f func()) { s.todo = append(s.todo, f) }

func (s *scope) end() {
	todo := s.todo
	s.todo = nil
	for _, f := range slices.Backward(todo) {
		f()
	}
}

// start makes the connector and its host. A host that cannot be made is a
// session in which no call works; Broken says why.
func (s *Session) start() {
	c, err := s.Fixture.New()
	if err == nil && c == nil {
		err = errors.New("Fixture.New returned no connector")
	}
	if err != nil {
		s.broken = fmt.Errorf("there is no connector: %w", err)
		return
	}
	s.Connector = c
	host := s.host()
	if s.Fixture.Host != nil {
		s.Fixture.Host(host)
		s.Accounts = host.Accounts
	}
	s.inv, s.broken = connector.NewInvoker(host.Policy, []*authz.Authority{s.authority}, []connector.Connector{c}, &host.Options)
	if s.broken != nil {
		return
	}
	s.surface = s.inv
	if s.Fixture.Through != nil {
		s.surface = s.Fixture.Through(s.inv)
	}
}

// Broken says why there is no host to call the connector on; nil if there is.
func (s *Session) Broken() error { return s.broken }

// Invoker returns the governed path itself, for approvals, look-ups and
// recovery. Calls go through Do.
func (s *Session) Invoker() *connector.Invoker { return s.inv }

func (s *Session) host() *Host {
	profile, eg := egresstest.Serve(s.t, http.HandlerFunc(s.serve))
	profile.Name = s.Manifest.Endpoint
	profile.BaseURL += s.Fixture.BasePath
	profile.Limits = s.Limits
	resolve, dial := eg.Resolve, eg.Dial
	eg = &egress.Options{Resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
		if egresstest.Base != "http://"+host {
			s.noteForeign(host)
		}
		return resolve(ctx, host)
	}}
	eg.Dial = s.dialer(dial)
	opts := connector.Options{
		Egress: eg, Credentials: s.Broker, Operations: s.Operations, Forgetful: true, Recovery: s.authority, Approvals: s.Approvals,
		Cursors: s.Cursors, Artifacts: s.Artifacts, Audit: s.Audit, Logger: slog.New(slog.NewTextHandler(s.Logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if s.Manifest.Endpoint != "" {
		opts.Endpoints = []egress.Profile{profile}
	}
	return &Host{Policy: s.Policy, Options: opts, Accounts: s.Accounts}
}

func (s *Session) noteForeign(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.foreign = append(s.foreign, host)
}

// Foreign lists the hosts other than the provider that something asked to be
// resolved.
func (s *Session) Foreign() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.foreign)
}

// Serve serves a handler until the session ends, and returns how to reach it.
func (s *Session) Serve(h http.Handler) *egress.Options {
	_, eg := egresstest.Serve(s.t, h)
	return eg
}

// Faults gives the exchanges from now on the faults of a plan; nil ends that. A
// check whose plan never fires is inconclusive.
func (s *Session) Faults(p fault.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan, s.planned = p, 0
	if p != nil {
		s.run.count(&s.run.wanted)
	}
}

// Down makes the provider refuse connections, or accept them again.
func (s *Session) Down(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = yes
}

// Seen returns the exchanges so far. Its exchanges may still be filled in while a
// call runs.
func (s *Session) Seen() []*Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Requests is how many requests arrived at the provider's side.
func (s *Session) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// Since returns the exchanges after the first n.
func (s *Session) Since(n int) []*Exchange { return s.Seen()[n:] }

// Snapshot returns the provider's state. A provider that cannot say makes the
// check inconclusive.
func (s *Session) Snapshot() string {
	text, err := s.Double.Snapshot()
	if err != nil {
		s.Inconclusive("the double has no snapshot: " + err.Error())
	}
	return string(text)
}

// Plant makes a text one that may be seen nowhere: no report shows it, and
// Hidden returns it.
func (s *Session) Plant(secret string) { s.run.hide(secret) }

// Hidden returns what may be seen nowhere: what was planted, and the credentials
// that requests have borne so far.
func (s *Session) Hidden() []string {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	return slices.Clone(s.run.canaries)
}

// Wait lets virtual time pass. In the other modes, where time is real, it does
// not wait.
func (s *Session) Wait(d time.Duration) {
	if s.Mode == InDouble {
		time.Sleep(d)
	}
}
