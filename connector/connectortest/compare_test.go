package connectortest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/internal/mutants"
)

// against serves a desk whose answers are changed, as the real system.
func against(t *testing.T, change func(w http.ResponseWriter, status int, body string)) (connectortest.Fixture, func() string) {
	d := mutants.NewDesk(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := httptest.NewRecorder()
		d.ServeHTTP(got, r)
		w.Header().Set("Content-Type", got.Header().Get("Content-Type"))
		change(w, got.Code, got.Body.String())
	}))
	t.Cleanup(srv.Close)
	f := desk("")
	f.Real = func(context.Context, testing.TB) (connectortest.Real, error) {
		return connectortest.Real{URL: srv.URL, Token: d.Token, Snapshot: d.Snapshot}, nil
	}
	return f, func() string { text, err := d.Snapshot(); require.NoError(t, err); return string(text) }
}

func plainly(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// A double that is like the real system has no differences; one that is not has
// them named. Nothing is changed at the real system. T1.
func TestCompareDouble_T1(t *testing.T) {
	f, state := against(t, plainly)
	before := state()
	c, err := check.DecodeCompared(connectortest.CompareDouble(t, f))
	require.NoError(t, err)
	require.Empty(t, c.Differences)
	require.Greater(t, c.Exchanges, 5)
	require.Equal(t, before, state(), "only reads")

	for name, row := range map[string]struct {
		change func(http.ResponseWriter, int, string)
		want   string
	}{
		"a member more": {func(w http.ResponseWriter, s int, b string) { plainly(w, s, strings.Replace(b, "{", `{"extra":1,`, 1)) }, "the answer lacks /extra/"},
		"another name": {func(w http.ResponseWriter, s int, b string) {
			plainly(w, s, strings.ReplaceAll(b, `"error"`, `"message"`))
		}, "the real system's answer has no /error/"},
		"a status": {func(w http.ResponseWriter, s int, b string) { plainly(w, map[int]int{404: 410}[s]+s*b2i(s != 404), b) }, "status 404, and the real system's is 410"},
		"a header": {func(w http.ResponseWriter, s int, b string) { w.Header().Set("Etag", `"1"`); plainly(w, s, b) }, "the header Etag: false, and the real system's: true"},
		"a media type": {func(w http.ResponseWriter, s int, b string) {
			w.Header().Set("Content-Type", "application/problem+json")
			plainly(w, s, b)
		}, `the media type is "application/json"`},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := against(t, row.change)
			c, err := check.DecodeCompared(connectortest.CompareDouble(t, f))
			require.NoError(t, err)
			require.Contains(t, strings.Join(c.Differences, "\n"), row.want)
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A comparison is believed for 90 days, and no longer than 180; one of the future
// is not believed at all.
func TestComparedGoesStale(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		date           string
		stale, expired bool
	}{{"2026-11-30", false, false}, {"2026-09-03", false, false}, {"2026-08-31", true, false}, {"2026-05-01", true, true}, {"2027-06-01", true, true}} {
		c := &check.Compared{Date: row.date, Exchanges: 1}
		require.Equal(t, row.stale, c.Stale(now), row.date)
		require.Equal(t, row.expired, c.Expired(now), row.date)
		require.Contains(t, c.Trust(now), row.date)
	}
	require.Contains(t, (*check.Compared)(nil).Trust(now), "never compared")
	for _, text := range []string{"", "null", "{}", `{"schema":"connectortest/double/v1","exchanges":1,"date":"soon"}`, `{"schema":"connectortest/double/v1","date":"2026-11-30"}`} {
		_, err := check.DecodeCompared([]byte(text))
		require.Error(t, err, text)
	}

	old := []byte(`{"schema":"connectortest/double/v1","connector":"desk","date":"2020-01-01","exchanges":3,"differences":[]}`)
	f := desk("")
	f.Compared = old
	r := connectortest.Run(t, f)
	require.Equal(t, "no", r.Conformant(), "what was proven against a double that nobody has looked at for years")
	require.Equal(t, "2020-01-01", r.Double.Date)
}
