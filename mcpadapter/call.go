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
func (a *Adapter) call(ctx context.Context, req *mcp.CallToolRequest, who authz.Principal, t *tool) (_ *mcp.CallToolResult, err error) {
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

// result is an envelope on the wire.
func (a *Adapter) result(req *mcp.CallToolRequest, r *toolresult.Result) (*mcp.CallToolResult, error) {
	if r.Error != nil && r.Error.Code == toolresult.CapabilityUnknown && r.Effect.Disposition == toolresult.EffectNone {
		return nil, unknownTool()
	}
	text, err := r.AppendJSON(nil)
	if err != nil {
		return nil, internalError()
	}
	var out mcp.CallToolResult
	if req.ProtocolVersion() >= "2026-07-28" {
		out = a.complete
	}
	out.Content = []mcp.Content{&mcp.TextContent{Text: r.Text(&toolresult.TextOptions{MaxBytes: a.opts.MaxTextBytes})}}
	out.StructuredContent = json.RawMessage(text)
	out.IsError = r.Status == toolresult.StatusError
	return &out, nil
}

// completeResult is the beginning of a result that says resultType "complete",
// as revision 2026-07-28 demands. The SDK says it for tools that it runs itself,
// and has no other way to say it.
func completeResult() (out mcp.CallToolResult, err error) {
	err = json.Unmarshal([]byte(`{"content":[],"resultType":"complete"}`), &out)
	return out, err
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
