package job

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/ingest"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
	"github.com/drawbridge-sdk/drawbridge/internal/lazyre"
)

const defaultTimeout = time.Minute

// Sweep is something to do at intervals.
type Sweep struct {
	// Name tells sweeps apart, in the database too: small letters and digits,
	// in words with "-" or "_" between them, at most 50 bytes.
	Name string

	// Every is how long a period is: at least one second, in whole seconds.
	Every time.Duration

	// Timeout is after how long the context of a run ends. 0: one minute.
	Timeout time.Duration

	// Run does it. It is called by one process at a time, may be called again
	// for what it has already done, and returns soon after its context ends. A
	// panic is an error.
	Run func(ctx context.Context) error
}

// Recover is a sweep that settles at most limit operations that are unknown or
// were left behind, each minute: see [connector.Invoker.Recover]. It finds
// nothing to do unless the Invoker has Options.Recovery. Look-ups are made one
// after the other, and those that a run has no time for are the next one's.
func Recover(inv *connector.Invoker, limit int) Sweep {
	s := Sweep{Name: "recover", Every: time.Minute}
	if inv != nil && limit > 0 { // otherwise Open refuses it
		s.Run = func(ctx context.Context) error {
			_, err := inv.Recover(ctx, limit)
			return err
		}
	}
	return s
}

// Expire is a sweep that removes artifacts that are over, and what uploads that
// died have left, each hour. *sqlstore.Artifacts and *dirstore.Store have such a
// Sweep. Two stores need two names.
func Expire(artifacts interface {
	Sweep(ctx context.Context) error
}) Sweep {
	s := Sweep{Name: "expire", Every: time.Hour}
	if artifacts != nil { // otherwise Open refuses it
		s.Run = artifacts.Sweep
	}
	return s
}

// Webhooks is a sweep that handles events that providers sent, each second, and
// forgets old ones: see [webhook.Processor.Sweep]. One process at a time runs it,
// with as many handlers at once as the Processor has workers; what it is at when
// the sweep's ten minutes end is given back and goes on in the next. A host that
// wants all its processes to handle events, or wants them sooner than a second
// or two after they came, calls the Processor's Run instead, or as well.
func Webhooks(p *webhook.Processor) Sweep {
	s := Sweep{Name: "webhooks", Every: time.Second, Timeout: 10 * time.Minute}
	if p != nil { // otherwise Open refuses it
		s.Run = p.Sweep
	}
	return s
}

// Ingest is two sweeps that keep a feed up to date: name, which takes in what has
// changed, each time every is over, and name with "-walk" after it, which goes on
// with a walk through everything each hour. See [ingest.Syncer].
func Ingest(name string, every time.Duration, s *ingest.Syncer) []Sweep {
	changes, walk := Sweep{Name: name, Every: every, Timeout: 10 * time.Minute}, Sweep{Name: name + "-walk", Every: time.Hour, Timeout: 10 * time.Minute}
	if s != nil { // otherwise Open refuses them
		changes.Run = func(ctx context.Context) error { _, err := s.Sync(ctx); return elsewhere(err) }
		walk.Run = func(ctx context.Context) error { _, err := s.Reconcile(ctx); return elsewhere(err) }
	}
	return []Sweep{changes, walk}
}

// elsewhere forgives a run that somebody else has overtaken.
func elsewhere(err error) error {
	if errors.Is(err, ingest.ErrVersion) {
		return nil
	}
	return err
}

// Failure is what Options.Failed is told.
type Failure struct {
	Sweep   string // its name
	Attempt int    // from 1, since it last succeeded or was given up
	Err     error  // as Run returned it, or ErrPanic, wrapped
}

// Options are options of Open.
type Options struct {
	// Failed is told about each run that failed. It must not block. Nil: only
	// the log is.
	Failed func(ctx context.Context, f *Failure)

	// Logger gets failures, and what River says about itself. Nil: nothing is
	// logged.
	Logger *slog.Logger
}

// Errors of this package, which it returns wrapped.
var (
	// ErrOptions says that Open was asked for something it does not do.
	ErrOptions = errors.New("job: options")

	// ErrRunning says that the Runner runs already.
	ErrRunning = errors.New("job: it runs already")

	// ErrPanic is the failure of a sweep that panicked. The text of what wraps
	// it has the value and the stack.
	ErrPanic = errors.New("job: the sweep panicked")
)

// Runner runs sweeps. It is safe for concurrent use.
type Runner struct {
	driver  riverdriver.Driver[*sql.Tx]
	sweeps  []Sweep
	opts    Options
	running atomic.Bool
}

// Open makes or brings up to date River's tables in a database, and returns a
// Runner for the sweeps, of which there has to be one. It starts nothing, and
// changes nothing in a database that is up to date. It fails with ErrOptions, or as the
// database does. The database stays the caller's, and must be open as long as
// the Runner runs.
//
// A SQLite file has to be connected to as [sqlstore.SQLiteDSN] does it; on
// PostgreSQL the tables are made in the first schema of the connection's search
// path.
func Open(ctx context.Context, db *sql.DB, dialect sqlstore.Dialect, sweeps []Sweep, opts *Options) (*Runner, error) {
	r := &Runner{sweeps: slices.Clone(sweeps)}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.Logger == nil { // River's own default is to print
		r.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if db == nil {
		return nil, fmt.Errorf("%w: no database", ErrOptions)
	}
	switch dialect {
	case sqlstore.SQLite:
		r.driver = riversqlite.New(db)
	case sqlstore.PostgreSQL:
		r.driver = riverdatabasesql.New(db)
	default:
		return nil, fmt.Errorf("%w: say SQLite or PostgreSQL", ErrOptions)
	}
	if err := check(r.sweeps); err != nil {
		return nil, err
	}
	if err := r.migrate(ctx); err != nil {
		return nil, fmt.Errorf("job: River's tables: %w", err)
	}
	return r, nil
}

// nameForm is a part of what River takes for a queue's name.
var nameForm = lazyre.New(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

// check fills in what has a default, and refuses what cannot run.
func check(sweeps []Sweep) error {
	if len(sweeps) == 0 {
		return fmt.Errorf("%w: no sweeps", ErrOptions)
	}
	seen := map[string]bool{}
	for i := range sweeps {
		s := &sweeps[i]
		why := ""
		switch {
		case len(s.Name) > 50 || !nameForm.MatchString(s.Name):
			why = `want a name of small letters and digits, in words with "-" or "_" between them, at most 50 bytes`
		case seen[s.Name]:
			why = "two have this name"
		case s.Every < time.Second || s.Every%time.Second != 0:
			why = fmt.Sprintf("want Every in whole seconds, at least one; it is %v", s.Every)
		case s.Timeout < 0:
			why = fmt.Sprintf("want a Timeout that is not under 0; it is %v", s.Timeout)
		case s.Run == nil:
			why = "want a Run (Recover has none without an Invoker, or with a limit under 1; Expire none without a store; Webhooks and Ingest none without a Processor and a Syncer)"
		}
		if why != "" {
			return fmt.Errorf("%w: sweep %d, %.50q: %s", ErrOptions, i, s.Name, why)
		}
		seen[s.Name] = true
		s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	}
	return nil
}

// migrate brings River's tables up to date. Others may be at it at the same
// time: each step is a transaction, and a step that one process loses is one that
// another has made, so that it ends after as many losses as there are steps.
func (r *Runner) migrate(ctx context.Context) error {
	m, err := rivermigrate.New(r.driver, &rivermigrate.Config{Logger: r.opts.Logger})
	if err != nil {
		return err
	}
	for range len(m.AllVersions()) + 1 {
		var there *rivermigrate.ValidateResult
		if there, err = m.Validate(ctx, nil); err != nil || there.OK {
			return err
		}
		if _, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil); err == nil {
			return nil
		}
	}
	return err
}
