// Package report holds an incident report to its evidence.
//
// An agent's report reads well whether or not it is true. What can be checked
// without understanding it is checked here: every claim cites a call that was
// made, the version it saw and the window it read; a claim reaches no further
// than its calls; words of cause need more than one thing having happened after
// another; what was not found out is said; an effect is reported only after the
// system's own record confirmed it.
//
//	run := report.NewRun("run_0429_017")
//	run.Add("prometheus_query_range", "metrics 4.0.0", result)
//	problems := report.Check(draft, run)
//
// # What it does not do
//
// It does not judge whether a hypothesis is right, and reads no language but
// English. Words of cause are a list (words.go): a report that avoids them and
// still means them passes. A person's approval of an action is no evidence for
// the diagnosis, so approvals have no place in a Cite.
package report

import (
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Kind says what a claim is. The zero Kind is refused.
type Kind string

const (
	Observation Kind = "observation" // a system said so
	Hypothesis  Kind = "hypothesis"  // may be so, and how to find out
	Conclusion  Kind = "conclusion"  // is so
)

// Basis is why a cited call supports a claim of cause. The zero Basis is that it
// happened in that order, which is no cause.
type Basis string

const (
	TimeOrder Basis = ""          // one came after the other
	Mechanism Basis = "mechanism" // the call shows how one brings about the other
	Reversal  Basis = "reversal"  // the effect went when the cause was taken away
	Repeated  Basis = "repeated"  // it was brought about again
)

// Report is a diagnosis in five parts, and what was done.
type Report struct {
	Incident   string
	Window     toolresult.Interval // that was asked about
	Conclusion []Claim             // may be that nothing is concluded: then say so in Unknown
	Evidence   []Claim
	Confidence string // "low", "medium" or "high"
	NextSteps  []string
	NeedPerson []Action // actions that a person has to approve
	Unknown    []Gap    // what was not found out
	Effects    []Effect // what was changed
}

// Claim is one sentence and what it stands on.
type Claim struct {
	Kind  Kind
	Text  string
	Test  string // for a Hypothesis: what would show that it is wrong
	Cites []Cite
}

// Cite is a call, as the report says that it was. Everything is compared with
// what the call's result says.
type Cite struct {
	Call     string
	Version  string // of the connector and of the object, as in Call.Version
	Window   toolresult.Interval
	Complete bool // the call read everything that it was asked for
	Basis    Basis
}

// Action is something that is proposed and not done.
type Action struct {
	Capability string
	Why        string
}

// Gap is something that was not found out.
type Gap struct {
	Call string // whose answer has the gap; empty: no call could tell
	What string // a gap's name, such as "remaining_pages", or of a fact, such as "deployment_mapping"
	Why  string // what it means for the conclusion
}

// Effect is a change that the report claims.
type Effect struct {
	Operation string
	Object    string // "INC-4821"
	Confirmed string // the call that read it in the system's own record
}

// Run is what really happened: the calls of one run.
type Run struct {
	ID       string
	Required []string          // names of facts that the method wants verified, such as "deployment_mapping"
	Verified map[string]string // fact -> the call that verified it
	calls    []Call
}

// Call is a call of the run.
type Call struct {
	ID, Tool, Version string
	Record            toolresult.Record
	Object            string // of a created object, as its own record names it
	At                time.Time
}

// NewRun returns a run without calls.
func NewRun(id string, required ...string) *Run {
	return &Run{ID: id, Required: required, Verified: map[string]string{}}
}

// Add notes a call. version is the connector's; what the result says of the
// object's version is added to it. It returns the call as a Cite.
func (r *Run) Add(tool, version string, result *toolresult.Result) Cite {
	rec := result.Record()
	c := Call{ID: rec.CallID, Tool: tool, Version: versionOf(version, rec.Provenance.Version), Record: rec, At: rec.Provenance.FetchedAt}
	r.calls = append(r.calls, c)
	return Cite{Call: c.ID, Version: c.Version, Window: rec.Provenance.Window, Complete: rec.Coverage.Complete}
}

// Confirm notes that a call read an object in its system's own record.
func (r *Run) Confirm(call, object string) {
	for i := range r.calls {
		if r.calls[i].ID == call {
			r.calls[i].Object = object
		}
	}
}

// Calls returns the calls in their order.
func (r *Run) Calls() []Call { return r.calls }

func (r *Run) call(id string) (Call, bool) {
	for _, c := range r.calls {
		if c.ID == id {
			return c, true
		}
	}
	return Call{}, false
}

func versionOf(connector, object string) string {
	if object == "" {
		return connector
	}
	return connector + " of " + object
}
