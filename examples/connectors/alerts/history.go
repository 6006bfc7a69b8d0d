package alerts

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/internal/errorbody"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/internal/window"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Past is what list_past_alerts takes.
type Past struct {
	Namespace string    `json:"namespace" jsonschema:"namespace of the service"`
	Service   string    `json:"service" jsonschema:"name of the service"`
	Start     time.Time `json:"start" jsonschema:"start of the window, RFC 3339 with a zone"`
	End       time.Time `json:"end" jsonschema:"end of the window, not included; at most 7 days after start"`
}

// LongestWindow is the longest window of list_past_alerts.
const LongestWindow = 7 * 24 * time.Hour

// NewHistory returns the connector for the history. endpoint names the
// operator's egress profile.
func NewHistory(endpoint string) (connector.Connector, error) {
	return connector.New(
		connector.Info{ID: "alert-history", Version: "1.0.0", Owner: "observability", ProviderAPIVersion: "1", Endpoint: endpoint,
			Auth: connector.Auth{Mode: connector.AuthServiceAccount}, Rules: errorbody.Rules},
		connector.List(connector.ListSpec{
			Spec: connector.Spec{
				Name: "list_past_alerts", Title: "Alerts that have ended",
				Description: "Lists alerts of one service that have ended and were active in a window of time, newest first. One that still fires is not among them.",
				Sensitivity: risk.Internal,
				Routes: []connector.Route{{
					Pattern: "GET /alerts", Effect: connector.Reads, Touches: []string{"service:{?namespace}/{?service}"},
					Params: []string{"limit", "cursor"}, Window: &connector.Window{Start: "?from", End: "?to"},
				}},
				Input:  json.RawMessage(`{"properties":{"namespace":{"pattern":"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$","maxLength":63},"service":{"pattern":"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$","maxLength":63}}}`),
				Limits: connector.Limits{PageSize: 50},
			},
			More: provider.Pointer("/next"),
		}, connector.ByArgs(func(in Past) authz.ResourceID { return service(in.Namespace, in.Service) }), past))
}

func past(ctx context.Context, c *connector.ReadCall, in Past, page connector.PageRequest) (*connector.Page[Alert], error) {
	asked, err := window.Asked(in.Start, in.End, LongestWindow)
	if err != nil {
		return nil, err
	}
	w, missing := window.Granted(c.Grant(), asked, service(in.Namespace, in.Service))
	p := connector.Params{"namespace": in.Namespace, "service": in.Service, "limit": strconv.Itoa(page.Size),
		"from": w.Start.Format(time.RFC3339Nano), "to": w.End.Format(time.RFC3339Nano)}
	token, later := page.From.Token()
	if later {
		p["cursor"] = token
	}
	var body struct {
		Alerts []ended
		Next   string
	}
	_, err = c.Get(ctx, "/alerts", p, &body)
	switch {
	case later && toolresult.Code(err) == toolresult.InvalidInput:
		return nil, toolresult.WrapError(toolresult.CursorInvalid, "start the listing again", err)
	case err != nil:
		return nil, err
	}
	next := cursor.End()
	if body.Next != "" {
		next = cursor.At(body.Next)
	}
	out := connector.NewPage(make([]Alert, len(body.Alerts)), next)
	for i, a := range body.Alerts {
		out.Items[i] = Alert{ID: a.ID, Name: a.Name, Namespace: a.Namespace, Service: a.Service, Severity: a.Severity, State: a.State,
			Start: a.Start, End: &a.End, Summary: a.Summary, Evidence: a.Evidence, Verification: a.Verification}
	}
	out.Missing = missing
	out.Source = connector.Source{Object: "alerts of " + in.Namespace + "/" + in.Service, Window: w}
	return out, nil
}

// ended is an alert of the history's.
type ended struct {
	ID                                  string `json:"alert_id"`
	Name                                string `json:"alertname"`
	Namespace, Service, Severity, State string
	Start                               time.Time `json:"starts_at"`
	End                                 time.Time `json:"ends_at"`
	Summary, Evidence                   string
	Verification                        string `json:"verification_state"`
}
