package functioncall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// An Outcome is one call and its result.
type Outcome struct {
	Call   Call
	Result *toolresult.Result
}

// A Turn is what came of the calls of one answer, in its order.
type Turn struct {
	Outcomes []Outcome

	// Outputs are what the vendor wants to hear, one for each call in the order of
	// the calls: function_call_output items for the next input, messages of the
	// role tool, or the blocks or parts with which the content of the next message
	// begins, all in one message.
	Outputs []json.RawMessage
}

// maxParallel bounds how many reads of one answer run at the same time.
const maxParallel = 8

// Dispatch performs the calls in a model's answer for the principal; see
// [ParseCalls] for what text is. An answer without calls gives an empty Turn.
//
// Failures of calls are their results. The errors are those of ParseCalls, before
// anything has run. If ctx ends, the calls that have not run are CANCELLED.
// opts may be nil.
func Dispatch(ctx context.Context, inv *connector.Invoker, who authz.Principal, v Vendor, text []byte, opts *Options) (*Turn, error) {
	if err := v.check(inv); err != nil {
		return nil, err
	}
	calls, err := ParseCalls(v, text)
	if err != nil {
		return nil, err
	}
	d := &dispatch{vendor: v, inv: inv, who: who, opts: complete(opts), seen: map[string]*connector.Declaration{}}
	if len(calls) > 0 {
		d.look(ctx)
	}
	results := d.run(ctx, calls)
	turn := &Turn{Outputs: []json.RawMessage{}}
	for i, c := range calls {
		output, err := d.output(v, c, results[i])
		if err != nil {
			return nil, err
		}
		turn.Outcomes = append(turn.Outcomes, Outcome{c, results[i]})
		turn.Outputs = append(turn.Outputs, output)
	}
	return turn, nil
}

type dispatch struct {
	vendor Vendor
	inv    *connector.Invoker
	who    authz.Principal
	opts   Options
	seen   map[string]*connector.Declaration // what the principal sees; empty if that cannot be found out
	writes bool
}

// look finds out what kinds of calls there are. It decides nothing: Invoke does.
func (d *dispatch) look(ctx context.Context) {
	visible, err := see(ctx, d.inv, d.who, &d.opts)
	if err != nil {
		return // each call then says so
	}
	for i := range visible {
		d.seen[visible[i].Name] = &visible[i]
		d.writes = d.writes || visible[i].Kind == connector.KindWrite
	}
}

// run performs calls in order: neighbouring reads at the same time, everything
// else by itself.
func (d *dispatch) run(ctx context.Context, calls []Call) []*toolresult.Result {
	out := make([]*toolresult.Result, len(calls))
	var wg sync.WaitGroup
	free := make(chan struct{}, maxParallel)
	for i, c := range calls {
		if !d.reads(c) {
			wg.Wait()
			out[i] = d.one(ctx, c)
			continue
		}
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			out[i] = d.one(ctx, c)
		})
	}
	wg.Wait()
	return out
}

func (d *dispatch) reads(c Call) bool {
	decl := d.seen[c.Capability]
	return decl != nil && decl.Kind != connector.KindWrite
}

func (d *dispatch) one(ctx context.Context, c Call) *toolresult.Result {
	if ctx.Err() != nil {
		return toolresult.Failure(c.ID, ctx.Err())
	}
	switch {
	case c.cut:
		return toolresult.Failure(c.ID, toolresult.NewError(toolresult.InvalidInput, "the call is not complete; make it again"))
	case c.Tool == StatusTool && d.writes:
		return d.lookUp(ctx, c)
	}
	args, err := d.arguments(c)
	if err != nil {
		return toolresult.Failure(c.ID, err)
	}
	req := &connector.InvokeRequest{CallID: c.ID, Principal: d.who, Capability: c.Capability, Arguments: args,
		Profile: d.opts.Profile, Run: d.opts.Run, Surface: surface}
	if decl := d.seen[c.Capability]; decl != nil && decl.Kind == connector.KindWrite && d.opts.OperationID != nil {
		asked := c
		asked.Arguments = bytes.Clone(c.Arguments)
		req.Key = d.opts.OperationID(ctx, &asked)
	}
	if d.opts.Progress != nil {
		req.Progress = func(p connector.Progress) { d.opts.Progress(c.ID, p) }
	}
	return d.inv.Invoke(ctx, req)
}

// arguments undoes what the projection of the schema did to them. What cannot be
// read is left to Invoke.
func (d *dispatch) arguments(c Call) (json.RawMessage, error) {
	decl := d.seen[c.Capability]
	if decl == nil {
		return c.Arguments, nil
	}
	p, _, err := d.vendor.project(c.Tool, decl.Input, d.opts.Strict)
	if err != nil {
		return c.Arguments, nil // it was not offered
	}
	return p.Back(c.Arguments)
}

func (d *dispatch) lookUp(ctx context.Context, c Call) *toolresult.Result {
	v, err := strictjson.Parse(c.Arguments)
	m, _ := v.(map[string]any)
	id, _ := m["operation_id"].(string)
	if err != nil || len(m) != 1 || id == "" {
		return toolresult.Failure(c.ID, toolresult.NewError(toolresult.InvalidInput, "the arguments do not fit").
			With("/operation_id", "want the operation_id of a result's effect, and nothing else"))
	}
	return d.inv.Lookup(ctx, &connector.LookupRequest{CallID: c.ID, Principal: d.who, OperationID: id, Run: d.opts.Run, Surface: surface})
}

// output is what the vendor hears about a call.
func (d *dispatch) output(v Vendor, c Call, r *toolresult.Result) (json.RawMessage, error) {
	text, err := d.opts.text(r)
	if err != nil {
		return nil, errors.New("functioncall: a result cannot be written as JSON")
	}
	return v.answer(c, text, r.Status == toolresult.StatusError)
}
