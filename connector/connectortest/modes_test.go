package connectortest_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/internal/mutants"
)

func desk(bug string) connectortest.Fixture { return mutants.Desk(mutants.NewSwitch(bug)) }

// all runs the checks in a mode.
func all(t *testing.T, f connectortest.Fixture, mode check.Mode) map[string]check.Result {
	t.Helper()
	s, err := check.Open(t, &f, mode)
	require.NoError(t, err)
	out := map[string]check.Result{}
	for _, c := range connectortest.Checks() {
		r := check.Do(t, s, &c)
		require.Equal(t, mode, r.Mode, "every result says where the provider was")
		out[c.ID] = r
	}
	return out
}

// What was recorded is answered again: reads are checked, and what needs more
// than answers is not applicable. A connector that asks for something else than
// what was recorded does not pass. T1.
func TestReplay_T1(t *testing.T) {
	f := desk("")
	f.Recording = connectortest.Record(t, f)
	require.NotContains(t, string(f.Recording), "desk-token", "no credential is kept")
	got := all(t, f, check.InReplay)
	for id, r := range got {
		require.True(t, r.Verdict.Green(), "%s: %v %s %v\n%s", id, r.Verdict, r.Reason, r.Findings, r.Transcript)
	}
	require.Equal(t, check.Pass, got["schema/output-validates"].Verdict)
	require.Equal(t, check.Pass, got["result/provenance"].Verdict)
	require.Equal(t, check.NotApplicable, got["errors/truncated-body"].Verdict)

	other := desk("")
	other.Recording = []byte(strings.ReplaceAll(string(f.Recording), "/tickets/acme-1", "/v2/tickets/acme-1"))
	require.Equal(t, check.Inconclusive, all(t, other, check.InReplay)["result/provenance"].Verdict, "a request that was not recorded")
}

// A recording that holds a credential, or something like one, is not made and
// not used.
func TestRecordingIsClean_S4(t *testing.T) {
	f := desk("")
	good := string(connectortest.Record(t, f))
	for _, secret := range []string{"ghp_0123456789abcdefABCDEF", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "Bearer abcdefghijklmnop", "xoxb-1234567890-abc", "-----BEGIN RSA PRIVATE KEY-----"} {
		f.Recording = []byte(strings.Replace(good, "acme ticket 1", secret, 1))
		_, err := check.Open(t, &f, check.InReplay)
		require.ErrorContains(t, err, "looks like a credential", secret)
	}
	for _, text := range []string{"", "{}", `{"schema":"connectortest/recording/v1"}`, "[1]", "null"} {
		f.Recording = []byte(text)
		_, err := check.Open(t, &f, check.InReplay)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "nil pointer")
	}
}

// A sandbox is the real system with the suite's faults in front of it: swept
// before and after, and labelled. Live reads only, and only when it was said so.
// T1.
func TestSandboxAndLive_T1(t *testing.T) {
	double := mutants.NewDesk(t)
	srv := httptest.NewServer(double)
	t.Cleanup(srv.Close)
	swept := 0
	real := func(context.Context, testing.TB) (connectortest.Real, error) {
		return connectortest.Real{URL: srv.URL, Token: double.Token, Snapshot: double.Snapshot,
			Sweep: func(context.Context, time.Duration) error { swept++; return nil }}, nil
	}
	f := desk("")
	f.Real = real
	t.Run("sandbox", func(t *testing.T) {
		got := all(t, f, check.InSandbox)
		for _, id := range []string{"cursor/terminates", "result/stable", "identity/credential-of-caller", "manifest/egress-declared", "errors/not-found-is-not-empty"} {
			require.Equal(t, check.Pass, got[id].Verdict, "%s: %s %v", id, got[id].Reason, got[id].Findings)
		}
		require.Equal(t, check.NotApplicable, got["deadline/slow-body"].Verdict, "what needs virtual time")
		require.Equal(t, 1, swept)
	})
	require.Equal(t, 2, swept)
	_, err := check.Open(t, &f, check.InLive)
	require.ErrorContains(t, err, check.LiveVariable)
	before, err := double.Snapshot()
	require.NoError(t, err)
	t.Setenv(check.LiveVariable, "desk")
	s, err := check.Open(t, &f, check.InLive)
	require.NoError(t, err)
	for _, c := range connectortest.Checks() {
		if c.ID == "schema/output-validates" || c.ID == "manifest/egress-declared" {
			r := check.Do(t, s, &c)
			require.Equal(t, check.Pass, r.Verdict, "%s: %s %v", c.ID, r.Reason, r.Findings)
		}
	}
	after, err := double.Snapshot()
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "live changes nothing")
}

// A fixture that lacks something says what, and what to do.
func TestFixtures(t *testing.T) {
	good := desk("")
	for _, c := range []struct {
		name, want string
		mode       check.Mode
		change     func(*connectortest.Fixture)
	}{
		{"no connector", "Fixture.New", check.InDouble, func(f *connectortest.Fixture) { f.New = nil }},
		{"a nil connector", "returned nothing", check.InDouble, func(f *connectortest.Fixture) { f.New = func() (connector.Connector, error) { return nil, nil } }},
		{"no double", "Fixture.Double", check.InDouble, func(f *connectortest.Fixture) { f.Double = nil }},
		{"no samples", "Fixture.Samples", check.InDouble, func(f *connectortest.Fixture) { f.Samples = nil }},
		{"a sample of nothing", "does not declare", check.InDouble, func(f *connectortest.Fixture) { f.Samples = []connectortest.Sample{{Capability: "nope", Args: "{}"}} }},
		{"arguments that are no object", "is no JSON object", check.InDouble, func(f *connectortest.Fixture) {
			f.Samples = []connectortest.Sample{{Capability: "desk.get", Args: "[1]"}}
		}},
		{"no recording", "Fixture.Recording", check.InReplay, func(*connectortest.Fixture) {}},
		{"no sandbox", "Fixture.Real", check.InSandbox, func(*connectortest.Fixture) {}},
		{"an unknown waiver", "no check", check.InDouble, func(f *connectortest.Fixture) { f.Waive = []connectortest.Waiver{{Check: "nope/nope"}} }},
		{"unknown requirements", "2026.12", check.InDouble, func(f *connectortest.Fixture) { f.Requirements = "1999.1" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := good
			c.change(&f)
			err := connectortest.Validate(&f)
			if err == nil {
				_, err = check.Open(t, &f, c.mode)
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A waiver turns a failure into a waived one, with its reason, until its day; one
// that is over, or not needed, or says nothing, is a failure itself.
func TestWaivers(t *testing.T) {
	good := connectortest.Waiver{Check: "result/time-utc", Reason: "the provider has no zones", Issue: "https://issues.example/1", Until: time.Now().AddDate(0, 1, 0)}
	for _, c := range []struct {
		name, bug string
		change    func(*connectortest.Waiver)
		want      check.Verdict
		conforms  string
	}{
		{"a failure that is waived", "local-time", func(*connectortest.Waiver) {}, check.Waived, "partial"},
		{"not needed", "", func(*connectortest.Waiver) {}, check.Fail, "no"},
		{"over", "local-time", func(w *connectortest.Waiver) { w.Until = time.Now().AddDate(0, 0, -1) }, check.Fail, "no"},
		{"without a reason", "local-time", func(w *connectortest.Waiver) { w.Reason = "" }, check.Fail, "no"},
		{"without an issue", "local-time", func(w *connectortest.Waiver) { w.Issue = "" }, check.Fail, "no"},
		{"without a date", "local-time", func(w *connectortest.Waiver) { w.Until = time.Time{} }, check.Fail, "no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := good
			c.change(&w)
			f := desk(c.bug)
			f.Waive = []connectortest.Waiver{w}
			report := connectortest.Run(t, f)
			for _, r := range report.Results {
				if r.Check == w.Check {
					require.Equal(t, c.want, r.Verdict, "%s %v", r.Reason, r.Findings)
				}
			}
			require.Equal(t, c.conforms, report.Conformant())
		})
	}
}

// No verdict but two is green, and none is lost on the way through JSON.
func TestVerdicts(t *testing.T) {
	require.False(t, check.Verdict(0).Green())
	require.False(t, check.Verdict(99).Green())
	for v := check.Unknown; v <= check.Broken; v++ {
		require.Equal(t, v == check.Pass || v == check.NotApplicable, v.Green())
		text, err := json.Marshal(v)
		require.NoError(t, err)
		var again check.Verdict
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, v, again)
	}
	require.False(t, (&check.Report{}).Green(), "nothing checked is not conformant")
	require.Equal(t, "no", (&check.Report{}).Conformant())
	var strange check.Verdict = check.Pass
	require.NoError(t, json.Unmarshal([]byte(`"excellent"`), &strange))
	require.Equal(t, check.Unknown, strange)
}

// The catalogue: names that never change, sentences, and something that each
// check kills. T2.
func TestCatalogue_T2(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range connectortest.Checks() {
		require.Regexp(t, `^[a-z]+/[a-z0-9-]+$`, c.ID)
		require.False(t, seen[c.ID], "%s occurs twice", c.ID)
		seen[c.ID] = true
		require.Regexp(t, `^[A-Z].{20,}\.$`, c.Promise, c.ID)
		require.NotEmpty(t, c.Kills, c.ID)
		require.NotNil(t, c.Run, c.ID)
		require.Contains(t, []string{"", connectortest.Newest}, c.Since)
	}
}

// Everybody's secrets are out of transcripts and findings, wherever they were.
func TestTranscripts_R10(t *testing.T) {
	for _, bug := range []string{"500-as-ok", "token-sticky", "cursor-skips"} {
		for _, r := range all(t, desk(bug), check.InDouble) {
			text := r.Transcript + r.Reason
			for _, f := range r.Findings {
				text += f.Got + f.Want
			}
			require.NotContains(t, text, "desk-token")
		}
	}
	f := desk("500-as-ok")
	r := all(t, f, check.InDouble)["errors/5xx-is-not-success"]
	require.Equal(t, check.Fail, r.Verdict)
	require.Contains(t, r.Transcript, "-- 1.1 request", "txtar")
	require.Contains(t, r.Transcript, "answered 500 in place of the provider")
}
