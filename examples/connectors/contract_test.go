package connectors_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/alerts"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/deployments"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/first"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/incidents"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/incidents/double"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/logs"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/metrics"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/pods"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/runbooks"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/tickets"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// tenants is a double for the suite out of an embedded provider: one of it for
// each tenant, and a credential for each user in place of the provider's one.
type tenants struct {
	header string // that carries the credential; empty: the provider asks for none
	prefix string // of its value, such as "Bearer "
	key    string // that the embedded provider knows
	org    string // what the provider calls the account's organization
	list   map[string]http.Handler
	state  string        // path under which the whole state can be read; empty: nothing changes
	inner  string        // header in which the embedded provider wants its key; empty: header
	other  [2]string     // a text, and what stands in its place in the other tenant's answers
	hidden *atomic.Int64 // items that tenant A has lost
}

func (d *tenants) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.header == "" {
		d.list[check.TenantA].ServeHTTP(w, r)
		return
	}
	tenant := check.TenantA
	for name := range d.list {
		for _, user := range []string{check.Alice, check.Bob, check.Carol, check.Dave} {
			if r.Header.Get(d.header) == d.prefix+d.Token(name, user) {
				tenant = name
				r = r.Clone(r.Context())
				d.login(r)
			}
		}
	}
	if tenant == check.TenantA {
		d.list[tenant].ServeHTTP(w, r) // what is unknown is for the provider to refuse
		return
	}
	got := httptest.NewRecorder()
	d.list[tenant].ServeHTTP(got, r)
	maps.Copy(w.Header(), got.Header())
	w.WriteHeader(got.Code)
	_, _ = w.Write([]byte(strings.ReplaceAll(got.Body.String(), d.other[0], d.other[1])))
}

func (d *tenants) login(r *http.Request) {
	if d.inner != "" {
		r.Header.Del(d.header)
		r.Header.Set(d.inner, d.key)
		return
	}
	r.Header.Set(d.header, d.prefix+d.key)
}

// Insert and Remove implement [check.DoubleWithChanges].
func (d *tenants) Insert(tenant string) { d.change(tenant, -1) }
func (d *tenants) Remove(tenant string) { d.change(tenant, 1) }

func (d *tenants) change(tenant string, n int64) {
	if p, ok := d.list[tenant].(interface{ Hide(int) }); ok {
		p.Hide(int(max(0, d.hidden.Add(n))))
	}
}

func (d *tenants) Token(tenant, user string) string { return "contract-token-" + tenant + "-" + user }

// Account implements [check.DoubleWithAccounts].
func (d *tenants) Account(_, user string) (account, org string) { return user, d.org }

func (d *tenants) Snapshot() ([]byte, error) {
	if d.state == "" {
		return []byte("{}"), nil
	}
	var out strings.Builder
	for _, name := range []string{check.TenantA, check.TenantB} {
		r := httptest.NewRequest("GET", d.state, nil)
		d.login(r)
		w := httptest.NewRecorder()
		d.list[name].ServeHTTP(w, r)
		if w.Code != 200 {
			return nil, fmt.Errorf("the state cannot be read: %d", w.Code)
		}
		out.WriteString(w.Body.String())
	}
	return []byte(out.String()), nil
}

// twice makes a provider for each of the two tenants.
func twice(d tenants, provider func() http.Handler) func(testing.TB) connectortest.Double {
	return func(testing.TB) connectortest.Double {
		out := d
		out.hidden = &atomic.Int64{}
		out.list = map[string]http.Handler{check.TenantA: provider(), check.TenantB: provider()}
		return &out
	}
}

const key = "canary-of-the-contract-key"

// called returns the double with a text that is another in the other tenant.
func (d tenants) called(from, to string) tenants {
	d.other = [2]string{from, to}
	return d
}

// redmine is one that has tickets already.
func redmine() http.Handler {
	p := ticketSystem{providers.NewRedmine(nil)}
	for i := range 6 {
		r := httptest.NewRequest("POST", "/issues.json", strings.NewReader(fmt.Sprintf(`{"issue":{"project_id":"inc","subject":"ticket %d"}}`, i)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Redmine-API-Key", alr.TicketKey)
		p.ServeHTTP(httptest.NewRecorder(), r)
	}
	return p
}

// ticketSystem loses tickets by closing them, the newest first.
type ticketSystem struct{ *providers.Redmine }

func (p ticketSystem) Hide(n int) {
	for i := range n {
		p.Close(alr.Ticket + 5 - i)
	}
}

const (
	orders  = `"namespace":"prod","service":"order-service"`
	payment = `"namespace":"prod","service":"payment"`
	nobody  = `"namespace":"prod","service":"nobody"`
	minutes = `,"start":"2026-04-29T02:35:00Z","end":"2026-04-29T02:50:00Z"`
	before  = `,"start":"2026-04-29T02:30:00Z","end":"2026-04-29T02:35:00Z"`
	month   = `,"start":"2026-04-01T00:00:00Z","end":"2026-04-30T00:00:00Z"`
	week    = `,"start":"2026-04-26T00:00:00Z","end":"2026-04-30T00:00:00Z"`
)

// fixtures are the connectors of the examples, each with the provider that is
// embedded for it.
func fixtures() map[string]connectortest.Fixture {
	bearer := tenants{header: "Authorization", prefix: "Bearer ", key: key}
	mine := tenants{header: "X-Redmine-API-Key", key: alr.TicketKey, state: "/issues.json?status_id=*&limit=100"}.called("ticket", "errand")
	bare := mine
	bare.header, bare.prefix, bare.inner = "Authorization", "Bearer ", "X-Redmine-API-Key"
	loki, hub := bearer, bearer
	loki.org, hub.org = alr.Namespace, "acme"
	return map[string]connectortest.Fixture{
		"metrics": {
			New:    func() (connector.Connector, error) { return metrics.New("prometheus") },
			Double: twice(tenants{}, func() http.Handler { return providers.NewPrometheus(nil) }),
			Samples: []connectortest.Sample{{Capability: "prometheus_query_range",
				Args:  `{` + orders + `,"metric":"latency_p95"` + minutes + `}`,
				Other: `{` + orders + `,"metric":"requests"` + minutes + `}`}},
		},
		"alerts": {
			New:    func() (connector.Connector, error) { return alerts.New("alertmanager") },
			Double: twice(tenants{}, func() http.Handler { return providers.NewAlertmanager(nil) }),
			Samples: []connectortest.Sample{{Capability: "get_alert_details",
				Args: `{"alert_id":"ALR-20260429-017",` + orders + `}`}},
		},
		"alert-history": {
			New: func() (connector.Connector, error) { return alerts.NewHistory("history") },
			Double: twice(bearer.called("ratio", "share"), func() http.Handler {
				return providers.NewAlertHistory(&providers.AlertHistoryOptions{Authorization: "Bearer " + key})
			}),
			Samples: []connectortest.Sample{{Capability: "list_past_alerts", Args: `{` + orders + week + `}`, Empty: `{` + nobody + week + `}`, Other: `{` + payment + week + `}`, Items: 4}},
		},
		"logs": {
			New: func() (connector.Connector, error) { return logs.New("loki") },
			Double: twice(loki.called("request done", "request over"), func() http.Handler {
				return providers.NewLoki(&providers.LokiOptions{Authorization: "Bearer " + key})
			}),
			Samples: []connectortest.Sample{{Capability: "loki_search", Args: `{` + orders + before + `}`, Empty: `{` + nobody + before + `}`, Other: `{` + orders + `,"contains":"timed out"` + minutes + `}`, Items: 10}},
		},
		"pods": {
			New: func() (connector.Connector, error) { return pods.New("cluster", nil) },
			Double: twice(bearer.called("registry.example.test", "registry.globex.test"), func() http.Handler {
				return providers.NewKubernetes(&providers.KubernetesOptions{Tokens: map[string][]string{key: {"prod"}}})
			}),
			Samples: []connectortest.Sample{{Capability: "kubernetes_get_pods", Args: `{` + orders + `}`, Empty: `{` + nobody + `}`, Other: `{` + payment + `}`, Items: len(alr.Pods(alr.Service))}},
		},
		"deployments": {
			New:    func() (connector.Connector, error) { return deployments.New("github", nil) },
			Double: twice(hub.called("v1.", "v2."), func() http.Handler { return providers.NewGitHub(&providers.GitHubOptions{Token: key}) }),
			Samples: []connectortest.Sample{{Capability: "list_recent_deployments", Args: `{` + orders + month + `}`,
				Empty: `{` + orders + `,"start":"2026-04-29T03:00:00Z","end":"2026-04-29T04:00:00Z"}`,
				Other: `{` + orders + `,"start":"2026-04-20T00:00:00Z","end":"2026-04-30T00:00:00Z"}`}},
		},
		"runbooks": {
			New: func() (connector.Connector, error) { return runbooks.New("runbooks") },
			Double: twice(bearer.called("order-service", "globex-service"), func() http.Handler {
				return providers.NewRunbooks(&providers.RunbooksOptions{Authorization: "Bearer " + key})
			}),
			Samples: []connectortest.Sample{
				{Capability: "search_runbooks", Args: `{` + orders + `}`, Empty: `{` + nobody + `}`, Other: `{` + payment + `}`, Items: 4},
				{Capability: "get_runbook", Args: `{` + orders + `,"runbook":"RB-101"}`, Missing: `{` + orders + `,"runbook":"RB-404"}`, Other: `{` + orders + `,"runbook":"RB-103"}`},
			},
		},
		"tickets": {
			New:    func() (connector.Connector, error) { return tickets.New("tickets", nil) },
			Double: twice(mine, redmine),
			Samples: []connectortest.Sample{
				{Capability: "search_tickets", Args: `{"project":"inc"}`, Empty: `{"project":"inc","status":"closed"}`, Missing: `{"project":"nobody"}`, Denied: `{"project":"secret"}`, Other: `{"project":"inc","subject":"ticket 1"}`, Items: 6},
				{Capability: "get_ticket", Args: `{"ticket":"INC-4821"}`, Missing: `{"ticket":"INC-9999"}`, Denied: `{"ticket":"SECRET-4820"}`, Other: `{"ticket":"INC-4822"}`},
				{Capability: "create_incident_ticket", Args: `{"project":"inc","subject":"hello"}`, Missing: `{"project":"nobody","subject":"hello"}`, Denied: `{"project":"secret","subject":"hello"}`, Other: `{"project":"inc","subject":"goodbye"}`},
			},
		},
		"incidents": {
			New:    func() (connector.Connector, error) { return incidents.New("pagerduty") },
			Double: func(testing.TB) connectortest.Double { return double.New() },
			Samples: []connectortest.Sample{
				{Capability: "get_incident", Args: `{"incident":"QINC1"}`, Bob: `{"incident":"QINC2"}`, Missing: `{"incident":"QINC404"}`, Denied: `{"incident":"QINC2"}`, Other: `{"incident":"QINC3"}`},
				{Capability: "search_incidents", Args: `{"service":"PSVCA"}`, Bob: `{"service":"PSVCB"}`, Empty: `{"service":"PSVCA","status":"resolved"}`, Items: 7},
				{Capability: "create_incident", Args: `{"service":"PSVCA","title":"hello"}`, Bob: `{"service":"PSVCB","title":"hello"}`, Other: `{"service":"PSVCA","title":"goodbye"}`},
				{Capability: "acknowledge_incident", Args: `{"incident":"QINC1"}`, Bob: `{"incident":"QINC2"}`, Other: `{"incident":"QINC3"}`},
			},
		},
		"first": {
			New:    func() (connector.Connector, error) { return first.New("tickets") },
			Double: twice(bare, redmine),
			Samples: []connectortest.Sample{{Capability: "get_ticket", Args: `{"ticket":"4821"}`, Missing: `{"ticket":"9999"}`, Denied: `{"ticket":"4820"}`,
				Other: `{"ticket":"4822"}`}},
		},
	}
}

// Every connector of the examples keeps the contract. T1, T2.
func TestContracts_T1_T2(t *testing.T) {
	for name, f := range fixtures() {
		t.Run(name, func(t *testing.T) {
			if realSystems[name] != nil {
				f.Compared = compared(t, name, f)
			}
			connectortest.Test(t, f)
		})
	}
}
