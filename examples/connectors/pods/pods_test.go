package pods_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/pods"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host/hosttest"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const token = "canary-of-the-cluster-token"

var prod = authz.ResourceID{Type: "namespace", ID: "prod"}

func open(t testing.TB, allowed ...authz.ResourceID) (*providers.Kubernetes, *hosttest.World) {
	t.Helper()
	p := providers.NewKubernetes(&providers.KubernetesOptions{Tokens: map[string][]string{token: {"prod"}}})
	c, err := pods.New("cluster", nil)
	require.NoError(t, err)
	return p, hosttest.Open(t, authztest.Allow(allowed...), []connector.Connector{c}, host.System{Endpoint: "cluster", Connector: "pods", Key: token, Provider: p})
}

const args = `{"namespace":"prod","service":"order-service"}`

func TestList(t *testing.T) {
	_, w := open(t, prod)
	r := w.Call("kubernetes_get_pods", args)
	require.Equal(t, toolresult.MeaningComplete, r.Meaning(), r.Err())
	list := hosttest.Data[[]pods.Pod](t, r)
	require.Len(t, list, len(alr.Pods(alr.Service)))
	require.Equal(t, alr.Pods(alr.Service)[0], list[0].Name)
	require.Equal(t, "Running", list[0].Phase)
	require.True(t, list[0].Ready)
	require.Equal(t, 1, list[0].Restarts)
	require.Equal(t, []string{"registry.example.test/order-service:1.42.0"}, list[0].Images)
	require.NotEmpty(t, r.Provenance.Version)
	require.Equal(t, toolresult.MeaningNoMatch, w.Call("kubernetes_get_pods", `{"namespace":"prod","service":"nothing"}`).Meaning())
}

// Environment variables hold secrets, and do not come out under any name.
func TestNoEnvironment_R10(t *testing.T) {
	_, w := open(t, prod)
	r := w.Call("kubernetes_get_pods", args)
	require.NotContains(t, string(r.Data), "tok_should_be_redacted")
	require.NotContains(t, string(r.Data), "PAYMENT_API_TOKEN")
}

func TestPages_P1(t *testing.T) {
	p, w := open(t, prod)
	one := hosttest.With(t, args, "page_size", 1)
	pages, last := hosttest.Pages[pods.Pod](t, w, "kubernetes_get_pods", one)
	require.Len(t, pages, len(alr.Pods(alr.Service)))
	require.True(t, last.Coverage.Complete)

	r := w.Call("kubernetes_get_pods", one)
	require.Equal(t, []toolresult.Gap{toolresult.GapRemainingPages}, r.Coverage.Missing)
	n := p.Requests()
	other := hosttest.With(t, hosttest.With(t, one, "service", "payment"), "cursor", r.NextCursor)
	require.ErrorIs(t, w.Call("kubernetes_get_pods", other).Err(), toolresult.CursorInvalid, "the token would be good for another service")
	require.Equal(t, n, p.Requests())

	p.Expire()
	gone := w.Call("kubernetes_get_pods", hosttest.With(t, one, "cursor", r.NextCursor))
	require.ErrorIs(t, gone.Err(), toolresult.CursorInvalid)
	require.Equal(t, "Expired", gone.Error.Diagnostics.ProviderCode)
	require.Empty(t, gone.NextCursor, "the token for an inconsistent rest is not passed on")
}

func TestOtherTenant_A6(t *testing.T) {
	p, w := open(t, prod)
	require.ErrorIs(t, w.Call("kubernetes_get_pods", `{"namespace":"secret","service":"ledger"}`).Err(), toolresult.PermissionDenied)
	for why, args := range map[string]string{
		"another way through the path": `{"namespace":"prod/../secret","service":"ledger"}`,
		"a second requirement":         `{"namespace":"prod","service":"x,app!=y"}`,
	} {
		require.ErrorIs(t, w.Call("kubernetes_get_pods", args).Err(), toolresult.InvalidInput, why)
	}
	require.Zero(t, p.Requests())

	_, w = open(t, prod, authz.ResourceID{Type: "namespace", ID: "secret"})
	r := w.Call("kubernetes_get_pods", `{"namespace":"secret","service":"ledger"}`)
	require.ErrorIs(t, r.Err(), toolresult.PermissionDenied, "the cluster's own rules hold as well, and are no empty list")
	require.Empty(t, r.Error.Diagnostics.ProviderCode, "which could tell what is not there from what may not be seen (E7)")
}

func TestProviderErrors_E3(t *testing.T) {
	p, w := open(t, prod)
	status := func(code int, reason string) providers.Answer {
		return providers.Answer{Status: code, Body: `{"kind":"Status","status":"Failure","message":"m","reason":"` + reason + `"}`}
	}
	for _, row := range []struct {
		why    string
		answer providers.Answer
		want   toolresult.ErrorCode
		wait   time.Duration
	}{
		{"a bad token", status(401, "Unauthorized"), toolresult.ConnectionRequired, 0},
		{"a bad request", status(400, "BadRequest"), toolresult.InvalidInput, 0},
		{"overloaded, in plain text", p.TooManyRequests(), toolresult.RateLimited, time.Second},
		{"too large a resource version", status(504, "Timeout"), toolresult.ProviderUnavailable, 0},
		{"its store is away", status(500, "InternalError"), toolresult.ProviderError, 0},
		{"nothing in front of it", providers.Answer{Status: 404, Header: http.Header{"Content-Type": {"text/plain"}}, Body: "404 page not found"}, toolresult.NotFound, 0},
		{"a failure with 200", status(200, "Expired"), toolresult.ProviderError, 0},
		{"HTML with 200", providers.Answer{Status: 200, Body: "<html>"}, toolresult.ProviderError, 0},
	} {
		p.AnswerNext(row.answer)
		r := w.Call("kubernetes_get_pods", args)
		require.ErrorIs(t, r.Err(), row.want, row.why)
		require.Equal(t, row.wait, r.Error.RetryAfter, row.why)
	}
}
