package gateway

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/cedarpolicy"
)

//go:embed policy.cedar
var policyText []byte

// policy is the Cedar text with the operator's facts.
func (c *Config) policy() (*cedarpolicy.Policy, error) {
	p, err := cedarpolicy.New(map[string][]byte{"policy.cedar": policyText}, &cedarpolicy.Options{
		Groups: func(_ context.Context, p authz.Principal) ([]string, error) {
			return c.People[p.Key().Subject].Groups, nil
		},
		ActionGroups: map[string][]string{
			"evidence": {"prometheus_query_range", "search_runbooks", "get_runbook"},
			"tickets":  {"create_incident_ticket", "search_tickets", "get_ticket"},
		},
		Candidates: candidates,
	})
	if err != nil {
		return nil, fmt.Errorf("gateway: policy: %w", err)
	}
	return p, nil
}

// candidates is what a catalogue of services knows, of each tenant.
func candidates(_ context.Context, _ authz.Principal, _, typ string) ([]authz.Object, error) {
	switch typ {
	case "service":
		return []authz.Object{{ResourceID: authz.ResourceID{Type: typ, ID: "prod/order-service"}}}, nil
	case "project":
		return []authz.Object{{ResourceID: authz.ResourceID{Type: typ, ID: "inc"}}}, nil
	}
	return nil, cedarpolicy.ErrUnlisted
}
