// Package operationtest checks that an operation.Store keeps its contract.
//
//	func TestStore(t *testing.T) {
//		file := filepath.Join(t.TempDir(), "operations")
//		operationtest.Run(t, func(t testing.TB) operation.Store { return open(t, file) }, nil)
//	}
//
// Every clause of the contract is a subtest whose name is the sentence. Several
// handles on the same data race for the same key, approval and intent, because
// that is where stores fail.
//
// It does not end processes or cut power: whether a write is durable when it
// returns is for the store's own tests.
package operationtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Options are options of Run.
type Options struct {
	// Corrupt replaces the state that is stored for a record by another word,
	// as an editor of the database or a newer version would. Nil: the store
	// keeps no words.
	Corrupt func(t testing.TB, tenant, id, word string)

	// Rivals is how many goroutines race for the same thing. 0: 8.
	Rivals int
}

// Run checks a store that is empty. Each call of open returns a handle on the
// same data, as another process would have it; a store of one process may return
// the same one every time.
func Run(t *testing.T, open func(t testing.TB) operation.Store, opts *Options) {
	t.Helper()
	s := &suite{rivals: 8}
	if opts != nil {
		s.corrupt = opts.Corrupt
		if opts.Rivals > 0 {
			s.rivals = opts.Rivals
		}
	}
	for range 3 {
		s.handles = append(s.handles, open(t))
	}
	s.Store = s.handles[0]
	for _, c := range slices.Concat(order, clauses, races) {
		t.Run(c.why, func(t *testing.T) { c.check(t, s) })
	}
}

// suite is one run. Every clause works in a tenant of its own.
type suite struct {
	operation.Store
	handles []operation.Store
	corrupt func(t testing.TB, tenant, id, word string)
	rivals  int
	count   atomic.Int64
}

type clause struct {
	why   string
	check func(t *testing.T, s *suite)
}

func (s *suite) tenant() string { return fmt.Sprintf("tenant-%d", s.count.Add(1)) }

// record is a prepared operation. Its id, approval and intent are those given.
func record(tenant, id, approval, intent string) operation.Record {
	return operation.Record{
		Operation: operation.Operation{ID: id, Key: "key of " + id, PreparedAt: time.Unix(1e9, 123456789).UTC()},
		State:     operation.Prepared, Approval: approval, Intent: intent, Arguments: json.RawMessage(`{"amount":500}`),
		Targets: []authz.ResourceID{{Type: "project", ID: "inc"}},
		Binding: authz.Binding{Digest: "sha256:x", Requester: authz.PrincipalKey{Tenant: tenant, Issuer: "https://id.example", Subject: "alice"}},
	}
}

func create(t testing.TB, s operation.Store, r operation.Record) operation.Record {
	t.Helper()
	got, err := s.Create(t.Context(), r)
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Rev, "a new record has Rev 1")
	return got
}

func swap(t testing.TB, s operation.Store, r operation.Record, state operation.State) operation.Record {
	t.Helper()
	rev := r.Rev
	r.State = state
	got, err := s.CompareAndSwap(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, rev+1, got.Rev, "the next Rev")
	return got
}

func get(t testing.TB, s operation.Store, tenant, id string) operation.Record {
	t.Helper()
	got, err := s.Get(t.Context(), tenant, id)
	require.NoError(t, err)
	return got
}

// gone checks that nothing is stored under an id.
func gone(t testing.TB, s operation.Store, tenant, id string) {
	t.Helper()
	got, err := s.Get(t.Context(), tenant, id)
	require.ErrorIs(t, err, toolresult.NotFound)
	require.Zero(t, got)
}

// same compares records with their times as instants.
func same(t require.TestingT, want, got operation.Record, why ...any) {
	for _, at := range []*time.Time{&want.PreparedAt, &want.SentAt, &want.FirstSent, &want.ApprovalEnds, &want.SettledAt, &want.Until,
		&got.PreparedAt, &got.SentAt, &got.FirstSent, &got.ApprovalEnds, &got.SettledAt, &got.Until} {
		*at = at.UTC().Round(0)
	}
	require.Equal(t, want, got, why...)
}

// order comes first, while the store is empty.
var order = []clause{
	{"Unsettled returns what is open or pending and held by nobody at the time, oldest first, of all tenants", func(t *testing.T, s *suite) {
		at := time.Unix(2e9, 0).UTC()
		var want []string
		for i, row := range []struct {
			state operation.State
			until time.Time
			found bool
		}{
			{operation.Unknown, time.Time{}, true},
			{operation.Dispatched, at, true}, // over at this very moment
			{operation.Pending, at.Add(-time.Nanosecond), true},
			{operation.Dispatched, at.Add(time.Nanosecond), false}, // held
			{operation.Pending, at.Add(time.Hour), false},
			{operation.Prepared, time.Time{}, false},
			{operation.Applied, time.Time{}, false},
			{operation.NotApplied, time.Time{}, false},
			{operation.Resolved, time.Time{}, false},
			{operation.Unknown, time.Time{}, true},
		} {
			r := record(s.tenant(), fmt.Sprint("op", i), "", fmt.Sprint("intent", i))
			r.PreparedAt = time.Unix(1e9, int64(1000-i)).UTC() // later ones are older, by a nanosecond
			r.Until = row.until
			r = create(t, s, r)
			if row.state != operation.Prepared {
				swap(t, s, r, row.state)
			}
			if row.found {
				want = append([]string{r.ID}, want...)
			}
		}
		for limit := range len(want) + 2 {
			found, err := s.Unsettled(t.Context(), at, limit)
			require.NoError(t, err)
			var ids []string
			for _, r := range found {
				ids = append(ids, r.ID)
				same(t, get(t, s, r.Binding.Requester.Tenant, r.ID), r, "whole records")
			}
			require.Equal(t, want[:min(limit, len(want))], append([]string{}, ids...), "at most limit")
		}
	}},
}
