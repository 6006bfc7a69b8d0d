package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Handler handles an event. It is called again for the same event if it fails,
// or if its process dies: see the package's documentation for how its effect
// happens once. Its context ends before the claim does. What the event says is
// untrusted.
//
// An error whose code is not retryable (INVALID_INPUT, UNSUPPORTED, ...) is tried
// again like any other: an event is never given up early because a handler
// misjudged it.
type Handler func(ctx context.Context, e *Event) error

// ErrPanic is the failure of a handler that panicked. The text of what wraps it
// has the value and the stack.
var ErrPanic = errors.New("webhook: the handler panicked")

// Report is what ProcessorOptions.Observe is told about a claim that has ended.
type Report struct {
	Event   *Event
	Outcome Outcome
	Err     error // of the handler; nil if it returned nil or was not called
}

// ProcessorOptions are options of a Processor.
type ProcessorOptions struct {
	Workers  int           // handlers at once. 0: 4
	Lease    time.Duration // how long a handler may take. 0: one minute
	Attempts int           // after so many an event is Failed. 0: 20, which is about a day
	Poll     time.Duration // how long Run waits when there was nothing to do. 0: one second

	// Observe is told how each claim ended: those that are Stale, for audit,
	// and those that failed. It must not block.
	Observe func(ctx context.Context, r *Report)

	// Logger gets failures of handlers and of the inbox. Nil: nothing is logged.
	Logger *slog.Logger
}

// Processor hands events to a Handler. It is safe for concurrent use, and any
// number of processes may have one over the same Inbox.
type Processor struct {
	inbox  Inbox
	handle Handler
	opts   ProcessorOptions
}

// NewProcessor returns a Processor. It fails with ErrOptions, and starts nothing.
func NewProcessor(inbox Inbox, handle Handler, opts *ProcessorOptions) (*Processor, error) {
	p := &Processor{inbox: inbox, handle: handle}
	if opts != nil {
		p.opts = *opts
	}
	o := &p.opts
	if inbox == nil || handle == nil || o.Workers < 0 || o.Lease < 0 || o.Attempts < 0 || o.Poll < 0 {
		return nil, fmt.Errorf("%w: want an inbox, a handler, and no option under 0", ErrOptions)
	}
	setDefault(&o.Workers, 4)
	setDefault(&o.Lease, time.Minute)
	setDefault(&o.Attempts, 20)
	setDefault(&o.Poll, time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return p, nil
}

func setDefault[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

// Run handles events until ctx ends, and returns nil then, after the handlers
// that run have returned. It goes on when the inbox fails.
func (p *Processor) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := p.Drain(ctx); err != nil && ctx.Err() == nil {
			p.opts.Logger.LogAttrs(ctx, slog.LevelError, "the inbox failed", slog.Any("error", err))
		}
		timer.Reset(p.opts.Poll)
	}
}

// Drain handles what is due, and returns when there is nothing left that is.
// Failures of handlers are not its errors; those of the inbox are. It is what a
// job engine calls at intervals.
func (p *Processor) Drain(ctx context.Context) error {
	for ctx.Err() == nil {
		now := time.Now()
		list, unread := p.inbox.Claim(ctx, now, now.Add(p.opts.Lease), p.opts.Workers)
		if len(list) == 0 {
			return unread
		}
		errs := make([]error, len(list))
		var wg sync.WaitGroup
		for i := range list {
			wg.Go(func() { errs[i] = p.one(ctx, &list[i]) })
		}
		wg.Wait()
		if err := errors.Join(append(errs, unread)...); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Sweep is Drain, and forgets what is older than Retention.
func (p *Processor) Sweep(ctx context.Context) error {
	return errors.Join(p.Drain(ctx), p.inbox.Forget(ctx, time.Now().Add(-Retention)))
}

var errUnsettled = errors.New("webhook: every attempt was begun and none was ended: does the event kill its process?")

// one handles a claimed event and settles it.
func (p *Processor) one(ctx context.Context, e *Event) error {
	var err error
	o := Outcome{State: Stale}
	switch {
	case e.Superseded():
	case e.Attempts > p.opts.Attempts: // the last ones were begun and never settled: it kills its process
		err = errUnsettled
		o = Outcome{State: Failed, Code: toolresult.Internal}
	default:
		err = p.call(ctx, e)
		o = p.outcome(ctx, e, err)
	}
	o.At = time.Now().UTC()
	if o.State == Waiting {
		o.Due = o.At.Add(pause(e.Attempts))
		if o.Unbegun {
			o.Due = o.At
		}
	}
	if err != nil {
		p.opts.Logger.LogAttrs(ctx, slog.LevelError, "a webhook's handler failed", slog.String("source", e.Source), slog.String("event", e.ID), slog.Int("attempt", e.Attempts), slog.Any("error", err))
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime) // what was done is written down
	defer cancel()
	switch serr := p.inbox.Settle(last, *e, o); {
	case errors.Is(serr, ErrClaim):
		return nil // it took too long, and another has it
	case serr != nil:
		return serr
	}
	if p.opts.Observe != nil {
		p.opts.Observe(ctx, &Report{e, o, err})
	}
	return nil
}

// settleTime is how long an ended claim may take to be written down.
const settleTime = 5 * time.Second

func (p *Processor) outcome(ctx context.Context, e *Event, err error) Outcome {
	switch {
	case err == nil:
		return Outcome{State: Done}
	case ctx.Err() != nil && errors.Is(err, ctx.Err()): // the process ends: whoever is there goes on
		return Outcome{State: Waiting, Unbegun: true}
	case e.Attempts >= p.opts.Attempts:
		return Outcome{State: Failed, Code: toolresult.Code(err)}
	}
	return Outcome{State: Waiting, Code: toolresult.Code(err)}
}

// pause is how long to wait after so many attempts: a second, two, four, ... at
// most four hours.
func pause(attempts int) time.Duration {
	return min(time.Second<<min(max(attempts-1, 0), 20), 4*time.Hour)
}

// call runs the handler, for less time than the claim has, so that it is over
// when somebody else may begin.
func (p *Processor) call(ctx context.Context, e *Event) (err error) {
	ctx, cancel := context.WithDeadline(ctx, e.Due.Add(-p.opts.Lease/10))
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, v, debug.Stack())
		}
	}()
	return p.handle(ctx, e)
}
