package alr

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
)

// A Label is one name and value of a series, __name__ included.
type Label struct{ Name, Value string }

// A Sample is a value at an instant in milliseconds since 1970.
type Sample struct {
	T int64
	V float64
}

// A Series is labels (sorted by name) with samples (sorted by time).
type Series struct {
	Labels  []Label
	Samples []Sample
}

// Get returns the value of a label, "" if the series has none.
func (s Series) Get(name string) string {
	for _, l := range s.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// A Family is the series of one metric as OpenMetrics groups them.
type Family struct {
	Name, Type, Unit, Help string
	Series                 []Series
}

// Families returns the metrics of the window, every series with a sample each
// [Step] from [Start] to [End].
func Families() []Family {
	return []Family{
		{Name: "http_request_duration_seconds", Type: "histogram", Unit: "seconds", Help: "Request latency.", Series: latencies()},
		{Name: "http_requests", Type: "counter", Help: "Requests by code.", Series: requests()},
		{Name: "service:http_request_duration_seconds:p95", Type: "gauge", Help: "Recorded P95.", Series: recorded()},
		{Name: "db_pool_connections_in_use", Type: "gauge", Help: "Pool use.", Series: []Series{pool()}},
		{Name: "kube_deployment_status_observed_generation", Type: "gauge", Help: "Deployment generation.", Series: []Series{generation()}},
	}
}

// WriteOpenMetrics writes the window in the OpenMetrics text format (1.0), as
// promtool reads it.
func WriteOpenMetrics(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, f := range Families() {
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", f.Name, f.Help, f.Name, f.Type)
		if f.Unit != "" {
			fmt.Fprintf(b, "# UNIT %s %s\n", f.Name, f.Unit)
		}
		for _, s := range f.Series {
			writeSeries(b, s)
		}
	}
	b.WriteString("# EOF\n")
	return b.Flush()
}

func writeSeries(b *bufio.Writer, s Series) {
	head, sep := s.Get("__name__"), "{"
	for _, l := range s.Labels[1:] {
		head += sep + l.Name + "=" + strconv.Quote(l.Value)
		sep = ","
	}
	for _, p := range s.Samples {
		fmt.Fprintf(b, "%s} %s %d\n", head, strconv.FormatFloat(p.V, 'f', -1, 64), p.T/1000)
	}
}

// series runs value over the instants of the window. The labels must be given
// sorted by name.
func series(metric string, value func(t int64) float64, labels ...string) Series {
	s := Series{Labels: []Label{{"__name__", metric}}}
	for i := 0; i < len(labels); i += 2 {
		s.Labels = append(s.Labels, Label{labels[i], labels[i+1]})
	}
	for t := Start(); !t.After(End()); t = t.Add(Step) {
		s.Samples = append(s.Samples, Sample{t.UnixMilli(), value(t.Unix())})
	}
	return s
}

// counter adds up what each step brings.
func counter(perStep func(t int64) float64) func(int64) float64 {
	sum := 0.0
	return func(t int64) float64 { sum += perStep(t); return sum }
}

// slow says whether a step that ends at t lies in the slow period.
func slow(t int64) bool { return t > SlowFrom().Unix() && t <= SlowUntil().Unix() }

// latencies are cumulative buckets of a hundred requests a second, such that
// the 95th percentile interpolates to 0.21 s and, while slow, to 2.1 s.
func latencies() []Series {
	bounds := []string{"0.05", "0.1", "0.2", "0.25", "0.5", "1", "2", "2.5", "5", "+Inf"}
	fast := []float64{40, 80, 94, 99, 100, 100, 100, 100, 100, 100}
	late := []float64{20, 45, 60, 66, 78, 88, 94, 99, 100, 100}
	const third = 15 / 3 // a step's seconds, shared by three pods
	var out []Series
	for _, pod := range Pods(Service) {
		for i, le := range bounds {
			out = append(out, series("http_request_duration_seconds_bucket", counter(func(t int64) float64 {
				if slow(t) {
					return late[i] * third
				}
				return fast[i] * third
			}), "le", le, "namespace", Namespace, "pod", pod, "service", Service))
		}
		sum := counter(func(t int64) float64 {
			if slow(t) {
				return 0.62 * 100 * third
			}
			return 0.082 * 100 * third
		})
		out = append(out,
			series("http_request_duration_seconds_sum", func(t int64) float64 { return math.Round(sum(t)*1000) / 1000 }, "namespace", Namespace, "pod", pod, "service", Service),
			series("http_request_duration_seconds_count", counter(func(int64) float64 { return 100 * third }), "namespace", Namespace, "pod", pod, "service", Service))
	}
	return out
}

func requests() []Series {
	perSecond := func(normal, bad float64) func(int64) float64 {
		return counter(func(t int64) float64 {
			if slow(t) {
				return bad * 15
			}
			return normal * 15
		})
	}
	return []Series{
		series("http_requests_total", perSecond(99, 92), "code", "200", "namespace", Namespace, "service", Service),
		series("http_requests_total", perSecond(1, 3), "code", "500", "namespace", Namespace, "service", Service),
		series("http_requests_total", perSecond(0, 5), "code", "504", "namespace", Namespace, "service", Service),
		series("http_requests_total", perSecond(60, 60), "code", "200", "namespace", Namespace, "service", Dependency),
		series("http_requests_total", perSecond(777, 777), "code", "200", "namespace", OtherNamespace, "service", OtherService),
	}
}

func recorded() []Series {
	p95 := func(t int64) float64 {
		if t >= SlowFrom().Unix() && t <= SlowUntil().Unix() {
			return 2.1
		}
		return 0.21
	}
	flat := func(v float64) func(int64) float64 { return func(int64) float64 { return v } }
	const name = "service:http_request_duration_seconds:p95"
	return []Series{
		series(name, p95, "namespace", Namespace, "service", Service),
		series(name, flat(0.09), "namespace", Namespace, "service", Dependency),
		series(name, flat(CanaryLatency), "namespace", OtherNamespace, "service", OtherService),
	}
}

// pool rises with the latency and stays far from its bound of 50: not proof of
// anything, which is the point.
func pool() Series {
	return series("db_pool_connections_in_use", func(t int64) float64 {
		if t < SlowFrom().Unix() {
			return 14
		}
		return 17
	}, "namespace", Namespace, "pool", "orders", "service", Service)
}

func generation() Series {
	return series("kube_deployment_status_observed_generation", func(t int64) float64 {
		if t >= Deployed().Unix() {
			return 42
		}
		return 41
	}, "deployment", Service, "namespace", Namespace)
}
