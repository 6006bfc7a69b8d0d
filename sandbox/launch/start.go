package launch

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Approvals know what a person approved. Implementations are safe for
// concurrent use.
type Approvals interface {
	// Approved returns the fingerprint that was approved under a name, or ""
	// if none was. It is asked at each start, so that an approval can be taken
	// back. An error refuses the start.
	Approved(ctx context.Context, name string) (fingerprint string, err error)
}

// Approved are approvals by name, to be kept where a change is reviewed. It
// must not be changed while it is used.
type Approved map[string]string

// Approved implements Approvals.
func (a Approved) Approved(_ context.Context, name string) (string, error) { return a[name], nil }

// Options of Start. Nil is the zero Options.
type Options struct {
	// Env are the values of the variables in Spec.Env: all of them, and no
	// other. They are not part of the approval.
	Env map[string]string

	// Stderr is given what the program says there, at most the rules'
	// max_output_bytes. It comes from the program. Nil: dropped.
	Stderr io.Writer

	// Grace is how long Close waits, after it has closed the program's input,
	// before it kills it. 0: 2 s.
	Grace time.Duration
}

// Start starts an approved program. It inspects the specification anew, so that
// whatever has changed since the approval is found, and gives the executor the
// pins of what it found: what changes after that is not run either.
//
// The error is APPROVAL_REQUIRED if nothing was approved under the name,
// APPROVAL_INVALID if something else was, and whatever Inspect and the
// executor's Start return; in each case nothing ran. The program ends with ctx,
// with Close, or by the rules' timeout. opts may be nil.
func Start(ctx context.Context, x sandbox.Executor, s *Spec, rules *sandbox.Rules, approvals Approvals, opts *Options) (*Process, error) {
	if opts == nil {
		opts = &Options{}
	}
	if x == nil || approvals == nil {
		return nil, invalid("/", "there is no executor, or there are no approvals")
	}
	plan, err := Inspect(s, rules)
	if err != nil {
		return nil, err
	}
	if err := plan.approved(ctx, approvals); err != nil {
		return nil, err
	}
	if got := slices.Sorted(maps.Keys(opts.Env)); !slices.Equal(got, plan.facts.Env) {
		return nil, invalid("/env", "the variables given are not those of the specification")
	}
	return plan.start(ctx, x, rules, opts)
}

func (p *Plan) approved(ctx context.Context, approvals Approvals) error {
	print, err := approvals.Approved(ctx, p.facts.Name)
	switch {
	case err != nil:
		return fmt.Errorf("launch: %q: approvals: %w", p.facts.Name, err)
	case print == "":
		return fmt.Errorf("launch: %w", toolresult.NewError(toolresult.ApprovalRequired, "nobody approved this program").With("/name", "show Plan.Text to a person and keep the fingerprint"))
	case print != p.print:
		return fmt.Errorf("launch: %w", toolresult.NewError(toolresult.ApprovalInvalid, "another launch was approved under this name: program, script, argument, variable, directory or rules differ").With("/name", "have it read and approved again"))
	}
	return nil
}

func (p *Plan) start(ctx context.Context, x sandbox.Executor, rules *sandbox.Rules, opts *Options) (*Process, error) {
	c := p.command
	c.Env = maps.Clone(opts.Env)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c.Stdin, c.Stdout, c.Stderr = inR, &limited{w: outW, left: rules.MaxOutput}, opts.Stderr
	run, err := x.Start(ctx, rules, &c)
	if err != nil {
		return nil, err
	}
	q := &Process{in: inW, out: outR, run: run, grace: opts.Grace, done: make(chan struct{})}
	if q.grace <= 0 {
		q.grace = 2 * time.Second
	}
	go func() {
		defer close(q.done)
		q.result, q.err = run.Wait()
		outW.Close()
		inR.CloseWithError(io.ErrClosedPipe)
	}()
	return q, nil
}

// limited ends the stream at the limit, where the executor would drop the rest
// in silence.
type limited struct {
	w    *io.PipeWriter
	left int64
}

func (l *limited) Write(b []byte) (int, error) {
	n, err := l.w.Write(b)
	if l.left -= int64(n); l.left <= 0 && err == nil {
		l.w.CloseWithError(fmt.Errorf("launch: %w", toolresult.NewError(toolresult.ResultTooLarge, "the program wrote more than the rules' max_output_bytes")))
	}
	return n, err
}

// Process is a program that was started: reading reads its standard output,
// writing writes its standard input. It is safe for one reader and one writer.
type Process struct {
	in    *io.PipeWriter
	out   *io.PipeReader
	run   sandbox.Running
	grace time.Duration

	once   sync.Once
	done   chan struct{}
	result *sandbox.Result // when done is closed
	err    error
}

// Read implements io.Reader.
func (p *Process) Read(b []byte) (int, error) { return p.out.Read(b) }

// Write implements io.Writer.
func (p *Process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends the program and everything that it started, and waits for it. It
// may be called more than once. The error is the sandbox's.
func (p *Process) Close() error {
	p.once.Do(p.stop)
	<-p.done
	return p.err
}

func (p *Process) stop() {
	p.in.Close()
	go io.Copy(io.Discard, p.out) // ends when the program does: it may be waiting for a reader
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.run.Kill()
	}
}

// Wait returns how the program ended, when it has. Close must be called all the
// same.
func (p *Process) Wait() (*sandbox.Result, error) {
	<-p.done
	return p.result, p.err
}
