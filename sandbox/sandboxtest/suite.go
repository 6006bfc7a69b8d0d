//go:build linux

package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// Areas of cases.
const (
	Files       = "files"
	Network     = "network"
	Credentials = "credentials"
	Process     = "process"
	Commands    = "commands"
	Launch      = "launch"
)

// Case is one attempt.
type Case struct {
	ID     string        `json:"id"`               // stable: "files/hard-link"
	Number int           `json:"number,omitempty"` // in the corpus of known bypasses; 0: none
	Area   string        `json:"area"`
	Claim  sandbox.Claim `json:"claim"` // what must stop it; empty for what must work
	Says   string        `json:"says"`  // the contract, in a sentence

	// Needs says what a machine or user must have for the attempt to succeed
	// outside, or "" when it has it.
	needs func(*world) string

	// policy changes the policy of the suite for this case.
	policy func(*world, *sandbox.Policy)

	// args are the guest's: an operation and what it is done to. If program is
	// set, it runs instead of the guest.
	args    func(*world) []string
	program string

	// endless says that the attempt does not end by itself.
	endless bool

	// through says whether the attempt succeeded. Nil: the guest says so.
	through func(*world, *attempt) bool
}

// works reports whether the case is about what must be possible.
func (c *Case) works() bool { return c.Claim == "" }

// Verdict is what became of a case. The zero Verdict fails the test.
type Verdict string

// The verdicts; see the package.
const (
	Held      Verdict = "held"
	Gap       Verdict = "gap"
	Absent    Verdict = "absent"
	Breached  Verdict = "BREACHED"
	Blocked   Verdict = "BLOCKED"
	Vacuous   Verdict = "VACUOUS"
	Missing   Verdict = "MISSING"
	Pretended Verdict = "PRETENDED"
	Failed    Verdict = "FAILED" // the executor returned an error
)

func (v Verdict) ok() bool { return v == Held || v == Gap || v == Absent }

// Outcome is a case with its verdict.
type Outcome struct {
	Case
	Verdict  Verdict          `json:"verdict"`
	Strength sandbox.Strength `json:"strength"`
	Detail   string           `json:"detail"` // what was seen
}

// Options of a run.
type Options struct {
	// Must are claims that the executor has to make.
	Must []sandbox.Claim

	// Only are the ids of the cases to run. Empty: all.
	Only []string

	// Owner owns the files, when the suite runs as root, so that programs run
	// as this user. 0: root.
	Owner int
}

// Run runs the suite and fails the test for every case that did not hold. opts
// may be nil.
func Run(t *testing.T, x sandbox.Executor, opts *Options) *Report {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandboxtest-") // not t.TempDir, where only this user may look
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r, err := Check(t.Context(), x, dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Outcomes {
		t.Run(o.ID, func(t *testing.T) {
			t.Logf("case %d: %s: %s", o.Number, o.Verdict, o.Detail)
			if !o.Verdict.ok() {
				t.Errorf("%s (%s): %s: %s", o.Verdict, o.Claim, o.Says, o.Detail)
			}
		})
	}
	return r
}

// Check runs the suite and returns its report. Dir is an empty directory that
// the suite may fill; opts may be nil. The error says why nothing could be
// found out; a sandbox that does not hold is no error.
func Check(ctx context.Context, x sandbox.Executor, dir string, opts *Options) (*Report, error) {
	if opts == nil {
		opts = &Options{}
	}
	w, err := newWorld(dir, opts.Owner)
	if err != nil {
		return nil, fmt.Errorf("sandboxtest: %w", err)
	}
	defer w.close()
	r := &Report{}
	for _, id := range opts.Only {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.ID == id }) {
			return nil, fmt.Errorf("sandboxtest: there is no case %q", id)
		}
	}
	for _, c := range cases {
		if len(opts.Only) > 0 && !slices.Contains(opts.Only, c.ID) {
			continue
		}
		if err := w.reset(); err != nil {
			return nil, fmt.Errorf("sandboxtest: %s: %w", c.ID, err)
		}
		o := Outcome{Case: c}
		o.try(ctx, w, x, opts, r)
		r.Outcomes = append(r.Outcomes, o)
	}
	return r, ctx.Err()
}

// try runs one case and fills in the outcome.
func (o *Outcome) try(ctx context.Context, w *world, x sandbox.Executor, opts *Options, r *Report) {
	set := func(v Verdict, format string, args ...any) {
		o.Verdict, o.Detail = v, fmt.Sprintf(format, args...)
	}
	if o.needs != nil {
		if why := o.needs(w); why != "" {
			set(Absent, "%s", why)
			return
		}
	}
	rules, err := w.rules(&o.Case, nil)
	if err != nil {
		set(Failed, "rules: %v", err)
		return
	}
	rep, err := x.Probe(ctx, rules)
	if err != nil {
		set(Failed, "probe: %v", err)
		return
	}
	r.Executor = rep
	have := rep.Of(o.Claim)
	o.Strength = have.Strength
	if !o.works() && (have.Strength == sandbox.None || have.Strength == sandbox.Auxiliary) {
		o.gap(ctx, w, x, opts, have, set)
		return
	}
	outside := w.outside(ctx, &o.Case)
	if !outside.hit {
		set(Vacuous, "outside of any sandbox: %s", outside.says())
		return
	}
	if err := w.reset(); err != nil {
		set(Failed, "%v", err)
		return
	}
	inside := w.inside(ctx, x, &o.Case, rep)
	switch {
	case inside.err != nil:
		set(Failed, "start: %v", inside.err)
	case o.works() && !inside.hit:
		set(Blocked, "inside: %s", inside.says())
	case !o.works() && inside.hit:
		set(Breached, "inside: %s", inside.says())
	default:
		set(Held, "outside: %s; inside: %s", outside.says(), inside.says())
	}
}

// gap makes sure that an executor which does not hold a claim says why, and
// refuses to start when it is required.
func (o *Outcome) gap(ctx context.Context, w *world, x sandbox.Executor, opts *Options, have sandbox.Enforcement, set func(Verdict, string, ...any)) {
	if slices.Contains(opts.Must, o.Claim) {
		set(Missing, "%s is %s: %s", o.Claim, have.Strength, have.Gap)
		return
	}
	if have.Gap == "" {
		set(Pretended, "%s is %s without a reason", o.Claim, have.Strength)
		return
	}
	rules, err := w.rules(&o.Case, map[sandbox.Claim]sandbox.Strength{o.Claim: sandbox.Enforced})
	if err != nil {
		set(Failed, "rules: %v", err)
		return
	}
	run, err := x.Start(ctx, rules, &sandbox.Command{Path: w.guest, Args: []string{mark, "write", w.path("ws/started")}})
	if err == nil {
		run.Kill()
		run.Wait()
		set(Pretended, "started although %s was required and is %s", o.Claim, have.Strength)
		return
	}
	var u *sandbox.UnenforcedError
	if !errors.As(err, &u) || !u.Has(o.Claim) {
		set(Pretended, "refused, but not because of %s: %v", o.Claim, err)
		return
	}
	if w.exists("ws/started") {
		set(Pretended, "something ran before it was refused")
		return
	}
	set(Gap, "not enforceable here, and refused when required: %s", have.Gap)
}

// Cases returns all cases.
func Cases() []Case { return slices.Clone(cases) }

// printable keeps a detail on one line.
func printable(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return s[:min(len(s), 300)]
}
