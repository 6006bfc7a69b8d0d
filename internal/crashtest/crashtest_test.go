package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain is main, when the test started itself as a provider or a worker.
func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "provider":
		provide()
	case "worker":
		work()
	default:
		os.Exit(m.Run())
	}
}

func playHere(t *testing.T, c config) report {
	t.Helper()
	h := &host{}
	t.Cleanup(h.close)
	r, err := play(t.Context(), h, c)
	require.NoError(t, err)
	return r
}

// Without kills no lease has to end, so that this takes seconds. The whole is
// for the command line.
var quick = []string{dropBefore, dropAfter, busyBefore, busyAfter, applyLate, answerLate, callTwice}

func TestNothingIsLostOrDoubled_W3_W4(t *testing.T) {
	r := playHere(t, config{store: "sqlite", runs: 14, procs: 2, seed: 1, faults: quick})
	require.True(t, r.ok(), "%+v", r)
	require.Positive(t, r.Writes)
}

// The control: with a provider that breaks its word there are doubles, and they
// are counted.
func TestDoublesAreCounted(t *testing.T) {
	r := playHere(t, config{store: "sqlite", runs: 8, procs: 2, seed: 1, faults: []string{applyLate}, forget: true})
	require.Positive(t, r.Duplicated, "%+v", r)
	require.False(t, r.ok())
}
