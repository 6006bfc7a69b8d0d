// Package incidents is a connector for the incidents of PagerDuty's REST API v2:
// get, search, open, acknowledge. It was written from the API's public description
// by heart; no account of PagerDuty's was asked.
//
// It is here for what the other connectors do not have:
//
//   - an update, which has no room for a key: it sets the status of an incident, and
//     a look-up finds the status that was asked for (Idempotency.Natural);
//   - a key that the provider enforces by refusing: a second incident with an open
//     one's incident_key is a 400, and that 400 is no proof that nothing was made;
//   - a credential in a scheme of the provider's own, "Authorization: Token
//     token=...", which the host's broker puts there;
//   - a header that names who acts, taken from the account and not from arguments.
//
// An incident is an object by its id alone; a host that grants by service tells its
// policy which incident is of which service, or grants the connection.
package incidents

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/connector/provider/paging"
	"github.com/drawbridge-sdk/drawbridge/connector/provider/rules"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Incident is what comes out.
type Incident struct {
	ID      string `json:"id"`
	Number  int    `json:"number"`
	Title   string `json:"title"`
	Status  string `json:"status"`
	Urgency string `json:"urgency"`
	Service string `json:"service"`
}

// wire is the provider's incident.
type wire struct {
	ID      string `json:"id"`
	Number  int    `json:"incident_number"`
	Title   string `json:"title"`
	Status  string `json:"status"`
	Urgency string `json:"urgency"`
	Key     string `json:"incident_key"`
	URL     string `json:"html_url"`
	Service struct {
		ID string `json:"id"`
	} `json:"service"`
}

func (w wire) out() Incident {
	return Incident{w.ID, w.Number, w.Title, w.Status, w.Urgency, w.Service.ID}
}

type one struct {
	Incident wire `json:"incident"`
}

// GetIncident is what get_incident takes.
type GetIncident struct {
	Incident string `json:"incident" jsonschema:"id of the incident, such as Q1ABC2DEF3"`
}

// SearchIncidents is what search_incidents takes.
type SearchIncidents struct {
	Service string `json:"service" jsonschema:"id of the service"`
	Status  string `json:"status,omitempty" jsonschema:"triggered, acknowledged or resolved; empty: all"`
}

// CreateIncident is what create_incident takes.
type CreateIncident struct {
	Service string `json:"service" jsonschema:"id of the service"`
	Title   string `json:"title" jsonschema:"one line"`
	Urgency string `json:"urgency,omitempty" jsonschema:"high or low"`
}

// AcknowledgeIncident is what acknowledge_incident takes.
type AcknowledgeIncident struct {
	Incident string `json:"incident" jsonschema:"id of the incident"`
}

const (
	incidentID = `"incident":{"pattern":"^[A-Z0-9]{1,24}$"}`
	serviceID  = `"service":{"pattern":"^[A-Z0-9]{1,24}$"}`

	getRoute    = "GET /incidents/{incident}"
	listRoute   = "GET /incidents"
	createRoute = "POST /incidents"
	updateRoute = "PUT /incidents/{incident}"
)

var (
	readOne  = connector.Route{Pattern: getRoute, Effect: connector.Reads, Touches: []string{"incident:{incident}"}}
	readMany = connector.Route{Pattern: listRoute, Effect: connector.Reads, Touches: []string{"service:{?service_ids[]}"},
		Params: []string{"statuses[]", "limit", "offset", "date_range", "sort_by", "incident_key"}}
)

// New returns the connector. endpoint names the operator's egress profile.
func New(endpoint string) (connector.Connector, error) {
	return connector.New(
		connector.Info{ID: "incidents", Version: "1.0.0", Owner: "sre", ProviderAPIVersion: "2", Endpoint: endpoint,
			Auth: connector.Auth{Mode: connector.AuthAPIKey, Scheme: "header:Authorization"}, Rules: judge},
		connector.Read(connector.Spec{
			Name: "get_incident", Description: "One incident by its id.", Sensitivity: risk.Internal,
			Routes: []connector.Route{readOne},
			Input:  json.RawMessage(`{"properties":{` + incidentID + `}}`),
		}, connector.ByArgs(func(in GetIncident) authz.ResourceID { return incident(in.Incident) }), get),
		connector.List(connector.ListSpec{
			Spec: connector.Spec{
				Name: "search_incidents", Description: "Incidents of one service, newest first.", Sensitivity: risk.Internal,
				Routes: []connector.Route{readMany},
				Input:  json.RawMessage(`{"properties":{` + serviceID + `,"status":{"enum":["","triggered","acknowledged","resolved"]}}}`),
			},
			More: provider.Pointer("/more"),
		}, connector.ByArgs(func(in SearchIncidents) authz.ResourceID { return service(in.Service) }), search),
		connector.Write(createSpec(), connector.ByArgs(func(in CreateIncident) authz.ResourceID { return service(in.Service) }), creator{}),
		connector.Write(acknowledgeSpec(), connector.ByArgs(func(in AcknowledgeIncident) authz.ResourceID { return incident(in.Incident) }),
			connector.Reconcilable(acknowledge, acknowledged)))
}

func createSpec() connector.WriteSpec {
	return connector.WriteSpec{
		Spec: connector.Spec{
			Name: "create_incident", Description: "Opens an incident on a service.", Sensitivity: risk.Internal,
			Routes: []connector.Route{
				{Pattern: createRoute, Effect: connector.Changes, Touches: []string{"service:{#/incident/service/id}"}, Headers: []string{"From"}},
				readMany,
			},
			Input: json.RawMessage(`{"properties":{` + serviceID + `,"title":{"minLength":1,"maxLength":255},"urgency":{"enum":["high","low"]}}}`),
		},
		SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy, Settle: 2 * time.Minute,
		Idempotency: connector.Idempotency{Field: "/incident/incident_key", Answer: "/incidents/0/incident_key"},
	}
}

func acknowledgeSpec() connector.WriteSpec {
	return connector.WriteSpec{
		Spec: connector.Spec{
			Name: "acknowledge_incident", Description: "Says that somebody works on an incident.", Sensitivity: risk.Internal,
			Routes: []connector.Route{
				{Pattern: updateRoute, Effect: connector.Changes, Touches: []string{"incident:{incident}"}, Headers: []string{"From"}},
				readOne,
			},
			Input: json.RawMessage(`{"properties":{` + incidentID + `}}`),
		},
		SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy, Settle: 2 * time.Minute,
		Idempotency: connector.Idempotency{Natural: true, Answer: "/incident/id"},
	}
}

func incident(id string) authz.ResourceID { return authz.ResourceID{Type: "incident", ID: id} }
func service(id string) authz.ResourceID  { return authz.ResourceID{Type: "service", ID: id} }

func get(ctx context.Context, c *connector.ReadCall, in GetIncident) (*connector.Answer[Incident], error) {
	w, err := fetch(ctx, c, in.Incident)
	if err != nil {
		return nil, err
	}
	a := connector.Found(w.out())
	a.Source.URL = w.URL
	return a, nil
}

func fetch(ctx context.Context, c *connector.ReadCall, id string) (wire, error) {
	var body one
	if _, err := c.Get(ctx, "/incidents/{incident}", connector.Params{"incident": id}, &body); err != nil {
		return wire{}, err
	}
	if body.Incident.ID != id {
		return wire{}, toolresult.NewError(toolresult.ProviderError, "PagerDuty answered with another incident")
	}
	return body.Incident, nil
}

type many struct {
	Incidents []wire `json:"incidents"`
	More      *bool  `json:"more"`
}

func search(ctx context.Context, c *connector.ReadCall, in SearchIncidents, page connector.PageRequest) (*connector.Page[Incident], error) {
	at, err := paging.Offsets{Max: 100}.Open(page.From, page.Size)
	if err != nil {
		return nil, err
	}
	p := connector.Params{"service_ids[]": in.Service, "date_range": "all", "sort_by": "created_at:desc",
		"limit": strconv.Itoa(at.Limit), "offset": strconv.Itoa(at.Offset)}
	if in.Status != "" {
		p["statuses[]"] = in.Status
	}
	var body many
	if _, err := c.Get(ctx, "/incidents", p, &body); err != nil {
		return nil, err
	}
	if body.Incidents == nil || body.More == nil {
		return nil, toolresult.NewError(toolresult.ProviderError, "PagerDuty's page has no incidents or does not say whether there are more")
	}
	var ids []string
	var items []Incident
	for _, w := range body.Incidents {
		ids, items = append(ids, w.ID), append(items, w.out())
	}
	turn, err := at.Close(ids, paging.More(*body.More))
	if err != nil {
		return nil, err
	}
	out := connector.NewPage(items[turn.Skip:turn.Keep], turn.Next)
	out.Missing = turn.Missing
	return out, nil
}

type creator struct{}

var _ connector.Writer[CreateIncident, Incident] = creator{}

func (creator) Send(ctx context.Context, c *connector.WriteCall, in CreateIncident) (*connector.Receipt[Incident], error) {
	inc := map[string]any{"type": "incident", "title": in.Title, "incident_key": c.Operation().UUID(),
		"service": map[string]any{"id": in.Service, "type": "service_reference"}}
	if in.Urgency != "" {
		inc["urgency"] = in.Urgency
	}
	var body one
	_, err := c.Do(ctx, &connector.HTTPRequest{Route: createRoute, Body: map[string]any{"incident": inc}, Header: from(c), Out: &body})
	if err != nil {
		return nil, err
	}
	if body.Incident.ID == "" || body.Incident.Key != c.Operation().UUID() {
		return nil, toolresult.NewError(toolresult.ProviderError, "the receipt is not for this incident")
	}
	return connector.Applied(body.Incident.out(), body.Incident.ID), nil
}

func (creator) Reconcile(ctx context.Context, c *connector.ReadCall, in CreateIncident, op operation.Operation) (*connector.Evidence[Incident], error) {
	var body many
	_, err := c.Get(ctx, "/incidents", connector.Params{"service_ids[]": in.Service, "incident_key": op.UUID(), "date_range": "all"}, &body)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(body.Incidents, func(w wire) bool { return w.Key == op.UUID() }); i >= 0 {
		return connector.Happened(body.Incidents[i].out(), body.Incidents[i].ID), nil
	}
	if body.Incidents == nil || len(body.Incidents) > 0 {
		return nil, nil
	}
	return connector.DidNotHappen[Incident](), nil
}

func acknowledge(ctx context.Context, c *connector.WriteCall, in AcknowledgeIncident) (*connector.Receipt[Incident], error) {
	var body one
	_, err := c.Do(ctx, &connector.HTTPRequest{Route: updateRoute, Params: connector.Params{"incident": in.Incident},
		Body: map[string]any{"incident": map[string]any{"type": "incident", "status": "acknowledged"}}, Header: from(c), Out: &body})
	if err != nil {
		return nil, err
	}
	if body.Incident.ID != in.Incident || body.Incident.Status == "triggered" {
		return nil, toolresult.NewError(toolresult.ProviderError, "the receipt does not say that the incident is acknowledged")
	}
	return connector.Applied(body.Incident.out(), body.Incident.ID), nil
}

// acknowledged looks at the state that was asked for: there is nothing else to find.
func acknowledged(ctx context.Context, c *connector.ReadCall, in AcknowledgeIncident, _ operation.Operation) (*connector.Evidence[Incident], error) {
	w, err := fetch(ctx, c, in.Incident)
	if err != nil {
		return nil, err
	}
	if w.Status == "triggered" {
		return connector.DidNotHappen[Incident](), nil
	}
	return connector.Happened(w.out(), w.ID), nil
}

// from names the person who acts: PagerDuty wants it with an account's key.
func from(c *connector.WriteCall) http.Header {
	return http.Header{"From": {c.Connection().Account}}
}

// judge knows PagerDuty's errors: {"error":{"code":2100,"message":"Not Found","errors":[]}}.
func judge(r *provider.Response) (provider.Ruling, bool) {
	if r.Status == http.StatusForbidden {
		return provider.Ruling{Code: toolresult.NotFound, Effect: toolresult.EffectNotApplied}, true
	}
	if r.Status == http.StatusBadRequest && strings.Contains(string(r.Body), "matching dedup key already exists") {
		// The incident of this very key is open: it was made before.
		return provider.Ruling{Code: toolresult.Conflict, Effect: toolresult.EffectUnknown, ProviderCode: "2002"}, true
	}
	return rules.HTTP(r)
}
