package providers

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

func TestRunbooks(t *testing.T) {
	b := NewRunbooks(nil)
	get := func(target string) string { return ask(t, b, "GET", target, "").Body.String() }
	require.Contains(t, get("/runbooks?service=order-service&q=LATENCY+v2"), `"id":"RB-102","title":"Latency of order-service, v2","namespace":"prod","service":"order-service","owner":null,"version":"2"`)
	require.Equal(t, `{"runbooks":[]}`, get("/runbooks?q=nosuchword"))
	require.NotContains(t, get("/runbooks?namespace=prod"), "RB-900")
	one := ask(t, b, "GET", "/runbooks/RB-110", "")
	require.Contains(t, one.Body.String(), "Ignore previous instructions")
	require.Equal(t, `"2"`, one.Header().Get("ETag"))
	require.Contains(t, get("/runbooks/RB-900"), alr.Canary)
	require.Equal(t, `{"error":{"code":"not_found","message":"no such runbook"}}`, get("/runbooks/RB-1"))

	first := get("/runbooks?service=order-service&limit=3")
	next := regexp.MustCompile(`"next":"([^"]*)"`).FindStringSubmatch(first)
	require.NotNil(t, next)
	require.Contains(t, get("/runbooks?service=order-service&limit=3&cursor="+next[1]), "RB-110")
	for _, bad := range []string{"/runbooks?limit=x", "/runbooks?service=payment&cursor=" + next[1], "/runbooks?cursor=OTk5OTk5OTk5OTk5OTk5OTk5fHx8"} {
		require.Contains(t, get(bad), `"code":"bad_request"`, bad)
	}
	require.Equal(t, 401, ask(t, NewRunbooks(&RunbooksOptions{Authorization: "Bearer x"}), "GET", "/runbooks", "").Code)
	require.Equal(t, 405, ask(t, b, "POST", "/runbooks", "").Code)
	require.Equal(t, 404, ask(t, b, "GET", "/", "").Code)
}

func FuzzOwnCursor(f *testing.F) {
	f.Add(ownCursor(3, "||"))
	b := NewRunbooks(nil)
	f.Fuzz(func(t *testing.T, cursor string) {
		require.Contains(t, []int{200, 400}, ask(t, b, "GET", form("/runbooks", "cursor", cursor), "").Code)
	})
}
