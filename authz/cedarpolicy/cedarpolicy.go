package cedarpolicy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// Options are options of [New]. All of them may be left out.
type Options struct {
	// Groups returns the names of the groups that a principal is in now,
	// those that groups are in included; nil means none. It is asked once for
	// each decision or batch, and must be safe for concurrent use. An error
	// fails the decision.
	Groups func(ctx context.Context, p authz.Principal) ([]string, error)

	// Candidates lists the objects of one type that a search by the principal
	// with the account could touch, from facts that the integrator trusts. It
	// must be safe for concurrent use. No candidates means no scope. It
	// returns [ErrUnlisted] for a type that it does not list; any other error
	// fails the decision. Nil: no type is listed.
	Candidates func(ctx context.Context, p authz.Principal, account, typ string) ([]authz.Object, error)

	// ActionGroups name sets of capabilities, for "action in
	// Action::"group"".
	ActionGroups map[string][]string

	// Actions are the capabilities and Types the object types that there
	// are. Policies that name others are warned about; nil means that
	// nobody knows, and nothing is warned about.
	Actions, Types []string

	// Annotations are names of further annotations that policies may bear
	// as notes. Others than these and approval, prohibit, window, id,
	// description, advice and owner are refused.
	Annotations []string
}

// ErrUnlisted is what [Options.Candidates] returns for a type that it does not
// list. A search over such types only is decided for the connection as a whole.
var ErrUnlisted = errors.New("cedarpolicy: objects of this type are not listed")

// Policy is an [authz.Policy] and an [authz.PolicyWithBatch]. It is safe for
// concurrent use. The zero Policy answers nothing but an error.
type Policy struct {
	opts Options
	set  atomic.Pointer[ruleset]
}

// New returns a Policy of the given Cedar texts, by name. The names appear in
// errors, warnings and reasons; they need not be those of files. No texts deny
// everything.
//
// It fails for the first text that does not parse or has an annotation that is
// not known or in the wrong place, and names it with its line. It copies its
// arguments.
func New(policies map[string][]byte, opts *Options) (*Policy, error) {
	p := &Policy{}
	if opts != nil {
		p.opts = *opts
		p.opts.Actions, p.opts.Types, p.opts.Annotations = slices.Clone(opts.Actions), slices.Clone(opts.Types), slices.Clone(opts.Annotations)
		p.opts.ActionGroups = maps.Clone(opts.ActionGroups)
		for k, v := range p.opts.ActionGroups {
			p.opts.ActionGroups[k] = slices.Clone(v)
		}
	}
	return p, p.replace(policies)
}

// Replace puts other policies in the place of all those that p has, with the
// options of New. Decisions that begin after it returns are made by the new
// ones, and none is made by some of both. If it fails, p keeps what it had.
func (p *Policy) Replace(policies map[string][]byte) error {
	if p.set.Load() == nil {
		return errEmpty
	}
	return p.replace(policies)
}

func (p *Policy) replace(policies map[string][]byte) error {
	set, err := newRuleset(policies, &p.opts)
	if err != nil {
		return err
	}
	p.set.Store(set)
	return nil
}

// Revision returns the digest of the texts and the options, which every
// decision bears: "sha256:..."; "" for the zero Policy.
func (p *Policy) Revision() string {
	if set := p.set.Load(); set != nil {
		return set.revision
	}
	return ""
}

// Warnings returns what is probably a mistake in the policies: names that are
// not known, and ids that no entity can have. The caller owns the slice.
func (p *Policy) Warnings() []Warning {
	if set := p.set.Load(); set != nil {
		return slices.Clone(set.warnings)
	}
	return nil
}

var errEmpty = errors.New("cedarpolicy: there are no policies: use New")

// Decide implements [authz.Policy]. It fails if a hook does, and for facts that
// Cedar has no value for.
func (p *Policy) Decide(ctx context.Context, req *authz.Request) (authz.Decision, error) {
	set := p.set.Load()
	if set == nil {
		return authz.Decision{}, errEmpty
	}
	s := session{opts: &p.opts, set: set}
	return s.decide(ctx, req)
}

// DecideBatch implements [authz.PolicyWithBatch]. All decisions are made by the
// same policies, groups and candidates. It fails as a whole.
func (p *Policy) DecideBatch(ctx context.Context, reqs []*authz.Request) ([]authz.Decision, error) {
	set := p.set.Load()
	if set == nil {
		return nil, errEmpty
	}
	s := session{opts: &p.opts, set: set, groups: map[authz.Principal][]string{}, candidates: map[listed][]authz.Object{}}
	decisions := make([]authz.Decision, len(reqs))
	for i, req := range reqs {
		var err error
		if decisions[i], err = s.decide(ctx, req); err != nil {
			return nil, err
		}
	}
	return decisions, nil
}
