package mutants

import (
	"bytes"
	"context"
	"errors"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
)

// accountMutants are wrong about where accounts are kept.
var accountMutants = []Mutant{
	{"rotation-lost", "a replaced refresh token that is in memory only, so that a restart sends the old one, which the issuer takes for theft"},
	{"disconnect-local-only", "a disconnection that deletes the row, and leaves the grant at the provider"},
	{"lease-unseen", "a store of which each replica keeps a copy: two of them renew one account, and a refresh token that works once is sent twice"},
	{"unstored-token-used", "a write that failed, and goes for done: the token that came is used, and with it the one that is stored is over"},
}

// accounts is an operator's part in front of the store of accounts.
type accounts struct {
	*Switch
	connection.Store
}

// CompareAndSwap implements [connection.Records].
func (s *accounts) CompareAndSwap(ctx context.Context, rec connection.Record) (connection.Record, error) {
	old, err := s.Store.Get(ctx, rec.Owner.Tenant, rec.ID)
	if err != nil {
		return s.Store.CompareAndSwap(ctx, rec)
	}
	renewed := len(old.Refresh) > 0 && len(rec.Refresh) > 0 && !bytes.Equal(old.Refresh, rec.Refresh)
	if renewed && s.is("rotation-lost") {
		return copied(rec), nil
	}
	if remote := rec.Disconnection.Remote; remote != connection.StepNone && !remote.Over() && s.is("disconnect-local-only") {
		rec.Disconnection.Remote = connection.StepDone
	}
	if old.Version != rec.Version && old.Lease.Attempt != "" && s.is("lease-unseen") {
		rec.Version = old.Version
	}
	stored, err := s.Store.CompareAndSwap(ctx, rec)
	if err != nil && renewed && !errors.Is(err, connection.ErrVersion) && s.is("unstored-token-used") {
		return copied(rec), nil
	}
	return stored, err
}

// copied is a record as a store would return it.
func copied(rec connection.Record) connection.Record {
	rec = rec.Clone()
	rec.Version++
	return rec
}

// Get implements [connection.Records].
func (s *accounts) Get(ctx context.Context, tenant, id string) (connection.Record, error) {
	rec, err := s.Store.Get(ctx, tenant, id)
	return s.unleased(rec), err
}

// List implements [connection.Records].
func (s *accounts) List(ctx context.Context, q *connection.Query) ([]connection.Record, error) {
	list, err := s.Store.List(ctx, q)
	for i := range list {
		list[i] = s.unleased(list[i])
	}
	return list, err
}

// unleased is a record from before somebody began to renew it.
func (s *accounts) unleased(rec connection.Record) connection.Record {
	if rec.State == connection.Refreshing && s.is("lease-unseen") {
		rec.Lease, rec.State = connection.Lease{}, connection.Active
	}
	return rec
}
