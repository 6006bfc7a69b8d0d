package check

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
)

// disk is a store of accounts that can be full.
type disk struct {
	connection.Store
	mu   sync.Mutex
	full bool
}

// FullDisk makes the store of accounts refuse new tokens, or take them again. It
// is below what a fixture puts in its place.
func (s *Session) FullDisk(yes bool) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	s.disk.full = yes
}

// CompareAndSwap implements [connection.Records].
func (d *disk) CompareAndSwap(ctx context.Context, r connection.Record) (connection.Record, error) {
	d.mu.Lock()
	full := d.full
	d.mu.Unlock()
	if full {
		if old, err := d.Get(ctx, r.Owner.Tenant, r.ID); err == nil && !bytes.Equal(old.Access, r.Access) {
			return connection.Record{}, errors.New("connectortest: the disk is full")
		}
	}
	return d.Store.CompareAndSwap(ctx, r)
}
