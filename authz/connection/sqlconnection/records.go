package sqlconnection

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/internal/sqldb"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// columns are what is looked for, in the order of both statements.
func columns(r *connection.Record) []any {
	return []any{r.Owner.Issuer, r.Owner.Subject, r.Provider, r.Org, r.Account, string(r.State), string(r.Reason),
		r.Updated.UnixMicro(), r.RetryAt.UnixMicro(), r.Lease.Until.UnixMicro()}
}

func storableRecord(r *connection.Record) bool {
	return storable(r.Owner.Tenant, r.ID, r.Owner.Issuer, r.Owner.Subject, r.Provider, r.Org, r.Account, string(r.State), string(r.Reason))
}

// Create implements [connection.Records].
func (s *Store) Create(ctx context.Context, rec connection.Record) (connection.Record, error) {
	if !storableRecord(&rec) {
		return connection.Record{}, errText()
	}
	rec = rec.Clone()
	rec.Version = 1
	text, err := encode(rec)
	if err != nil {
		return connection.Record{}, err
	}
	args := append(append([]any{rec.Owner.Tenant, rec.ID, rec.Version}, columns(&rec)...), text)
	err = s.d.Write(ctx, func(q sqldb.Querier) error {
		n, err := change(ctx, q, s.q.create, args...)
		if err != nil || n == 1 {
			return err
		}
		_, found, err := s.version(ctx, q, &rec)
		switch {
		case err != nil:
			return err
		case found:
			return connection.ErrExists
		}
		return connection.ErrAccountTaken
	})
	if err != nil {
		return connection.Record{}, failure(ctx, err)
	}
	return rec, nil
}

// version returns what a row has now.
func (s *Store) version(ctx context.Context, q sqldb.Querier, rec *connection.Record) (version int64, found bool, err error) {
	err = q.QueryRowContext(ctx, s.q.version, rec.Owner.Tenant, rec.ID).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return version, err == nil, err
}

// CompareAndSwap implements [connection.Records].
func (s *Store) CompareAndSwap(ctx context.Context, rec connection.Record) (connection.Record, error) {
	if !storable(rec.Owner.Tenant, rec.ID) {
		return connection.Record{}, connection.ErrVersion // there is none
	}
	if !storableRecord(&rec) {
		return connection.Record{}, errText()
	}
	was := rec.Version
	rec = rec.Clone()
	rec.Version++
	text, err := encode(rec)
	if err != nil {
		return connection.Record{}, err
	}
	args := append(append([]any{rec.Version}, columns(&rec)...), text, rec.Owner.Tenant, rec.ID, was)
	err = s.d.Write(ctx, func(q sqldb.Querier) error {
		n, err := change(ctx, q, s.q.swap, args...)
		switch {
		case err != nil && sqldb.Duplicate(err):
			return connection.ErrAccountTaken
		case err != nil || n == 1:
			return err
		case s.d.Dialect == sqldb.PostgreSQL:
			return connection.ErrVersion
		}
		now, found, err := s.version(ctx, q, &rec)
		switch {
		case err != nil:
			return err
		case found && now == was:
			return connection.ErrAccountTaken // ignored because of the index
		}
		return connection.ErrVersion
	})
	if err != nil {
		return connection.Record{}, failure(ctx, err)
	}
	return rec, nil
}

// Get implements [connection.Records].
func (s *Store) Get(ctx context.Context, tenant, id string) (connection.Record, error) {
	if !storable(tenant, id) {
		return connection.Record{}, toolresult.NewError(toolresult.NotFound, "no such connection")
	}
	list, err := s.records(ctx, s.q.get, tenant, id)
	switch {
	case err != nil:
		return connection.Record{}, err
	case len(list) == 0:
		return connection.Record{}, toolresult.NewError(toolresult.NotFound, "no such connection")
	}
	return list[0], nil
}

// records reads rows whose columns are those of the statement get.
func (s *Store) records(ctx context.Context, query string, args ...any) (out []connection.Record, err error) {
	err = s.each(ctx, func(row *sql.Rows) error {
		var tenant, id, state, text string
		var version int64
		if err := row.Scan(&tenant, &id, &version, &state, &text); err != nil {
			return err
		}
		var rec connection.Record
		if err := decode(text, &rec); err != nil {
			return err
		}
		if rec.Owner.Tenant != tenant || rec.ID != id || rec.Version != version || string(rec.State) != state {
			return fmt.Errorf("%w: the row of connection %q of tenant %q holds another record", ErrDamaged, id, tenant)
		}
		out = append(out, rec)
		return nil
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// List implements [connection.Records].
func (s *Store) List(ctx context.Context, q *connection.Query) ([]connection.Record, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	if !storable(q.Tenant, q.Owner.Issuer, q.Owner.Subject, q.Provider, string(q.State), q.AfterTenant, q.AfterID) {
		return nil, errText()
	}
	where, args := conditions(q)
	query := "SELECT tenant, id, version, state, record FROM drawbridge_connections WHERE " + strings.Join(where, " AND ") + " ORDER BY tenant, id LIMIT ?"
	return s.records(ctx, s.d.Dialect.Bind(query), append(args, q.Limit)...)
}

// conditions are texts of ours with what is compared apart from them.
func conditions(q *connection.Query) (where []string, args []any) {
	add := func(text string, values ...any) { where, args = append(where, text), append(args, values...) }
	add("(tenant, id) > (?, ?)", q.AfterTenant, q.AfterID)
	if !q.All {
		add("tenant = ?", q.Tenant)
	}
	if q.Owner != (authz.PrincipalKey{}) {
		add("issuer = ? AND subject = ?", q.Owner.Issuer, q.Owner.Subject)
	}
	if q.Provider != "" {
		add("provider = ?", q.Provider)
	}
	if q.State != "" {
		add("state = ?", string(q.State))
	}
	if q.Live {
		add("state <> '" + string(connection.Disconnected) + "'") // word for word as in the index
	}
	if !q.Due.IsZero() {
		due := q.Due.UnixMicro()
		add("retry_at <= ? AND lease_until <= ?", due, due)
	}
	return where, args
}

// SweepRecords implements [connection.Records].
func (s *Store) SweepRecords(ctx context.Context, before time.Time) (int, error) {
	return s.write(ctx, s.q.sweep, before.UnixMicro())
}
