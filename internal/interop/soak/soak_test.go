package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A8, A4: a short one, in every run. Fewer clients, because the machine is small
// and other tests run beside it.
func TestSoak_A4_A8(t *testing.T) {
	r, err := soak(t.Context(), config{Clients: 40, Span: 3 * time.Second, Seed: 7})
	require.NoError(t, err)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	t.Log(string(text))
	require.NoError(t, r.wrong())
}

// The look-out for somebody else sees them.
func TestCrossedIsSeen(t *testing.T) {
	for text, want := range map[string]int64{
		`{"subject":"client-0007"}`: 0, `{"subject":"client-0007"}{"subject":"client-0007"}`: 0, ``: 0,
		`{"subject":"client-0008"}`: 1, `{"subject":"client-0007"}{"subject":"client-0001"}`: 1, `{"subject":""}`: 1, `{"subject":"client-00077"}`: 1,
	} {
		c := &client{n: 7, all: &counts{}}
		c.crossed(text)
		require.Equal(t, want, c.all.Crossed.Load(), text)
	}
	for name, r := range map[string]report{
		"crossed": {CrossPrincipal: 1}, "wrong": {Wrong: 1}, "goroutines": {GoroutinesAfter: 1}, "memory": {HeapAfter: allowed + 1}, "nothing happened": {},
	} {
		require.Error(t, r.wrong(), name)
	}
}
