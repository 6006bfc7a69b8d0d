package sqlstore_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func approval(tenant, id string) authz.Approval {
	a := authz.Approval{ID: id, Key: "k", Rendering: "POST " + canary, Verdict: authz.AllowWithApproval, Asked: time.Unix(1e9, 1).UTC(), Expires: time.Unix(2e9, 0).UTC(),
		Targets: []authz.ResourceID{{Type: "project", ID: "inc"}}}
	a.Statement.Requester = authz.PrincipalKey{Tenant: tenant, Issuer: "i", Subject: "s"}
	return a
}

// approvalStore holds a store to the contract of authz.ApprovalStore; open
// returns a handle on the same data.
func approvalStore(t *testing.T, open func() authz.ApprovalStore) {
	s, other := open(), open()
	put := func(a authz.Approval) authz.Approval {
		got, err := s.PutApproval(t.Context(), a)
		require.NoError(t, err)
		a.Rev++
		require.Equal(t, a, got)
		return got
	}
	t.Run("every field comes back, to every handle", func(t *testing.T) {
		n := 0
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
			instant := rapid.OneOf(rapid.Just(time.Time{}), rapid.Map(rapid.Int64Range(math.MinInt64+1, math.MaxInt64), func(n int64) time.Time { return time.Unix(0, n).UTC() }))
			n++
			a := authz.Approval{Refused: rapid.Bool().Draw(t, "refused"), ID: fmt.Sprint(n, text.Draw(t, "id")), Key: text.Draw(t, "key"), Rendering: text.Draw(t, "rendering"), Verdict: authz.Verdict(rapid.IntRange(0, 3).Draw(t, "verdict")),
				Targets: []authz.ResourceID{{Type: text.Draw(t, "type"), ID: text.Draw(t, "object")}}, Asked: instant.Draw(t, "asked"), Approved: instant.Draw(t, "approved"), Expires: instant.Draw(t, "expires"),
				Approver: authz.PrincipalKey{Tenant: text.Draw(t, "tenant"), Issuer: text.Draw(t, "issuer"), Subject: text.Draw(t, "subject")},
				Statement: authz.Statement{Operation: text.Draw(t, "operation"), Request: text.Draw(t, "request"), Binding: authz.Binding{
					Digest: text.Draw(t, "digest"), Capability: text.Draw(t, "capability"), Version: text.Draw(t, "version"), Targets: text.Draw(t, "targets"), Versions: text.Draw(t, "versions"),
					Connection: text.Draw(t, "connection"), Revision: text.Draw(t, "revision"), Requester: authz.PrincipalKey{Tenant: "fields", Issuer: text.Draw(t, "requester"), Subject: text.Draw(t, "who")}}}}
			a, err := s.PutApproval(t.Context(), a)
			require.NoError(t, err)
			got, err := other.Approval(t.Context(), "fields", a.ID)
			require.NoError(t, err)
			require.Equal(t, a, got)
			require.Equal(t, a.Statement.Digest(), got.Statement.Digest())
		})
	})
	t.Run("a Rev that is not the stored one changes nothing", func(t *testing.T) {
		a := put(approval("rev", "a"))
		for _, rev := range []int64{-1, 0, 2, math.MaxInt64} {
			b := approval("rev", "a")
			b.Rev, b.Key = rev, "other"
			_, err := s.PutApproval(t.Context(), b)
			require.ErrorIs(t, err, authz.ErrApprovalVersion)
		}
		never := approval("rev", "never")
		never.Rev = 1
		_, err := s.PutApproval(t.Context(), never)
		require.ErrorIs(t, err, authz.ErrApprovalVersion)
		got, err := other.Approval(t.Context(), "rev", "a")
		require.NoError(t, err)
		require.Equal(t, a, got)
	})
	t.Run("tenants never meet", func(t *testing.T) {
		put(approval("one", "same"))
		_, err := s.Approval(t.Context(), "two", "same")
		require.ErrorIs(t, err, toolresult.NotFound)
		put(approval("two", "same"))
	})
	t.Run("records are copied in and out", func(t *testing.T) {
		a := approval("copies", "a")
		put(a)
		a.Targets[0].ID = "spoilt"
		got, err := s.Approval(t.Context(), "copies", "a")
		require.NoError(t, err)
		got.Targets[0].ID = "spoilt"
		got, err = s.Approval(t.Context(), "copies", "a")
		require.NoError(t, err)
		require.Equal(t, "inc", got.Targets[0].ID)
	})
	t.Run("pending is what nobody has given and is not over, oldest first", func(t *testing.T) {
		at := time.Unix(1.5e9, 0)
		for i := range 6 {
			a := approval("pending", fmt.Sprint("a", i))
			a.Asked = time.Unix(1e9, int64(10-i)).UTC()
			switch i {
			case 1:
				a.Approver = authz.PrincipalKey{Subject: "boss"} // whoever that is
			case 2:
				a.Expires = at.UTC() // over at this moment
			case 3:
				a.Statement.Requester.Tenant = "elsewhere"
			}
			put(a)
		}
		for limit, want := range [][]string{{}, {"a5"}, {"a5", "a4"}, {"a5", "a4", "a0"}, {"a5", "a4", "a0"}} {
			list, err := other.PendingApprovals(t.Context(), "pending", at, limit)
			require.NoError(t, err)
			ids := []string{}
			for _, a := range list {
				ids = append(ids, a.ID)
			}
			require.Equal(t, want, ids)
		}
		list, err := s.PendingApprovals(t.Context(), "pending", at, -1)
		require.NoError(t, err)
		require.Empty(t, list)
	})
	t.Run("of many that answer one question, exactly one wins", func(t *testing.T) {
		for n := range 10 {
			a := put(approval("race", fmt.Sprint("a", n)))
			errs := make([]error, 8)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() {
					b := a.Clone()
					b.Approver = authz.PrincipalKey{Tenant: "race", Issuer: "i", Subject: fmt.Sprint("boss", i)}
					_, errs[i] = []authz.ApprovalStore{s, other}[i%2].PutApproval(t.Context(), b)
				})
			}
			wg.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
					continue
				}
				require.ErrorIs(t, err, authz.ErrApprovalVersion)
			}
			require.Equal(t, 1, won)
		}
	})
}

func TestMemoryApprovals_W1(t *testing.T) {
	var m authz.MemoryApprovals
	approvalStore(t, func() authz.ApprovalStore { return &m })
}

func testApprovals_W1(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	approvalStore(t, func() authz.ApprovalStore { return p.open(t, nil).Approvals() })
	var b []byte
	require.NoError(t, p.db(t).QueryRow("SELECT rendering FROM drawbridge_approvals WHERE tenant = 'one'").Scan(&b))
	require.NotContains(t, string(b), canary)
	p.exec(t, "UPDATE drawbridge_approvals SET verdict = 'perhaps' WHERE tenant = 'one'")
	got, err := p.open(t, nil).Approvals().Approval(t.Context(), "one", "same")
	require.NoError(t, err)
	require.Equal(t, authz.Deny, got.Verdict, "a word that nobody knows")
}

// An approval is not used twice, however many processes try at once: the
// acceptance test of approvals on a server. W1
func testApprovalIsUsedOnce_W1(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	stores := []operation.Store{p.open(t, nil), p.open(t, nil), p.open(t, nil), p.open(t, nil)}
	for n := range 25 {
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				r := record(fmt.Sprint("op", n, "-", i))
				r.Approval, r.State = fmt.Sprint("approval", n), operation.State(1+i%2) // prepared or dispatched
				_, errs[i] = stores[i%len(stores)].Create(t.Context(), r)
			})
		}
		wg.Wait()
		used := 0
		for _, err := range errs {
			if errors.Is(err, operation.ErrApprovalUsed) {
				used++
			}
		}
		require.Equal(t, len(errs)-1, used, "%v", errs)
	}
}
