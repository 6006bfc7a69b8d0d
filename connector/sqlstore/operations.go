package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore/internal/column"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// open is the condition of the index on intents; the two have to read alike.
const open = "state NOT IN ('prepared', 'applied', 'not_applied', 'pending', 'resolved')"

// operationStatements are written once per store.
type operationStatements struct {
	create, swap, history    string
	get, intent, approval    string
	unsettled, historyOfThis string
}

func newOperationStatements(d *database) operationStatements {
	names := strings.Split(columns, ", ")
	marks := strings.Repeat("?, ", len(names)-1) + "?"
	create := "INSERT INTO drawbridge_operations (" + columns + ") SELECT " + marks +
		" WHERE NOT EXISTS (SELECT 1 FROM drawbridge_operations WHERE tenant = ? AND intent = ? AND " + open + ") ON CONFLICT DO NOTHING"
	swap := "drawbridge_operations SET " + strings.Join(names[2:], " = ?, ") + " = ? WHERE tenant = ? AND id = ? AND rev = ?"
	s := operationStatements{
		create:        create,
		swap:          "UPDATE OR IGNORE " + swap, // a row that breaks a rule is not changed
		history:       "INSERT INTO drawbridge_operation_history (tenant, id, rev, at, state, resolution, code, actor) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		get:           "SELECT " + columns + " FROM drawbridge_operations WHERE tenant = ? AND id = ?",
		intent:        "SELECT count(*) FROM drawbridge_operations WHERE tenant = ? AND intent = ? AND id <> ? AND " + open,
		approval:      "SELECT count(*) FROM drawbridge_operations WHERE tenant = ? AND approval = ? AND approval <> '' AND id <> ?",
		unsettled:     "SELECT " + columns + " FROM drawbridge_operations WHERE state NOT IN ('prepared', 'applied', 'not_applied', 'resolved') AND held_until <= ? ORDER BY prepared_at, tenant, id LIMIT ?",
		historyOfThis: "SELECT rev, at, state, resolution, code, actor FROM drawbridge_operation_history WHERE tenant = ? AND id = ? ORDER BY rev",
	}
	if d.dialect == PostgreSQL { // the record and its history in one statement: one round trip, and as atomic
		history := " RETURNING 1) INSERT INTO drawbridge_operation_history (tenant, id, rev, at, state, resolution, code, actor) SELECT ?, ?, ?, ?, ?, ?, ?, ? FROM put"
		s.create = "WITH put AS (" + create + history
		s.swap = "WITH put AS (UPDATE " + swap + history
	}
	for _, text := range []*string{&s.create, &s.swap, &s.history, &s.get, &s.intent, &s.approval, &s.unsettled, &s.historyOfThis} {
		*text = d.bind(*text)
	}
	return s
}

// prepare reads the statements that SQLite would read anew at each write. They
// end with the database.
func (s *Store) prepare(ctx context.Context) error {
	s.prepared = map[string]*sql.Stmt{}
	for _, text := range []string{s.q.create, s.q.swap, s.q.history} {
		stmt, err := s.d.db.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		s.prepared[text] = stmt
	}
	return nil
}

// patience is how often a write is tried again when it was refused and then
// nothing is in its way: what was, settled meanwhile.
const patience = 16

var errRefused = errors.New("sqlstore: the database refused a record for no reason that can be found")

// Create implements [operation.Store].
func (s *Store) Create(ctx context.Context, rec operation.Record) (operation.Record, error) {
	rec = rec.Clone()
	rec.Rev = 1
	args, err := s.d.values(rec)
	if err != nil {
		return operation.Record{}, toolresult.WrapError(toolresult.Internal, "the record cannot be stored", err)
	}
	args = append(args, args[0], column.Text(rec.Intent))
	for range patience {
		stored, err := s.put(ctx, s.q.create, args, rec)
		if err != nil {
			return operation.Record{}, failure(ctx, err)
		}
		if stored {
			return rec, nil
		}
		switch old, err := s.Get(ctx, rec.Binding.Requester.Tenant, rec.ID); {
		case err == nil:
			return old, operation.ErrExists
		case !errors.Is(err, toolresult.NotFound):
			return operation.Record{}, err
		}
		if err := s.inTheWay(ctx, rec, true); err != nil {
			return operation.Record{}, err
		}
	}
	return operation.Record{}, failure(ctx, errRefused)
}

// Get implements [operation.Store].
func (s *Store) Get(ctx context.Context, tenant, id string) (operation.Record, error) {
	r, err := s.d.scan(s.d.db.QueryRowContext(ctx, s.q.get, column.Text(tenant), column.Text(id)))
	if errors.Is(err, sql.ErrNoRows) {
		return operation.Record{}, toolresult.NewError(toolresult.NotFound, "no such operation")
	}
	return r, failure(ctx, err)
}

// CompareAndSwap implements [operation.Store].
func (s *Store) CompareAndSwap(ctx context.Context, rec operation.Record) (operation.Record, error) {
	rec = rec.Clone()
	was := rec.Rev
	if was < 1 { // and whatever overflows below is not in the table
		return operation.Record{}, operation.ErrVersion
	}
	rec.Rev++
	args, err := s.d.values(rec)
	if err != nil {
		return operation.Record{}, toolresult.WrapError(toolresult.Internal, "the record cannot be stored", err)
	}
	args = append(args[2:], args[0], args[1], was)
	for range patience {
		stored, err := s.put(ctx, s.q.swap, args, rec)
		if err != nil {
			return operation.Record{}, failure(ctx, err)
		}
		if stored {
			return rec, nil
		}
		switch now, err := s.Get(ctx, rec.Binding.Requester.Tenant, rec.ID); {
		case errors.Is(err, toolresult.NotFound) || err == nil && now.Rev != was:
			return operation.Record{}, operation.ErrVersion
		case err != nil:
			return operation.Record{}, err
		}
		if err := s.inTheWay(ctx, rec, rec.State.Open()); err != nil {
			return operation.Record{}, err
		}
	}
	return operation.Record{}, failure(ctx, errRefused)
}

// put writes a record and the row of its history, and reports whether it did: a
// rule of the store is no error.
func (s *Store) put(ctx context.Context, statement string, args []any, rec operation.Record) (stored bool, err error) {
	history := historyRow(rec)
	if s.d.dialect == PostgreSQL {
		done, err := s.d.db.ExecContext(ctx, statement, append(args[:len(args):len(args)], history...)...)
		if duplicate(err) {
			return false, nil
		}
		return one(done, err)
	}
	return s.putPrepared(ctx, s.prepared[statement], args, history)
}

// putPrepared is put on SQLite, where reading a statement of so many columns
// costs a tenth of the write. The transaction begins with a statement that
// writes, so that it waits for the file's lock there and nowhere else.
func (s *Store) putPrepared(ctx context.Context, statement *sql.Stmt, args, history []any) (stored bool, err error) {
	release, err := s.d.turn(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	tx, err := s.d.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // after a commit it says so, and nothing else
	if stored, err = one(tx.StmtContext(ctx, statement).ExecContext(ctx, args...)); err != nil || !stored {
		return false, err
	}
	if _, err := tx.StmtContext(ctx, s.prepared[s.q.history]).ExecContext(ctx, history...); err != nil {
		return false, err
	}
	err = tx.Commit()
	return err == nil, err
}

// one reports whether a statement changed a row.
func one(done sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n == 1, err
}

// inTheWay finds the rule that a record broke. Nil: none, or none any more.
func (s *Store) inTheWay(ctx context.Context, rec operation.Record, open bool) error {
	for _, rule := range []struct {
		ask, value string
		applies    bool
		says       error
	}{
		{s.q.intent, rec.Intent, open, operation.ErrIntentOpen},
		{s.q.approval, rec.Approval, rec.Approval != "", operation.ErrApprovalUsed},
	} {
		if !rule.applies {
			continue
		}
		var n int
		if err := s.d.db.QueryRowContext(ctx, rule.ask, column.Text(rec.Binding.Requester.Tenant), column.Text(rule.value), column.Text(rec.ID)).Scan(&n); err != nil {
			return failure(ctx, err)
		}
		if n > 0 {
			return rule.says
		}
	}
	return nil
}

// Unsettled implements [operation.Store]. A record that cannot be read does not
// hide the others: they are returned beside the error.
func (s *Store) Unsettled(ctx context.Context, at time.Time, limit int) ([]operation.Record, error) {
	n, err := column.Instant(at)
	if err != nil {
		return nil, toolresult.WrapError(toolresult.Internal, "the time cannot be compared with", err)
	}
	rows, err := s.d.db.QueryContext(ctx, s.q.unsettled, n, max(0, limit))
	if err != nil {
		return nil, failure(ctx, err)
	}
	defer rows.Close()
	var out []operation.Record
	var bad []error
	for rows.Next() {
		r, err := s.d.scan(rows)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		out = append(out, r)
	}
	return out, failure(ctx, errors.Join(append(bad, rows.Err())...))
}
