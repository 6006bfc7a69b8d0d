package providers

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/stretchr/testify/require"
)

const (
	recordedP95 = `service:http_request_duration_seconds:p95{namespace="prod",service="order-service"}`
	quantileP95 = `histogram_quantile(0.95, sum by (le) (rate(http_request_duration_seconds_bucket{namespace="prod",service="order-service"}[1m])))`
)

// rangeOf is a query_range over the window of the incident.
func rangeOf(query, step string) string {
	return form("/api/v1/query_range", "query", query, "start", "2026-04-29T02:35:00Z", "end", "2026-04-29T02:50:00Z", "step", step)
}

func TestPrometheusCaptured(t *testing.T) {
	p := NewPrometheus(nil)
	instant := func(query, at string) string { return form("/api/v1/query", "query", query, "time", at) }
	for name, target := range map[string]string{
		"err-11000":          form("/api/v1/query_range", "query", "up", "start", "0", "end", "11001", "step", "1"),
		"err-404":            "/api/v1/nosuch",
		"err-badstep":        form("/api/v1/query_range", "query", "up", "start", "0", "end", "1", "step", "abc"),
		"err-badtimeout":     form("/api/v1/query", "query", "up", "timeout", "abc"),
		"err-dup":            form("/api/v1/query_range", "query", `rate({__name__=~"http_request_duration_seconds_sum|http_request_duration_seconds_count"}[5m])`, "start", "1777430100", "end", "1777430160", "step", "60"),
		"err-endbeforestart": form("/api/v1/query_range", "query", "up", "start", "1", "end", "0", "step", "1"),
		"err-noquery":        form("/api/v1/query_range", "start", "0", "end", "1", "step", "1"),
		"err-nostep":         form("/api/v1/query_range", "query", "up", "start", "0", "end", "1"),
		"err-parse":          form("/api/v1/query_range", "query", "rate(http_requests_total[1m]", "start", "0", "end", "1", "step", "1"),
		"err-series-nomatch": "/api/v1/series",
		"err-start-plus":     "/api/v1/query_range?query=up&start=2026-04-29T10:35:00+08:00&end=2026-04-29T10:50:00%2B08:00&step=60",
		"err-step0":          form("/api/v1/query_range", "query", "up", "start", "0", "end", "1", "step", "0"),
		"err-timeout-0":      form("/api/v1/query", "query", "up", "timeout", "0"),
		"err-type":           form("/api/v1/query_range", "query", "http_requests_total[1m]", "start", "0", "end", "1", "step", "1"),
		"ok-empty":           form("/api/v1/query_range", "query", "nosuch", "start", "0", "end", "11000", "step", "1"),
		"ok-instant":         instant(recordedP95, "1777430280"),
		"ok-labels":          form("/api/v1/label/code/values"),
		"ok-lookback":        instant(recordedP95, "1777432199"),
		"ok-lookback-past":   instant(recordedP95, "1777432201"),
		"ok-series":          form("/api/v1/series", "match[]", `http_requests_total{service="order-service"}`),
	} {
		t.Run(name, func(t *testing.T) {
			same(t, captured(t, "prometheus-2.42", name), ask(t, p, "GET", target, ""))
		})
	}
	t.Run("ok-post", func(t *testing.T) {
		body := strings.TrimPrefix(form("", "query", recordedP95, "start", "2026-04-29T10:35:00+08:00", "end", "2026-04-29T02:36:00Z", "step", "60"), "?")
		same(t, captured(t, "prometheus-2.42", "ok-post"), ask(t, p, "POST", "/api/v1/query_range", body, "Content-Type", "application/x-www-form-urlencoded"))
	})
	t.Run("err-405", func(t *testing.T) {
		same(t, captured(t, "prometheus-2.42", "err-405"), ask(t, p, "DELETE", "/api/v1/query", ""), "Allow")
	})
	t.Run("err-401", func(t *testing.T) {
		locked := NewPrometheus(&PrometheusOptions{Authorization: "Bearer right"})
		for _, header := range []string{"", "Bearer wrong"} {
			same(t, captured(t, "prometheus-2.42", "err-401"), ask(t, locked, "GET", "/api/v1/query?query=up", "", "Authorization", header), "Www-Authenticate")
		}
		require.Equal(t, 200, ask(t, locked, "GET", "/api/v1/query?query=up", "", "Authorization", "Bearer right").Code)
		require.Equal(t, 3, locked.Requests())
		require.Equal(t, 3, locked.RequestsTo("GET", "/api/v1/query"))
	})
	t.Run("err-maxsamples", func(t *testing.T) {
		small := NewPrometheus(&PrometheusOptions{MaxSamples: 10})
		same(t, captured(t, "prometheus-2.42", "err-maxsamples"), ask(t, small, "GET", rangeOf(recordedP95, "60"), ""))
	})
}

func TestPrometheusThreeCaptured(t *testing.T) {
	p := NewPrometheus(&PrometheusOptions{V3: true})
	total := `http_requests_total{namespace="prod",service="order-service"}`
	for name, target := range map[string]string{
		"err-limit-abc":         rangeOf(total, "300") + "&limit=abc",
		"err-limit-neg":         rangeOf(total, "300") + "&limit=-1",
		"err-parse":             form("/api/v1/query", "query", "rate(http_requests_total[1m]"),
		"err-timeout0":          form("/api/v1/query", "query", "up", "timeout", "0"),
		"ok-info-rate-gauge":    rangeOf("rate(db_pool_connections_in_use[5m])", "300"),
		"ok-labelvalues-limit1": "/api/v1/label/code/values?limit=1",
		"ok-limit1":             rangeOf(total, "300") + "&limit=1",
		"ok-p95":                rangeOf(recordedP95, "60"),
		"ok-series-limit1":      form("/api/v1/series", "match[]", total, "limit", "1"),
	} {
		t.Run(name, func(t *testing.T) {
			same(t, captured(t, "prometheus-3.16", name), ask(t, p, "GET", target, ""))
		})
	}
}

// The queries that the example's connector builds, and what a caller may try
// in their place, must get the same bytes from a real server. Not here: timeout=0,
// whose text the real server chooses by a race.
func TestPrometheusDiffersNowhere(t *testing.T) {
	base, p := peers.Prometheus(t), NewPrometheus(nil)
	for _, target := range []string{
		rangeOf(recordedP95, "60"),
		rangeOf(recordedP95, "15s"),
		rangeOf(recordedP95, "1m"),
		rangeOf(quantileP95, "60"),
		rangeOf(quantileP95, "7"),
		rangeOf(`histogram_quantile(0.5, sum(rate(http_request_duration_seconds_bucket{service="order-service"}[2m])) by (le, pod))`, "60"),
		rangeOf(`sum by (code) (rate(http_requests_total{namespace="prod",service="order-service"}[1m]))`, "60"),
		rangeOf(`sum by (code, service) (increase(http_requests_total[3m]))`, "45"),
		rangeOf(`max(db_pool_connections_in_use)`, "60"),
		rangeOf(`sum(rate(http_requests_total{code=~"5.."}[5m]))`, "13"),
		rangeOf(`sum by (namespace) (rate(http_requests_total{namespace!="prod"}[1m]))`, "60"),
		rangeOf(`kube_deployment_status_observed_generation{namespace="prod",deployment="order-service"}`, "60"),
		rangeOf(`service:http_request_duration_seconds:p95{namespace="secret"}`, "300"),
		rangeOf(`{namespace="prod",__name__=~"db_.*"}`, "300"),
		rangeOf(`http_request_duration_seconds_sum`, "300"),
		rangeOf(`rate(http_request_duration_seconds_sum[90s])`, "20"),
		rangeOf(`rate({namespace="prod"}[1m])`, "300"),
		rangeOf(`nosuch{namespace="prod"}`, "60"),
		rangeOf(`{namespace=""}`, "60"),
		rangeOf(`rate(http_requests_total[1m]`, "60"),
		rangeOf(`http_requests_total[1m]`, "60"),
		rangeOf(``, "60"),
		rangeOf(recordedP95, "0"),
		rangeOf(recordedP95, "-1"),
		rangeOf(recordedP95, "1s500ms"),
		rangeOf(recordedP95, "1.5"),
		rangeOf(recordedP95, "x"),
		form("/api/v1/query_range", "query", recordedP95, "start", "1777430100.5", "end", "1777430160.25", "step", "15"),
		form("/api/v1/query_range", "query", "up", "start", "0", "end", "11000", "step", "1"),
		form("/api/v1/query_range", "query", "up", "start", "0", "end", "11001", "step", "1"),
		form("/api/v1/query_range", "query", "up", "start", "yesterday", "end", "1", "step", "1"),
		form("/api/v1/query_range", "query", "up", "start", "2", "end", "1", "step", "1"),
		form("/api/v1/query_range", "query", "up", "start", "0", "end", "1"),
		form("/api/v1/query_range"),
		form("/api/v1/query", "query", recordedP95, "time", "2026-04-29T02:38:00Z"),
		form("/api/v1/query", "query", recordedP95, "time", "1777432199.999"),
		form("/api/v1/query", "query", recordedP95, "time", "1777432200"),
		form("/api/v1/query", "query", recordedP95, "time", "1777432201"),
		form("/api/v1/query", "query", recordedP95+"[1m]", "time", "1777430280"),
		form("/api/v1/query", "query", `http_requests_total`, "time", "1777430280"),
		form("/api/v1/query", "query", quantileP95, "time", "1777430280"),
		form("/api/v1/query", "query", recordedP95, "time", "x"),
		form("/api/v1/query"),
		"/api/v1/labels",
		"/api/v1/label/service/values",
		"/api/v1/label/nosuch/values",
		form("/api/v1/label/service/values", "match[]", `{namespace="prod"}`),
		form("/api/v1/series", "match[]", `http_requests_total`, "match[]", `db_pool_connections_in_use`),
		"/api/v1/series",
		"/api/v1/nosuch",
		"/-/ready",
	} {
		want := wire(t, base, "GET", target, "")
		got := ask(t, p, "GET", target, "")
		require.Equal(t, want.Body.String(), got.Body.String(), target)
		require.Equal(t, want.Code, got.Code, target)
		require.Equal(t, want.Header().Get("Content-Type"), got.Header().Get("Content-Type"), target)
	}
}

func TestPromQLOutsideTheGrammar(t *testing.T) {
	for name, query := range map[string]string{
		"an offset":            recordedP95 + " offset 5m",
		"a time":               recordedP95 + " @ 0",
		"a comment":            recordedP95 + " # {namespace=\"secret\"}",
		"an operator":          recordedP95 + " or up",
		"a number":             "1",
		"another function":     "info(up)",
		"another kind of text": "up{a='b'}",
		"an open string":       `up{a="b`,
		"an open brace":        `up{a="b"`,
		"an open window":       `up[1m`,
		"an empty window":      `rate(up[])`,
		"a window of zero":     `rate(up[0s])`,
		"an instant vector":    `rate(up)`,
		"a range vector":       `sum(up[1m])`,
		"a bad expression":     `up{a=~"("}`,
		"no expression":        "sum()",
		"too deep":             strings.Repeat("sum(", 30) + "up" + strings.Repeat(")", 30),
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, NewPrometheus(nil), "GET", form("/api/v1/query", "query", query), "")
			require.Equal(t, http.StatusBadRequest, got.Code)
			require.Contains(t, got.Body.String(), `"errorType":"bad_data"`)
			require.Contains(t, got.Body.String(), "parse error")
		})
	}
}

func FuzzPromQL(f *testing.F) {
	for _, q := range []string{recordedP95, quantileP95, `sum by (a,b) (rate(x{a!="1",b=~"2|3"}[1h30m]))`, `{__name__="x"}[5m]`} {
		f.Add(q)
	}
	p := NewPrometheus(nil)
	f.Fuzz(func(t *testing.T, query string) {
		got := ask(t, p, "GET", form("/api/v1/query", "query", query, "time", "1777430280"), "")
		require.Contains(t, []int{200, 400, 422}, got.Code)
	})
}

func BenchmarkPrometheusQuantile(b *testing.B) {
	p, target := NewPrometheus(nil), rangeOf(quantileP95, "60")
	for b.Loop() {
		ask(b, p, "GET", target, "")
	}
}
