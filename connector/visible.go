package connector

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/drawbridge-sdk/drawbridge/authz"
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
	var out []Declaration
	_, err := v.look(ctx, req, func(r *registered, s Step) {
		if s.Code == "" {
			d := Manifest{Capabilities: []Declaration{r.decl}}.clone()
			out = append(out, d.Capabilities[0])
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Hidden says for each capability that Visible leaves out which step hides it.
// It is for operators.
func (v *Invoker) Hidden(ctx context.Context, req *VisibleRequest) (map[string]Step, error) {
	out := map[string]Step{}
	_, err := v.look(ctx, req, func(r *registered, s Step) {
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
func (v *Invoker) look(ctx context.Context, req *VisibleRequest, each func(*registered, Step)) (int, error) {
	if req == nil || !vouched(v.trusted, req.Principal) {
		return 0, toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known, or its identity is over")
	}
	kinds := req.Kinds
	if kinds == nil {
		kinds = []Kind{KindRead, KindList, KindWrite}
	}
	var profile authz.Profile
	if req.Profile != "" {
		var err error
		if profile, err = v.profileOf(ctx, req.Principal, req.Profile); err != nil {
			return 0, err
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
		return 0, err
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
		each(r, s)
	}
	return len(names), nil
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
