package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore/internal/column"
	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Inbox is a webhook.Inbox on a database. It is safe for concurrent use by any
// number of goroutines and processes. On SQLite, writers of one process that
// would wait for each other share one transaction, so that a burst of deliveries
// costs few flushes of the disk.
type Inbox struct {
	d *database
	q inboxStatements
}

var _ webhook.Inbox = (*Inbox)(nil)

type inboxStatements struct {
	put, get, any, release, claim, last, settle, state, object, revive string
	forget, forgetObjects, purgeObjects, purge                         string
}

// inboxColumns are in the order of values and scan.
const inboxColumns = "tenant, source, id, digest, event_key, connection, scheme, type, object, version, deleted, restored, signed_at, received, body, state, attempts, due, claim, code, settled_at"

// Inbox returns the webhook.Inbox on the same database.
func (s *Store) Inbox() *Inbox { return newInbox(s.d) }

func newInbox(d *database) *Inbox {
	const (
		this   = " WHERE tenant = ? AND source = ? AND id = ?"
		unlock = "state = 'held' AND due <= ?"
		// first of its object: nobody is before it, and none is held
		free = "SELECT tenant, source, id FROM drawbridge_inbox e WHERE e.state = 'waiting' AND e.due <= ? AND (e.object = '' OR NOT EXISTS (" +
			"SELECT 1 FROM drawbridge_inbox o WHERE o.tenant = e.tenant AND o.source = e.source AND o.object = e.object AND o.object <> '' AND o.state IN ('waiting', 'held') AND o.id <> e.id " +
			"AND (o.state = 'held' OR (o.version, o.received, o.id) < (e.version, e.received, e.id)))) ORDER BY e.received, e.id LIMIT ?"
		hold = "drawbridge_inbox SET state = 'held', due = ?, claim = claim + 1, attempts = attempts + 1 WHERE (tenant, source, id) IN ("
	)
	n := len(strings.Split(inboxColumns, ", "))
	s := inboxStatements{
		put:     "INSERT INTO drawbridge_inbox (" + inboxColumns + ") VALUES (" + strings.Repeat("?, ", n-1) + "?) ON CONFLICT DO NOTHING",
		get:     "SELECT " + inboxColumns + " FROM drawbridge_inbox" + this,
		any:     "SELECT count(*) FROM (SELECT 1 FROM drawbridge_inbox WHERE state IN ('waiting', 'held') AND due <= ? LIMIT 1) AS x",
		release: "UPDATE drawbridge_inbox SET state = 'waiting' WHERE " + unlock,
		claim:   "UPDATE OR IGNORE " + hold + free + ") RETURNING " + inboxColumns,
		last:    "SELECT version, deleted FROM drawbridge_inbox_objects WHERE tenant = ? AND source = ? AND object = ?",
		settle: "UPDATE drawbridge_inbox SET state = ?, due = ?, code = ?, settled_at = ?, attempts = attempts - ?, body = CASE WHEN ? = 1 THEN NULL ELSE body END" +
			this + " AND state = 'held' AND claim = ?",
		state: "SELECT count(*) FROM drawbridge_inbox" + this + " AND state = 'done' AND claim = ?",
		object: "INSERT INTO drawbridge_inbox_objects (tenant, source, object, version, deleted, handled) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, source, object) DO UPDATE SET " +
			"version = CASE WHEN excluded.version > drawbridge_inbox_objects.version THEN excluded.version ELSE drawbridge_inbox_objects.version END, deleted = excluded.deleted, handled = excluded.handled",
		revive:        "UPDATE drawbridge_inbox SET state = 'waiting', due = ?, attempts = 0, code = '', settled_at = ?" + this + " AND state NOT IN ('waiting', 'held', 'done', 'stale')",
		forget:        "DELETE FROM drawbridge_inbox WHERE received < ? AND state NOT IN ('waiting', 'held')",
		forgetObjects: "DELETE FROM drawbridge_inbox_objects WHERE handled < ?",
		purgeObjects: "DELETE FROM drawbridge_inbox_objects WHERE tenant = ? AND source IN " +
			"(SELECT source FROM drawbridge_inbox WHERE tenant = ? AND connection = ?)",
		purge: "DELETE FROM drawbridge_inbox WHERE tenant = ? AND connection = ?",
	}
	if d.dialect == PostgreSQL { // rows that another claims are left to it
		s.release = "UPDATE drawbridge_inbox SET state = 'waiting' WHERE (tenant, source, id) IN (SELECT tenant, source, id FROM drawbridge_inbox WHERE " + unlock + " FOR UPDATE SKIP LOCKED)"
		s.claim = "UPDATE " + hold + free + " FOR UPDATE SKIP LOCKED) RETURNING " + inboxColumns
	}
	for _, text := range []*string{&s.put, &s.get, &s.any, &s.release, &s.claim, &s.last, &s.settle, &s.state, &s.object, &s.revive, &s.forget, &s.forgetObjects, &s.purgeObjects, &s.purge} {
		*text = d.bind(*text)
	}
	return &Inbox{d, s}
}

func bodyOf(e *webhook.Event) credential.Place {
	return credential.Place{Tenant: e.Tenant, Record: "webhook " + column.Text(e.Source) + " " + e.ID, Field: "body"}
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (i *Inbox) values(e *webhook.Event) ([]any, error) {
	var errs [5]error
	var times [4]int64
	for n, at := range []time.Time{e.SignedAt, e.Received, e.Due, e.SettledAt} {
		times[n], errs[n] = column.Instant(at)
	}
	body, err := i.d.lock(bodyOf(e), e.Body)
	errs[4] = err
	t := column.Text
	return []any{t(e.Tenant), t(e.Source), t(e.ID), t(e.Digest), t(e.Key), t(e.Connection), t(e.Scheme), t(e.Type), t(e.Object), e.Version, flag(e.Deleted), flag(e.Restored),
		times[0], times[1], body, e.State.String(), int64(e.Attempts), times[2], e.Claim, t(string(e.Code)), times[3]}, errors.Join(errs[:]...)
}

func (i *Inbox) scan(row interface{ Scan(...any) error }) (webhook.Event, error) {
	var e webhook.Event
	var code string
	var body []byte
	var state eventState
	err := row.Scan(textColumn{&e.Tenant}, textColumn{&e.Source}, textColumn{&e.ID}, textColumn{&e.Digest}, textColumn{&e.Key}, textColumn{&e.Connection}, textColumn{&e.Scheme}, textColumn{&e.Type},
		textColumn{&e.Object}, &e.Version, &e.Deleted, &e.Restored, timeColumn{&e.SignedAt}, timeColumn{&e.Received}, &body, &state, &e.Attempts, timeColumn{&e.Due}, &e.Claim, textColumn{&code}, timeColumn{&e.SettledAt})
	if err != nil {
		return webhook.Event{}, err
	}
	e.Code, e.State = toolresult.ErrorCode(code), webhook.State(state)
	if e.Body, err = i.d.unlock(bodyOf(&e), body); err != nil {
		return webhook.Event{}, err
	}
	return e, nil
}

// eventState reads a state. A word that nobody knows is webhook.Failed.
type eventState webhook.State

func (s *eventState) Scan(v any) error {
	switch v := v.(type) {
	case string:
		return (*webhook.State)(s).UnmarshalText([]byte(v))
	case []byte:
		return (*webhook.State)(s).UnmarshalText(v)
	}
	*s = eventState(webhook.Failed)
	return nil
}

// Put implements [webhook.Inbox].
func (i *Inbox) Put(ctx context.Context, e webhook.Event) (stored bool, err error) {
	e.Begin()
	args, err := i.values(&e)
	if err != nil {
		return false, toolresult.WrapError(toolresult.Internal, "the event cannot be stored", err)
	}
	err = i.d.together(ctx, func(ctx context.Context, q querier) (err error) {
		stored, err = one(q.ExecContext(ctx, i.q.put, args...))
		return err
	})
	return stored && err == nil, failure(ctx, err)
}

// Claim implements [webhook.Inbox]. An event that cannot be read is an error, and
// stays held until its lease is over; the others are returned beside it.
func (i *Inbox) Claim(ctx context.Context, at, until time.Time, limit int) ([]webhook.Event, error) {
	from, err1 := column.Instant(at)
	to, err2 := column.Instant(until)
	if err := errors.Join(err1, err2); err != nil {
		return nil, toolresult.WrapError(toolresult.Internal, "the time cannot be compared with", err)
	}
	var n int
	if err := i.d.db.QueryRowContext(ctx, i.q.any, from).Scan(&n); err != nil || n == 0 || limit <= 0 {
		return nil, failure(ctx, err)
	}
	for range patience {
		var out []webhook.Event
		var bad error
		err := i.d.together(ctx, func(ctx context.Context, q querier) (err error) {
			if _, err := q.ExecContext(ctx, i.q.release, from); err != nil {
				return err
			}
			if out, bad, err = i.hold(ctx, q, to, from, limit); err != nil {
				return err
			}
			return i.fillLast(ctx, q, out)
		})
		if duplicate(err) {
			continue // another has claimed one of the same object at the same time
		}
		if err != nil {
			return nil, failure(ctx, err)
		}
		return out, failure(ctx, bad)
	}
	return nil, nil // they are being claimed by others
}

func (i *Inbox) hold(ctx context.Context, q querier, to, from int64, limit int) (out []webhook.Event, bad, err error) {
	rows, err := q.QueryContext(ctx, i.q.claim, to, from, limit)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		e, err := i.scan(rows)
		if err != nil {
			bad = errors.Join(bad, err)
			continue
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b webhook.Event) int {
		return cmp.Or(a.Received.Compare(b.Received), cmp.Compare(a.ID, b.ID))
	})
	return out, bad, rows.Err()
}

func (i *Inbox) fillLast(ctx context.Context, q querier, list []webhook.Event) error {
	for n := range list {
		e := &list[n]
		if e.Object == "" {
			continue
		}
		err := q.QueryRowContext(ctx, i.q.last, column.Text(e.Tenant), column.Text(e.Source), column.Text(e.Object)).Scan(&e.Last.Version, &e.Last.Deleted)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	return nil
}

// Settle implements [webhook.Inbox].
func (i *Inbox) Settle(ctx context.Context, e webhook.Event, o webhook.Outcome) error {
	return i.end(ctx, e, o, nil)
}

// Tx is what a function can do in a transaction that is not its own to end.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Commit settles a claimed event as Done and runs f, in one transaction: what f
// writes through tx is there if and only if the event is Done, and so once,
// however often it was handed out. It fails with webhook.ErrClaim, and then f
// was not run, or as f does, and then nothing is changed. A Handler calls it last,
// with what it has found out before, and returns its error.
//
// f must wait for nothing but the database, for others' transactions wait for
// it, and must begin, commit and save nothing itself. It may be run again after
// a failure. It uses the ctx that it is given.
func (i *Inbox) Commit(ctx context.Context, e *webhook.Event, f func(ctx context.Context, tx Tx) error) error {
	return i.end(ctx, *e, webhook.Outcome{State: webhook.Done, At: time.Now().UTC()}, f)
}

func (i *Inbox) end(ctx context.Context, e webhook.Event, o webhook.Outcome, f func(ctx context.Context, tx Tx) error) error {
	due, err1 := column.Instant(o.Due)
	at, err2 := column.Instant(o.At)
	if err := errors.Join(err1, err2); err != nil {
		return toolresult.WrapError(toolresult.Internal, "the outcome cannot be stored", err)
	}
	settled := at
	if !o.State.Settled() {
		settled = column.NoTime
	}
	id := []any{column.Text(e.Tenant), column.Text(e.Source), column.Text(e.ID)}
	args := append([]any{o.State.String(), due, column.Text(string(o.Code)), settled, flag(o.Unbegun), flag(o.State == webhook.Done || o.State == webhook.Stale)}, id...)
	var refused error
	err := i.d.together(ctx, func(ctx context.Context, q querier) error {
		refused = nil
		ended, err := one(q.ExecContext(ctx, i.q.settle, append(args, e.Claim)...))
		switch {
		case err != nil:
			return err
		case !ended:
			refused, err = i.again(ctx, q, append(id, e.Claim), f == nil && o.State == webhook.Done)
			return err
		}
		if o.State == webhook.Done && e.Object != "" {
			if _, err := q.ExecContext(ctx, i.q.object, id[0], id[1], column.Text(e.Object), e.Version, flag(e.Deleted), at); err != nil {
				return err
			}
		}
		if f != nil {
			if refused = f(ctx, q); refused != nil {
				return refused
			}
		}
		return nil
	})
	if refused != nil {
		return refused
	}
	return failure(ctx, err)
}

// again says what a claim that settled nothing is told: that it is over, unless
// it has settled the event as Done before and says so once more.
func (i *Inbox) again(ctx context.Context, q querier, claim []any, done bool) (refused, err error) {
	var n int
	if done {
		err = q.QueryRowContext(ctx, i.q.state, claim...).Scan(&n)
	}
	if n == 0 {
		refused = webhook.ErrClaim
	}
	return refused, err
}

// Event implements [webhook.Inbox].
func (i *Inbox) Event(ctx context.Context, tenant, source, id string) (webhook.Event, error) {
	e, err := i.scan(i.d.db.QueryRowContext(ctx, i.q.get, column.Text(tenant), column.Text(source), column.Text(id)))
	if errors.Is(err, sql.ErrNoRows) {
		return webhook.Event{}, webhook.NoEvent()
	}
	return e, failure(ctx, err)
}

// Revive implements [webhook.Inbox].
func (i *Inbox) Revive(ctx context.Context, tenant, source, id string, at time.Time) error {
	n, err := column.Instant(at)
	if err != nil {
		return toolresult.WrapError(toolresult.Internal, "the time cannot be stored", err)
	}
	revived, err := one(i.d.exec(ctx, i.q.revive, n, column.NoTime, column.Text(tenant), column.Text(source), column.Text(id)))
	if err == nil && !revived {
		return webhook.NoEvent()
	}
	return failure(ctx, err)
}

// Forget implements [webhook.Inbox].
func (i *Inbox) Forget(ctx context.Context, before time.Time) error {
	n, err := column.Instant(before)
	if err != nil {
		return toolresult.WrapError(toolresult.Internal, "the time cannot be compared with", err)
	}
	_, err1 := i.d.exec(ctx, i.q.forget, n)
	_, err2 := i.d.exec(ctx, i.q.forgetObjects, n)
	return failure(ctx, errors.Join(err1, err2))
}

// Purge implements [webhook.Inbox].
func (i *Inbox) Purge(ctx context.Context, tenant, connection string) error {
	t, c := column.Text(tenant), column.Text(connection)
	return failure(ctx, i.d.write(ctx, func(q querier) error {
		if _, err := q.ExecContext(ctx, i.q.purgeObjects, t, t, c); err != nil {
			return err
		}
		_, err := q.ExecContext(ctx, i.q.purge, t, c)
		return err
	}))
}
