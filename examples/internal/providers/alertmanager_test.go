package providers

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

// amMasked hides what differs between two runs of the same alerts.
func amMasked(body string) string {
	body = regexp.MustCompile(`"updatedAt":"[^"]*"`).ReplaceAllString(body, `"updatedAt":"TIME"`)
	return strings.ReplaceAll(body, "2027-01-01T", "2099-01-01T") // the end that the capture was made with
}

func TestAlertmanagerCaptured(t *testing.T) {
	a := NewAlertmanager(nil)
	mine := form("/api/v2/alerts", "filter", `alert_id="ALR-20260429-017"`)
	for name, target := range map[string]string{
		"err-404":         "/api/v2/nosuch",
		"err-badbool":     "/api/v2/alerts?active=maybe",
		"err-badfilter":   form("/api/v2/alerts", "filter", "a=~["),
		"err-badfilter2":  form("/api/v2/alerts", "filter", "foo bar"),
		"err-badreceiver": form("/api/v2/alerts", "receiver", "["),
		"ok-get":          mine,
		"ok-get-nomatch":  form("/api/v2/alerts", "filter", `alert_id="ALR-1"`),
		"ok-groups":       form("/api/v2/alerts/groups", "filter", `namespace="prod"`),
	} {
		t.Run(name, func(t *testing.T) {
			want, got := captured(t, "alertmanager-0.25", name), ask(t, a, "GET", target, "")
			require.Equal(t, want.status, got.Code)
			require.Equal(t, amMasked(want.body), amMasked(got.Body.String()))
			require.Equal(t, want.header.Get("Content-Type"), got.Header().Get("Content-Type"))
			require.Equal(t, want.header.Get("Vary"), got.Header().Get("Vary"))
		})
	}
	t.Run("ok-get-expired", func(t *testing.T) {
		ended := NewAlertmanager(&AlertmanagerOptions{Ended: true})
		same(t, captured(t, "alertmanager-0.25", "ok-get-expired"), ask(t, ended, "GET", mine, ""))
	})
	require.Equal(t, 405, ask(t, a, "POST", "/api/v2/alerts", "[]").Code)
	require.Equal(t, 401, ask(t, NewAlertmanager(&AlertmanagerOptions{Authorization: "Bearer x"}), "GET", "/api/v2/alerts", "").Code)
}

func TestAlertmanagerDiffersNowhere(t *testing.T) {
	base, a := peers.Alertmanager(t), NewAlertmanager(nil)
	for _, target := range []string{
		"/api/v2/alerts",
		form("/api/v2/alerts", "filter", `alert_id="ALR-20260429-017"`),
		form("/api/v2/alerts", "filter", `namespace=prod`, "filter", `severity!~"info|warning"`),
		form("/api/v2/alerts", "filter", `namespace=~"pro.*"`),
		form("/api/v2/alerts", "filter", `namespace!=prod`),
		form("/api/v2/alerts", "filter", `nosuch=""`),
		form("/api/v2/alerts", "filter", `a b`),
		form("/api/v2/alerts", "filter", `namespace="prod`),
		form("/api/v2/alerts", "filter", `namespace=~"("`),
		form("/api/v2/alerts", "receiver", "none"),
		form("/api/v2/alerts", "receiver", "other"),
		form("/api/v2/alerts", "receiver", "("),
		"/api/v2/alerts?active=false",
		"/api/v2/alerts?active=maybe",
		"/api/v2/alerts?active=yes",
		"/api/v2/nosuch",
		"/-/ready",
	} {
		want, got := wire(t, base, "GET", target, ""), ask(t, a, "GET", target, "")
		require.Equal(t, amMasked(want.Body.String()), amMasked(got.Body.String()), target)
		require.Equal(t, want.Code, got.Code, target)
		require.Equal(t, want.Header().Get("Content-Type"), got.Header().Get("Content-Type"), target)
	}
}

func TestAlertHistory(t *testing.T) {
	h := NewAlertHistory(nil)
	get := func(target string) string { return ask(t, h, "GET", target, "").Body.String() }
	require.Contains(t, get("/alerts/"+alr.AlertID), `"state":"resolved","starts_at":"2026-04-29T02:37:00Z","ends_at":"2026-04-29T02:50:00Z"`)
	require.Equal(t, `{"error":{"code":"not_found","message":"no such alert"}}`, get("/alerts/ALR-1"))

	first := get("/alerts?namespace=prod&service=order-service&limit=2")
	next := regexp.MustCompile(`"next":"([^"]*)"`).FindStringSubmatch(first)
	require.NotNil(t, next, first)
	second := get("/alerts?namespace=prod&service=order-service&limit=2&cursor=" + next[1])
	require.NotContains(t, second, `"next"`)
	require.Equal(t, 2, strings.Count(first, "alert_id"))
	require.Equal(t, 2, strings.Count(second, "alert_id"))
	require.NotContains(t, first+second, alr.Canary)

	require.Contains(t, get("/alerts?from=2026-04-29T02:50:00Z&to=2026-04-29T02:51:00Z"), alr.AlertID)
	require.NotContains(t, get("/alerts?from=2026-04-29T02:20:00Z&to=2026-04-29T02:37:00Z"), alr.AlertID)
	for _, bad := range []string{"/alerts?limit=0", "/alerts?limit=51", "/alerts?limit=x", "/alerts?cursor=x", "/alerts?from=x", "/alerts?service=payment&cursor=" + next[1]} {
		require.Contains(t, get(bad), `"code":"bad_request"`, bad)
	}
	require.Equal(t, 405, ask(t, h, "POST", "/alerts", "").Code)
	require.Equal(t, 401, ask(t, NewAlertHistory(&AlertHistoryOptions{Authorization: "Bearer x"}), "GET", "/alerts", "").Code)
	require.NotContains(t, ask(t, NewAlertHistory(&AlertHistoryOptions{Unfinished: true}), "GET", "/alerts", "").Body.String(), alr.AlertID)
}

func FuzzAlertmanagerFilter(f *testing.F) {
	f.Add(`alert_id="ALR-20260429-017"`)
	f.Add(`a=~"(b|c)"`)
	a := NewAlertmanager(nil)
	f.Fuzz(func(t *testing.T, filter string) {
		require.Contains(t, []int{200, 400}, ask(t, a, "GET", form("/api/v2/alerts", "filter", filter), "").Code)
	})
}
