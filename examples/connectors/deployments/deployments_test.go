package deployments_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/deployments"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host/hosttest"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const token = "canary-of-the-github-token"

var orders = authz.ResourceID{Type: "service", ID: "prod/order-service"}

func open(t testing.TB, opts providers.GitHubOptions, mapped *deployments.Options, allowed ...authz.ResourceID) (*providers.GitHub, *hosttest.World) {
	t.Helper()
	opts.Token = token
	p := providers.NewGitHub(&opts)
	c, err := deployments.New("github", mapped)
	require.NoError(t, err)
	if allowed == nil {
		allowed = []authz.ResourceID{orders}
	}
	return p, hosttest.Open(t, authztest.Allow(allowed...), []connector.Connector{c}, host.System{Endpoint: "github", Connector: "deployments", Key: token, Org: "acme", Provider: p})
}

const (
	args  = `{"namespace":"prod","service":"order-service","start":"2026-04-29T02:20:00Z","end":"2026-04-29T02:50:00Z"}`
	month = `{"namespace":"prod","service":"order-service","start":"2026-04-01T00:00:00Z","end":"2026-04-30T00:00:00Z"}`
)

func TestList(t *testing.T) {
	_, w := open(t, providers.GitHubOptions{}, nil)
	r := w.Call("list_recent_deployments", args)
	require.Equal(t, toolresult.MeaningComplete, r.Meaning(), r.Err())
	rows := hosttest.Data[[]deployments.Deployment](t, r)
	require.Len(t, rows, 1)
	require.Equal(t, "v1.42.0", rows[0].Ref)
	require.Equal(t, "success", rows[0].State)
	require.True(t, rows[0].Succeeded.Equal(alr.Deployed()))
	require.NotContains(t, string(r.Data), "release-bot", "people are nobody's output")

	quiet := w.Call("list_recent_deployments", `{"namespace":"prod","service":"order-service","start":"2026-04-29T03:00:00Z","end":"2026-04-29T04:00:00Z"}`)
	require.Equal(t, toolresult.MeaningNoMatch, quiet.Meaning(), "every page was read")
}

// The provider cannot be asked for a window: what is not proven is not claimed.
func TestPages_P1(t *testing.T) {
	_, w := open(t, providers.GitHubOptions{}, nil)
	r := w.Call("list_recent_deployments", hosttest.With(t, args, "page_size", 2))
	require.ElementsMatch(t, []toolresult.Gap{toolresult.GapRemainingPages, deployments.PastWindowStart}, r.Coverage.Missing)
	require.Len(t, hosttest.Data[[]deployments.Deployment](t, r), 1)

	pages, last := hosttest.Pages[deployments.Deployment](t, w, "list_recent_deployments", hosttest.With(t, month, "page_size", 2))
	require.Len(t, pages, 4)
	require.Len(t, pages[0], 2)
	require.Len(t, pages[2], 1)
	require.Empty(t, pages[3])
	require.True(t, last.Coverage.Complete, "every page was read")
	require.Equal(t, "inactive", pages[1][0].State)
	require.NotNil(t, pages[1][0].Succeeded)
}

// No repository is known: that nothing was deployed is not what follows.
func TestMapping_E5(t *testing.T) {
	_, w := open(t, providers.GitHubOptions{Unmapped: true}, nil)
	r := w.Call("list_recent_deployments", args)
	require.Equal(t, toolresult.StatusPartial, r.Status)
	require.Equal(t, []toolresult.Gap{deployments.DeploymentMapping}, r.Coverage.Missing)
	require.Equal(t, "[]", string(r.Data))

	mapped := &deployments.Options{Repositories: map[string]string{"prod/orders": "acme/order-service", "prod/broken": "acme"}}
	p, w := open(t, providers.GitHubOptions{}, mapped, authz.ResourceID{Type: "service", ID: "prod/orders"}, authz.ResourceID{Type: "service", ID: "prod/broken"})
	require.Len(t, hosttest.Data[[]deployments.Deployment](t, w.Call("list_recent_deployments", hosttest.With(t, args, "service", "orders"))), 1)
	n := p.Requests()
	require.ErrorIs(t, w.Call("list_recent_deployments", hosttest.With(t, args, "service", "broken")).Err(), toolresult.Unsupported)
	require.Equal(t, n, p.Requests())
}

func TestOtherTenant_A6(t *testing.T) {
	p, w := open(t, providers.GitHubOptions{}, nil)
	for _, args := range []string{
		hosttest.With(t, args, "service", "ledger"),
		hosttest.With(t, args, "namespace", "secret"),
		hosttest.With(t, args, "service", "../../other/ledger"),
	} {
		require.ErrorIs(t, w.Call("list_recent_deployments", args).Err(), toolresult.PermissionDenied)
	}
	require.Zero(t, p.Requests())
}

// A link to somewhere else is refused, and nothing is sent there.
func TestForeignLink_P2(t *testing.T) {
	_, w := open(t, providers.GitHubOptions{NextOrigin: "https://elsewhere.example.test"}, nil)
	require.ErrorIs(t, w.Call("list_recent_deployments", hosttest.With(t, args, "page_size", 2)).Err(), toolresult.ProviderError)
	for _, link := range []string{
		`</repos/acme/order-service/deployments?page=1>; rel="next"`, // to itself
		`</repos/acme/order-service/deployments>; rel="next"`,
		`<http://github.test.elsewhere.example/x?page=2>; rel="next"`,
		`<http://github.test@elsewhere.example/x?page=2>; rel="next"`,
		`<:bad>; rel="next"`,
	} {
		p, w := open(t, providers.GitHubOptions{}, nil)
		p.AnswerNext(providers.Answer{Status: 200, Header: http.Header{"Link": {link}}, Body: `[]`})
		require.ErrorIs(t, w.Call("list_recent_deployments", args).Err(), toolresult.ProviderError, link)
	}
	p, w := open(t, providers.GitHubOptions{}, nil)
	p.AnswerNext(providers.Answer{Status: 200, Header: http.Header{"Link": {`</repos/acme/order-service/deployments?page=2>; rel="next"`}}, Body: `[]`})
	require.NotEmpty(t, w.Call("list_recent_deployments", args).NextCursor, "a relative link leads on here, from an empty page too")
}

func TestProviderErrors_E3(t *testing.T) {
	body := func(message, docs string) string {
		return fmt.Sprintf(`{"message":%q,"documentation_url":%q,"status":"0"}`, message, docs)
	}
	for _, row := range []struct {
		why    string
		answer providers.Answer
		want   toolresult.ErrorCode
		wait   time.Duration
	}{
		{"bad credentials", providers.Answer{Status: 401, Body: body("Bad credentials", "https://docs.github.com/rest")}, toolresult.ConnectionRequired, 0},
		{"a missing right", providers.Answer{Status: 403, Body: body("Resource not accessible by integration", "https://docs.github.com/rest")}, toolresult.PermissionDenied, 0},
		{"a secondary limit", providers.Answer{Status: 403, Body: body("You have exceeded a secondary rate limit.", "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits")}, toolresult.RateLimited, 0},
		{"a limit that says how long", providers.Answer{Status: 403, Header: http.Header{"Retry-After": {"60"}}, Body: body("slow down", "")}, toolresult.RateLimited, time.Minute},
		{"another limit", providers.Answer{Status: 429, Header: http.Header{"Retry-After": {"60"}}}, toolresult.RateLimited, time.Minute},
		{"validation", providers.Answer{Status: 422, Body: body("Validation Failed", "")}, toolresult.InvalidInput, 0},
		{"moved", providers.Answer{Status: 301, Header: http.Header{"Location": {"https://elsewhere.example.test/"}}}, toolresult.ProviderError, 0},
		{"down", providers.Answer{Status: 502, Body: "<html>"}, toolresult.ProviderUnavailable, 0},
	} {
		p, w := open(t, providers.GitHubOptions{}, nil)
		p.AnswerNext(row.answer)
		r := w.Call("list_recent_deployments", args)
		require.ErrorIs(t, r.Err(), row.want, row.why)
		require.Equal(t, row.wait, r.Error.RetryAfter, row.why)
	}
	_, w := open(t, providers.GitHubOptions{Limit: 1}, nil)
	r := w.Call("list_recent_deployments", args)
	require.ErrorIs(t, r.Err(), toolresult.RateLimited, "used up between the list and the states: no half answer")
	require.Positive(t, r.Error.RetryAfter)
}

// A rollout without states is there, and what is not known of it is said.
func TestNoStates(t *testing.T) {
	p, w := open(t, providers.GitHubOptions{}, nil)
	list := providers.Answer{Status: 200, Body: `[{"id":9,"ref":"v9","sha":"a","environment":"prod","created_at":"2026-04-29T02:33:00Z"}]`}
	for _, answer := range []providers.Answer{{Status: 404, Body: `{"message":"Not Found"}`}, {Status: 200, Body: `[]`}} {
		p.AnswerNext(list)
		p.AnswerNext(answer)
		r := w.Call("list_recent_deployments", args)
		require.Equal(t, []toolresult.Gap{deployments.DeploymentStatus}, r.Coverage.Missing)
		require.Equal(t, "unknown", hosttest.Data[[]deployments.Deployment](t, r)[0].State)
	}
}
