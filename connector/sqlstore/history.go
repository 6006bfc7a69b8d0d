package sqlstore

import (
	"context"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore/internal/column"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Entry is what was known of an operation at one of its versions.
type Entry struct {
	Rev        int64
	At         time.Time // when it was written, by the clock of the process that did
	State      operation.State
	Resolution operation.State // if State is operation.Resolved
	Code       toolresult.ErrorCode
	By         string // who settled it, as in operation.Record; before that the run that held it; may be empty
}

func historyRow(r operation.Record) []any {
	by := r.Holder
	if r.State.Settled() {
		by = r.SettledBy
	}
	return []any{column.Text(r.Binding.Requester.Tenant), column.Text(r.ID), r.Rev, now(), r.State.String(), r.Resolution.String(), column.Text(string(r.Code)), column.Text(by)}
}

// History returns what was known of an operation, oldest first, one entry for
// each version: every look-up that found nothing new is among them. It is
// NOT_FOUND for an operation that the tenant does not have.
func (s *Store) History(ctx context.Context, tenant, id string) ([]Entry, error) {
	rows, err := s.d.db.QueryContext(ctx, s.q.historyOfThis, column.Text(tenant), column.Text(id))
	if err != nil {
		return nil, failure(ctx, err)
	}
	defer rows.Close()
	var out []Entry
	for rows.Next() {
		var e Entry
		var code string
		if err := rows.Scan(&e.Rev, timeColumn{&e.At}, wordColumn{&e.State}, wordColumn{&e.Resolution}, textColumn{&code}, textColumn{&e.By}); err != nil {
			return nil, failure(ctx, err)
		}
		e.Code = toolresult.ErrorCode(code)
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, failure(ctx, err)
	}
	if len(out) == 0 {
		return nil, toolresult.NewError(toolresult.NotFound, "no such operation")
	}
	return out, nil
}
