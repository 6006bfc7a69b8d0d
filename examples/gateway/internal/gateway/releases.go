package gateway

import (
	"context"
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/metrics"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/runbooks"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/tickets"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// The releases of the gateway that are in this binary, so that a rollout from one
// to the next can be shown with it. A real binary holds one.
const (
	Current  = "1.0.0" // the ticket connector as it is
	Next     = "1.1.0" // longer answers about a ticket: what was right stays right
	Breaking = "1.2.0" // a scope more, without a new major version: the gate refuses it
)

// connectors are what a release serves.
func (c *Config) connectors(release string) ([]connector.Connector, error) {
	t, err := tickets.New("tickets", nil)
	if err != nil {
		return nil, err
	}
	b, err := runbooks.New("runbooks")
	if err != nil {
		return nil, err
	}
	m, err := metrics.New("metrics")
	if err != nil {
		return nil, err
	}
	switch release {
	case Current, Next, Breaking:
		return []connector.Connector{c.revise(t, release), b, m}, nil
	}
	return nil, fmt.Errorf("gateway: there is no release %q in this binary, only %s, %s and %s", release, Current, Next, Breaking)
}

// revised is a connector with another declaration.
type revised struct {
	connector.Connector
	manifest connector.Manifest
}

var (
	_ connector.ConnectorWithTarget = (*revised)(nil)
	_ connector.ConnectorWithLookup = (*revised)(nil)
)

// revise declares the ticket connector as the release does.
func (c *Config) revise(t connector.Connector, release string) connector.Connector {
	m := t.Manifest()
	m.Version = release
	m.Auth = connector.Auth{Mode: connector.AuthDelegatedOAuth} // here it is each caller's own account
	for i := range m.Capabilities {
		d := &m.Capabilities[i]
		switch {
		case d.Kind == connector.KindRead && release != Current:
			d.Limits.Bytes = 512 << 10
		case d.Kind == connector.KindWrite:
			d.Limits.Timeout = c.WriteTimeout.or(d.Limits.Timeout)
			d.Settle = c.Settle.or(d.Settle)
			if release == Breaking {
				d.Scopes = append(d.Scopes, "desk.write")
			}
		}
	}
	return &revised{t, m}
}

// Manifest implements [connector.Connector].
func (r *revised) Manifest() connector.Manifest { return r.manifest }

// Target implements [connector.ConnectorWithTarget].
func (r *revised) Target(ctx context.Context, call *connector.TargetCall) (authz.Target, error) {
	return r.Connector.(connector.ConnectorWithTarget).Target(ctx, call)
}

// Lookup implements [connector.ConnectorWithLookup].
func (r *revised) Lookup(ctx context.Context, call *connector.Call) (*toolresult.Result, error) {
	return r.Connector.(connector.ConnectorWithLookup).Lookup(ctx, call)
}
