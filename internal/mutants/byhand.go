package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// byHand is the desk as a connector that somebody wrote without the typed
// capabilities: what those make impossible can be wrong here.
type byHand struct {
	*desk
	next connector.Connector
}

// whole is byHand with everything that a connector can be.
type whole struct{ byHand }

var (
	_ connector.ConnectorWithTarget = whole{}
	_ connector.ConnectorWithLookup = whole{}
)

// blind is byHand without a look-up, whatever the manifest says.
type blind struct{ byHand }

func (d *desk) byHand(c connector.Connector) connector.Connector {
	h := byHand{d, c}
	if d.is("lookup-missing") {
		return blind{h}
	}
	return whole{h}
}

// Manifest implements [connector.Connector].
func (h byHand) Manifest() connector.Manifest {
	m := h.next.Manifest()
	first := &m.Capabilities[0]
	switch {
	case h.is("dup-op"):
		m.Capabilities = append(m.Capabilities, *first)
	case h.is("op-order") && h.calls.Add(1)%2 == 0:
		slices.Reverse(m.Capabilities)
	case h.is("manifest-from-clock"):
		first.Description = "One ticket. As of " + time.Now().Format(time.RFC3339Nano)
	case h.is("effect-zero"):
		m.Capabilities[len(m.Capabilities)-1].Class = risk.Class{}
	case h.is("remote-ref"):
		first.Input = json.RawMessage(`{"type":"object","properties":{"id":{"$ref":"https://schemas.example/id.json"}},"required":["id"],"additionalProperties":false}`)
	case h.is("open-schema"):
		first.Input = json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)
	case h.is("new-required-arg"):
		first.Input = json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"reason":{"type":"string"}},"required":["id","reason"],"additionalProperties":false}`)
	}
	return m
}

// Invoke implements [connector.Connector].
func (h byHand) Invoke(ctx context.Context, call *connector.Call) (*toolresult.Result, error) {
	r, err := h.next.Invoke(ctx, call)
	switch {
	case err != nil && call.Capability() == "desk.get" && toolresult.Code(err) == toolresult.ProviderUnavailable && h.is("result-with-error"):
		return toolresult.Complete(call.ID(), json.RawMessage(`{}`)), err
	case r == nil:
	case string(r.Data) == "[]" && h.is("null-list"):
		r.Data = json.RawMessage("null")
	case call.Capability() == "desk.get" && bytes.HasPrefix(r.Data, []byte("{")) && h.is("undeclared-field"):
		r.Data = json.RawMessage(fmt.Sprintf(`{"assignee":"somebody",%s`, r.Data[1:]))
	}
	return r, err
}

// Target implements [connector.ConnectorWithTarget].
func (h byHand) Target(ctx context.Context, call *connector.TargetCall) (authz.Target, error) {
	return h.next.(connector.ConnectorWithTarget).Target(ctx, call)
}

// Lookup implements [connector.ConnectorWithLookup].
func (h whole) Lookup(ctx context.Context, call *connector.Call) (*toolresult.Result, error) {
	return h.next.(connector.ConnectorWithLookup).Lookup(ctx, call)
}
