package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Rule names what a report breaks.
type Rule string

const (
	RulePart      Rule = "five_parts"          // conclusion, evidence, confidence, next steps, what needs a person
	RuleCite      Rule = "cites_its_calls"     // call, version, window and coverage, as they were
	RuleReach     Rule = "reaches_no_further"  // a claim's window lies in that of its call
	RuleFailed    Rule = "failed_is_nothing"   // a call that failed supports nothing
	RuleCause     Rule = "cause_needs_more"    // than one thing after another
	RuleExclusion Rule = "exclusion_needs_all" // ruling out needs a complete answer
	RuleGap       Rule = "gaps_are_told"
	RuleEffect    Rule = "effects_are_confirmed"
	RuleTest      Rule = "hypothesis_has_test"
	RuleProhibit  Rule = "nothing_prohibited"
)

// Problem is one thing that a report must not say, or does not say.
type Problem struct {
	Rule  Rule
	Where string // "evidence 2", "effect 1"
	What  string // a sentence
}

// String returns one line.
func (p Problem) String() string { return fmt.Sprintf("%s: %s: %s", p.Rule, p.Where, p.What) }

// checker collects problems.
type checker struct {
	report *Report
	run    *Run
	found  []Problem
}

func (c *checker) add(r Rule, where, format string, args ...any) {
	c.found = append(c.found, Problem{r, where, fmt.Sprintf(format, args...)})
}

// Check returns everything that is wrong with a report about a run, in the
// report's order. None means that it may be handed over; it does not mean that
// it is right. prohibited are capabilities that may not even be proposed.
func Check(r *Report, run *Run, prohibited ...string) []Problem {
	c := &checker{report: r, run: run}
	c.parts()
	for i, claim := range r.Evidence {
		c.claim(fmt.Sprintf("evidence %d", i+1), claim)
	}
	for i, claim := range r.Conclusion {
		c.claim(fmt.Sprintf("conclusion %d", i+1), claim)
	}
	for i, e := range r.Effects {
		c.effect(fmt.Sprintf("effect %d", i+1), e)
	}
	for _, a := range r.NeedPerson {
		if slices.Contains(prohibited, a.Capability) {
			c.add(RuleProhibit, "actions", "%s is prohibited in this profile: it cannot be proposed as an action of the run", a.Capability)
		}
	}
	c.gaps()
	return c.found
}

func (c *checker) parts() {
	r := c.report
	for _, p := range []struct {
		name string
		ok   bool
	}{
		{"the incident", r.Incident != ""},
		{"the window", !r.Window.IsZero()},
		{"a conclusion, or in the unknown why there is none", len(r.Conclusion) > 0 || len(r.Unknown) > 0},
		{"evidence", len(r.Evidence) > 0},
		{"a confidence of low, medium or high", slices.Contains([]string{"low", "medium", "high"}, r.Confidence)},
		{"next steps", len(r.NextSteps) > 0},
	} {
		if !p.ok {
			c.add(RulePart, "report", "it lacks %s", p.name)
		}
	}
}

func (c *checker) claim(where string, claim Claim) {
	switch claim.Kind {
	case Observation, Conclusion:
	case Hypothesis:
		if claim.Test == "" {
			c.add(RuleTest, where, "a hypothesis says what would show that it is wrong")
		}
	default:
		c.add(RuleCite, where, "it does not say whether it is an observation, a hypothesis or a conclusion")
	}
	if len(claim.Cites) == 0 {
		c.add(RuleCite, where, "%q cites no call", claim.Text)
	}
	for _, cite := range claim.Cites {
		c.cite(where, cite)
	}
	c.words(where, claim)
}

// cite compares what the report says of a call with what it was.
func (c *checker) cite(where string, cite Cite) {
	call, ok := c.run.call(cite.Call)
	if !ok {
		c.add(RuleCite, where, "the call %q was not made in the run %s", cite.Call, c.run.ID)
		return
	}
	rec := call.Record
	if rec.Status == toolresult.StatusError || rec.Meaning == toolresult.MeaningUnknownEffect {
		c.add(RuleFailed, where, "%s (%s) did not answer: %s supports nothing", cite.Call, call.Tool, rec.Meaning)
		return
	}
	if cite.Version != call.Version || cite.Version == "" {
		c.add(RuleCite, where, "%s saw the version %q, the report says %q", cite.Call, call.Version, cite.Version)
	}
	if cite.Complete != rec.Coverage.Complete {
		c.add(RuleCite, where, "%s was complete: %t, the report says %t", cite.Call, rec.Coverage.Complete, cite.Complete)
	}
	if !within(cite.Window, rec.Provenance.Window) {
		c.add(RuleReach, where, "%s read %s, the report says %s", cite.Call, windowText(rec.Provenance.Window), windowText(cite.Window))
	}
}

// within reports whether a claimed window lies in the one that was read. A call
// that read no window supports a claim without one.
func within(claimed, read toolresult.Interval) bool {
	if read.IsZero() || claimed.IsZero() {
		return read.IsZero() == claimed.IsZero()
	}
	return !claimed.Start.Before(read.Start) && !claimed.End.After(read.End)
}

func windowText(i toolresult.Interval) string {
	if i.IsZero() {
		return "no window"
	}
	return i.String()
}

// words looks for claims that the calls cannot carry.
func (c *checker) words(where string, claim Claim) {
	text := denial().ReplaceAllString(claim.Text, "")
	if w := causal().FindString(text); w != "" && claim.Kind != Hypothesis && !c.mechanism(claim) {
		c.add(RuleCause, where, "%q claims a cause, and its calls show only what came after what: make it a hypothesis, or cite what shows how", w)
	}
	if w := exclusive().FindString(text); w != "" && !c.complete(claim) {
		c.add(RuleExclusion, where, "%q rules something out, and not every cited call read everything", w)
	}
	if w := done().FindString(text); w != "" {
		c.add(RuleEffect, where, "%q: delivery to people is nothing that this run did", w)
	}
}

// mechanism reports whether a claim of cause stands on more than the order of
// time: a complete answer that shows how, and another call besides it.
func (c *checker) mechanism(claim Claim) bool {
	shown, calls := false, map[string]bool{}
	for _, cite := range claim.Cites {
		calls[cite.Call] = true
		if cite.Basis != TimeOrder && cite.Complete {
			shown = true
		}
	}
	return shown && len(calls) > 1
}

func (c *checker) complete(claim Claim) bool {
	for _, cite := range claim.Cites {
		if call, ok := c.run.call(cite.Call); !ok || !call.Record.Coverage.Complete {
			return false
		}
	}
	return len(claim.Cites) > 0
}

// effect wants the system's own record, read by a call of the run.
func (c *checker) effect(where string, e Effect) {
	call, ok := c.run.call(e.Confirmed)
	switch {
	case !ok:
		c.add(RuleEffect, where, "%s is not confirmed by a call of the run", e.Object)
	case call.Record.Effect.Disposition != toolresult.EffectApplied || call.Record.Effect.OperationID != e.Operation:
		c.add(RuleEffect, where, "%s: the call %s says %s of the operation %q, not applied of %q", e.Object, e.Confirmed, call.Record.Effect.Disposition, call.Record.Effect.OperationID, e.Operation)
	case call.Object != e.Object || e.Object == "":
		c.add(RuleEffect, where, "%q was reported, the record says %q", e.Object, call.Object)
	}
}

// gaps wants everything of Run.Gaps told, with what it means.
func (c *checker) gaps() {
	told := func(call, what string) bool {
		return slices.ContainsFunc(c.report.Unknown, func(g Gap) bool { return g.Call == call && g.What == what && g.Why != "" })
	}
	for _, g := range c.run.Gaps() {
		if told(g.Call, g.What) {
			continue
		}
		if g.Call == "" {
			c.add(RuleGap, "unknown", "%s was not verified, and the report does not say so", g.What)
			continue
		}
		call, _ := c.run.call(g.Call)
		c.add(RuleGap, "unknown", "%s (%s) lacks %s, and the report does not say so", g.Call, call.Tool, g.What)
	}
}

// Gaps returns what the run did not find out: what is missing in an answer,
// calls that failed (by their code), effects that are still unknown, and required
// facts that nobody verified. What each means for the conclusion is left to whoever
// writes the report.
func (r *Run) Gaps() (out []Gap) {
	for _, call := range r.calls {
		if call.Record.Status == toolresult.StatusError {
			if !superseded(r, call) {
				out = append(out, Gap{Call: call.ID, What: strings.ToLower(string(call.Record.Code))})
			}
			continue
		}
		for _, g := range call.Record.Coverage.Missing {
			out = append(out, Gap{Call: call.ID, What: string(g)})
		}
	}
	for _, fact := range r.Required {
		if r.Verified[fact] == "" {
			out = append(out, Gap{What: fact})
		}
	}
	return out
}

// superseded reports whether a later call of the run found out what became of
// the operation that this one left open.
func superseded(run *Run, open Call) bool {
	id := open.Record.Effect.OperationID
	return id != "" && slices.ContainsFunc(run.calls, func(c Call) bool {
		return c.Record.Effect.OperationID == id && c.Record.Status != toolresult.StatusError
	})
}
