package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // -postgres
	_ "modernc.org/sqlite"             // one file and no server

	"github.com/drawbridge-sdk/drawbridge/authz/connection/sqlconnection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
)

// state is what outlives a run: the ledger of changes, approvals, connected
// accounts and large answers in one database, the key that seals them, and the
// audit log.
type state struct {
	*sqlstore.Store
	db          *sql.DB
	dialect     sqlstore.Dialect
	keys        *credential.Keyring
	connections *sqlconnection.Store
	audit       *auditFile

	where    where
	drop     bool   // the directory ends with the run: nobody named it
	database string // for people
}

// where is where state lies: in a directory, and its database in a file there
// or in a PostgreSQL.
type where struct{ dir, postgres string }

// openState opens the state in a directory, or in one of its own that ends with
// the run.
func openState(ctx context.Context, at where) (*state, error) {
	s := &state{where: at}
	if at.postgres != "" && at.dir == "" {
		return nil, errors.New("-postgres needs -state DIR: the key that seals what the database holds lies there, and has to outlive the run")
	}
	var err error
	if at.dir == "" {
		if s.where.dir, err = os.MkdirTemp("", "incident"); err != nil {
			return nil, err
		}
		s.drop = true
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *state) open(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.where.dir, 0o700); err != nil {
		return err
	}
	if s.keys, err = sealer(filepath.Join(s.where.dir, "key")); err != nil {
		return err
	}
	if s.audit, err = openAudit(filepath.Join(s.where.dir, "audit.jsonl")); err != nil {
		return err
	}
	return s.openDatabase(ctx)
}

func (s *state) openDatabase(ctx context.Context) (err error) {
	driver, dsn := "sqlite", sqlstore.SQLiteDSN(filepath.Join(s.where.dir, "operations.db"))
	s.dialect, s.database = sqlstore.SQLite, "a SQLite file"
	if s.where.postgres != "" {
		driver, dsn, s.dialect, s.database = "pgx", s.where.postgres, sqlstore.PostgreSQL, "PostgreSQL"
	}
	if s.db, err = sql.Open(driver, dsn); err != nil {
		return errors.New("the database cannot be opened: is the connection string right?") // it may hold a password
	}
	if s.Store, err = sqlstore.Open(ctx, s.db, s.dialect, &sqlstore.Options{Seal: s.keys}); err != nil {
		return err
	}
	s.connections, err = sqlconnection.Open(ctx, s.db, s.dialect)
	return err
}

// sealer keeps its key in a file beside the database, which is as good as none:
// a real host has it from elsewhere.
func sealer(file string) (*credential.Keyring, error) {
	key, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			return nil, err
		}
		err = os.WriteFile(file, key, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of the state: %w", err)
	}
	return credential.NewKeyring("1", map[string][]byte{"1": key})
}

// Close closes everything and removes what ends with the run.
func (s *state) Close() error {
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.audit != nil {
		errs = append(errs, s.audit.f.Close())
	}
	if s.drop {
		errs = append(errs, os.RemoveAll(s.where.dir))
	}
	return errors.Join(errs...)
}

// auditFile is a [connector.Audit] of one line an event, on disk before Record
// returns. Several processes append to it.
type auditFile struct {
	mu    sync.Mutex
	f     *os.File
	begin int64 // of this run
}

func openAudit(file string) (*auditFile, error) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	end, err := f.Seek(0, io.SeekEnd)
	return &auditFile{f: f, begin: end}, err
}

// Record implements [connector.Audit].
func (a *auditFile) Record(_ context.Context, e *connector.AuditEvent) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.f.Write(append(line, '\n')); err != nil {
		return err
	}
	return a.f.Sync()
}

// event is a line of the audit log, as far as the page shows it.
type event struct {
	Time       time.Time `json:"time"`
	Principal  struct{ Subject string }
	Actor      string
	Capability string
	SideEffect string `json:"side_effect"`
	Target     []string
	Verdict    string
	Revision   string
	Reason     string
	Surface    string
	Result     *struct {
		Effect struct{ Disposition string }
		Code   string
	}
}

// events reads what this run and the processes that it started have done.
func (a *auditFile) events() (out []event, err error) {
	lines := bufio.NewScanner(io.NewSectionReader(a.f, a.begin, 64<<20))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("the audit log: %w", err)
		}
		out = append(out, e)
	}
	return out, lines.Err()
}
