package sqlregistry_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/skill/registry/registrytest"
	"github.com/drawbridge-sdk/drawbridge/skill/registry/sqlregistry"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a database of its own that can be opened several times.
type place struct {
	dialect     sqlstore.Dialect
	driver, dsn string
}

// everywhere holds on every database. One server serves all; each test has a
// schema of its own in it.
var everywhere = map[string]func(t *testing.T, fresh func(t testing.TB) place){
	"Store_L3":                testStore_L3,
	"RunsKeepTheirVersion_L3": testRunsKeepTheirVersion_L3,
	"Damaged_L2":              testDamaged_L2,
	"Tenants_L3":              testTenants_L3,
	"PinOrEnd_L3":             testPinOrEnd_L3,
	"FirstPinWins_L3":         testFirstPinWins_L3,
	"Schema":                  testSchema,
}

func TestSQLite(t *testing.T) {
	for name, test := range everywhere {
		t.Run(name, func(t *testing.T) { test(t, newSQLite) })
	}
}

func TestPostgreSQL(t *testing.T) {
	server := peers.PostgreSQL(t)
	for name, test := range everywhere {
		t.Run(name, func(t *testing.T) { test(t, func(t testing.TB) place { return newSchema(t, server) }) })
	}
}

// newSQLite lies in memory where it can: it only has to outlive its handles.
func newSQLite(t testing.TB) place {
	dir, err := os.MkdirTemp("/dev/shm", "sqlregistry")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return place{sqlstore.SQLite, "sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "registry.db"))}
}

func newSchema(t testing.TB, server string) place {
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	var n int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM pg_namespace").Scan(&n))
	name := fmt.Sprint("test", n)
	_, err = db.Exec("CREATE SCHEMA " + name)
	require.NoError(t, err)
	return place{sqlstore.PostgreSQL, "pgx", server + " search_path=" + name}
}

// db connects as a process of its own would.
func (p place) db(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(p.driver, p.dsn)
	require.NoError(t, err)
	db.SetMaxIdleConns(8)
	t.Cleanup(func() { db.Close() })
	return db
}

func (p place) open(t testing.TB, tenant string) *sqlregistry.Store {
	t.Helper()
	s, err := sqlregistry.Open(t.Context(), p.db(t), p.dialect, tenant)
	require.NoError(t, err)
	return s
}

// exec changes the tables behind the store's back.
func (p place) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	done, err := p.db(t).Exec(statement, args...)
	require.NoError(t, err)
	n, err := done.RowsAffected()
	require.NoError(t, err)
	require.Positive(t, n, "it changes something")
}

func testStore_L3(t *testing.T, fresh func(t testing.TB) place) {
	registrytest.Run(t, func(t *testing.T) registry.Store { return fresh(t).open(t, "acme") })
}

// What was changed in the tables by other hands is noticed.
func testDamaged_L2(t *testing.T, fresh func(t testing.TB) place) {
	ctx := context.Background()
	pkg, other := registrytest.Package(t, "a", ""), registrytest.Package(t, "a", "swapped")
	for _, row := range []struct {
		name, says string
		damage     func(p place)
	}{
		{"a revision is gone", "revisions are missing", func(p place) { p.exec(t, "DELETE FROM drawbridge_skill_records WHERE name = 'a' AND rev = 1") }},
		{"a record is cut", "did not write", func(p place) {
			p.exec(t, "UPDATE drawbridge_skill_records SET record = substr(record, 1, 20) WHERE name = 'a' AND rev = 2")
		}},
		{"a record has a field twice", "did not write", func(p place) {
			p.exec(t, `UPDATE drawbridge_skill_records SET record = '{"status":"published",' || substr(record, 2) WHERE name = 'a' AND rev = 2`)
		}},
		{"a record has a field that there is not", "did not write", func(p place) {
			p.exec(t, `UPDATE drawbridge_skill_records SET record = '{"trusted":true,' || substr(record, 2) WHERE name = 'a' AND rev = 2`)
		}},
		{"a record is another's", "that of another record", func(p place) {
			p.exec(t, "UPDATE drawbridge_skill_records SET record = (SELECT record FROM drawbridge_skill_records WHERE name = 'b') WHERE name = 'a' AND rev = 2")
		}},
		{"an older revision is put in place of the last", "that of another record", func(p place) {
			p.exec(t, "UPDATE drawbridge_skill_records SET record = (SELECT record FROM drawbridge_skill_records WHERE name = 'a' AND rev = 1) WHERE name = 'a' AND rev = 2")
		}},
		{"an event is another's", "event of revision 2", func(p place) {
			p.exec(t, "UPDATE drawbridge_skill_records SET event = (SELECT event FROM drawbridge_skill_records WHERE name = 'b') WHERE name = 'a' AND rev = 2")
		}},
		{"a package is cut", "cannot be read", func(p place) {
			p.exec(t, "UPDATE drawbridge_skill_packages SET archive = substr(archive, 1, 100) WHERE digest = $1", string(pkg.Digest()))
		}},
		{"a package is another one", "which was pinned", func(p place) {
			p.exec(t, "UPDATE drawbridge_skill_packages SET archive = (SELECT archive FROM drawbridge_skill_packages WHERE digest = $1) WHERE digest = $2", string(other.Digest()), string(pkg.Digest()))
		}},
		{"a pin is another run's", "is another's", func(p place) { p.exec(t, "UPDATE drawbridge_skill_pins SET run = 'run_2'") }},
		{"a run was finished at no time", "did not write", func(p place) { p.exec(t, "UPDATE drawbridge_skill_runs SET finished = 'yesterday'") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := fresh(t)
			s := p.open(t, "acme")
			rec, err := s.Put(ctx, registrytest.Record("a", "1.0.0"), registry.Event{})
			require.NoError(t, err)
			_, err = s.Put(ctx, rec, registry.Event{})
			require.NoError(t, err)
			_, err = s.Put(ctx, registrytest.Record("b", "1.0.0"), registry.Event{})
			require.NoError(t, err)
			require.NoError(t, s.PutPackage(ctx, pkg))
			require.NoError(t, s.PutPackage(ctx, other))
			for _, run := range []string{"run_1", "run_2"} { // so that a moved pin has a run
				require.NoError(t, s.FinishRun(ctx, run+"_", time.Now()))
			}
			_, err = s.PutPin(ctx, registry.Pin{Run: "run_1", Name: "a", Version: "1.0.0", Artifact: pkg.Digest()})
			require.NoError(t, err)
			p.exec(t, "INSERT INTO drawbridge_skill_runs (tenant, run, finished) VALUES ('acme', 'run_2', '')")
			row.damage(p)
			_, err1 := s.Get(ctx, "a", "1.0.0")
			_, err2 := s.History(ctx, "a", "1.0.0")
			got, err3 := s.Package(ctx, pkg.Digest())
			_, err4 := s.PinsOf(ctx, "run_1")
			_, err5 := s.PinsOf(ctx, "run_2")
			var found error
			for _, err := range []error{err1, err2, err3, err4, err5} {
				if err != nil {
					found = err
					break
				}
			}
			require.ErrorContains(t, found, row.says)
			if err3 != nil {
				require.Nil(t, got, "no package beside an error")
			}
		})
	}
}

// Tenants share tables and nothing else.
func testTenants_L3(t *testing.T, fresh func(t testing.TB) place) {
	ctx := context.Background()
	p := fresh(t)
	acme, other := p.open(t, "acme"), p.open(t, "acm")
	_, err := acme.Put(ctx, registrytest.Record("a", "1.0.0"), registry.Event{})
	require.NoError(t, err)
	pkg := registrytest.Package(t, "a", "")
	require.NoError(t, acme.PutPackage(ctx, pkg))
	_, err = acme.PutPin(ctx, registry.Pin{Run: "run_1", Name: "a", Version: "1.0.0"})
	require.NoError(t, err)
	_, err = other.Get(ctx, "a", "1.0.0")
	require.ErrorIs(t, err, toolresult.NotFound)
	_, err = other.Package(ctx, pkg.Digest())
	require.ErrorIs(t, err, toolresult.NotFound)
	recs, err := other.List(ctx, "")
	require.NoError(t, err)
	require.Empty(t, recs)
	pins, err := other.Running(ctx, "a")
	require.NoError(t, err)
	require.Empty(t, pins)
	require.NoError(t, other.FinishRun(ctx, "run_1", time.Now()))
	pins, err = acme.Running(ctx, "a")
	require.NoError(t, err)
	require.Len(t, pins, 1, "another tenant ends no run")
}

// A run that is finished while it pins has the pin and is over, or neither: no
// pin comes after the end. Two processes, each with a handle of its own.
func testPinOrEnd_L3(t *testing.T, fresh func(t testing.TB) place) {
	ctx := context.Background()
	p := fresh(t)
	one, two := p.open(t, "acme"), p.open(t, "acme")
	for i := range 20 {
		run := fmt.Sprint("run_", i)
		var pinned, ended error
		var before []registry.Pin
		var wg sync.WaitGroup
		wg.Go(func() { _, pinned = one.PutPin(ctx, registry.Pin{Run: run, Name: "a", Version: "1.0.0"}) })
		wg.Go(func() {
			if ended = two.FinishRun(ctx, run, time.Now()); ended == nil {
				before, ended = two.PinsOf(ctx, run)
			}
		})
		wg.Wait()
		require.NoError(t, ended)
		after, err := one.PinsOf(ctx, run)
		require.NoError(t, err)
		require.Equal(t, before, after, "nothing comes after the end")
		if pinned != nil {
			require.ErrorIs(t, pinned, toolresult.Conflict)
			require.Empty(t, after)
		} else {
			require.False(t, after[0].Finished.IsZero())
		}
	}
}

// Of many processes that pin a run, all get the same version.
func testFirstPinWins_L3(t *testing.T, fresh func(t testing.TB) place) {
	ctx := context.Background()
	p := fresh(t)
	got := make([]registry.Pin, 6)
	errs := make([]error, len(got))
	var wg sync.WaitGroup
	for i := range got {
		s := p.open(t, "acme")
		wg.Go(func() {
			got[i], errs[i] = s.PutPin(ctx, registry.Pin{Run: "run_1", Name: "a", Version: fmt.Sprintf("1.%d.0", i)})
		})
	}
	wg.Wait()
	for i := range got {
		require.NoError(t, errs[i])
		require.Equal(t, got[0], got[i])
	}
}

func testSchema(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		db := p.db(t)
		wg.Go(func() { _, errs[i] = sqlregistry.Open(t.Context(), db, p.dialect, "acme") })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	_, err := sqlstore.Open(t.Context(), p.db(t), p.dialect, &sqlstore.Options{Plaintext: true})
	require.NoError(t, err, "both live in one database")
	p.exec(t, "UPDATE drawbridge_skill_migrations SET digest = 'x'")
	_, err = sqlregistry.Open(t.Context(), p.db(t), p.dialect, "acme")
	require.ErrorIs(t, err, sqlstore.ErrSchema)
	p.exec(t, "INSERT INTO drawbridge_skill_migrations (number, name, digest, applied) VALUES (2, '0002_x.sql', 'x', 0)")
	p.exec(t, "DELETE FROM drawbridge_skill_migrations WHERE number = 1")
	_, err = sqlregistry.Open(t.Context(), p.db(t), p.dialect, "acme")
	require.Error(t, err)
}

func TestOpenRefuses(t *testing.T) {
	p := newSQLite(t)
	for _, row := range []struct {
		why     string
		db      *sql.DB
		dialect sqlstore.Dialect
		tenant  string
	}{
		{"no database", nil, sqlstore.SQLite, "acme"},
		{"no dialect", p.db(t), 0, "acme"},
		{"no tenant", p.db(t), sqlstore.SQLite, ""},
		{"a tenant that no database holds", p.db(t), sqlstore.SQLite, "a\x00"},
	} {
		s, err := sqlregistry.Open(t.Context(), row.db, row.dialect, row.tenant)
		require.ErrorIs(t, err, sqlregistry.ErrOptions, row.why)
		require.Nil(t, s)
	}
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer db.Close()
	_, err = sqlregistry.Open(t.Context(), db, sqlstore.SQLite, "acme")
	require.ErrorIs(t, err, sqlstore.ErrSettings, "a database that forgets")
}

// What a database cannot hold is not there, and is not sent to it.
func TestTextsThatNoDatabaseHolds_L3(t *testing.T) {
	ctx := context.Background()
	s := newSQLite(t).open(t, "acme")
	for _, bad := range []string{"a\x00", "a\xff"} {
		_, err := s.Get(ctx, bad, "1.0.0")
		require.ErrorIs(t, err, toolresult.NotFound)
		_, err = s.Put(ctx, registry.Record{Name: bad}, registry.Event{})
		require.ErrorIs(t, err, toolresult.Conflict)
		_, err = s.PutPin(ctx, registry.Pin{Run: bad, Name: "a"})
		require.ErrorIs(t, err, toolresult.InvalidInput)
		require.NoError(t, s.FinishRun(ctx, bad, time.Now()))
		for _, list := range []func() (int, error){
			func() (int, error) { l, err := s.List(ctx, bad); return len(l), err },
			func() (int, error) { l, err := s.History(ctx, bad, "1"); return len(l), err },
			func() (int, error) { l, err := s.PinsOf(ctx, bad); return len(l), err },
			func() (int, error) { l, err := s.Running(ctx, bad); return len(l), err },
		} {
			n, err := list()
			require.NoError(t, err)
			require.Zero(t, n)
		}
	}
	_, err := s.Package(ctx, skill.Digest("sha256:x"))
	require.ErrorIs(t, err, toolresult.NotFound)
}
