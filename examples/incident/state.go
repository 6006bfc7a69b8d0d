package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	_ "modernc.org/sqlite" // one file and no server

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
)

// state is what outlives a run: the ledger of changes, approvals and large
// answers in one SQLite file, the key that seals them, and the audit log.
type state struct {
	*sqlstore.Store
	db    *sql.DB
	audit *auditFile
	drop  string // a directory that ends with the run; empty: it was named, and stays
}

// openState opens the state in dir, or in a directory of its own that ends with
// the run.
func openState(ctx context.Context, dir string) (_ *state, err error) {
	s := &state{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if dir == "" {
		if dir, err = os.MkdirTemp("", "incident"); err != nil {
			return nil, err
		}
		s.drop = dir
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	seal, err := sealer(filepath.Join(dir, "key"))
	if err != nil {
		return nil, err
	}
	if s.audit, err = openAudit(filepath.Join(dir, "audit.jsonl")); err != nil {
		return nil, err
	}
	if s.db, err = sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "operations.db"))); err != nil {
		return nil, err
	}
	s.Store, err = sqlstore.Open(ctx, s.db, sqlstore.SQLite, &sqlstore.Options{Seal: seal})
	return s, err
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
	if s.drop != "" {
		errs = append(errs, os.RemoveAll(s.drop))
	}
	return errors.Join(errs...)
}

// auditFile is a [connector.Audit] of one line an event, on disk before Record
// returns.
type auditFile struct {
	mu     sync.Mutex
	f      *os.File
	events []connector.AuditEvent // of this run, for its page
}

// all returns the events of this run.
func (a *auditFile) all() []connector.AuditEvent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

func openAudit(file string) (*auditFile, error) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &auditFile{f: f}, err
}

// Record implements [connector.Audit].
func (a *auditFile) Record(_ context.Context, e *connector.AuditEvent) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, *e)
	if _, err := a.f.Write(append(line, '\n')); err != nil {
		return err
	}
	return a.f.Sync()
}
