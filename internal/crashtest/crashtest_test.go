package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

// TestMain is main, when the test started itself as a provider or a worker.
func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "provider":
		provide()
	case "worker":
		work()
	case "receiver":
		receive()
	default:
		os.Exit(m.Run())
	}
}

func playHere(t *testing.T, c config) report {
	t.Helper()
	h := &peers.Program{}
	t.Cleanup(h.Close)
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

func playInboxHere(t *testing.T, c inboxConfig) inboxReport {
	t.Helper()
	h := &peers.Program{}
	t.Cleanup(h.Close)
	r, err := playInbox(t.Context(), h, c)
	require.NoError(t, err)
	return r
}

// P5: receivers are killed while they take, store and handle events, and nothing
// is lost or handled twice. The whole is for the command line.
func TestInbox_P5(t *testing.T) {
	r := playInboxHere(t, inboxConfig{rate: 100, span: 4 * time.Second, every: 2 * time.Second, duplicate: 0.3, seed: 1})
	require.True(t, r.ok(), "%+v", r)
	require.Positive(t, r.Kills)
	require.Positive(t, r.Duplicates)
	require.Equal(t, r.Events, r.Handled+r.Stale)
}

// The control: a handler that has its effect before the event is settled has it
// twice when it is killed in between, and that is counted.
func TestHandledTwiceIsCounted(t *testing.T) {
	r := playInboxHere(t, inboxConfig{rate: 50, span: 3 * time.Second, every: 600 * time.Millisecond, duplicate: 0.3, seed: 1, naive: true, most: 3})
	require.Zero(t, r.Lost, "%+v", r)
	require.Positive(t, r.ProcessedTwice, "%+v", r)
	require.False(t, r.ok())
}
