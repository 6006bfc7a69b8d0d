package logs_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/logs"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host/hosttest"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const key = "canary-of-the-log-key"

var orders = authz.ResourceID{Type: "service", ID: "prod/order-service"}

// incident is a grant of the service during the incident only.
func incident() authz.Policy {
	return authztest.AllowScope(authz.OnlyDuring(authz.Resource{ResourceID: orders, Window: toolresult.Interval{Start: alr.Start(), End: alr.End()}}))
}

func open(t testing.TB, opts *providers.LokiOptions, policy authz.Policy) (*providers.Loki, *hosttest.World) {
	t.Helper()
	o := providers.LokiOptions{}
	if opts != nil {
		o = *opts
	}
	o.Authorization = "Bearer " + key
	p := providers.NewLoki(&o)
	c, err := logs.New("loki")
	require.NoError(t, err)
	return p, hosttest.Open(t, policy, []connector.Connector{c}, host.System{Endpoint: "loki", Connector: "logs", Key: key, Org: alr.Namespace, Provider: p})
}

const window = `"start":"2026-04-29T02:30:00Z","end":"2026-04-29T02:50:00Z"`

const args = `{"namespace":"prod","service":"order-service",` + window + `}`

func TestSearch(t *testing.T) {
	_, w := open(t, nil, incident())
	r := w.Call("loki_search", hosttest.With(t, args, "contains", "timed out"))
	require.Equal(t, toolresult.MeaningComplete, r.Meaning())
	lines := hosttest.Data[[]logs.Line](t, r)
	require.Len(t, lines, 36)
	require.Equal(t, "app", lines[0].Container)
	require.Contains(t, lines[0].Text, "upstream call timed out")
	require.Equal(t, toolresult.Untrusted, r.Provenance.Trust)
	require.Equal(t, "2026-04-29T02:30:00Z/2026-04-29T02:50:00Z", r.Provenance.Window.String())
	require.Equal(t, `{namespace="prod",service="order-service"} |= "timed out"`, r.Provenance.Object)

	none := w.Call("loki_search", hosttest.With(t, args, "contains", "no such text"))
	require.Equal(t, toolresult.MeaningNoMatch, none.Meaning())
}

// The lines hold a token or an e-mail address each; none comes out.
func TestLinesAreScrubbed_R10(t *testing.T) {
	_, w := open(t, nil, incident())
	r := w.Call("loki_search", args)
	require.NotContains(t, string(r.Data), "tok_secret")
	require.NotContains(t, string(r.Data), "alice@example.test")
	require.Contains(t, string(r.Data), "[e-mail]")
}

// Every page but the last says that there is more, and together they are every
// line once.
func TestPages_P1(t *testing.T) {
	all := alr.Logs(alr.Namespace)
	for _, size := range []int{1, 7, len(all) - 1, len(all), len(all) + 1, 500} {
		_, w := open(t, nil, incident())
		pages, last := hosttest.Pages[logs.Line](t, w, "loki_search", hosttest.With(t, args, "page_size", max(size, 2)))
		require.Equal(t, toolresult.MeaningComplete, last.Meaning())
		var got []time.Time
		for _, p := range pages {
			for _, l := range p {
				got = append(got, l.At)
			}
		}
		require.Len(t, got, len(all), size)
		for i, l := range all {
			require.Equal(t, l.T, got[i].UnixNano(), size)
		}
	}
	p, w := open(t, nil, incident())
	r := w.Call("loki_search", hosttest.With(t, args, "page_size", 10))
	require.Equal(t, []toolresult.Gap{toolresult.GapRemainingPages}, r.Coverage.Missing)
	other := strings.Replace(args, "02:50", "02:45", 1)
	require.ErrorIs(t, w.Call("loki_search", hosttest.With(t, other, "cursor", r.NextCursor)).Err(), toolresult.CursorInvalid, "of another window")
	require.Equal(t, 1, p.Requests())
}

// Lines of one nanosecond are neither lost nor doubled between pages.
func TestSharedNanosecond_P1(t *testing.T) {
	labels := []alr.Label{{Name: "container", Value: "app"}, {Name: "namespace", Value: "prod"}, {Name: "service", Value: "order-service"}}
	lines := func(counts ...int) (out []alr.Line) {
		for i, n := range counts {
			for j := range n {
				out = append(out, alr.Line{Labels: labels, T: alr.Deployed().UnixNano() + int64(i), Text: fmt.Sprintf("%d/%d", i, j)})
			}
		}
		return out
	}
	for _, row := range []struct {
		why    string
		counts []int
		size   int
	}{
		{"a pair at the edge of a page", []int{1, 1, 2, 1}, 3},
		{"more than a page", []int{1, 7, 1}, 3},
		{"more than a page, at the end", []int{1, 7}, 3},
		{"nothing else", []int{9}, 2},
		{"at each instant", []int{3, 3, 3, 3}, 2},
	} {
		all := lines(row.counts...)
		_, w := open(t, &providers.LokiOptions{Lines: map[string][]alr.Line{alr.Namespace: all}}, incident())
		pages, last := hosttest.Pages[logs.Line](t, w, "loki_search", hosttest.With(t, args, "page_size", row.size))
		require.True(t, last.Coverage.Complete, row.why)
		var got, want []string
		for _, p := range pages {
			for _, l := range p {
				got = append(got, l.Text)
			}
		}
		for _, l := range all {
			want = append(want, l.Text)
		}
		require.ElementsMatch(t, want, got, row.why)
	}

	_, w := open(t, &providers.LokiOptions{Lines: map[string][]alr.Line{alr.Namespace: lines(5001, 1)}}, incident())
	r := w.Call("loki_search", hosttest.With(t, args, "page_size", 500))
	require.Contains(t, r.Coverage.Missing, toolresult.GapRemainingRows, "more than the server gives at once, and no way to the rest")
	require.Empty(t, r.NextCursor)
}

func TestOtherTenant_A6(t *testing.T) {
	p, w := open(t, nil, incident())
	for why, names := range map[string]string{
		"another service":    `"namespace":"secret","service":"ledger"`,
		"a quote in a name":  `"namespace":"prod\"} or {namespace=\"secret","service":"order-service"`,
		"a slash in a name":  `"namespace":"prod/order-service","service":"x"`,
		"any service":        `"namespace":"prod","service":".*"`,
		"another, same name": `"namespace":"secret","service":"order-service"`,
	} {
		want := toolresult.PermissionDenied
		if !strings.Contains(why, "another") {
			want = toolresult.InvalidInput // it is no name at all
		}
		require.ErrorIs(t, w.Call("loki_search", "{"+names+","+window+"}").Err(), want, why)
	}
	require.Zero(t, p.Requests())
}

// A grant for a window is not one for more; what is left out is said.
func TestWindow_A6(t *testing.T) {
	p, w := open(t, nil, incident())
	r := w.Call("loki_search", `{"namespace":"prod","service":"order-service","contains":"timed out","start":"2026-04-29T01:00:00Z","end":"2026-04-29T04:00:00Z"}`)
	require.Equal(t, []toolresult.Gap{toolresult.GapWindowClipped}, r.Coverage.Missing)
	require.Equal(t, "2026-04-29T02:20:00Z/2026-04-29T03:05:00Z", r.Provenance.Window.String())
	require.Len(t, hosttest.Data[[]logs.Line](t, r), 36)

	n := p.Requests()
	r = w.Call("loki_search", `{"namespace":"prod","service":"order-service","start":"2026-04-30T01:00:00Z","end":"2026-04-30T02:00:00Z"}`)
	require.ErrorIs(t, r.Err(), toolresult.EgressDenied, "another day")
	for why, span := range map[string]string{
		"backwards": `"start":"2026-04-29T02:50:00Z","end":"2026-04-29T02:30:00Z"`,
		"too long":  `"start":"2026-04-29T02:00:00Z","end":"2026-04-29T08:00:01Z"`,
		"long ago":  `"start":"1970-01-01T00:00:00Z","end":"1970-01-01T01:00:00Z"`,
		"no zone":   `"start":"2026-04-29T02:30:00","end":"2026-04-29T02:50:00"`,
	} {
		require.ErrorIs(t, w.Call("loki_search", `{"namespace":"prod","service":"order-service",`+span+`}`).Err(), toolresult.InvalidInput, why)
	}
	require.Equal(t, n, p.Requests())
}

func TestProviderErrors_E3(t *testing.T) {
	plain := http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	for _, row := range []struct {
		why    string
		answer providers.Answer
		want   toolresult.ErrorCode
	}{
		{"an error is bare text", providers.Answer{Status: 400, Header: plain, Body: "parse error at line 1, col 25: syntax error"}, toolresult.InvalidInput},
		{"no tenant", providers.Answer{Status: 401, Header: plain, Body: "no org id"}, toolresult.ConnectionRequired},
		{"a proxy says no", providers.Answer{Status: 403, Header: plain, Body: "forbidden"}, toolresult.PermissionDenied},
		{"the answer is too large for it", providers.Answer{Status: 413, Header: plain, Body: "response larger than the max"}, toolresult.ResultTooLarge},
		{"its limit", providers.Answer{Status: 429, Header: http.Header{"Retry-After": {"3"}}, Body: "too many outstanding requests"}, toolresult.RateLimited},
		{"it gives up", providers.Answer{Status: 504, Header: plain, Body: "request timed out, decrease the duration"}, toolresult.ProviderUnavailable},
		{"it is broken", providers.Answer{Status: 500, Header: plain, Body: "oops"}, toolresult.ProviderError},
		{"a failure with 200", providers.Answer{Status: 200, Body: `{"status":"error"}`}, toolresult.ProviderError},
		{"numbers in place of lines", providers.Answer{Status: 200, Body: `{"status":"success","data":{"resultType":"matrix","result":[]}}`}, toolresult.ProviderError},
		{"a line of another time", providers.Answer{Status: 200, Body: `{"status":"success","data":{"resultType":"streams","result":[{"stream":{},"values":[["1","x"]]}]}}`}, toolresult.ProviderError},
	} {
		p, w := open(t, nil, incident())
		p.AnswerNext(row.answer)
		r := w.Call("loki_search", args)
		require.ErrorIs(t, r.Err(), row.want, row.why)
		require.Nil(t, r.Data, row.why)
	}
}

func TestLongLineIsCut_R7(t *testing.T) {
	labels := []alr.Label{{Name: "namespace", Value: "prod"}, {Name: "service", Value: "order-service"}}
	_, w := open(t, &providers.LokiOptions{Lines: map[string][]alr.Line{alr.Namespace: {{Labels: labels, T: alr.Deployed().UnixNano(), Text: strings.Repeat("é", 4000)}}}}, incident())
	r := w.Call("loki_search", args)
	require.Equal(t, []toolresult.Gap{"long_lines"}, r.Coverage.Missing)
	require.Len(t, hosttest.Data[[]logs.Line](t, r)[0].Text, 4096)
}
