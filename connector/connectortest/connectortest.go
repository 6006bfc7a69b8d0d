package connectortest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/internal/reads"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/internal/writes"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/report"
)

// What an author fills in is declared in package check, so that a check can be
// written without this package.
type (
	Fixture  = check.Fixture
	Double   = check.Double
	Sample   = check.Sample
	Waiver   = check.Waiver
	Host     = check.Host
	Surface  = check.Surface
	Real     = check.Real
	Webhooks = check.Webhooks
	Report   = check.Report
	Result   = check.Result
)

// Newest is the newest frozen set of requirements.
const Newest = "2026.12"

// ReportVariable is the environment variable for what -connectortest.report says,
// for runs over several packages of which not all know the flag.
const ReportVariable = "CONNECTORTEST_REPORT"

var reportFlag = flag.String("connectortest.report", "", "directory into which Test writes report.html, report.json and junit.xml, in a directory for each connector; empty: what CONNECTORTEST_REPORT says, or nowhere")

var modeFlag = flag.String("connectortest.mode", "double", "how the provider is held: double, replay, sandbox or live")

// Checks returns the catalogue in a fixed order. The caller owns the slice.
func Checks() []check.Check {
	return slices.Concat(reads.Checks(), writes.Checks())
}

// Test runs every check in a subtest of its own, and fails the test for each
// scored one that is not green:
//
//	go test -run TestConnector/cursor
func Test(t *testing.T, f Fixture) {
	t.Helper()
	s := open(t, &f)
	out := head(t, s, &f)
	blocked := 0
	for _, c := range Checks() {
		if s.Blocks(&c) != "" {
			out.Results = append(out.Results, judge(check.Do(t, s, &c), &c, &f, out.Double, time.Now()))
			if !out.Results[len(out.Results)-1].Verdict.Green() {
				blocked++
			}
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			r := judge(check.Do(t, s, &c), &c, &f, out.Double, time.Now())
			out.Results = append(out.Results, r)
			tell(t, &r)
		})
	}
	unblock(t, s, blocked)
	t.Logf("%s %s: conformant: %s; %s; by requirements %s, in mode %s", out.Connector, out.Version, out.Conformant(), counts(out), out.Requirements, out.Mode)
	write(t, out)
}

// unblock says once what keeps checks from being run: their subtests would say
// nothing else.
func unblock(t *testing.T, s *check.Subject, blocked int) {
	t.Helper()
	why := "until these calls work"
	if len(s.Ordinary) == 0 || !slices.ContainsFunc(s.Ordinary, func(o check.Ordinary) bool { return !o.Works }) {
		why = s.Blocks(&check.Check{})
	}
	for i, o := range s.Ordinary {
		if !o.Works {
			t.Errorf("the ordinary call of %s does not work: %s\nsample:  %s\n%s", s.Fixture.Samples[i].Capability, o.Why, s.Fixture.Samples[i].Args, o.Detail)
		}
	}
	if blocked > 0 {
		t.Errorf("%d checks are inconclusive, and are not shown: %s", blocked, why)
	}
}

// write writes the report to where it was asked for.
func write(t *testing.T, r *Report) {
	t.Helper()
	dir := *reportFlag
	if dir == "" {
		dir = os.Getenv(ReportVariable)
	}
	switch n := len(Checks()); {
	case dir == "":
	case len(r.Results) < n:
		t.Logf("no report is written: only %d of %d checks were run", len(r.Results), n)
	default:
		at, err := report.Write(dir, r, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("the report is in %s", at)
	}
}

// Run runs all checks and returns what they said. It fails the test only if the
// fixture lacks what it needs.
func Run(t *testing.T, f Fixture) *Report {
	t.Helper()
	s := open(t, &f)
	out := head(t, s, &f)
	for _, c := range Checks() {
		out.Results = append(out.Results, judge(check.Do(t, s, &c), &c, &f, out.Double, time.Now()))
	}
	return out
}

func open(t *testing.T, f *Fixture) *check.Subject {
	t.Helper()
	var mode check.Mode
	if err := mode.UnmarshalText([]byte(*modeFlag)); err != nil || mode == 0 {
		t.Fatalf("connectortest: -connectortest.mode=%s is none of double, replay, sandbox and live", *modeFlag)
	}
	if err := Validate(f); err != nil {
		t.Fatal(err)
	}
	s, err := check.Open(t, f, mode)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Validate says what is wrong with the requirements and the waivers of a fixture,
// and fills in the newest requirements if it names none. [Test] and [Run] do it
// first.
func Validate(f *Fixture) error {
	if f.Requirements == "" {
		f.Requirements = Newest
	}
	if f.Requirements != Newest {
		return fmt.Errorf("connectortest: there are no requirements %q; the frozen sets are: %s", f.Requirements, Newest)
	}
	list := Checks()
	for _, w := range f.Waive {
		if !slices.ContainsFunc(list, func(c check.Check) bool { return c.ID == w.Check }) {
			return fmt.Errorf("connectortest: a waiver names %q, which is no check", w.Check)
		}
	}
	return nil
}

// Record makes the ordinary reads of the samples, against the double or whatever
// the mode says, and returns what the provider answered, for Fixture.Recording.
// Keep it in testdata. It fails the test if a credential would be in it, or
// something that looks like one.
func Record(t *testing.T, f Fixture) []byte {
	t.Helper()
	text, err := check.Record(open(t, &f), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func head(t *testing.T, s *check.Subject, f *Fixture) *Report {
	t.Helper()
	r := &Report{Connector: s.Manifest.ID, Version: s.Manifest.Version, Manifest: check.Digest(s.Manifest), Requirements: f.Requirements, Mode: s.Mode}
	if f.Compared != nil && s.Mode == check.InDouble {
		c, err := check.DecodeCompared(f.Compared)
		if err != nil {
			t.Fatal(err)
		}
		if r.Double = c; c.Stale(time.Now()) {
			t.Logf("warning: %s Run CompareDouble again.", c.Trust(time.Now()))
		}
	}
	return r
}

// judge applies the requirements and the waivers.
func judge(r Result, c *check.Check, f *Fixture, double *check.Compared, now time.Time) Result {
	r.Scored = c.Since != "" && c.Since <= f.Requirements
	if r.Verdict == check.Pass && c.Level == check.Core && double != nil && double.Expired(now) {
		r.Verdict, r.Reason = check.Inconclusive, double.Trust(now)
	}
	i := slices.IndexFunc(f.Waive, func(w Waiver) bool { return w.Check == c.ID })
	if i < 0 {
		return r
	}
	w := f.Waive[i]
	wrong := ""
	switch {
	case w.Reason == "" || w.Issue == "" || w.Until.IsZero():
		wrong = "the waiver lacks its reason, its issue or its date"
	case now.After(w.Until):
		wrong = "the waiver is over since " + w.Until.Format(time.DateOnly)
	case r.Verdict.Green():
		wrong = "the waiver is not needed any more: the check passes"
	case r.Verdict == check.Fail:
		r.Verdict, r.Reason = check.Waived, fmt.Sprintf("%s (%s, until %s)", w.Reason, w.Issue, w.Until.Format(time.DateOnly))
	}
	if wrong != "" {
		r.Verdict = check.Fail
		r.Findings = append(r.Findings, check.Finding{Got: wrong, Want: "a waiver that says why, where and until when a check may fail"})
	}
	return r
}

// tell says what a result means to whoever reads the test's output.
func tell(t *testing.T, r *Result) {
	t.Helper()
	mark := "in mode " + r.Mode.String()
	if !r.Scored {
		mark += ", not scored"
	}
	switch {
	case r.Verdict == check.Pass:
		t.Logf("pass (%s): %s", mark, r.Promise)
	case r.Verdict.Green(), r.Verdict == check.Waived:
		t.Logf("%s (%s): %s: %s", r.Verdict, mark, r.Promise, r.Reason)
	default:
		say := t.Errorf
		if !r.Scored {
			say = t.Logf
		}
		say("%s (%s)\npromise: %s\n%s%s", r.Verdict, mark, r.Promise, evidence(r), r.Transcript)
	}
}

func evidence(r *Result) string {
	var b strings.Builder
	if r.Reason != "" {
		fmt.Fprintf(&b, "why:     %s\n", r.Reason)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "got:     %s\nwant:    %s\n", f.Got, f.Want)
	}
	return b.String()
}

func counts(r *Report) string {
	return fmt.Sprintf("%d pass, %d fail, %d inconclusive, %d not applicable, %d waived, %d broken",
		r.Count(check.Pass), r.Count(check.Fail), r.Count(check.Inconclusive), r.Count(check.NotApplicable), r.Count(check.Waived), r.Count(check.Broken))
}
