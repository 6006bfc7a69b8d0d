package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/skill"
)

// moves lists what may follow what.
var moves = map[Status][]Status{
	Draft:      {Validated, Retired},
	Validated:  {Published, Retired},
	Published:  {Deprecated},
	Deprecated: {Published, Retired},
}

// MoveRequest moves one version.
type MoveRequest struct {
	Name, Version string
	To            Status
	Reason        string // needed to deprecate, to retire and to publish again

	// Force retires a version that runs still have. They lose it: loading it
	// fails from then on.
	Force bool
}

// Move changes the status of a version, if everything that the new status needs
// is there. If not, it is [*Blocked] with all that is missing and nothing
// changes. Moving to where a version is already changes nothing.
//
//   - validated: evidence for this package that passed, in today's context
//   - published: that, enough reviews and no standing objection, the Portable
//     rules, a scope, a changelog, a previous stable version if there ever was
//     one, a signature if keys are set, and every [Gate]
//   - deprecated: a reason
//   - retired: a reason, and no run that still has it, or Force
func (r *Registry) Move(ctx context.Context, who authz.Principal, m MoveRequest) (Record, error) {
	rec, err := r.get(ctx, who, actRelease, m.Name, m.Version)
	if err != nil || rec.Status == m.To {
		return rec, err
	}
	b := &Blocked{Name: m.Name, Version: m.Version, To: m.To}
	if err := r.gate(ctx, rec, m, b); err != nil {
		return Record{}, err
	}
	if b.Reasons != nil {
		return Record{}, b
	}
	from := rec.Status
	rec.Status = m.To
	rec, err = r.put(ctx, who, rec, "move", from, m.Reason)
	if err != nil || m.To != Retired || m.Force {
		return rec, err
	}
	// A run may have pinned it between the look and the move. It cannot load it
	// any more, and somebody has to know.
	runs, err := r.running(ctx, rec)
	if err == nil && len(runs) > 0 {
		err = &Blocked{rec.Name, rec.Version, Retired, []string{"it is retired now, and these runs had just begun with it: " + strings.Join(runs, ", ")}}
	}
	return rec, err
}

// gate collects what stands in the way of a move. Its error is that it could not
// find out.
func (r *Registry) gate(ctx context.Context, rec Record, m MoveRequest, b *Blocked) error {
	add := func(bad bool, reason string) {
		if bad {
			b.Reasons = append(b.Reasons, reason)
		}
	}
	add(!slices.Contains(moves[rec.Status], m.To), fmt.Sprintf("it is %s, and after that comes %s", rec.Status, follows(rec.Status)))
	add(len(m.Reason) > maxText, "the reason is longer than 4096 bytes")
	add(m.Reason == "" && (m.To == Deprecated || m.To == Retired || rec.Status == Deprecated), "there is no reason")
	if m.To == Retired && !m.Force {
		runs, err := r.running(ctx, rec)
		if err != nil {
			return err
		}
		add(len(runs) > 0, "these runs still have it: "+strings.Join(runs, ", "))
	}
	if m.To != Validated && m.To != Published {
		return nil
	}
	b.Reasons = append(b.Reasons, r.evidence(rec)...)
	p, err := r.pkg(ctx, rec.Artifact)
	if err != nil {
		return err
	}
	if m.To == Published {
		if err := r.release(ctx, rec, p, b); err != nil {
			return err
		}
	}
	for _, g := range r.opts.Gates {
		if err := g(ctx, rec.clone(), p, m.To); err != nil {
			b.Reasons = append(b.Reasons, err.Error())
		}
	}
	return nil
}

func follows(s Status) string {
	var words []string
	for _, next := range moves[s] {
		words = append(words, string(next))
	}
	if words == nil {
		return "nothing"
	}
	return strings.Join(words, " or ")
}

// evidence says why the evidence of a version does not count.
func (r *Registry) evidence(rec Record) []string {
	e := rec.Validation
	switch {
	case e == nil:
		return []string{"there is no evidence that it was validated"}
	case e.Artifact != rec.Artifact:
		return []string{"the evidence is for another package"}
	case !e.Passed:
		return []string{"the suite " + e.Suite + " did not pass"}
	case r.opts.Context != "" && e.Context != r.opts.Context:
		return []string{"the evidence is stale: it was made with other tools, or another model, than there are now"}
	}
	return nil
}

// release collects what a published version lacks.
func (r *Registry) release(ctx context.Context, rec Record, p *skill.Package, b *Blocked) error {
	add := func(bad bool, reason string) {
		if bad {
			b.Reasons = append(b.Reasons, reason)
		}
	}
	if err := p.Check(skill.Portable(), rec.Name).Err(); err != nil {
		b.Reasons = append(b.Reasons, err.Error())
	}
	approvals := 0
	for _, v := range rec.Reviews {
		if v.Artifact == rec.Artifact && v.Approved && v.Reviewer != rec.Registrant {
			approvals++
		}
		add(!v.Approved, "a reviewer objects: "+v.Reviewer.Subject)
	}
	add(approvals < r.opts.Reviews, fmt.Sprintf("%d of %d reviews approve it", approvals, r.opts.Reviews))
	add(len(rec.Scope) == 0, "it has no scope")
	add(rec.Changelog == "", "it has no changelog")
	if r.opts.Keys != nil {
		add(rec.Signature == nil || r.opts.Keys.Verify(rec.statement(), *rec.Signature) != nil, "it has no signature that holds")
	}
	return r.previous(ctx, rec, b)
}

// previous checks that there is something to go back to.
func (r *Registry) previous(ctx context.Context, rec Record, b *Blocked) error {
	all, err := r.store.List(ctx, rec.Name)
	if err != nil {
		return err
	}
	for _, o := range all {
		usable := o.Status == Published || o.Status == Deprecated
		if usable && o.Owner != rec.Owner { // two that registered a first version at once
			b.Reasons = append(b.Reasons, "the skill belongs to another owner, "+o.Owner)
			return nil
		}
		if o.Version == rec.PreviousStable && usable {
			return nil
		}
		if rec.PreviousStable == "" && usable && compareVersions(o.Version, rec.Version) < 0 {
			b.Reasons = append(b.Reasons, "it does not say what the previous stable version is, such as "+o.Version)
			return nil
		}
	}
	if rec.PreviousStable != "" {
		b.Reasons = append(b.Reasons, "the previous stable version "+rec.PreviousStable+" was never published, or is retired")
	}
	return nil
}

// running lists the runs that have a version.
func (r *Registry) running(ctx context.Context, rec Record) (runs []string, err error) {
	pins, err := r.store.Running(ctx, rec.Name)
	for _, p := range pins {
		if p.Version == rec.Version {
			runs = append(runs, p.Run)
		}
	}
	return runs, err
}

// Rolled reports what a rollback did and what it cannot undo.
type Rolled struct {
	From, To Record

	// Running are the runs that still have From. What they do, and what they
	// did outside, is not rolled back.
	Running []string
}

// Rollback makes new runs get the previous stable version of a published one
// again: it publishes that one if it was deprecated, under the conditions of
// today, and deprecates the other. Nothing changes if it is [*Blocked]; when a
// rollback was cut short, doing it again completes it.
func (r *Registry) Rollback(ctx context.Context, who authz.Principal, name, version, reason string) (Rolled, error) {
	bad, err := r.get(ctx, who, actRelease, name, version)
	if err != nil {
		return Rolled{}, err
	}
	b := &Blocked{Name: name, Version: version, To: Deprecated}
	if bad.Status != Published || bad.PreviousStable == "" || reason == "" {
		b.Reasons = append(b.Reasons, "a rollback needs a published version, one before it, and a reason")
		return Rolled{}, b
	}
	all, err := r.store.List(ctx, name)
	if err != nil {
		return Rolled{}, err
	}
	for _, o := range all {
		if o.Status == Published && o.Version != version && compareVersions(o.Version, bad.PreviousStable) > 0 {
			b.Reasons = append(b.Reasons, "version "+o.Version+" is published too and would be what runs get; deprecate it first")
		}
	}
	if b.Reasons != nil {
		return Rolled{}, b
	}
	to, err := r.Move(ctx, who, MoveRequest{Name: name, Version: bad.PreviousStable, To: Published, Reason: reason})
	if err != nil {
		return Rolled{}, err
	}
	bad, err = r.Move(ctx, who, MoveRequest{Name: name, Version: version, To: Deprecated, Reason: reason})
	if err != nil {
		return Rolled{}, err
	}
	runs, err := r.running(ctx, bad)
	return Rolled{bad, to, runs}, err
}
