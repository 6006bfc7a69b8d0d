package mutants

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Dead is a connector that does nothing, in one of several ways. A check that
// it passes would pass for everybody.
type Dead struct {
	Name string
	do   func(ctx context.Context, call *connector.Call) (*toolresult.Result, error)
}

// DeadConnectors returns them all.
func DeadConnectors() []Dead {
	answer := func(data string) func(context.Context, *connector.Call) (*toolresult.Result, error) {
		return func(_ context.Context, c *connector.Call) (*toolresult.Result, error) {
			return toolresult.Complete(c.ID(), json.RawMessage(data)), nil
		}
	}
	return []Dead{
		{"always invalid", func(context.Context, *connector.Call) (*toolresult.Result, error) {
			return nil, toolresult.NewError(toolresult.InvalidInput, "no")
		}},
		{"always empty", answer("[]")},
		{"always nothing", answer("null")},
		{"an answer that nobody fetched", answer(`{"id":"acme-1"}`)},
		{"plain errors", func(context.Context, *connector.Call) (*toolresult.Result, error) { return nil, errors.New("no") }},
		{"panics", func(context.Context, *connector.Call) (*toolresult.Result, error) { panic("dead") }},
		{"neither result nor error", func(context.Context, *connector.Call) (*toolresult.Result, error) { return nil, nil }},
		{"hangs", func(ctx context.Context, _ *connector.Call) (*toolresult.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		{"asks and throws away", func(ctx context.Context, c *connector.Call) (*toolresult.Result, error) {
			resp, err := c.HTTPClient().Get(c.Connection().BaseURL + "/tickets/acme-1")
			if err == nil {
				_ = resp.Body.Close()
			}
			return toolresult.NoMatch(c.ID()), nil
		}},
	}
}

// Fixture returns the desk's fixture with the dead connector in its place.
func (d Dead) Fixture() check.Fixture {
	f := Desk(NewSwitch(""))
	alive := f.New
	f.New = func() (connector.Connector, error) {
		c, err := alive()
		return dead{c, d}, err
	}
	return f
}

type dead struct {
	alive connector.Connector
	Dead
}

var (
	_ connector.ConnectorWithTarget = dead{}
	_ connector.ConnectorWithLookup = dead{}
)

// Manifest implements [connector.Connector].
func (d dead) Manifest() connector.Manifest { return d.alive.Manifest() }

// Invoke implements [connector.Connector].
func (d dead) Invoke(ctx context.Context, c *connector.Call) (*toolresult.Result, error) {
	return d.do(ctx, c)
}

// Lookup implements [connector.ConnectorWithLookup].
func (d dead) Lookup(ctx context.Context, c *connector.Call) (*toolresult.Result, error) {
	return d.do(ctx, c)
}

// Target implements [connector.ConnectorWithTarget].
func (d dead) Target(ctx context.Context, c *connector.TargetCall) (authz.Target, error) {
	return d.alive.(connector.ConnectorWithTarget).Target(ctx, c)
}
