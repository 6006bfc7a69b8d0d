package alerts_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/alerts"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host/hosttest"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const key = "canary-of-the-history-key"

var orders = authz.ResourceID{Type: "service", ID: "prod/order-service"}

func manager(t testing.TB, s host.System) *hosttest.World {
	t.Helper()
	c, err := alerts.New("alertmanager")
	require.NoError(t, err)
	s.Endpoint, s.Connector = "alertmanager", "alertmanager"
	return hosttest.Open(t, authztest.Allow(orders), []connector.Connector{c}, s)
}

func history(t testing.TB, policy authz.Policy) (*providers.AlertHistory, *hosttest.World) {
	t.Helper()
	c, err := alerts.NewHistory("history")
	require.NoError(t, err)
	p := providers.NewAlertHistory(&providers.AlertHistoryOptions{Authorization: "Bearer " + key})
	return p, hosttest.Open(t, policy, []connector.Connector{c}, host.System{Endpoint: "history", Connector: "alert-history", Key: key, Provider: p})
}

func ask(id string) string {
	return `{"alert_id":"` + id + `","namespace":"prod","service":"order-service"}`
}

func TestDetails(t *testing.T) {
	test := func(t *testing.T, w *hosttest.World) {
		r := w.Call("get_alert_details", ask(alr.AlertID))
		require.Equal(t, toolresult.MeaningComplete, r.Meaning(), r.Err())
		a := hosttest.Data[alerts.Alert](t, r)
		require.Equal(t, "OrderServiceHighLatencyP95", a.Name)
		require.Equal(t, "active", a.State)
		require.Equal(t, "unverified", a.Verification)
		require.Equal(t, "E12", a.Evidence)
		require.True(t, a.Start.Equal(alr.SlowFrom()))
		require.Nil(t, a.End)

		never, foreign := w.Call("get_alert_details", ask("ALR-19990101-001")), w.Call("get_alert_details", ask("ALR-20260429-016"))
		require.Equal(t, toolresult.StatusPartial, never.Status, "an empty list proves nothing")
		require.Equal(t, []toolresult.Gap{alerts.EndedAlerts}, never.Coverage.Missing)
		require.Equal(t, "null", string(never.Data))
		never.CallID, never.Provenance = foreign.CallID, foreign.Provenance
		require.Equal(t, never, foreign, "somebody else's alert is like none")
	}
	t.Run("embedded", func(t *testing.T) { test(t, manager(t, host.System{Provider: providers.NewAlertmanager(nil)})) })
	t.Run("Alertmanager", func(t *testing.T) { test(t, manager(t, host.System{URL: peers.Alertmanager(t)})) })
}

// An alert that has ended is not in the one system and is in the other.
func TestEnded(t *testing.T) {
	w := manager(t, host.System{Provider: providers.NewAlertmanager(&providers.AlertmanagerOptions{Ended: true})})
	require.Equal(t, []toolresult.Gap{alerts.EndedAlerts}, w.Call("get_alert_details", ask(alr.AlertID)).Coverage.Missing)

	_, w = history(t, authztest.Allow(orders))
	r := w.Call("list_past_alerts", window)
	require.Equal(t, toolresult.MeaningComplete, r.Meaning(), r.Err())
	list := hosttest.Data[[]alerts.Alert](t, r)
	require.Equal(t, alr.AlertID, list[0].ID)
	require.Equal(t, "resolved", list[0].State)
	require.NotNil(t, list[0].End)
	for _, a := range list {
		require.Equal(t, "prod/order-service", a.Namespace+"/"+a.Service)
	}
}

const window = `{"namespace":"prod","service":"order-service","start":"2026-04-28T02:00:00Z","end":"2026-04-29T03:05:00Z"}`

func TestHistoryPages_P1(t *testing.T) {
	_, w := history(t, authztest.Allow(orders))
	pages, last := hosttest.Pages[alerts.Alert](t, w, "list_past_alerts", hosttest.With(t, window, "page_size", 1))
	require.Len(t, pages, 4)
	require.True(t, last.Coverage.Complete)
	r := w.Call("list_past_alerts", hosttest.With(t, window, "page_size", 1))
	require.Equal(t, []toolresult.Gap{toolresult.GapRemainingPages}, r.Coverage.Missing)
	bad := hosttest.With(t, hosttest.With(t, window, "cursor", r.NextCursor), "service", "payment")
	require.ErrorIs(t, w.Call("list_past_alerts", bad).Err(), toolresult.PermissionDenied)
}

// A provider that does not know its own cursor any more: start again.
func TestForgottenCursor_P1(t *testing.T) {
	p, w := history(t, authztest.Allow(orders))
	r := w.Call("list_past_alerts", hosttest.With(t, window, "page_size", 1))
	refusal := providers.Answer{Status: 400, Body: `{"error":{"code":"bad_request","message":"cursor does not belong to this query"}}`}
	p.AnswerNext(refusal)
	require.ErrorIs(t, w.Call("list_past_alerts", hosttest.With(t, hosttest.With(t, window, "page_size", 1), "cursor", r.NextCursor)).Err(), toolresult.CursorInvalid)
	p.AnswerNext(refusal)
	require.ErrorIs(t, w.Call("list_past_alerts", window).Err(), toolresult.InvalidInput, "without a cursor it is about the arguments")
}

func TestWindow_A6(t *testing.T) {
	_, w := history(t, authztest.AllowScope(authz.OnlyDuring(authz.Resource{ResourceID: orders, Window: toolresult.Interval{Start: alr.Start(), End: alr.End()}})))
	r := w.Call("list_past_alerts", window)
	require.Equal(t, []toolresult.Gap{toolresult.GapWindowClipped}, r.Coverage.Missing)
	require.Len(t, hosttest.Data[[]alerts.Alert](t, r), 1)
	require.ErrorIs(t, w.Call("list_past_alerts", `{"namespace":"prod","service":"order-service","start":"2026-04-20T00:00:00Z","end":"2026-04-29T00:00:00Z"}`).Err(), toolresult.InvalidInput)
}

func TestOtherTenant_A6(t *testing.T) {
	am := providers.NewAlertmanager(nil)
	w := manager(t, host.System{Provider: am})
	require.ErrorIs(t, w.Call("get_alert_details", `{"alert_id":"ALR-20260429-016","namespace":"secret","service":"ledger"}`).Err(), toolresult.PermissionDenied)
	require.ErrorIs(t, w.Call("get_alert_details", ask(`x\",service=\"ledger`)).Err(), toolresult.InvalidInput)
	require.Zero(t, am.Requests())
	p, w := history(t, authztest.Allow(orders))
	require.ErrorIs(t, w.Call("list_past_alerts", `{"namespace":"secret","service":"ledger","start":"2026-04-29T02:00:00Z","end":"2026-04-29T03:00:00Z"}`).Err(), toolresult.PermissionDenied)
	require.Zero(t, p.Requests())
}

func TestProviderErrors_E3(t *testing.T) {
	am := providers.NewAlertmanager(nil)
	w := manager(t, host.System{Provider: am})
	for _, row := range []struct {
		why    string
		answer providers.Answer
		want   toolresult.ErrorCode
		text   string
	}{
		{"an error that is a JSON string", providers.Answer{Status: 400, Body: "\"bad matcher format: x\"\n"}, toolresult.InvalidInput, "bad matcher format: x"},
		{"one that is an object", providers.Answer{Status: 422, Body: `{"code":602,"message":"labels in body is required"}`}, toolresult.InvalidInput, "labels in body is required"},
		{"a proxy's 401 in plain text", providers.Answer{Status: 401, Body: "Unauthorized"}, toolresult.ConnectionRequired, ""},
		{"it is not there", providers.Answer{Status: 404, Body: `{"code":404,"message":"path was not found"}`}, toolresult.NotFound, ""},
		{"too much", providers.Answer{Status: 429, Header: http.Header{"Retry-After": {"5"}}}, toolresult.RateLimited, ""},
		{"nobody behind the proxy", providers.Answer{Status: 502, Body: "<html>"}, toolresult.ProviderUnavailable, ""},
		{"HTML with 200", providers.Answer{Status: 200, Body: "<html>"}, toolresult.ProviderError, ""},
		{"one id twice", providers.Answer{Status: 200, Body: twice}, toolresult.ProviderError, ""},
	} {
		am.AnswerNext(row.answer)
		r := w.Call("get_alert_details", ask(alr.AlertID))
		require.ErrorIs(t, r.Err(), row.want, row.why)
		require.Equal(t, row.text, r.Error.Diagnostics.ProviderText, row.why)
	}
	p, h := history(t, authztest.Allow(orders))
	p.AnswerNext(providers.Answer{Status: 401, Body: `{"error":{"code":"unauthorized","message":"no"}}`})
	require.ErrorIs(t, h.Call("list_past_alerts", window).Err(), toolresult.ConnectionRequired)
	p.AnswerNext(providers.Answer{Status: 503, Body: "down"})
	require.ErrorIs(t, h.Call("list_past_alerts", window).Err(), toolresult.ProviderUnavailable)
}

const (
	one   = `{"labels":{"alert_id":"ALR-20260429-017","namespace":"prod","service":"order-service"},"startsAt":"2026-04-29T02:37:00Z"}`
	twice = "[" + one + "," + one + "]"
)
