package route

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	byService = "service:{promql:query:namespace}/{promql:query:service}"
	form      = "application/x-www-form-urlencoded"
)

var metrics = []Route{
	{Pattern: "GET /api/v1/query_range", Effect: Reads, Touches: []string{byService}, Params: []string{"step"},
		Window: &Window{Start: "?start", End: "?end", Lookback: 5 * time.Minute}},
	{Pattern: "POST /api/v1/query_range", Effect: Reads, Touches: []string{byService}, Params: []string{"step"},
		Window: &Window{Start: "?start", End: "?end", Lookback: 5 * time.Minute}},
	{Pattern: "GET /api/v1/query", Effect: Reads, Touches: []string{byService, "namespace:{promql:query:namespace}"},
		Window: &Window{Start: "?time", End: "?time"}},
	{Pattern: "GET /api/v1/series", Effect: Reads, Touches: []string{"namespace:{promql:match[]*:namespace}"}},
	{Pattern: "GET /api/v1/labels", Effect: Reads, WholeConnection: true, Params: []string{"match[]*", "limit"}},
	{Pattern: "GET /loki/api/v1/query_range", Effect: Reads, Touches: []string{"namespace:{logql:query:namespace}"}, Params: []string{"limit"},
		Window: &Window{Start: "?start", End: "?end", Nanoseconds: true}},
	{Pattern: "GET /tenants/query", Effect: Reads, Touches: []string{"tenant:{^X-Scope-OrgID}"},
		Window: &Window{Start: "?time", End: "?time", Query: "promql:query", Lookback: time.Hour}},
	{Pattern: "POST /query", Effect: Reads, Touches: []string{"namespace:{promql:#/query:namespace}"},
		Window: &Window{Start: "#/from", End: "#/to"}},
}

func values(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

func TestQueries_A6(t *testing.T) {
	tab := table(t, metrics...)
	const orders, pay = `up{namespace="prod",service="orders"}`, `up{namespace="prod",service="pay"}`
	span := func(q ...string) string { return values(append(q, "start", "1700000000", "end", "1700000900")...) }
	for _, row := range []struct {
		why, method, path, query, body string
		want                           []Object
		err                            error
		says                           string
	}{
		{"one selector", "GET", "/api/v1/query_range", span("query", orders), "", []Object{{"service", "prod/orders"}}, nil, ""},
		{"an object for each selector", "GET", "/api/v1/query_range", span("query", orders+" / "+pay+" / "+orders), "", []Object{{"service", "prod/orders"}, {"service", "prod/pay"}}, nil, ""},
		{"a form", "POST", "/api/v1/query_range", "", span("query", orders), []Object{{"service", "prod/orders"}}, nil, ""},
		{"two kinds of objects of one query", "GET", "/api/v1/query", values("query", orders+"+"+pay, "time", "1700000000"), "", []Object{{"service", "prod/orders"}, {"service", "prod/pay"}, {"namespace", "prod"}}, nil, ""},
		{"a list", "GET", "/api/v1/series", values("match[]", orders, "match[]", `up{namespace="stage"}`), "", []Object{{"namespace", "prod"}, {"namespace", "stage"}}, nil, ""},
		{"a list of one", "GET", "/api/v1/series", values("match[]", orders), "", []Object{{"namespace", "prod"}}, nil, ""},
		{"a body", "POST", "/query", "", `{"query":"up{namespace=\"prod\"}","from":1700000000.5,"to":"1700000001"}`, []Object{{"namespace", "prod"}}, nil, ""},
		{"logs", "GET", "/loki/api/v1/query_range", values("query", `{namespace="prod"} |= "x"`, "start", "1700000000000000000", "end", "1700000000000000001"), "", []Object{{"namespace", "prod"}}, nil, ""},
		{"a list that decides nothing", "GET", "/api/v1/labels", values("match[]", "a", "match[]", "b"), "", nil, nil, ""},

		{"a query twice", "GET", "/api/v1/query_range", span("query", orders, "query", pay), "", nil, ErrTwice, "query"},
		{"the URL says one and the form another", "POST", "/api/v1/query_range", values("query", orders), span("query", pay), nil, ErrTwice, "query"},
		{"the URL says one and a JSON body another", "GET", "/api/v1/query_range", span("query", orders), `{"Query":"x"}`, nil, ErrQuery, ""},
		{"no query", "GET", "/api/v1/query_range", span(), "", nil, ErrQuery, "is not there"},
		{"a list of too many", "GET", "/api/v1/series", strings.Repeat(values("match[]", orders)+"&", 1001), "", nil, ErrQuery, "more than 1000"},
		{"a list of nothing", "GET", "/api/v1/series", "", "", nil, ErrQuery, "is not there"},
		{"one of a list is not proven", "GET", "/api/v1/series", values("match[]", orders, "match[]", "up"), "", nil, ErrQuery, "metric without braces"},
		{"a label is missing", "GET", "/api/v1/query_range", span("query", `up{namespace="prod"}`), "", nil, ErrQuery, "every label"},
		{"a query that is not proven", "GET", "/api/v1/query_range", span("query", orders+" offset 1h"), "", nil, ErrQuery, "byte"},
		{"values with the text between them", "GET", "/api/v1/query_range", span("query", `up{namespace="a/b",service="c"}`), "", nil, ErrObject, "stands between"},
		{"a query looks further back than declared", "GET", "/api/v1/query_range", span("query", `rate(`+orders+`[6m])`), "", nil, ErrWindow, "further back than 5m"},
		{"a look back that was not declared", "GET", "/api/v1/query", values("query", `rate(`+orders+`[1s])`, "time", "1700000000"), "", nil, ErrWindow, "further back than 0s"},
		{"a query that is not an object looks back", "GET", "/tenants/query", values("query", `rate(up{}[2h])`, "time", "1700000000"), "", nil, ErrWindow, "further back than 1h"},
		{"a window of a query in a body is missing", "POST", "/query", "", `{"query":"up{namespace=\"prod\"}","from":1700000000}`, nil, ErrWindow, "#/to"},
		{"a parameter that was not declared", "GET", "/loki/api/v1/query_range", values("query", `{namespace="prod"}`, "since", "30d"), "", nil, ErrParam, ""},
	} {
		h := http.Header{"X-Scope-Orgid": {"prod"}}
		h.Set("Content-Type", "application/json")
		if row.body != "" && row.body[0] != '{' {
			h.Set("Content-Type", form)
		}
		m, err := tab.Match(&Request{Method: row.method, Path: row.path, Query: row.query, Header: h, Body: []byte(row.body)}, nil)
		if row.err != nil {
			require.ErrorIs(t, err, row.err, row.why)
			require.ErrorContains(t, err, row.says, row.why)
			require.NotContains(t, err.Error(), "prod", row.why)
			continue
		}
		require.NoError(t, err, row.why)
		require.Equal(t, row.want, m.Objects, row.why)
	}
}

func TestWindows_A6(t *testing.T) {
	tab := table(t, metrics...)
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, err)
		return v.UTC()
	}
	const query = "query=up%7Bnamespace%3D%22prod%22%2Cservice%3D%22a%22%7D"
	const lines = "query=%7Bnamespace%3D%22prod%22%7D"
	for _, row := range []struct {
		why, path, query string
		start, end       string // RFC 3339; empty: refused
	}{
		{"whole seconds", "/api/v1/query_range", query + "&start=1700000000&end=1700000900", "2023-11-14T22:13:20Z", "2023-11-14T22:28:20Z"},
		{"a fraction is kept to the millisecond, outwards", "/api/v1/query_range", query + "&start=1700000000.0019&end=1700000000.0021", "2023-11-14T22:13:20.001Z", "2023-11-14T22:13:20.003Z"},
		{"RFC 3339", "/api/v1/query_range", query + "&start=2023-11-14T22:13:20Z&end=2023-11-15T00:13:20%2B02:00", "2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"},
		{"an instant", "/api/v1/query", query + "&time=2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"},
		{"nanoseconds", "/loki/api/v1/query_range", lines + "&start=1700000000000000001&end=1700000000000000002", "2023-11-14T22:13:20.000000001Z", "2023-11-14T22:13:20.000000002Z"},

		{"a plus that is a space", "/api/v1/query_range", query + "&start=2023-11-14T22:13:20Z&end=2023-11-15T00:13:20+02:00", "", ""},
		{"no end", "/api/v1/query_range", query + "&start=1700000000", "", ""},
		{"an empty start", "/api/v1/query_range", query + "&start=&end=1700000000", "", ""},
		{"the end first", "/api/v1/query_range", query + "&start=1700000001&end=1700000000", "", ""},
		{"two starts", "/api/v1/query_range", query + "&start=1700000000&start=1600000000&end=1700000900", "", ""},
		{"an exponent", "/api/v1/query", query + "&time=1.7e9", "", ""},
		{"hexadecimal", "/api/v1/query", query + "&time=0x6553f100", "", ""},
		{"a sign", "/api/v1/query", query + "&time=-1700000000", "", ""},
		{"infinity", "/api/v1/query", query + "&time=Inf", "", ""},
		{"two points", "/api/v1/query", query + "&time=1.7.0", "", ""},
		{"a point and nothing", "/api/v1/query", query + "&time=1700000000.", "", ""},
		{"ten places", "/api/v1/query", query + "&time=1.0123456789", "", ""},
		{"milliseconds", "/api/v1/query", query + "&time=1700000000000", "", ""},
		{"spaces", "/api/v1/query", query + "&time=%201700000000", "", ""},
		{"a date", "/api/v1/query", query + "&time=2023-11-14", "", ""},
		{"a comma for the point", "/api/v1/query", query + "&time=2023-11-14T22:13:20,5Z", "", ""},
		{"before 1970", "/api/v1/query", query + "&time=1969-12-31T23:59:59Z", "", ""},
		{"seconds where nanoseconds are meant", "/loki/api/v1/query_range", lines + "&start=1700000000&end=1700000001", "", ""},
		{"a float where nanoseconds are meant", "/loki/api/v1/query_range", lines + "&start=1700000000.5&end=1700000001.5", "", ""},
		{"RFC 3339 where nanoseconds are meant", "/loki/api/v1/query_range", lines + "&start=2023-11-14T22:13:20Z&end=2023-11-14T22:13:21Z", "", ""},
		{"nanoseconds with nineteen digits and a zero", "/loki/api/v1/query_range", lines + "&start=0000000000000000001&end=1700000000000000002", "", ""},
		{"nanoseconds that do not fit", "/loki/api/v1/query_range", lines + "&start=1700000000000000000&end=9999999999999999999", "", ""},
	} {
		m, err := tab.Match(&Request{Method: "GET", Path: row.path, Query: row.query}, nil)
		if row.start == "" {
			require.Error(t, err, row.why)
			require.NotContains(t, err.Error(), "1700", row.why)
			continue
		}
		require.NoError(t, err, row.why)
		require.Equal(t, Span{at(row.start), at(row.end)}, m.Window, row.why)
	}
}

func TestCompileRefusesWindows(t *testing.T) {
	for _, row := range []struct {
		says string
		r    Route
		w    Window
	}{
		{"touches no object", Route{Unscoped: "x"}, Window{Start: "?a", End: "?b"}},
		{"touches no object", Route{WholeConnection: true}, Window{Start: "?a", End: "?b"}},
		{"start", Route{Touches: []string{"t:{?x}"}}, Window{}},
		{"start", Route{Touches: []string{"t:{?x}"}}, Window{Start: "a", End: "?b"}},
		{"end", Route{Touches: []string{"t:{?x}"}}, Window{Start: "?a", End: "#b"}},
		{"negative", Route{Touches: []string{"t:{?x}"}}, Window{Start: "?a", End: "?b", Lookback: -1}},
		{"want a language", Route{Touches: []string{"t:{?x}"}}, Window{Start: "?a", End: "?b", Query: "sql:q"}},
		{"two languages", Route{Touches: []string{"t:{promql:q:x}"}}, Window{Start: "?a", End: "?b", Query: "logql:q"}},
		{"declared twice", Route{Touches: []string{"t:{?x}"}, Params: []string{"a"}}, Window{Start: "?a", End: "?b"}},
		{"is a list", Route{Touches: []string{"t:{promql:q*:x}"}}, Window{Start: "?q", End: "?b"}},
		{"not a list elsewhere", Route{Touches: []string{"t:{promql:q:x}", "u:{promql:q*:x}"}}, Window{Start: "?a", End: "?b"}},
	} {
		row.r.Pattern, row.r.Effect, row.r.Window = "GET /a", Reads, &row.w
		_, err := Compile([]Route{row.r})
		require.ErrorContains(t, err, row.says)
	}
}

// TestBuildIsRead builds requests with everything that a route declares and
// reads them back.
func TestBuildIsRead_A6(t *testing.T) {
	tab := table(t, metrics...)
	for _, row := range []struct {
		pattern string
		params  map[string]string
		want    []Object
	}{
		{"GET /api/v1/query_range", map[string]string{"query": `rate(up{namespace="prod",service="a"}[1m])`, "start": "2023-11-14T22:13:20+00:00", "end": "1700000900", "step": "15"}, []Object{{"service", "prod/a"}}},
		{"GET /loki/api/v1/query_range", map[string]string{"query": "{namespace=\"prod\"} |= `a;b&c+d`", "start": "1700000000000000000", "end": "1700000000000000000"}, []Object{{"namespace", "prod"}}},
		{"GET /api/v1/series", map[string]string{"match[]": `{namespace="prod"}`}, []Object{{"namespace", "prod"}}},
	} {
		path, query, err := tab.Build(row.pattern, row.params)
		require.NoError(t, err, row.pattern)
		m, err := tab.Match(&Request{Method: "GET", Path: path, Query: query}, nil)
		require.NoError(t, err, row.pattern)
		require.Equal(t, row.want, m.Objects, row.pattern)
	}
	_, _, err := tab.Build("GET /api/v1/query_range", map[string]string{"stepp": "15"})
	require.ErrorIs(t, err, ErrParam)
}

// FuzzRequest checks that queries and bodies never panic, and that what is
// matched has every object and window that its route declares.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/api/v1/query_range", "query=up%7Bnamespace%3D%22a%22%2Cservice%3D%22b%22%7D&start=1&end=2", "", "")
	f.Add("POST", "/api/v1/query_range", "", form, "query=up%7Bnamespace%3D%22a%22%2Cservice%3D%22b%22%7D&start=1&end=2")
	f.Add("POST", "/query", "", "application/json", `{"query":"up{namespace=\"prod\"}","from":1,"to":2.5}`)
	f.Add("POST", "/issues.json", "", "", `{"issue":{"project_id":7}}`)
	f.Add("POST", "/move", "from=a", "multipart/form-data; boundary=x", "to=b")
	f.Add("GET", "/api/v1/series", "match[]=up%7Bnamespace%3D%22a%22%7D&match[]=x", "", "")
	tab := table(f, append(tickets, metrics...)...)
	f.Fuzz(func(t *testing.T, method, path, query, kind, body string) {
		h := http.Header{"X-Scope-Orgid": {"prod"}, "Content-Type": {kind}}
		m, err := tab.Match(&Request{Method: method, Path: path, Query: query, Header: h, Body: []byte(body)}, map[string]string{"account": "acme"})
		if err != nil {
			require.Nil(t, m)
			return
		}
		require.Equal(t, len(m.Route.Touches) > 0, len(m.Objects) > 0)
		for _, o := range m.Objects {
			require.NotEmpty(t, o.ID)
			require.True(t, plain(o.ID))
		}
		require.Equal(t, m.Route.Window == nil, m.Window == Span{})
		require.False(t, m.Window.End.Before(m.Window.Start))
		q, err := url.ParseQuery(query)
		require.NoError(t, err, "what is let through, the standard library reads")
		for k, vs := range q {
			_, list := map[string]bool{"match[]": true}[k]
			require.True(t, len(vs) == 1 || list)
		}
	})
}
