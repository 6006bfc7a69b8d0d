package mcpadapter

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"

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
	defer func() {
		// The SDK runs tools in goroutines of its own, where a panic of the
		// host's functions would end the process for everybody.
		if r := recover(); r != nil {
			a.log(ctx, "a call panicked", slog.String("panic", fmt.Sprint(r)), slog.String("stack", string(debug.Stack())))
			err = internalError()
		}
	}()
	if t != nil && t.tool.Name == StatusTool {
		return a.result(req, a.lookUp(ctx, req.Params.Arguments, who))
	}
	key, err := a.operationKey(ctx, req.Params, who, t)
	if err != nil {
		return nil, err
	}
	progress := newProgress(ctx, req)
	r := a.inv.Invoke(ctx, &connector.InvokeRequest{
		Principal: who, Capability: req.Params.Name, Arguments: req.Params.Arguments,
		Profile: a.profile(ctx, who), Key: key, Surface: surface, Progress: progress.report(),
	})
	progress.end()
	return a.result(req, r)
}

// result is what a call answers with.
func (a *Adapter) result(req *mcp.CallToolRequest, r *toolresult.Result) (*result, error) {
	if r.Error != nil && r.Error.Code == toolresult.CapabilityUnknown && r.Effect.Disposition == toolresult.EffectNone {
		return nil, unknownTool()
	}
	envelope, err := r.AppendJSON(make([]byte, 0, len(r.Data)+1024))
	if err != nil {
		return nil, internalError()
	}
	return &result{
		text:     r.Text(&toolresult.TextOptions{MaxBytes: a.opts.MaxTextBytes}),
		envelope: envelope,
		isError:  r.Status == toolresult.StatusError,
		complete: req.ProtocolVersion() >= "2026-07-28",
	}, nil
}

// A result is an envelope on the wire: the CallToolResult of the specification,
// written in one go.
type result struct {
	mcp.ResultBase
	text     string
	envelope json.RawMessage
	isError  bool
	complete bool // revision 2026-07-28 wants to be told
}

// MarshalJSON implements [json.Marshaler].
func (r *result) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(r.text)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(text)+len(r.envelope)+256)
	out = append(out, `{"content":[{"type":"text","text":`...)
	out = append(out, text...)
	out = append(out, `}],"structuredContent":`...)
	out = append(out, r.envelope...)
	if r.isError {
		out = append(out, `,"isError":true`...)
	}
	if r.complete {
		out = append(out, `,"resultType":"complete"`...)
	}
	if meta := r.GetMeta(); len(meta) > 0 {
		text, err := json.Marshal(meta)
		if err != nil {
			return nil, err
		}
		out = append(append(out, `,"_meta":`...), text...)
	}
	return append(out, '}'), nil
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
