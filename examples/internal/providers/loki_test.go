package providers

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

const orderLines = `{namespace="prod",service="order-service"}`

func lokiRange(query string, more ...string) string {
	return form("/loki/api/v1/query_range", append([]string{"query", query, "start", "2026-04-29T02:30:00Z", "end", "2026-04-29T02:50:00Z"}, more...)...)
}

func TestLokiCaptured(t *testing.T) {
	l := NewLoki(nil)
	statistics := regexp.MustCompile(`"stats":.*`)
	for name, target := range map[string]string{
		"err-404":               "/loki/api/v1/nosuch",
		"err-direction":         lokiRange(orderLines, "direction", "up"),
		"err-endbefore":         form("/loki/api/v1/query_range", "query", orderLines, "start", "2", "end", "1"),
		"err-limit-0":           lokiRange(orderLines, "limit", "0"),
		"err-limit-6000":        lokiRange(orderLines, "limit", "6000"),
		"err-limit-abc":         lokiRange(orderLines, "limit", "abc"),
		"err-parse":             lokiRange(`{service="order-service"`),
		"err-range":             form("/loki/api/v1/query_range", "query", orderLines, "start", "2026-01-01T00:00:00Z", "end", "2026-04-29T00:00:00Z"),
		"err-start-plus":        "/loki/api/v1/query_range?query=x&start=2026-04-29T10:35:00+08:00",
		"err-step0":             lokiRange(orderLines, "step", "0"),
		"ok-default-limit":      lokiRange(orderLines),
		"ok-empty":              lokiRange(`{service="nosuch"}`),
		"ok-labels":             "/loki/api/v1/labels",
		"ok-other-tenant-empty": lokiRange(orderLines),
		"ok-page-backward":      lokiRange(orderLines+` |= "timed out"`, "limit", "2"),
		"ok-page1":              lokiRange(orderLines+` |= "timed out"`, "limit", "3", "direction", "forward"),
	} {
		t.Run(name, func(t *testing.T) {
			tenant := "prod"
			if name == "ok-other-tenant-empty" {
				tenant = "nobody"
			}
			want, got := captured(t, "loki-1.6.1", name), ask(t, l, "GET", target, "", "X-Scope-OrgID", tenant)
			require.Equal(t, want.status, got.Code)
			require.Equal(t, statistics.ReplaceAllString(want.body, ""), statistics.ReplaceAllString(got.Body.String(), ""))
			require.Equal(t, want.header.Get("Content-Type"), got.Header().Get("Content-Type"))
		})
	}
	t.Run("err-401-noorg", func(t *testing.T) {
		same(t, captured(t, "loki-1.6.1", "err-401-noorg"), ask(t, l, "GET", lokiRange(orderLines), ""))
	})
	require.Equal(t, 401, ask(t, NewLoki(&LokiOptions{Authorization: "Bearer x"}), "GET", lokiRange(orderLines), "", "X-Scope-OrgID", "prod").Code)
}

func TestLokiWindowTenantAndFilters(t *testing.T) {
	l := NewLoki(nil)
	get := func(tenant, target string) *httptest.ResponseRecorder {
		return ask(t, l, "GET", target, "", "X-Scope-OrgID", tenant)
	}
	lines := func(target string) int { return strings.Count(get("prod", target).Body.String(), `["17774`) }
	window := func(start, end string) string {
		return form("/loki/api/v1/query_range", "query", orderLines, "start", start, "end", end, "limit", "5000")
	}
	require.Equal(t, 184, lines(lokiRange(orderLines, "limit", "5000")))
	require.Equal(t, 1, lines(window("1777429800000000000", "1777429800000000001")), "start is inside")
	require.Equal(t, 0, lines(window("1777429799000000000", "1777429800000000000")), "end is outside")
	require.Equal(t, 100, lines(lokiRange(orderLines)), "100 lines, and nothing says that there are more")
	require.Equal(t, 36, lines(lokiRange(orderLines+` |= "timed out" != "nosuch" |~ "time(d|_)" !~ "^x"`)))
	require.Equal(t, 100, lines(lokiRange(`{service=~"order-.*"} != "timed out"`, "limit", "100")))
	require.NotContains(t, get("prod", lokiRange(`{namespace=~".+"}`, "limit", "5000")).Body.String(), alr.Canary)
	require.Contains(t, get("secret", lokiRange(`{namespace=~".+"}`)).Body.String(), alr.Canary)
	require.Contains(t, get("prod", "/loki/api/v1/label/service/values").Body.String(), `["order-service"]`)
	for _, bad := range []string{``, `x`, `{`, `{a}`, `{a=}`, `{a="b"} x`, `{a="b"} |= x`, `{a="b"} |~ "("`, `rate({a="b"}[1m])`} {
		require.Equal(t, 400, get("prod", lokiRange(bad)).Code, bad)
	}
	for _, bad := range []string{"99999999999", "1e400", "x", "1.x"} {
		require.Contains(t, []int{200, 400}, get("prod", window(bad, "1777429800")).Code, bad)
	}
}

func FuzzLoki(f *testing.F) {
	f.Add(orderLines+` |= "timed out" !~ "x"`, "1777429800", "2026-04-29T02:50:00Z", "10")
	l := NewLoki(nil)
	f.Fuzz(func(t *testing.T, query, start, end, limit string) {
		got := ask(t, l, "GET", form("/loki/api/v1/query_range", "query", query, "start", start, "end", end, "limit", limit), "", "X-Scope-OrgID", "prod")
		require.Contains(t, []int{200, 400}, got.Code)
	})
}
