package connector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/internal/ledger"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// LookupRequest asks what became of an operation.
type LookupRequest struct {
	CallID       string // as in InvokeRequest
	Principal    authz.Principal
	OperationID  string // of effect.operation_id
	Run, Surface string // as in InvokeRequest
}

// noOperation is the one text for an operation that is not there and one that
// belongs to somebody else.
func noOperation() error {
	return toolresult.NewError(toolresult.NotFound, "there is no such operation, or none that may be seen")
}

// Lookup says what became of an operation of the principal: the step that
// OUTCOME_UNKNOWN and a pending effect ask for. It asks the provider if that is
// not known yet, and never sends the change again. It authorizes like the
// change itself; when that is not allowed any more, it says what is recorded,
// without the output, because an owner may always know what became of its own
// change. It never returns nil.
func (v *Invoker) Lookup(ctx context.Context, req *LookupRequest) *toolresult.Result {
	if req == nil {
		req = &LookupRequest{}
	}
	p := v.start(&InvokeRequest{CallID: req.CallID, Principal: req.Principal, Run: req.Run, Surface: req.Surface})
	return p.finish(ctx, func(ctx context.Context) *toolresult.Result {
		ctx, cancel := context.WithTimeout(ctx, 3*defaultTimeout)
		defer cancel()
		return p.lookUp(ctx, req.OperationID)
	})
}

func (p *path) lookUp(ctx context.Context, id string) *toolresult.Result {
	if err := p.principal(ctx); err != nil {
		return p.refused(err)
	}
	rec, err := p.v.opts.Operations.Get(ctx, p.req.Principal.Key().Tenant, id)
	switch {
	case toolresult.Code(err) == toolresult.NotFound, err == nil && rec.Binding.Requester != p.req.Principal.Key():
		return p.refused(noOperation())
	case err != nil:
		return p.refused(toolresult.WrapError(toolresult.ProviderUnavailable, "the ledger cannot be read now", err))
	}
	return p.resolve(ctx, rec)
}

// resolve asks the provider about a recorded operation, if that can be asked.
func (p *path) resolve(ctx context.Context, rec operation.Record) *toolresult.Result {
	p.req.Capability, p.req.Key = rec.Binding.Capability, rec.Key
	p.req.Connection, p.req.Arguments = rec.Binding.Connection, rec.Arguments
	if err := p.enter(ctx, rec); err != nil {
		p.refused(err) // for audit
		return p.recorded(rec)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*p.cap.limits.Timeout)
	defer cancel()
	return p.outcome(ctx, p.v.ledger.Lookup(ctx, rec, p.terms(), &effector{p: p}), nil)
}

// enter goes the steps of a call for an operation whose arguments and targets
// were checked when it was recorded.
func (p *path) enter(ctx context.Context, rec operation.Record) error {
	for _, do := range []func(context.Context) error{p.lookup, p.access, p.binding} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	p.args, p.digest = rec.Arguments, rec.Binding.Digest
	p.target = targetOf(rec)
	return p.authorize(ctx)
}

func targetOf(rec operation.Record) authz.Target {
	var objects []authz.Object
	for _, id := range rec.Targets {
		objects = append(objects, authz.Object{ResourceID: id})
	}
	if len(objects) == 0 {
		return authz.OnConnection()
	}
	return authz.On(objects...)
}

// recorded says what is in the ledger and nothing more.
func (p *path) recorded(rec operation.Record) *toolresult.Result {
	effect := toolresult.Effect{Disposition: rec.Disposition(), OperationID: rec.ID}
	switch effect.Disposition {
	case toolresult.EffectApplied:
		return withheld(p.req.CallID, rec.ID)
	case toolresult.EffectPending:
		r := toolresult.Partial(p.req.CallID, nil, toolresult.GapOutputWithheld)
		r.Effect = effect
		return r
	case toolresult.EffectNotApplied:
		code := rec.Code
		if code == "" || code == toolresult.OutcomeUnknown {
			code = toolresult.Timeout
		}
		r := toolresult.Failure(p.req.CallID, codeError(code))
		r.Effect = effect
		return r
	}
	return toolresult.UnknownEffect(p.req.CallID, rec.ID)
}

// SettleRequest is a person's word for what became of an operation.
type SettleRequest struct {
	CallID      string          // as in InvokeRequest
	Principal   authz.Principal // who says so; not the operation's owner, and of its tenant
	OperationID string
	Applied     bool // what the person found out: it happened, or it certainly did not
}

// Settle takes a person's word for an operation whose effect is unknown. It is
// authorized like the change itself, and audited. The result says what is
// recorded now; a principal that owns the operation gets CONFLICT, and one that
// may not make such a change NOT_FOUND. It never returns nil.
func (v *Invoker) Settle(ctx context.Context, req *SettleRequest) *toolresult.Result {
	if req == nil {
		req = &SettleRequest{}
	}
	p := v.start(&InvokeRequest{CallID: req.CallID, Principal: req.Principal})
	return p.finish(ctx, func(ctx context.Context) *toolresult.Result {
		ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
		return p.settle(ctx, req)
	})
}

func (p *path) settle(ctx context.Context, req *SettleRequest) *toolresult.Result {
	if err := p.principal(ctx); err != nil {
		return p.refused(err)
	}
	rec, err := p.v.opts.Operations.Get(ctx, p.req.Principal.Key().Tenant, req.OperationID)
	if err != nil {
		if toolresult.Code(err) == toolresult.NotFound {
			err = noOperation()
		}
		return p.refused(err)
	}
	p.req.Capability, p.target = rec.Binding.Capability, targetOf(rec)
	for _, do := range []func(context.Context) error{p.lookup, p.access, p.authorize} {
		if err := do(ctx); err != nil {
			r := p.refused(err) // for audit; the caller is not told what it may not settle
			if toolresult.Code(err) == toolresult.PolicyUnavailable {
				return r
			}
			return toolresult.Failure(p.req.CallID, noOperation())
		}
	}
	if p.req.Principal.Identity().Delegation != nil {
		return toolresult.Failure(p.req.CallID, toolresult.NewError(toolresult.Conflict, "only a person settles an operation, and nobody who acts for one"))
	}
	state := operation.NotApplied
	if req.Applied {
		state = operation.Applied
	}
	settled, err := p.v.ledger.Settle(ctx, rec, state, p.req.Principal.Key())
	if err != nil {
		if toolresult.Code(err) == toolresult.Internal {
			err = toolresult.WrapError(toolresult.Conflict, "the operation has changed in the meantime; look it up again", err)
		}
		return toolresult.Failure(p.req.CallID, err)
	}
	return p.recorded(settled)
}

// Recover looks up at most limit operations that a dead process left behind,
// and returns how many are settled now. It never sends a change. A host calls it
// at intervals; without it, an operation is settled when somebody asks. Those
// that cannot be settled yet do not keep it from the others: the next call goes
// on behind them, and starts again at the end. Nor do records that cannot be
// read: they are the error, and the others are looked up all the same. Without
// Options.Recovery it is UNSUPPORTED, so that nobody believes to be recovering;
// a limit under 1 is INVALID_INPUT.
func (v *Invoker) Recover(ctx context.Context, limit int) (settled int, err error) {
	if v.opts.Recovery == nil {
		return 0, toolresult.NewError(toolresult.Unsupported, "nothing is recovered without Options.Recovery, the authority that vouches for owners")
	}
	if limit < 1 {
		return 0, toolresult.NewError(toolresult.InvalidInput, "the limit is how many operations to look up, at least 1")
	}
	skip := int(v.recovered.Load())
	// Those that somebody works on are among them: the ledger knows when one of
	// them can be looked up.
	recs, err := v.opts.Operations.Unsettled(ctx, time.Now().Add(24*time.Hour), skip+limit)
	if err != nil && len(recs) == 0 {
		v.recovered.Store(int64(skip + limit)) // some may lie behind those that cannot be read
		return 0, err
	}
	if len(recs) <= skip { // the end: from the start again
		skip = 0
		recs = recs[:min(limit, len(recs))]
	}
	recs = recs[skip:]
	failed := []error{err}
	for _, rec := range recs {
		if ctx.Err() != nil {
			return settled, errors.Join(append(failed, context.Cause(ctx))...)
		}
		ok, err := v.recover(ctx, rec)
		if err != nil {
			failed = append(failed, fmt.Errorf("operation %s: %w", rec.ID, err))
		}
		if ok {
			settled++
		}
	}
	v.recovered.Store(int64(skip + len(recs) - settled))
	return settled, errors.Join(failed...)
}

// recover looks one operation up, as its owner's deputy.
func (v *Invoker) recover(ctx context.Context, rec operation.Record) (settled bool, err error) {
	owner, until := rec.Binding.Requester, time.Now().Add(time.Hour)
	who, err := v.opts.Recovery.Principal(authz.Identity{
		Tenant: owner.Tenant, Issuer: owner.Issuer, Subject: owner.Subject,
		Delegation: &authz.Delegation{Actor: "recovery", Expires: until}, Expires: until,
	})
	if err != nil {
		return false, err
	}
	p := v.start(&InvokeRequest{Principal: who, Surface: "recovery"})
	r := p.finish(ctx, func(ctx context.Context) *toolresult.Result { return p.resolve(ctx, rec) })
	return r.Effect.Disposition == toolresult.EffectApplied || r.Effect.Disposition == toolresult.EffectNotApplied, nil
}

var _ ledger.Effector = (*effector)(nil)
