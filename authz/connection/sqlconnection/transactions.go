package sqlconnection

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// AddTransaction implements [connection.Transactions].
func (s *Store) AddTransaction(ctx context.Context, t connection.Transaction) (connection.Transaction, error) {
	if !storable(t.Owner.Tenant, t.ID) {
		return connection.Transaction{}, errText()
	}
	t = t.Clone()
	t.Version = 1
	text, err := encode(t)
	if err != nil {
		return connection.Transaction{}, err
	}
	switch n, err := s.write(ctx, s.q.addTransaction, t.Owner.Tenant, t.ID, t.Expires.UnixMicro(), text); {
	case err != nil:
		return connection.Transaction{}, err
	case n == 0:
		return connection.Transaction{}, connection.ErrExists
	}
	return t, nil
}

// Transaction implements [connection.Transactions].
func (s *Store) Transaction(ctx context.Context, tenant, id string) (connection.Transaction, error) {
	var t connection.Transaction
	found := false
	if storable(tenant, id) {
		err := s.each(ctx, func(row *sql.Rows) error {
			var version int64
			var text string
			if err := row.Scan(&version, &text); err != nil {
				return err
			}
			if err := decode(text, &t); err != nil {
				return err
			}
			if t.Owner.Tenant != tenant || t.ID != id || t.Version != version {
				return fmt.Errorf("%w: the row of a transaction of tenant %q holds another one", ErrDamaged, tenant)
			}
			found = true
			return nil
		}, s.q.transaction, tenant, id)
		if err != nil {
			return connection.Transaction{}, err
		}
	}
	if !found {
		return connection.Transaction{}, toolresult.NewError(toolresult.NotFound, "no such transaction")
	}
	return t, nil
}

// SwapTransaction implements [connection.Transactions].
func (s *Store) SwapTransaction(ctx context.Context, t connection.Transaction) (connection.Transaction, error) {
	if !storable(t.Owner.Tenant, t.ID) {
		return connection.Transaction{}, connection.ErrVersion // there is none
	}
	was := t.Version
	t = t.Clone()
	t.Version++
	text, err := encode(t)
	if err != nil {
		return connection.Transaction{}, err
	}
	switch n, err := s.write(ctx, s.q.swapTransaction, t.Version, t.Expires.UnixMicro(), text, t.Owner.Tenant, t.ID, was); {
	case err != nil:
		return connection.Transaction{}, err
	case n == 0:
		return connection.Transaction{}, connection.ErrVersion
	}
	return t, nil
}

// SweepTransactions implements [connection.Transactions].
func (s *Store) SweepTransactions(ctx context.Context, before time.Time) (int, error) {
	return s.write(ctx, s.q.sweepTransaction, before.UnixMicro())
}

// AddHold implements [connection.Holds].
func (s *Store) AddHold(ctx context.Context, h connection.Hold) error {
	if !storable(h.Tenant, h.ID) {
		return errText()
	}
	text, err := encode(h)
	if err != nil {
		return err
	}
	n, err := s.write(ctx, s.q.addHold, h.Tenant, h.ID, text)
	if err == nil && n == 0 {
		return connection.ErrExists
	}
	return err
}

// Holds implements [connection.Holds].
func (s *Store) Holds(ctx context.Context, tenant string) (out []connection.Hold, err error) {
	if !storable(tenant) {
		return nil, nil
	}
	err = s.each(ctx, func(row *sql.Rows) error {
		var id, text string
		if err := row.Scan(&id, &text); err != nil {
			return err
		}
		var h connection.Hold
		if err := decode(text, &h); err != nil {
			return err
		}
		if h.Tenant != tenant || h.ID != id {
			return fmt.Errorf("%w: the row of hold %q of tenant %q holds another one", ErrDamaged, id, tenant)
		}
		out = append(out, h)
		return nil
	}, s.q.holds, tenant)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b connection.Hold) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// RemoveHold implements [connection.Holds].
func (s *Store) RemoveHold(ctx context.Context, tenant, id string) error {
	if !storable(tenant, id) {
		return nil
	}
	_, err := s.write(ctx, s.q.removeHold, tenant, id)
	return err
}
