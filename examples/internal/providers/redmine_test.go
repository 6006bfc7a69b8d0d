package providers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

const (
	incidentIssue = `{"issue":{"project_id":"inc","subject":"[ALR-20260429-017] prod/order-service P95 210ms -> 2.1s","description":"report sha256:...","priority_id":4,` +
		`"custom_fields":[{"id":1,"value":"alert-ALR-20260429-017-incident"},{"id":2,"value":"5f1c..."},{"id":3,"value":"appr_0429_017"}]}}`
	byOperationKey = "/issues.json?cf_1=alert-ALR-20260429-017-incident&status_id=*"
)

// masked hides what a clock puts into an answer.
func masked(body string) string {
	return regexp.MustCompile(`"\d{4}-\d\d-\d\d(T[0-9:]+Z)?"`).ReplaceAllString(body, `"TIME"`)
}

// sameButTime holds an answer against a capture, apart from times.
func sameButTime(t *testing.T, want capture, got *httptest.ResponseRecorder, headers ...string) {
	t.Helper()
	require.Equal(t, want.status, got.Code, got.Body.String())
	require.Equal(t, masked(want.body), masked(got.Body.String()))
	for _, name := range append(headers, "Content-Type", "Cache-Control") {
		require.Equal(t, want.header.Get(name), got.Header().Get(name), name)
	}
}

func TestRedmineCaptured(t *testing.T) {
	r := NewRedmine(nil)
	call := func(method, target, body, key string) *httptest.ResponseRecorder {
		return ask(t, r, method, target, body, "X-Redmine-API-Key", key, "Content-Type", "application/json", "Accept", "*/*")
	}
	mine, none := alr.TicketKey, alr.TicketKeyNoRight
	for _, c := range []struct{ name, method, target, body, key string }{
		{"ok-list-nomember", "GET", "/issues.json", "", none},
		{"ok-create", "POST", "/issues.json", incidentIssue, mine},
		{"ok-get", "GET", "/issues/4821.json", "", mine},
		{"ok-find-by-operation-key", "GET", byOperationKey, "", mine},
		{"err-401-badkey", "GET", "/issues.json", "", "wrong"},
		{"err-404", "GET", "/issues/999999.json", "", mine},
		{"get-other-project", "GET", "/issues/4820.json", "", mine},
		{"get-by-nonmember", "GET", "/issues/4821.json", "", none},
		{"list-other-project", "GET", "/issues.json?project_id=secret", "", mine},
		{"list-unknown-project", "GET", "/issues.json?project_id=nosuch", "", mine},
		{"list-by-nonmember", "GET", "/issues.json?project_id=inc", "", none},
		{"create-by-nonmember", "POST", "/issues.json", incidentIssue, none},
		{"err-403-other-tenant-create", "POST", "/issues.json", strings.Replace(incidentIssue, `"inc"`, `"secret"`, 1), mine},
		{"err-404-project", "POST", "/issues.json", `{"issue":{"project_id":"nosuch","subject":"x"}}`, mine},
		{"err-422", "POST", "/issues.json", `{"issue":{"project_id":"inc"}}`, mine},
		{"err-422-badpriority", "POST", "/issues.json", `{"issue":{"project_id":"inc","subject":"x","priority_id":99}}`, mine},
		{"err-badjson", "POST", "/issues.json", `{`, mine},
		{"err-noroot", "POST", "/issues.json", `{"project_id":"inc","subject":"x"}`, mine},
		{"put-by-connector", "PUT", "/issues/4821.json", `{"issue":{"subject":"new"}}`, mine},
		{"delete-by-connector", "DELETE", "/issues/4821.json", "", mine},
		{"ok-key-in-query", "GET", "/users/current.json?key=" + mine, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			sameButTime(t, captured(t, "redmine-5.0.4", c.name), call(c.method, c.target, c.body, c.key), "Www-Authenticate", "X-Frame-Options")
		})
	}
	t.Run("err-ctype", func(t *testing.T) {
		sameButTime(t, captured(t, "redmine-5.0.4", "err-ctype"), ask(t, r, "POST", "/issues.json", incidentIssue, "X-Redmine-API-Key", mine, "Content-Type", "text/plain"))
	})
	t.Run("ok-basic", func(t *testing.T) {
		req := httptest.NewRequest("GET", "/users/current.json", nil)
		req.SetBasicAuth(mine, "x")
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		sameButTime(t, captured(t, "redmine-5.0.4", "ok-basic"), rec)
	})
	require.Equal(t, 1, r.Issues(), "only one create was answered with 201")
	require.NotContains(t, call("GET", "/issues/4821.json", "", mine).Body.String(), `"new"`, "204 and nothing changed")
}

// A real Redmine and the embedded one are led through the same steps and must
// say the same, apart from times.
func TestRedmineDiffersNowhere(t *testing.T) {
	base, r := peers.Redmine(t), NewRedmine(nil)
	post := func(body string) [3]string { return [3]string{"POST", "/issues.json", body} }
	get := func(target string) [3]string { return [3]string{"GET", target, ""} }
	for _, c := range [][3]string{
		get("/issues.json"),
		get(byOperationKey),
		post(incidentIssue),
		post(incidentIssue), // no idempotency: a second issue
		get(byOperationKey),
		post(`{"issue":{"project_id":1,"subject":""}}`),
		post(`{"issue":{"project_id":"inc","subject":"s <&> \u2028","priority_id":5,"tracker_id":3,"description":"d"}}`),
		post(`{"issue":{"project_id":"inc","priority_id":99,"tracker_id":99}}`),
		post(`{"issue":{"project_id":"inc","subject":"x","tracker_id":99,"status_id":5,"nosuch":1,"custom_fields":[{"id":99,"value":"k"}]}}`),
		post(`{"issue":{"project_id":"inc","subject":"x","custom_field_values":{"1":"by id"}}}`),
		post(`{"issue":{"project_id":"secret","subject":"x"}}`),
		post(`{"issue":{"project_id":"secret"}}`),
		post(`{"issue":{"subject":"x"}}`),
		post(`{"issue":{"project_id":"inc","subject":"` + strings.Repeat("x", 256) + `"}}`),
		post(`{"issue":"x"}`),
		post(`[]`),
		post(`{`),
		get("/issues.json?limit=2"),
		get("/issues.json?limit=2&offset=2"),
		get("/issues.json?limit=2&page=2"),
		get("/issues.json?limit=500"),
		get("/issues.json?limit=0"),
		get("/issues.json?limit=-1"),
		get("/issues.json?limit=abc&offset=abc"),
		get("/issues.json?offset=1000"),
		get("/issues.json?offset=-5&limit=1"),
		get("/issues.json?nosuch=1&limit=1"),
		get("/issues.json?cf_99=1&limit=1"),
		get("/issues.json?cf_1=alert&status_id=*"),
		get("/issues.json?cf_1=~alert&status_id=*"),
		get("/issues.json?cf_1=!by%20id&status_id=*&limit=1"),
		get("/issues.json?cf_1=by%20id%7Cx&status_id=*"),
		get("/issues.json?cf_1=!*&limit=1"),
		get("/issues.json?cf_1=*&limit=1"),
		get("/issues.json?cf_1="),
		get("/issues.json?status_id=closed"),
		get("/issues.json?status_id=open&limit=1"),
		get("/issues.json?status_id=1&limit=1"),
		get("/issues.json?status_id=99"),
		get("/issues.json?tracker_id=3"),
		get("/issues.json?priority_id=5"),
		get("/issues.json?issue_id=4821"),
		get("/issues.json?subject=~ALR&limit=1"),
		get("/issues.json?sort=id&limit=1"),
		get("/issues.json?sort=id:desc&limit=1"),
		get("/issues.json?project_id=inc&limit=1"),
		get("/issues.json?project_id=1&limit=1"),
		get("/issues.json?project_id=secret"),
		get("/issues.json?project_id=nosuch"),
		get("/issues/4821.json"),
		get("/issues/4820.json"),
		get("/issues/9999.json"),
		get("/issues/abc.json"),
		get("/projects/inc.json"),
		get("/projects/1.json"),
		get("/projects/secret.json"),
		get("/projects/nosuch.json"),
		get("/users/current.json"),
		{"PUT", "/issues/4821.json", `{"issue":{"subject":"new"}}`},
		{"PUT", "/issues/4820.json", `{"issue":{"subject":"new"}}`},
		{"DELETE", "/issues/4821.json", ""},
		get("/issues/4821.json"),
	} {
		header := []string{"X-Redmine-API-Key", alr.TicketKey, "Content-Type", "application/json"}
		want := wire(t, base, c[0], c[1], c[2], header...)
		got := ask(t, r, c[0], c[1], c[2], header...)
		require.Equal(t, want.Code, got.Code, c)
		require.Equal(t, masked(want.Body.String()), masked(got.Body.String()), c)
		require.Equal(t, want.Header().Get("Content-Type"), got.Header().Get("Content-Type"), c)
		require.Equal(t, want.Header().Get("Cache-Control"), got.Header().Get("Cache-Control"), c)
	}
}

func TestRedmineLostReceipt_W3(t *testing.T) {
	r := NewRedmine(nil)
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	post := func() error {
		req, err := http.NewRequest("POST", s.URL+"/issues.json", strings.NewReader(incidentIssue))
		require.NoError(t, err)
		req.Header.Set("X-Redmine-API-Key", alr.TicketKey)
		req.Header.Set("Content-Type", "application/json")
		resp, err := s.Client().Do(req)
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return err
	}
	r.LoseReceipt()
	require.Equal(t, 200, ask(t, r, "GET", "/issues.json", "", "X-Redmine-API-Key", alr.TicketKey).Code, "reads are not lost")
	require.ErrorIs(t, post(), io.EOF, "the answer is lost")
	require.Equal(t, 1, r.Issues(), "the write happened")
	require.Equal(t, 1, r.RequestsTo("POST", "/issues.json"))
	found := ask(t, r, "GET", byOperationKey, "", "X-Redmine-API-Key", alr.TicketKey)
	require.Contains(t, found.Body.String(), `"id":4821`)
	require.NoError(t, post(), "one receipt was to be lost")
	require.Equal(t, 2, r.Issues(), "nothing is idempotent")
}

func TestRedmineClosedIssueIsLeftOut(t *testing.T) {
	r := NewRedmine(nil)
	ask(t, r, "POST", "/issues.json", incidentIssue, "X-Redmine-API-Key", alr.TicketKey, "Content-Type", "application/json")
	require.True(t, r.Close(alr.Ticket))
	require.False(t, r.Close(1))
	list := func(target string) string {
		return ask(t, r, "GET", target, "", "X-Redmine-API-Key", alr.TicketKey).Body.String()
	}
	require.Contains(t, list("/issues.json?cf_1="+alr.OperationKey), `"total_count":0`)
	require.Contains(t, list(byOperationKey), `"total_count":1`)
	require.Contains(t, list("/issues.json?status_id=closed"), `"total_count":1`)
}

func FuzzRedmineCreate(f *testing.F) {
	f.Add(incidentIssue)
	f.Add(`{"issue":{"custom_fields":[1,{"id":{}}],"project_id":["inc"]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		r := NewRedmine(nil)
		got := ask(t, r, "POST", "/issues.json", body, "X-Redmine-API-Key", alr.TicketKey, "Content-Type", "application/json")
		require.Contains(t, []int{201, 400, 422, 500}, got.Code)
		require.Equal(t, got.Code == 201, r.Issues() == 1)
	})
}
