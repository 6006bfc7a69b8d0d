package sqlconnection

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/sqldb"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

//go:embed migrations/*.sql
var files embed.FS

// Store is a connection.Store on a database. It is safe for concurrent use by
// any number of goroutines and processes, and has nothing to close: the database
// is the caller's.
type Store struct {
	d *sqldb.DB
	q statements

	// reads are the statements of reads, prepared: each call of an agent makes
	// several. Their texts are ours and few.
	reads sync.Map // text -> *sql.Stmt
}

var _ connection.Store = (*Store)(nil)

// ErrOptions says that Open was asked for something it does not do.
var ErrOptions = errors.New("sqlconnection: options")

// ErrDamaged says that a row is not what this package wrote.
var ErrDamaged = errors.New("sqlconnection: the database holds something that was not written by this program; restore it")

// Open returns the store on a database, whose schema it makes or brings up to
// date under a lock. The database has to be set up as [sqlstore.Open] wants it;
// the error is ErrOptions, [sqlstore.ErrSettings], [sqlstore.ErrNewer],
// [sqlstore.ErrSchema], or as the database has it.
func Open(ctx context.Context, db *sql.DB, dialect sqlstore.Dialect) (*Store, error) {
	switch {
	case db == nil:
		return nil, fmt.Errorf("%w: no database", ErrOptions)
	case dialect != sqlstore.SQLite && dialect != sqlstore.PostgreSQL:
		return nil, fmt.Errorf("%w: say SQLite or PostgreSQL", ErrOptions)
	}
	d, err := sqldb.Open(ctx, db, dialect, &sqldb.Schema{Files: files, Table: "drawbridge_connection_migrations", Lock: 7235419640187265})
	if err != nil {
		return nil, fmt.Errorf("sqlconnection: %w", err)
	}
	return &Store{d: d, q: newStatements(dialect)}, nil
}

// statements are written once per store.
type statements struct {
	create, get, version, swap, sweep                              string
	addTransaction, transaction, swapTransaction, sweepTransaction string
	addHold, holds, removeHold                                     string
}

func newStatements(d sqldb.Dialect) statements {
	update := "UPDATE"
	if d == sqldb.SQLite {
		update = "UPDATE OR IGNORE" // a row that would break the index of accounts stays as it is
	}
	s := statements{
		create: "INSERT INTO drawbridge_connections (tenant, id, version, issuer, subject, provider, org, account, state, reason, updated, retry_at, lease_until, record) " +
			"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		get:     "SELECT tenant, id, version, state, record FROM drawbridge_connections WHERE tenant = ? AND id = ?",
		version: "SELECT version FROM drawbridge_connections WHERE tenant = ? AND id = ?",
		swap: update + " drawbridge_connections SET version = ?, issuer = ?, subject = ?, provider = ?, org = ?, account = ?, state = ?, reason = ?, updated = ?, " +
			"retry_at = ?, lease_until = ?, record = ? WHERE tenant = ? AND id = ? AND version = ?",
		sweep: "DELETE FROM drawbridge_connections WHERE state = '" + string(connection.Disconnected) + "' AND reason <> '" + string(connection.ReasonLeak) + "' AND updated < ?",

		addTransaction:   "INSERT INTO drawbridge_connection_transactions (tenant, id, version, expires, transaction_json) VALUES (?, ?, 1, ?, ?) ON CONFLICT DO NOTHING",
		transaction:      "SELECT version, transaction_json FROM drawbridge_connection_transactions WHERE tenant = ? AND id = ?",
		swapTransaction:  "UPDATE drawbridge_connection_transactions SET version = ?, expires = ?, transaction_json = ? WHERE tenant = ? AND id = ? AND version = ?",
		sweepTransaction: "DELETE FROM drawbridge_connection_transactions WHERE expires < ?",

		addHold:    "INSERT INTO drawbridge_connection_holds (tenant, id, hold) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		holds:      "SELECT id, hold FROM drawbridge_connection_holds WHERE tenant = ?",
		removeHold: "DELETE FROM drawbridge_connection_holds WHERE tenant = ? AND id = ?",
	}
	for _, text := range []*string{&s.create, &s.get, &s.version, &s.swap, &s.sweep, &s.addTransaction, &s.transaction, &s.swapTransaction, &s.sweepTransaction, &s.addHold, &s.holds, &s.removeHold} {
		*text = d.Bind(*text)
	}
	return s
}

// storable reports whether every database holds s as it is. What it does not
// hold has never been put, and is not there.
func storable(texts ...string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.Contains(s, "\x00") {
			return false
		}
	}
	return true
}

func errText() error {
	return toolresult.NewError(toolresult.InvalidInput, "a name, an id or an account is not text: want UTF-8 without NUL")
}

// decode reads what was marshalled. A field that there is not was written by a
// newer program, and would be lost by the next write of this one.
func decode(text string, v any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: the record of a row cannot be read", ErrDamaged) // without its text
	}
	return nil
}

func encode(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", toolresult.WrapError(toolresult.Internal, "the record cannot be stored", err)
	}
	return string(text), nil
}

// failure says that the database did not do as it was told, unless what it holds
// is damaged, which the operator has to know.
func failure(ctx context.Context, err error) error {
	if errors.Is(err, ErrDamaged) || errors.Is(err, connection.ErrVersion) || errors.Is(err, connection.ErrExists) || errors.Is(err, connection.ErrAccountTaken) {
		return err
	}
	return sqldb.Failure(ctx, err)
}

// change runs one statement and says how many rows it changed.
func change(ctx context.Context, q sqldb.Querier, statement string, args ...any) (int, error) {
	done, err := q.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	n, err := done.RowsAffected()
	return int(n), err
}

// write runs one statement on its own.
func (s *Store) write(ctx context.Context, statement string, args ...any) (n int, err error) {
	err = s.d.Write(ctx, func(q sqldb.Querier) error {
		n, err = change(ctx, q, statement, args...)
		return err
	})
	return n, failure(ctx, err)
}

// prepared returns a statement. It lives as long as the database is open.
func (s *Store) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := s.reads.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := s.d.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	kept, there := s.reads.LoadOrStore(query, stmt)
	if there {
		stmt.Close()
	}
	return kept.(*sql.Stmt), nil
}

// each reads the rows of a query.
func (s *Store) each(ctx context.Context, scan func(row *sql.Rows) error, query string, args ...any) error {
	stmt, err := s.prepared(ctx, query)
	if err != nil {
		return failure(ctx, err)
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return failure(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return failure(ctx, err)
		}
	}
	return failure(ctx, rows.Err())
}
