package connector

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/internal/defuse"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// noApproval is the one text for an approval that is not there and one that the
// caller may not see.
func noApproval() *toolresult.Error {
	return toolresult.NewError(toolresult.NotFound, "there is no such approval, or none that may be seen")
}

// findKey completes the request of a change: an approval may carry its key, and
// one that a person will be asked about gets one.
func (p *path) findKey(ctx context.Context) error {
	if p.req.Approval != "" {
		a, err := p.ownApproval(ctx)
		if err != nil {
			return err
		}
		if p.req.Key == "" {
			p.req.Key = a.Key
		}
	}
	if p.req.Key == "" && p.needsApproval() != "" {
		p.req.Key = "approval-" + rand.Text()
	}
	if p.req.Key == "" {
		return toolresult.NewError(toolresult.InvalidInput, "a change needs an operation key from the runtime, the same for every attempt at it: InvokeRequest.Key, or over MCP drawbridge.dev/operation in the _meta of the call")
	}
	return nil
}

// ownApproval returns the approval that the request names, if it is the
// caller's.
func (p *path) ownApproval(ctx context.Context) (authz.Approval, error) {
	missing := toolresult.NewError(toolresult.ApprovalInvalid, "there is no such approval for this caller")
	if p.v.opts.Approvals == nil {
		return authz.Approval{}, missing
	}
	a, err := p.v.opts.Approvals.Approval(ctx, p.req.Principal.Key().Tenant, p.req.Approval)
	switch {
	case toolresult.Code(err) == toolresult.NotFound, err == nil && a.Statement.Requester != p.req.Principal.Key():
		return authz.Approval{}, missing
	case err != nil:
		return authz.Approval{}, toolresult.WrapError(toolresult.PolicyUnavailable, "the approvals cannot be read now, so nothing is sent", err)
	}
	return a, nil
}

// approve fills in the approval that the change is made by, or says what is
// missing: APPROVAL_REQUIRED with what a person needs, or APPROVAL_INVALID with
// what does not fit.
func (p *path) approve(ctx context.Context, intent *operation.Record, d *draft) *toolresult.Error {
	now := authz.Statement{Binding: intent.Binding, Operation: intent.ID, Request: intent.Request}
	if p.v.opts.Approvals == nil {
		if p.req.Approval != "" {
			return invalid("approvals are not kept here")
		}
		return required(p.draftApproval(now, intent, d))
	}
	if p.req.Approval != "" && p.req.Approval != now.ID() {
		a, err := p.ownApproval(ctx)
		if err != nil {
			return toolresult.AsError(err)
		}
		return invalid(a.Statement.Differences(now)...)
	}
	if p.needsApproval() == "" {
		return nil // it is named, fits, and is not needed any more
	}
	fresh := p.draftApproval(now, intent, d)
	a, err := p.v.opts.Approvals.Approval(ctx, now.Requester.Tenant, now.ID())
	switch {
	case toolresult.Code(err) == toolresult.NotFound:
		return p.ask(ctx, fresh)
	case err != nil:
		return toolresult.WrapError(toolresult.PolicyUnavailable, "the approvals cannot be read now, so nothing is sent", err)
	}
	return p.use(ctx, a, fresh, intent)
}

// use checks an approval that belongs to the change. One that is over, or that
// a stricter policy has overtaken, is asked for anew.
func (p *path) use(ctx context.Context, a, fresh authz.Approval, intent *operation.Record) *toolresult.Error {
	over, stricter := !a.Expires.After(time.Now()), fresh.Verdict != a.Verdict && fresh.Verdict != authz.Allow
	fresh.Rev = a.Rev
	switch {
	case a.Refused && a.Answered() && !over:
		return invalid("the answer, which was no")
	case !a.Given() && !over && !stricter:
		return required(a)
	case a.Given() && over:
		return p.again(ctx, fresh, invalid("expiry"))
	case a.Given() && stricter:
		return p.again(ctx, fresh, invalid("policy"))
	case !a.Given():
		return p.ask(ctx, fresh)
	}
	intent.Approval, intent.ApprovalEnds = a.ID, a.Expires
	return nil
}

// again asks anew and says why the earlier answer does not count.
func (p *path) again(ctx context.Context, fresh authz.Approval, why *toolresult.Error) *toolresult.Error {
	asked := p.ask(ctx, fresh)
	if asked.Code == toolresult.ApprovalRequired {
		why.Approval = asked.Approval
	}
	return why
}

// draftApproval is the question about a change, before anybody has answered.
func (p *path) draftApproval(now authz.Statement, intent *operation.Record, d *draft) authz.Approval {
	a := authz.Approval{ID: now.ID(), Statement: now, Key: intent.Key, Targets: intent.Targets, Verdict: authz.Allow,
		Asked: time.Now().UTC(), Rendering: defuse.Spell(p.cap.decl.Name + "\n" + string(p.args))}
	a.Expires = a.Asked.Add(p.v.opts.ApprovalLife)
	if p.grant.NeedsApproval() {
		a.Verdict = authz.AllowWithApproval
	}
	if d != nil {
		a.Rendering = d.String()
	}
	return a
}

// ask records the question. When somebody else has asked it in the meantime,
// theirs is the one.
func (p *path) ask(ctx context.Context, a authz.Approval) *toolresult.Error {
	if len(a.Rendering) > longestRendering {
		return required(a)
	}
	kept, err := p.v.opts.Approvals.PutApproval(ctx, a)
	if errors.Is(err, authz.ErrApprovalVersion) {
		kept, err = p.v.opts.Approvals.Approval(ctx, a.Statement.Requester.Tenant, a.ID)
	}
	if err != nil {
		return toolresult.WrapError(toolresult.PolicyUnavailable, "the approvals cannot be written now, so nobody can be asked", err)
	}
	return required(kept)
}

// longestStep bounds the rendering in a result, in bytes. All of it is in the
// approval.
const longestStep = 8 << 10

// required asks for an approval, unless the change is longer than a person can
// be shown: nobody approves what was not seen.
func required(a authz.Approval) *toolresult.Error {
	if len(a.Rendering) > longestRendering {
		return toolresult.NewError(toolresult.InvalidInput, "a person must approve this change, and it is longer than anybody can be shown: make it smaller, or several")
	}
	shown := a.Rendering
	if len(shown) > longestStep {
		shown = strings.ToValidUTF8(shown[:longestStep], "") + "\n[cut here: the approval has all of it]"
	}
	e := toolresult.NewError(toolresult.ApprovalRequired, "a person must approve this very change first")
	e.Approval = &toolresult.ApprovalStep{ID: a.ID, Digest: a.Statement.Digest(), Rendering: shown, Expires: a.Expires}
	return e
}

func invalid(what ...string) *toolresult.Error {
	e := toolresult.NewError(toolresult.ApprovalInvalid, "the approval is not for this change as it is now")
	for _, w := range what {
		e = e.With("", "does not fit any more: "+w)
	}
	return e
}

// ApproveRequest is a person's answer to the question about one change.
type ApproveRequest struct {
	CallID    string          // as in InvokeRequest
	Principal authz.Principal // who answers: verified, and of the requester's tenant
	ID        string          // of error.approval.id
	Digest    string          // of what the person was shown; another one is APPROVAL_INVALID
}

// Approve records that a principal approves a change. The policy is asked with
// the purpose Approve, and has to allow it plainly: whoever needs an approval
// for such a change cannot give one, not even for somebody else. Nor can the
// requester, unless Options.SelfApproval is set, nor anybody who acts for
// somebody else: an agent does not approve. Approving sends nothing; the change
// is made when its owner repeats the call. Approving again changes nothing.
//
// It returns the approval, or NOT_FOUND for one that is not there or that the
// principal may not approve, APPROVAL_INVALID for another digest or a question
// that is over. It is safe for concurrent use.
func (v *Invoker) Approve(ctx context.Context, req *ApproveRequest) (authz.Approval, error) {
	return v.answer(ctx, req, false)
}

// Refuse records that a principal says no to a change. Who may approve may
// refuse, and the requester may take the own question back; also what was
// approved, as long as it has not been used. Until the answer is over, the same
// change is APPROVAL_INVALID and is not asked about again, and nobody's yes
// turns it round. A call that has read an approval before it was taken back may
// still go out. Errors are those of Approve.
func (v *Invoker) Refuse(ctx context.Context, req *ApproveRequest) (authz.Approval, error) {
	return v.answer(ctx, req, true)
}

func (v *Invoker) answer(ctx context.Context, req *ApproveRequest, no bool) (authz.Approval, error) {
	if req == nil {
		req = &ApproveRequest{}
	}
	p := v.start(&InvokeRequest{CallID: req.CallID, Principal: req.Principal, Surface: "approval"})
	var a authz.Approval
	r := p.finish(ctx, func(ctx context.Context) *toolresult.Result {
		ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
		var err error
		if a, err = p.give(ctx, req, no); err != nil {
			return toolresult.Failure(p.req.CallID, err)
		}
		return toolresult.NoMatch(p.req.CallID) // it has no effect outside
	})
	if err := r.Err(); err != nil {
		return authz.Approval{}, err
	}
	return a, nil
}

func (p *path) give(ctx context.Context, req *ApproveRequest, no bool) (authz.Approval, error) {
	a, err := p.ofTenant(ctx, req.ID)
	if err != nil {
		return authz.Approval{}, err
	}
	if err := p.mayAnswer(ctx, a, no); err != nil {
		return authz.Approval{}, err
	}
	switch {
	case req.Digest != a.Statement.Digest():
		return authz.Approval{}, invalid("what was shown")
	case !a.Expires.After(time.Now()):
		return authz.Approval{}, invalid("expiry")
	case a.Answered() && a.Refused == no:
		return a, nil
	case a.Refused: // a no is not turned round: the question is over first
		return authz.Approval{}, invalid("the answer, which was no")
	}
	a.Approver, a.Approved, a.Refused = p.req.Principal.Key(), time.Now().UTC(), no
	a.Expires = a.Approved.Add(p.v.opts.ApprovalLife)
	kept, err := p.v.opts.Approvals.PutApproval(ctx, a)
	if errors.Is(err, authz.ErrApprovalVersion) {
		return authz.Approval{}, toolresult.NewError(toolresult.Conflict, "the approval has changed in the meantime; look at it again")
	}
	if err != nil {
		return authz.Approval{}, toolresult.WrapError(toolresult.PolicyUnavailable, "the approval cannot be written now", err)
	}
	return kept, nil
}

// mayAnswer lets the requester take a question back, and asks the policy about
// everything else.
func (p *path) mayAnswer(ctx context.Context, a authz.Approval, no bool) error {
	if no && a.Statement.Requester == p.req.Principal.Key() {
		p.req.Capability, p.req.Key = a.Statement.Capability, a.Key
		return nil
	}
	return p.mayApprove(ctx, a)
}

// mayApprove asks the policy. Not being allowed and not being there are one
// answer.
func (p *path) mayApprove(ctx context.Context, a authz.Approval) error {
	self := a.Statement.Requester == p.req.Principal.Key()
	if p.req.Principal.Identity().Delegation != nil || self && !p.v.opts.SelfApproval {
		return noApproval()
	}
	p.req.Capability, p.req.Key = a.Statement.Capability, a.Key
	p.target = targetOf(operation.Record{Targets: a.Targets})
	if err := p.lookup(ctx); err != nil {
		return noApproval()
	}
	g, err := authz.Authorize(ctx, p.v.policy, p.question(authz.Approve))
	if toolresult.Code(err) == toolresult.PolicyUnavailable {
		return err
	}
	if err != nil || g.NeedsApproval() {
		p.denied, _ = authz.Why(err)
		return noApproval()
	}
	p.grant = g
	return nil
}

// MayApprove returns an approval if the principal may give it, as [Invoker.Approve]
// would see it: with what a person is to be shown. For everybody else it is
// NOT_FOUND. It records nothing, and what it says may change before Approve. It
// is safe for concurrent use.
func (v *Invoker) MayApprove(ctx context.Context, who authz.Principal, id string) (authz.Approval, error) {
	p := v.start(&InvokeRequest{Principal: who, Surface: "approval"})
	a, err := p.ofTenant(ctx, id)
	if err == nil {
		err = p.mayApprove(ctx, a)
	}
	if err != nil {
		return authz.Approval{}, err
	}
	return a, nil
}

// Approval returns one question, answered or not, to its requester and to
// whoever may answer it: what a page shows. For everybody else it is NOT_FOUND,
// as is one that is not there. It changes nothing and is not recorded.
func (v *Invoker) Approval(ctx context.Context, who authz.Principal, id string) (authz.Approval, error) {
	p := v.start(&InvokeRequest{Principal: who, Surface: "approval"})
	a, err := p.ofTenant(ctx, id)
	if err == nil && a.Statement.Requester != who.Key() {
		err = p.mayApprove(ctx, a)
	}
	if err != nil {
		return authz.Approval{}, err
	}
	return a, nil
}

// ofTenant returns an approval of the caller's tenant, whoever may see it.
func (p *path) ofTenant(ctx context.Context, id string) (authz.Approval, error) {
	if err := p.principal(ctx); err != nil {
		return authz.Approval{}, err
	}
	if p.v.opts.Approvals == nil {
		return authz.Approval{}, noApproval()
	}
	a, err := p.v.opts.Approvals.Approval(ctx, p.req.Principal.Key().Tenant, id)
	switch {
	case toolresult.Code(err) == toolresult.NotFound:
		return authz.Approval{}, noApproval()
	case err != nil:
		return authz.Approval{}, toolresult.WrapError(toolresult.PolicyUnavailable, "the approvals cannot be read now", err)
	}
	return a, nil
}

// Approvals returns what waits for an answer that the principal may give,
// oldest first, at most limit of them. It looks at the tenant's first thousand:
// if more wait and it has found fewer than limit among those, it returns what it
// has found, and RESULT_TOO_LARGE.
func (v *Invoker) Approvals(ctx context.Context, who authz.Principal, limit int) ([]authz.Approval, error) {
	p := v.start(&InvokeRequest{Principal: who, Surface: "approval"})
	if err := p.principal(ctx); err != nil {
		return nil, err
	}
	if v.opts.Approvals == nil {
		return nil, nil
	}
	const most = 1000 // that are looked at
	all, err := v.opts.Approvals.PendingApprovals(ctx, who.Key().Tenant, time.Now(), most+1)
	if err != nil {
		return nil, toolresult.WrapError(toolresult.PolicyUnavailable, "the approvals cannot be read now", err)
	}
	var out []authz.Approval
	for _, a := range all[:min(most, len(all))] {
		if len(out) >= limit {
			return out, nil
		}
		one := v.start(&InvokeRequest{Principal: who, Surface: "approval"})
		switch err := one.mayApprove(ctx, a); {
		case err == nil:
			out = append(out, a)
		case toolresult.Code(err) != toolresult.NotFound:
			return nil, err
		}
	}
	if len(all) > most && len(out) < limit {
		return out, toolresult.NewError(toolresult.ResultTooLarge, "more than a thousand questions wait; those behind them were not looked at")
	}
	return out, nil
}
