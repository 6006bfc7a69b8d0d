// Package telemetry shows what a replica does as OpenTelemetry metrics and traces.
//
// It hangs on three hooks and needs no other: an http.Handler in front of
// everything, the connector.Audit that is told of each call, and a
// connector.Middleware around what connectors do. A request is a span, and so is
// each run of a connector in it; what the audit says of the call becomes
// attributes of the request's span. Metrics are
//
//	http.server.request.duration   s      histogram of requests
//	drawbridge.calls               {call} counter of calls, by what came of them
//	drawbridge.connector.duration  s      histogram of runs of connectors
//	drawbridge.calls.abandoned     {call} runs that ignored the end of their call
//
// A change runs its connector twice, to render its request and to send it; a
// look-up of its outcome is no run.
//
// # What is never in them
//
// The attributes are those of Attributes, and their values come from closed sets.
// No argument, token, account, tenant or person is among them: who did what is in
// the audit log, which is kept and read by other rules. What a client sends as
// tracestate or baggage is dropped; its trace and span ids are kept.
//
// # What it does not do
//
// Requests to providers have no spans of their own, and renewals of tokens no
// metric: nothing of these passes a hook. Everything is sampled; a gateway with
// much to do puts a collector behind it that chooses.
package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Options are options of [Open].
type Options struct {
	// Instance and Release name the replica and its release.
	Instance, Release string
	// Connectors are those that are served.
	Connectors []connector.Connector
	// OTLP is the URL of a collector's OTLP/HTTP traces, such as
	// "http://127.0.0.1:4318/v1/traces". Empty: none.
	OTLP string
	// Traces gets a line of JSON for each span. Nil: nobody does.
	Traces io.Writer
}

// Telemetry is the instruments of one replica. It is safe for concurrent use.
type Telemetry struct {
	traces   *sdktrace.TracerProvider
	meters   *sdkmetric.MeterProvider
	registry *prometheus.Registry
	tracer   trace.Tracer
	meter    metric.Meter
	where    map[string]connector.Info // by capability

	requests, runs metric.Float64Histogram
	calls          metric.Int64Counter
}

// Open returns the instruments. The caller closes them.
func Open(ctx context.Context, o *Options) (*Telemetry, error) {
	t := &Telemetry{registry: prometheus.NewRegistry(), where: map[string]connector.Info{}}
	for _, c := range o.Connectors {
		m := c.Manifest()
		for _, d := range m.Capabilities {
			t.where[d.Name] = m.Info
		}
	}
	what := resource.NewSchemaless(attribute.String("service.name", "gateway"), attribute.String("service.version", o.Release), attribute.String("service.instance.id", o.Instance))
	spans := []sdktrace.TracerProviderOption{sdktrace.WithResource(what)}
	if o.OTLP != "" {
		e, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.OTLP))
		if err != nil {
			return nil, err
		}
		spans = append(spans, sdktrace.WithBatcher(e))
	}
	if o.Traces != nil {
		e, err := stdouttrace.New(stdouttrace.WithWriter(o.Traces))
		if err != nil {
			return nil, err
		}
		spans = append(spans, sdktrace.WithBatcher(e))
	}
	read, err := otelprometheus.New(otelprometheus.WithRegisterer(t.registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	t.traces = sdktrace.NewTracerProvider(spans...)
	t.meters = sdkmetric.NewMeterProvider(sdkmetric.WithResource(what), sdkmetric.WithReader(read))
	return t, t.instruments()
}

func (t *Telemetry) instruments() error {
	const scope = "github.com/drawbridge-sdk/drawbridge/examples/gateway"
	t.tracer, t.meter = t.traces.Tracer(scope), t.meters.Meter(scope)
	seconds := metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)
	var errs [3]error
	t.requests, errs[0] = t.meter.Float64Histogram("http.server.request.duration", metric.WithUnit("s"), metric.WithDescription("Requests."), seconds)
	t.runs, errs[1] = t.meter.Float64Histogram("drawbridge.connector.duration", metric.WithUnit("s"), metric.WithDescription("Runs of connectors."), seconds)
	t.calls, errs[2] = t.meter.Int64Counter("drawbridge.calls", metric.WithUnit("{call}"), metric.WithDescription("Calls, by what came of them."))
	return errors.Join(errs[:]...)
}

// Watch shows how many runs an invoker has abandoned.
func (t *Telemetry) Watch(inv *connector.Invoker) error {
	_, err := t.meter.Int64ObservableCounter("drawbridge.calls.abandoned", metric.WithUnit("{call}"), metric.WithDescription("Runs that ignored the end of their call."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error { o.Observe(inv.Abandoned()); return nil }))
	return err
}

// Metrics serves the metrics in Prometheus's format.
func (t *Telemetry) Metrics() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{})
}

// Close sends what is left.
func (t *Telemetry) Close(ctx context.Context) error {
	return errors.Join(t.traces.Shutdown(ctx), t.meters.Shutdown(ctx))
}

// Handler makes a span of each request.
func (t *Telemetry) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		ctx, span := t.tracer.Start(parent(r), "request", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(s, r.WithContext(ctx))
		about := ofRequest(r, s.status)
		span.SetAttributes(about...)
		if s.status >= 500 {
			span.SetStatus(codes.Error, "")
		}
		t.requests.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(about...))
	})
}

// parent is the context of a request with the caller's span, if it names one, and
// without what else it sends along.
func parent(r *http.Request) context.Context {
	got := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	sc := trace.SpanContextFromContext(got).WithTraceState(trace.TraceState{})
	if !sc.IsValid() {
		return r.Context()
	}
	return trace.ContextWithRemoteSpanContext(r.Context(), sc)
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (s *statusWriter) WriteHeader(status int) {
	if !s.wrote && status >= 200 {
		s.status, s.wrote = status, true
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Write(b []byte) (int, error) {
	s.wrote = true
	return s.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher], for answers that are streams.
func (s *statusWriter) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }

// Unwrap is for [http.ResponseController].
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Audit is next, after what an event says was counted.
func (t *Telemetry) Audit(next connector.Audit) connector.Audit {
	return connector.AuditFunc(func(ctx context.Context, e *connector.AuditEvent) error {
		if e.Result.CallID != "" { // an intent is not counted: its call is, later
			about := t.ofCall(e)
			trace.SpanFromContext(ctx).SetAttributes(about...)
			t.calls.Add(ctx, 1, metric.WithAttributes(about...))
		}
		return next.Record(ctx, e)
	})
}

// Middleware makes a span of each run of a connector.
func (t *Telemetry) Middleware() connector.Middleware {
	return func(next connector.Handler) connector.Handler {
		return func(ctx context.Context, call *connector.Call) (r *toolresult.Result, err error) {
			began, about := time.Now(), t.named(call.Capability())
			ctx, span := t.tracer.Start(ctx, "connector", trace.WithAttributes(about...))
			defer span.End()
			failed := "panic" // until it returns
			defer func() {
				if failed != "" {
					about = append(about, attribute.String("error.type", failed))
					span.SetAttributes(attribute.String("error.type", failed))
					span.SetStatus(codes.Error, "")
				}
				t.runs.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(about...))
			}()
			r, err = next(ctx, call)
			failed = failure(r, err)
			return r, err
		}
	}
}

// failure is a code, or nothing.
func failure(r *toolresult.Result, err error) string {
	switch {
	case err != nil:
		return code(toolresult.Code(err))
	case r != nil && r.Error != nil:
		return code(r.Error.Code)
	}
	return ""
}
