package sqlstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/cache/generation"
)

// generationStore holds a store to its contract; open returns a handle on the
// same data.
func generationStore(t *testing.T, open func() generation.Store) {
	s, other := open(), open()
	until := time.Unix(2e9, 7).UTC()
	current := func(s generation.Store, marks ...generation.Mark) []generation.State {
		got, err := s.Current(t.Context(), marks)
		require.NoError(t, err)
		require.Len(t, got, len(marks))
		return got
	}
	require.Equal(t, []generation.State{{}, {}}, current(s, "a", "b"), "what never advanced is zero")
	require.Empty(t, current(s))
	require.NoError(t, s.Advance(t.Context(), []generation.Mark{"b", "a", "b"}, until))
	first := current(other, "b", "c", "a")
	require.Positive(t, first[0].N)
	require.Zero(t, first[1])
	require.Equal(t, until, first[2].Open)
	require.NoError(t, other.Advance(t.Context(), []generation.Mark{"a"}, time.Time{}))
	second := current(s, "b", "a")
	require.Equal(t, first[0], second[0])
	require.Greater(t, second[1].N, first[2].N)
	require.True(t, second[1].Open.IsZero())
	var many []generation.Mark
	for i := range 1100 {
		many = append(many, generation.Mark(fmt.Sprint("many ", i)))
	}
	require.NoError(t, s.Advance(t.Context(), many, time.Time{}))
	for _, g := range current(other, many...) {
		require.Positive(t, g.N)
	}
	require.NoError(t, s.Advance(t.Context(), nil, time.Time{}))

	var wg sync.WaitGroup
	errs := make([]error, 20)
	before := current(s, "a", "b")
	for i := range errs { // in both orders, which must not lock each other out
		marks := []generation.Mark{"a", "b"}
		if i%2 == 1 {
			marks = []generation.Mark{"b", "a"}
		}
		wg.Go(func() { errs[i] = []generation.Store{s, other}[i%2].Advance(t.Context(), marks, time.Time{}) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	for i, g := range current(s, "a", "b") {
		require.GreaterOrEqual(t, g.N, before[i].N+20, "each advanced it")
	}
}

func TestMemoryGenerations_P4(t *testing.T) {
	var m generation.Memory
	generationStore(t, func() generation.Store { return &m })
}

func testGenerations_P4(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	generationStore(t, func() generation.Store { return p.open(t, nil).Generations() })
}
