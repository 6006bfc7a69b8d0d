package mcpadapter

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// OperationMeta is the member of _meta that carries the operation key of a
// change.
const OperationMeta = "drawbridge.dev/operation"

// call runs one tool for one caller. t is nil if what the caller sees could not
// be found out; Invoke then says so. Every failure of the call is an envelope;
// the errors are the protocol's.
func (a *Adapter) call(ctx context.Context, req *mcp.CallToolRequest, who authz.Principal, t *tool) (_ *result, err error) {
	defer a.recovered(ctx, &err)
	if t != nil && t.tool.Name == StatusTool {
		return a.result(ctx, req, a.lookUp(ctx, req.Params.Arguments, who))
	}
	key, err := a.operationKey(ctx, req.Params, who, t)
	if err != nil {
		return nil, err
	}
	carried, _ := req.Params.Meta[OperationMeta].(string)
	d, err := newDialogue(ctx, a, req, who, req.Params.Name, req.Params.Arguments, params{method: "tools/call", name: req.Params.Name,
		responses: req.Params.InputResponses, state: req.Params.RequestState, operation: carried})
	if err != nil {
		return nil, err
	}
	r, ask, err := d.run(ctx, func(ctx context.Context, args json.RawMessage, approval string) *toolresult.Result {
		progress := a.newProgress(ctx, req)
		defer progress.end()
		return a.inv.Invoke(ctx, &connector.InvokeRequest{
			Principal: who, Capability: req.Params.Name, Arguments: args,
			Profile: a.profile(ctx, who), Key: key, Approval: approval, Surface: surface, Progress: progress.report(),
		})
	})
	if ask != nil {
		return &result{needs: ask}, nil
	}
	if err != nil {
		if r, err = asResult(err); err != nil {
			return nil, err
		}
	}
	return a.result(ctx, req, r)
}

// result is what a call answers with.
func (a *Adapter) result(ctx context.Context, req *mcp.CallToolRequest, r *toolresult.Result) (*result, error) {
	if r.Error != nil && r.Error.Code == toolresult.CapabilityUnknown && r.Effect.Disposition == toolresult.EffectNone {
		return nil, unknownTool()
	}
	envelope, err := r.AppendJSON(make([]byte, 0, len(r.Data)+1024))
	if err != nil {
		return nil, internalError()
	}
	content, err := a.content(ctx, req.Params.Name, r)
	if err != nil {
		return nil, err
	}
	return &result{
		content:  content,
		text:     r.Text(&toolresult.TextOptions{MaxBytes: a.opts.MaxTextBytes}),
		envelope: envelope,
		isError:  r.Status == toolresult.StatusError,
		complete: req.ProtocolVersion() >= modernVersion,
	}, nil
}

// A result is an envelope on the wire: the CallToolResult of the specification,
// written in one go.
type result struct {
	mcp.ResultBase
	text     string
	envelope json.RawMessage
	isError  bool
	content  []byte // further blocks, each behind a comma
	needs    *needs // instead of everything else
	complete bool   // revision 2026-07-28 wants to be told
}

// MarshalJSON implements [json.Marshaler].
func (r *result) MarshalJSON() ([]byte, error) {
	if r.needs != nil {
		return r.needs.json(r.GetMeta())
	}
	var meta []byte
	if m := r.GetMeta(); len(m) > 0 {
		var err error
		if meta, err = marshal(m); err != nil {
			return nil, err
		}
	}
	return r.appendJSON(make([]byte, 0, len(r.envelope)+len(r.text)+len(r.text)/4+512), meta)
}

// appendJSON appends the result with the given _meta, nil for none.
func (r *result) appendJSON(out, meta []byte) ([]byte, error) {
	text, err := json.Marshal(r.text)
	if err != nil {
		return nil, err
	}
	out = append(out, `{"content":[{"type":"text","text":`...)
	out = append(out, text...)
	out = append(append(out, '}'), r.content...)
	out = append(out, `],"structuredContent":`...)
	out = append(out, r.envelope...)
	if r.isError {
		out = append(out, `,"isError":true`...)
	}
	if r.complete {
		out = append(out, `,"resultType":"complete"`...)
	}
	if meta != nil {
		out = append(append(out, `,"_meta":`...), meta...)
	}
	return append(out, '}'), nil
}

// content returns what the host adds to a result, for the end of its list. What
// is over the limit is left out whole, and that is said.
func (a *Adapter) content(ctx context.Context, name string, r *toolresult.Result) ([]byte, error) {
	if a.opts.Content == nil || r.Status == toolresult.StatusError {
		return nil, nil
	}
	var out []byte
	for _, c := range a.opts.Content(ctx, name, r) {
		text, err := json.Marshal(c)
		if err != nil {
			return nil, a.failed(ctx, "content of the host cannot be written", err)
		}
		if int64(len(out)+len(text)) > a.maxContents() {
			return append(out, `,{"type":"text","text":"Further content was left out: it is over the limit of one answer."}`...), nil
		}
		out = append(append(out, ','), text...)
	}
	return out, nil
}

// operationKey is the runtime's key of a change: the call's own, or else the
// host's.
func (a *Adapter) operationKey(ctx context.Context, p *mcp.CallToolParamsRaw, who authz.Principal, t *tool) (string, error) {
	if v, ok := p.Meta[OperationMeta]; ok {
		key, ok := v.(string)
		if !ok || key == "" {
			return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "_meta: " + OperationMeta + " is not a string with something in it"}
		}
		return key, nil
	}
	if t == nil || !t.write || a.opts.OperationID == nil {
		return "", nil
	}
	return a.opts.OperationID(ctx, &Change{Principal: who, Capability: p.Name, Arguments: bytes.Clone(p.Arguments)}), nil
}

func (a *Adapter) lookUp(ctx context.Context, args json.RawMessage, who authz.Principal) *toolresult.Result {
	id, err := operationID(args)
	if err != nil {
		return toolresult.Failure(newCallID(), err)
	}
	return a.inv.Lookup(ctx, &connector.LookupRequest{Principal: who, OperationID: id, Surface: surface})
}

// operationID reads the one argument of [StatusTool].
func operationID(args json.RawMessage) (string, error) {
	v, err := strictjson.Parse(args)
	m, _ := v.(map[string]any)
	id, ok := m["operation_id"].(string)
	if err != nil || !ok || len(m) != 1 || id == "" || len(id) > maxOperationID {
		return "", toolresult.NewError(toolresult.InvalidInput, "the arguments do not fit").
			With("/operation_id", "want the operation_id of a result's effect, and nothing else")
	}
	return id, nil
}

const maxOperationID = 512 // bytes; see toolresult.Effect

func newCallID() string { return "call_" + rand.Text() }
