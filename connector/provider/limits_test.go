package provider

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryAfter_E2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)))
		epoch := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
		for _, row := range []struct {
			why    string
			status int
			lines  []string
			want   time.Duration
		}{
			{"seconds", 503, []string{"Retry-After: 17"}, 17 * time.Second},
			{"seconds and a fraction, rounded up", 429, []string{"Retry-After: 1.2"}, 2 * time.Second},
			{"a date", 503, []string{"Retry-After: Mon, 30 Nov 2026 12:01:00 GMT"}, time.Minute},
			{"a date in the past", 503, []string{"Retry-After: Mon, 30 Nov 2020 12:01:00 GMT"}, 0},
			{"a date in an old form", 503, []string{"Retry-After: Monday, 30-Nov-26 12:01:00 GMT"}, time.Minute},
			{"a negative number", 429, []string{"Retry-After: -3"}, 0},
			{"a word", 429, []string{"Retry-After: soon"}, 0},
			{"an endless number", 429, []string{"Retry-After: " + strings.Repeat("9", 400)}, 0},
			{"more than is any advice", 429, []string{"Retry-After: 99999999999999"}, longest},
			{"two, of which the longer counts", 429, []string{"Retry-After: 5", "Retry-After: 60"}, time.Minute},
			{"Retry-After before the others", 429, []string{"Retry-After: 5", `RateLimit: "a";r=0;t=30`}, 5 * time.Second},

			{"structured fields", 429, []string{`RateLimit: "default";r=0;t=30`}, 30 * time.Second},
			{"the exhausted policy counts", 429, []string{`RateLimit: "burst";r=5;t=1, "daily";r=0;t=3600`}, time.Hour},
			{"in two headers", 429, []string{`RateLimit: "daily";r=0;t=3600`, `RateLimit: "burst";r=5;t=7200`}, time.Hour},
			{"a policy whose name looks like another", 429, []string{`RateLimit: "a;t=9999,\"";r=0;t=30`}, 30 * time.Second},
			{"spaces", 429, []string{`RateLimit: "a" ; r=0 ; t=30`}, 30 * time.Second},
			{"a 429 with something left", 429, []string{`RateLimit: "a";r=1;t=30`}, 30 * time.Second},
			{"a 403 with something left", 403, []string{`RateLimit: "a";r=1;t=30`}, 0},
			{"a 500 has nothing to do with limits", 500, []string{`RateLimit: "a";r=0;t=30`}, 0},
			{"the earlier draft", 403, []string{"RateLimit: limit=100, remaining=0, reset=30"}, 30 * time.Second},
			{"the earlier draft with something left", 403, []string{"RateLimit: limit=100, remaining=9, reset=30"}, 0},

			{"separate headers, seconds", 429, []string{"RateLimit-Limit: 10", "RateLimit-Remaining: 0", "RateLimit-Reset: 30"}, 30 * time.Second},
			{"since 1970", 403, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + epoch(90*time.Second)}, 90 * time.Second},
			{"since 1970, in another spelling", 429, []string{"X-Rate-Limit-Remaining: 0", "X-Rate-Limit-Reset: " + epoch(90*time.Second)}, 90 * time.Second},
			{"since 1970, with a fraction", 429, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + epoch(90*time.Second) + ".5"}, 91 * time.Second},
			{"since 1970, and over", 403, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + epoch(-time.Hour)}, 0},
			{"without what is left, on a 429", 429, []string{"X-RateLimit-Reset: 30"}, 30 * time.Second},
			{"without what is left, on a 403", 403, []string{"X-RateLimit-Reset: 30"}, 0},
			{"with something left", 429, []string{"X-RateLimit-Remaining: 7", "X-RateLimit-Reset: 30"}, 0},
			{"since 1970, in three hundred years", 429, []string{"X-RateLimit-Reset: 12000000000"}, longest},
			{"a date in three hundred years", 429, []string{"Retry-After: Sat, 01 Jan 2350 00:01:00 GMT"}, longest},
			{"neither seconds nor a time", 429, []string{"X-RateLimit-Reset: 99999999"}, 0},
			{"nothing said", 429, nil, 0},
		} {
			require.Equal(t, row.want, retryAfter(headers(row.lines...), row.status), row.why)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("17", `"default";r=0;t=30`, "0", "1700000000", 429)
	f.Add("Sat, 01 Jan 2000 00:01:00 GMT", "limit=100, remaining=0, reset=30", "", "30", 403)
	f.Add("", `"a\",;`, "0.0", "1e9", 429)
	f.Fuzz(func(t *testing.T, retry, draft, left, reset string, status int) {
		h := http.Header{}
		for k, v := range map[string]string{"Retry-After": retry, "RateLimit": draft, "X-RateLimit-Remaining": left, "X-RateLimit-Reset": reset} {
			if v != "" {
				h.Set(k, v)
			}
		}
		d := retryAfter(h, status)
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.LessOrEqual(t, d, longest)
		require.Zero(t, d%time.Second)
	})
}

func ExampleClassify() {
	r := Classify(nil, &Response{Status: 403, Header: headers(`RateLimit: "search";r=0;t=30`, "X-Request-Id: r-17")})
	fmt.Println(r.OK, r.Code, r.Effect, r.RetryAfter, r.RequestID)
	// Output: false RATE_LIMITED not_applied 30s r-17
}
