package report_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/examples/internal/report"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func at(hour, minute int) time.Time { return time.Date(2026, 4, 29, hour, minute, 0, 0, time.UTC) }

func span(h1, m1, h2, m2 int) toolresult.Interval {
	return toolresult.Interval{Start: at(h1, m1), End: at(h2, m2)}
}

// made is a run with one call of each kind, and their cites.
type made struct {
	run                                            *report.Run
	alert, deploy, metric, logs, books, pods, done report.Cite
}

func newRun(t *testing.T) *made {
	m := &made{run: report.NewRun("run_0429_017", "deployment_mapping", "runbook_owner")}
	m.run.Verified["deployment_mapping"] = "c2"
	add := func(id, tool, version string, w toolresult.Interval, missing ...toolresult.Gap) report.Cite {
		r := toolresult.Complete(id, json.RawMessage(`[{}]`))
		if len(missing) > 0 {
			r = toolresult.Partial(id, json.RawMessage(`[{}]`), missing[0], missing[1:]...)
		}
		r.Provenance.Window = w
		require.NoError(t, r.Validate(nil))
		return m.run.Add(tool, version, r)
	}
	m.alert = add("c1", "get_alert_details", "alert-history 2.0.0", toolresult.Interval{})
	m.deploy = add("c2", "list_recent_deployments", "deployments 3.0.0", span(0, 0, 3, 0))
	m.metric = add("c3", "prometheus_query_range", "metrics 4.0.0", span(2, 35, 2, 50))
	m.logs = add("c4", "loki_search", "logs 4.0.0", span(2, 35, 2, 50), toolresult.GapRemainingPages)
	m.books = add("c5", "search_runbooks", "runbooks 3.0.0", toolresult.Interval{}, "runbook_owner")
	m.pods = add("c6", "kubernetes_get_pods", "pods 2.0.0", toolresult.Interval{})
	m.run.Add("create_incident_ticket", "tickets 5.0.0", toolresult.UnknownEffect("c7", "op_1"))
	m.done = m.run.Add("operation_status", "tickets 5.0.0", toolresult.Applied("c8", "op_1", json.RawMessage(`{"ticket":"INC-4821"}`)))
	m.run.Confirm("c8", "INC-4821")
	return m
}

// good is the report that the run supports.
func (m *made) good() *report.Report {
	return &report.Report{
		Incident: "ALR-20260429-017", Window: span(2, 35, 2, 50), Confidence: "low",
		Evidence: []report.Claim{
			{Kind: report.Observation, Text: "The rollout was complete at 02:35Z.", Cites: []report.Cite{m.deploy}},
			{Kind: report.Observation, Text: "P95 rose from 0.21 s to 2.1 s at 02:37Z.", Cites: []report.Cite{m.metric}},
			{Kind: report.Observation, Text: "payment-client logged timeouts.", Cites: []report.Cite{m.logs}},
		},
		Conclusion: []report.Claim{{Kind: report.Hypothesis, Text: "The rollout may have caused the timeouts of payment-client: it came two minutes before.",
			Test: "the same client in the version before shows the same timeouts", Cites: []report.Cite{m.deploy, m.metric, m.logs}}},
		NextSteps:  []string{"Read the rest of the log."},
		NeedPerson: []report.Action{{Capability: "create_incident_ticket", Why: "a change"}},
		Unknown: []report.Gap{
			{Call: "c4", What: "remaining_pages", Why: "there may be other errors"},
			{Call: "c5", What: "runbook_owner", Why: "nobody answers for runbook v2, so it is not followed"},
			{What: "runbook_owner", Why: "the same"},
		},
		Effects: []report.Effect{{Operation: "op_1", Object: "INC-4821", Confirmed: "c8"}},
	}
}

func rules(problems []report.Problem) (out []report.Rule) {
	for _, p := range problems {
		out = append(out, p.Rule)
	}
	return out
}

// X2: a report whose every claim cites its calls, with gaps shown as gaps,
// passes.
func TestGoodReport_X2(t *testing.T) {
	m := newRun(t)
	require.Empty(t, report.Check(m.good(), m.run, "restart_service", "rollback_deployment"))
	text := m.good().Text()
	for _, want := range []string{"## Conclusion", "hypothesis: The rollout may have", "c3, metrics 4.0.0, 2026-04-29T02:35:00Z/2026-04-29T02:50:00Z", "incomplete", "## Not known", "INC-4821 (operation op_1)"} {
		require.Contains(t, text, want)
	}
}

// X2: the draft of the teaching case says that the pool of connections was
// exhausted by the rollout: it has only the order of time, follows a runbook that
// nobody answers for, and tells no gap.
func TestFlawedReport_X2(t *testing.T) {
	m := newRun(t)
	delete(m.run.Verified, "deployment_mapping")
	flawed := m.good()
	flawed.Confidence = "high"
	flawed.Conclusion = []report.Claim{{Kind: report.Conclusion, Text: "The rollout exhausted the connection pool; the database is not the reason and was ruled out.", Cites: []report.Cite{m.deploy, m.metric, m.books}}}
	flawed.Unknown = nil
	problems := report.Check(flawed, m.run)
	require.Equal(t, []report.Rule{report.RuleCause, report.RuleExclusion, report.RuleGap, report.RuleGap, report.RuleGap, report.RuleGap}, rules(problems))
	var text string
	for _, p := range problems {
		text += p.String() + "\n"
	}
	for _, want := range []string{`"exhausted" claims a cause`, `"is not the" rules something out`, "c4 (loki_search) lacks remaining_pages", "c5 (search_runbooks) lacks runbook_owner", "deployment_mapping was not verified", "runbook_owner was not verified"} {
		require.Contains(t, text, want)
	}
}

// X2: one change to the good report each, and the rule that sees it.
func TestRules_X2(t *testing.T) {
	claim := func(text string, cites ...report.Cite) report.Claim {
		return report.Claim{Kind: report.Observation, Text: text, Cites: cites}
	}
	for _, row := range []struct {
		why  string
		edit func(m *made, r *report.Report)
		rule report.Rule // "": none
	}{
		{"a claim without a call", func(m *made, r *report.Report) { r.Evidence[0].Cites = nil }, report.RuleCite},
		{"a call that was not made", func(m *made, r *report.Report) { r.Evidence[0].Cites[0].Call = "c99" }, report.RuleCite},
		{"another version", func(m *made, r *report.Report) { r.Evidence[0].Cites[0].Version = "deployments 2.0.0" }, report.RuleCite},
		{"no version", func(m *made, r *report.Report) { r.Evidence[0].Cites[0].Version = "" }, report.RuleCite},
		{"a part that is called the whole", func(m *made, r *report.Report) { r.Evidence[2].Cites[0].Complete = true }, report.RuleCite},
		{"a window that was not read", func(m *made, r *report.Report) { r.Evidence[1].Cites[0].Window = span(2, 0, 3, 0) }, report.RuleReach},
		{"no window where one was read", func(m *made, r *report.Report) { r.Evidence[1].Cites[0].Window = toolresult.Interval{} }, report.RuleReach},
		{"a window where none was read", func(m *made, r *report.Report) {
			c := m.pods
			c.Window = span(2, 35, 2, 50)
			r.Evidence = append(r.Evidence, claim("Pods ran.", c))
		}, report.RuleReach},
		{"a part of the window is enough", func(m *made, r *report.Report) { r.Evidence[1].Cites[0].Window = span(2, 36, 2, 40) }, ""},
		{"a call that failed", func(m *made, r *report.Report) {
			c := m.run.Add("loki_search", "logs 4.0.0", toolresult.Failure("f1", toolresult.NewError(toolresult.Timeout, "slow")))
			r.Unknown = append(r.Unknown, report.Gap{Call: "f1", What: "timeout", Why: "the log was not read again"})
			r.Evidence = append(r.Evidence, claim("The log is quiet.", c))
		}, report.RuleFailed},
		{"a call that failed and is not told", func(m *made, r *report.Report) {
			m.run.Add("loki_search", "logs 4.0.0", toolresult.Failure("f1", toolresult.NewError(toolresult.Timeout, "slow")))
		}, report.RuleGap},
		{"a gap that is told without what it means", func(m *made, r *report.Report) { r.Unknown[0].Why = "" }, report.RuleGap},
		{"a claim without a kind", func(m *made, r *report.Report) { r.Evidence[0].Kind = "" }, report.RuleCite},
		{"a hypothesis that nothing could refute", func(m *made, r *report.Report) { r.Conclusion[0].Test = "" }, report.RuleTest},
		{"a cause as an observation", func(m *made, r *report.Report) { r.Evidence[1].Text = "P95 rose because of the rollout." }, report.RuleCause},
		{"a cause in other words", func(m *made, r *report.Report) { r.Evidence[1].Text = "The rise is due to the rollout." }, report.RuleCause},
		{"a cause that one call alone shows", func(m *made, r *report.Report) {
			c := m.metric
			c.Basis = report.Mechanism
			r.Evidence[1] = claim("The rollout caused it.", c)
		}, report.RuleCause},
		{"a cause that an incomplete answer shows", func(m *made, r *report.Report) {
			c := m.logs
			c.Basis = report.Mechanism
			r.Evidence[1] = claim("The rollout caused it.", c, m.metric)
		}, report.RuleCause},
		{"a cause that is shown", func(m *made, r *report.Report) {
			c := m.deploy
			c.Basis = report.Reversal
			r.Evidence[1] = claim("The rollout caused it.", c, m.metric)
		}, ""},
		{"that the cause is not established", func(m *made, r *report.Report) {
			r.Evidence[1].Text = "P95 rose at 02:37Z; the cause is not established."
		}, ""},
		{"ruling out by part of a log", func(m *made, r *report.Report) { r.Evidence[2].Text = "There were no database errors." }, report.RuleExclusion},
		{"ruling out by all of a series", func(m *made, r *report.Report) { r.Evidence[1].Text = "There was no second rise." }, ""},
		{"that somebody was told", func(m *made, r *report.Report) { r.Evidence[0].Text = "The owner was notified." }, report.RuleEffect},
		{"a ticket that nobody looked up", func(m *made, r *report.Report) { r.Effects[0].Confirmed = "c7" }, report.RuleEffect},
		{"a ticket that no call knows", func(m *made, r *report.Report) { r.Effects[0].Confirmed = "" }, report.RuleEffect},
		{"another ticket", func(m *made, r *report.Report) { r.Effects[0].Object = "INC-4822" }, report.RuleEffect},
		{"another operation", func(m *made, r *report.Report) { r.Effects[0].Operation = "op_2" }, report.RuleEffect},
		{"a prohibited action", func(m *made, r *report.Report) {
			r.NeedPerson = append(r.NeedPerson, report.Action{Capability: "restart_service", Why: "quick"})
		}, report.RuleProhibit},
		{"no evidence", func(m *made, r *report.Report) { r.Evidence = nil }, report.RulePart},
		{"no confidence", func(m *made, r *report.Report) { r.Confidence = "sure" }, report.RulePart},
		{"no next steps", func(m *made, r *report.Report) { r.NextSteps = nil }, report.RulePart},
	} {
		m := newRun(t)
		r := m.good()
		row.edit(m, r)
		problems := report.Check(r, m.run, "restart_service", "rollback_deployment")
		if row.rule == "" {
			require.Empty(t, problems, row.why)
			continue
		}
		require.Equal(t, []report.Rule{row.rule}, rules(problems), "%s: %v", row.why, problems)
	}
}
