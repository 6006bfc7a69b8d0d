package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain is main, when the test started itself as a replica.
func TestMain(m *testing.M) {
	if os.Getenv(role) == "replica" {
		replica()
		return
	}
	goleak.VerifyTestMain(m)
}

// A8 C3 W3 W4 M7 R10: two replicas on PostgreSQL are replaced by the next release
// and killed while people read and write. Nothing is lost or done twice, nobody
// gets somebody else's answer, and each token is renewed once. The whole is for
// the command line.
func TestRolloutUnderLoad_A8_C3_W3_W4_M7_R10(t *testing.T) {
	r, err := play(t.Context(), t, config{span: 5 * time.Second, people: 4, seed: 1, store: "postgres"})
	require.NoError(t, err)
	require.Empty(t, r.wrong(), "%+v", r)
}

// The control: a provider that does wrong on purpose, in each of the ways, is seen.
func TestAuditCanFail(t *testing.T) {
	r, err := play(t.Context(), t, config{span: time.Second, people: 4, seed: 1, store: "sqlite", control: controls, calm: true})
	require.NoError(t, err)
	require.Positive(t, r.Doubled, "%+v", r)
	require.Positive(t, r.Lost, "%+v", r)
	require.Positive(t, r.CrossPrincipal, "%+v", r)
	require.Positive(t, r.Repeated, "%+v", r)
	require.NotEmpty(t, r.wrong())
}

// Each figure that must be 0 is looked at, and so is each thing that must happen.
func TestReportCanFail(t *testing.T) {
	good := func() report {
		return report{Reads: 9, Refused: 1, Applied: 3, Refreshes: 3, Expiries: 2, Retried: 1, Killed: 1, Releases: map[string]int64{"1": 1, "2": 1}}
	}
	fine := good()
	require.Empty(t, fine.wrong())
	for what, spoil := range map[string]func(*report){
		"lost": func(r *report) { r.Lost = 1 }, "doubled": func(r *report) { r.Doubled = 1 }, "misreported": func(r *report) { r.Misreported = 1 },
		"unresolved": func(r *report) { r.Unresolved = 1 }, "phantom": func(r *report) { r.Phantom = 1 }, "early": func(r *report) { r.Early = 1 },
		"repeated": func(r *report) { r.Repeated = 1 }, "cross_principal": func(r *report) { r.CrossPrincipal = 1 }, "wrong": func(r *report) { r.Wrong = 1 },
		"unclean": func(r *report) { r.Unclean = 1 }, "leaked": func(r *report) { r.Leaked = 1 },
		"no expiry explains": func(r *report) { r.Refreshes++ }, "reads": func(r *report) { r.Reads = 0 }, "changes": func(r *report) { r.Applied = 0 },
		"expiries": func(r *report) { r.Refreshes, r.Expiries = 1, 0 }, "kills": func(r *report) { r.Killed = 0 }, "refusals": func(r *report) { r.Refused = 0 },
		"both releases": func(r *report) { r.Releases = map[string]int64{"1": 1} },
	} {
		r := good()
		spoil(&r)
		require.NotEmpty(t, r.wrong(), what)
		require.Contains(t, r.wrong()[0], what)
	}
}
