package registry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Options are what a registry may be given besides. The zero Options are
// strict.
type Options struct {
	// Reviews is how many people other than the registrant must have approved
	// a package before it is published. 0: one.
	Reviews int

	// Keys verify signatures. If it is set, a version is published and given
	// out only with a signature that holds. Nil: signatures are kept and not
	// looked at.
	Keys skill.Verifier

	// Context is the digest of what evidence must have been made with now. ""
	// takes evidence of any context.
	Context skill.Digest

	// Gates are asked before a version moves. An error keeps it where it is,
	// and its text is shown.
	Gates []Gate
}

// Gate vetoes a move; it returns why. It is safe for concurrent use.
type Gate func(ctx context.Context, rec Record, p *skill.Package, to Status) error

// Registry is the governed way to a [Store]. It is safe for concurrent use. The
// zero Registry refuses everybody.
type Registry struct {
	tenant  string
	store   Store
	policy  authz.Policy
	trusted []*authz.Authority
	opts    Options
}

// New returns the registry of one tenant. A nil policy denies everything.
// Principals are accepted if one of the trusted authorities vouches for them.
// opts may be nil.
func New(tenant string, store Store, policy authz.Policy, trusted []*authz.Authority, opts *Options) (*Registry, error) {
	if tenant == "" || store == nil {
		return nil, errors.New("skill registry: want a tenant and a store")
	}
	r := &Registry{tenant: tenant, store: store, policy: policy, trusted: slices.Clone(trusted)}
	if opts != nil {
		r.opts = *opts
		r.opts.Gates = slices.Clone(opts.Gates)
	}
	r.opts.Reviews = max(r.opts.Reviews, 1)
	return r, nil
}

// Blocked says everything that keeps a version where it is. Its code is
// CONFLICT.
type Blocked struct {
	Name, Version string
	To            Status
	Reasons       []string
}

// Error lists the reasons.
func (b *Blocked) Error() string {
	return fmt.Sprintf("skill registry: %s %s cannot be %s: %s", b.Name, b.Version, b.To, strings.Join(b.Reasons, "; "))
}

// Unwrap returns the code.
func (b *Blocked) Unwrap() error { return toolresult.Conflict }

// act is what is asked of the policy.
type act struct {
	name  string
	class risk.Class
}

var (
	actRegister = act{"skills.register", risk.Class{SideEffect: risk.ReversibleWrite, Sensitivity: risk.Internal}}
	actValidate = act{"skills.validate", risk.Class{SideEffect: risk.ReversibleWrite, Sensitivity: risk.Internal}}
	actReview   = act{"skills.review", risk.Class{SideEffect: risk.ReversibleWrite, Sensitivity: risk.Internal}}
	actRelease  = act{"skills.release", risk.Class{SideEffect: risk.ReversibleWrite, Sensitivity: risk.Internal}}
	actUse      = act{"skills.use", risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Internal}}
)

// Object is what a policy is asked about for a skill.
func Object(name string) authz.ResourceID { return authz.ResourceID{Type: "skill", ID: name} }

// may asks the policy. Whether the skill exists makes no difference.
func (r *Registry) may(ctx context.Context, who authz.Principal, a act, name string, purpose authz.Purpose) error {
	if r.store == nil || !slices.ContainsFunc(r.trusted, func(t *authz.Authority) bool { return t.Vouches(who) }) || who.Key().Tenant != r.tenant {
		return toolresult.NewError(toolresult.AuthenticationRequired, "nobody that this registry trusts vouches for the caller")
	}
	req := &authz.Request{
		Principal: who, Purpose: purpose,
		Action: authz.Action{Connector: "skills", Capability: a.name, Version: "1.0.0", Class: a.class},
	}
	if purpose != authz.Discover {
		req.Target = authz.On(authz.Object{ResourceID: Object(name)})
	}
	g, err := authz.Authorize(ctx, r.policy, req)
	switch {
	case toolresult.Code(err) == toolresult.PermissionDenied:
		return toolresult.NotVisible(toolresult.NotFound, err)
	case err != nil:
		return err
	case g.NeedsApproval():
		return toolresult.NewError(toolresult.PermissionDenied, "the policy asks for an approval, which the registry cannot take; reviews are its approvals")
	}
	return nil
}

func person(who authz.Principal) Person {
	k := who.Key()
	return Person{k.Issuer, k.Subject}
}

// get reads a record for somebody who may act on the skill.
func (r *Registry) get(ctx context.Context, who authz.Principal, a act, name, version string) (Record, error) {
	if err := r.may(ctx, who, a, name, authz.Execute); err != nil {
		return Record{}, err
	}
	return r.read(ctx, name, version)
}

func (r *Registry) read(ctx context.Context, name, version string) (Record, error) {
	rec, err := r.store.Get(ctx, name, version)
	if toolresult.Code(err) == toolresult.NotFound {
		return Record{}, toolresult.NotVisible(toolresult.NotFound, err)
	}
	return rec, err
}

func (r *Registry) put(ctx context.Context, who authz.Principal, rec Record, what string, from Status, reason string) (Record, error) {
	return r.store.Put(ctx, rec, Event{What: what, Name: rec.Name, Version: rec.Version, From: from, To: rec.Status,
		By: person(who), Reason: reason, At: time.Now().UTC().Round(0)})
}

// Register keeps a package and its record as a draft. The record's name is that
// of the package, its artifact digest is that of the package or empty. It is
// [*Blocked] if the package breaks a rule of the specification, if the skill
// belongs to somebody else, and if there is such a version with another package
// or record: a version is never given twice.
//
// Registering the same again, after an answer was lost, returns what is there.
func (r *Registry) Register(ctx context.Context, who authz.Principal, p *skill.Package, rec Record) (Record, error) {
	if p == nil {
		return Record{}, toolresult.NewError(toolresult.InvalidInput, "there is no package to register")
	}
	if err := r.may(ctx, who, actRegister, rec.Name, authz.Execute); err != nil {
		return Record{}, err
	}
	rec = rec.clone()
	b := &Blocked{Name: rec.Name, Version: rec.Version, To: Draft, Reasons: rec.problems()}
	if p.Name() != rec.Name {
		b.Reasons = append(b.Reasons, "SKILL.md names another skill")
	}
	if rec.Artifact != "" && rec.Artifact != p.Digest() {
		b.Reasons = append(b.Reasons, "artifact_digest is not that of the package, "+string(p.Digest()))
	}
	if err := p.Check(skill.Spec(), rec.Name).Err(); err != nil {
		b.Reasons = append(b.Reasons, err.Error())
	}
	others, err := r.store.List(ctx, rec.Name)
	if err != nil {
		return Record{}, err
	}
	for _, o := range others {
		if o.Owner != rec.Owner {
			b.Reasons = append(b.Reasons, "the skill belongs to another owner; take another name")
			break
		}
	}
	if b.Reasons != nil {
		return Record{}, b
	}
	rec.Status, rec.Artifact, rec.Registrant = Draft, p.Digest(), person(who)
	rec.Validation, rec.Reviews, rec.Revision = nil, nil, 0
	if err := r.store.PutPackage(ctx, p); err != nil {
		return Record{}, err
	}
	out, err := r.put(ctx, who, rec, "register", "", "")
	if toolresult.Code(err) == toolresult.Conflict {
		return r.again(ctx, rec)
	}
	return out, err
}

// again answers a version that is there already.
func (r *Registry) again(ctx context.Context, rec Record) (Record, error) {
	old, err := r.store.Get(ctx, rec.Name, rec.Version)
	if err != nil {
		return Record{}, err
	}
	if !reflect.DeepEqual(old.said(), rec.said()) {
		return Record{}, &Blocked{rec.Name, rec.Version, Draft, []string{"there is such a version already, and a version never changes; take the next one"}}
	}
	return old, nil
}

// said is what the registrant said, without what came later.
func (r Record) said() Record {
	r.Status, r.Validation, r.Reviews, r.Signature, r.Revision = "", nil, nil, nil, 0
	if len(r.Scope) == 0 {
		r.Scope = nil
	}
	if len(r.Dependencies.Skills) == 0 {
		r.Dependencies.Skills = nil
	}
	if len(r.Dependencies.External) == 0 {
		r.Dependencies.External = nil
	}
	return r
}

// Attach adds evidence to a version. It is kept whatever it says; the last one
// counts. Evidence for another package is refused.
func (r *Registry) Attach(ctx context.Context, who authz.Principal, name, version string, e Evidence) (Record, error) {
	rec, err := r.get(ctx, who, actValidate, name, version)
	if err != nil {
		return Record{}, err
	}
	if e.Artifact != rec.Artifact || e.Suite == "" || e.URI == "" || !e.Context.Valid() {
		return Record{}, toolresult.NewError(toolresult.InvalidInput, "evidence needs a suite, where its results are, the digest of this package and that of its context")
	}
	e.At, e.By = time.Now().UTC().Round(0), person(who)
	rec.Validation = &e
	return r.put(ctx, who, rec, "validate", rec.Status, e.Suite)
}

// Review adds what a person says about a package. The last word of each person
// counts. Who registered a version cannot review it, and neither can somebody
// who acts for a person.
func (r *Registry) Review(ctx context.Context, who authz.Principal, name, version string, v Review) (Record, error) {
	rec, err := r.get(ctx, who, actReview, name, version)
	if err != nil {
		return Record{}, err
	}
	switch {
	case v.Artifact != rec.Artifact:
		return Record{}, toolresult.NewError(toolresult.ApprovalInvalid, "the review is about another package")
	case person(who) == rec.Registrant:
		return Record{}, toolresult.NewError(toolresult.PermissionDenied, "who registered a version cannot review it")
	case who.Identity().Delegation != nil:
		return Record{}, toolresult.NewError(toolresult.PermissionDenied, "a review is given by a person, and not by somebody acting for one")
	case len(v.Note) > maxText:
		return Record{}, toolresult.NewError(toolresult.InvalidInput, "the note is longer than 4096 bytes")
	}
	v.Reviewer, v.At = person(who), time.Now().UTC().Round(0)
	rec.Reviews = slices.DeleteFunc(rec.Reviews, func(o Review) bool { return o.Reviewer == v.Reviewer })
	rec.Reviews = append(rec.Reviews, v)
	return r.put(ctx, who, rec, "review", rec.Status, v.Note)
}

// Sign adds a signature of the version's statement.
func (r *Registry) Sign(ctx context.Context, who authz.Principal, name, version string, sig skill.Signature) (Record, error) {
	rec, err := r.get(ctx, who, actRelease, name, version)
	if err != nil {
		return Record{}, err
	}
	if r.opts.Keys != nil {
		if err := r.opts.Keys.Verify(rec.statement(), sig); err != nil {
			return Record{}, err
		}
	}
	rec.Signature = &sig
	return r.put(ctx, who, rec, "sign", rec.Status, sig.Key)
}

func (r *Record) statement() skill.Statement {
	return skill.Statement{Name: r.Name, Version: r.Version, Digest: r.Artifact}
}

// Record returns one version, for somebody who may use the skill.
func (r *Registry) Record(ctx context.Context, who authz.Principal, name, version string) (Record, error) {
	return r.get(ctx, who, actUse, name, version)
}

// History returns what happened to a version, oldest first.
func (r *Registry) History(ctx context.Context, who authz.Principal, name, version string) ([]Event, error) {
	if _, err := r.get(ctx, who, actUse, name, version); err != nil {
		return nil, err
	}
	return r.store.History(ctx, name, version)
}

// Stale returns the published versions that the caller may use whose last
// evidence did not pass, or was made with another context than the given one:
// with other tools, or another model, than there are now. Their status stays; what depends
// on the change should pause until they are validated again.
func (r *Registry) Stale(ctx context.Context, who authz.Principal, now skill.Digest) ([]Record, error) {
	recs, err := r.Current(ctx, who, "")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(recs, func(rec Record) bool {
		return rec.Validation != nil && rec.Validation.Passed && rec.Validation.Context == now
	}), nil
}
