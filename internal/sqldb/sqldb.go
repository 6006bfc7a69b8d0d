// Package sqldb is what our stores on database/sql share: the two dialects, the
// settings that durability depends on, transactions, and migrations. It knows
// nothing of what is stored, and imports no driver.
//
// Texts of SQL are ours and written for both dialects: parameters are question
// marks, and {text}, {int}, {bytes}, {table} and {clustered} stand for the words
// that differ. A text holds no question mark of its own.
package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Dialect says how a database speaks SQL. The zero Dialect is refused.
type Dialect uint8

const (
	SQLite     Dialect = iota + 1 // 3.38 or newer, a file in WAL mode
	PostgreSQL                    // 13 or newer
)

// String returns the name.
func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "SQLite"
	case PostgreSQL:
		return "PostgreSQL"
	}
	return "no dialect"
}

// types fills in the words that the two have for the same thing.
func (d Dialect) types() *strings.Replacer {
	if d == PostgreSQL {
		return strings.NewReplacer("{text}", `TEXT COLLATE "C"`, "{int}", "BIGINT", "{bytes}", "BYTEA", " {table}", "", " {clustered}", "")
	}
	return strings.NewReplacer("{text}", "TEXT", "{int}", "INTEGER", "{bytes}", "BLOB", "{table}", "STRICT", "{clustered}", "STRICT, WITHOUT ROWID")
}

// SQLiteDSN returns the name under which modernc.org/sqlite opens a file as
// [Open] wants it: write-ahead log, a flush at each commit, ten seconds of
// waiting for other processes, foreign keys on.
func SQLiteDSN(file string) string {
	// "%", "?" and "#" are the only bytes that end a path here; "file:" paths
	// are decoded again.
	path := (&url.URL{Path: file}).EscapedPath()
	return "file:" + path + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_txlock=immediate"
}

// ErrSettings says that the database, as connected to, would lose writes or fail
// under load.
var ErrSettings = errors.New("settings of the database")

// DB is a database whose settings were checked and whose schema is up to date.
// It is safe for concurrent use and has nothing to close: the database is the
// caller's.
type DB struct {
	*sql.DB
	Dialect Dialect

	// writer is held by the goroutine that writes to a SQLite file: waiting
	// here is fair and ends with the context, and waiting in SQLite is
	// neither.
	writer chan struct{}
}

// Open checks the settings of a database and brings one schema up to date. It
// fails with ErrSettings, ErrNewer or ErrSchema, or as the database does.
func Open(ctx context.Context, db *sql.DB, dialect Dialect, schema *Schema) (*DB, error) {
	d := &DB{DB: db, Dialect: dialect, writer: make(chan struct{}, 1)}
	if err := d.settings(ctx); err != nil {
		return nil, err
	}
	if err := d.migrate(ctx, schema); err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	return d, nil
}

// settings refuses a database on which a write would not be durable.
func (d *DB) settings(ctx context.Context) error {
	type setting struct{ ask, want, why string }
	list := []setting{
		{"PRAGMA journal_mode", "wal", "want journal_mode WAL, on a file"},
		{"PRAGMA synchronous", "2 3", "want synchronous FULL or EXTRA"},
		{"PRAGMA busy_timeout", "", "want a busy_timeout, so that processes wait for each other"},
	}
	if d.Dialect == PostgreSQL {
		list = []setting{{"SHOW synchronous_commit", "on local remote_write remote_apply", "want synchronous_commit that is not off"}}
	}
	conn, err := d.Conn(ctx)
	if err != nil {
		return fmt.Errorf("the database cannot be reached: %w", err)
	}
	defer conn.Close()
	for _, s := range list {
		var got string
		if err := conn.QueryRowContext(ctx, s.ask).Scan(&got); err != nil {
			return fmt.Errorf("asking a %s database: %w", d.Dialect, err)
		}
		ok := strings.Contains(" "+s.want+" ", " "+got+" ")
		if s.want == "" {
			ok = got != "0"
		}
		if !ok {
			return fmt.Errorf("%w: %s; it is %q (SQLiteDSN sets what SQLite needs)", ErrSettings, s.why, got)
		}
	}
	return nil
}

// Bind numbers the parameters of a statement as the dialect wants it. Our
// statements have no question mark in texts.
func (d Dialect) Bind(text string) string {
	if d == SQLite {
		return text
	}
	var b strings.Builder
	for i := 1; ; i++ {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(i))
		text = after
	}
}

// Write runs f in one transaction. On SQLite that holds the file's write lock
// from its start, so that it never has to give up half-way.
func (d *DB) Write(ctx context.Context, f func(q Querier) error) error {
	if d.Dialect == SQLite {
		return d.writeSQLite(ctx, f)
	}
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it says so, and nothing else
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Turn waits for this process's turn to write to a SQLite file.
func (d *DB) Turn(ctx context.Context) (release func(), err error) {
	select {
	case d.writer <- struct{}{}:
		return func() { <-d.writer }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *DB) writeSQLite(ctx context.Context, f func(q Querier) error) (err error) {
	release, err := d.Turn(ctx)
	if err != nil {
		return err
	}
	defer release()
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	last := context.WithoutCancel(ctx) // whether it is committed is never left open
	committed := false
	defer func() {
		if committed {
			return
		}
		if _, rerr := conn.ExecContext(last, "ROLLBACK"); rerr != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // takes it out of the pool
		}
	}()
	if err := f(conn); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err = conn.ExecContext(last, "COMMIT")
	committed = err == nil
	return err
}

// Failure is what callers see when the database does not do as it is told.
func Failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if over := ctx.Err(); over != nil { // drivers have words of their own for it
		err = fmt.Errorf("%w: %w", over, err)
	}
	return toolresult.WrapError(toolresult.Code(err), "the database did not answer; read again before believing anything", err)
}

// Duplicate reports whether a statement broke a unique index. SQLite is told to
// ignore those rows, and has no such error.
func Duplicate(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && state.SQLState() == "23505"
}
