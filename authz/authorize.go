package authz

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Denied is the Cause of every error of [Authorize] and [Grant.Check]: what
// the policy said and why that was not enough. It is for operators and audit,
// and never for the caller: the reason may name objects that he may not know
// of.
type Denied struct {
	Decision Decision // as the policy gave it; zero if it was not asked
	Err      error    // what the policy's Decide returned, or the rule that the answer broke; nil for a plain no
}

// Error returns the reasons, for operators.
func (d *Denied) Error() string {
	switch {
	case d.Err == nil:
		return "authz: denied: " + d.Decision.Reason
	case d.Decision.Reason == "":
		return "authz: denied: " + d.Err.Error()
	}
	return "authz: denied: " + d.Err.Error() + ": " + d.Decision.Reason
}

// Unwrap returns Err.
func (d *Denied) Unwrap() error { return d.Err }

// Why returns the Denied behind an error of this package, for operators.
func Why(err error) (*Denied, bool) {
	e, ok := errors.AsType[*toolresult.Error](err)
	if !ok || e == nil {
		return nil, false
	}
	return errors.AsType[*Denied](e.Cause())
}

var (
	errNobody       = errors.New("nobody asks")
	errIdentityOver = errors.New("the identity or its delegation is over")
	errNoTarget     = errors.New("neither objects nor the whole connection is named")
	errNoPolicy     = errors.New("there is no policy")
	errNoRevision   = errors.New("the policy allowed without naming its revision")
	errNotCovered   = errors.New("the scope of the decision does not cover the target")
	errDecisionOver = errors.New("the decision is over")
	errNoGrant      = errors.New("there is no grant")
	errStricter     = errors.New("the policy now asks for approval")
	errNarrower     = errors.New("the policy now grants a narrower scope")
	errShortBatch   = errors.New("the policy answered another number of questions than it was asked")
)

// Authorize asks the policy and returns a Grant, or an error:
//
//   - PERMISSION_DENIED for Deny, Prohibit, an empty scope, a scope that does
//     not cover the target, and a decision that is already over
//   - POLICY_UNAVAILABLE if there is no policy, it fails or panics, or ctx ends
//     before it answers
//   - AUTHENTICATION_REQUIRED for nobody or an identity that is over
//   - CONTRACT_VIOLATION to execute without a target, or without a request
//
// The texts are constants and do not say whether the target exists; the Cause
// is a *[Denied]. Authorize copies req, and gives the policy a copy of its own.
func Authorize(ctx context.Context, policy Policy, req *Request) (Grant, error) {
	if req == nil {
		return Grant{}, refuse(toolresult.NewError(toolresult.ContractViolation, "the call does not say what it touches"), errNoTarget)
	}
	own := req.clone()
	if err := own.check(time.Now()); err != nil {
		return Grant{}, err
	}
	d, err := ask(ctx, policy, &own)
	if err != nil {
		return Grant{}, unavailable(d, err)
	}
	if err := own.heed(d, time.Now()); err != nil {
		return Grant{}, err
	}
	return Grant{&grant{policy, own, d}}, nil
}

// check refuses what no policy needs to be asked about.
func (r *Request) check(now time.Time) error {
	switch {
	case r.Principal.IsZero():
		return refuse(toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known"), errNobody)
	case r.Principal.over(now):
		return refuse(toolresult.NewError(toolresult.AuthenticationRequired, "the caller's identity is over"), errIdentityOver)
	case r.Purpose != Discover && r.Target.IsZero():
		return refuse(toolresult.NewError(toolresult.ContractViolation, "the call does not say what it touches"), errNoTarget)
	}
	return nil
}

// heed turns every answer that is not a clear yes to r into an error.
func (r *Request) heed(d Decision, now time.Time) error {
	switch {
	case !d.allows():
		return denied(d, nil)
	case d.Revision == "":
		return denied(d, errNoRevision)
	case over(d.Expires, now):
		return denied(d, errDecisionOver)
	case r.Purpose != Discover && !d.Scope.CoversTarget(r.Target):
		return denied(d, errNotCovered)
	}
	return nil
}

// DecideAll asks the policy many questions, for discovery: at once if it is a
// [PolicyWithBatch], else one after the other. decisions[i] answers reqs[i],
// and its verdict is Allow or AllowWithApproval only if [Authorize] would have
// returned a Grant; a request that Authorize refuses without asking is denied
// and the policy does not see it.
//
// It fails as a whole with POLICY_UNAVAILABLE if the policy cannot answer one
// of them. reqs is not changed.
func DecideAll(ctx context.Context, policy Policy, reqs []*Request) ([]Decision, error) {
	decisions := make([]Decision, len(reqs))
	var asked []*Request // copies
	var at []int         // where their answers go
	for i, req := range reqs {
		if req == nil || req.check(time.Now()) != nil {
			decisions[i] = Decision{Reason: "refused without asking"}
			continue
		}
		own := req.clone()
		asked, at = append(asked, &own), append(at, i)
	}
	answers, err := askAll(ctx, policy, asked)
	if err != nil {
		return nil, unavailable(Decision{}, err)
	}
	for j, d := range answers {
		if reqs[at[j]].heed(d, time.Now()) != nil && d.allows() {
			d.Verdict = Deny
		}
		decisions[at[j]] = d
	}
	return decisions, nil
}

func askAll(ctx context.Context, policy Policy, reqs []*Request) (answers []Decision, err error) {
	batch, ok := policy.(PolicyWithBatch)
	if !ok {
		for _, req := range reqs {
			d, err := ask(ctx, policy, req)
			if err != nil {
				return nil, err
			}
			answers = append(answers, d)
		}
		return answers, nil
	}
	defer recovered(&err)
	answers, err = batch.DecideBatch(ctx, reqs)
	if err == nil && len(answers) != len(reqs) {
		err = errShortBatch
	}
	return answers, errors.Join(err, ctx.Err())
}

// ask gives the policy a copy of its own, and believes no answer that came
// after the end of ctx.
func ask(ctx context.Context, policy Policy, req *Request) (d Decision, err error) {
	if policy == nil {
		return Decision{}, errNoPolicy
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	theirs := req.clone()
	defer recovered(&err)
	d, err = policy.Decide(ctx, &theirs)
	return d, errors.Join(err, ctx.Err())
}

// recovered turns a policy's panic into an error: a bug in one rule must not
// end the process of every tenant, and must not allow anything either.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the policy panicked: %v\n%s", r, debug.Stack())
	}
}

func denied(d Decision, err error) error {
	return toolresult.WrapError(toolresult.PermissionDenied, "not allowed", &Denied{d, err})
}

func unavailable(d Decision, err error) error {
	return toolresult.WrapError(toolresult.PolicyUnavailable, "the policy cannot answer now", &Denied{d, err})
}

func refuse(e *toolresult.Error, err error) error {
	return toolresult.WrapError(e.Code, e.Message, &Denied{Err: err})
}
