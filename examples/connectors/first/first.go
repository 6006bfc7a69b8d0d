// Package first is the connector of the README: one capability, nothing left
// out.
package first

import (
	"context"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// GetTicket is what a model may ask; its JSON Schema follows from it.
type GetTicket struct {
	Ticket string `json:"ticket" jsonschema:"number of the ticket, without #"`
}

// Ticket is what comes out. The provider's other fields do not.
type Ticket struct {
	ID      int    `json:"id"`
	Subject string `json:"subject"`
}

// New declares what the connector does, and which objects that touches.
func New(endpoint string) (connector.Connector, error) {
	return connector.New(
		connector.Info{ID: "tickets", Version: "1.0.0", Owner: "support", Endpoint: endpoint, Auth: connector.Auth{Mode: connector.AuthAPIKey}, Rules: rules},
		connector.Read(connector.Spec{
			Name: "get_ticket", Description: "One ticket by its number.", Sensitivity: risk.Internal,
			Routes: []connector.Route{{Pattern: "GET /issues/{ticket}.json", Effect: connector.Reads, Touches: []string{"ticket:{ticket}"}}},
		}, connector.ByArgs(func(in GetTicket) authz.ResourceID { return authz.ResourceID{Type: "ticket", ID: in.Ticket} }), getTicket))
}

func getTicket(ctx context.Context, c *connector.ReadCall, in GetTicket) (*connector.Answer[Ticket], error) {
	var body struct{ Issue Ticket }
	if _, err := c.Get(ctx, "/issues/{ticket}.json", connector.Params{"ticket": in.Ticket}, &body); err != nil {
		return nil, err
	}
	return connector.Found(body.Issue), nil
}

// rules make a ticket that may not be seen one that is not there: from the
// difference anybody could tell which tickets exist.
func rules(r *provider.Response) (provider.Ruling, bool) {
	return provider.Ruling{Code: toolresult.NotFound, Effect: toolresult.EffectNotApplied}, r.Status == 403
}
