package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Service runs programs on another machine. Implementations carry these calls
// there and are safe for concurrent use.
type Service interface {
	// Probe returns the service's report on rules: their JSON and digest, for
	// [sandbox.ParseRules]. It runs nothing.
	Probe(ctx context.Context, rules json.RawMessage, digest string) (*sandbox.Report, error)

	// Run runs the request's program and returns when it and everything that
	// it started are gone. It MUST refuse, with an error and before anything
	// ran, what it cannot enforce, and MUST end the program and return when
	// ctx ends. Streams are used until it returns and not after.
	Run(ctx context.Context, r *Request, s Streams) (*Outcome, error)
}

// Request is one run.
type Request struct {
	Rules  json.RawMessage   `json:"rules"`
	Digest string            `json:"digest"` // of the rules
	Path   string            `json:"path"`
	Args   []string          `json:"args"`
	Dir    string            `json:"dir"`
	Env    map[string]string `json:"env"`
	Pins   []sandbox.Pin     `json:"pins"`
}

// Sum names the request: "sha256:" over its JSON. The outcome repeats it, so
// that one run's outcome is never taken for another's.
func (r *Request) Sum() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // rules that are no JSON: no outcome has this sum
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Streams are what a program reads and writes. None is nil.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Outcome is how a run ended, as the service says.
type Outcome struct {
	Request   string           `json:"request"` // its Sum
	ExitCode  int              `json:"exit_code"`
	Signal    string           `json:"signal,omitempty"`
	TimedOut  bool             `json:"timed_out,omitempty"`
	Truncated bool             `json:"truncated,omitempty"`
	Denials   []sandbox.Denial `json:"denials,omitempty"`
	Dropped   int              `json:"dropped,omitempty"`
	Report    *sandbox.Report  `json:"report"` // what was enforced in this run
}

// Options of an executor. The zero Options are good.
type Options struct {
	// Grace is how much longer than the rules' timeout a run may take, with
	// its way there and back, before it is given up. 0: 30 seconds.
	Grace time.Duration
}

// Executor is a [sandbox.Executor] on another machine. It is safe for
// concurrent use.
type Executor struct {
	service Service
	grace   time.Duration
}

// New returns an executor over a service. opts may be nil.
func New(s Service, opts *Options) (*Executor, error) {
	if s == nil {
		return nil, toolresult.NewError(toolresult.InvalidInput, "a remote executor needs a service")
	}
	x := &Executor{service: s, grace: 30 * time.Second}
	if opts != nil && opts.Grace != 0 {
		x.grace = opts.Grace
	}
	if x.grace < 0 {
		return nil, toolresult.NewError(toolresult.InvalidInput, "the grace must not be negative")
	}
	return x, nil
}

// Probe implements [sandbox.Executor].
func (x *Executor) Probe(ctx context.Context, r *sandbox.Rules) (*sandbox.Report, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("remote: rules: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, x.grace)
	defer cancel()
	said, err := x.service.Probe(ctx, text, r.Digest())
	if err != nil {
		return nil, foreign("probe", err)
	}
	return delegate(said, r)
}

// delegate is what the service's report is worth, and what this package holds
// itself.
func delegate(said *sandbox.Report, r *sandbox.Rules) (*sandbox.Report, error) {
	rep, err := said.Delegate(r)
	if err != nil {
		return nil, err
	}
	rep.Set(sandbox.ProcOutput, sandbox.Enforced, "", "cut on arrival")
	return rep, nil
}

// foreign is an error of a service. Its text may hold anything and is not
// repeated, but what it wraps can be asked for.
func foreign(call string, err error) error {
	for _, own := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, own) {
			return fmt.Errorf("remote: %s: %w", call, own)
		}
	}
	var coded *toolresult.Error
	if errors.As(err, &coded) {
		return fmt.Errorf("remote: %s: the service refused: %w", call, coded)
	}
	return fmt.Errorf("remote: %s: %w", call, &serviceError{err})
}

type serviceError struct{ err error }

func (e *serviceError) Error() string { return "the service failed" }
func (e *serviceError) Unwrap() []error {
	return []error{e.err, toolresult.NewError(toolresult.ProviderUnavailable, "the remote executor failed")}
}

// Start implements [sandbox.Executor].
func (x *Executor) Start(ctx context.Context, r *sandbox.Rules, c *sandbox.Command) (sandbox.Running, error) {
	if err := r.CheckCommand(c); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	rep, err := x.Probe(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := rep.Check(r, c); err != nil {
		return nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("remote: rules: %w", err)
	}
	req := &Request{Rules: text, Digest: r.Digest(), Path: c.Path, Args: c.Args, Dir: c.Dir, Env: c.Env, Pins: c.Pins}
	p := &running{rules: r, report: rep, sum: req.Sum(), began: time.Now(), grace: x.grace, done: make(chan struct{})}
	p.out, p.errs = newCut(c.Stdout, r.MaxOutput), newCut(c.Stderr, r.MaxOutput)
	stdin := c.Stdin
	if stdin == nil {
		stdin = eof{}
	}
	ctx, p.cancel = context.WithTimeout(ctx, r.Timeout+x.grace)
	p.ctx = ctx
	go func() {
		defer close(p.done)
		p.said, p.err = x.service.Run(ctx, req, Streams{stdin, p.out, p.errs})
		p.elapsed = time.Since(p.began)
		p.gaveUp = ctx.Err()
	}()
	return p, nil
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// cut takes at most so many bytes, and none after the run is over.
type cut struct {
	mu    sync.Mutex
	w     io.Writer
	left  int64
	over  bool
	ended bool
}

func newCut(w io.Writer, limit int64) *cut {
	if w == nil {
		w = io.Discard
	}
	return &cut{w: w, left: limit}
}

func (c *cut) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return 0, io.ErrClosedPipe
	}
	keep := min(int64(len(p)), c.left)
	c.over = c.over || keep < int64(len(p))
	c.left -= keep
	if keep > 0 {
		if _, err := c.w.Write(p[:keep]); err != nil {
			c.w = io.Discard
		}
	}
	return len(p), nil
}

func (c *cut) end() (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	return c.over
}

// running is a run of a service.
type running struct {
	rules  *sandbox.Rules
	report *sandbox.Report
	sum    string
	began  time.Time
	grace  time.Duration
	ctx    context.Context // of the run: it ends when the run is given up
	cancel context.CancelFunc
	killed atomic.Bool
	out    *cut
	errs   *cut

	done    chan struct{} // the rest is set when it is closed
	said    *Outcome
	err     error
	gaveUp  error
	elapsed time.Duration
	waited  sync.Once
}

// Kill implements [sandbox.Running]. It asks; Wait returns when it is
// done, or after the grace.
func (p *running) Kill() error {
	p.killed.Store(true)
	p.cancel()
	return nil
}

// Wait implements [sandbox.Running]. An error that is OUTCOME_UNKNOWN says that
// the program ran, or may still.
func (p *running) Wait() (*sandbox.Result, error) {
	first := false
	p.waited.Do(func() { first = true })
	if !first {
		return nil, errors.New("remote: Wait was called twice")
	}
	answered := p.wait()
	p.cancel()
	over := p.out.end()
	over = p.errs.end() || over
	if !answered {
		return nil, fmt.Errorf("remote: run: it does not end: %w", unknown())
	}
	if p.err != nil {
		return nil, p.failed()
	}
	rep, err := p.doubt()
	if err != nil {
		return nil, err
	}
	res := &sandbox.Result{
		ExitCode: p.said.ExitCode, Signal: p.said.Signal, TimedOut: (p.said.TimedOut || p.gaveUp != nil) && !p.killed.Load(),
		Truncated: p.said.Truncated || over, Elapsed: p.elapsed, Exact: map[sandbox.Claim]bool{}, Report: rep,
	}
	var list sandbox.Denials
	for _, d := range p.said.Denials {
		d.Exact = false // we were not there
		list.Add(d)
	}
	res.Denials, res.Dropped = list.List()
	res.Dropped += max(p.said.Dropped, 0)
	return res, nil
}

// wait waits for the service, and for one that does not obey the end of the
// context only a grace more: the caller gets its streams back in any case.
func (p *running) wait() (answered bool) {
	select {
	case <-p.done:
		return true
	case <-p.ctx.Done():
	}
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

func unknown() error {
	return toolresult.NewError(toolresult.OutcomeUnknown, "the remote executor gave no outcome; the program may have run, or run still")
}

// failed says what a run without an outcome is: refused, if the service said
// so with a code, else nobody knows.
func (p *running) failed() error {
	var coded *toolresult.Error
	if p.gaveUp == nil && errors.As(p.err, &coded) && coded.Code != toolresult.OutcomeUnknown {
		return foreign("run", p.err)
	}
	if p.gaveUp != nil {
		return fmt.Errorf("remote: run: %w: %w", p.gaveUp, unknown())
	}
	return fmt.Errorf("remote: run: %w", unknown())
}

// doubt looks for what cannot be true in an outcome. Its report counts anew: a
// service may not promise one boundary and run another.
func (p *running) doubt() (*sandbox.Report, error) {
	lie := func(what string) (*sandbox.Report, error) {
		return nil, fmt.Errorf("remote: the outcome cannot be trusted: %s: %w", what,
			toolresult.NewError(toolresult.ContractViolation, "the remote executor's outcome contradicts its promise; what it ran is not known"))
	}
	s := p.said
	switch {
	case s == nil:
		return lie("there is none")
	case s.Request != p.sum:
		return lie("it is for another request")
	case s.Signal != "" && s.ExitCode != -1 || s.Signal == "" && s.ExitCode < 0 || s.ExitCode > 255:
		return lie("a program does not end like this")
	case len(s.Signal) > 64:
		return lie("its signal is no name")
	}
	rep, err := delegate(s.Report, p.rules)
	if err != nil {
		return lie("its report is none for these rules")
	}
	for _, c := range sandbox.Claims() {
		if rep.Of(c).Strength < p.report.Of(c).Strength {
			return lie(fmt.Sprintf("%s was promised and not enforced in this run", c))
		}
	}
	return rep, nil
}
