package cedarpolicy

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// session makes the decisions of one call of Decide or DecideBatch. In a batch
// it asks each hook once for the same thing.
type session struct {
	opts       *Options
	set        *ruleset
	groups     map[authz.Principal][]string // nil outside a batch
	candidates map[listed][]authz.Object
	found      []*rule // reused by each question
}

// listed is a question to Options.Candidates.
type listed struct {
	p            authz.Principal
	account, typ string
}

func (s *session) decide(ctx context.Context, req *authz.Request) (authz.Decision, error) {
	groups, err := s.groupsOf(ctx, req.Principal)
	if err != nil {
		return authz.Decision{}, err
	}
	a, err := newAsker(s.set, req, groups)
	if err != nil {
		return authz.Decision{}, err
	}
	objects, whole := req.Target.Objects()
	var d authz.Decision
	switch {
	case req.Purpose == authz.Discover:
		d, err = s.discover(ctx, a)
	case whole:
		d, err = s.search(ctx, a)
	default:
		d, err = s.targets(a, objects)
	}
	d.Revision = s.set.revision
	return d, err
}

// groupsOf remembers the groups of a principal for a batch.
func (s *session) groupsOf(ctx context.Context, p authz.Principal) ([]string, error) {
	if s.opts.Groups == nil {
		return nil, nil
	}
	if groups, ok := s.groups[p]; ok {
		return groups, nil
	}
	groups, err := s.opts.Groups(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("cedarpolicy: groups of %s: %w", p, err)
	}
	if s.groups != nil {
		s.groups[p] = groups
	}
	return groups, nil
}

// targets asks for each object. The strictest answer decides.
func (s *session) targets(a *asker, objects []authz.Object) (authz.Decision, error) {
	all := authz.Decision{Verdict: authz.Allow, Reason: "no target"}
	if len(objects) == 0 {
		all.Verdict = authz.Deny
	}
	var entries []authz.Resource
	for i := range objects {
		one, err := s.about(a, &objects[i])
		if err != nil {
			return authz.Decision{}, err
		}
		if i == 0 || stricter(one.verdict, all.Verdict) {
			all.Verdict, all.Reason = one.verdict, one.reason
		}
		entries = one.entries(entries, objects[i].ResourceID)
	}
	if all.Verdict == authz.Allow || all.Verdict == authz.AllowWithApproval {
		all.Scope = authz.OnlyDuring(entries...)
	}
	return all, nil
}

// stricter orders Allow, AllowWithApproval, Deny, Prohibit.
func stricter(a, b authz.Verdict) bool {
	rank := [...]int{authz.Deny: 2, authz.Allow: 0, authz.AllowWithApproval: 1, authz.Prohibit: 3}
	return rank[a] > rank[b]
}

// search decides about the whole connection: by candidates if there are any
// types that are listed, else at once.
func (s *session) search(ctx context.Context, a *asker) (authz.Decision, error) {
	conn, err := s.about(a, nil)
	if err != nil || conn.verdict == authz.Prohibit {
		return authz.Decision{Verdict: conn.verdict, Reason: conn.reason}, err
	}
	best := authz.Decision{Reason: "no candidate is allowed"}
	var plain, approved []authz.Resource
	some, err := s.each(ctx, a, func(o *authz.Object, one answer) bool {
		switch one.verdict {
		case authz.Allow:
			plain, best.Verdict, best.Reason = one.entries(plain, o.ResourceID), authz.Allow, one.reason
		case authz.AllowWithApproval:
			approved = one.entries(approved, o.ResourceID)
			if best.Verdict == authz.Deny {
				best.Verdict, best.Reason = authz.AllowWithApproval, one.reason
			}
		}
		return true
	})
	switch {
	case err != nil:
		return authz.Decision{}, err
	case !some:
		return s.whole(a, conn), nil
	case best.Verdict == authz.Allow:
		best.Scope = authz.OnlyDuring(plain...)
	case best.Verdict == authz.AllowWithApproval:
		best.Scope = authz.OnlyDuring(approved...)
	}
	return best, nil
}

// whole turns the answer about the connection into a decision about everything
// in it.
func (s *session) whole(a *asker, conn answer) authz.Decision {
	if conn.verdict == authz.Deny {
		return authz.Decision{Reason: conn.reason}
	}
	if len(conn.windows) > 0 {
		return authz.Decision{Reason: conn.reason + ": a window cannot limit the whole connection"}
	}
	q := question{asker: a}
	for _, r := range s.set.rules {
		if r.concerns(&q) {
			return authz.Decision{Reason: string(r.id) + " may forbid some objects: a search needs candidates, to leave them out"}
		}
	}
	return authz.Decision{Verdict: conn.verdict, Reason: conn.reason, Scope: authz.WholeConnection()}
}

// discover decides whether to show the capability. Its scope is empty.
func (s *session) discover(ctx context.Context, a *asker) (authz.Decision, error) {
	conn, err := s.about(a, nil)
	best := authz.Decision{Verdict: conn.verdict, Reason: conn.reason}
	if err != nil || conn.verdict != authz.Deny {
		return best, err
	}
	_, err = s.each(ctx, a, func(_ *authz.Object, one answer) bool {
		if stricter(best.Verdict, one.verdict) {
			best.Verdict, best.Reason = one.verdict, one.reason
		}
		return best.Verdict != authz.Allow
	})
	return best, err
}

// each asks about the candidates of the request's types until f returns false.
// some is false if there is no type whose objects are listed.
func (s *session) each(ctx context.Context, a *asker, f func(*authz.Object, answer) bool) (some bool, err error) {
	for _, typ := range a.req.Types {
		objects, ok, err := s.list(ctx, a.req, typ)
		if err != nil {
			return some, err
		}
		some = some || ok
		for i := range objects {
			one, err := s.about(a, &objects[i])
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return some, err
			}
			if !f(&objects[i], one) {
				return some, nil
			}
		}
	}
	return some, nil
}

// list remembers candidates for a batch.
func (s *session) list(ctx context.Context, req *authz.Request, typ string) (objects []authz.Object, ok bool, err error) {
	if s.opts.Candidates == nil {
		return nil, false, nil
	}
	key := listed{req.Principal, req.Account, typ}
	if objects, ok := s.candidates[key]; ok {
		return objects, true, nil
	}
	objects, err = s.opts.Candidates(ctx, req.Principal, req.Account, typ)
	if errors.Is(err, ErrUnlisted) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("cedarpolicy: candidates of type %q: %w", typ, err)
	}
	for _, o := range objects {
		if o.Type != typ {
			return nil, false, fmt.Errorf("cedarpolicy: candidates of type %q hold an object of type %q", typ, o.Type)
		}
	}
	if s.candidates != nil {
		s.candidates[key] = objects
	}
	return objects, true, nil
}

// answer is what the policies say about one resource.
type answer struct {
	verdict authz.Verdict
	windows []toolresult.Interval // none: any time
	reason  string
}

// entries appends what the answer grants on the object.
func (n answer) entries(to []authz.Resource, id authz.ResourceID) []authz.Resource {
	if len(n.windows) == 0 {
		return append(to, authz.Resource{ResourceID: id})
	}
	for _, w := range n.windows {
		to = append(to, authz.Resource{ResourceID: id, Window: w})
	}
	return to
}

// about asks about one object, or the connection if o is nil.
func (s *session) about(a *asker, o *authz.Object) (answer, error) {
	q, err := a.about(o)
	if err != nil {
		return answer{}, err
	}
	s.found = s.set.index.find(s.found[:0], q.actions, q.users, q.resources)
	return s.set.judge(q.evaluate(s.found)), nil
}

// evaluate lets Cedar decide by the given rules.
func (q *question) evaluate(rules []*rule) (cedar.Decision, cedar.Diagnostic) {
	req := cedar.Request{Principal: q.users[0], Action: q.actions[0], Resource: q.resources[0]}
	uses, whole := false, false
	for _, r := range rules {
		uses, whole = uses || r.usesContext, whole || r.wholeContext
	}
	if uses {
		req.Context = q.contextFacts(whole)
	}
	return cedar.Authorize(selection(rules), q, req)
}

// selection is a [cedar.PolicyIterator].
type selection []*rule

func (s selection) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, r := range s {
			if !yield(r.id, r.policy) {
				return
			}
		}
	}
}

// judge turns Cedar's decision into an answer.
func (s *ruleset) judge(decision cedar.Decision, diag cedar.Diagnostic) answer {
	reasons := make([]*rule, len(diag.Reasons))
	for i, reason := range diag.Reasons {
		reasons[i] = s.byID[reason.PolicyID]
	}
	if decision != cedar.Allow {
		return refusal(reasons, diag.Errors)
	}
	if len(diag.Errors) > 0 {
		return answer{reason: failures(diag.Errors)}
	}
	return permission(reasons)
}

func refusal(forbids []*rule, errs []cedar.DiagnosticError) answer {
	for _, r := range forbids {
		if r.final {
			return answer{verdict: authz.Prohibit, reason: "prohibited by " + string(r.id)}
		}
	}
	switch {
	case len(forbids) > 0:
		return answer{reason: "forbidden by " + string(forbids[0].id)}
	case len(errs) > 0:
		return answer{reason: "no permit is satisfied; " + failures(errs)}
	}
	return answer{reason: "no permit is satisfied"}
}

// permission heeds the permits without @approval, or those with it if there
// are no others.
func permission(permits []*rule) answer {
	n := answer{verdict: authz.AllowWithApproval}
	for _, r := range permits {
		if !r.approval {
			n.verdict = authz.Allow
		}
	}
	always := false
	for _, r := range permits {
		if r.approval != (n.verdict == authz.AllowWithApproval) {
			continue
		}
		if n.reason == "" {
			n.reason = r.reason
		}
		if r.window.IsZero() {
			always = true
		} else {
			n.windows = append(n.windows, r.window)
		}
	}
	if always {
		n.windows = nil
	}
	return n
}

// failures names the policies that could not be evaluated.
func failures(errs []cedar.DiagnosticError) string {
	var b strings.Builder
	b.WriteString("the evaluation failed:")
	for i, e := range errs {
		if i == 3 {
			fmt.Fprintf(&b, " and %d more", len(errs)-i)
			break
		}
		fmt.Fprintf(&b, " %s: %s;", e.PolicyID, e.Message)
	}
	return b.String()
}
