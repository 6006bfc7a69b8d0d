// Package webhooktest checks that a webhook.Inbox keeps its contract.
//
//	func TestInbox(t *testing.T) {
//		webhooktest.Run(t, func(t testing.TB) webhook.Inbox { return open(t, file) })
//	}
//
// Every clause of the contract is a subtest whose name is the sentence. Several
// handles on the same data race, because that is where inboxes fail.
//
// It does not end processes or cut power: whether an event is durable when Put
// returns is for the store's own tests.
package webhooktest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Run checks an inbox that is empty and that nobody else works on. Each call of
// open returns a handle on the same data, as another process would have it; an
// inbox of one process may return the same one every time.
func Run(t *testing.T, open func(t testing.TB) webhook.Inbox) {
	t.Helper()
	s := &suite{}
	for range 3 {
		s.handles = append(s.handles, open(t))
	}
	s.Inbox = s.handles[0]
	for _, c := range clauses {
		t.Run(c.why, func(t *testing.T) {
			c.check(t, s)
			s.clear(t)
		})
	}
}

type suite struct {
	webhook.Inbox
	handles []webhook.Inbox
	count   atomic.Int64
}

const connection = "connection"

// clear leaves the inbox as it was found.
func (s *suite) clear(t testing.TB) {
	for n := range s.count.Load() + 1 {
		require.NoError(t, s.Purge(t.Context(), tenant(n), connection))
	}
}

func tenant(n int64) string { return fmt.Sprintf("tenant-%d", n) }

var began = time.Unix(1e9, 123456789).UTC()

// event is one of a tenant of its own. Its id says when it was received.
func (s *suite) event() func(id int, object string, version int64) webhook.Event {
	place := webhook.Place{Tenant: tenant(s.count.Add(1)), Source: "github", Connection: connection}
	return func(id int, object string, version int64) webhook.Event {
		return webhook.Event{Place: place, ID: fmt.Sprintf("id-%02d", id), Scheme: "github", Type: "push", Received: began.Add(time.Duration(id) * time.Second),
			SignedAt: began, Body: []byte(`{"n":1}`), Subject: webhook.Subject{Object: object, Version: version}}
	}
}

func put(t testing.TB, s webhook.Inbox, list ...webhook.Event) {
	t.Helper()
	for _, e := range list {
		stored, err := s.Put(t.Context(), e)
		require.NoError(t, err)
		require.True(t, stored)
	}
}

func claim(t testing.TB, s webhook.Inbox, at time.Time, limit int) []webhook.Event {
	t.Helper()
	list, err := s.Claim(t.Context(), at, at.Add(time.Minute), limit)
	require.NoError(t, err)
	return list
}

func ids(list []webhook.Event) []string {
	out := []string{}
	for _, e := range list {
		out = append(out, e.ID)
	}
	return out
}

var later = began.Add(time.Hour)

func done() webhook.Outcome { return webhook.Outcome{State: webhook.Done, At: later} }

type clause struct {
	why   string
	check func(t *testing.T, s *suite)
}

var clauses = []clause{
	{"what is stored comes back, to every handle", stored},
	{"a known id, digest or key stores nothing, W-17", known},
	{"a redelivery long after it was handled is known, W-18", remembered},
	{"tenants and sources never meet", apart},
	{"of many that bring the same event, one stores it", raceToPut},
	{"an event is claimed once until its lease is over", leases},
	{"of many that claim, each event goes to one", raceToClaim},
	{"an object's events are claimed one at a time, the lowest version first, W-19", ordered},
	{"an object's newer event waits for an older one that is to be tried again", held},
	{"an object whose newer event was left by the dead goes on with the older one", leftBehind},
	{"what was handled of an object is told with its next event, W-19", last},
	{"a claim that is over settles nothing", overtaken},
	{"an event that was handled has no body and is not claimed again", settled},
	{"one that was given up keeps its body, and can be revived", revived},
	{"what is not settled is never forgotten", forgotten},
	{"disconnecting removes everything of the connection, and of no other, C8", purged},
}

func stored(t *testing.T, s *suite) {
	e := s.event()(1, "issue/42", 7)
	e.Digest, e.Key, e.Deleted, e.Restored = "sha256:d", "k\x00\xff", true, true
	put(t, s, e)
	got, err := s.handles[1].Event(t.Context(), e.Tenant, e.Source, e.ID)
	require.NoError(t, err)
	e.Due = e.Received
	require.Equal(t, e, got)
	e.Body[0], got.Body[0] = 'x', 'x'
	got, err = s.Event(t.Context(), e.Tenant, e.Source, e.ID)
	require.NoError(t, err)
	require.Equal(t, `{"n":1}`, string(got.Body), "copied in and out")
	_, err = s.Event(t.Context(), e.Tenant, e.Source, "other")
	require.ErrorIs(t, err, toolresult.NotFound)
	empty := s.event()(2, "", 0)
	empty.Body, empty.SignedAt = []byte{}, time.Time{}
	put(t, s, empty)
	got, err = s.Event(t.Context(), empty.Tenant, empty.Source, empty.ID)
	require.NoError(t, err)
	require.Empty(t, got.Body)
	require.True(t, got.SignedAt.IsZero())
}

func known(t *testing.T, s *suite) {
	make := s.event()
	e := make(1, "", 0)
	e.Digest, e.Key = "sha256:d", "issue/42 edited 7"
	put(t, s, e)
	for i, other := range []webhook.Event{make(1, "", 0), make(2, "", 0), make(3, "", 0)} {
		switch i {
		case 1:
			other.Digest = e.Digest
		case 2:
			other.Key = e.Key
		}
		other.Body = []byte("other")
		stored, err := s.handles[i].Put(t.Context(), other)
		require.NoError(t, err)
		require.False(t, stored)
	}
	got, err := s.Event(t.Context(), e.Tenant, e.Source, e.ID)
	require.NoError(t, err)
	require.Equal(t, `{"n":1}`, string(got.Body))
	a, b := make(4, "", 0), make(5, "", 0) // no digest and no key are no names
	put(t, s, a, b)
}

func remembered(t *testing.T, s *suite) {
	e := s.event()(1, "", 0)
	put(t, s, e)
	require.NoError(t, s.Settle(t.Context(), claim(t, s, later, 1)[0], done()))
	require.NoError(t, s.Forget(t.Context(), e.Received.Add(20*time.Hour).Add(-webhook.Retention)))
	e.Received, e.SignedAt = e.Received.Add(20*time.Hour), e.SignedAt.Add(20*time.Hour)
	stored, err := s.Put(t.Context(), e)
	require.NoError(t, err)
	require.False(t, stored)
	require.NoError(t, s.Forget(t.Context(), e.Received))
	put(t, s, e)
}

func apart(t *testing.T, s *suite) {
	a, b := s.event()(1, "o", 9), s.event()(1, "o", 1)
	c := a
	c.Source = "gitlab"
	put(t, s, a, b, c)
	list := claim(t, s, later, 10)
	require.Len(t, list, 3)
	for _, e := range list {
		require.Zero(t, e.Last)
		require.NoError(t, s.Settle(t.Context(), e, done()))
	}
	d := b
	d.ID, d.Version = "id-02", 2
	put(t, s, d)
	require.Equal(t, webhook.Last{Version: 1}, claim(t, s, later, 10)[0].Last)
}

func raceToPut(t *testing.T, s *suite) {
	make := s.event()
	for n := range 20 {
		var stored atomic.Int64
		var wg sync.WaitGroup
		errs := [9]error{}
		for i := range errs {
			e := make(n, "", 0)
			if i%3 > 0 { // by another name
				e.ID = fmt.Sprint("other ", n, i)
			}
			e.Digest = fmt.Sprint("digest ", n)
			wg.Go(func() {
				ok, err := s.handles[i%3].Put(t.Context(), e)
				errs[i] = err
				if ok {
					stored.Add(1)
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, int64(1), stored.Load())
	}
}

func leases(t *testing.T, s *suite) {
	make := s.event()
	put(t, s, make(1, "", 0), make(2, "", 0), make(3, "", 0))
	require.Empty(t, claim(t, s, began, 10), "none is due before it was received")
	first := claim(t, s, later, 2)
	require.Equal(t, []string{"id-01", "id-02"}, ids(first))
	require.Equal(t, int64(1), first[0].Claim)
	require.Equal(t, 1, first[0].Attempts)
	require.Equal(t, webhook.Held, first[0].State)
	require.Equal(t, later.Add(time.Minute), first[0].Due)
	require.Equal(t, []string{"id-03"}, ids(claim(t, s.handles[1], later, 10)))
	require.Empty(t, claim(t, s.handles[1], later.Add(59*time.Second), 10))
	again := claim(t, s.handles[1], later.Add(time.Minute), 10)
	require.Equal(t, []string{"id-01", "id-02", "id-03"}, ids(again))
	require.Equal(t, int64(2), again[0].Claim)
	require.Empty(t, claim(t, s, later.Add(time.Hour), 0))
	require.Empty(t, claim(t, s, later.Add(time.Hour), -1))
}

func raceToClaim(t *testing.T, s *suite) {
	make := s.event()
	for i := range 40 {
		put(t, s, make(i, []string{"", "a", "b"}[i%3], int64(i)))
	}
	var mu sync.Mutex
	got := map[string]int{}
	held := map[string]int{}
	for round := 0; len(got) < 40 && round < 100; round++ {
		var wg sync.WaitGroup
		var all []webhook.Event
		errs := [6]error{}
		for i := range errs {
			wg.Go(func() {
				list, err := s.handles[i%3].Claim(t.Context(), later, later.Add(time.Minute), 3)
				errs[i] = err
				mu.Lock()
				defer mu.Unlock()
				all = append(all, list...)
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		clear(held)
		for _, e := range all {
			got[e.ID]++
			held[e.Object]++
			require.Equal(t, 1, got[e.ID])
			require.False(t, e.Object != "" && held[e.Object] > 1, "two of one object")
			require.NoError(t, s.Settle(t.Context(), e, done()))
		}
	}
	require.Len(t, got, 40)
}

func ordered(t *testing.T, s *suite) {
	make := s.event()
	put(t, s, make(1, "o", 3), make(2, "o", 1), make(3, "o", 2), make(4, "o", 2), make(5, "p", 1), make(6, "", 0))
	require.Equal(t, []string{"id-02", "id-05", "id-06"}, ids(claim(t, s, later, 10)))
	var order []string
	at := later.Add(time.Minute)
	for range 4 {
		for _, e := range claim(t, s, at, 10) {
			if e.Object == "o" {
				order = append(order, e.ID)
			}
			require.NoError(t, s.Settle(t.Context(), e, done()))
		}
	}
	require.Equal(t, []string{"id-02", "id-03", "id-04", "id-01"}, order)
}

func held(t *testing.T, s *suite) {
	make := s.event()
	put(t, s, make(2, "o", 2))
	two := claim(t, s, later, 10)[0]
	put(t, s, make(1, "o", 1))
	require.Empty(t, claim(t, s, later, 10), "an older one that comes late does not join it")
	require.NoError(t, s.Settle(t.Context(), two, webhook.Outcome{State: webhook.Waiting, Due: later.Add(time.Hour), Code: toolresult.Timeout, At: later}))
	one := claim(t, s, later, 10)
	require.Equal(t, []string{"id-01"}, ids(one))
	require.NoError(t, s.Settle(t.Context(), one[0], webhook.Outcome{State: webhook.Waiting, Due: later.Add(2 * time.Hour), At: later}))
	require.Empty(t, claim(t, s, later.Add(time.Hour), 10), "the newer one is due, and waits")
	require.Equal(t, []string{"id-01"}, ids(claim(t, s, later.Add(2*time.Hour), 10)))
	got, err := s.Event(t.Context(), two.Tenant, two.Source, two.ID)
	require.NoError(t, err)
	require.Equal(t, toolresult.Timeout, got.Code)
	require.Equal(t, webhook.Waiting, got.State)
}

func leftBehind(t *testing.T, s *suite) {
	make := s.event()
	put(t, s, make(2, "o", 2))
	require.Len(t, claim(t, s, later, 10), 1)
	put(t, s, make(1, "o", 1))
	at := later.Add(time.Minute)
	for _, want := range []string{"id-01", "id-02"} {
		list := claim(t, s, at, 10)
		require.Equal(t, []string{want}, ids(list))
		require.NoError(t, s.Settle(t.Context(), list[0], done()))
	}
}

func last(t *testing.T, s *suite) {
	make := s.event()
	finish := func(e webhook.Event) {
		put(t, s, e)
		require.NoError(t, s.Settle(t.Context(), claim(t, s, later, 1)[0], done()))
	}
	see := func(e webhook.Event, want webhook.Last, stale bool) {
		put(t, s, e)
		got := claim(t, s, later, 1)[0]
		require.Equal(t, want, got.Last)
		require.Equal(t, stale, got.Superseded())
		require.NoError(t, s.Settle(t.Context(), got, webhook.Outcome{State: webhook.Stale, At: later}))
	}
	finish(make(1, "o", 5))
	see(make(2, "o", 4), webhook.Last{Version: 5}, true)
	see(make(3, "o", 5), webhook.Last{Version: 5}, false)
	gone := make(4, "o", 3)
	gone.Deleted = true
	finish(gone)
	see(make(5, "o", 9), webhook.Last{Version: 5, Deleted: true}, true)
	back := make(6, "o", 9)
	back.Restored = true
	put(t, s, back)
	got := claim(t, s, later, 1)[0]
	require.False(t, got.Superseded())
	require.NoError(t, s.Settle(t.Context(), got, done()))
	see(make(7, "o", 10), webhook.Last{Version: 9}, false)
	see(make(8, "", 0), webhook.Last{}, false)
}

func overtaken(t *testing.T, s *suite) {
	put(t, s, s.event()(1, "o", 1))
	first := claim(t, s, later, 1)[0]
	second := claim(t, s.handles[1], later.Add(time.Minute), 1)[0]
	for _, state := range []webhook.State{webhook.Done, webhook.Stale, webhook.Failed, webhook.Waiting} {
		require.ErrorIs(t, s.Settle(t.Context(), first, webhook.Outcome{State: state, At: later}), webhook.ErrClaim)
	}
	require.NoError(t, s.Settle(t.Context(), second, done()))
	require.NoError(t, s.Settle(t.Context(), second, done()), "said twice")
	require.ErrorIs(t, s.Settle(t.Context(), second, webhook.Outcome{State: webhook.Waiting}), webhook.ErrClaim)
	require.ErrorIs(t, s.Settle(t.Context(), first, done()), webhook.ErrClaim)
	second.ID = "nobody"
	require.ErrorIs(t, s.Settle(t.Context(), second, done()), webhook.ErrClaim)
	never := s.event()(2, "", 0)
	put(t, s, never)
	require.ErrorIs(t, s.Settle(t.Context(), never, done()), webhook.ErrClaim, "nobody has claimed it")
}

func settled(t *testing.T, s *suite) {
	make := s.event()
	put(t, s, make(1, "", 0), make(2, "", 0))
	for i, e := range claim(t, s, later, 10) {
		require.NoError(t, s.Settle(t.Context(), e, webhook.Outcome{State: []webhook.State{webhook.Done, webhook.Stale}[i], At: later}))
		got, err := s.Event(t.Context(), e.Tenant, e.Source, e.ID)
		require.NoError(t, err)
		require.Empty(t, got.Body)
		require.Equal(t, later, got.SettledAt)
		require.True(t, got.State.Settled())
		require.ErrorIs(t, s.Revive(t.Context(), e.Tenant, e.Source, e.ID, later), toolresult.NotFound)
	}
	require.Empty(t, claim(t, s, later.Add(1000*time.Hour), 10))
}

func revived(t *testing.T, s *suite) {
	put(t, s, s.event()(1, "o", 1))
	e := claim(t, s, later, 1)[0]
	require.NoError(t, s.Settle(t.Context(), e, webhook.Outcome{State: webhook.Failed, Code: toolresult.Internal, At: later}))
	require.Empty(t, claim(t, s, later.Add(1000*time.Hour), 10))
	require.NoError(t, s.Revive(t.Context(), e.Tenant, e.Source, e.ID, later))
	again := claim(t, s, later, 1)[0]
	require.Equal(t, `{"n":1}`, string(again.Body))
	require.Equal(t, 1, again.Attempts)
	require.Equal(t, int64(2), again.Claim)
	require.NoError(t, s.Settle(t.Context(), again, webhook.Outcome{State: webhook.Waiting, Due: later, Unbegun: true, At: later}))
	require.Equal(t, 1, claim(t, s, later, 1)[0].Attempts, "one that nobody began does not count")
	require.ErrorIs(t, s.Revive(t.Context(), e.Tenant, e.Source, e.ID, later), toolresult.NotFound)
}

func forgotten(t *testing.T, s *suite) {
	make := s.event()
	put(t, s, make(1, "o", 5), make(2, "", 0), make(3, "", 0))
	list := claim(t, s, later, 2)
	require.NoError(t, s.Settle(t.Context(), list[0], done()))
	require.NoError(t, s.Forget(t.Context(), later.Add(time.Hour)))
	for id, want := range map[int]error{1: toolresult.NotFound, 2: nil, 3: nil} {
		e := make(id, "", 0)
		_, err := s.Event(t.Context(), e.Tenant, e.Source, e.ID)
		require.ErrorIs(t, err, want)
	}
	put(t, s, make(4, "o", 1))
	for _, e := range claim(t, s, later, 10) {
		require.Zero(t, e.Last)
	}
}

func purged(t *testing.T, s *suite) {
	make := s.event()
	mine, other := make(1, "o", 5), make(2, "p", 5)
	other.Connection = "other"
	elsewhere := s.event()(1, "o", 5)
	put(t, s, mine, other, elsewhere, make(3, "o", 6))
	for _, e := range claim(t, s, later, 10) {
		require.NoError(t, s.Settle(t.Context(), e, done()))
	}
	require.NoError(t, s.Purge(t.Context(), mine.Tenant, connection))
	_, err := s.Event(t.Context(), mine.Tenant, mine.Source, mine.ID)
	require.ErrorIs(t, err, toolresult.NotFound)
	for _, e := range []webhook.Event{other, elsewhere} {
		_, err := s.Event(t.Context(), e.Tenant, e.Source, e.ID)
		require.NoError(t, err)
	}
	put(t, s, mine)
	require.Zero(t, claim(t, s, later, 1)[0].Last)
	require.NoError(t, s.Purge(t.Context(), other.Tenant, "other"))
}
