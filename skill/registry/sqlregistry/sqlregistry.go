package sqlregistry

import (
	"bytes"
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/sqldb"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

//go:embed migrations/*.sql
var files embed.FS

// Store is a registry.Store of one tenant on a database. It is safe for
// concurrent use by any number of goroutines and processes, and has nothing to
// close: the database is the caller's.
type Store struct {
	d      *sqldb.DB
	tenant string
	q      statements
}

var _ registry.Store = (*Store)(nil)

// ErrOptions says that Open was asked for something it does not do.
var ErrOptions = errors.New("sqlregistry: options")

// ErrDamaged says that a row is not what this package wrote.
var ErrDamaged = errors.New("sqlregistry: the database holds something that the registry did not write; restore it")

// Open returns the store of a tenant on a database, whose schema it makes or
// brings up to date under a lock. The database has to be set up as
// [sqlstore.Open] wants it; the error is ErrOptions, [sqlstore.ErrSettings],
// [sqlstore.ErrNewer], [sqlstore.ErrSchema], or as the database has it.
func Open(ctx context.Context, db *sql.DB, dialect sqlstore.Dialect, tenant string) (*Store, error) {
	switch {
	case db == nil:
		return nil, fmt.Errorf("%w: no database", ErrOptions)
	case dialect != sqlstore.SQLite && dialect != sqlstore.PostgreSQL:
		return nil, fmt.Errorf("%w: say SQLite or PostgreSQL", ErrOptions)
	case tenant == "" || !storable(tenant):
		return nil, fmt.Errorf("%w: want a tenant, in UTF-8", ErrOptions)
	}
	d, err := sqldb.Open(ctx, db, dialect, &sqldb.Schema{Files: files, Table: "drawbridge_skill_migrations", Lock: 7235419640187264})
	if err != nil {
		return nil, fmt.Errorf("sqlregistry: %w", err)
	}
	return &Store{d: d, tenant: tenant, q: newStatements(dialect)}, nil
}

// statements are written once per store.
type statements struct {
	put, get, list, listOf, history string
	putPackage, getPackage          string
	lockRun, putPin, getPin         string
	finish, pinsOf, running         string
}

func newStatements(d sqldb.Dialect) statements {
	const last = "SELECT name, version, rev, record, (SELECT count(*) FROM drawbridge_skill_records c WHERE c.tenant = r.tenant AND c.name = r.name AND c.version = r.version) " +
		"FROM drawbridge_skill_records r WHERE tenant = ? AND rev = (SELECT max(rev) FROM drawbridge_skill_records m WHERE m.tenant = r.tenant AND m.name = r.name AND m.version = r.version)"
	const pins = "SELECT p.run, p.name, p.pin, r.finished FROM drawbridge_skill_pins p JOIN drawbridge_skill_runs r ON r.tenant = p.tenant AND r.run = p.run WHERE p.tenant = ?"
	s := statements{
		// The revision before has to be there; the one after must not be.
		put: "INSERT INTO drawbridge_skill_records (tenant, name, version, rev, record, event) SELECT ?, ?, ?, ?, ?, ? " +
			"WHERE ? = 0 OR EXISTS (SELECT 1 FROM drawbridge_skill_records WHERE tenant = ? AND name = ? AND version = ? AND rev = ?) ON CONFLICT DO NOTHING",
		get:        last + " AND name = ? AND version = ?",
		list:       last,
		listOf:     last + " AND name = ?",
		history:    "SELECT rev, event FROM drawbridge_skill_records WHERE tenant = ? AND name = ? AND version = ? ORDER BY rev",
		putPackage: "INSERT INTO drawbridge_skill_packages (tenant, digest, archive) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		getPackage: "SELECT archive FROM drawbridge_skill_packages WHERE tenant = ? AND digest = ?",
		// Writing a row that stays as it is locks it to the end of the transaction.
		lockRun: "INSERT INTO drawbridge_skill_runs (tenant, run, finished) VALUES (?, ?, '') " +
			"ON CONFLICT (tenant, run) DO UPDATE SET finished = drawbridge_skill_runs.finished RETURNING finished",
		putPin: "INSERT INTO drawbridge_skill_pins (tenant, run, name, pin) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
		getPin: pins + " AND p.run = ? AND p.name = ?",
		finish: "INSERT INTO drawbridge_skill_runs (tenant, run, finished) VALUES (?, ?, ?) " +
			"ON CONFLICT (tenant, run) DO UPDATE SET finished = excluded.finished WHERE drawbridge_skill_runs.finished = ''",
		pinsOf:  pins + " AND p.run = ? ORDER BY p.name",
		running: pins + " AND p.name = ? AND r.finished = '' ORDER BY p.run",
	}
	for _, text := range []*string{&s.put, &s.get, &s.list, &s.listOf, &s.history, &s.putPackage, &s.getPackage, &s.lockRun, &s.putPin, &s.getPin, &s.finish, &s.pinsOf, &s.running} {
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

func notFound() error {
	return toolresult.NewError(toolresult.NotFound, "there is no such version or package")
}

// decode reads what was marshalled, and nothing that could be read in another way.
func decode(text string, v any) error {
	_, err := strictjson.Parse([]byte(text))
	if err == nil {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(v)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// failure says that the database did not do as it was told, unless what it holds
// is damaged, which the operator has to know.
func failure(ctx context.Context, err error) error {
	if errors.Is(err, ErrDamaged) {
		return err
	}
	return sqldb.Failure(ctx, err)
}

// each reads the rows of a query.
func (s *Store) each(ctx context.Context, scan func(row *sql.Rows) error, query string, args ...any) error {
	rows, err := s.d.QueryContext(ctx, query, args...)
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

// Put implements [registry.Records].
func (s *Store) Put(ctx context.Context, rec registry.Record, ev registry.Event) (registry.Record, error) {
	was := rec.Revision
	if was < 0 || !storable(rec.Name, rec.Version) {
		return registry.Record{}, toolresult.NewError(toolresult.Conflict, "there is no such revision; read the record again")
	}
	rec.Revision++
	ev.Revision = rec.Revision
	record, err1 := json.Marshal(rec)
	event, err2 := json.Marshal(ev)
	if err := errors.Join(err1, err2); err != nil {
		return registry.Record{}, toolresult.WrapError(toolresult.Internal, "the record cannot be stored", err)
	}
	stored := false
	err := s.d.Write(ctx, func(q sqldb.Querier) error {
		done, err := q.ExecContext(ctx, s.q.put, s.tenant, rec.Name, rec.Version, rec.Revision, string(record), string(event),
			was, s.tenant, rec.Name, rec.Version, was)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		stored = n == 1
		return err
	})
	switch {
	case err != nil:
		return registry.Record{}, failure(ctx, err)
	case !stored:
		return registry.Record{}, toolresult.NewError(toolresult.Conflict, "the record was changed by somebody else; read it again")
	}
	var out registry.Record // the caller's, as whoever reads it next gets it
	return out, decode(string(record), &out)
}

// Get implements [registry.Records].
func (s *Store) Get(ctx context.Context, name, version string) (registry.Record, error) {
	if !storable(name, version) {
		return registry.Record{}, notFound()
	}
	recs, err := s.records(ctx, s.q.get, s.tenant, name, version)
	switch {
	case err != nil:
		return registry.Record{}, err
	case len(recs) == 0:
		return registry.Record{}, notFound()
	}
	return recs[0], nil
}

// List implements [registry.Records].
func (s *Store) List(ctx context.Context, name string) ([]registry.Record, error) {
	switch {
	case name == "":
		return s.records(ctx, s.q.list, s.tenant)
	case !storable(name):
		return nil, nil
	}
	return s.records(ctx, s.q.listOf, s.tenant, name)
}

func (s *Store) records(ctx context.Context, query string, args ...any) (out []registry.Record, err error) {
	err = s.each(ctx, func(row *sql.Rows) error {
		var name, version, text string
		var rev, count int64
		if err := row.Scan(&name, &version, &rev, &text, &count); err != nil {
			return err
		}
		var rec registry.Record
		if err := decode(text, &rec); err != nil {
			return err
		}
		if rec.Name != name || rec.Version != version || rec.Revision != rev || count != rev {
			return fmt.Errorf("%w: %q %q: revision %d is that of another record, or revisions are missing", ErrDamaged, name, version, rev)
		}
		out = append(out, rec)
		return nil
	}, query, args...)
	if err != nil {
		return nil, err
	}
	registry.SortRecords(out)
	return out, nil
}

// History implements [registry.Records].
func (s *Store) History(ctx context.Context, name, version string) (out []registry.Event, err error) {
	if !storable(name, version) {
		return nil, nil
	}
	err = s.each(ctx, func(row *sql.Rows) error {
		var rev int64
		var text string
		var ev registry.Event
		if err := row.Scan(&rev, &text); err != nil {
			return err
		}
		if err := decode(text, &ev); err != nil {
			return err
		}
		if out = append(out, ev); rev != int64(len(out)) || ev.Revision != rev {
			return fmt.Errorf("%w: %q %q: the event of revision %d is missing or another's", ErrDamaged, name, version, len(out))
		}
		return nil
	}, s.q.history, s.tenant, name, version)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// PutPackage implements [registry.Packages].
func (s *Store) PutPackage(ctx context.Context, p *skill.Package) error {
	var b bytes.Buffer
	if err := p.WriteArchive(&b); err != nil {
		return err
	}
	return failure(ctx, s.d.Write(ctx, func(q sqldb.Querier) error {
		_, err := q.ExecContext(ctx, s.q.putPackage, s.tenant, string(p.Digest()), b.Bytes())
		return err
	}))
}

// Package implements [registry.Packages].
func (s *Store) Package(ctx context.Context, digest skill.Digest) (*skill.Package, error) {
	if !digest.Valid() {
		return nil, notFound()
	}
	var archive []byte
	err := s.d.QueryRowContext(ctx, s.q.getPackage, s.tenant, string(digest)).Scan(&archive)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, notFound()
	case err != nil:
		return nil, failure(ctx, err)
	}
	// What is read back is what was let in, whatever limits that had.
	p, err := skill.ReadArchive(bytes.NewReader(archive), &skill.Limits{Files: 1 << 16, Bytes: 1 << 30})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := p.Verify(digest, nil); err != nil {
		return nil, err
	}
	return p, nil
}

// PutPin implements [registry.Pins].
func (s *Store) PutPin(ctx context.Context, p registry.Pin) (registry.Pin, error) {
	if !storable(p.Run, p.Name) || p.Run == "" || p.Name == "" {
		return registry.Pin{}, toolresult.NewError(toolresult.InvalidInput, "a pin needs a run and the name of a skill")
	}
	p.Finished = time.Time{}
	text, err := json.Marshal(p)
	if err != nil {
		return registry.Pin{}, toolresult.WrapError(toolresult.Internal, "the pin cannot be stored", err)
	}
	var kept registry.Pin
	var over bool
	err = s.d.Write(ctx, func(q sqldb.Querier) error {
		var finished string
		if err := q.QueryRowContext(ctx, s.q.lockRun, s.tenant, p.Run).Scan(&finished); err != nil {
			return err
		}
		if over = finished != ""; over {
			return nil
		}
		if _, err := q.ExecContext(ctx, s.q.putPin, s.tenant, p.Run, p.Name, string(text)); err != nil {
			return err
		}
		kept, err = scanPin(q.QueryRowContext(ctx, s.q.getPin, s.tenant, p.Run, p.Name))
		return err
	})
	switch {
	case err != nil:
		return registry.Pin{}, failure(ctx, err)
	case over:
		return registry.Pin{}, toolresult.NewError(toolresult.Conflict, "the run is finished; begin a new one")
	}
	return kept, nil
}

func scanPin(row interface{ Scan(...any) error }) (p registry.Pin, err error) {
	var run, name, text, finished string
	if err := row.Scan(&run, &name, &text, &finished); err != nil {
		return registry.Pin{}, err
	}
	if err := decode(text, &p); err != nil {
		return registry.Pin{}, err
	}
	if p.Run != run || p.Name != name || !p.Finished.IsZero() {
		return registry.Pin{}, fmt.Errorf("%w: run %q: the pin of %q is another's", ErrDamaged, run, name)
	}
	if finished != "" {
		if p.Finished, err = time.Parse(time.RFC3339Nano, finished); err != nil {
			return registry.Pin{}, fmt.Errorf("%w: run %q: %w", ErrDamaged, run, err)
		}
	}
	return p, nil
}

func (s *Store) pins(ctx context.Context, query, key string) (out []registry.Pin, err error) {
	if !storable(key) {
		return nil, nil
	}
	err = s.each(ctx, func(row *sql.Rows) error {
		p, err := scanPin(row)
		out = append(out, p)
		return err
	}, query, s.tenant, key)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// PinsOf implements [registry.Pins].
func (s *Store) PinsOf(ctx context.Context, run string) ([]registry.Pin, error) {
	return s.pins(ctx, s.q.pinsOf, run)
}

// Running implements [registry.Pins].
func (s *Store) Running(ctx context.Context, name string) ([]registry.Pin, error) {
	return s.pins(ctx, s.q.running, name)
}

// FinishRun implements [registry.Pins].
func (s *Store) FinishRun(ctx context.Context, run string, at time.Time) error {
	if !storable(run) || run == "" {
		return nil
	}
	return failure(ctx, s.d.Write(ctx, func(q sqldb.Querier) error {
		_, err := q.ExecContext(ctx, s.q.finish, s.tenant, run, at.UTC().Format(time.RFC3339Nano))
		return err
	}))
}
