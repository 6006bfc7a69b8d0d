// Package alerts has two connectors, because there are two systems: an
// Alertmanager, which knows the alerts that fire now, and a history of those that
// have ended.
//
//	firing, err := alerts.New("alertmanager")        // get_alert_details
//	past, err := alerts.NewHistory("alert-history")  // list_past_alerts
//
// For an alert that has ended, an Alertmanager answers [], as it does for one
// that never was. So [] is no NOT_FOUND: the answer is that nothing is known here,
// with the gap ended_alerts, and the history is the one to ask.
//
// # Who may see an alert
//
// A service is granted, and an alert belongs to the service in its labels. The
// history is asked for one service, and the route holds the request to it. An
// Alertmanager takes one matcher in each of several parameters of one name, which
// no request of ours may have: it is asked for one alert by its id, and the
// answer counts only if its labels name the service. An alert of another service
// is answered like one that is not there.
//
// # What it does not do
//
// It silences nothing. endsAt of an alert that fires is when Alertmanager would
// give up on it and says nothing about the alert, so it is not passed on; nor are
// links.
package alerts

import (
	"context"
	"encoding/json"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/provider/rules"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Alert is one alert.
type Alert struct {
	ID           string     `json:"alert_id"`
	Name         string     `json:"name"`
	Namespace    string     `json:"namespace"`
	Service      string     `json:"service"`
	Severity     string     `json:"severity"`
	State        string     `json:"state" jsonschema:"active, suppressed, unprocessed or resolved"`
	Start        time.Time  `json:"starts_at"`
	End          *time.Time `json:"ends_at,omitempty" jsonschema:"missing while it fires"`
	Summary      string     `json:"summary"`
	Evidence     string     `json:"evidence,omitempty" jsonschema:"reference to where the summary's numbers are from"`
	Verification string     `json:"verification_state,omitempty" jsonschema:"whether somebody has checked them"`
}

// Get is what get_alert_details takes.
type Get struct {
	ID        string `json:"alert_id" jsonschema:"id of the alert, such as ALR-20260429-017"`
	Namespace string `json:"namespace" jsonschema:"namespace of the service in the alert's labels"`
	Service   string `json:"service" jsonschema:"name of that service"`
}

// EndedAlerts is the gap of an answer that says nothing about alerts that have
// ended.
const EndedAlerts = toolresult.Gap("ended_alerts")

// New returns the connector for an Alertmanager. endpoint names the operator's
// egress profile.
func New(endpoint string) (connector.Connector, error) {
	return connector.New(
		connector.Info{ID: "alertmanager", Version: "1.0.0", Owner: "observability", ProviderAPIVersion: "v2", Endpoint: endpoint,
			Auth: connector.Auth{Mode: connector.AuthNone}, Rules: rules.Alertmanager},
		connector.Read(connector.Spec{
			Name: "get_alert_details", Title: "One alert that fires",
			Description: "Reads one alert that fires now. One that has ended is not known here: the gap ended_alerts says to ask list_past_alerts. Numbers in a summary are claims until they are checked.",
			Sensitivity: risk.Internal,
			Routes:      []connector.Route{{Pattern: "GET /api/v2/alerts", Effect: connector.Reads, Touches: []string{"alert:{?filter}"}}},
			Input: json.RawMessage(`{"properties":{"alert_id":{"pattern":"^[A-Za-z0-9][A-Za-z0-9._:-]*$","maxLength":100},
				"namespace":{"minLength":1,"maxLength":63},"service":{"minLength":1,"maxLength":63}}}`),
		}, target, get))
}

func service(namespace, name string) authz.ResourceID {
	return authz.ResourceID{Type: "service", ID: namespace + "/" + name}
}

func filter(in Get) string { return `alert_id="` + in.ID + `"` }

// target is the service, and the request for one alert that is said to be its.
// That it is, the answer's labels have to show.
func target(_ context.Context, _ *connector.TargetCall, in Get) (authz.Target, error) {
	of := service(in.Namespace, in.Service)
	return authz.On(authz.Object{ResourceID: of},
		authz.Object{ResourceID: authz.ResourceID{Type: "alert", ID: filter(in)}, Parents: []authz.ResourceID{of}}), nil
}

// firing is an alert of Alertmanager's.
type firing struct {
	Labels, Annotations map[string]string
	StartsAt            time.Time
	Status              struct{ State string }
	Fingerprint         string
}

func get(ctx context.Context, c *connector.ReadCall, in Get) (*connector.Answer[Alert], error) {
	var body []firing
	if _, err := c.Get(ctx, "/api/v2/alerts", connector.Params{"filter": filter(in)}, &body); err != nil {
		return nil, err
	}
	a := connector.NoMatch[Alert]()
	a.Missing = []toolresult.Gap{EndedAlerts}
	found := false
	for _, f := range body {
		l, n := f.Labels, f.Annotations
		switch {
		case l["alert_id"] != in.ID || l["namespace"] != in.Namespace || l["service"] != in.Service:
			continue
		case found:
			return nil, toolresult.NewError(toolresult.ProviderError, "two alerts have the same id")
		}
		found = true
		a = connector.Found(Alert{ID: in.ID, Name: l["alertname"], Namespace: in.Namespace, Service: in.Service, Severity: l["severity"],
			State: f.Status.State, Start: f.StartsAt, Summary: n["summary"], Evidence: n["evidence"], Verification: n["verification_state"]})
		a.Source = connector.Source{Object: "alert " + in.ID, Version: f.Fingerprint}
	}
	return a, nil
}
