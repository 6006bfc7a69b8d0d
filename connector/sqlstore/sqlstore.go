package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/internal/sqldb"
)

// Dialect says how a database speaks SQL. The zero Dialect is refused.
type Dialect = sqldb.Dialect

const (
	SQLite     = sqldb.SQLite     // 3.38 or newer, a file in WAL mode
	PostgreSQL = sqldb.PostgreSQL // 13 or newer
)

// Errors of Open, which returns them wrapped.
var (
	// ErrOptions says that Open was asked for something it does not do.
	ErrOptions = errors.New("sqlstore: options")

	// ErrSettings says that the database, as connected to, would lose writes
	// or fail under load.
	ErrSettings = sqldb.ErrSettings

	// ErrNewer says that the database was made by a newer version of this
	// package. An older one must not write to it.
	ErrNewer = sqldb.ErrNewer

	// ErrSchema says that the database has a migration of ours that reads
	// differently from the one in this program.
	ErrSchema = sqldb.ErrSchema
)

//go:embed migrations/*.sql
var files embed.FS

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
func SQLiteDSN(file string) string { return sqldb.SQLiteDSN(file) }

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
	shared, err := sqldb.Open(ctx, db, dialect, &sqldb.Schema{Files: files, Table: "drawbridge_migrations", Lock: 7235419640187263})
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	d := &database{db: db, dialect: dialect, seal: opts.Seal, plaintext: opts.Plaintext, shared: shared}
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
	shared    *sqldb.DB
	group     group
}

type querier = sqldb.Querier

func (d *database) bind(text string) string { return d.dialect.Bind(text) }

func (d *database) write(ctx context.Context, f func(q querier) error) error {
	return d.shared.Write(ctx, f)
}

func (d *database) turn(ctx context.Context) (release func(), err error) { return d.shared.Turn(ctx) }

func failure(ctx context.Context, err error) error { return sqldb.Failure(ctx, err) }

func duplicate(err error) bool { return sqldb.Duplicate(err) }

// now is the time as it is stored.
func now() int64 { return time.Now().UnixNano() }
