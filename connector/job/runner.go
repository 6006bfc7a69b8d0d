package job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	// kind and the queues are this package's names in River's tables.
	kind  = "drawbridge_sweep"
	queue = "drawbridge_"

	// grace is how long after its context's end a run is taken for dead.
	grace = 10 * time.Second

	// kept is how long what has become of a job stays in the tables, at least.
	kept = time.Hour

	// poll is how often a process looks for a run that another has begun.
	poll = time.Second
)

// args are all that a job is made of. It is looked for by its queue, which is
// the sweep's own, so that a process works only on sweeps that it knows.
type args struct {
	Sweep string `json:"sweep" river:"unique"`
}

// Kind implements river.JobArgs.
func (args) Kind() string { return kind }

// Run runs the sweeps until ctx ends, and returns nil then, after those that run
// have returned. It has no goroutine left after that. It returns at once, with
// an error, if the database cannot be reached at the start; later it goes on, and
// logs. Run may be called again, but not twice at a time: that is ErrRunning.
func (r *Runner) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	client, err := r.client()
	if err != nil {
		return fmt.Errorf("job: River: %w", err)
	}
	if err := client.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("job: River did not start: %w", err)
	}
	<-client.Stopped()
	if ctx.Err() == nil {
		return errors.New("job: River has stopped by itself")
	}
	return nil
}

func (r *Runner) client() (*river.Client[*sql.Tx], error) {
	c := &river.Config{
		CompletedJobRetentionPeriod: kept,
		DiscardedJobRetentionPeriod: kept,
		FetchPollInterval:           poll,
		Logger:                      r.opts.Logger,
		PollOnly:                    true, // a listener needs a connection to itself, and gains us seconds
		Queues:                      map[string]river.QueueConfig{},
		Workers:                     river.NewWorkers(),
	}
	for _, s := range r.sweeps {
		c.Queues[queue+s.Name] = river.QueueConfig{MaxWorkers: 1}
		c.PeriodicJobs = append(c.PeriodicJobs, s.periodic())
		c.JobTimeout = max(c.JobTimeout, s.Timeout)
		// the last run of a period has to be there until the period ends
		c.CompletedJobRetentionPeriod = max(c.CompletedJobRetentionPeriod, 2*s.Every)
	}
	c.RescueStuckJobsAfter = c.JobTimeout + grace
	if err := river.AddWorkerSafely(c.Workers, &worker{r: r}); err != nil {
		return nil, err
	}
	return river.NewClient(r.driver, c)
}

// periodic begins a job at each period's start, and when a process comes to
// lead, in case that nobody did at the start. While there is one that is not
// over, River's unique index keeps out another.
func (s *Sweep) periodic() *river.PeriodicJob {
	a, opts := args{s.Name}, river.InsertOpts{
		Queue: queue + s.Name,
		UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
		}},
	}
	return river.NewPeriodicJob(period(s.Every), func() (river.JobArgs, *river.InsertOpts) { return a, &opts }, &river.PeriodicJobOpts{RunOnStart: true})
}

// period cuts time from its zero, which is the same for all processes.
type period time.Duration

// Next implements river.PeriodicSchedule.
func (p period) Next(now time.Time) time.Time { return p.of(now).Add(time.Duration(p)) }

func (p period) of(at time.Time) time.Time { return at.UTC().Truncate(time.Duration(p)) }

// worker runs sweeps as River's jobs.
type worker struct {
	river.WorkerDefaults[args]
	r *Runner
}

// sweep finds a job's. A leader asks about others' jobs as well; those have none.
func (w *worker) sweep(job *river.Job[args]) (Sweep, bool) {
	i := slices.IndexFunc(w.r.sweeps, func(s Sweep) bool { return s.Name == job.Args.Sweep })
	if i < 0 {
		return Sweep{}, false
	}
	return w.r.sweeps[i], true
}

// Timeout implements river.Worker.
func (w *worker) Timeout(job *river.Job[args]) time.Duration {
	s, _ := w.sweep(job)
	return s.Timeout
}

// NextRetry implements river.Worker.
func (w *worker) NextRetry(job *river.Job[args]) time.Time {
	s, ok := w.sweep(job)
	if !ok {
		return time.Time{} // as River does it
	}
	return time.Now().Add(min(s.Every, time.Second<<min(max(job.Attempt-1, 0), 30)))
}

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, job *river.Job[args]) error {
	s, ok := w.sweep(job)
	if !ok {
		return errors.New("this process has no such sweep")
	}
	done, err := s.done(ctx, job)
	if err == nil && !done {
		err = s.run(ctx)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled): // Run's has ended: whoever is there goes on
		return river.JobSnooze(0)
	}
	w.r.failed(ctx, &Failure{s.Name, job.Attempt, err})
	return fmt.Errorf("the sweep failed: %s", toolresult.Code(err)) // which River stores in clear
}

// done reports whether the job's period has had its run: another leader's, whose
// place this one's took.
func (s *Sweep) done(ctx context.Context, job *river.Job[args]) (bool, error) {
	last, err := river.ClientFromContext[*sql.Tx](ctx).JobList(ctx, river.NewJobListParams().Queues(queue+s.Name).
		States(rivertype.JobStateCompleted).OrderBy(river.JobListOrderByID, river.SortOrderDesc).First(1))
	if err != nil || len(last.Jobs) == 0 {
		return false, err
	}
	p := period(s.Every)
	return !p.of(last.Jobs[0].ScheduledAt).Before(p.of(job.ScheduledAt)), nil
}

func (s *Sweep) run(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, v, debug.Stack())
		}
	}()
	return s.Run(ctx)
}

func (r *Runner) failed(ctx context.Context, f *Failure) {
	r.opts.Logger.LogAttrs(ctx, slog.LevelError, "a sweep failed", slog.String("sweep", f.Sweep), slog.Int("attempt", f.Attempt), slog.Any("error", f.Err))
	if r.opts.Failed != nil {
		r.opts.Failed(ctx, f)
	}
}
