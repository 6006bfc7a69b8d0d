package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// patience is how long a check may take in real time. One that takes longer
// hangs where virtual time cannot help.
const patience = time.Minute

// run is one run of one check.
type run struct {
	mu            sync.Mutex
	sessions      []*Session
	shown         *Session // the only one that the transcript shows; nil: all
	findings      []Finding
	inconclusive  string
	notApplicable string
	broken        string
	stated        int
	wanted, fired int // plans of faults, and faults that happened
	requests      int
	calls         int
	results       []*toolresult.Result
	canaries      []string
	forms         map[string][]written // of canaries, as far as they were looked for
	virtual       time.Duration
}

func newRun(f *Fixture) *run {
	return &run{canaries: slices.Clone(f.Canaries), forms: map[string][]written{}}
}

func (r *run) breaks(what string, why any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = what + fmt.Sprint(why)
}

// count counts one more in a counter of r. The sessions of a run share them.
func (r *run) count(n *int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	*n++
	return *n
}

func (r *run) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.findings) > 0
}

func (r *run) keep(res *toolresult.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, res)
}

// hide makes a text one that no report shows.
func (r *run) hide(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.canaries, secret) && secret != "" {
		r.canaries = append(r.canaries, secret)
	}
}

func (r *run) redact(text string) string {
	for _, c := range r.canaries {
		text = strings.ReplaceAll(text, c, "[secret]")
	}
	if len(text) > 600 {
		text = strings.ToValidUTF8(text[:600], "") + "…"
	}
	return text
}

// Open reads the manifest and makes the ordinary calls. It fails only if the
// fixture lacks what it needs; everything that is wrong with the connector is for
// the checks to say.
func Open(t *testing.T, f *Fixture, mode Mode) (*Subject, error) {
	switch {
	case f.New == nil:
		return nil, errors.New("connectortest: Fixture.New is needed: it makes the connector")
	case len(f.Samples) == 0:
		return nil, errors.New("connectortest: Fixture.Samples is needed: one ordinary call for each capability")
	}
	setTrap()
	s := &Subject{Fixture: f, Mode: mode, tours: &tours{done: map[string]*tour{}}}
	err := s.read()
	if err != nil {
		return nil, fmt.Errorf("connectortest: there is no connector: %w", err)
	}
	if err := s.checkSamples(); err != nil {
		return nil, err
	}
	if err := s.hold(t); err != nil {
		return nil, err
	}
	s.Ordinary = make([]Ordinary, len(f.Samples))
	s.bubble(t, func(t *testing.T) {
		r := newRun(f)
		one := newSession(t, r, s)
		defer one.Close()
		for i := range f.Samples {
			s.Ordinary[i] = ordinary(one, &f.Samples[i])
		}
		err = r.brokenAs()
	})
	return s, err
}

// read makes a connector and reads its manifest.
func (s *Subject) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic: %v", p)
		}
	}()
	c, err := s.Fixture.New()
	if err == nil && c == nil {
		err = errors.New("Fixture.New returned nothing")
	}
	if err != nil {
		return err
	}
	s.Manifest = c.Manifest()
	s.routes = routesOf(s.Manifest)
	return nil
}

// brokenAs is an error if the suite itself failed.
func (r *run) brokenAs() error {
	if r.broken == "" {
		return nil
	}
	return errors.New("connectortest: " + r.broken)
}

func (s *Subject) checkSamples() error {
	for _, x := range s.Fixture.Samples {
		if s.Declaration(x.Capability) == nil {
			return fmt.Errorf("connectortest: a sample names %q, which the manifest does not declare", x.Capability)
		}
		for what, text := range map[string]string{"Args": x.Args, "Bob": x.Bob, "Empty": x.Empty, "Missing": x.Missing, "Denied": x.Denied, "Other": x.Other} {
			var args map[string]json.RawMessage
			if (text != "" || what == "Args") && json.Unmarshal([]byte(text), &args) != nil {
				return fmt.Errorf("connectortest: %s of the sample of %q is no JSON object", what, x.Capability)
			}
		}
	}
	return nil
}

// readsOnly reports whether nothing may be changed.
func (s *Subject) readsOnly() bool { return s.Mode == InLive || s.Mode == InReplay }

func ordinary(s *Session, x *Sample) Ordinary {
	before := s.Requests()
	if s.broken != nil {
		return Ordinary{Why: "there is no host for the connector: " + s.broken.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	c := Call{Sample: x, Capability: x.Capability, Args: x.Args}
	if s.Kind(c) == connector.KindWrite && s.readsOnly() {
		return Ordinary{Works: true}
	}
	r := s.Do(ctx, c)
	o := Ordinary{Requests: s.Requests() - before, Result: r, Sent: s.Since(before)}
	m, effect := r.Meaning(), r.Effect.Disposition
	switch {
	case s.Kind(c) == connector.KindWrite && effect != toolresult.EffectApplied && effect != toolresult.EffectPending,
		m != toolresult.MeaningComplete && m != toolresult.MeaningGaps && m != toolresult.MeaningPending:
		o.Why = s.explain(r)
	case s.Kind(c) != connector.KindWrite && (len(r.Data) == 0 || string(r.Data) == "null" || string(r.Data) == "[]"):
		o.Why = "it answers without data"
	case len(s.Declaration(c.Capability).Routes) > 0 && o.Requests == 0:
		o.Why = "it asks the provider nothing"
	default:
		o.Works = true
		return o
	}
	o.Detail = s.detail(&o)
	return o
}

// Do runs one check.
func Do(t *testing.T, s *Subject, c *Check) Result {
	out := Result{Check: c.ID, Promise: c.Promise, Level: c.Level, Mode: s.Mode}
	modes := c.Modes
	if modes == 0 {
		modes = InDouble
	}
	if s.Mode&modes == 0 {
		out.Verdict, out.Reason = NotApplicable, "cannot be checked in mode "+s.Mode.String()
		return out
	}
	if c.Needs != nil {
		if why := c.Needs(s); why != "" {
			out.Verdict, out.Reason = NotApplicable, why
			return out
		}
	}
	if why := s.control(); why != "" && !c.Static && !c.Own {
		out.Verdict, out.Reason = Inconclusive, why
		return out
	}
	r := newRun(s.Fixture)
	left := s.bubble(t, func(t *testing.T) { r.check(t, s, c) })
	if left != "" && r.broken == "" && len(r.findings) == 0 {
		r.leftovers(c, left)
	}
	r.verdict(s, c, &out)
	return out
}

// check runs inside of the bubble.
func (r *run) check(t *testing.T, s *Subject, c *Check) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*24*time.Hour)
	defer cancel()
	began := time.Now()
	session := newSession(t, r, s)
	defer func() {
		r.virtual = time.Since(began)
		if p := recover(); p != nil {
			r.breaks("the check panicked: ", p)
		}
		for _, s := range r.sessions {
			s.Close()
		}
	}()
	if session.broken != nil && !c.Static {
		session.Inconclusive("there is no host for the connector: " + session.broken.Error())
		return
	}
	c.Run(ctx, session)
}

// leftovers is what a bubble says that could not end.
func (r *run) leftovers(c *Check, left string) {
	if c.ID == "cancel/no-goroutine-left" {
		r.findings = append(r.findings, Finding{Got: left, Want: "no goroutine that outlives its call"})
	}
}

func (r *run) verdict(s *Subject, c *Check, out *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Findings, out.Requests, out.Faults, out.Virtual = r.findings, r.requests, r.fired, r.virtual
	switch {
	case r.broken != "":
		out.Verdict, out.Reason = Broken, r.broken
	case len(r.findings) > 0:
		out.Verdict = Fail
	case r.inconclusive != "":
		out.Verdict, out.Reason = Inconclusive, r.inconclusive
	case r.notApplicable != "":
		out.Verdict, out.Reason = NotApplicable, r.notApplicable
	case r.wanted > 0 && r.fired == 0:
		out.Verdict, out.Reason = Inconclusive, "no fault that was planned happened: the connector made no request that it could happen to"
	case r.stated == 0:
		out.Verdict, out.Reason = Inconclusive, "the samples give the check nothing to look at"
	default:
		out.Verdict = Pass
	}
	if !out.Verdict.Green() {
		out.Transcript = r.transcript()
	}
}

// bubble runs f, in a bubble of virtual time if the mode has it. It returns what
// the bubble says if it cannot end, such as that goroutines are left; empty: it
// ended.
func (s *Subject) bubble(t *testing.T, f func(t *testing.T)) (left string) {
	done := make(chan string, 1)
	go func() {
		left := "the check ended the test"
		defer func() {
			if p := recover(); p != nil {
				left = fmt.Sprint(p)
			}
			done <- left
		}()
		if s.Mode.virtual() {
			synctest.Test(t, f)
		} else {
			f(t)
		}
		left = ""
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case left = <-done:
		return left
	case <-timer.C:
		return "something hangs where virtual time does not help, such as a real socket or a lock"
	}
}

// Digest returns "sha256:..." over all declarations of a manifest.
func Digest(m connector.Manifest) string {
	parts := []string{m.ID, m.Version}
	for _, d := range m.Capabilities {
		parts = append(parts, d.Digest())
	}
	return strictjson.Digest(parts...)
}
