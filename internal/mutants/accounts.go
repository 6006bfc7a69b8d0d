package mutants

import (
	"bytes"
	"context"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
)

// accountMutants are wrong about where accounts are kept.
var accountMutants = []Mutant{
	{"rotation-lost", "a replaced refresh token that is in memory only, so that a restart sends the old one, which the issuer takes for theft"},
	{"disconnect-local-only", "a disconnection that deletes the row, and leaves the grant at the provider"},
}

// accounts is an operator's part in front of the store of accounts.
type accounts struct {
	*Switch
	connection.Store
}

// CompareAndSwap implements [connection.Records].
func (s *accounts) CompareAndSwap(ctx context.Context, rec connection.Record) (connection.Record, error) {
	old, err := s.Get(ctx, rec.Owner.Tenant, rec.ID)
	if err != nil {
		return s.Store.CompareAndSwap(ctx, rec)
	}
	if len(old.Refresh) > 0 && len(rec.Refresh) > 0 && !bytes.Equal(old.Refresh, rec.Refresh) && s.is("rotation-lost") {
		kept := rec.Clone()
		kept.Version++
		return kept, nil
	}
	if remote := rec.Disconnection.Remote; remote != connection.StepNone && !remote.Over() && s.is("disconnect-local-only") {
		rec.Disconnection.Remote = connection.StepDone
	}
	return s.Store.CompareAndSwap(ctx, rec)
}
