package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

//go:embed migrations/*.sql
var files embed.FS

// ErrNewer says that the database was made by a newer version of this package.
// An older one must not write to it.
var ErrNewer = errors.New("sqlstore: the database is newer than this program")

// ErrSchema says that the database has a migration of ours that reads
// differently from the one in this program.
var ErrSchema = errors.New("sqlstore: the database has another schema than this program")

// migration is one step. Its number is its place, from 1.
type migration struct {
	name, text, digest string
}

// migrations returns all steps, as written for a dialect. The digest is that of
// the file, so that it is the same for every dialect.
func migrations(d Dialect) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var out []migration
	for i, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		base := strings.TrimPrefix(name, "migrations/")
		if n, err := strconv.Atoi(base[:4]); err != nil || n != i+1 {
			return nil, fmt.Errorf("sqlstore: migration %q is not number %d", base, i+1)
		}
		sum := sha256.Sum256(text)
		out = append(out, migration{base, d.types().Replace(string(text)), hex.EncodeToString(sum[:])})
	}
	return out, nil
}

// migrate brings the schema up to date. A database that is, is only read: a
// program without the right to change tables can open it.
func (d *database) migrate(ctx context.Context) error {
	steps, err := migrations(d.dialect)
	if err != nil {
		return err
	}
	if there, err := d.hasTable(ctx, d.db); err != nil {
		return err
	} else if there {
		n, err := applied(ctx, d.db, d, steps)
		if err != nil || n == len(steps) {
			return err
		}
	}
	return d.write(ctx, func(q querier) error {
		if d.dialect == PostgreSQL { // SQLite has locked the file already
			if _, err := q.ExecContext(ctx, "SELECT pg_advisory_xact_lock(7235419640187263)"); err != nil {
				return err
			}
		}
		const table = `CREATE TABLE IF NOT EXISTS drawbridge_migrations (number {int} PRIMARY KEY, name {text} NOT NULL, digest {text} NOT NULL, applied {int} NOT NULL) {table}`
		if _, err := q.ExecContext(ctx, d.dialect.types().Replace(table)); err != nil {
			return err
		}
		n, err := applied(ctx, q, d, steps) // somebody else may have been here
		if err != nil {
			return err
		}
		for i, step := range steps[n:] {
			if _, err := q.ExecContext(ctx, step.text); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			_, err := q.ExecContext(ctx, d.bind("INSERT INTO drawbridge_migrations (number, name, digest, applied) VALUES (?, ?, ?, ?)"), n+i+1, step.name, step.digest, time.Now().UnixNano())
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *database) hasTable(ctx context.Context, q querier) (bool, error) {
	ask := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'drawbridge_migrations'"
	if d.dialect == PostgreSQL { // as the connection's search path finds it
		ask = "SELECT count(*) FROM pg_class WHERE oid = to_regclass('drawbridge_migrations')"
	}
	var n int
	err := q.QueryRowContext(ctx, ask).Scan(&n)
	return n == 1, err
}

// applied counts the steps that the database has, and checks that they are ours.
func applied(ctx context.Context, q querier, d *database, steps []migration) (n int, err error) {
	rows, err := q.QueryContext(ctx, "SELECT number, name, digest FROM drawbridge_migrations ORDER BY number")
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

// querier is what a database, a connection and a transaction can do.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
