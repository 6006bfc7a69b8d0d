package connector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/internal/evidence"
	"github.com/drawbridge-sdk/drawbridge/internal/ledger"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// write runs a capability that changes something: render, approval, record,
// send, receipt.
func (p *path) write(ctx context.Context) *toolresult.Result {
	if err := p.findKey(ctx); err != nil {
		return toolresult.Failure(p.req.CallID, err)
	}
	intent := p.intent()
	p.began = intent.ID
	old, err := p.v.opts.Operations.Get(ctx, intent.Binding.Requester.Tenant, intent.ID)
	switch {
	case err == nil && old.State != operation.Prepared:
		// It was begun. Nothing is rendered or approved again: a connector that
		// reads before it writes would now see the first attempt's own effect.
		intent.Request, intent.Approval, intent.ApprovalEnds = old.Request, old.Approval, old.ApprovalEnds
		if p.needsApproval() != "" && old.Approval == "" {
			p.lookOnly = true // what was sent without an approval is not sent again where one is needed now
		}
	case err == nil, toolresult.Code(err) == toolresult.NotFound:
		if err == nil {
			intent.PreparedAt = old.PreparedAt
		}
		if r := p.prepare(ctx, &intent); r != nil {
			return r
		}
	default:
		// An earlier call with the same key may have sent it, and the ledger
		// that would know is silent.
		p.violation = ""
		return toolresult.UnknownEffect(p.req.CallID, intent.ID)
	}
	out, err := p.v.ledger.Do(ctx, intent, p.terms(), &effector{p: p})
	return p.outcome(ctx, out, err)
}

// intent is what the ledger records of the call.
func (p *path) intent() operation.Record {
	owner := p.req.Principal.Key()
	objects, _ := p.target.Objects()
	var targets []authz.ResourceID
	var names, versions []string
	for _, o := range objects {
		targets = append(targets, o.ResourceID)
		names = append(names, o.Type, o.ID)
		versions = append(versions, o.Version)
	}
	class := []string{owner.Tenant, owner.Issuer, owner.Subject, p.conn.ID, p.cap.decl.Name}
	for _, id := range sortedSet(targets) { // in whatever order, and however often, they are named
		class = append(class, id.Type, id.ID)
	}
	rec := operation.Record{
		Operation: operation.Operation{ID: ledger.ID(owner, p.req.Key), Key: p.req.Key, PreparedAt: time.Now().UTC()},
		Binding: authz.Binding{
			Digest: p.digest, Capability: p.cap.decl.Name, Version: p.cap.info.Version, Targets: strictjson.Digest(names...),
			Requester: owner, Connection: p.conn.ID, Revision: p.grant.Revision(),
		},
		Intent: strictjson.Digest(class...), Targets: targets, Arguments: p.args,
	}
	if strings.Join(versions, "") != "" {
		rec.Binding.Versions = strictjson.Digest(versions...)
	}
	return rec
}

func sortedSet(ids []authz.ResourceID) []authz.ResourceID {
	out := slices.Clone(ids)
	slices.SortFunc(out, func(a, b authz.ResourceID) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.ID, b.ID))
	})
	return slices.Compact(out)
}

func (p *path) terms() ledger.Terms {
	d := p.cap.decl
	t := ledger.Terms{Deadline: p.cap.limits.Timeout, Settle: d.Settle, Replay: d.Idempotency.Window, Blind: !d.Reconcilable, Local: p.local()}
	if d.Idempotency.Natural && t.Replay == 0 {
		t.Replay = naturalReplay
	}
	if p.lookOnly {
		t.Replay = 0
	}
	return t
}

// naturalReplay is how long a change that is idempotent by its nature may be
// repeated: long enough for an outage, short enough that the state it sets is
// still what somebody wants.
const naturalReplay = time.Hour

// needsApproval says why a person must approve, or nothing.
func (p *path) needsApproval() string {
	switch {
	case p.cap.decl.Approval == ApprovalAlways:
		return "the declaration asks for approval, always"
	case !p.cap.decl.Reconcilable:
		return "a change that cannot be looked up always asks for approval"
	case p.grant.NeedsApproval():
		return "the policy asks for approval"
	}
	return ""
}

// prepare renders the change and asks for what it needs before it is recorded.
// It returns nil if the change can be sent.
func (p *path) prepare(ctx context.Context, intent *operation.Record) *toolresult.Result {
	g := &renderer{}
	s := p.state(ctx, rendering)
	s.op, s.gate = intent.Operation, g
	r, err := guard(ctx, p.v, func() (*toolresult.Result, error) { return p.cap.invoke(ctx, &Call{s}) })
	seen := s.close()
	p.unsent(s)
	draft, twice, outside := g.rendered()
	p.drafted = draft
	switch {
	case twice:
		p.violation = "a write makes more than one change"
		return toolresult.Failure(p.req.CallID, codeError(toolresult.ContractViolation))
	case s.breach != "":
		p.violation = s.breach
		return toolresult.Failure(p.req.CallID, codeError(toolresult.ContractViolation))
	case outside:
		intent.Request = p.digest
	case draft != nil:
		intent.Request = draft.digest()
	case err == nil && r != nil && r.Status != toolresult.StatusError:
		intent.Request = neverRendered
		return p.receiptFromNowhere(ctx, *intent)
	default:
		return p.nothingRendered(r, err, seen)
	}
	if p.needsApproval() == "" && p.req.Approval == "" {
		return nil
	}
	if err := p.approve(ctx, intent, draft); err != nil {
		return toolresult.Failure(p.req.CallID, err)
	}
	return nil
}

// nothingRendered is the result of a write that ended before it would have
// changed something.
func (p *path) nothingRendered(r *toolresult.Result, err error, seen []seen) *toolresult.Result {
	claim := evidence.Failed
	if err == nil && r == nil {
		claim = evidence.Nothing
	}
	if err == nil && r != nil {
		err = tame(r.Err()).orNil()
	}
	f := evidence.Judge(evidence.Case{Step: evidence.Read, Claim: claim, Code: codeOf(err), Exchanges: exchanges(seen), Local: true})
	if p.violation = f.Violation; f.Violation == "neither an answer nor an error" {
		p.violation = "neither a receipt nor an error"
	}
	return toolresult.Failure(p.req.CallID, p.failure(f.Code, err, seen))
}

// neverRendered is the digest of no request: nothing is ever sent for it.
const neverRendered = "none"

// receiptFromNowhere records a change that a connector claims and that its
// transport did not see. It may have been made behind our back, so it is not
// run again and its effect is unknown.
func (p *path) receiptFromNowhere(ctx context.Context, intent operation.Record) *toolresult.Result {
	out, err := p.v.ledger.Do(ctx, intent, p.terms(), claimed{})
	return p.outcome(ctx, out, err)
}

// claimed is an effector of a connector that has already claimed an effect.
type claimed struct{}

func (claimed) Send(context.Context, *ledger.Attempt) ledger.Claim {
	return ledger.Claim{Kind: evidence.Applied}
}

func (claimed) Look(context.Context, operation.Record) (ledger.Claim, []evidence.Exchange) {
	return ledger.Claim{}, nil
}

// errRendered ends the run that renders: the change was recorded, not sent.
var errRendered = errors.New("connector: the change was rendered, and is not sent in this run")

// renderer is the gate of the run that renders.
type renderer struct {
	mu    sync.Mutex
	draft *draft
	byHow bool // it would leave by another way
	twice bool
}

func (g *renderer) commit(_ context.Context, d draft) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.byHow, g.draft != nil && g.draft.digest() != d.digest():
		g.twice = true
	case g.draft == nil:
		g.draft = &d
	}
	return errRendered
}

func (g *renderer) outside(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.twice = g.twice || g.draft != nil
	g.byHow = true
	return errRendered
}

func (*renderer) saw(evidence.Exchange) {}

func (*renderer) object(context.Context, string) error { return nil }

func (g *renderer) rendered() (d *draft, twice, outside bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.draft, g.twice, g.byHow
}

// sender is the gate of the run that sends.
type sender struct {
	p       *path
	attempt *ledger.Attempt
}

// commit is the last door: the grant and the binding still hold, the intent is
// in the audit log, the dispatch is in the ledger, in this order.
func (g *sender) commit(ctx context.Context, d draft) error {
	if was := g.p.drafted; was != nil && was.digest() != d.digest() {
		g.p.violation = "Send made another request when it was sent than when it was rendered: its " + was.differs(d) + "; take ids and times from the operation"
	}
	return g.leave(ctx, d.digest(), false)
}

func (g *sender) outside(ctx context.Context) error { return g.leave(ctx, g.p.digest, true) }

func (g *sender) leave(ctx context.Context, digest string, outside bool) error {
	if err := g.p.current(ctx); err != nil {
		return err
	}
	if g.p.v.opts.Audit != nil {
		e := g.p.event()
		e.Request = digest
		if err := g.p.v.opts.Audit.Record(ctx, e); err != nil {
			return toolresult.WrapError(toolresult.PolicyUnavailable, "the audit log cannot be written, so nothing was sent", err)
		}
	}
	return g.attempt.Dispatch(ctx, digest, outside)
}

func (g *sender) saw(x evidence.Exchange) { g.attempt.Saw(x) }

func (g *sender) object(ctx context.Context, providerID string) error {
	return g.attempt.Object(ctx, providerID)
}

// effector joins the ledger, the transport and the connector's code.
type effector struct{ p *path }

// Send implements ledger.Effector.
func (e *effector) Send(ctx context.Context, a *ledger.Attempt) ledger.Claim {
	p := e.p
	ctx, cancel := context.WithTimeout(ctx, p.cap.limits.Timeout)
	defer cancel()
	s := p.state(ctx, sending)
	s.op, s.gate = a.Record().Operation, &sender{p, a}
	r, err := guard(ctx, p.v, func() (*toolresult.Result, error) { return p.cap.invoke(ctx, &Call{s}) })
	p.lastSeen = s.close() // for the error of the result
	p.lastErr, _ = err.(*failed)
	p.unsent(s)
	return p.claim(ctx, s, r, err)
}

// Look implements ledger.Effector.
func (e *effector) Look(ctx context.Context, rec operation.Record) (ledger.Claim, []evidence.Exchange) {
	p := e.p
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cap.limits.Timeout)
	defer cancel()
	s := p.state(ctx, reading)
	s.op, s.args = rec.Operation, rec.Arguments
	c, ok := p.cap.connector.(ConnectorWithLookup)
	if !ok {
		return ledger.Claim{}, nil
	}
	r, err := guard(ctx, p.v, func() (*toolresult.Result, error) { return c.Lookup(ctx, &Call{s}) })
	seen := s.close()
	claim := p.claim(ctx, s, r, err)
	switch claim.Kind {
	case evidence.Applied:
		claim.Kind = evidence.Happened
	case evidence.Accepted:
		claim.Kind = evidence.StillPending
	case evidence.Failed:
		if err == nil && r != nil && r.Effect.Disposition == toolresult.EffectNotApplied {
			claim.Kind = evidence.DidNotHappen
		}
	}
	return claim, exchanges(seen)
}

// receipt is what the ledger keeps of an answer: what may be shown, and what is
// missing from it.
type receipt struct {
	Data      json.RawMessage       `json:"data,omitempty"`
	DataRef   string                `json:"data_ref,omitempty"`
	Missing   []toolresult.Gap      `json:"missing,omitempty"`
	Truncated bool                  `json:"truncated,omitempty"`
	Summary   string                `json:"summary,omitempty"`
	Source    toolresult.Provenance `json:"source"`
}

// claim names what a connector's code returned about a change. What the receipt
// holds is filtered before it is recorded: what never leaves is not kept either.
func (p *path) claim(ctx context.Context, s *state, r *toolresult.Result, err error) ledger.Claim {
	s.mu.Lock()
	c := ledger.Claim{ProviderID: short(s.said.providerID, longestFact)}
	s.mu.Unlock()
	switch {
	case err != nil && r == nil:
		c.Kind, c.Code = evidence.Failed, codeOf(err)
	case r == nil, err != nil: // neither, or both: nobody knows which is meant
		c.Kind = evidence.Nothing
	case r.Status == toolresult.StatusError:
		c.Kind, c.Code = evidence.Failed, codeOf(r.Err())
	case r.Effect.Disposition == toolresult.EffectApplied:
		c.Kind, c.Output = evidence.Applied, p.receipt(ctx, r)
	case r.Effect.Disposition == toolresult.EffectPending:
		c.Kind = evidence.Accepted
	case r.Effect.Disposition == toolresult.EffectNotApplied:
		c.Kind = evidence.Failed
	}
	return c
}

// receipt is nil if what the connector returned may not be shown.
func (p *path) receipt(ctx context.Context, r *toolresult.Result) json.RawMessage {
	r = p.rebuilt(r)
	if err := p.filter(context.WithoutCancel(ctx), r); err != nil {
		return nil
	}
	out, err := json.Marshal(receipt{r.Data, r.DataRef, r.Coverage.Missing, r.Truncated, r.Summary, r.Provenance})
	if err != nil {
		return nil
	}
	return out
}

// outcome turns what the ledger knows into a result. An effect is never
// reported as a failure of its output.
func (p *path) outcome(ctx context.Context, out ledger.Outcome, err error) *toolresult.Result {
	if out.Violation != "" {
		p.violation = out.Violation
	}
	rec := out.Record
	if rec.ID == "" {
		if err == nil {
			err = codeError(toolresult.Internal)
		}
		return toolresult.Failure(p.req.CallID, err)
	}
	switch d := rec.Disposition(); d {
	case toolresult.EffectApplied:
		return p.applied(ctx, rec)
	case toolresult.EffectPending:
		r := toolresult.Complete(p.req.CallID, json.RawMessage("null"))
		r.Effect = toolresult.Effect{Disposition: d, OperationID: rec.ID}
		p.provenance(r, p.lastSeen)
		return r
	case toolresult.EffectNotApplied:
		if err == nil {
			err = p.lastErr.orNil()
		}
		e := p.failure(out.Code, err, p.lastSeen)
		r := toolresult.Failure(p.req.CallID, e)
		r.Effect = toolresult.Effect{Disposition: d, OperationID: rec.ID}
		return r
	}
	r := toolresult.UnknownEffect(p.req.CallID, rec.ID)
	if f := p.lastErr; f != nil {
		r.Error = toolresult.WrapError(r.Error.Code, r.Error.Message, f.cause)
	}
	r.Error.Diagnostics = p.failure(toolresult.OutcomeUnknown, nil, p.lastSeen).Diagnostics
	return r
}

// applied delivers a receipt, or withholds it if it may not be shown.
func (p *path) applied(ctx context.Context, rec operation.Record) *toolresult.Result {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cap.limits.Timeout)
	defer cancel()
	var kept receipt
	if rec.Output == nil || json.Unmarshal(rec.Output, &kept) != nil || p.current(ctx) != nil || kept.Data == nil && kept.DataRef == "" {
		w := withheld(p.req.CallID, rec.ID)
		w.Provenance.Object = rec.ProviderID
		p.provenance(w, p.lastSeen)
		return w
	}
	r := toolresult.Complete(p.req.CallID, kept.Data)
	r.DataRef, r.Summary, r.Provenance, r.Truncated = kept.DataRef, kept.Summary, kept.Source, kept.Truncated
	r.Effect = toolresult.Effect{Disposition: toolresult.EffectApplied, OperationID: rec.ID}
	for _, g := range kept.Missing {
		addGap(r, g)
	}
	if r.Provenance.Object == "" {
		r.Provenance.Object = rec.ProviderID
	}
	p.provenance(r, p.lastSeen)
	return r
}

// withheld is a change that was made and whose output cannot be shown.
func withheld(callID, operationID string) *toolresult.Result {
	r := toolresult.Partial(callID, nil, toolresult.GapOutputWithheld)
	r.Effect = toolresult.Effect{Disposition: toolresult.EffectApplied, OperationID: operationID}
	return r
}
