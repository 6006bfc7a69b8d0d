// Package mcpwire is the client's side of the Model Context Protocol towards a
// server that nobody trusts. It speaks revision 2026-07-28, in which every
// request stands for itself, and the sessions of 2025-11-25 and before.
//
// It differs from the client of the MCP SDK in what a governed connector needs:
// every byte that a server sends is counted before it is kept, a message is
// read strictly or not at all, one bad tool does not cost the list, numbers are
// not rounded, nothing is repeated or resumed behind the caller's back, and the
// caller owns the HTTP client of every single request, so that it knows what
// left the machine.
//
// It declares no capability to the server, so the server may ask for nothing.
// What a server says wrong is a [Fault]: a closed set of texts that quote
// nothing.
//
// # What it does not do
//
// It does not authorize, trust, clean or show anything, and opens no stream for
// notifications: a list is asked for again instead.
package mcpwire

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// Modern is the revision without sessions.
const Modern = "2026-07-28"

// Legacy are the revisions with sessions that are spoken, the newest first.
var Legacy = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// A Fault is what a server did wrong. It is an error with a constant text.
type Fault string

// Error implements error.
func (f Fault) Error() string { return "the MCP server " + string(f) }

// The faults of a server.
const (
	FaultJSON        Fault = "sends a message that is not JSON, or that can be read in more than one way"
	FaultMessage     Fault = "sends a message that is not one of JSON-RPC"
	FaultBatch       Fault = "answers with a batch"
	FaultID          Fault = "answers a request that was not made"
	FaultNoAnswer    Fault = "ends its answer without having answered"
	FaultAsks        Fault = "asks the client for something, and nobody here answers it"
	FaultContentType Fault = "answers in a form that is neither JSON nor a stream of events"
	FaultFrame       Fault = "sends a message over the limit"
	FaultFlood       Fault = "sends more messages than anybody asked for"
	FaultVersion     Fault = "speaks no revision of the protocol that is known here"
	FaultResult      Fault = "answers with a result that does not have the form of the protocol"
	FaultResultType  Fault = "answers with a kind of result that is not known here"
	FaultList        Fault = "lists something else than tools, or more than the limit"
	FaultPages       Fault = "lists more pages than the limit"
	FaultCursor      Fault = "repeats a cursor, so that its list never ends"
	FaultSession     Fault = "has a session id that is no session id"
	FaultClosed      Fault = "has ended its connection"
	FaultRounds      Fault = "asks again and again instead of answering"
)

// An Error is an error that the server answered with.
type Error struct {
	Code int64
	Text string // the server's, as it is
	Data any    // strictly read; nil if there is none
}

// Error returns the code only: the text is a stranger's.
func (e *Error) Error() string { return "the MCP server answered with an error" }

// Codes of errors that a server gives before it does anything.
const (
	CodeMethod     = -32601
	CodeParams     = -32602
	CodeHeader     = -32020
	CodeCapability = -32021
	CodeVersion    = -32022
)

// Refuses reports whether by the protocol an error means that the request was
// not performed.
func (e *Error) Refuses() bool {
	return slices.Contains([]int64{CodeMethod, CodeParams, CodeHeader, CodeCapability, CodeVersion, -32600, -32700}, e.Code)
}

// Client is how this side introduces itself.
type Client struct{ Name, Version string }

// Peer is what was agreed with a server. It is not changed after Negotiate.
type Peer struct {
	Version      string // of the protocol
	Session      string // Mcp-Session-Id; only with sessions over HTTP
	Server       Client // as it calls itself: a stranger's words
	Instructions string // likewise
	Capabilities map[string]any
}

// Modern reports whether requests stand for themselves.
func (p *Peer) Modern() bool { return p.Version == Modern }

// Message is a request, or a notification if it has no ID.
type Message struct {
	ID, Method string
	Name       string            // of the tool, prompt or resource; for the header Mcp-Name
	Params     map[string]any    // encoding/json writes the names sorted, so that equal messages are equal bytes
	Headers    map[string]string // Mcp-Param-*, as HeaderPlan.Values gives them
	Elicits    bool              // the server may ask a question by way of its answer
}

// Encode writes the message for a peer. A nil peer is one with whom nothing was
// agreed: the message is written as for [Modern].
func (m *Message) Encode(c Client, p *Peer) ([]byte, error) {
	params := m.Params
	if p == nil || p.Modern() {
		params = map[string]any{}
		for k, v := range m.Params {
			params[k] = v
		}
		meta := map[string]any{
			"io.modelcontextprotocol/protocolVersion":    Modern,
			"io.modelcontextprotocol/clientCapabilities": m.capabilities(),
			"io.modelcontextprotocol/clientInfo":         map[string]any{"name": c.Name, "version": c.Version},
		}
		if own, ok := params["_meta"].(map[string]any); ok {
			for k, v := range own {
				meta[k] = v
			}
		}
		params["_meta"] = meta
	}
	out := map[string]any{"jsonrpc": "2.0", "method": m.Method}
	if params != nil {
		out["params"] = params
	}
	if m.ID != "" {
		out["id"] = m.ID
	}
	return json.Marshal(out)
}

func (m *Message) capabilities() map[string]any {
	if m.Elicits {
		return map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}
	}
	return map[string]any{}
}

// Answer is what a server answered to one request: Result, or Err.
type Answer struct {
	Result map[string]any
	Err    *Error
}

// An Exchange sends a message and waits for its answer, and returns nil and nil
// for a notification. It fails with a [Fault], an error of the transport, or
// the context's.
type Exchange func(ctx context.Context, m *Message) (*Answer, error)

// parseMessage reads one message. ok is false for what is no answer.
func parseMessage(text []byte) (a *Answer, id any, ok bool, err error) {
	v, err := strictjson.Parse(text)
	if err != nil {
		return nil, nil, false, FaultJSON
	}
	o, isObject := v.(map[string]any)
	if _, batch := v.([]any); batch {
		return nil, nil, false, FaultBatch
	}
	if !isObject || o["jsonrpc"] != "2.0" {
		return nil, nil, false, FaultMessage
	}
	id, method := o["id"], o["method"]
	if method != nil {
		if _, isText := method.(string); !isText {
			return nil, nil, false, FaultMessage
		}
		return nil, id, false, nil
	}
	result, hasResult := o["result"]
	e, hasError := o["error"]
	switch {
	case hasResult == hasError:
		return nil, nil, false, FaultMessage
	case hasError:
		a, err = parseError(e)
		return a, id, true, err
	}
	r, isObject := result.(map[string]any)
	if !isObject {
		return nil, nil, false, FaultResult
	}
	return &Answer{Result: r}, id, true, nil
}

func parseError(v any) (*Answer, error) {
	o, ok := v.(map[string]any)
	code, isNumber := o["code"].(json.Number)
	text, _ := o["message"].(string)
	n, err := code.Int64()
	if !ok || !isNumber || err != nil {
		return nil, FaultMessage
	}
	return &Answer{Err: &Error{Code: n, Text: text, Data: o["data"]}}, nil
}

// Complete checks what kind of result it is: nil for a whole one.
func (a *Answer) Complete() error {
	switch t := a.Result["resultType"]; t {
	case nil, "complete":
		return nil
	case "input_required":
		return FaultAsks
	default:
		return FaultResultType
	}
}
