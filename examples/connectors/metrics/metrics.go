// Package metrics is a connector for Prometheus: one capability, which reads one
// of a few questions about one service over a window of time.
//
//	c, err := metrics.New("prometheus")
//
// The model chooses from structure (which service, which question, which
// window) and never writes PromQL: the query is built here with package query,
// and the route proves at the wire that every selector in it is held to the
// namespace and service that were granted. Where the grant is limited to a
// window, the request's own start and end are held to it as well.
//
// It does not page (Prometheus cannot): an answer that was cut says so.
package metrics

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/query"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Query is what a model may ask.
type Query struct {
	Namespace string    `json:"namespace" jsonschema:"namespace of the service"`
	Service   string    `json:"service" jsonschema:"name of the service"`
	Metric    string    `json:"metric" jsonschema:"what to read: P95 latency in seconds, requests per second by status code, or database connections in use"`
	Start     time.Time `json:"start" jsonschema:"first instant, RFC 3339 with a zone"`
	End       time.Time `json:"end" jsonschema:"last instant, included"`
	Step      int       `json:"step_seconds" jsonschema:"distance between two points, in seconds"`
	MaxSeries int       `json:"max_series" jsonschema:"the most series to return"`
}

// Series is one line of a diagram. Values are the provider's decimal texts,
// because JSON has no NaN and no infinity.
type Series struct {
	Labels map[string]string `json:"labels"`
	Points []Point           `json:"points"`
}

// Point is one value.
type Point struct {
	At    time.Time `json:"at"`
	Value string    `json:"value"`
}

var questions = map[string]func(ns, svc string) query.Expr{
	"latency_p95": func(ns, svc string) query.Expr {
		buckets := query.Metric("http_request_duration_seconds_bucket", query.Is("namespace", ns), query.Is("service", svc))
		return query.Quantile(0.95, query.Sum(query.Rate(buckets, time.Minute), "le"))
	},
	"requests": func(ns, svc string) query.Expr {
		return query.Sum(query.Rate(query.Metric("http_requests_total", query.Is("namespace", ns), query.Is("service", svc)), time.Minute), "code")
	},
	"db_connections": func(ns, svc string) query.Expr {
		return query.Metric("db_pool_connections_in_use", query.Is("namespace", ns), query.Is("service", svc)).All()
	},
}

// New returns the connector. endpoint names the operator's egress profile.
func New(endpoint string) (connector.Connector, error) {
	return connector.New(
		connector.Info{ID: "metrics", Version: "1.0.0", Owner: "observability", ProviderAPIVersion: "v1", Endpoint: endpoint,
			Auth: connector.Auth{Mode: connector.AuthNone}, Rules: rules},
		connector.Read(connector.Spec{
			Name: "prometheus_query_range", Title: "Metrics of a service",
			Description: "Reads one metric of one service over a window of time. Not for alerts or logs.",
			Sensitivity: risk.Internal,
			Routes: []connector.Route{{
				Pattern: "GET /api/v1/query_range", Effect: connector.Reads,
				Touches: []string{"service:{promql:query:namespace}/{promql:query:service}"},
				Params:  []string{"step", "limit"},
				Window:  &connector.Window{Start: "?start", End: "?end", Lookback: time.Minute},
			}},
			Input: json.RawMessage(`{"properties":{
				"namespace":{"pattern":"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$","maxLength":63}, "service":{"pattern":"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$","maxLength":63},
				"metric":{"enum":["latency_p95","requests","db_connections"]},
				"step_seconds":{"minimum":1,"maximum":3600,"default":60},
				"max_series":{"minimum":1,"maximum":100,"default":20}}}`),
		}, connector.ByArgs(service), read))
}

func service(in Query) authz.ResourceID {
	return authz.ResourceID{Type: "service", ID: in.Namespace + "/" + in.Service}
}

func read(ctx context.Context, c *connector.ReadCall, in Query) (*connector.Answer[[]Series], error) {
	text, err := questions[in.Metric](in.Namespace, in.Service).Build()
	if err != nil {
		return nil, toolresult.WrapError(toolresult.InvalidInput, "the query cannot be built from these names", err)
	}
	var body answer
	_, err = c.Get(ctx, "/api/v1/query_range", connector.Params{
		"query": text, "start": instant(in.Start), "end": instant(in.End),
		"step": strconv.Itoa(in.Step), "limit": strconv.Itoa(in.MaxSeries)}, &body)
	if err != nil {
		return nil, err
	}
	series, err := body.series()
	if err != nil {
		return nil, err
	}
	a := connector.NoMatch[[]Series]()
	if len(series) > 0 {
		a = connector.Found(series[:min(len(series), in.MaxSeries)])
	}
	a.Missing = body.missing(in.MaxSeries)
	a.Source = connector.Source{Object: text, Window: toolresult.Interval{Start: in.Start, End: in.End.Add(time.Nanosecond)}} // the end is included
	return a, nil
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
