package peers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends one request and returns the status and the body.
func ask(t *testing.T, method, url, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("X-Redmine-API-Key", alr.TicketKey)
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

// The case that everything is about, with a real server: the answer is lost, the
// issue exists, and the look-up by its key finds it. W3, X1
func TestRealRedmineLosesAReceipt_W3(t *testing.T) {
	redmine := Redmine(t)
	proxy := Nginx(t, redmine)
	lookUp := redmine + "/issues.json?status_id=*&cf_1=" + alr.OperationKey
	_, before := ask(t, "GET", lookUp, "")
	require.Contains(t, before, `"total_count":0`)

	resp, _ := ask(t, "POST", proxy+"/lost-receipt/issues.json", `{"issue":{"project_id":"inc","subject":"x","custom_fields":[{"id":1,"value":"`+alr.OperationKey+`"}]}}`)
	require.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)

	require.Eventually(t, func() bool {
		_, after := ask(t, "GET", lookUp, "")
		return strings.Contains(after, fmt.Sprintf(`"id":%d,`, alr.Ticket))
	}, startWithin, 100*time.Millisecond, "the server finishes what it was sent")
	_, again := ask(t, "GET", proxy+"/plain/issues.json?status_id=*", "")
	require.Contains(t, again, `"total_count":1`)
}

func TestNginxFaults(t *testing.T) {
	base := Nginx(t, "http://127.0.0.1:1")
	for path, want := range map[string]int{"/limited/x": 429, "/maintenance/x": 503, "/elsewhere/x": 302, "/plain/x": 502, "/x": 404} {
		resp, _ := ask(t, "GET", base+path, "")
		require.Equal(t, want, resp.StatusCode, path)
	}
	resp, _ := ask(t, "GET", base+"/maintenance/x", "")
	require.Equal(t, "120", resp.Header.Get("Retry-After"))
	require.ErrorIs(t, probe(t.Context(), base+"/drop/x", nil, 200), io.EOF)
}

func TestPrometheusHoldsTheWindow(t *testing.T) {
	base := Prometheus(t)
	_, body := ask(t, "GET", base+"/api/v1/query?time=2026-04-29T02:38:00Z&query=service:http_request_duration_seconds:p95", "")
	require.Contains(t, body, `"value":[1777430280,"2.1"]`)
}

func TestAlertmanagerFires(t *testing.T) {
	_, body := ask(t, "GET", Alertmanager(t)+"/api/v2/alerts", "")
	require.Contains(t, body, alr.AlertID)
}

// recorder is a test that is not this one.
type recorder struct {
	testing.TB
	skipped, failed bytes.Buffer
}

type stopped struct{}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any) {
	fmt.Fprintf(&r.skipped, format, args...)
	panic(stopped{})
}

func (r *recorder) Fatalf(format string, args ...any) {
	fmt.Fprintf(&r.failed, format, args...)
	panic(stopped{})
}

func TestAbsentServer(t *testing.T) {
	for ci, skips := range map[string]bool{"": true, "true": false} {
		t.Run("CI="+ci, func(t *testing.T) {
			t.Setenv("CI", ci)
			r := &recorder{TB: t}
			require.PanicsWithValue(t, stopped{}, func() { find(r, "no-such-package", "no-such-program") })
			said := r.failed.String()
			if skips {
				said = r.skipped.String()
			}
			require.Contains(t, said, "no-such-program is not installed (Debian package no-such-package)")
			require.Equal(t, skips, r.failed.Len() == 0)
		})
	}
}

func TestPostgreSQLAnswers(t *testing.T) {
	dsn := PostgreSQL(t)
	out, err := exec.Command(filepath.Join(postgresBin(t), "psql"), dsn, "-XAtc", "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "0\n", string(out), "it is empty")
}
