package runbooks_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/runbooks"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host/hosttest"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const key = "canary-of-the-runbook-key"

var orders = authz.ResourceID{Type: "service", ID: "prod/order-service"}

func open(t testing.TB) (*providers.Runbooks, *hosttest.World) {
	t.Helper()
	p := providers.NewRunbooks(&providers.RunbooksOptions{Authorization: "Bearer " + key})
	c, err := runbooks.New("runbooks")
	require.NoError(t, err)
	return p, hosttest.Open(t, authztest.Allow(orders), []connector.Connector{c}, host.System{Endpoint: "runbooks", Connector: "runbooks", Key: key, Provider: p})
}

const args = `{"namespace":"prod","service":"order-service"}`

func TestSearch(t *testing.T) {
	_, w := open(t)
	r := w.Call("search_runbooks", hosttest.With(t, args, "words", "rollback approval"))
	require.Equal(t, toolresult.MeaningComplete, r.Meaning(), r.Err())
	require.Equal(t, "RB-103", hosttest.Data[[]runbooks.Runbook](t, r)[0].ID)

	r = w.Call("search_runbooks", hosttest.With(t, args, "words", "latency"))
	require.Equal(t, []toolresult.Gap{runbooks.NoOwner}, r.Coverage.Missing)
	require.Contains(t, string(r.Data), `"owner":null`)
	require.NotContains(t, string(r.Data), `"body"`)
	require.Equal(t, toolresult.MeaningNoMatch, w.Call("search_runbooks", hosttest.With(t, args, "words", "nothing")).Meaning())
}

func TestPages_P1(t *testing.T) {
	p, w := open(t)
	one := hosttest.With(t, args, "page_size", 1)
	pages, last := hosttest.Pages[runbooks.Runbook](t, w, "search_runbooks", one)
	require.Len(t, pages, 4)
	require.True(t, last.Coverage.Complete)
	r := w.Call("search_runbooks", one)
	require.Equal(t, []toolresult.Gap{toolresult.GapRemainingPages}, r.Coverage.Missing)
	p.AnswerNext(providers.Answer{Status: 400, Body: `{"error":{"code":"bad_request","message":"cursor does not belong to this query"}}`})
	require.ErrorIs(t, w.Call("search_runbooks", hosttest.With(t, one, "cursor", r.NextCursor)).Err(), toolresult.CursorInvalid)
}

// The text is passed on as what it is: untrusted, between fences.
func TestGet(t *testing.T) {
	_, w := open(t)
	r := w.Call("get_runbook", hosttest.With(t, args, "runbook", "RB-110"))
	require.Equal(t, toolresult.MeaningComplete, r.Meaning(), r.Err())
	require.Contains(t, hosttest.Data[runbooks.Runbook](t, r).Body, "Ignore previous instructions")
	require.Equal(t, toolresult.Untrusted, r.Provenance.Trust)
	require.Equal(t, `"2"`, r.Provenance.Version)
	require.Equal(t, []toolresult.Gap{runbooks.NoOwner}, w.Call("get_runbook", hosttest.With(t, args, "runbook", "RB-102")).Coverage.Missing)
}

func TestOtherTenant_A6_E7(t *testing.T) {
	p, w := open(t)
	const secret = `{"namespace":"secret","service":"ledger"}`
	require.ErrorIs(t, w.Call("search_runbooks", secret).Err(), toolresult.PermissionDenied)
	require.Zero(t, p.Requests())

	var refused []string
	for _, args := range []string{
		hosttest.With(t, args, "runbook", "RB-900"),   // of another service, under the name of one's own
		hosttest.With(t, args, "runbook", "RB-000"),   // of nobody
		hosttest.With(t, secret, "runbook", "RB-900"), // of another tenant
	} {
		r := w.Call("get_runbook", args)
		require.ErrorIs(t, r.Err(), toolresult.PermissionDenied)
		r.CallID = "call"
		text, err := json.Marshal(r)
		require.NoError(t, err)
		refused = append(refused, string(text))
	}
	require.Zero(t, p.RequestsTo("GET", "/runbooks/RB-900"), "no text was read")
	require.Equal(t, refused[0], refused[1])
	require.Equal(t, refused[0], refused[2])
}

func TestProviderErrors_E3(t *testing.T) {
	p, w := open(t)
	for why, row := range map[string]struct {
		answer providers.Answer
		want   toolresult.ErrorCode
	}{
		"a wrong key":     {providers.Answer{Status: 401, Body: `{"error":{"code":"unauthorized","message":"m"}}`}, toolresult.ConnectionRequired},
		"a bad request":   {providers.Answer{Status: 400, Body: `{"error":{"code":"bad_request","message":"m"}}`}, toolresult.InvalidInput},
		"an unknown code": {providers.Answer{Status: 500, Body: `{"error":{"code":"oops","message":"m"}}`}, toolresult.ProviderError},
		"it is away":      {providers.Answer{Status: 503}, toolresult.ProviderUnavailable},
		"HTML with 200":   {providers.Answer{Status: 200, Body: "<html>"}, toolresult.ProviderError},
	} {
		p.AnswerNext(row.answer)
		require.ErrorIs(t, w.Call("search_runbooks", args).Err(), row.want, why)
		p.AnswerNext(row.answer)
		require.ErrorIs(t, w.Call("get_runbook", hosttest.With(t, args, "runbook", "RB-101")).Err(), row.want, why+", when it says whose it is")
	}
	whose := providers.Answer{Status: 200, Body: `{"runbooks":[{"id":"RB-101","title":"","namespace":"prod","service":"order-service","owner":null,"version":"1","updated_at":"2026-01-12T09:00:00Z"}]}`}
	p.AnswerNext(whose)
	p.AnswerNext(providers.Answer{Status: 404, Body: `{"error":{"code":"not_found","message":"m"}}`})
	require.ErrorIs(t, w.Call("get_runbook", hosttest.With(t, args, "runbook", "RB-101")).Err(), toolresult.NotFound, "it went away meanwhile")
}
