package report_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/report"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func sample() *check.Report {
	one := func(id string, v check.Verdict, mode check.Mode) check.Result {
		return check.Result{Check: id, Promise: "What is promised in <" + id + ">.", Scored: true, Verdict: v, Mode: mode, Requests: 2, Faults: 1, Virtual: 3 * time.Second}
	}
	fail := one("write/same-key-applies-once", check.Fail, check.InDouble)
	fail.Findings = []check.Finding{{Got: "applied 2 \x00 <script>alert(1)</script>", Want: "applied 1 ]]>"}}
	fail.Transcript = "-- 1.1 request at 0s --\nPOST /tickets\n<script>\n"
	gap := one("webhook/bounded", check.NotApplicable, check.InDouble)
	gap.Reason = "the manifest declares no webhook"
	unclear := one("cursor/complete", check.Inconclusive, check.InDouble)
	unclear.Reason = "no sample"
	waived := one("result/time-utc", check.Waived, check.InDouble)
	later := one("other/provisional", check.Fail, check.InDouble)
	later.Scored = false
	return &check.Report{Connector: "tickets", Version: "1.2.0", Manifest: "sha256:00", Requirements: "2026.12", Mode: check.InDouble,
		Results: []check.Result{one("errors/5xx-is-not-success", check.Pass, check.InDouble), fail, gap, unclear, waived, one("size/depth-bounded", check.Broken, check.InDouble), later}}
}

// T4: the report says what was promised, what became of it and in which mode, in
// all three forms, and reading it back gives what was written.
func TestWrite_T4(t *testing.T) {
	dir := t.TempDir()
	r := sample()
	at, err := report.Write(dir, r, now)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "tickets"), at)

	text, err := os.ReadFile(filepath.Join(at, "report.json"))
	require.NoError(t, err)
	f, err := report.Decode(text)
	require.NoError(t, err)
	require.Equal(t, "no", f.Conformant)
	require.Equal(t, 2, f.Counts["fail"])
	want := *r
	want.Results = append([]check.Result(nil), r.Results...)
	want.Results[1].Transcript = "" // it is a file of its own
	require.Equal(t, want, f.Report)
	require.Equal(t, "transcripts/write_same-key-applies-once.txtar", f.Results[1].Transcript)
	kept, err := os.ReadFile(filepath.Join(at, f.Results[1].Transcript))
	require.NoError(t, err)
	require.Equal(t, r.Results[1].Transcript, string(kept))

	text, err = os.ReadFile(filepath.Join(at, "junit.xml"))
	require.NoError(t, err)
	var suites struct {
		Suite struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
			Skipped  int `xml:"skipped,attr"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal(text, &suites))
	require.Equal(t, [4]int{7, 2, 1, 3}, [4]int{suites.Suite.Tests, suites.Suite.Failures, suites.Suite.Errors, suites.Suite.Skipped})

	text, err = os.ReadFile(filepath.Join(at, "report.html"))
	require.NoError(t, err)
	page := string(text)
	require.NotContains(t, page, "<script")
	require.NotContains(t, page, "http://")
	require.NotContains(t, page, "https://")
	require.Contains(t, page, "Not conformant")
	require.Contains(t, page, "never compared with the real system")
	require.Equal(t, 2*7-2, strings.Count(page, "in mode double"), "every result says its mode, here and among the problems")
	require.Contains(t, page, "POST /tickets")
}

// What was not looked at for one reason is one thing to mend, and every promise of
// it is named all the same.
func TestOneReasonIsOneProblem(t *testing.T) {
	r := sample()
	r.Results = nil
	for _, id := range []string{"cursor/complete", "cursor/terminates", "write/reads-are-safe", "leak/logs"} {
		r.Results = append(r.Results, check.Result{Check: id, Promise: "What is promised in " + id + ".", Scored: true, Verdict: check.Inconclusive, Mode: check.InDouble,
			Reason: "the ordinary call of get does not work"})
	}
	r.Results[3].Reason = "no request bore a credential"
	text, err := report.HTML(r, now)
	require.NoError(t, err)
	page := string(text)
	problems, all, ok := strings.Cut(page, "All promises")
	require.True(t, ok)
	require.Equal(t, 1, strings.Count(problems, "the ordinary call of get does not work"))
	require.Contains(t, problems, "keeps 2 more from being judged")
	require.Equal(t, 1, strings.Count(problems, "no request bore a credential"))
	for _, x := range r.Results {
		require.Contains(t, problems, x.Check)
		require.Contains(t, all, x.Check)
	}
	require.Equal(t, 3, strings.Count(all, "the ordinary call of get does not work"), "and in full below")
}

// R10: what a real system answered is in no report.
func TestRealAnswersAreNotKept_R10(t *testing.T) {
	r := sample()
	r.Mode = check.InSandbox
	for i := range r.Results {
		r.Results[i].Mode = check.InSandbox
	}
	at, err := report.Write(t.TempDir(), r, now)
	require.NoError(t, err)
	left, err := os.ReadDir(filepath.Join(at, "transcripts"))
	require.NoError(t, err)
	require.Empty(t, left)
	page, err := os.ReadFile(filepath.Join(at, "report.html"))
	require.NoError(t, err)
	require.NotContains(t, string(page), "POST /tickets")
}

// A second run leaves nothing of the first; names lead nowhere else.
func TestHostileNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"../../escape", "", "a/b", ".", "..", "A\x00", strings.Repeat("x", 300)} {
		r := sample()
		r.Connector = name
		r.Results[1].Check = "../../../etc/" + name
		at, err := report.Write(dir, r, now)
		require.NoError(t, err, name)
		require.Equal(t, filepath.Join(dir, "connector"), at)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	_, err = report.Write(dir, &check.Report{Connector: "tickets"}, now)
	require.Error(t, err, "nothing was checked")
	_, err = report.Write("", sample(), now)
	require.Error(t, err)
}

// A report that contradicts itself is none.
func TestDecode(t *testing.T) {
	good, err := json.Marshal(report.New(sample(), now))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"nothing":            "",
		"null":               "null",
		"another schema":     strings.Replace(string(good), report.Schema, "connectortest/v9", 1),
		"a better verdict":   strings.Replace(string(good), `"conformant":"no"`, `"conformant":"yes"`, 1),
		"an unknown verdict": strings.Replace(string(good), `"verdict":"pass"`, `"verdict":"excellent"`, 1),
	} {
		_, err := report.Decode([]byte(text))
		require.Error(t, err, name)
	}
}

func FuzzDecode(f *testing.F) {
	good, err := json.Marshal(report.New(sample(), now))
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"schema":"connectortest/v1","conformant":"no","double":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := report.Decode(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(report.New(&r.Report, now))
		require.NoError(t, err)
		if len(r.Results) > 0 {
			_, err = report.HTML(&r.Report, now)
			require.NoError(t, err)
		}
		require.NotEmpty(t, again)
	})
}
