package connector

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// deliver completes an answer that is believed, and withholds it if what made
// it is no longer so. The result is built anew from what a connector may say.
func (p *path) deliver(ctx context.Context, s *state, r *toolresult.Result, seen []seen) (*toolresult.Result, error) {
	if err := p.current(ctx); err != nil {
		return nil, err
	}
	r = p.rebuilt(r)
	if err := p.nextPage(s, r, seen); err != nil {
		return nil, err
	}
	if _, whole := p.target.Objects(); whole && !p.grant.Scope().Whole() && !p.local() {
		addGap(r, toolresult.GapVisibilityLimited)
	}
	p.provenance(r, seen)
	return r, p.filter(ctx, r)
}

const (
	longestSummary = 1 << 10 // bytes
	longestFact    = 2 << 10 // bytes of each text of a provenance
	mostSources    = 64
)

// rebuilt copies what a connector may say about an answer, within bounds, so
// that nothing of its own is in the result and nothing can be changed later.
func (p *path) rebuilt(r *toolresult.Result) *toolresult.Result {
	o := r.Provenance
	out := &toolresult.Result{
		CallID: p.req.CallID, Status: r.Status, Summary: short(r.Summary, longestSummary), Data: slices.Clone(r.Data), DataRef: r.DataRef,
		Coverage:  toolresult.Coverage{Complete: r.Coverage.Complete, Missing: slices.Clone(r.Coverage.Missing)},
		Effect:    toolresult.Effect{Disposition: toolresult.EffectNone},
		Truncated: r.Truncated, NextCursor: r.NextCursor,
		Provenance: p.facts(o),
	}
	trust := p.v.opts.Trust[p.cap.info.ID]
	for _, o := range o.Sources[:min(len(o.Sources), mostSources)] {
		source := p.facts(o)
		source.Service, source.FetchedAt, source.RequestID = short(o.Service, longestFact), o.FetchedAt, short(o.RequestID, longestFact)
		source.Trust = min(lowest(&o, 0), trust)
		out.Provenance.Sources = append(out.Provenance.Sources, source)
	}
	return out
}

// lowest is the trust of a source and of all that it joins. What is nested too
// deeply to be looked at is not trusted.
func lowest(o *toolresult.Provenance, depth int) toolresult.Trust {
	if depth > 8 {
		return toolresult.Untrusted
	}
	trust := o.Trust
	for i := range o.Sources {
		trust = min(trust, lowest(&o.Sources[i], depth+1))
	}
	return trust
}

// facts are what a connector may say about where an answer came from.
func (p *path) facts(o toolresult.Provenance) toolresult.Provenance {
	return toolresult.Provenance{Object: short(o.Object, longestFact), Version: short(o.Version, longestFact), URL: short(o.URL, longestFact), Window: o.Window}
}

func short(s string, limit int) string {
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}

// current asks again whether what was granted still holds.
func (p *path) current(ctx context.Context) error {
	if !vouched(p.v.trusted, p.req.Principal) && !(p.v.opts.Recovery != nil && p.v.opts.Recovery.Vouches(p.req.Principal)) {
		return toolresult.NewError(toolresult.AuthenticationRequired, "the caller's identity is over")
	}
	if !p.resolved.Handle.IsZero() {
		if err := p.v.opts.Credentials.Check(ctx, p.resolved.Handle); err != nil {
			return err
		}
	}
	return p.grant.Check(ctx)
}

func addGap(r *toolresult.Result, gap toolresult.Gap) {
	if slices.Contains(r.Coverage.Missing, gap) {
		return
	}
	r.Status = toolresult.StatusPartial
	r.Coverage = toolresult.Coverage{Missing: append(slices.Clone(r.Coverage.Missing), gap)}
}

// nextPage compares what a page says comes next with what the provider said,
// and seals the way there.
func (p *path) nextPage(s *state, r *toolresult.Result, seen []seen) error {
	if p.cap.decl.Kind != KindList {
		r.NextCursor = ""
		return nil
	}
	next, before := s.said.next, s.said.offset
	if next.IsZero() { // made by hand: the result says it
		next = cursor.End()
		if offset, err := p.page.Offset(); err == nil {
			before = offset
		} else {
			before = -1
		}
		if r.NextCursor != "" {
			next = cursor.At(r.NextCursor)
		} else if !r.Coverage.Complete {
			next = cursor.Cut()
		}
	}
	if next.AtEnd() && p.more(seen, before) {
		p.violation = "a page says that it is the last, and the provider says that there is more"
		return codeError(toolresult.ContractViolation)
	}
	r.NextCursor = ""
	if _, more := next.Token(); !more {
		return nil
	}
	sealed, err := p.v.opts.Cursors.Seal(p.cursorBinding(), next)
	if err != nil {
		return toolresult.WrapError(toolresult.Internal, "the cursor cannot be sealed", err)
	}
	r.NextCursor = sealed
	addGap(r, toolresult.GapRemainingPages)
	return nil
}

// more reports whether the last good answer of any route says that the listing
// goes on: a connector that asks for details afterwards hides nothing.
func (p *path) more(seen []seen, before int) bool {
	signal := p.cap.decl.More.From(before)
	asked := map[string]bool{}
	for _, x := range slices.Backward(seen) {
		on := p.cap.decl.MoreOn
		if x.answer == nil || !x.Ruling.OK || asked[x.answer.Route] || on != "" && on != x.answer.Route {
			continue
		}
		asked[x.answer.Route] = true
		if more, known := signal.More(x.answer); more && known {
			return true
		}
	}
	return false
}

func (p *path) provenance(r *toolresult.Result, seen []seen) {
	o := &r.Provenance
	o.Service, o.Trust = p.cap.info.ID, p.v.opts.Trust[p.cap.info.ID]
	for _, x := range slices.Backward(seen) {
		if x.Phase == egress.PhaseAnswered && x.Ruling.OK {
			o.FetchedAt, o.RequestID = x.at.UTC().Truncate(time.Millisecond), x.Ruling.RequestID
			break
		}
	}
	for i := range o.Sources {
		o.Trust = min(o.Trust, o.Sources[i].Trust)
	}
}

// filter applies the output policy and the limits.
func (p *path) filter(ctx context.Context, r *toolresult.Result) (err error) {
	if r.Data, err = exclude(r.Data, p.cap.info.Exclude); err != nil {
		return err
	}
	switch first := firstByte(r.Data); {
	case r.Data != nil && !json.Valid(r.Data):
		p.violation = "an answer that is not JSON"
		return codeError(toolresult.ContractViolation)
	case p.cap.decl.Kind == KindList && r.DataRef == "" && first != '[' && first != 'n':
		p.violation = "a listing that is no array"
		return codeError(toolresult.ContractViolation)
	}
	if p.cap.output != nil && string(r.Data) != "null" && r.DataRef == "" {
		if err := p.cap.output.Check(r.Data); err != nil {
			p.violation = "an answer that does not fit the declared output"
			return toolresult.WrapError(toolresult.ContractViolation, "the answer does not have the declared form", err)
		}
	}
	if r.DataRef != "" {
		p.violation = "a connector names an artifact of its own"
		return codeError(toolresult.ContractViolation)
	}
	if int64(len(r.Data)) > p.cap.limits.Bytes {
		return p.keep(ctx, r)
	}
	return nil
}

func firstByte(data json.RawMessage) byte {
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 {
		return text[0]
	}
	return 0
}

// seal makes the result of a call one that Validate accepts, whatever happened.
func (p *path) seal(r *toolresult.Result) *toolresult.Result {
	r.CallID = p.req.CallID
	if r.Error != nil { // which may be shared: somebody else's constant
		e := *r.Error
		e.Retryable = e.Code.Info().Retryable && r.Effect.Disposition != toolresult.EffectUnknown
		r.Error = &e
	}
	err := r.Validate(&toolresult.ValidateOptions{ReadOnly: p.cap != nil && p.cap.decl.Kind != KindWrite})
	if err == nil {
		return r
	}
	p.violation = strings.TrimSpace(p.violation + " the result contradicts itself")
	switch op := r.Effect.OperationID; r.Effect.Disposition {
	case toolresult.EffectNone, toolresult.EffectNotApplied:
		return toolresult.Failure(p.req.CallID, toolresult.WrapError(toolresult.ContractViolation, "the connector's result contradicts itself", err))
	case toolresult.EffectApplied:
		return withheld(p.req.CallID, op)
	default:
		return toolresult.UnknownEffect(p.req.CallID, op)
	}
}
