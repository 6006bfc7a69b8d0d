package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/examples/internal/report"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// prohibited may not even be proposed as an action of this run.
var prohibited = []string{"restart_service", "rollback_deployment"}

// sandboxed is the fact that the analysis in the sandbox establishes.
const sandboxed = "sandboxed_analysis"

// findings is what the agent has seen, with the call that it saw it in.
type findings struct {
	run   *report.Run
	cites map[string]report.Cite // the last answer of a tool
	data  map[string]json.RawMessage
}

func newFindings() *findings {
	return &findings{run: report.NewRun(runID, "deployment_mapping", "runbook_owner", sandboxed), cites: map[string]report.Cite{}, data: map[string]json.RawMessage{}}
}

// note keeps an answer.
func (f *findings) note(tool, version string, r *toolresult.Result) {
	cite := f.run.Add(tool, version, r)
	if r.Err() != nil {
		return
	}
	if _, again := f.cites[tool]; again && tool == "prometheus_query_range" {
		return
	}
	f.cites[tool], f.data[tool] = cite, r.Data
	if r.Effect.Disposition == toolresult.EffectApplied {
		var created struct{ Ticket string }
		if json.Unmarshal(r.Data, &created) == nil {
			f.run.Confirm(r.CallID, created.Ticket)
		}
	}
	if tool == "list_recent_deployments" && r.Coverage.Complete { // the connector maps the service to its repository, or says that it cannot
		f.run.Verified["deployment_mapping"] = r.CallID
	}
	if tool == "search_runbooks" && r.Coverage.Complete {
		f.run.Verified["runbook_owner"] = r.CallID
	}
}

// deployed is when the last rollout was complete, as its record says.
func (f *findings) deployed() string {
	var all []struct {
		Ref         string `json:"ref"`
		SucceededAt string `json:"succeeded_at"`
	}
	if json.Unmarshal(f.data["list_recent_deployments"], &all) != nil || len(all) == 0 {
		return "No rollout is recorded in the window."
	}
	return fmt.Sprintf("The rollout of %s was complete at %s.", all[0].Ref, all[0].SucceededAt)
}

// rise says when the series first passed a second, and how far it went.
func (f *findings) rise() string {
	var series []struct {
		Points []struct {
			At    time.Time `json:"at"`
			Value string    `json:"value"`
		} `json:"points"`
	}
	if json.Unmarshal(f.data["prometheus_query_range"], &series) != nil || len(series) == 0 {
		return "No P95 is recorded in the window."
	}
	first, top, from := time.Time{}, 0.0, 0.0
	for i, p := range series[0].Points {
		v, err := strconv.ParseFloat(p.Value, 64)
		if err != nil {
			continue
		}
		if i == 0 {
			from = v
		}
		if v > 1 && first.IsZero() {
			first = p.At
		}
		top = max(top, v)
	}
	if first.IsZero() {
		return fmt.Sprintf("P95 stayed under a second, at most %.3g s.", top)
	}
	return fmt.Sprintf("P95 was %.3g s, passed one second at %s and reached %.3g s.", from, first.UTC().Format("15:04:05Z"), top)
}

// timeouts says what the page of the log holds.
func (f *findings) timeouts() string {
	lines := strings.Count(string(f.data["loki_search"]), "timed out")
	return fmt.Sprintf("Lines of payment-client that timed out, in the page of the log that was read: %d.", lines)
}

// meanings are what a gap means for this diagnosis.
var meanings = map[string]string{
	"remaining_pages":     "the rest of the log may hold other errors",
	"runbook_owner":       "nobody answers for runbook v2, so it is not followed",
	"permission_denied":   "the other tenant's service is not part of this incident",
	"conflict":            "a reworded repeat of the ticket was refused, as it has to be",
	"connection_required": "no account was connected: before bob consented, and after he was disconnected",
	"approval_required":   "a person had to see the ticket first",
	"approval_invalid":    "a person said no to this change",
	sandboxed:             "the analysis did not run on this machine, so nothing was computed from the samples",
}

// claim is a claim that stands on the last answers of tools. If one of them gave
// none, there is no claim: the gap is told instead.
func (f *findings) claim(c report.Claim, tools ...string) []report.Claim {
	for _, tool := range tools {
		cite, ok := f.cites[tool]
		if !ok {
			return nil
		}
		c.Cites = append(c.Cites, cite)
	}
	return []report.Claim{c}
}

// report is the diagnosis that the run supports: observations, one hypothesis
// with its test, and every gap.
func (f *findings) report(operation string, a *analysis) *report.Report {
	const deploy, metric, logs = "list_recent_deployments", "prometheus_query_range", "loki_search"
	seen := func(text, tool string) []report.Claim {
		return f.claim(report.Claim{Kind: report.Observation, Text: text}, tool)
	}
	start, end := windowOfCase()
	r := &report.Report{
		Incident: alr.AlertID, Window: toolresult.Interval{Start: start, End: end}, Confidence: "low",
		Evidence: slices.Concat(seen(f.deployed(), deploy), seen(f.rise(), metric), seen(f.timeouts(), logs)),
		Conclusion: f.claim(report.Claim{
			Kind: report.Hypothesis, Text: "The rollout may have caused timeouts of payment-client: it came shortly before. That is all that is known.",
			Test: "the version before shows the same timeouts under the same load",
		}, deploy, metric, logs),
		NextSteps:  []string{"Read the rest of the log.", "Compare payment-client of the two versions.", "Find an owner for runbook v2."},
		NeedPerson: []report.Action{{Capability: "create_incident_ticket", Why: "it changes the ticket system"}},
	}
	if a != nil && a.Said != "" {
		r.Evidence = append(r.Evidence, seen("P95 over a second, computed in a sandbox: "+a.Said+".", metric)...)
	}
	for _, g := range f.run.Gaps() {
		if g.Why = meanings[g.What]; g.Why == "" {
			g.Why = "what it would have said is not known"
		}
		r.Unknown = append(r.Unknown, g)
	}
	for _, tool := range []string{"operation_status", "create_incident_ticket"} { // the look-up, if there had to be one
		if cite, ok := f.cites[tool]; ok {
			r.Effects = []report.Effect{{Operation: operation, Object: f.confirmed(cite.Call), Confirmed: cite.Call}}
			break
		}
	}
	return r
}

func (f *findings) confirmed(call string) string {
	for _, c := range f.run.Calls() {
		if c.ID == call {
			return c.Object
		}
	}
	return ""
}

// flawed is the draft that an agent wrote from the same run: a cause from the
// order of time alone, by a runbook that nobody answers for, and no gap told.
func (f *findings) flawed(operation string) *report.Report {
	r := f.report(operation, nil)
	r.Confidence, r.Unknown = "high", nil
	r.Conclusion = []report.Claim{{
		Kind: report.Conclusion, Text: "The rollout exhausted the connection pool of the database.",
		Cites: []report.Cite{f.cites["list_recent_deployments"], f.cites["prometheus_query_range"], f.cites["search_runbooks"]},
	}}
	return r
}

// callID is a call in the sentence of a problem, with its tool.
func callID() *regexp.Regexp { return regexp.MustCompile(`call_[0-9A-Z]+ \((\w+)\)`) }

// diagnosis checks both drafts.
func (s *story) diagnosis(context.Context) error {
	s.out.title("The report")
	s.out.line("A draft that names a cause is checked against the calls:")
	problems := report.Check(s.found.flawed(s.operation), s.found.run, prohibited...)
	rules := map[report.Rule]bool{}
	for i, p := range problems {
		if i < 3 {
			s.out.refused("%s", callID().ReplaceAllString(p.What, "$1"))
		}
		rules[p.Rule] = true
	}
	s.out.line("and %d more reasons.", max(0, len(problems)-3))
	s.facts.Refused = append(s.facts.Refused, refusal{"a report that names a cause", fmt.Sprintf("%d reasons; see below", len(problems))})
	s.must(rules[report.RuleCause] && rules[report.RuleGap], "the draft is refused for its cause and its silence")
	good := s.found.report(s.operation, s.facts.Analysis)
	for _, p := range report.Check(good, s.found.run, prohibited...) {
		s.must(false, p.String())
	}
	s.out.line("The draft that stands:")
	s.out.items(good.Brief())
	if s.file == "" {
		return nil
	}
	if err := s.evidencePage(s.file, problems, good); err != nil {
		return err
	}
	s.out.heading("The whole run, with what each claim stands on")
	s.out.line("%s", s.file)
	return nil
}
