package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/internal/defuse"
	"github.com/drawbridge-sdk/drawbridge/internal/mcpwire"
	"github.com/drawbridge-sdk/drawbridge/internal/schema"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Invoke implements [connector.Connector].
func (c *Connector) Invoke(ctx context.Context, call *connector.Call) (*toolresult.Result, error) {
	if c.search != "" && call.Capability() == c.search {
		return c.find(ctx, call)
	}
	t := c.tools[call.Capability()]
	if t == nil {
		return nil, toolresult.NewError(toolresult.Internal, "the connector has no such capability")
	}
	key := sessionKey{call.Principal().Key(), call.Principal().Standing(), call.Connection().ID}
	x, old, err := c.sessions.take(key)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.end()
	}
	defer c.sessions.release(x)
	result, err := c.invoke(ctx, call, x, t)
	if err != nil && over(err) {
		c.sessions.drop(key, x)
	}
	if err != nil {
		return nil, c.failure(ctx, call, err)
	}
	return result, nil
}

func (c *Connector) invoke(ctx context.Context, call *connector.Call, x *session, t *tool) (*toolresult.Result, error) {
	l, peer, err := c.ready(ctx, call, x, t)
	if err != nil {
		return nil, err
	}
	m, err := c.message(call, t)
	if err != nil {
		return nil, err
	}
	if t.writes && l.stream != nil {
		if err := call.Dispatch(ctx); err != nil {
			return nil, err
		}
	}
	a, err := c.ask(ctx, call, l, peer, t, m)
	if err != nil {
		return nil, err
	}
	return c.answer(ctx, call, t, a.Result)
}

// message is the same, byte for byte, whenever one operation is rendered or
// sent. The operation's UUID goes along, so that a server that knows what it is
// can recognise it; it says nothing else.
func (c *Connector) message(call *connector.Call, t *tool) (*mcpwire.Message, error) {
	args, err := arguments(call.Arguments(), t.Fixed)
	if err != nil {
		return nil, toolresult.WrapError(toolresult.Internal, "the arguments cannot be written", err)
	}
	headers, err := t.plan.Values(args)
	if err != nil {
		return nil, toolresult.WrapError(toolresult.InvalidInput, "an argument cannot be sent as a header: a whole number is up to 2^53-1", err)
	}
	m := &mcpwire.Message{ID: "call-" + strconv.FormatInt(c.count.Add(1), 10), Method: "tools/call", Name: t.Name, Headers: headers,
		Params: map[string]any{"name": t.Name, "arguments": args}, Elicits: c.opts.Elicit != nil && !t.writes}
	if op, ok := call.Operation(); ok {
		m.ID = "op-" + op.UUID()
		m.Params["_meta"] = map[string]any{"drawbridge.dev/operation": op.UUID()}
	}
	return m, nil
}

// mostRounds is how often a server may ask before it answers.
const mostRounds = 5

// ask sends the call, and answers what the server asks if somebody does.
func (c *Connector) ask(ctx context.Context, call *connector.Call, l *link, p *mcpwire.Peer, t *tool, m *mcpwire.Message) (*mcpwire.Answer, error) {
	id := m.ID
	for round := 1; ; round++ {
		a, _, err := l.Send(ctx, p, m)
		if err != nil {
			return nil, err
		}
		if a.Err != nil {
			return nil, a.Err
		}
		err = a.Complete()
		if !errors.Is(err, mcpwire.FaultAsks) || t.writes || !p.Modern() {
			return a, err
		}
		if round == mostRounds {
			return nil, mcpwire.FaultRounds
		}
		next := *m
		if next.Params, err = c.replies(ctx, call, t, m.Params, a.Result); err != nil {
			return nil, err
		}
		next.ID = id + "-" + strconv.Itoa(round)
		m = &next
	}
}

// replies are the parameters of the next round: those of the first, the answers,
// and the server's state exactly as it came.
func (c *Connector) replies(ctx context.Context, call *connector.Call, t *tool, params, result map[string]any) (map[string]any, error) {
	out := map[string]any{"name": params["name"], "arguments": params["arguments"]}
	if state, ok := result["requestState"]; ok {
		if _, isText := state.(string); !isText {
			return nil, mcpwire.FaultResult
		}
		out["requestState"] = state
	}
	asked, _ := result["inputRequests"].(map[string]any)
	if len(asked) == 0 {
		if out["requestState"] == nil {
			return nil, mcpwire.FaultResult
		}
		return out, nil
	}
	if c.opts.Elicit == nil || len(asked) > 8 {
		return nil, mcpwire.FaultAsks
	}
	replies := map[string]any{}
	for key, v := range asked {
		q, err := c.question(t, v)
		if err != nil {
			return nil, err
		}
		r, err := c.opts.Elicit(ctx, call.Principal(), q)
		if err != nil || r == nil {
			return nil, toolresult.WrapError(toolresult.Cancelled, "nobody answered what the server asked", err)
		}
		reply := map[string]any{"action": r.Action}
		if r.Action == "accept" {
			reply["content"] = r.Content
		}
		replies[key] = reply
	}
	out["inputResponses"] = replies
	return out, nil
}

// question reads what a server asks. Only a form is answered: an address would
// be opened on a stranger's word. One that asks for a secret, or shows a person
// something else than it holds, is not passed on.
func (c *Connector) question(t *tool, v any) (*Question, error) {
	o, _ := v.(map[string]any)
	p, _ := o["params"].(map[string]any)
	if o["method"] != "elicitation/create" || p["mode"] != nil && p["mode"] != "form" {
		return nil, mcpwire.FaultAsks
	}
	q := &Question{Server: c.server.ID, Tool: t.Name}
	text, _ := p["message"].(string)
	q.Text, _ = defuse.Policy{}.Text(text)
	var err error
	if q.Schema, err = json.Marshal(p["requestedSchema"]); err != nil {
		return nil, mcpwire.FaultResult
	}
	_, hidden := defuse.Policy{Markup: true}.Value(p["requestedSchema"])
	if hidden > 0 || schema.AsksForSecret(q.Text) || schema.CheckForm(q.Schema) != nil {
		return nil, mcpwire.FaultAsks
	}
	return q, nil
}

// over reports whether a session is of no use after an error: its connection is
// gone or cannot be believed, or the server has forgotten it.
func over(err error) bool {
	if s, ok := errors.AsType[*mcpwire.Status](err); ok {
		return s.Code == http.StatusNotFound || s.Code == http.StatusGone || s.Code == http.StatusBadRequest
	}
	_, fault := errors.AsType[mcpwire.Fault](err)
	return fault
}

// failure says in the words of this SDK what went wrong. What the server said is
// kept apart, as a stranger's text.
func (c *Connector) failure(ctx context.Context, call *connector.Call, err error) error {
	if f, ok := errors.AsType[mcpwire.Fault](err); ok {
		return faultError(f)
	}
	if e, ok := errors.AsType[*mcpwire.Error](err); ok {
		return serverError(e)
	}
	if s, ok := errors.AsType[*mcpwire.Status](err); ok {
		c.challenged(ctx, call, s)
		return statusError(s)
	}
	if e, ok := errors.AsType[*egress.Error](err); ok {
		return e
	}
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.EOF) {
		return faultError(mcpwire.FaultClosed)
	}
	return err
}

// faultError gives each fault its own constant text.
func faultError(f mcpwire.Fault) *toolresult.Error {
	switch f {
	case mcpwire.FaultFrame:
		return toolresult.NewError(toolresult.ResultTooLarge, "the MCP server sends a message over the limit; ask for less")
	case mcpwire.FaultClosed:
		return toolresult.NewError(toolresult.ProviderUnavailable, "the MCP server has ended its connection")
	case mcpwire.FaultVersion:
		return toolresult.NewError(toolresult.Unsupported, "the MCP server speaks no revision of the protocol that is known here")
	case mcpwire.FaultAsks:
		return toolresult.NewError(toolresult.Unsupported, "the MCP server asks for something before it answers, and nobody here answers it")
	case mcpwire.FaultRounds:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server asks again and again instead of answering")
	case mcpwire.FaultJSON:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server sends a message that is not JSON, or that can be read in more than one way")
	case mcpwire.FaultMessage, mcpwire.FaultBatch:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server sends a message that is not one message of JSON-RPC")
	case mcpwire.FaultID:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server answers a request that was not made")
	case mcpwire.FaultNoAnswer:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server ends its answer without having answered")
	case mcpwire.FaultContentType:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server answers in a form that is neither JSON nor a stream of events")
	case mcpwire.FaultFlood:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server sends more messages than anybody asked for")
	case mcpwire.FaultResultType:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server answers with a kind of result that is not known here")
	case mcpwire.FaultList:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server lists something else than tools, or more of them than the limit")
	case mcpwire.FaultPages:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server lists more pages than the limit")
	case mcpwire.FaultCursor:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server repeats a cursor, so that its list never ends")
	case mcpwire.FaultSession:
		return toolresult.NewError(toolresult.ProviderError, "the MCP server gives a session id that is none")
	}
	return toolresult.NewError(toolresult.ProviderError, "the MCP server answers with a result that does not have the form of the protocol")
}

// serverCodes say what the protocol's codes mean. -32042 asked for a consent in a
// revision before.
var serverCodes = map[int64]toolresult.ErrorCode{
	mcpwire.CodeParams: toolresult.InvalidInput, mcpwire.CodeMethod: toolresult.Unsupported, -32042: toolresult.ConnectionRequired,
}

func serverCode(code int64) toolresult.ErrorCode {
	if c, ok := serverCodes[code]; ok {
		return c
	}
	return toolresult.ProviderError
}

func serverError(e *mcpwire.Error) *toolresult.Error {
	d := toolresult.Diagnostics{ProviderCode: strconv.FormatInt(e.Code, 10), ProviderText: e.Text}
	switch serverCode(e.Code) {
	case toolresult.InvalidInput:
		return toolresult.NewError(toolresult.InvalidInput, "the MCP server does not accept the arguments").WithDiagnostics(d)
	case toolresult.Unsupported:
		return toolresult.NewError(toolresult.Unsupported, "the MCP server does not know the method").WithDiagnostics(d)
	case toolresult.ConnectionRequired:
		return toolresult.NewError(toolresult.ConnectionRequired, "the MCP server asks for a consent that is given elsewhere").WithDiagnostics(d)
	}
	return toolresult.NewError(toolresult.ProviderError, "the MCP server answered with an error").WithDiagnostics(d)
}

func statusError(s *mcpwire.Status) *toolresult.Error {
	switch v := provider.Classify(rules, &provider.Response{Status: s.Code, Header: s.Header}); v.Code {
	case toolresult.ConnectionRequired:
		return toolresult.NewError(v.Code, "the MCP server does not accept the account's credential")
	case toolresult.InsufficientScope:
		return toolresult.NewError(v.Code, "the account lacks a scope at the MCP server")
	case toolresult.PermissionDenied:
		return toolresult.NewError(v.Code, "the MCP server does not allow it")
	case toolresult.RateLimited:
		return toolresult.NewError(v.Code, "the MCP server asks to slow down").WithRetryAfter(v.RetryAfter)
	case toolresult.ProviderUnavailable:
		return toolresult.NewError(v.Code, "the MCP server has forgotten the session, or cannot answer now")
	}
	return toolresult.NewError(toolresult.ProviderError, "the MCP server answered with an HTTP status that is no answer")
}

// rules say at the transport what an answer means. They believe a server that
// says of itself that it did not understand a request, and nothing else that
// would make a change undone.
func rules(r *provider.Response) (provider.Ruling, bool) {
	method := methodOf(r.Route)
	a, err := mcpwire.ParseAnswer(r.Header.Get("Content-Type"), r.Body, mcpwire.AnyID)
	switch {
	case method == "server/discover" && mcpwire.Older(r.Status):
		return provider.Ruling{OK: true}, true // no is an answer: an older server does not know it
	case method == "notifications/initialized" && r.Status/100 == 2:
		return provider.Ruling{OK: true}, true
	case r.Status == http.StatusForbidden && insufficient(r.Header):
		return provider.Ruling{Code: toolresult.InsufficientScope, Effect: toolresult.EffectNotApplied}, true
	case provider.Refusal(r.Status):
		return provider.Ruling{}, false
	case r.Status == http.StatusNotFound && (err != nil || a.Err == nil || a.Err.Code != mcpwire.CodeMethod):
		return provider.Ruling{Code: toolresult.ProviderUnavailable, Effect: toolresult.EffectNotApplied}, true // the session is not known any more
	case err == nil && a.Err != nil:
		v := provider.Ruling{Code: serverCode(a.Err.Code), ProviderCode: strconv.FormatInt(a.Err.Code, 10), Text: a.Err.Text}
		if a.Err.Refuses() || r.Status/100 == 4 && r.Status != http.StatusRequestTimeout {
			v.Effect = toolresult.EffectNotApplied
		}
		return v, true
	case r.Status/100 != 2:
		return provider.Ruling{}, false
	case err != nil:
		return provider.Ruling{Code: toolresult.ProviderError}, true
	case a.Result["isError"] == true:
		return provider.Ruling{Code: toolresult.ProviderError, Text: errorText(a.Result)}, true
	}
	return provider.Ruling{OK: true}, true
}

// errorText is the first text of a result that says that it failed.
func errorText(result map[string]any) string {
	blocks, _ := result["content"].([]any)
	for _, b := range blocks {
		o, _ := b.(map[string]any)
		if text, ok := o["text"].(string); ok {
			text, _ = defuse.Policy{}.Text(cut(text, 4<<10))
			return text
		}
	}
	return ""
}
