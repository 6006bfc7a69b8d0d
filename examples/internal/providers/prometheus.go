package providers

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// Prometheus answers as Prometheus 2.42 does (as 3.16 where
// [PrometheusOptions.V3] says so) from the series of the incident.
//
// It serves /api/v1/query and /api/v1/query_range (GET and POST with a form),
// /api/v1/labels, /api/v1/label/NAME/values, /api/v1/series,
// /api/v1/status/buildinfo and /-/ready.
//
// Queries: instant selectors with the four kinds of matchers, rate and increase
// over a range selector, histogram_quantile, sum and max with by. What these
// give is computed from the series as Prometheus computes it. Everything else is
// refused with 400 bad_data and a parse error, also where a Prometheus would
// have understood it. The texts of errors equal those of the real server where
// the tests say so; a connector must go by errorType, not by the text.
type Prometheus struct {
	Wire
	opts PrometheusOptions
	db   *promDB
}

// PrometheusOptions configures [NewPrometheus]; nil is the incident, version
// 2.42, open to everybody.
type PrometheusOptions struct {
	// Authorization is the value of the header of that name that every request
	// needs, such as "Bearer x". Empty: none is needed.
	Authorization string
	// V3 switches to version 3.16: the parameter limit truncates with a warning,
	// infos are sent, windows are open on the left.
	V3 bool
	// MaxSamples bounds the points of one answer; more is the error
	// "execution" (422). 0: no bound.
	MaxSamples int
	// Families are the metrics served. Nil: those of the incident.
	Families []alr.Family
}

// NewPrometheus returns a Prometheus with the incident's series.
func NewPrometheus(opts *PrometheusOptions) *Prometheus {
	p := &Prometheus{}
	if opts != nil {
		p.opts = *opts
	}
	families := p.opts.Families
	if families == nil {
		families = alr.Families()
	}
	p.db = newPromDB(families, p.opts.V3)
	return p
}

// ServeHTTP answers one request.
func (p *Prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.serve(w, r, p.answer) }

func (p *Prometheus) answer(w http.ResponseWriter, r *http.Request) {
	if p.opts.Authorization != "" && r.Header.Get("Authorization") != p.opts.Authorization {
		w.Header().Set("WWW-Authenticate", "Basic")
		plain(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	const get, both = "GET, OPTIONS", "GET, OPTIONS, POST"
	path := r.URL.Path
	label, isValues := strings.CutSuffix(strings.TrimPrefix(path, "/api/v1/label/"), "/values")
	switch {
	case path == "/api/v1/query_range":
		p.call(w, r, both, p.queryRange)
	case path == "/api/v1/query":
		p.call(w, r, both, p.query)
	case path == "/api/v1/series":
		p.call(w, r, both, p.seriesList)
	case path == "/api/v1/labels":
		p.call(w, r, both, func(f url.Values) (*promAnswer, *promError) { return p.labelList(f, "") })
	case strings.HasPrefix(path, "/api/v1/label/") && isValues && label != "":
		p.call(w, r, get, func(f url.Values) (*promAnswer, *promError) { return p.labelList(f, label) })
	case path == "/api/v1/status/buildinfo":
		p.call(w, r, get, p.buildInfo)
	case path == "/-/ready":
		send(w, http.StatusOK, "text/plain; charset=utf-8", "Prometheus Server is Ready.\n")
	default:
		plain(w, http.StatusNotFound, "404 page not found")
	}
}

// A promAnswer is the successful half of the protocol: data is JSON.
type promAnswer struct {
	data            string
	warnings, infos []string
}

type promError struct {
	status     int
	kind, text string
}

func badData(format string, args ...any) *promError {
	return &promError{http.StatusBadRequest, "bad_data", fmt.Sprintf(format, args...)}
}

func badParam(name, format string, args ...any) *promError {
	return badData("invalid parameter %q: %s", name, fmt.Sprintf(format, args...))
}

func (p *Prometheus) call(w http.ResponseWriter, r *http.Request, allow string, h func(url.Values) (*promAnswer, *promError)) {
	if !slices.Contains(strings.Split(allow, ", "), r.Method) {
		w.Header().Set("Allow", allow)
		plain(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	if err := r.ParseForm(); err != nil {
		p.send(w, nil, badData("error parsing form values: %s", err))
		return
	}
	a, problem := h(r.Form)
	p.send(w, a, problem)
}

func (p *Prometheus) send(w http.ResponseWriter, a *promAnswer, problem *promError) {
	if problem != nil {
		send(w, problem.status, "application/json", `{"status":"error","errorType":`+encode(problem.kind, false)+`,"error":`+encode(problem.text, false)+`}`)
		return
	}
	body := `{"status":"success","data":` + a.data
	if len(a.warnings) > 0 {
		body += `,"warnings":` + encode(a.warnings, false)
	}
	if len(a.infos) > 0 {
		body += `,"infos":` + encode(a.infos, false)
	}
	send(w, http.StatusOK, "application/json", body+"}")
}

// maxPoints is the largest number of steps of a range query.
const maxPoints = 11000

func (p *Prometheus) queryRange(f url.Values) (*promAnswer, *promError) {
	start, problem := promTime(f, "start")
	if problem != nil {
		return nil, problem
	}
	end, problem := promTime(f, "end")
	if problem != nil {
		return nil, problem
	}
	if end.Before(start) {
		return nil, badParam("end", "end timestamp must not be before start time")
	}
	step, problem := promSeconds(f, "step")
	switch {
	case problem != nil:
		return nil, problem
	case step <= 0:
		return nil, badParam("step", "zero or negative query resolution step widths are not accepted. Try a positive integer")
	case end.Sub(start)/step > maxPoints:
		return nil, badData("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
	}
	n, problem := p.parse(f, p.opts.V3)
	if problem != nil {
		return nil, problem
	}
	if s, ok := n.(*selector); ok && s.window > 0 {
		return nil, badData("invalid expression type \"range vector\" for range query, must be Scalar or instant Vector")
	}
	return p.matrix(f, n, start.UnixMilli(), end.UnixMilli(), max(1, step.Milliseconds()))
}

func (p *Prometheus) matrix(f url.Values, n node, start, end, step int64) (*promAnswer, *promError) {
	var out []alr.Series
	index := map[string]int{}
	points := 0
	for t := start; t <= end; t += step {
		vector, err := p.db.eval(n, t)
		if err != nil {
			return nil, &promError{http.StatusUnprocessableEntity, "execution", err.Error()}
		}
		if points += len(vector); p.opts.MaxSamples > 0 && points > p.opts.MaxSamples {
			return nil, &promError{http.StatusUnprocessableEntity, "execution", "query processing would load too many samples into memory in query execution"}
		}
		for _, s := range vector {
			i, ok := index[labelKey(s.labels)]
			if !ok {
				i = len(out)
				index[labelKey(s.labels)] = i
				out = append(out, alr.Series{Labels: s.labels})
			}
			out[i].Samples = append(out[i].Samples, alr.Sample{T: t, V: s.v})
		}
	}
	slices.SortFunc(out, func(a, b alr.Series) int { return compareLabels(a.Labels, b.Labels) })
	a := &promAnswer{infos: p.infos(n)}
	if problem := truncate(p, f, &out, a); problem != nil {
		return nil, problem
	}
	a.data = matrixJSON(out)
	return a, nil
}

func (p *Prometheus) query(f url.Values) (*promAnswer, *promError) {
	at := time.Now()
	if text := f.Get("time"); text != "" {
		t, problem := promTime(f, "time")
		if problem != nil {
			return nil, badParam("time", "Invalid time value for 'time': cannot parse %q to a valid timestamp", text)
		}
		at = t
	}
	n, problem := p.parse(f, true)
	if problem != nil {
		return nil, problem
	}
	t := at.UnixMilli()
	a := &promAnswer{infos: p.infos(n)}
	if s, ok := n.(*selector); ok && s.window > 0 {
		return p.rawSamples(f, s, t)
	}
	vector, err := p.db.eval(n, t)
	if err != nil {
		return nil, &promError{http.StatusUnprocessableEntity, "execution", err.Error()}
	}
	if problem := truncate(p, f, &vector, a); problem != nil {
		return nil, problem
	}
	var items []string
	for _, s := range vector {
		items = append(items, `{"metric":`+labelsJSON(s.labels)+`,"value":`+pointJSON(t, s.v)+`}`)
	}
	a.data = `{"resultType":"vector","result":[` + strings.Join(items, ",") + `]}`
	return a, nil
}

// rawSamples answers an instant query for a range vector.
func (p *Prometheus) rawSamples(f url.Values, s *selector, t int64) (*promAnswer, *promError) {
	var out []alr.Series
	for _, found := range p.db.find(s.matchers) {
		if in := p.db.between(found, t, s.window.Milliseconds()); len(in) > 0 {
			out = append(out, alr.Series{Labels: found.Labels, Samples: in})
		}
	}
	a := &promAnswer{}
	if problem := truncate(p, f, &out, a); problem != nil {
		return nil, problem
	}
	a.data = matrixJSON(out)
	return a, nil
}

// parse reads the parameters query and timeout. Version 2.42 names the parameter
// in the error of an instant query only.
func (p *Prometheus) parse(f url.Values, named bool) (node, *promError) {
	if text := f.Get("timeout"); text != "" {
		d, problem := promSeconds(f, "timeout")
		switch {
		case problem != nil:
			return nil, problem
		case d <= 0 && p.opts.V3:
			return nil, badParam("timeout", "timeout must be positive, got %s", d)
		case d <= 0:
			return nil, &promError{http.StatusServiceUnavailable, "timeout", "query timed out in query queue"}
		}
	}
	n, err := parsePromQL(f.Get("query"))
	switch {
	case err != nil && named:
		return nil, badParam("query", "%s", err)
	case err != nil:
		return nil, badData("%s", err)
	}
	return n, nil
}

// infos are the remarks of version 3: a rate over what is not a counter.
func (p *Prometheus) infos(n node) []string {
	switch n := n.(type) {
	case *aggregate:
		return p.infos(n.of)
	case *quantileCall:
		return p.infos(n.of)
	case *rateCall:
		name := metricName(n.of)
		counts := slices.ContainsFunc([]string{"_total", "_sum", "_count", "_bucket"}, func(s string) bool { return strings.HasSuffix(name, s) })
		if p.opts.V3 && !counts && len(p.db.find(n.of.matchers)) > 0 {
			return []string{fmt.Sprintf("PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: %q (%s)", name, n.of.place)}
		}
	}
	return nil
}

func metricName(s *selector) string {
	for _, m := range s.matchers {
		if m.name == "__name__" && m.op == "=" {
			return m.value
		}
	}
	return ""
}

// truncate applies the parameter limit, which version 2.42 ignores.
func truncate[T any](p *Prometheus, f url.Values, list *[]T, a *promAnswer) *promError {
	text := f.Get("limit")
	if !p.opts.V3 || text == "" {
		return nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil {
		return badParam("limit", "%s", err)
	}
	if limit < 0 {
		return badParam("limit", "limit must be non-negative")
	}
	if limit > 0 && len(*list) > limit {
		*list = (*list)[:limit]
		a.warnings = append(a.warnings, "results truncated due to limit")
	}
	return nil
}

// matched returns the series that some match[] admits and that have a sample
// between start and end.
func (p *Prometheus) matched(f url.Values) ([]alr.Series, *promError) {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	for name, bound := range map[string]*int64{"start": &from, "end": &to} {
		if f.Get(name) != "" {
			t, problem := promTime(f, name)
			if problem != nil {
				return nil, badParam(name, "Invalid time value for '%s': cannot parse %q to a valid timestamp", name, f.Get(name))
			}
			*bound = t.UnixMilli()
		}
	}
	admitted := make([]bool, len(p.db.series))
	for _, text := range f["match[]"] {
		n, err := parsePromQL(text)
		s, ok := n.(*selector)
		if err != nil || !ok || s.window > 0 {
			return nil, badParam("match[]", "%s", cmp.Or(err, fmt.Errorf("1:1: parse error: unexpected expression")))
		}
		for i, one := range p.db.series {
			admitted[i] = admitted[i] || !slices.ContainsFunc(s.matchers, func(m matcher) bool { return !m.matches(one.Get(m.name)) })
		}
	}
	var out []alr.Series
	for i, s := range p.db.series {
		inTime := slices.ContainsFunc(s.Samples, func(x alr.Sample) bool { return from <= x.T && x.T <= to })
		if inTime && (admitted[i] || len(f["match[]"]) == 0) {
			out = append(out, s)
		}
	}
	return out, nil
}

func (p *Prometheus) seriesList(f url.Values) (*promAnswer, *promError) {
	if len(f["match[]"]) == 0 {
		return nil, badData("no match[] parameter provided")
	}
	found, problem := p.matched(f)
	if problem != nil {
		return nil, problem
	}
	a := &promAnswer{}
	if problem := truncate(p, f, &found, a); problem != nil {
		return nil, problem
	}
	var items []string
	for _, s := range found {
		items = append(items, labelsJSON(s.Labels))
	}
	a.data = "[" + strings.Join(items, ",") + "]"
	return a, nil
}

// labelList lists the values of a label, or the names of all labels.
func (p *Prometheus) labelList(f url.Values, label string) (*promAnswer, *promError) {
	found, problem := p.matched(f)
	if problem != nil {
		return nil, problem
	}
	list := []string{}
	for _, s := range found {
		for _, l := range s.Labels {
			switch label {
			case "":
				list = append(list, l.Name)
			case l.Name:
				list = append(list, l.Value)
			}
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	a := &promAnswer{}
	if problem := truncate(p, f, &list, a); problem != nil {
		return nil, problem
	}
	a.data = encode(list, false)
	return a, nil
}

func (p *Prometheus) buildInfo(url.Values) (*promAnswer, *promError) {
	version := "2.42.0+ds"
	if p.opts.V3 {
		version = "3.16.0"
	}
	return &promAnswer{data: `{"version":"` + version + `","revision":"embedded","branch":"","buildUser":"","buildDate":"","goVersion":""}`}, nil
}

// promTime reads seconds since 1970 (with a fraction) or RFC 3339.
func promTime(f url.Values, name string) (time.Time, *promError) {
	text := f.Get(name)
	if t, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(t) < 1e12 {
		return time.UnixMilli(int64(math.Round(t * 1000))), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	return time.Time{}, badParam(name, "cannot parse %q to a valid timestamp", text)
}

// promSeconds reads seconds (with a fraction) or a duration such as 1m30s.
func promSeconds(f url.Values, name string) (time.Duration, *promError) {
	text := f.Get(name)
	if d, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(d) < 9e9 {
		return time.Duration(d * float64(time.Second)), nil
	}
	if d, err := promDuration(text); err == nil {
		return d, nil
	}
	return 0, badParam(name, "cannot parse %q to a valid duration", text)
}

func labelsJSON(labels []alr.Label) string {
	var b strings.Builder
	for i, l := range labels {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(encode(l.Name, false) + ":" + encode(l.Value, false))
	}
	return "{" + b.String() + "}"
}

func matrixJSON(list []alr.Series) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"metric":` + labelsJSON(s.Labels) + `,"values":[`)
		for j, p := range s.Samples {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(pointJSON(p.T, p.V))
		}
		b.WriteString("]}")
	}
	return `{"resultType":"matrix","result":[` + b.String() + `]}`
}

// pointJSON writes a timestamp in seconds (three decimals if any) and the value
// as a string; values far from one have an exponent.
func pointJSON(t int64, v float64) string {
	seconds := strconv.FormatInt(t/1000, 10)
	if ms := t % 1000; ms != 0 {
		seconds += fmt.Sprintf(".%03d", ms)
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return "[" + seconds + `,"` + strconv.FormatFloat(v, format, -1, 64) + `"]`
}
