package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/alerts"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/deployments"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/logs"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/metrics"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/pods"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/runbooks"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/tickets"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpen(t *testing.T) {
	c, err := tickets.New("tickets", nil)
	require.NoError(t, err)
	policy := authztest.Allow(authz.ResourceID{Type: "project", ID: "inc"})
	s := host.System{Endpoint: "tickets", Connector: "tickets", Provider: providers.NewRedmine(nil), Header: "X-Redmine-API-Key", Key: alr.TicketKey}
	h, err := host.Open(policy, []connector.Connector{c}, []host.System{s}, nil)
	require.NoError(t, err)
	alice, err := h.Principal("alice")
	require.NoError(t, err)
	r := h.Invoker.Invoke(t.Context(), &connector.InvokeRequest{Principal: alice, Capability: "search_tickets", Arguments: json.RawMessage(`{"project":"inc"}`)})
	require.Equal(t, toolresult.MeaningNoMatch, r.Meaning(), r.Err())
	require.NoError(t, h.Close())
	require.NoError(t, h.Close())
}

// All connectors of the incident fit into one host.
func TestIncident(t *testing.T) {
	var all []connector.Connector
	add := func(c connector.Connector, err error) {
		require.NoError(t, err)
		all = append(all, c)
	}
	add(alerts.New("alertmanager"))
	add(alerts.NewHistory("alert-history"))
	add(deployments.New("github", nil))
	add(logs.New("loki"))
	add(metrics.New("prometheus"))
	add(pods.New("cluster", nil))
	add(runbooks.New("runbooks"))
	add(tickets.New("tickets", nil))
	systems := []host.System{
		{Endpoint: "alertmanager", Provider: providers.NewAlertmanager(nil)},
		{Endpoint: "alert-history", Connector: "alert-history", Key: "history-key", Provider: providers.NewAlertHistory(nil)},
		{Endpoint: "github", Connector: "deployments", Key: "github-key", Org: "acme", Provider: providers.NewGitHub(nil)},
		{Endpoint: "loki", Connector: "logs", Key: "loki-key", Org: alr.Namespace, Provider: providers.NewLoki(nil)},
		{Endpoint: "prometheus", Provider: providers.NewPrometheus(nil)},
		{Endpoint: "cluster", Connector: "pods", Key: "readertoken", Provider: providers.NewKubernetes(nil)},
		{Endpoint: "runbooks", Connector: "runbooks", Key: "runbooks-key", Provider: providers.NewRunbooks(nil)},
		{Endpoint: "tickets", Connector: "tickets", Key: alr.TicketKey, Header: "X-Redmine-API-Key", Provider: providers.NewRedmine(nil)},
	}
	policy := authztest.Allow(authz.ResourceID{Type: "service", ID: "prod/order-service"}, authz.ResourceID{Type: "namespace", ID: "prod"}, authz.ResourceID{Type: "project", ID: "inc"})
	h, err := host.Open(policy, all, systems, nil)
	require.NoError(t, err)
	defer h.Close()
	alice, err := h.Principal("alice")
	require.NoError(t, err)
	seen, err := h.Invoker.Visible(t.Context(), &connector.VisibleRequest{Principal: alice})
	require.NoError(t, err)
	var names []string
	for _, d := range seen {
		names = append(names, d.Name)
	}
	require.Equal(t, []string{"create_incident_ticket", "get_alert_details", "get_runbook", "get_ticket", "kubernetes_get_pods", "list_past_alerts",
		"list_recent_deployments", "loki_search", "prometheus_query_range", "search_runbooks", "search_tickets"}, names)
	const of, during = `"namespace":"prod","service":"order-service"`, `"start":"2026-04-29T02:20:00Z","end":"2026-04-29T02:50:00Z"`
	for name, args := range map[string]string{
		"get_alert_details":       `{"alert_id":"ALR-20260429-017",` + of + `}`,
		"list_past_alerts":        `{` + of + `,` + during + `}`,
		"list_recent_deployments": `{` + of + `,` + during + `}`,
		"loki_search":             `{` + of + `,` + during + `}`,
		"prometheus_query_range":  `{` + of + `,` + during + `,"metric":"latency_p95"}`,
		"kubernetes_get_pods":     `{` + of + `}`,
		"search_runbooks":         `{` + of + `,"words":"approval"}`,
		"search_tickets":          `{"project":"inc"}`,
	} {
		r := h.Invoker.Invoke(t.Context(), &connector.InvokeRequest{Principal: alice, Capability: name, Arguments: json.RawMessage(args)})
		require.NoError(t, r.Err(), name)
		require.True(t, r.Coverage.Complete, name)
	}
}

func TestOpenRefuses(t *testing.T) {
	c, err := tickets.New("tickets", nil)
	require.NoError(t, err)
	for why, row := range map[string]struct {
		s    host.System
		says string
	}{
		"no way to the system":        {host.System{Endpoint: "tickets"}, "one of Provider and URL"},
		"two ways":                    {host.System{Endpoint: "tickets", URL: "http://127.0.0.1:1", Provider: providers.NewRedmine(nil)}, "one of Provider and URL"},
		"a user in the URL":           {host.System{Endpoint: "tickets", URL: "http://user@192.0.2.1/"}, "must not hold a user"},
		"the connector's is not here": {host.System{Endpoint: "elsewhere", Provider: providers.NewRedmine(nil)}, `needs the endpoint "tickets"`},
	} {
		_, err := host.Open(authztest.AllowAsked(), []connector.Connector{c}, []host.System{row.s}, nil)
		require.ErrorContains(t, err, row.says, why)
	}
}

// A connector, a system and a policy are a host.
func ExampleOpen() {
	c, err := tickets.New("tickets", nil)
	if err != nil {
		return
	}
	policy := authztest.Allow(authz.ResourceID{Type: "project", ID: "inc"})
	h, err := host.Open(policy, []connector.Connector{c}, []host.System{
		{Endpoint: "tickets", Connector: "tickets", Provider: providers.NewRedmine(nil), Header: "X-Redmine-API-Key", Key: alr.TicketKey},
	}, nil)
	if err != nil {
		return
	}
	defer h.Close()
	alice, err := h.Principal("alice")
	if err != nil {
		return
	}
	for _, ticket := range []string{"INC-4821", "SECRET-4820"} {
		r := h.Invoker.Invoke(context.Background(), &connector.InvokeRequest{Principal: alice, Capability: "get_ticket", Arguments: json.RawMessage(`{"ticket":"` + ticket + `"}`)})
		fmt.Println(r.Err())
	}
	// Output:
	// NOT_FOUND: there is no such ticket, or none that may be seen
	// PERMISSION_DENIED: not allowed
}
