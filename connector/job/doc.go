// Package job does at intervals what nobody asks for, once among all processes
// that share a database.
//
// A process is killed after it has sent a change and before it has stored the
// answer. Its operation is unknown, and stays so until somebody asks for it by
// its id; if the one who asked first has gone home, nobody does. So a host gives
// one of its processes, or all of them, a [Runner]:
//
//	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN("/var/lib/app/operations.db"))
//	...
//	inv, err := connector.NewInvoker(..., &connector.Options{Recovery: authz.NewAuthority("recovery"), ...})
//	...
//	runner, err := job.Open(ctx, db, sqlstore.SQLite, []job.Sweep{job.Recover(inv, 100)}, nil)
//	...
//	err = runner.Run(ctx) // until ctx ends
//
// Within a minute of the end of the dead process's lease on the operation,
// [Recover] has looked it up at the provider, and has sent nothing. [Expire]
// removes artifacts that are over. [Webhooks] handles what providers sent, and
// [Ingest] keeps an index of a provider's objects up to date. Other housekeeping of a host is a [Sweep] of
// its own: a name, an interval and a function.
//
// # How often a sweep runs
//
// Time is cut into periods of Every, from the same origin in all processes. A
// sweep is run in each, as soon as somebody is there to do it, and not again in
// that period once it has been done. It is never begun while it runs anywhere;
// if it is still at it when a period begins, that one is left out.
//
// A sweep that fails, or is not done when its Timeout ends its context, is run
// again after a second, then two, four and so on, at most Every later, and
// Options.Failed is told each time. When the Runner's own context ends in the
// middle of one, that is no failure: another process takes it at once.
//
// One process leads, which is to say that it begins the periods. When it ends
// in order, another leads within six seconds; when it is killed, within twenty or
// so. A sweep that was killed with it is run again after the longest Timeout, ten
// seconds and at most half a minute more. So is one that goes on after its
// context has ended, and that one is then run beside itself: a sweep has to mind
// its context.
//
// # What lies in the database
//
// Jobs are River's (github.com/riverqueue/river), in tables of its own, river_*,
// beside ours. A job there is a name and times. Of a failure they hold its code
// and no text, because texts are in clear there. A process looks for work once a
// second for each sweep. SQLite is a driver that River calls young; what we
// depend on is tried here on both.
//
// A program links River's drivers of both databases, whichever it uses: about
// 5 MB, among them lib/pq, which registers itself with database/sql as
// "postgres".
//
// # What it does not do
//
// It is no queue for a host's work, and takes no arguments: a sweep asks a store
// what is to be done. It does not make a sweep's effects happen once, only its
// runs; a sweep is killed half-way and starts again. It shares River's tables
// with nobody: a host with a River of its own keeps that in another schema or
// file, because whoever leads there would begin none of these periods. All
// processes over one database have to be given the same sweeps, for the same
// reason.
package job
