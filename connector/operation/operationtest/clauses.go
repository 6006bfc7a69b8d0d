package operationtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var clauses = []clause{
	{"every field comes back, times to the nanosecond", roundTrip},
	{"every state comes back, and a resolved one with what the person said", states},
	{"a state or resolution that nobody knows is unknown, and in the way", unknownWords},
	{"one record per tenant and ID: ErrExists, and the record that is in the way", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		one := create(t, s, record(tenant, "op", "a1", "i1"))
		for _, r := range []operation.Record{record(tenant, "op", "", "i2"), record(tenant, "op", "a1", "i1")} {
			old, err := s.Create(t.Context(), r)
			require.ErrorIs(t, err, operation.ErrExists)
			same(t, one, old)
		}
		one = swap(t, s, one, operation.Dispatched)
		old, err := s.Create(t.Context(), record(tenant, "op", "a1", "i1"))
		require.ErrorIs(t, err, operation.ErrExists, "and nothing else, though its own intent is open and its own approval is used")
		same(t, one, old, "as it is now")
	}},
	{"one record per tenant and approval: ErrApprovalUsed, and nothing is stored", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		create(t, s, record(tenant, "op1", "a1", "i1"))
		_, err := s.Create(t.Context(), record(tenant, "op2", "a1", "i2"))
		require.ErrorIs(t, err, operation.ErrApprovalUsed)
		gone(t, s, tenant, "op2")
		two := create(t, s, record(tenant, "op2", "a2", "i2"))
		two.Approval = "a1"
		_, err = s.CompareAndSwap(t.Context(), two)
		require.ErrorIs(t, err, operation.ErrApprovalUsed, "nor by a swap")
		require.Equal(t, "a2", get(t, s, tenant, "op2").Approval)
	}},
	{"an approval stays used when its operation has settled", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		swap(t, s, create(t, s, record(tenant, "op1", "a1", "i1")), operation.NotApplied)
		_, err := s.Create(t.Context(), record(tenant, "op2", "a1", "i2"))
		require.ErrorIs(t, err, operation.ErrApprovalUsed)
	}},
	{"no approval is not an approval: many records have none", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		create(t, s, record(tenant, "op1", "", "i1"))
		create(t, s, record(tenant, "op2", "", "i2"))
	}},
	{"one record per tenant and intent among the open ones: two are prepared, one leaves", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		one, two := create(t, s, record(tenant, "op1", "", "i")), create(t, s, record(tenant, "op2", "", "i"))
		one = swap(t, s, one, operation.Dispatched)
		for _, open := range []operation.State{operation.Dispatched, operation.Unknown} {
			two.State = open
			_, err := s.CompareAndSwap(t.Context(), two)
			require.ErrorIs(t, err, operation.ErrIntentOpen)
		}
		require.Equal(t, operation.Prepared, get(t, s, tenant, "op2").State, "a refused swap changes nothing")
		require.EqualValues(t, 1, get(t, s, tenant, "op2").Rev)
		swap(t, s, one, operation.Unknown)
		_, err := s.Create(t.Context(), record(tenant, "op3", "", "i"))
		require.ErrorIs(t, err, operation.ErrIntentOpen, "not even a prepared one is added to an open one")
		gone(t, s, tenant, "op3")
	}},
	{"an intent is free again when its operation settles or is accepted", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		for i, over := range []operation.State{operation.Applied, operation.NotApplied, operation.Resolved, operation.Pending, operation.Prepared} {
			r := swap(t, s, create(t, s, record(tenant, fmt.Sprint("op", i), "", "i")), operation.Dispatched)
			swap(t, s, r, over)
		}
		create(t, s, record(tenant, "last", "", "i"))
	}},
	{"tenants never meet: the same id, approval and intent in each", func(t *testing.T, s *suite) {
		a, b := s.tenant(), s.tenant()
		one := swap(t, s, create(t, s, record(a, "op", "ap", "i")), operation.Dispatched)
		two := swap(t, s, create(t, s, record(b, "op", "ap", "i")), operation.Unknown)
		same(t, one, get(t, s, a, "op"))
		same(t, two, get(t, s, b, "op"))
		create(t, s, record(a, "only-a", "", "i2"))
		gone(t, s, b, "only-a")
		gone(t, s, "", "only-a")
		moved := get(t, s, a, "only-a")
		moved.Binding.Requester.Tenant = b
		_, err := s.CompareAndSwap(t.Context(), moved)
		require.ErrorIs(t, err, operation.ErrVersion, "a record does not change its tenant")
	}},
	{"a swap of another version is ErrVersion and changes nothing", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		one := create(t, s, record(tenant, "op", "", "i"))
		two := swap(t, s, one, operation.Dispatched)
		for _, rev := range []int64{-1, 0, 1, 3, math.MaxInt64} {
			stale := two
			stale.Rev, stale.State = rev, operation.Applied
			_, err := s.CompareAndSwap(t.Context(), stale)
			require.ErrorIs(t, err, operation.ErrVersion)
		}
		same(t, two, get(t, s, tenant, "op"))
		absent := record(tenant, "never", "", "i2")
		absent.Rev = 1
		_, err := s.CompareAndSwap(t.Context(), absent)
		require.ErrorIs(t, err, operation.ErrVersion, "nor does it make a record")
		gone(t, s, tenant, "never")
	}},
	{"a stale version is ErrVersion even where another rule is broken as well", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		swap(t, s, create(t, s, record(tenant, "op1", "a1", "i")), operation.Applied)
		stale := create(t, s, record(tenant, "op2", "", "i"))
		swap(t, s, stale, operation.Dispatched)
		stale.Approval = "a1"
		_, err := s.CompareAndSwap(t.Context(), stale)
		require.ErrorIs(t, err, operation.ErrVersion)
	}},
	{"records are copied in and out", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		in := record(tenant, "op", "", "i")
		in.Output = json.RawMessage(`{"id":1}`)
		want := in.Clone()
		spoil := func(r operation.Record) {
			r.Arguments[0], r.Output[0], r.Targets[0].ID = 'X', 'X', "spoilt"
		}
		out := create(t, s, in)
		spoil(in)
		if &out.Arguments[0] != &in.Arguments[0] {
			spoil(out)
		}
		want.Rev = 1
		same(t, want, get(t, s, tenant, "op"))
		spoil(get(t, s, tenant, "op"))
		same(t, want, get(t, s, tenant, "op"))
		old, err := s.Create(t.Context(), want)
		require.ErrorIs(t, err, operation.ErrExists)
		spoil(old)
		next := want.Clone()
		next, err = s.CompareAndSwap(t.Context(), next)
		require.NoError(t, err)
		spoil(next)
		want.Rev = 2
		same(t, want, get(t, s, tenant, "op"))
	}},
	{"a write is there for every handle when it returns", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		r := create(t, s.handles[0], record(tenant, "op", "", "i"))
		for i := range 6 {
			same(t, r, get(t, s.handles[(i+1)%len(s.handles)], tenant, "op"))
			r = swap(t, s.handles[(i+1)%len(s.handles)], r, operation.Prepared)
		}
	}},
	{"what is not there is NOT_FOUND, in one text", func(t *testing.T, s *suite) {
		a, b := s.tenant(), s.tenant()
		create(t, s, record(a, "op", "", "i"))
		_, never := s.Get(t.Context(), b, "never")
		_, others := s.Get(t.Context(), b, "op")
		require.ErrorIs(t, never, toolresult.NotFound)
		require.Equal(t, never.Error(), others.Error(), "another tenant's is like none")
	}},
	{"a context that is over is an error and no write, or a write and no error", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Create(over, record(tenant, "op", "", "i")); err != nil {
			require.ErrorIs(t, err, context.Canceled)
			gone(t, s, tenant, "op")
			create(t, s, record(tenant, "op", "", "i"))
		}
		r := get(t, s, tenant, "op")
		r.State = operation.Dispatched
		if _, err := s.CompareAndSwap(over, r); err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.EqualValues(t, 1, get(t, s, tenant, "op").Rev)
		} else {
			require.EqualValues(t, 2, get(t, s, tenant, "op").Rev)
		}
		if _, err := s.Get(over, tenant, "op"); err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, toolresult.NotFound)
		}
		if _, err := s.Unsettled(over, time.Now(), 1); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}},
}

func roundTrip(t *testing.T, s *suite) {
	tenant := s.tenant()
	rapid.Check(t, func(t *rapid.T) {
		n := s.count.Add(1)
		in := anyRecord(t, tenant, n)
		got, err := s.Create(context.Background(), in)
		require.NoError(t, err)
		in.Rev = 1
		same(t, in, got, "as Create returns it")
		got, err = s.Get(context.Background(), tenant, in.ID)
		require.NoError(t, err)
		same(t, in, got, "created")
		next := anyRecord(t, tenant, n)
		next.ID, next.Rev = in.ID, 1
		_, err = s.CompareAndSwap(context.Background(), next)
		require.NoError(t, err)
		next.Rev = 2
		got, err = s.Get(context.Background(), tenant, in.ID)
		require.NoError(t, err)
		same(t, next, got, "swapped")
		got.State = operation.Applied // out of the way of Unsettled
		_, err = s.CompareAndSwap(context.Background(), got)
		require.NoError(t, err)
	})
}

// anyRecord draws a record whose id, approval and intent are nobody else's.
func anyRecord(t *rapid.T, tenant string, n int64) operation.Record {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	// what fits into 64 bits of nanoseconds: 1678 to 2262
	instant := rapid.OneOf(rapid.Just(time.Time{}), rapid.Map(rapid.Int64Range(math.MinInt64+1, math.MaxInt64), func(n int64) time.Time { return time.Unix(0, n).UTC() }))
	raw := rapid.Map(rapid.OneOf(rapid.Just[[]byte](nil), rapid.Just([]byte("{}")), rapid.SliceOfN(rapid.Byte(), 1, 64)), func(b []byte) json.RawMessage { return b })
	id := rapid.Map(rapid.SliceOfN(text, 2, 2), func(s []string) authz.ResourceID { return authz.ResourceID{Type: s[0], ID: s[1]} })
	state := rapid.Map(rapid.IntRange(0, int(operation.Resolved)), func(n int) operation.State { return operation.State(n) })
	approval := ""
	if rapid.Bool().Draw(t, "approved") {
		approval = fmt.Sprint(n, " ", text.Draw(t, "approval"))
	}
	return operation.Record{
		Operation: operation.Operation{ID: fmt.Sprint(n, " ", text.Draw(t, "id")), Key: text.Draw(t, "key"), ProviderID: text.Draw(t, "provider id"),
			PreparedAt: instant.Draw(t, "prepared at"), SentAt: instant.Draw(t, "sent at")},
		State: state.Draw(t, "state"),
		Binding: authz.Binding{Digest: text.Draw(t, "digest"), Capability: text.Draw(t, "capability"), Version: text.Draw(t, "version"), Targets: text.Draw(t, "targets digest"),
			Versions: text.Draw(t, "versions"), Connection: text.Draw(t, "connection"), Revision: text.Draw(t, "revision"),
			Requester: authz.PrincipalKey{Tenant: tenant, Issuer: text.Draw(t, "issuer"), Subject: text.Draw(t, "subject")}},
		Intent:       fmt.Sprint(n, " ", text.Draw(t, "intent")),
		Targets:      rapid.OneOf(rapid.Just[[]authz.ResourceID](nil), rapid.SliceOfN(id, 1, 3)).Draw(t, "targets"),
		Approval:     approval,
		ApprovalEnds: instant.Draw(t, "approval ends"),
		Request:      text.Draw(t, "request"), Arguments: raw.Draw(t, "arguments"),
		Sent: rapid.IntRange(0, math.MaxInt32).Draw(t, "sent"), FirstSent: instant.Draw(t, "first sent"), Outside: rapid.Bool().Draw(t, "outside"),
		Code: toolresult.ErrorCode(text.Draw(t, "code")), Output: raw.Draw(t, "output"), RequestID: text.Draw(t, "request id"),
		SettledAt: instant.Draw(t, "settled at"), SettledBy: text.Draw(t, "settled by"), Resolution: state.Draw(t, "resolution"),
		Holder: text.Draw(t, "holder"), Until: instant.Draw(t, "until"),
	}
}

func states(t *testing.T, s *suite) {
	tenant := s.tenant()
	for state := operation.Unknown; state <= operation.Resolved; state++ {
		for _, resolution := range []operation.State{operation.Unknown, operation.Applied, operation.NotApplied} {
			id := fmt.Sprint("op", state, resolution)
			r := create(t, s, record(tenant, id, "", "i"+id))
			r.Resolution = resolution
			r = swap(t, s, r, state)
			got := get(t, s, tenant, id)
			same(t, r, got)
			require.Equal(t, r.Disposition(), got.Disposition())
			swap(t, s, r, operation.Applied)
		}
	}
}

func unknownWords(t *testing.T, s *suite) {
	tenant := s.tenant()
	r := create(t, s, record(tenant, "op", "", "i"))
	r.Resolution = 99
	r = swap(t, s, r, 99)
	if s.corrupt != nil {
		s.corrupt(t, tenant, "op", "finished")
	}
	got := get(t, s, tenant, "op")
	require.True(t, got.State.Open(), "it may have been sent")
	require.Equal(t, toolresult.EffectUnknown, got.Disposition())
	_, err := s.Create(t.Context(), record(tenant, "op2", "", "i"))
	require.ErrorIs(t, err, operation.ErrIntentOpen)
	found, err := s.Unsettled(t.Context(), time.Now(), 1000)
	require.NoError(t, err)
	var ids []string
	for _, f := range found {
		if f.Binding.Requester.Tenant == tenant {
			ids = append(ids, f.ID)
		}
	}
	require.Equal(t, []string{"op"}, ids, "somebody has to find out")
	swap(t, s, r, operation.Applied)
	if s.corrupt != nil {
		r = create(t, s, record(tenant, "op3", "", "i3"))
		s.corrupt(t, tenant, "op3", "")
		require.Equal(t, operation.Unknown, get(t, s, tenant, "op3").State, "no word at all")
		swap(t, s, r, operation.Applied)
	}
}
