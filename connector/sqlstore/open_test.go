package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
)

var plaintext = &sqlstore.Options{Plaintext: true}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	for _, row := range []struct {
		why, dsn string
		dialect  sqlstore.Dialect
		opts     *sqlstore.Options
		err      error
		says     string
	}{
		{"no dialect", sqlstore.SQLiteDSN(file), 0, plaintext, sqlstore.ErrOptions, "say SQLite or PostgreSQL"},
		{"a dialect of the future", sqlstore.SQLiteDSN(file), 9, plaintext, sqlstore.ErrOptions, "say SQLite or PostgreSQL"},
		{"no word about sealing", sqlstore.SQLiteDSN(file), sqlstore.SQLite, nil, sqlstore.ErrOptions, "set Seal, or say Plaintext"},
		{"a database that forgets", ":memory:", sqlstore.SQLite, plaintext, sqlstore.ErrSettings, "want journal_mode WAL, on a file"},
		{"a rollback journal", "file:" + file, sqlstore.SQLite, plaintext, sqlstore.ErrSettings, "SQLiteDSN"},
		{"commits that are not flushed", "file:" + file + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(1)&_pragma=synchronous(NORMAL)", sqlstore.SQLite, plaintext, sqlstore.ErrSettings, "want synchronous FULL"},
		{"processes that do not wait", "file:" + file + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)", sqlstore.SQLite, plaintext, sqlstore.ErrSettings, "want a busy_timeout"},
		{"another dialect than the database's", sqlstore.SQLiteDSN(file), sqlstore.PostgreSQL, plaintext, nil, "asking a PostgreSQL database"},
	} {
		db, err := sql.Open("sqlite", row.dsn)
		require.NoError(t, err, row.why)
		s, err := sqlstore.Open(t.Context(), db, row.dialect, row.opts)
		require.ErrorContains(t, err, row.says, row.why)
		if row.err != nil {
			require.ErrorIs(t, err, row.err, row.why)
		}
		require.Nil(t, s, row.why)
		require.NoError(t, db.Close())
	}
	_, err := sqlstore.Open(t.Context(), nil, sqlstore.SQLite, plaintext)
	require.ErrorIs(t, err, sqlstore.ErrOptions, "no database")
}

// stepsOf counts the migrations that this program has.
func stepsOf(t *testing.T) int {
	names, err := filepath.Glob("migrations/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return len(names)
}

func testSchema(t *testing.T, fresh func(t testing.TB) place) {
	t.Run("many processes open a new database at once", func(t *testing.T) {
		p := fresh(t)
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			db := p.db(t)
			wg.Go(func() { _, errs[i] = sqlstore.Open(t.Context(), db, p.dialect, plaintext) })
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		var n int
		require.NoError(t, p.db(t).QueryRow("SELECT count(*) FROM drawbridge_migrations").Scan(&n))
		require.Equal(t, stepsOf(t), n, "each step once")
	})
	t.Run("opening it again changes nothing and keeps what is there", func(t *testing.T) {
		p := fresh(t)
		_, err := p.open(t, nil).Create(t.Context(), record("op"))
		require.NoError(t, err)
		got, err := p.open(t, nil).Get(t.Context(), "t", "op")
		require.NoError(t, err)
		require.Equal(t, "op", got.ID)
	})
	t.Run("a database of a newer program is refused", func(t *testing.T) {
		p := fresh(t)
		p.open(t, nil)
		n := stepsOf(t)
		p.exec(t, fmt.Sprintf("INSERT INTO drawbridge_migrations (number, name, digest, applied) VALUES (%d, '9999_future.sql', 'x', 0)", n+1))
		_, err := sqlstore.Open(t.Context(), p.db(t), p.dialect, plaintext)
		require.ErrorIs(t, err, sqlstore.ErrNewer)
		require.ErrorContains(t, err, fmt.Sprintf(`step %d, "9999_future.sql", and this program knows %d`, n+1, n))
	})
	t.Run("a database whose steps read differently is refused", func(t *testing.T) {
		p := fresh(t)
		p.open(t, nil)
		p.exec(t, "UPDATE drawbridge_migrations SET digest = 'x' WHERE number = 1")
		_, err := sqlstore.Open(t.Context(), p.db(t), p.dialect, plaintext)
		require.ErrorIs(t, err, sqlstore.ErrSchema)
	})
	t.Run("a step that fails leaves nothing", func(t *testing.T) {
		p := fresh(t)
		p.exec(t, "CREATE TABLE drawbridge_artifacts (x INTEGER)") // in the way of step 2
		_, err := sqlstore.Open(t.Context(), p.db(t), p.dialect, plaintext)
		require.ErrorContains(t, err, "0002_artifacts.sql")
		p.exec(t, "DROP TABLE drawbridge_artifacts")
		p.open(t, nil)
	})
}

// A server that does not flush commits makes a liar of Durable.
func testServerThatDoesNotFlush(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	if p.dialect == sqlstore.SQLite {
		return // in TestOpenRefuses
	}
	p.dsn += " synchronous_commit=off"
	_, err := sqlstore.Open(t.Context(), p.db(t), p.dialect, plaintext)
	require.ErrorIs(t, err, sqlstore.ErrSettings)
}

// A program with rights on rows only opens a database that is up to date.
func TestOpenReadsOnly(t *testing.T) {
	p := newSQLite(t)
	p.open(t, nil)
	p.dsn += "&mode=ro"
	s := p.open(t, nil)
	require.True(t, s.Durable())
	_, err := s.Create(t.Context(), record("op"))
	require.Error(t, err)
}

// Whoever waits for another process's transaction stops waiting with its
// context. SQLite has written nothing then; a PostgreSQL may still finish a
// statement that its client has given up, which is why callers read again.
func testWaitingEndsWithTheContext(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	s := p.open(t, nil)
	other, err := p.db(t).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = other.Exec("INSERT INTO drawbridge_operation_history (tenant, id, rev, at, state, resolution, code, actor) VALUES ('t', 'op', 1, 0, '', '', '', '')")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = s.Create(ctx, record("op"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, other.Rollback())
	_, err = s.Create(t.Context(), record("op"))
	if p.dialect == sqlstore.PostgreSQL && errors.Is(err, operation.ErrExists) {
		err = nil
	}
	require.NoError(t, err, "nothing is in the way, and the connections are of use")
}
