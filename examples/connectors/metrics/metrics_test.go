package metrics_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/metrics"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const window = `"start":"2026-04-29T02:35:00Z","end":"2026-04-29T02:50:00Z"`

var orders = authz.ResourceID{Type: "service", ID: "prod/order-service"}

// ask opens a host over a Prometheus and returns how to ask it.
func ask(t *testing.T, s host.System, scope authz.Scope) func(args string) *toolresult.Result {
	t.Helper()
	c, err := metrics.New("prometheus")
	require.NoError(t, err)
	s.Endpoint, s.Connector = "prometheus", "metrics"
	h, err := host.Open(authztest.AllowScope(scope), []connector.Connector{c}, []host.System{s}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.Close() })
	alice, err := h.Principal("alice")
	require.NoError(t, err)
	return func(args string) *toolresult.Result {
		t.Helper()
		r := h.Invoker.Invoke(t.Context(), &connector.InvokeRequest{Principal: alice, Capability: "prometheus_query_range", Arguments: json.RawMessage(args)})
		require.NoError(t, r.Validate(&toolresult.ValidateOptions{ReadOnly: true}))
		require.NotContains(t, string(r.Data), "7.77", "the other tenant's figures")
		return r
	}
}

func decoded(t *testing.T, r *toolresult.Result) (out []metrics.Series) {
	t.Helper()
	require.NoError(t, r.Err())
	require.NoError(t, json.Unmarshal(r.Data, &out))
	return out
}

// incident asks what the incident asks, of an embedded or of a real server.
func incident(t *testing.T, s host.System) {
	q := ask(t, s, authz.Only(orders))
	r := q(`{"namespace":"prod","service":"order-service","metric":"latency_p95",` + window + `}`)
	require.Equal(t, toolresult.MeaningComplete, r.Meaning())
	series := decoded(t, r)
	require.Len(t, series, 1)
	require.Len(t, series[0].Points, 16, "both ends are included")
	require.True(t, strings.HasPrefix(series[0].Points[0].Value, "0.2"), series[0].Points)
	require.True(t, strings.HasPrefix(series[0].Points[4].Value, "2.1"), series[0].Points)
	require.Equal(t, "2026-04-29T02:35:00Z/2026-04-29T02:50:00.000000001Z", r.Provenance.Window.String())

	cut := q(`{"namespace":"prod","service":"order-service","metric":"requests","max_series":1,` + window + `}`)
	require.Equal(t, []toolresult.Gap{toolresult.GapRemainingRows}, cut.Coverage.Missing)
	require.Len(t, decoded(t, cut), 1)

	nothing := q(`{"namespace":"prod","service":"order-service","metric":"latency_p95","start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:10:00Z"}`)
	require.Equal(t, toolresult.MeaningNoMatch, nothing.Meaning())

	foreign := q(`{"namespace":"secret","service":"ledger","metric":"latency_p95",` + window + `}`)
	require.Equal(t, toolresult.PermissionDenied, foreign.Error.Code)

	backwards := q(`{"namespace":"prod","service":"order-service","metric":"latency_p95","start":"2026-04-29T02:50:00Z","end":"2026-04-29T02:35:00Z"}`)
	require.Equal(t, toolresult.StatusError, backwards.Status)

	many := q(`{"namespace":"prod","service":"order-service","metric":"latency_p95","start":"2026-04-29T00:00:00Z","end":"2026-04-30T00:00:00Z","step_seconds":1}`)
	require.Equal(t, toolresult.InvalidInput, many.Error.Code, "over 11,000 points")
	require.Equal(t, "bad_data", many.Error.Diagnostics.ProviderCode)
}

func TestIncidentEmbedded(t *testing.T) {
	for name, opts := range map[string]*providers.PrometheusOptions{"2.42": nil, "3.16": {V3: true}} {
		t.Run(name, func(t *testing.T) { incident(t, host.System{Provider: providers.NewPrometheus(opts)}) })
	}
}

// The same connector against a real server.
func TestIncidentReal(t *testing.T) { incident(t, host.System{URL: peers.Prometheus(t)}) }

// What is refused is refused before anything is sent.
func TestRefusedIsNotSent_A6_K5(t *testing.T) {
	p := providers.NewPrometheus(nil)
	q := ask(t, host.System{Provider: p}, authz.Only(orders))
	for _, row := range []struct {
		why, args string
		code      toolresult.ErrorCode
	}{
		{"another tenant's service", `{"namespace":"secret","service":"ledger","metric":"latency_p95",` + window + `}`, toolresult.PermissionDenied},
		{"another namespace's service of the same name", `{"namespace":"secret","service":"order-service","metric":"latency_p95",` + window + `}`, toolresult.PermissionDenied},
		{"a quote in a name", `{"namespace":"prod","service":"order-service\"} or up{a=\"","metric":"latency_p95",` + window + `}`, toolresult.InvalidInput},
		{"a question that is none", `{"namespace":"prod","service":"order-service","metric":"up",` + window + `}`, toolresult.InvalidInput},
		{"a query of its own", `{"namespace":"prod","service":"order-service","metric":"latency_p95","query":"up",` + window + `}`, toolresult.InvalidInput},
		{"a time without a zone", `{"namespace":"prod","service":"order-service","metric":"latency_p95","start":"2026-04-29T02:35:00","end":"2026-04-29T02:50:00Z"}`, toolresult.InvalidInput},
		{"a tenant", `{"namespace":"prod","service":"order-service","metric":"latency_p95","tenant":"x",` + window + `}`, toolresult.InvalidInput},
	} {
		require.Equal(t, row.code, q(row.args).Error.Code, row.why)
	}
	require.Zero(t, p.Requests())
}

// A grant for a window holds the request's own start and end.
func TestWindow_A6(t *testing.T) {
	p := providers.NewPrometheus(nil)
	at := func(h, m int) time.Time { return time.Date(2026, 4, 29, h, m, 0, 0, time.UTC) }
	scope := authz.OnlyDuring(authz.Resource{ResourceID: orders, Window: toolresult.Interval{Start: at(2, 34), End: at(2, 51)}})
	q := ask(t, host.System{Provider: p}, scope)
	require.NoError(t, q(`{"namespace":"prod","service":"order-service","metric":"latency_p95",`+window+`}`).Err())
	sent := p.Requests()
	wider := q(`{"namespace":"prod","service":"order-service","metric":"latency_p95","start":"2026-04-29T02:20:00Z","end":"2026-04-29T02:50:00Z"}`)
	require.Equal(t, toolresult.EgressDenied, wider.Error.Code)
	require.Equal(t, sent, p.Requests())
}

// The provider's failures are failures, by errorType.
func TestProviderErrors_E3_E5(t *testing.T) {
	for _, row := range []struct {
		status int
		body   string
		code   toolresult.ErrorCode
	}{
		{400, `{"status":"error","errorType":"bad_data","error":"x"}`, toolresult.InvalidInput},
		{422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`, toolresult.ResultTooLarge},
		{503, `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`, toolresult.Timeout},
		{200, `{"status":"error","errorType":"internal","error":"x"}`, toolresult.ProviderError},
		{401, `Unauthorized`, toolresult.ConnectionRequired},
		{502, `<html>`, toolresult.ProviderUnavailable},
		{200, `<html>`, toolresult.ProviderError},
		{200, `{"status":"success","data":{"result":[{"metric":{},"values":[["x","1"]]}]}}`, toolresult.ProviderError},
	} {
		p := providers.NewPrometheus(nil)
		q := ask(t, host.System{Provider: p}, authz.Only(orders))
		p.AnswerNext(providers.Answer{Status: row.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: row.body})
		r := q(`{"namespace":"prod","service":"order-service","metric":"latency_p95",` + window + `}`)
		require.Equal(t, toolresult.StatusError, r.Status, row.body)
		require.Equal(t, row.code, r.Error.Code, row.body)
	}
}
