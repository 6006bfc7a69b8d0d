package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

// TestMain is main, when the test started itself as a server or a worker.
func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "server":
		serve()
	case "worker":
		work()
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
	require.True(t, r.ok(), "%+v", r)
	return r
}

// H2-40 H2-41 H2-51: several processes renew each credential once, when it is
// due, and nobody sends a spent one. The whole is for the command line.
func TestOncePerExpiry_H2_40_H2_41_H2_51(t *testing.T) {
	for _, store := range []string{"sqlite", "postgres"} {
		r := playHere(t, config{store: store, procs: 2, goroutines: 10, seconds: 7, connections: 2})
		require.GreaterOrEqual(t, r.Expiries, 2, store)
	}
}

// H2-49 H2-50: processes die inside refreshes; what is lost is what the server
// had answered and nobody had stored, and it says so.
func TestKilledInside_H2_49_H2_50(t *testing.T) {
	r := playHere(t, config{store: "sqlite", procs: 3, goroutines: 8, seconds: 9, connections: 20, kill: true})
	require.Positive(t, r.Killed)
	require.Less(t, r.Lost, r.Connections)
}

// The control: a report of anything else is not accepted.
func TestReportCanFail(t *testing.T) {
	good := report{Calls: 9, Expiries: 3, TokenRequests: 3}
	require.True(t, good.ok())
	for _, bad := range []report{
		{}, {Calls: 9, Expiries: 3, TokenRequests: 4}, {Calls: 9, Expiries: 3, TokenRequests: 3, Errors: 1},
		{Calls: 9, Expiries: 3, TokenRequests: 3, InvalidGrants: 1}, {Calls: 9, Expiries: 3, TokenRequests: 3, InvalidGrants: 1, Lost: 1},
		{Calls: 9, Expiries: 3, TokenRequests: 3, kill: true, Killed: 1, InvalidGrants: 1, Lost: 1, WronglyLost: 1},
		{Calls: 9, kill: true}, {Calls: 9, kill: true, Killed: 1, Lost: 1},
	} {
		require.False(t, bad.ok(), "%+v", bad)
	}
}
