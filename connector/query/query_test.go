package query_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/connector/query"
	"github.com/drawbridge-sdk/drawbridge/internal/scopeql"
)

func Example() {
	orders := query.Metric("http_requests_total", query.Is("namespace", "prod"), query.Is("service", "orders"))
	fmt.Println(query.Sum(query.Rate(orders, time.Minute), "code").Build())

	lines := query.Stream(query.Is("namespace", "prod"), query.Like("level", "warn|error")).Containing(`say "no"`)
	fmt.Println(query.Count(lines, 90*time.Second).Build())
	// Output:
	// sum by (code) (rate(http_requests_total{namespace="prod",service="orders"}[1m])) <nil>
	// count_over_time({namespace="prod",level=~"warn|error"} |= "say \"no\"" [1m30s]) <nil>
}

func TestForms(t *testing.T) {
	bucket := query.Metric("h_bucket", query.Is("ns", "p"))
	for _, row := range []struct {
		e    query.Expr
		want string
	}{
		{bucket.All(), `h_bucket{ns="p"}`},
		{query.Metric("job:up:rate5m").All(), `job:up:rate5m{}`},
		{query.Sum(bucket.All()), `sum(h_bucket{ns="p"})`},
		{query.Quantile(0.95, query.Sum(query.Rate(bucket, 5*time.Minute), "le")), `histogram_quantile(0.95, sum by (le) (rate(h_bucket{ns="p"}[5m])))`},
		{query.Ratio(query.Rate(bucket, time.Hour), query.Rate(bucket, time.Hour+time.Millisecond)), `(rate(h_bucket{ns="p"}[1h])) / (rate(h_bucket{ns="p"}[1h1ms]))`},
		{query.Metric("m", query.Is("a", `x\"y`)).All(), `m{a="x\\\"y"}`},
	} {
		got, err := row.e.Build()
		require.NoError(t, err)
		require.Equal(t, row.want, got)
	}
}

func TestRefuses(t *testing.T) {
	good := query.Metric("m", query.Is("a", "b"))
	logs := query.Stream(query.Is("a", "b"))
	for _, row := range []struct {
		why  string
		e    query.Expr
		says string
	}{
		{"nothing", query.Expr{}, "nothing was built"},
		{"a zero selector", query.Selector{}.All(), "nothing was built"},
		{"a rate of a zero selector", query.Rate(query.Selector{}, time.Minute), "not made by Metric"},
		{"a zero condition", query.Metric("m", query.Match{}).All(), "not made by Is"},
		{"a metric with braces", query.Metric(`m{a="b"}`).All(), "metric's name"},
		{"a metric that begins with a digit", query.Metric("1m").All(), "metric's name"},
		{"a label with a colon", query.Metric("m", query.Is("a:b", "c")).All(), "label name"},
		{"an empty label", query.Metric("m", query.Is("", "c")).All(), "label name"},
		{"an empty value", query.Metric("m", query.Is("a", "")).All(), "compared with nothing"},
		{"a line break", query.Metric("m", query.Is("a", "b\n")).All(), "control character"},
		{"not UTF-8", query.Metric("m", query.Is("a", "\xff")).All(), "not UTF-8"},
		{"too long", query.Metric("m", query.Is("a", strings.Repeat("x", 1025))).All(), "1024"},
		{"a label twice", query.Metric("m", query.Is("a", "b"), query.Like("a", ".*")).All(), "two conditions"},
		{"not a pattern", query.Metric("m", query.Like("a", "(")).All(), "regular expression"},
		{"a stream of everything", query.Stream().All(), "without a condition"},
		{"a metric with lines", good.Containing("x").All(), "only log lines"},
		{"a filter of nothing", logs.Containing("").All(), "empty text"},
		{"the first mistake counts", logs.Containing("\x00").Containing("x").All(), "control character"},
		{"a negative span", query.Rate(good, -time.Minute), "span"},
		{"a span of microseconds", query.Rate(good, 1500*time.Microsecond), "span"},
		{"a span over four years", query.Count(good, 5*365*24*time.Hour), "span"},
		{"a list with a quote", query.Sum(good.All(), `a"`), "label name"},
		{"a sum of nothing", query.Sum(query.Expr{}), "nothing was built"},
		{"a quantile of two", query.Quantile(2, good.All()), "between 0 and 1"},
		{"half a ratio", query.Ratio(good.All(), query.Expr{}), "nothing was built"},
	} {
		text, err := row.e.Build()
		require.ErrorContains(t, err, row.says, row.why)
		require.Empty(t, text, row.why)
	}
}

// TestWhatIsBuiltIsProven_A6 uses any value beside the labels that decide, and
// the proof still names those and no others.
func TestWhatIsBuiltIsProven_A6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.StringMatching(`[a-z0-9.-]{1,12}`).Draw(t, "namespace")
		other := rapid.String().Draw(t, "other")
		over := time.Duration(rapid.IntRange(1, 1e8).Draw(t, "ms")) * time.Millisecond
		filters := []query.Match{query.Is("namespace", ns), query.Is("x", other)}
		for dialect, e := range map[scopeql.Dialect]query.Expr{
			scopeql.PromQL: query.Sum(query.Ratio(query.Rate(query.Metric("m", filters...), over), query.Metric("n", filters...).All()), "a"),
			scopeql.LogQL:  query.Sum(query.Rate(query.Stream(filters...).Containing(other), over), "a", "b"),
		} {
			text, err := e.Build()
			if err != nil {
				continue // the value was refused
			}
			p, err := scopeql.Prove(dialect, text, []string{"namespace"})
			require.NoError(t, err, text)
			require.Equal(t, scopeql.Proof{Selectors: [][]string{{ns}}, Lookback: over}, p, text)
		}
	})
}
