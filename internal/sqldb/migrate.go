package sqldb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// ErrNewer says that the database was made by a newer version of a package. An
// older one must not write to it.
var ErrNewer = errors.New("the database is newer than this program")

// ErrSchema says that the database has a migration of ours that reads
// differently from the one in this program.
var ErrSchema = errors.New("the database has another schema than this program")

// Schema is the steps by which a package's tables came about.
type Schema struct {
	// Files holds migrations/0001_name.sql and so on.
	Files fs.FS

	// Table is where the database says which steps it has. Each package has
	// its own, so that several share one database.
	Table string

	// Lock is the number that PostgreSQL locks by; each Table has its own.
	Lock int64
}

// migration is one step. Its number is its place, from 1.
type migration struct {
	name, text, digest string
}

// migrations returns all steps, as written for a dialect. The digest is that of
// the file, so that it is the same for every dialect.
func (s *Schema) migrations(d Dialect) ([]migration, error) {
	names, err := fs.Glob(s.Files, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var out []migration
	for i, name := range names {
		text, err := fs.ReadFile(s.Files, name)
		if err != nil {
			return nil, err
		}
		base := strings.TrimPrefix(name, "migrations/")
		if n, err := strconv.Atoi(base[:4]); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %q is not number %d", base, i+1)
		}
		sum := sha256.Sum256(text)
		out = append(out, migration{base, d.types().Replace(string(text)), hex.EncodeToString(sum[:])})
	}
	return out, nil
}

// migrate brings the schema up to date. A database that is, is only read: a
// program without the right to change tables can open it.
func (d *DB) migrate(ctx context.Context, s *Schema) error {
	steps, err := s.migrations(d.Dialect)
	if err != nil {
		return err
	}
	if there, err := d.hasTable(ctx, s.Table); err != nil {
		return err
	} else if there {
		n, err := s.applied(ctx, d.DB, steps)
		if err != nil || n == len(steps) {
			return err
		}
	}
	return d.Write(ctx, func(q Querier) error {
		if d.Dialect == PostgreSQL { // SQLite has locked the file already
			if _, err := q.ExecContext(ctx, d.Dialect.Bind("SELECT pg_advisory_xact_lock(?)"), s.Lock); err != nil {
				return err
			}
		}
		table := `CREATE TABLE IF NOT EXISTS ` + s.Table + ` (number {int} PRIMARY KEY, name {text} NOT NULL, digest {text} NOT NULL, applied {int} NOT NULL) {table}`
		if _, err := q.ExecContext(ctx, d.Dialect.types().Replace(table)); err != nil {
			return err
		}
		n, err := s.applied(ctx, q, steps) // somebody else may have been here
		if err != nil {
			return err
		}
		for i, step := range steps[n:] {
			if _, err := q.ExecContext(ctx, step.text); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			_, err := q.ExecContext(ctx, d.Dialect.Bind("INSERT INTO "+s.Table+" (number, name, digest, applied) VALUES (?, ?, ?, ?)"), n+i+1, step.name, step.digest, time.Now().UnixNano())
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *DB) hasTable(ctx context.Context, table string) (bool, error) {
	ask := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
	if d.Dialect == PostgreSQL { // as the connection's search path finds it
		ask = "SELECT count(*) FROM pg_class WHERE oid = to_regclass($1)"
	}
	var n int
	err := d.QueryRowContext(ctx, ask, table).Scan(&n)
	return n == 1, err
}

// applied counts the steps that the database has, and checks that they are ours.
func (s *Schema) applied(ctx context.Context, q Querier, steps []migration) (n int, err error) {
	rows, err := q.QueryContext(ctx, "SELECT number, name, digest FROM "+s.Table+" ORDER BY number")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var number int
		var name, digest string
		if err := rows.Scan(&number, &name, &digest); err != nil {
			return 0, err
		}
		n++
		switch {
		case n > len(steps):
			return 0, fmt.Errorf("%w: it has step %d, %q, and this program knows %d", ErrNewer, number, name, len(steps))
		case number != n || digest != steps[n-1].digest:
			return 0, fmt.Errorf("%w: step %d is %q there", ErrSchema, number, name)
		}
	}
	return n, rows.Err()
}

// Querier is what a database, a connection and a transaction can do.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
