package connectiontest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var records = []clause{
	{"what was stored is read, field by field", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		want := record(tenant, "c1", "alice@example")
		got := create(t, s, want)
		want.Version = 1
		sameRecord(t, want, got, "as returned")
		for _, h := range s.handles {
			sameRecord(t, want, get(t, h, tenant, "c1"), "as another handle reads it")
		}
	}},
	{"a record with nothing but its names is read as it was", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		want := connection.Record{Connection: connection.Connection{ID: "c1", Owner: authz.PrincipalKey{Tenant: tenant}}}
		create(t, s, want)
		want.Version = 1
		got := get(t, s, tenant, "c1")
		require.Empty(t, got.Access)
		require.Empty(t, got.Refresh)
		require.Empty(t, got.Scopes)
		got.Access, got.Refresh, got.Scopes = nil, nil, nil
		sameRecord(t, want, got, "zero times stay zero")
	}},
	{"an id exists once in a tenant", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		create(t, s, record(tenant, "c1", "a"))
		_, err := s.Create(t.Context(), record(tenant, "c1", "b"))
		require.ErrorIs(t, err, connection.ErrExists)
		create(t, s, record(s.tenant(), "c1", "a"))
		require.Equal(t, "a", get(t, s, tenant, "c1").Account)
	}},
	{"another tenant's record is not found", func(t *testing.T, s *suite) {
		create(t, s, record(s.tenant(), "c1", "a"))
		_, err := s.Get(t.Context(), s.tenant(), "c1")
		require.ErrorIs(t, err, toolresult.NotFound)
		_, err = s.Get(t.Context(), "", "c1")
		require.ErrorIs(t, err, toolresult.NotFound)
	}},
	{"H2-43: a swap needs the version that is stored", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		old := create(t, s, record(tenant, "c1", "a"))
		next := old.Clone()
		next.Access, next.State = []byte("new"), connection.Reauthorize
		got, err := s.CompareAndSwap(t.Context(), next)
		require.NoError(t, err)
		next.Version = 2
		sameRecord(t, next, got, "as returned")
		sameRecord(t, next, get(t, s, tenant, "c1"), "as read")
		late := old.Clone()
		late.Access = []byte("late")
		_, err = s.CompareAndSwap(t.Context(), late)
		require.ErrorIs(t, err, connection.ErrVersion)
		sameRecord(t, next, get(t, s, tenant, "c1"), "a late writer changes nothing")
	}},
	{"a swap of nothing is a lost one", func(t *testing.T, s *suite) {
		r := record(s.tenant(), "c1", "a")
		for _, r.Version = range []int64{0, 1, -1} {
			_, err := s.CompareAndSwap(t.Context(), r)
			require.ErrorIs(t, err, connection.ErrVersion)
		}
	}},
	{"records are copied in and out", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		r := record(tenant, "c1", "a")
		out := create(t, s, r)
		for _, p := range []connection.Record{r, out, get(t, s, tenant, "c1")} {
			p.Access[0], p.Refresh[0], p.Scopes[0] = 77, 77, "changed"
		}
		want := record(tenant, "c1", "a")
		want.Version = 1
		sameRecord(t, want, get(t, s, tenant, "c1"), "as stored")
	}},
	{"H2-75: an owner has an account once, and again after it was disconnected", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		first := create(t, s, record(tenant, "c1", "a"))
		_, err := s.Create(t.Context(), record(tenant, "c2", "a"))
		require.ErrorIs(t, err, connection.ErrAccountTaken)
		create(t, s, record(tenant, "c2", "b"))
		second := get(t, s, tenant, "c2")
		second.Account = "a"
		_, err = s.CompareAndSwap(t.Context(), second)
		require.ErrorIs(t, err, connection.ErrAccountTaken)
		first.State = connection.Disconnected
		first, err = s.CompareAndSwap(t.Context(), first)
		require.NoError(t, err)
		create(t, s, record(tenant, "c3", "a"))
		first.State = connection.Active
		_, err = s.CompareAndSwap(t.Context(), first)
		require.ErrorIs(t, err, connection.ErrAccountTaken, "the dead do not come back beside the living")
	}},
	{"H2-75: another owner, provider, organization or tenant has a record of its own", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		create(t, s, record(tenant, "c1", "a"))
		for i, change := range []func(*connection.Record){
			func(r *connection.Record) { r.Owner.Subject = "bob" },
			func(r *connection.Record) { r.Owner.Issuer = "https://other.example" },
			func(r *connection.Record) { r.Provider = "chat" },
			func(r *connection.Record) { r.Org = "another" },
			func(r *connection.Record) { r.Org, r.Account = "orga", "" }, // not "org" + "a"
			func(r *connection.Record) { r.Owner.Tenant = s.tenant() },
			func(r *connection.Record) { r.Account = "A" },
		} {
			r := record(tenant, "other-"+string(rune('a'+i)), "a")
			change(&r)
			create(t, s, r)
		}
	}},
}

func ids(t testing.TB, s connection.Store, q connection.Query) (out []string) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	list, err := s.List(t.Context(), &q)
	require.NoError(t, err)
	for _, r := range list {
		out = append(out, r.ID)
	}
	return out
}

var lists = []clause{
	{"a list that names no tenant is refused", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		for why, q := range map[string]*connection.Query{
			"nil": nil, "no tenant": {Limit: 1}, "a tenant and all": {Tenant: tenant, All: true, Limit: 1},
			"an owner of another tenant": {Tenant: tenant, Owner: owner("other"), Limit: 1},
			"no limit":                   {Tenant: tenant}, "a negative limit": {Tenant: tenant, Limit: -1}, "a huge limit": {Tenant: tenant, Limit: 1001},
		} {
			_, err := s.List(t.Context(), q)
			require.ErrorIs(t, err, toolresult.InvalidInput, why)
		}
	}},
	{"H2-73: a list holds what was asked for, in order, and nothing of another tenant", func(t *testing.T, s *suite) {
		tenant, other := s.tenant(), s.tenant()
		for _, id := range []string{"c3", "c1", "c2"} {
			create(t, s, record(tenant, id, id))
		}
		create(t, s, record(other, "c0", "c0"))
		bob := record(tenant, "c4", "c4")
		bob.Owner.Subject, bob.Provider, bob.State = "bob", "chat", connection.Disconnecting
		create(t, s, bob)
		require.Equal(t, []string{"c1", "c2", "c3", "c4"}, ids(t, s, connection.Query{Tenant: tenant}))
		require.Equal(t, []string{"c1", "c2", "c3"}, ids(t, s, connection.Query{Tenant: tenant, Owner: owner(tenant)}))
		require.Equal(t, []string{"c4"}, ids(t, s, connection.Query{Tenant: tenant, Provider: "chat"}))
		require.Equal(t, []string{"c4"}, ids(t, s, connection.Query{Tenant: tenant, State: connection.Disconnecting}))
		require.Empty(t, ids(t, s, connection.Query{Tenant: tenant, Owner: owner(tenant), Provider: "chat"}))
		require.Empty(t, ids(t, s, connection.Query{Tenant: s.tenant()}))
	}},
	{"what lives is all but the disconnected, and those are swept when they are old, unless of a leak", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		old := moment.Add(-1000 * time.Hour)
		for id, edit := range map[string]func(*connection.Record){
			"active":   func(*connection.Record) {},
			"ending":   func(r *connection.Record) { r.State = connection.Disconnecting },
			"over":     func(r *connection.Record) { r.State = connection.Disconnected },
			"leaked":   func(r *connection.Record) { r.State, r.Reason = connection.Disconnected, connection.ReasonLeak },
			"over-new": func(r *connection.Record) { r.State, r.Updated = connection.Disconnected, old },
		} {
			r := record(tenant, id, id)
			r.Updated = old.Add(-time.Second)
			edit(&r)
			create(t, s, r)
		}
		require.Equal(t, []string{"active", "ending"}, ids(t, s, connection.Query{Tenant: tenant, Live: true}))
		n, err := s.SweepRecords(t.Context(), old)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, []string{"active", "ending", "leaked", "over-new"}, ids(t, s, connection.Query{Tenant: tenant}))
		_, err = s.Get(t.Context(), tenant, "over")
		require.ErrorIs(t, err, toolresult.NotFound)
	}},
	{"an installed connection is its tenant's, and nobody's in person", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		r := record(tenant, "c1", "robot")
		r.Owner = authz.PrincipalKey{Tenant: tenant}
		create(t, s, r)
		require.Equal(t, []string{"c1"}, ids(t, s, connection.Query{Tenant: tenant, Owner: authz.PrincipalKey{Tenant: tenant}}))
		require.Empty(t, ids(t, s, connection.Query{Tenant: tenant, Owner: owner(tenant)}))
		create(t, s, record(tenant, "c2", "robot"))
		require.Equal(t, []string{"c1"}, ids(t, s, connection.Query{Tenant: tenant, Owner: authz.PrincipalKey{Tenant: tenant}}))
	}},
	{"pages meet without a gap", func(t *testing.T, s *suite) {
		a, b := s.tenant(), s.tenant()
		for _, tenant := range []string{b, a} {
			for _, id := range []string{"c2", "c1", "c3"} {
				create(t, s, record(tenant, id, id))
			}
		}
		q := connection.Query{All: true, Limit: 2}
		var got []string
		for {
			page, err := s.List(t.Context(), &q)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				if r.Owner.Tenant == a || r.Owner.Tenant == b {
					got = append(got, r.Owner.Tenant+" "+r.ID)
				}
			}
			last := page[len(page)-1]
			q.AfterTenant, q.AfterID = last.Owner.Tenant, last.ID
		}
		require.Equal(t, []string{a + " c1", a + " c2", a + " c3", b + " c1", b + " c2", b + " c3"}, got)
	}},
	{"what is due is neither held nor waiting", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		for id, at := range map[string][2]time.Duration{"due": {0, 0}, "held": {time.Second, 0}, "waiting": {0, time.Second}} {
			r := record(tenant, id, id)
			r.Lease.Until, r.RetryAt = moment.Add(at[0]), moment.Add(at[1])
			create(t, s, r)
		}
		free := record(tenant, "free", "free")
		free.Lease, free.RetryAt = connection.Lease{}, time.Time{}
		create(t, s, free)
		require.Equal(t, []string{"due", "free"}, ids(t, s, connection.Query{Tenant: tenant, Due: moment}))
		require.Equal(t, []string{"due", "free", "held", "waiting"}, ids(t, s, connection.Query{Tenant: tenant, Due: moment.Add(time.Second)}))
	}},
}

var transactions = []clause{
	{"a transaction is read as it was stored", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		want := transaction(tenant, "t1")
		got, err := s.AddTransaction(t.Context(), want)
		require.NoError(t, err)
		want.Version = 1
		sameTransaction(t, want, got, "as returned")
		for _, h := range s.handles {
			got, err = h.Transaction(t.Context(), tenant, "t1")
			require.NoError(t, err)
			sameTransaction(t, want, got, "as read")
		}
		_, err = s.AddTransaction(t.Context(), transaction(tenant, "t1"))
		require.ErrorIs(t, err, connection.ErrExists)
	}},
	{"H2-05: another tenant's transaction is not found", func(t *testing.T, s *suite) {
		_, err := s.AddTransaction(t.Context(), transaction(s.tenant(), "t1"))
		require.NoError(t, err)
		for _, tenant := range []string{s.tenant(), ""} {
			_, err = s.Transaction(t.Context(), tenant, "t1")
			require.ErrorIs(t, err, toolresult.NotFound)
			other := transaction(tenant, "t1")
			other.Version = 1
			_, err = s.SwapTransaction(t.Context(), other)
			require.ErrorIs(t, err, connection.ErrVersion)
		}
	}},
	{"H2-04: a transaction is taken once", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		tx, err := s.AddTransaction(t.Context(), transaction(tenant, "t1"))
		require.NoError(t, err)
		again := tx.Clone()
		tx.Stage = connection.Taken
		got, err := s.SwapTransaction(t.Context(), tx)
		require.NoError(t, err)
		require.EqualValues(t, 2, got.Version)
		again.Stage = connection.Taken
		_, err = s.SwapTransaction(t.Context(), again)
		require.ErrorIs(t, err, connection.ErrVersion)
	}},
	{"transactions that expired are swept, and no others", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		for id, at := range map[string]time.Duration{"over": -time.Second, "now": 0, "later": time.Second} {
			tx := transaction(tenant, id)
			tx.Expires = moment.Add(-time.Hour).Add(at)
			_, err := s.AddTransaction(t.Context(), tx)
			require.NoError(t, err)
		}
		n, err := s.SweepTransactions(t.Context(), moment.Add(-time.Hour))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		_, err = s.Transaction(t.Context(), tenant, "over")
		require.ErrorIs(t, err, toolresult.NotFound)
		for _, id := range []string{"now", "later"} {
			_, err = s.Transaction(t.Context(), tenant, id)
			require.NoError(t, err, id)
		}
	}},
	{"a transaction is copied in and out", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		tx := transaction(tenant, "t1")
		out, err := s.AddTransaction(t.Context(), tx)
		require.NoError(t, err)
		for _, p := range []connection.Transaction{tx, out} {
			p.Scopes[0], p.Verifier[0] = "changed", 77
		}
		want := transaction(tenant, "t1")
		want.Version = 1
		got, err := s.Transaction(t.Context(), tenant, "t1")
		require.NoError(t, err)
		sameTransaction(t, want, got, "as stored")
	}},
}

var holds = []clause{
	{"S4: a hold stands until it is removed, on every handle", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		h := connection.Hold{Tenant: tenant, ID: "h1", Run: "r1", Capability: "tickets.get", Connection: "c1", Note: "a key in a log", Created: moment}
		require.NoError(t, s.AddHold(t.Context(), h))
		require.ErrorIs(t, s.AddHold(t.Context(), h), connection.ErrExists)
		early := connection.Hold{Tenant: tenant, ID: "h2", Created: moment.Add(-time.Second)}
		require.NoError(t, s.AddHold(t.Context(), early))
		for _, handle := range s.handles {
			got, err := handle.Holds(t.Context(), tenant)
			require.NoError(t, err)
			for i := range got {
				got[i].Created = utc(got[i].Created)
			}
			require.Equal(t, []connection.Hold{early, h}, got)
		}
		other, err := s.Holds(t.Context(), s.tenant())
		require.NoError(t, err)
		require.Empty(t, other)
		require.NoError(t, s.RemoveHold(t.Context(), s.tenant(), "h1"), "another tenant removes nothing")
		require.NoError(t, s.RemoveHold(t.Context(), tenant, "h2"))
		require.NoError(t, s.RemoveHold(t.Context(), tenant, "h2"), "removed twice")
		left, err := s.Holds(t.Context(), tenant)
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Equal(t, "h1", left[0].ID)
	}},
}
