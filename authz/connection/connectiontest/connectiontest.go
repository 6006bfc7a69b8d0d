// Package connectiontest checks that a connection.Store keeps its contract.
//
//	func TestStore(t *testing.T) {
//		file := filepath.Join(t.TempDir(), "connections")
//		connectiontest.Run(t, func(t testing.TB) connection.Store { return open(t, file) })
//	}
//
// Every clause of the contract is a subtest whose name is the sentence. Several
// handles on the same data race for the same lease, transaction and account,
// because that is where stores fail.
//
// It does not end processes or cut power: whether a write is durable when it
// returns is for the store's own tests.
package connectiontest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
)

// Run checks a store that is empty. Each call of open returns a handle on the
// same data, as another process would have it; a store of one process may return
// the same one every time.
func Run(t *testing.T, open func(t testing.TB) connection.Store) {
	t.Helper()
	s := &suite{}
	for range 3 {
		s.handles = append(s.handles, open(t))
	}
	s.Store = s.handles[0]
	for _, list := range [][]clause{records, lists, transactions, holds, races} {
		for _, c := range list {
			t.Run(c.why, func(t *testing.T) { c.check(t, s) })
		}
	}
}

// suite is one run. Every clause works in a tenant of its own.
type suite struct {
	connection.Store
	handles []connection.Store
	count   atomic.Int64
}

type clause struct {
	why   string
	check func(t *testing.T, s *suite)
}

func (s *suite) tenant() string { return fmt.Sprintf("tenant-%03d", s.count.Add(1)) }

func owner(tenant string) authz.PrincipalKey {
	return authz.PrincipalKey{Tenant: tenant, Issuer: "https://id.example", Subject: "alice"}
}

var moment = time.Unix(1e9, 123456000).UTC()

// record is a connection with something in every field.
func record(tenant, id, account string) connection.Record {
	return connection.Record{
		Connection: connection.Connection{
			ID: id, Owner: owner(tenant), Provider: "tickets", Issuer: "https://as.example", TokenEndpoint: "https://as.example/token",
			ClientID: "client", Resource: "https://api.example", Account: account, Org: "org", Label: "Alice Ä ☃ \"'", Scopes: []string{"a", "b c"},
			State: connection.Active, Reason: connection.ReasonUser, Generation: 7, Tokens: 3, NoRefresh: true,
			Expires: moment.Add(time.Hour), Created: moment, Updated: moment.Add(time.Second),
			Disconnection: connection.Disconnection{Local: connection.StepDone, Remote: connection.StepFailed, Content: connection.StepPending},
		},
		Access: []byte{0, 1, 255}, Refresh: []byte("refresh\x00"),
		Lease:   connection.Lease{Attempt: "attempt", Until: moment.Add(2 * time.Second)},
		Attempt: "last", Lifetime: 90 * time.Second, RefreshAt: moment.Add(3 * time.Second), RetryAt: moment.Add(4 * time.Second),
		Failures: 5, Late: true, Rejected: moment.Add(5 * time.Second),
	}
}

func transaction(tenant, id string) connection.Transaction {
	return connection.Transaction{
		ID: id, Owner: owner(tenant), Provider: "tickets", Issuer: "https://as.example", TokenEndpoint: "https://as.example/token",
		ClientID: "client", RedirectURI: "https://host.example/callback/tickets", Resource: "https://api.example",
		Scopes: []string{"a", "b c"}, Org: "org", Connection: "c1", Generation: 4, ReturnTo: "/done",
		Stage: connection.Opened, Failure: "none", State: [32]byte{1, 0, 255}, Browser: [32]byte{31: 9}, Verifier: []byte("sealed\x00"),
		Created: moment, Expires: moment.Add(time.Minute),
	}
}

func create(t testing.TB, s connection.Store, r connection.Record) connection.Record {
	t.Helper()
	got, err := s.Create(t.Context(), r)
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Version, "a new record has Version 1")
	return got
}

func get(t testing.TB, s connection.Store, tenant, id string) connection.Record {
	t.Helper()
	got, err := s.Get(t.Context(), tenant, id)
	require.NoError(t, err)
	return got
}

// sameRecord compares with times by their moment.
func sameRecord(t testing.TB, want, got connection.Record, why string) {
	t.Helper()
	for _, p := range []*connection.Record{&want, &got} {
		for _, at := range []*time.Time{&p.Expires, &p.Created, &p.Updated, &p.Lease.Until, &p.RefreshAt, &p.RetryAt, &p.Rejected} {
			*at = utc(*at)
		}
	}
	require.Equal(t, want, got, why)
}

func sameTransaction(t testing.TB, want, got connection.Transaction, why string) {
	t.Helper()
	for _, p := range []*connection.Transaction{&want, &got} {
		p.Created, p.Expires = utc(p.Created), utc(p.Expires)
	}
	require.Equal(t, want, got, why)
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Round(0)
}
