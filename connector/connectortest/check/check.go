// Package check is what checks of package connectortest are made of: a
// [Session] in which a connector runs against a provider that the harness holds,
// and a [Check], one promise about what can be seen from outside of it.
//
// # Writing a check
//
// A check is one value, in the file of its area:
//
//	{
//		ID: "errors/not-found-is-not-empty", Level: check.Core, Since: "2026.12",
//		Promise: "Something that was named and is not there is an error, never an empty answer.",
//		Needs:   func(s *check.Subject) string { return s.Sampled("Missing", ...) },
//		Kills:   []string{"404-as-empty"},
//		Run: func(ctx context.Context, s *check.Session) {
//			for _, c := range s.Calls(check.Missing) {
//				s.WantCode(s.Do(ctx, c), toolresult.NotFound)
//			}
//		},
//	}
//
// It never sees a *testing.T: the same check runs against connectors that must
// pass and mutants that must fail. What it finds it says with [Session.Fail]; that
// it could not look, with [Session.Inconclusive], which is as red as a finding.
//
// # Controls
//
// A check that would pass against a connector that does nothing proves nothing.
// So before a check runs, the ordinary call of each sample must work on the same
// connector (unless the check is Static, or judges the ordinary call itself), a
// fault that was planned must have fired, and at least one expectation must have
// been stated. Otherwise the verdict is Inconclusive.
package check

import (
	"context"
	"time"
)

// A Check is one promise of the contract.
type Check struct {
	// ID is area/what-holds. It never changes.
	ID string

	// Promise is one sentence that a reader without Go understands.
	Promise string

	// Level says how much a failure weighs.
	Level Level

	// Since is the frozen set that the check belongs to from then on, such as
	// "2026.12". Empty: it is provisional: run and reported, and not scored.
	Since string

	// Modes are the ways that a provider is held in which the check can run.
	// 0: with a double only.
	Modes Mode

	// Needs says why the check does not apply to what is tested, from what the
	// manifest declares and what was probed; "" if it applies. Nil: it always does.
	Needs func(s *Subject) string

	// Static says that the check looks at the declaration only, so that it can
	// pass for a connector that answers nothing.
	Static bool

	// Own says that the check judges the ordinary call itself: it is run though
	// that does not work, and has to state its own controls.
	Own bool

	// Kills names the mutants that must fail it. At least one.
	Kills []string

	// Run does it. Its context ends with the check.
	Run func(ctx context.Context, s *Session)
}

// Level says how much a check weighs.
type Level uint8

const (
	Core     Level = iota // without it a connector is not conformant
	Extended              // good connectors keep it
)

// String returns "core" or "extended".
func (l Level) String() string {
	if l == Core {
		return "core"
	}
	return "extended"
}

// MarshalText implements [encoding.TextMarshaler].
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *Level) UnmarshalText(text []byte) error {
	*l = Extended
	if string(text) == "core" {
		*l = Core
	}
	return nil
}

// Mode is how the provider is held. Modes can be combined in Check.Modes.
type Mode uint8

const (
	InDouble  Mode = 1 << iota // in the process, in virtual time, with every fault
	InReplay                   // recorded answers: has the shape of requests or answers changed?
	InSandbox                  // the provider's own test organisation, faults in front of it
	InLive                     // a real account: reads only
)

var modeNames = map[Mode]string{InDouble: "double", InReplay: "replay", InSandbox: "sandbox", InLive: "live"}

// String returns the name of one mode.
func (m Mode) String() string { return modeNames[m] }

// MarshalText implements [encoding.TextMarshaler].
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *Mode) UnmarshalText(text []byte) error {
	*m = 0
	for mode, name := range modeNames {
		if name == string(text) {
			*m = mode
		}
	}
	return nil
}

// Verdict is what is known about one check. The zero Verdict is red.
type Verdict uint8

const (
	Unknown       Verdict = iota // nobody has set it
	Pass                         // exercised, and nothing was found
	Fail                         // exercised, and something was found
	Inconclusive                 // could not be exercised
	NotApplicable                // the manifest declares no such thing, and a probe agrees
	Waived                       // Fail, and the fixture says why that is accepted until when
	Broken                       // the suite itself failed
)

var verdictNames = [...]string{"unknown", "pass", "fail", "inconclusive", "not_applicable", "waived", "broken"}

// String returns the word of the constant, in lower_snake_case.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return verdictNames[0]
}

// Green reports whether v is Pass or NotApplicable: nothing else is.
func (v Verdict) Green() bool { return v == Pass || v == NotApplicable }

// MarshalText implements [encoding.TextMarshaler].
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. A word that it does not
// know is Unknown.
func (v *Verdict) UnmarshalText(text []byte) error {
	*v = Unknown
	for i, name := range verdictNames {
		if name == string(text) {
			*v = Verdict(i)
		}
	}
	return nil
}

// Finding is what was seen and what was promised, in a few words each. Neither
// holds a secret: canaries are cut out.
type Finding struct {
	Got  string `json:"got"`
	Want string `json:"want"`
}

// Result is what one check said.
type Result struct {
	Check    string        `json:"check"`
	Promise  string        `json:"promise"`
	Level    Level         `json:"level"`
	Scored   bool          `json:"scored"` // part of the requirements that were asked for
	Verdict  Verdict       `json:"verdict"`
	Mode     Mode          `json:"mode"`
	Reason   string        `json:"reason,omitempty"` // of every verdict but Pass and Fail
	Findings []Finding     `json:"findings,omitempty"`
	Seed     uint64        `json:"seed"`
	Requests int           `json:"requests"` // that reached the provider's side
	Faults   int           `json:"faults"`   // that fired
	Virtual  time.Duration `json:"virtual_ns"`

	// Transcript is the exchanges in txtar form, without secrets. It is kept for
	// verdicts that are not green.
	Transcript string `json:"-"`
}

// Report is what all checks said about one connector.
type Report struct {
	Connector    string   `json:"connector"`
	Version      string   `json:"version"`
	Manifest     string   `json:"manifest"` // "sha256:..." over all declarations
	Requirements string   `json:"requirements"`
	Mode         Mode     `json:"mode"`
	Results      []Result `json:"results"`

	// Double is the last comparison of the double with the real system; nil if
	// there was none.
	Double *Compared `json:"double,omitempty"`
}

// Green reports whether every scored result is.
func (r *Report) Green() bool {
	for _, x := range r.Results {
		if x.Scored && !x.Verdict.Green() {
			return false
		}
	}
	return len(r.Results) > 0
}

// Count returns how many results have a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, x := range r.Results {
		if x.Verdict == v {
			n++
		}
	}
	return n
}

// Conformant says "yes", "partial" (everything that is scored is green or
// waived) or "no".
func (r *Report) Conformant() string {
	word := "yes"
	for _, x := range r.Results {
		switch {
		case !x.Scored || x.Verdict.Green():
		case x.Verdict == Waived:
			word = "partial"
		default:
			return "no"
		}
	}
	if len(r.Results) == 0 {
		return "no"
	}
	return word
}
