package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
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

// Errors of Open, which returns them wrapped.
var (
	// ErrOptions says that Open was asked for something it does not do.
	ErrOptions = errors.New("sqlstore: options")

	// ErrSettings says that the database, as connected to, would lose writes
	// or fail under load.
	ErrSettings = errors.New("sqlstore: settings of the database")
)

// Sealer seals texts at rest for one place each. *credential.Keyring is one.
// It is safe for concurrent use.
type Sealer interface {
	Seal(at credential.Place, text []byte) ([]byte, error)
	Open(at credential.Place, sealed []byte) ([]byte, error)
}

// Options are options of Open.
type Options struct {
	// Seal seals arguments, output and the bytes of artifacts. Nil is refused
	// unless Plaintext is set.
	Seal Sealer

	// Plaintext says aloud that texts may lie in the database as they are. With
	// Seal set as well, new ones are sealed, and old ones that are not can be
	// read: without it somebody who can write to the database could put one
	// there.
	Plaintext bool
}

// SQLiteDSN returns the name under which modernc.org/sqlite opens a file as
// Open wants it: write-ahead log, a flush at each commit, ten seconds of
// waiting for other processes, foreign keys on.
func SQLiteDSN(file string) string {
	// "%", "?" and "#" are the only bytes that end a path here; "file:" paths
	// are decoded again.
	path := (&url.URL{Path: file}).EscapedPath()
	return "file:" + path + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_txlock=immediate"
}

// Store is an operation.Store on a database, and knows the history of each
// operation. It is safe for concurrent use by any number of goroutines and
// processes. It has nothing to close: the database is the caller's.
type Store struct {
	d        *database
	q        operationStatements
	prepared map[string]*sql.Stmt // on SQLite, by their texts
}

var _ operation.StoreWithDurability = (*Store)(nil)

// Open returns a store on a database, whose schema it makes or brings up to
// date under a lock. It fails with ErrOptions, ErrSettings, ErrNewer or
// ErrSchema, or as the database does. opts must say how texts are sealed, or
// that they are not.
//
// On PostgreSQL the tables are made in the first schema of the connection's
// search path.
func Open(ctx context.Context, db *sql.DB, dialect Dialect, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	switch {
	case db == nil:
		return nil, fmt.Errorf("%w: no database", ErrOptions)
	case dialect != SQLite && dialect != PostgreSQL:
		return nil, fmt.Errorf("%w: say SQLite or PostgreSQL", ErrOptions)
	case opts.Seal == nil && !opts.Plaintext:
		return nil, fmt.Errorf("%w: set Seal, or say Plaintext", ErrOptions)
	}
	d := &database{db: db, dialect: dialect, seal: opts.Seal, plaintext: opts.Plaintext, writer: make(chan struct{}, 1)}
	if err := d.settings(ctx); err != nil {
		return nil, err
	}
	if err := d.migrate(ctx); err != nil {
		return nil, fmt.Errorf("sqlstore: the schema: %w", err)
	}
	s := &Store{d: d, q: newOperationStatements(d)}
	if dialect == SQLite {
		if err := s.prepare(ctx); err != nil {
			return nil, fmt.Errorf("sqlstore: the statements: %w", err)
		}
	}
	return s, nil
}

// Durable implements [operation.StoreWithDurability]: Open has checked that a
// write is on disk when it returns.
func (s *Store) Durable() bool { return true }

// Artifacts returns the artifact.Store on the same database.
func (s *Store) Artifacts() *Artifacts { return newArtifacts(s.d) }

var _ artifact.Store = (*Artifacts)(nil)

// database is what the stores share.
type database struct {
	db        *sql.DB
	dialect   Dialect
	seal      Sealer
	plaintext bool

	// writer is held by the goroutine that writes to a SQLite file: waiting
	// here is fair and ends with the context, and waiting in SQLite is
	// neither.
	writer chan struct{}
}

// settings refuses a database on which a write would not be durable.
func (d *database) settings(ctx context.Context) error {
	type setting struct{ ask, want, why string }
	list := []setting{
		{"PRAGMA journal_mode", "wal", "want journal_mode WAL, on a file"},
		{"PRAGMA synchronous", "2 3", "want synchronous FULL or EXTRA"},
		{"PRAGMA busy_timeout", "", "want a busy_timeout, so that processes wait for each other"},
	}
	if d.dialect == PostgreSQL {
		list = []setting{{"SHOW synchronous_commit", "on local remote_write remote_apply", "want synchronous_commit that is not off"}}
	}
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlstore: the database cannot be reached: %w", err)
	}
	defer conn.Close()
	for _, s := range list {
		var got string
		if err := conn.QueryRowContext(ctx, s.ask).Scan(&got); err != nil {
			return fmt.Errorf("sqlstore: asking a %s database: %w", d.dialect, err)
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

// bind numbers the parameters of a statement as the dialect wants it. Our
// statements have no question mark in texts.
func (d *database) bind(text string) string {
	if d.dialect == SQLite {
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

// write runs f in one transaction. On SQLite that holds the file's write lock
// from its start, so that it never has to give up half-way.
func (d *database) write(ctx context.Context, f func(q querier) error) error {
	if d.dialect == SQLite {
		return d.writeSQLite(ctx, f)
	}
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it says so, and nothing else
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// turn waits for this process's turn to write to a SQLite file.
func (d *database) turn(ctx context.Context) (release func(), err error) {
	select {
	case d.writer <- struct{}{}:
		return func() { <-d.writer }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *database) writeSQLite(ctx context.Context, f func(q querier) error) (err error) {
	release, err := d.turn(ctx)
	if err != nil {
		return err
	}
	defer release()
	conn, err := d.db.Conn(ctx)
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

// failure is what callers see when the database does not do as it is told.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if over := ctx.Err(); over != nil { // drivers have words of their own for it
		err = fmt.Errorf("%w: %w", over, err)
	}
	return toolresult.WrapError(toolresult.Code(err), "the database did not answer; read again before believing anything", err)
}

// duplicate reports whether a statement broke a unique index. SQLite is told to
// ignore those rows, and has no such error.
func duplicate(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && state.SQLState() == "23505"
}

// now is the time as it is stored.
func now() int64 { return time.Now().UnixNano() }
