package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Enforcement says how one claim holds.
type Enforcement struct {
	Claim    Claim    `json:"claim"`
	Strength Strength `json:"strength"`
	By       []string `json:"by,omitempty"`  // "mount namespace", "landlock 7", "seccomp", ...
	Gap      string   `json:"gap,omitempty"` // what is missing, in a sentence; set whenever the strength is not enforced
}

// Report says what an executor enforces on this machine for one set of rules.
// The zero Report enforces nothing.
type Report struct {
	Level   Level             `json:"level"`
	Backend string            `json:"backend"` // "thread", "re-exec", "bwrap", ...
	Rules   string            `json:"rules"`   // their digest
	Host    map[string]string `json:"host,omitempty"`
	Claims  []Enforcement     `json:"claims"` // every claim, in the order of Claims
	Limits  []Limit           `json:"limits,omitempty"`
}

// Limit is a known way around that this level does not stop, whatever it
// claims.
type Limit struct {
	Number int    `json:"number"` // in the corpus of known bypasses
	Text   string `json:"text"`
}

// NewReport returns a report in which nothing is enforced, for executors to
// fill in with Set.
func NewReport(level Level, backend string, r *Rules) *Report {
	out := &Report{Level: level, Backend: backend, Rules: r.Digest(), Host: map[string]string{}}
	for _, c := range Claims() {
		out.Claims = append(out.Claims, Enforcement{Claim: c, Gap: "not enforced by this executor"})
	}
	return out
}

// Set replaces what the report says about a claim. Gap is required unless the
// strength is enforced.
func (r *Report) Set(c Claim, s Strength, gap string, by ...string) {
	for i := range r.Claims {
		if r.Claims[i].Claim == c {
			r.Claims[i] = Enforcement{Claim: c, Strength: s, By: by, Gap: gap}
		}
	}
}

// Of returns what the report says about a claim: None if nothing.
func (r *Report) Of(c Claim) Enforcement {
	if r != nil {
		for _, e := range r.Claims {
			if e.Claim == c {
				return e
			}
		}
	}
	return Enforcement{Claim: c, Gap: "the report does not speak of it"}
}

// Check returns nil if everything that the rules and the command require holds
// as strongly as required. Otherwise the error is an *UnenforcedError.
// Executors call it before anything starts; c may be nil.
func (r *Report) Check(rules *Rules, c *Command) error {
	if err := rules.check(); err != nil {
		return err
	}
	if r == nil || r.Rules != rules.digest {
		return fmt.Errorf("sandbox: %w", toolresult.NewError(toolresult.Internal, "the report is about other rules"))
	}
	u := &UnenforcedError{Backend: r.Backend, Level: r.Level}
	for _, n := range needs {
		want := rules.required(n)
		if n.claim == ProcImage && c != nil && len(c.Pins) > 0 {
			want = Enforced
		}
		if have := r.Of(n.claim); !n.holds(have.Strength, want) {
			u.Missing = append(u.Missing, Missing{have, want})
		}
	}
	if u.Missing != nil {
		return u
	}
	return nil
}

// Delegate returns what a report of another machine's executor is worth here:
// what it says to hold as strongly as the claim usually has to is delegated,
// with its words, and the rest is none. A report that is about other rules or
// on no level, or that speaks of a claim twice, of none, or with a strength
// that there is none of, is refused: who sends it does not do what these rules
// say. The error is UNSUPPORTED.
func (r *Report) Delegate(rules *Rules) (*Report, error) {
	if err := rules.check(); err != nil {
		return nil, err
	}
	refuse := func(why string) (*Report, error) {
		return nil, fmt.Errorf("sandbox: remote report: %s: %w", why, toolresult.NewError(toolresult.Unsupported, "the remote report cannot be trusted").With("/report", why))
	}
	switch {
	case r == nil:
		return refuse("there is none")
	case r.Rules != rules.digest:
		return refuse("it is about other rules")
	case r.Level == NoLevel || r.Level > LevelRemote:
		return refuse("it names no level")
	}
	out := NewReport(LevelRemote, printable(r.Backend), rules)
	for i, e := range r.Claims {
		if !known(e.Claim) || slices.ContainsFunc(r.Claims[:i], func(b Enforcement) bool { return b.Claim == e.Claim }) {
			return refuse("it speaks of a claim twice, or of one that is not known")
		}
		if e.Strength > Delegated {
			return refuse("it has a strength that is not known")
		}
		out.delegate(e)
	}
	for k, v := range r.Host {
		if len(out.Host) < 16 {
			out.Host[printable(k)] = printable(v)
		}
	}
	for _, l := range r.Limits[:min(len(r.Limits), 256)] {
		out.Limits = append(out.Limits, Limit{l.Number, printable(l.Text)})
	}
	return out, nil
}

func (r *Report) delegate(e Enforcement) {
	says := fmt.Sprintf("the remote executor says %s: %s", e.Strength, printable(strings.Join(e.By, ", ")))
	if e.Gap != "" {
		says += " (" + printable(e.Gap) + ")"
	}
	i := slices.IndexFunc(needs, func(n need) bool { return n.claim == e.Claim })
	if least := max(needs[i].least, Auxiliary); e.Strength == Delegated || e.Strength.satisfies(least) {
		r.Set(e.Claim, Delegated, says)
		return
	}
	r.Set(e.Claim, None, says)
}

// Missing is a claim that does not hold as strongly as required.
type Missing struct {
	Enforcement
	Required Strength
}

// UnenforcedError says why nothing was started. It is UNSUPPORTED.
type UnenforcedError struct {
	Level   Level
	Backend string
	Missing []Missing // not empty
}

// Error names each claim, what it has, what it needs, why, and what to do.
func (e *UnenforcedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sandbox: nothing was started: the %s executor %q cannot hold", e.Level, e.Backend)
	for i, m := range e.Missing {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, " %s (%s, required %s: %s)", m.Claim, m.Strength, m.Required, m.Gap)
	}
	b.WriteString("; use a stronger executor, or accept the gap in the policy's require")
	return b.String()
}

// Unwrap returns an UNSUPPORTED.
func (e *UnenforcedError) Unwrap() error {
	return toolresult.NewError(toolresult.Unsupported, "the sandbox cannot enforce what the policy requires")
}

// Has reports whether the claim is among the missing ones.
func (e *UnenforcedError) Has(c Claim) bool {
	return slices.ContainsFunc(e.Missing, func(m Missing) bool { return m.Claim == c })
}

// Denial is something that a program tried and did not get.
type Denial struct {
	Claim  Claim     `json:"claim"`
	Op     string    `json:"op"`             // "connect", "ptrace", "write", ...
	Target string    `json:"target"`         // host, path or number, bounded and printable; from the program, so never an input to a decision
	Rule   string    `json:"rule,omitempty"` // what denied it
	Exact  bool      `json:"exact"`          // decided where it was recorded; else seen from outside
	Count  int       `json:"count"`
	First  time.Time `json:"first"`
}

// maxDenials bounds how many different denials one run records.
const maxDenials = 256

// Denials collects what was denied in one run. The zero value is ready; it is
// not safe for concurrent use.
type Denials struct {
	list    []Denial
	dropped int
}

// Add counts d; equal ones are counted once with their number, and after 256
// different ones only the number grows, so that a program cannot fill the log.
func (d *Denials) Add(x Denial) {
	x.Op, x.Target = printable(x.Op), printable(x.Target)
	for i := range d.list {
		if l := &d.list[i]; l.Claim == x.Claim && l.Op == x.Op && l.Target == x.Target {
			l.Count++
			return
		}
	}
	if len(d.list) == maxDenials {
		d.dropped++
		return
	}
	x.Count = max(x.Count, 1)
	d.list = append(d.list, x)
}

// List returns what was collected and how many more there were.
func (d *Denials) List() ([]Denial, int) { return slices.Clone(d.list), d.dropped }

// printable bounds what a confined program chose.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), 256)]
}
