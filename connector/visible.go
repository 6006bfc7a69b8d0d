package connector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// VisibleRequest asks what a principal may see.
type VisibleRequest struct {
	Principal authz.Principal
	Profile   string
	Kinds     []Kind // that the surface can serve; nil: read, list and write
	Surface   string // as in InvokeRequest
}

// Visible returns what the principal may see now: what is registered, allowed
// and in the profile, sorted by name. It asks the policy that decides calls.
// Seeing is not being allowed: Invoke asks again. An empty list means nothing.
func (v *Invoker) Visible(ctx context.Context, req *VisibleRequest) ([]Declaration, error) {
	view, err := v.View(ctx, req)
	if err != nil {
		return nil, err
	}
	var out []Declaration
	for _, name := range view.Names {
		d, _ := v.Declaration(name)
		out = append(out, d)
	}
	return out, nil
}

// Declaration returns the declaration of a registered capability, whoever may
// see it, and whether there is one. It never changes; the caller owns it.
func (v *Invoker) Declaration(name string) (Declaration, bool) {
	r := v.caps[name]
	if r == nil {
		return Declaration{}, false
	}
	return Manifest{Capabilities: []Declaration{r.decl}}.Clone().Capabilities[0], true
}

// A View is what a principal may see, by name.
type View struct {
	// Names are sorted, and belong to the caller.
	Names []string

	// Key is what [Invoker.ViewKey] said before the policy was asked.
	Key string

	// Until is when an answer of the policy ends; zero: with the Key.
	Until time.Time
}

// View returns what Visible returns, by name.
func (v *Invoker) View(ctx context.Context, req *VisibleRequest) (View, error) {
	key, err := v.ViewKey(ctx, req) // before the answers: what changes meanwhile changes the key
	if err != nil {
		return View{}, err
	}
	view := View{Key: key}
	err = v.look(ctx, req, func(r *registered, d authz.Decision, s Step) {
		if s.Code == "" {
			view.Names = append(view.Names, r.decl.Name)
		}
		if !d.Expires.IsZero() && (view.Until.IsZero() || d.Expires.Before(view.Until)) {
			view.Until = d.Expires
		}
	})
	if err != nil {
		return View{}, err
	}
	return view, nil
}

// ViewKey names what View would return, without asking the policy about
// anything: as long as the key of a request is the same, and Until is not over,
// so is the view. It is "" if nobody can say so, which is so for every policy
// that is no [authz.PolicyWithRevision]. It holds no secret, and says nothing to
// anybody else: it is a digest of the caller's identity, its profile, the
// policy's revision and the surface. Like View, it refuses a caller who is not
// known or whose identity is over.
func (v *Invoker) ViewKey(ctx context.Context, req *VisibleRequest) (string, error) {
	if req == nil || !vouched(v.trusted, req.Principal) {
		return "", errNotKnown()
	}
	id := req.Principal.Identity()
	revision, err := authz.Revision(ctx, v.policy, id.Tenant)
	if err != nil || revision == "" {
		return "", err
	}
	by := slices.IndexFunc(v.trusted, func(a *authz.Authority) bool { return a.Vouches(req.Principal) })
	parts := []string{strconv.Itoa(by), revision, req.Surface, id.Tenant, id.Issuer, id.Subject, id.Client, strconv.Itoa(len(id.Scopes))}
	parts = append(parts, id.Scopes...)
	if d := id.Delegation; d != nil {
		parts = append(parts, "for", d.Actor, d.Run, strconv.Itoa(len(d.Scopes)))
		parts = append(parts, d.Scopes...)
	}
	for _, k := range req.Kinds {
		parts = append(parts, "kind", string(k))
	}
	if req.Profile == "" {
		return strictjson.Digest(parts...), nil
	}
	profile, err := v.profileOf(ctx, req.Principal, req.Profile)
	if err != nil {
		return "", err
	}
	parts = append(parts, "profile", req.Profile, profile.ID, profile.Revision, strconv.Itoa(len(profile.Prohibited)))
	parts = append(parts, profile.Prohibited...)
	for _, name := range slices.Sorted(maps.Keys(profile.Capabilities)) {
		parts = append(parts, name, profile.Capabilities[name])
	}
	return strictjson.Digest(parts...), nil
}

// Knows reports whether one of the trusted authorities vouches for a principal,
// and its identity is not over.
func (v *Invoker) Knows(p authz.Principal) bool { return vouched(v.trusted, p) }

func errNotKnown() error {
	return toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known, or its identity is over")
}

// Hidden says for each capability that Visible leaves out which step hides it.
// It is for operators.
func (v *Invoker) Hidden(ctx context.Context, req *VisibleRequest) (map[string]Step, error) {
	out := map[string]Step{}
	err := v.look(ctx, req, func(r *registered, _ authz.Decision, s Step) {
		if s.Code != "" {
			out[r.decl.Name] = s
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// look asks about every capability, in the order of their names.
func (v *Invoker) look(ctx context.Context, req *VisibleRequest, each func(*registered, authz.Decision, Step)) error {
	if req == nil || !vouched(v.trusted, req.Principal) {
		return errNotKnown()
	}
	kinds := req.Kinds
	if kinds == nil {
		kinds = []Kind{KindRead, KindList, KindWrite}
	}
	var profile authz.Profile
	if req.Profile != "" {
		var err error
		if profile, err = v.profileOf(ctx, req.Principal, req.Profile); err != nil {
			return err
		}
	}
	names := slices.Sorted(maps.Keys(v.caps))
	questions := make([]*authz.Request, len(names))
	for i, name := range names {
		p := &path{v: v, cap: v.caps[name], req: InvokeRequest{Principal: req.Principal, Profile: req.Profile, Surface: req.Surface}}
		questions[i] = p.question(authz.Discover)
	}
	decisions, err := authz.DecideAll(ctx, v.policy, questions)
	if err != nil {
		return err
	}
	for i, name := range names {
		r := v.caps[name]
		s := Step{}
		switch verdict := decisions[i].Verdict; {
		case !slices.Contains(kinds, r.decl.Kind):
			s = Step{"surface", toolresult.Unsupported, "the surface does not serve this kind"}
		case verdict != authz.Allow && verdict != authz.AllowWithApproval:
			s = Step{"access", toolresult.PermissionDenied, "asked whether " + name + " may be seen on " + r.info.ID + " or any listed candidate: " + decisions[i].Reason}
		case req.Profile != "" && !profile.Allows(name, r.info.Version):
			s = Step{"profile", toolresult.PermissionDenied, "not in the profile, or pinned to another version"}
		}
		each(r, decisions[i], s)
	}
	return nil
}

// Step is one step of the governed path.
type Step struct {
	Name   string               // "access", "validate", "target", "authorize", "binding", ...
	Code   toolresult.ErrorCode // empty if it would go on
	Reason string               // for operators: the policy's reason, a missing scope
}

// Explain says how far a call would get, and why not further. No byte leaves
// and nothing is recorded, so steps that need the provider or the credential
// broker are not taken and say so. It is for operators: the reasons are not
// for callers.
func (v *Invoker) Explain(ctx context.Context, req *InvokeRequest) []Step {
	p := v.start(req)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, callKey{}, p), p.budget())
	defer cancel()
	var out []Step
	for _, s := range steps {
		switch {
		case s.name == "target" && slices.ContainsFunc(p.cap.decl.Routes, func(r Route) bool { return r.Metadata }):
			return append(out, Step{Name: s.name, Reason: "not found out: it may ask the provider"})
		case s.name == "cursor":
			continue // it is bound to the account, which was not asked for
		case s.name == "binding" && p.cap.info.Auth.Mode != AuthNone:
			out = append(out, Step{Name: s.name, Reason: "not asked: the broker may have to refresh"})
			continue
		case s.name == "target":
			p.endpoint = nil // its client refuses everything
		}
		if err := s.do(p, ctx); err != nil {
			return append(out, explained(s.name, p, err))
		}
		out = append(out, Step{Name: s.name})
	}
	if p.cap.decl.Kind == KindWrite {
		out = append(out, Step{Name: "approval", Reason: p.needsApproval()})
	}
	return out
}

func explained(name string, p *path, err error) Step {
	s := Step{Name: name, Code: toolresult.Code(err), Reason: err.Error()}
	if e, ok := errors.AsType[*toolresult.Error](err); ok && e.Cause() != nil {
		s.Reason = e.Cause().Error()
	}
	if p.denied != nil && name == "access" {
		s.Reason = p.denied.Error()
	}
	if e, ok := errors.AsType[*toolresult.Error](err); ok && len(e.Problems) > 0 {
		s.Reason = e.Problems[0].Pointer + " " + e.Problems[0].Text
	}
	return s
}
