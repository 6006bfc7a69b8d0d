package connection

import (
	"context"
	"errors"

	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
)

// Rewrap seals everything that is sealed under an old key again under the current
// one, and says how many connections it changed. It disturbs no refresh: one that
// is under way wins, and the connection is counted as skipped. When skipped is 0
// and err is nil, the old key can be taken away.
//
// A connection that cannot be opened is left as it is, and its error is returned
// after all others were done.
func (m *Manager) Rewrap(ctx context.Context) (changed, skipped int, err error) {
	list, err := m.all(ctx, &Query{All: true})
	if err != nil {
		return 0, 0, err
	}
	for _, r := range list {
		if ctx.Err() != nil {
			return changed, skipped, ctx.Err()
		}
		if !m.keys.Stale(r.Access) && !m.keys.Stale(r.Refresh) {
			continue
		}
		next, sealErr := m.reseal(r)
		if sealErr != nil {
			err = sealErr
			continue
		}
		switch _, swapErr := m.store.CompareAndSwap(ctx, next); {
		case swapErr == nil:
			changed++
		case errors.Is(swapErr, ErrVersion):
			skipped++
		default:
			err = errStore(swapErr)
		}
	}
	return changed, skipped, err
}

func (m *Manager) reseal(r Record) (Record, error) {
	for _, f := range []struct {
		name   string
		sealed *[]byte
	}{{fieldAccess, &r.Access}, {fieldRefresh, &r.Refresh}} {
		s, err := m.unseal(r.Owner.Tenant, r.ID, f.name, *f.sealed)
		if err != nil {
			return r, err
		}
		if *f.sealed, err = m.seal(r.Owner.Tenant, r.ID, f.name, token.NewSecret(s.Reveal())); err != nil {
			return r, errSealed(err)
		}
	}
	return r, nil
}
