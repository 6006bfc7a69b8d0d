package job_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/drawbridge-sdk/drawbridge/connector/job"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		victim()
		return
	}
	goleak.VerifyTestMain(m)
}

// place is a database of its own that can be opened several times.
type place struct {
	dialect     sqlstore.Dialect
	driver, dsn string
}

func newSQLite(t *testing.T) place {
	return place{sqlstore.SQLite, "sqlite", sqlstore.SQLiteDSN(filepath.Join(t.TempDir(), "a file.db"))}
}

func newSchema(t *testing.T, server, name string) place {
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec("CREATE SCHEMA " + name)
	require.NoError(t, err)
	return place{sqlstore.PostgreSQL, "pgx", server + " search_path=" + name}
}

// db connects as a process of its own would.
func (p place) db(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(p.driver, p.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// start runs sweeps, as a process of its own would, until stop or the test's end.
func (p place) start(t *testing.T, opts *job.Options, sweeps ...job.Sweep) (stop func()) {
	t.Helper()
	r, err := job.Open(t.Context(), p.db(t), p.dialect, sweeps, opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// eventually waits for what does happen. How long it may take is no claim.
func eventually(t *testing.T, happens func() bool, what string) {
	t.Helper()
	require.Eventually(t, happens, 3*time.Minute, 50*time.Millisecond, what)
}

// What holds over either database. The tests of one run side by side.
func TestSweeps(t *testing.T) {
	rows := []struct {
		says string
		test func(t *testing.T, p place)
	}{
		{"a sweep is run in each period, by one of two runners, and not at the same time", periods},
		{"a run longer than a period is not begun again beside itself", overlong},
		{"one that fails or panics is reported, and tried again before its next period", failing},
		{"a context that ends is no failure, and somebody else goes on at once", handedOver},
		{"a process that comes when the period has had its run does not repeat it", restarted},
		{"the sweep of a process that is killed is taken over", killed},
		{"an unknown operation of a dead process is settled without anybody asking", recovered}, // W4
		{"several processes may make the tables at the same time", opened},
	}
	on := func(fresh func(t *testing.T, n int) place) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			for n, row := range rows {
				t.Run(row.says, func(t *testing.T) {
					t.Parallel()
					row.test(t, fresh(t, n))
				})
			}
		}
	}
	server := peers.PostgreSQL(t)
	t.Run("SQLite", on(func(t *testing.T, _ int) place { return newSQLite(t) }))
	t.Run("PostgreSQL", on(func(t *testing.T, n int) place { return newSchema(t, server, fmt.Sprint("test", n)) }))
}

// gauge counts runs, and the most there have been at a time.
type gauge struct{ runs, now, most atomic.Int64 }

func (g *gauge) enter() {
	g.runs.Add(1)
	n := g.now.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
}

func (g *gauge) leave() { g.now.Add(-1) }

func periods(t *testing.T, p place) {
	var g gauge
	const every = 2 * time.Second
	s := job.Sweep{Name: "s", Every: every, Run: func(context.Context) error {
		g.enter()
		g.leave()
		return nil
	}}
	first := time.Now().Truncate(every)
	stop1, stop2 := p.start(t, nil, s), p.start(t, nil, s)
	eventually(t, func() bool { return g.runs.Load() >= 4 }, "it runs")
	stop1()
	stop2()
	require.EqualValues(t, 1, g.most.Load())
	last := time.Now().Truncate(every)
	require.LessOrEqual(t, g.runs.Load(), int64(last.Sub(first)/every)+1, "once in a period")
}

func overlong(t *testing.T, p place) {
	var g gauge
	goOn := make(chan struct{})
	s := job.Sweep{Name: "s", Every: time.Second, Run: func(ctx context.Context) error {
		g.enter()
		defer g.leave()
		select {
		case <-ctx.Done():
		case <-goOn:
		}
		return nil
	}}
	p.start(t, nil, s)
	p.start(t, nil, s)
	eventually(t, func() bool { return g.runs.Load() == 1 }, "it runs")
	begun := time.Now()
	eventually(t, func() bool { return time.Since(begun) > 4*s.Every }, "periods go by")
	require.EqualValues(t, 1, g.runs.Load())
	close(goOn)
	eventually(t, func() bool { return g.runs.Load() >= 3 }, "then it goes on")
	require.EqualValues(t, 1, g.most.Load())
}

const secret = "canary-of-a-sweep"

func failing(t *testing.T, p place) {
	var mu sync.Mutex
	var told []job.Failure
	var log bytes.Buffer
	opts := &job.Options{
		Failed: func(_ context.Context, f *job.Failure) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, *f)
		},
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	var runs atomic.Int64
	oops := errors.New(secret)
	stop := p.start(t, opts, job.Sweep{Name: "s", Every: 24 * time.Hour, Run: func(context.Context) error {
		switch runs.Add(1) {
		case 1:
			return oops
		case 2:
			panic(secret)
		}
		return nil
	}})
	eventually(t, func() bool { return runs.Load() == 3 }, "it is tried again")
	eventually(t, func() bool { return p.count(t, "state = 'completed'") == 1 }, "it is done")
	stop()
	require.Len(t, told, 2)
	require.Equal(t, job.Failure{Sweep: "s", Attempt: 1, Err: oops}, told[0])
	require.Equal(t, 2, told[1].Attempt)
	require.ErrorIs(t, told[1].Err, job.ErrPanic)
	require.ErrorContains(t, told[1].Err, secret)
	require.Equal(t, 2, strings.Count(log.String(), "a sweep failed"), log.String())
	require.Equal(t, 1, p.count(t, "true"), "attempts are of one job")
	require.Zero(t, p.count(t, "CAST(errors AS TEXT) LIKE '%canary%'"), "texts of failures are not stored")
}

// count counts River's jobs. While they cannot be counted there are -1.
func (p place) count(t *testing.T, where string) (n int) {
	t.Helper()
	db, err := sql.Open(p.driver, p.dsn)
	if err != nil {
		return -1
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM river_job WHERE " + where).Scan(&n); err != nil {
		t.Log(err)
		return -1
	}
	return n
}

func handedOver(t *testing.T, p place) {
	var runs atomic.Int64
	var over error
	failed := func(_ context.Context, f *job.Failure) { t.Errorf("failed: %v", f.Err) }
	stop := p.start(t, &job.Options{Failed: failed}, job.Sweep{Name: "s", Every: 24 * time.Hour, Run: func(ctx context.Context) error {
		runs.Add(1)
		<-ctx.Done()
		over = ctx.Err()
		return over
	}})
	eventually(t, func() bool { return runs.Load() == 1 }, "it runs")
	var others atomic.Int64
	p.start(t, &job.Options{Failed: failed}, job.Sweep{Name: "s", Every: 24 * time.Hour, Run: func(context.Context) error {
		others.Add(1)
		return nil
	}})
	stop()
	require.ErrorIs(t, over, context.Canceled)
	eventually(t, func() bool { return others.Load() == 1 }, "the other goes on")
	eventually(t, func() bool { return p.count(t, "state = 'completed' AND attempt = 1") == 1 }, "as the same attempt")
}

func restarted(t *testing.T, p place) {
	var runs, beside atomic.Int64
	counting := func(n *atomic.Int64) func(context.Context) error {
		return func(context.Context) error {
			n.Add(1)
			return nil
		}
	}
	s := job.Sweep{Name: "s", Every: 24 * time.Hour, Run: counting(&runs)}
	begun := time.Now().Truncate(s.Every)
	stop := p.start(t, nil, s)
	eventually(t, func() bool { return p.count(t, "state = 'completed'") == 1 }, "it is done")
	stop()
	// the new one leads, begins all of its sweeps, and does the other
	p.start(t, nil, s, job.Sweep{Name: "other", Every: 24 * time.Hour, Run: counting(&beside)})
	eventually(t, func() bool { return beside.Load() == 1 && p.count(t, "state = 'completed'") == 3 }, "it leads")
	if time.Now().Truncate(s.Every).Equal(begun) { // else the day has ended in between
		require.EqualValues(t, 1, runs.Load())
	}
}

func opened(t *testing.T, p place) {
	s := []job.Sweep{{Name: "s", Every: time.Hour, Run: func(context.Context) error { return nil }}}
	errs := make(chan error, 4)
	for range cap(errs) {
		db := p.db(t)
		go func() {
			_, err := job.Open(t.Context(), db, p.dialect, s, nil)
			errs <- err
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.Zero(t, p.count(t, "true"))
}

// Everything that Run starts has ended when it returns.
func TestRunLeavesNothingBehind(t *testing.T) {
	p := newSQLite(t)
	db := p.db(t)
	require.NoError(t, db.Ping())
	var runs atomic.Int64
	r, err := job.Open(t.Context(), db, p.dialect, []job.Sweep{{Name: "s", Every: time.Second, Run: func(context.Context) error {
		runs.Add(1)
		return nil
	}}}, nil)
	require.NoError(t, err)
	before := goleak.IgnoreCurrent()
	for i := range int64(2) { // a Runner may be run again
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		eventually(t, func() bool { return runs.Load() > 2*i }, "it runs")
		require.ErrorIs(t, r.Run(ctx), job.ErrRunning)
		cancel()
		require.NoError(t, <-ended)
		goleak.VerifyNone(t, before)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Run(over), "a context that is over")
	db.Close()
	require.Error(t, r.Run(t.Context()), "a database that is closed")
	goleak.VerifyNone(t, before)
}

func TestOpenRefuses(t *testing.T) {
	p := newSQLite(t)
	db := p.db(t)
	run := func(context.Context) error { return nil }
	good := job.Sweep{Name: "s", Every: time.Hour, Run: run}
	for _, row := range []struct {
		db      *sql.DB
		dialect sqlstore.Dialect
		sweeps  []job.Sweep
		says    string
	}{
		{nil, sqlstore.SQLite, []job.Sweep{good}, "no database"},
		{db, 0, []job.Sweep{good}, "say SQLite or PostgreSQL"},
		{db, sqlstore.SQLite, nil, "no sweeps"},
		{db, sqlstore.SQLite, []job.Sweep{good, good}, `sweep 1, "s": two have this name`},
		{db, sqlstore.SQLite, []job.Sweep{{Name: "S", Every: time.Hour, Run: run}}, `sweep 0, "S": want a name`},
		{db, sqlstore.SQLite, []job.Sweep{{Name: "a--b", Every: time.Hour, Run: run}}, "want a name"},
		{db, sqlstore.SQLite, []job.Sweep{{Name: strings.Repeat("a", 51), Every: time.Hour, Run: run}}, "want a name"},
		{db, sqlstore.SQLite, []job.Sweep{{Name: "s", Run: run}}, "it is 0s"},
		{db, sqlstore.SQLite, []job.Sweep{{Name: "s", Every: 1500 * time.Millisecond, Run: run}}, "it is 1.5s"},
		{db, sqlstore.SQLite, []job.Sweep{{Name: "s", Every: time.Hour, Timeout: -1, Run: run}}, "not under 0"},
		{db, sqlstore.SQLite, []job.Sweep{{Name: "s", Every: time.Hour}}, "want a Run"},
		{db, sqlstore.SQLite, []job.Sweep{job.Recover(nil, 1)}, "want a Run"},
	} {
		_, err := job.Open(t.Context(), row.db, row.dialect, row.sweeps, nil)
		require.ErrorIs(t, err, job.ErrOptions)
		require.ErrorContains(t, err, row.says)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := job.Open(over, db, sqlstore.SQLite, []job.Sweep{good}, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// The longest name that check takes is one that River takes.
func TestLongestName(t *testing.T) {
	var runs atomic.Int64
	newSQLite(t).start(t, nil, job.Sweep{Name: strings.Repeat("a_b-", 12) + "c9", Every: time.Hour, Run: func(context.Context) error {
		runs.Add(1)
		return nil
	}})
	eventually(t, func() bool { return runs.Load() == 1 }, "it runs")
}
