package operationtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/operation"
)

// rounds is how often each race is run: a store that holds a rule by luck
// loses one of them.
const rounds = 20

var races = []clause{
	{"of many that create one key, exactly one wins and all others see its record", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		for n := range rounds {
			id := fmt.Sprint("op", n)
			won := race(t, s, operation.ErrExists, func(ctx context.Context, h operation.Store, i int) (operation.Record, error) {
				r := record(tenant, id, fmt.Sprint("a", n), fmt.Sprint("i", n))
				r.Holder = fmt.Sprint("run", i)
				got, err := h.Create(ctx, r)
				if errors.Is(err, operation.ErrExists) && got.ID != id {
					err = errors.New("the record in the way is not returned")
				}
				return got, err
			})
			same(t, won, get(t, s, tenant, id))
		}
	}},
	{"of many that use one approval, exactly one wins", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		for n := range rounds {
			race(t, s, operation.ErrApprovalUsed, func(ctx context.Context, h operation.Store, i int) (operation.Record, error) {
				return h.Create(ctx, record(tenant, fmt.Sprint("op", n, "-", i), fmt.Sprint("a", n), fmt.Sprint("i", n, "-", i)))
			})
		}
	}},
	{"of many that send one intent, exactly one wins", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		for n := range rounds {
			recs := make([]operation.Record, s.rivals)
			for i := range recs {
				recs[i] = create(t, s, record(tenant, fmt.Sprint("op", n, "-", i), "", fmt.Sprint("i", n)))
			}
			won := race(t, s, operation.ErrIntentOpen, func(ctx context.Context, h operation.Store, i int) (operation.Record, error) {
				r := recs[i]
				r.State = operation.Dispatched
				return h.CompareAndSwap(ctx, r)
			})
			swap(t, s, won, operation.Applied)
		}
	}},
	{"of many that swap one version, exactly one wins", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		r := create(t, s, record(tenant, "op", "", "i"))
		for range rounds {
			r = race(t, s, operation.ErrVersion, func(ctx context.Context, h operation.Store, i int) (operation.Record, error) {
				next := r.Clone()
				next.Holder = fmt.Sprint("run", i)
				return h.CompareAndSwap(ctx, next)
			})
			same(t, r, get(t, s, tenant, "op"))
		}
	}},
	{"no swap is lost: each of many adds one until it has", func(t *testing.T, s *suite) {
		tenant := s.tenant()
		create(t, s, record(tenant, "op", "", "i"))
		errs := each(s, func(h operation.Store, _ int) error {
			for range 5 {
				if err := addOne(t.Context(), h, tenant, "op"); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, errors.Join(errs...))
		got := get(t, s, tenant, "op")
		require.Equal(t, 5*s.rivals, got.Sent)
		require.EqualValues(t, 5*s.rivals+1, got.Rev)
	}},
}

func addOne(ctx context.Context, h operation.Store, tenant, id string) error {
	for {
		r, err := h.Get(ctx, tenant, id)
		if err != nil {
			return err
		}
		r.Sent++
		if _, err := h.CompareAndSwap(ctx, r); !errors.Is(err, operation.ErrVersion) {
			return err
		}
	}
}

// each runs f in every rival at once, over the handles in turn.
func each(s *suite, f func(h operation.Store, i int) error) []error {
	errs := make([]error, s.rivals)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			<-start
			errs[i] = f(s.handles[i%len(s.handles)], i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// race checks that one rival wins and all others fail with lost, and returns the
// winner's record.
func race(t *testing.T, s *suite, lost error, f func(ctx context.Context, h operation.Store, i int) (operation.Record, error)) operation.Record {
	t.Helper()
	recs := make([]operation.Record, s.rivals)
	errs := each(s, func(h operation.Store, i int) (err error) {
		recs[i], err = f(t.Context(), h, i)
		return err
	})
	winner := -1
	for i, err := range errs {
		if err == nil {
			require.Negative(t, winner, "two winners")
			winner = i
			continue
		}
		require.ErrorIs(t, err, lost)
	}
	require.GreaterOrEqual(t, winner, 0, "nobody won")
	return recs[winner]
}
