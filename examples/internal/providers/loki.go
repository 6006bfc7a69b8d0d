package providers

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// Loki answers /loki/api/v1/query_range, /loki/api/v1/labels and
// /loki/api/v1/label/NAME/values as Loki 1.6.1 does, from the incident's lines.
//
// A query is a selector with the four kinds of matchers and any number of line
// filters: {namespace="prod"} |= "timed out" != "retry" |~ "a|b" !~ "c". Metric
// queries, parsers and everything else are refused with 400 and a parse error.
//
// The tenant comes from the header X-Scope-OrgID ("prod" and "secret" hold
// lines); without it the answer is 401, and a tenant without lines gets an empty
// success. The window includes start and excludes end. There is no cursor: with
// more lines than limit (100 if missing, at most 5,000) the rest is missing and
// nothing says so. Errors are text, not JSON, and a success is JSON under the
// type text/plain. The statistics count lines and bytes, and no time.
type Loki struct {
	Wire
	opts LokiOptions
}

// LokiOptions configures [NewLoki]; nil is the incident.
type LokiOptions struct {
	// Authorization is the header's value that every request needs; empty: none.
	// The real server leaves that to a proxy, so the 401 is of our own making.
	Authorization string
	// Lines are the lines of each tenant, oldest first. Nil: the incident's.
	Lines map[string][]alr.Line
}

// NewLoki returns a Loki with the incident's lines.
func NewLoki(opts *LokiOptions) *Loki {
	l := &Loki{}
	if opts != nil {
		l.opts = *opts
	}
	if l.opts.Lines == nil {
		l.opts.Lines = map[string][]alr.Line{alr.Namespace: alr.Logs(alr.Namespace), alr.OtherNamespace: alr.Logs(alr.OtherNamespace)}
	}
	return l
}

// ServeHTTP answers one request.
func (l *Loki) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.serve(w, r, l.answer) }

func (l *Loki) answer(w http.ResponseWriter, r *http.Request) {
	if l.opts.Authorization != "" && r.Header.Get("Authorization") != l.opts.Authorization {
		plain(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	label, isValues := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/loki/api/v1/label/"), "/values")
	isValues = isValues && strings.HasPrefix(r.URL.Path, "/loki/api/v1/label/")
	known := r.URL.Path == "/loki/api/v1/query_range" || r.URL.Path == "/loki/api/v1/labels" || isValues
	switch {
	case !known || r.Method != http.MethodGet:
		plain(w, http.StatusNotFound, "404 page not found")
	case r.Header.Get("X-Scope-OrgID") == "":
		plain(w, http.StatusUnauthorized, "no org id")
	case isValues:
		l.labels(w, r, label)
	case r.URL.Path == "/loki/api/v1/labels":
		l.labels(w, r, "")
	default:
		l.queryRange(w, r)
	}
}

func (l *Loki) labels(w http.ResponseWriter, r *http.Request, label string) {
	list := []string{}
	if label == "" {
		list = append(list, "__name__")
	}
	for _, line := range l.opts.Lines[r.Header.Get("X-Scope-OrgID")] {
		for _, x := range line.Labels {
			switch label {
			case "":
				list = append(list, x.Name)
			case x.Name:
				list = append(list, x.Value)
			}
		}
	}
	slices.Sort(list)
	send(w, http.StatusOK, "text/plain; charset=utf-8", `{"status":"success","data":`+encode(slices.Compact(list), false)+"}\n")
}

// A lokiRequest is a query_range with everything read.
type lokiRequest struct {
	matchers   []matcher
	filters    []matcher // op and value; the name is empty
	start, end int64
	limit      int
	forward    bool
}

func (l *Loki) queryRange(w http.ResponseWriter, r *http.Request) {
	q, err := readLoki(r.URL.Query().Get)
	if err != nil {
		plain(w, http.StatusBadRequest, err.Error())
		return
	}
	streams, lines, size := l.find(r.Header.Get("X-Scope-OrgID"), q)
	var items []string
	for _, s := range streams {
		var values []string
		for _, line := range s {
			values = append(values, fmt.Sprintf(`["%d",%s]`, line.T, encode(line.Text, false)))
		}
		items = append(items, `{"stream":`+labelsJSON(s[0].Labels)+`,"values":[`+strings.Join(values, ",")+`]}`)
	}
	const zero = `"headChunkBytes":0,"headChunkLines":0,"decompressedBytes":0,"decompressedLines":0,"compressedBytes":0,"totalDuplicates":0}`
	stats := fmt.Sprintf(`{"summary":{"bytesProcessedPerSecond":0,"linesProcessedPerSecond":0,"totalBytesProcessed":%d,"totalLinesProcessed":%d,"execTime":0},`, size, lines) +
		`"store":{"totalChunksRef":0,"totalChunksDownloaded":0,"chunksDownloadTime":0,` + zero +
		`,"ingester":{"totalReached":1,"totalChunksMatched":0,"totalBatches":0,"totalLinesSent":0,` + zero + `}`
	send(w, http.StatusOK, "text/plain; charset=utf-8", `{"status":"success","data":{"resultType":"streams","result":[`+strings.Join(items, ",")+`],"stats":`+stats+"}}\n")
}

// find returns the lines grouped by stream, and how many lines and bytes were
// looked at.
func (l *Loki) find(tenant string, q *lokiRequest) (streams [][]alr.Line, lines, size int) {
	if !slices.ContainsFunc(q.matchers, func(m matcher) bool { return !m.matches("") }) {
		return nil, 0, 0 // as 1.6.1 answers a selector that anything matches
	}
	var found []alr.Line
	for _, line := range l.opts.Lines[tenant] {
		s := alr.Series{Labels: line.Labels}
		if slices.ContainsFunc(q.matchers, func(m matcher) bool { return !m.matches(s.Get(m.name)) }) {
			continue
		}
		lines, size = lines+1, size+len(line.Text)
		if line.T >= q.start && line.T < q.end && !slices.ContainsFunc(q.filters, func(f matcher) bool { return !f.admits(line.Text) }) {
			found = append(found, line)
		}
	}
	found = visible(&l.Wire, found)
	if !q.forward {
		slices.Reverse(found)
	}
	for _, line := range found[:min(q.limit, len(found))] {
		i := slices.IndexFunc(streams, func(s []alr.Line) bool { return slices.Equal(s[0].Labels, line.Labels) })
		if i < 0 {
			i, streams = len(streams), append(streams, nil)
		}
		streams[i] = append(streams[i], line)
	}
	slices.SortFunc(streams, func(a, b []alr.Line) int { return compareLabels(a[0].Labels, b[0].Labels) })
	return streams, lines, size
}

// admits applies a line filter.
func (m matcher) admits(line string) bool {
	switch m.op {
	case "|=":
		return strings.Contains(line, m.value)
	case "!=":
		return !strings.Contains(line, m.value)
	case "|~":
		return m.re.MatchString(line)
	default:
		return !m.re.MatchString(line)
	}
}

// Bounds of a query.
const (
	lokiMaxLines  = 5000
	lokiMaxWindow = 721 * time.Hour
)

func readLoki(get func(string) string) (*lokiRequest, error) {
	q := &lokiRequest{limit: 100}
	var err error
	if text := get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil {
			return nil, err
		}
		if q.limit <= 0 {
			return nil, errors.New("limit must be a positive value")
		}
	}
	now := time.Now()
	if q.start, err = lokiTime(get("start"), now.Add(-time.Hour)); err != nil {
		return nil, err
	}
	if q.end, err = lokiTime(get("end"), now); err != nil {
		return nil, err
	}
	if q.end <= q.start {
		return nil, errors.New("end timestamp must not be before or equal to start time")
	}
	switch d := strings.ToUpper(get("direction")); d {
	case "", "BACKWARD":
	case "FORWARD":
		q.forward = true
	default:
		return nil, fmt.Errorf("invalid direction '%s'", get("direction"))
	}
	if step, err := strconv.ParseFloat(cmp.Or(get("step"), "1"), 64); err == nil && step <= 0 {
		return nil, errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer")
	}
	if err := q.parse(get("query")); err != nil {
		return nil, err
	}
	if window := time.Duration(q.end - q.start); window > lokiMaxWindow || window < 0 {
		return nil, fmt.Errorf("the query time range exceeds the limit (query length: %s, limit: %s)", window, lokiMaxWindow)
	}
	if q.limit > lokiMaxLines {
		return nil, fmt.Errorf("max entries limit per query exceeded, limit > max_entries_limit (%d > %d)", q.limit, lokiMaxLines)
	}
	return q, nil
}

// lokiTime reads nanoseconds, seconds with a fraction, or RFC 3339.
func lokiTime(text string, missing time.Time) (int64, error) {
	if text == "" {
		return missing.UnixNano(), nil
	}
	if strings.Contains(text, ".") {
		if t, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(t) < 9e9 {
			return int64(t * 1e9), nil
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		if len(text) <= 10 {
			if n > math.MaxInt64/int64(time.Second) {
				return 0, errors.New("time is out of range")
			}
			return n * int64(time.Second), nil
		}
		return n, nil
	}
	if t, parseErr := time.Parse(time.RFC3339Nano, text); parseErr == nil {
		return t.UnixNano(), nil
	}
	return 0, err
}

// parse reads the query. It shares the selector with PromQL.
func (q *lokiRequest) parse(text string) error {
	p := &promParser{text: text}
	if !p.accept('{') {
		return p.lokiError("expecting {")
	}
	s := &selector{}
	if err := p.matchers(s); err != nil {
		return p.lokiError("expecting } or ,")
	}
	q.matchers = s.matchers
	for p.blank(); p.pos < len(p.text); p.blank() {
		f := matcher{}
		for _, op := range []string{"|=", "!=", "|~", "!~"} {
			if strings.HasPrefix(p.text[p.pos:], op) {
				f.op = op
			}
		}
		if f.op == "" {
			return p.lokiError("expecting |=, |~, != or !~")
		}
		p.pos += len(f.op)
		var err error
		if f.value, err = p.quoted(); err != nil {
			return p.lokiError("expecting STRING")
		}
		if strings.HasSuffix(f.op, "~") {
			if f.re, err = regexp.Compile(f.value); err != nil {
				return p.lokiError(err.Error())
			}
		}
		q.filters = append(q.filters, f)
	}
	return nil
}

func (p *promParser) lokiError(want string) error {
	found := "IDENTIFIER"
	if p.pos >= len(p.text) {
		found = "$end"
	}
	return fmt.Errorf("parse error at line 1, col %d: syntax error: unexpected %s, %s", p.pos+1, found, want)
}
