package connectiontest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
)

const rivals = 8

// race lets rivals on all handles do the same at once, and returns their errors.
func (s *suite) race(f func(h connection.Store, i int) error) (errs []error) {
	errs = make([]error, rivals)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range rivals {
		wg.Go(func() {
			<-start
			errs[i] = f(s.handles[i%len(s.handles)], i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// one checks that one rival won and the others lost in the right words.
func one(t testing.TB, errs []error, lost ...error) {
	t.Helper()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		known := false
		for _, l := range lost {
			known = known || errors.Is(err, l)
		}
		require.True(t, known, "a loser says %v", err)
	}
	require.Equal(t, 1, won)
}

var races = []clause{
	{"H2-41: a lease is taken by one of many", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		r := create(t, s, record(tenant, "c1", "a"))
		one(t, s.race(func(h connection.Store, i int) error {
			mine := r.Clone()
			mine.State = connection.Refreshing
			mine.Lease = connection.Lease{Attempt: fmt.Sprint(i), Until: moment.Add(time.Minute)}
			_, err := h.CompareAndSwap(t.Context(), mine)
			return err
		}), connection.ErrVersion)
		require.EqualValues(t, 2, get(t, s, tenant, "c1").Version)
	}},
	{"H2-04: a transaction is taken by one of many", func(t *testing.T, s *suite) {
		tx, err := s.AddTransaction(t.Context(), transaction(s.tenant(), "t1"))
		require.NoError(t, err)
		one(t, s.race(func(h connection.Store, _ int) error {
			mine := tx.Clone()
			mine.Stage = connection.Taken
			_, err := h.SwapTransaction(t.Context(), mine)
			return err
		}), connection.ErrVersion)
	}},
	{"H2-75: an account is connected by one of many", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		one(t, s.race(func(h connection.Store, i int) error {
			_, err := h.Create(t.Context(), record(tenant, fmt.Sprint("c", i), "a"))
			return err
		}), connection.ErrAccountTaken)
	}},
	{"an id is taken by one of many", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		one(t, s.race(func(h connection.Store, i int) error {
			_, err := h.Create(t.Context(), record(tenant, "c1", fmt.Sprint("account ", i)))
			return err
		}), connection.ErrExists)
		one(t, s.race(func(h connection.Store, _ int) error {
			return h.AddHold(t.Context(), connection.Hold{Tenant: tenant, ID: "h1", Created: moment})
		}), connection.ErrExists)
	}},
	{"no write is lost among many", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		create(t, s, record(tenant, "c1", "a"))
		for _, err := range s.race(func(h connection.Store, _ int) error {
			for n := 0; n < 5; {
				r, err := h.Get(t.Context(), tenant, "c1")
				if err != nil {
					return err
				}
				r.Tokens++
				switch _, err = h.CompareAndSwap(t.Context(), r); {
				case err == nil:
					n++
				case !errors.Is(err, connection.ErrVersion):
					return err
				}
			}
			return nil
		}) {
			require.NoError(t, err)
		}
		r := get(t, s, tenant, "c1")
		require.EqualValues(t, 3+rivals*5, r.Tokens)
		require.EqualValues(t, 1+rivals*5, r.Version)
	}},
}
