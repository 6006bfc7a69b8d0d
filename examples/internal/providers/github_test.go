package providers

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

const deploymentList = "/repos/acme/order-service/deployments"

// What the published OpenAPI description (api.github.com, 2022-11-28) requires.
const (
	deploymentMembers = "id node_id sha ref task environment creator payload description statuses_url repository_url url created_at updated_at"
	statusMembers     = "id node_id state creator description deployment_url target_url repository_url url created_at updated_at"
	userMembers       = "avatar_url events_url followers_url following_url gists_url gravatar_id html_url id node_id login organizations_url received_events_url repos_url site_admin starred_url subscriptions_url type url"
)

func rows(t *testing.T, got *httptest.ResponseRecorder) []map[string]any {
	t.Helper()
	require.Equal(t, 200, got.Code, got.Body.String())
	var out []map[string]any
	require.NoError(t, json.Unmarshal(got.Body.Bytes(), &out))
	return out
}

func TestGitHubFollowsItsDescription(t *testing.T) {
	g := NewGitHub(nil)
	all := rows(t, ask(t, g, "GET", deploymentList+"?environment=prod", ""))
	require.Len(t, all, 7)
	states := rows(t, ask(t, g, "GET", deploymentList+"/4042/statuses", ""))
	require.Equal(t, "success", states[0]["state"])
	require.Equal(t, "2026-04-29T02:35:00Z", states[0]["created_at"])
	for _, row := range all {
		requireMembers(t, row, deploymentMembers)
		requireMembers(t, row["creator"].(map[string]any), userMembers)
	}
	for _, row := range states {
		requireMembers(t, row, statusMembers)
	}
	require.Len(t, rows(t, ask(t, g, "GET", deploymentList+"?ref=v1.42.0", "")), 1)
	require.Empty(t, rows(t, ask(t, g, "GET", deploymentList+"?environment=nosuch", "")))
}

func requireMembers(t *testing.T, row map[string]any, names string) {
	t.Helper()
	for _, name := range strings.Fields(names) {
		require.Contains(t, row, name)
	}
}

func TestGitHubPages_P2(t *testing.T) {
	g := NewGitHub(nil)
	target, seen := deploymentList+"?environment=prod&per_page=3", []any{}
	next := regexp.MustCompile(`<http://example\.com([^>]*)>; rel="next"`)
	for range 10 {
		got := ask(t, g, "GET", target, "")
		for _, row := range rows(t, got) {
			seen = append(seen, row["ref"])
		}
		link := next.FindStringSubmatch(got.Header().Get("Link"))
		if link == nil {
			break
		}
		target = link[1]
	}
	require.Equal(t, []any{"v1.42.0", "v1.41.0", "v1.40.0", "v1.39.0", "v1.38.0", "v1.37.0", "v1.36.0"}, seen)
	require.Equal(t, 3, g.Requests())
	middle := ask(t, g, "GET", deploymentList+"?per_page=3&page=2", "").Header().Get("Link")
	for _, rel := range []string{"prev", "next", "last", "first"} {
		require.Contains(t, middle, `rel="`+rel+`"`)
	}
	require.Empty(t, rows(t, ask(t, g, "GET", deploymentList+"?per_page=3&page=9", "")))
	require.Empty(t, ask(t, g, "GET", deploymentList, "").Header().Get("Link"), "one page, no links")

	hostile := NewGitHub(&GitHubOptions{NextOrigin: "https://elsewhere.example.test"})
	require.Contains(t, ask(t, hostile, "GET", deploymentList+"?per_page=1", "").Header().Get("Link"), "<https://elsewhere.example.test/repos/")
}

func TestGitHubRefusals(t *testing.T) {
	g := NewGitHub(&GitHubOptions{Token: "right"})
	get := func(target, token string) *httptest.ResponseRecorder {
		return ask(t, g, "GET", target, "", "Authorization", "Bearer "+token)
	}
	require.Equal(t, `{"message":"Bad credentials","documentation_url":"https://docs.github.com/rest","status":"401"}`, get(deploymentList, "wrong").Body.String())
	require.Equal(t, 200, get(deploymentList, "right").Code)
	require.Equal(t, get("/repos/acme/nosuch/deployments", "right").Body.String(), get("/repos/other/ledger/deployments", "right").Body.String(), "hidden is as absent")
	for _, target := range []string{"/repos/other/ledger/deployments", deploymentList + "/1/statuses", deploymentList + "/4042", "/user"} {
		require.Equal(t, 404, get(target, "right").Code, target)
	}
	require.Equal(t, 404, ask(t, NewGitHub(&GitHubOptions{Unmapped: true}), "GET", deploymentList, "").Code)
	require.Contains(t, ask(t, NewGitHub(nil), "GET", "/repos/other/ledger/deployments", "").Body.String(), alr.Canary)
}

func TestGitHubRateLimit_P3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGitHub(&GitHubOptions{Limit: 2})
		for _, remaining := range []string{"1", "0"} {
			got := ask(t, g, "GET", deploymentList, "")
			require.Equal(t, 200, got.Code)
			require.Equal(t, remaining, got.Header().Get("X-Ratelimit-Remaining"))
		}
		refused := ask(t, g, "GET", deploymentList, "")
		require.Equal(t, 403, refused.Code)
		require.Contains(t, refused.Body.String(), "API rate limit exceeded")
		require.Equal(t, "2", refused.Header().Get("X-Ratelimit-Used"))
		time.Sleep(time.Hour) // of the bubble
		require.Equal(t, 200, ask(t, g, "GET", deploymentList, "").Code)
	})
}
