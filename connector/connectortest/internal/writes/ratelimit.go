package writes

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var needsRead = check.All(check.NeedsKind(connector.KindRead, connector.KindList), check.NeedsRoutes)

// asking returns the ordinary reads that ask the provider.
func asking(s *check.Session) (out []check.Call) {
	for _, c := range s.Reads() {
		if len(s.Declaration(c.Capability).Routes) > 0 {
			out = append(out, c)
		}
	}
	return out
}

func rateLimits() []check.Check {
	return []check.Check{
		{
			ID: "ratelimit/retry-after-seconds", Since: frozen, Needs: needsRead, Kills: []string{"retry-after-seconds-lost"},
			Promise: "When the provider asks to wait so many seconds, the caller is told so many seconds.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					got := slowDown(ctx, s, c, "17")
					s.Expect(got == 17*time.Second, fmt.Sprintf("%s: wait %v", c.Capability, got), "17 s")
				}
			},
		},
		{
			ID: "ratelimit/retry-after-http-date", Since: frozen, Needs: needsRead, Kills: []string{"retry-after-date-lost"},
			Promise: "When the provider names the time until which to wait, the caller is told how long that is.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					got := slowDown(ctx, s, c, time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))
					s.Expect(got >= 88*time.Second && got <= 91*time.Second, fmt.Sprintf("%s: wait %v", c.Capability, got), "about 90 s")
				}
			},
		},
		{
			ID: "ratelimit/odd-values", Since: frozen, Needs: needsRead, Kills: []string{"retry-after-trusted"},
			Promise: "A hint that makes no sense is no hint, and none is longer than thirty days.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					for _, odd := range []string{"-5", "abc", "", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)} {
						got := slowDown(ctx, s, c, odd)
						s.Expect(got >= 0 && got <= time.Second, fmt.Sprintf("%s, given Retry-After: %s: wait %v", c.Capability, odd, got), "no hint")
					}
					got := slowDown(ctx, s, c, "99999999999")
					s.Expect(got >= 0 && got <= 30*24*time.Hour, fmt.Sprintf("%s: wait %v", c.Capability, got), "at most 30 days")
				}
			},
		},
		{
			ID: "ratelimit/no-sleep-past-deadline", Since: frozen, Needs: needsRead, Kills: []string{"sleeps-anyway"},
			Promise: "Who is asked to wait longer than the caller will is told so at once.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					s.Faults(fault.Always(fault.Fault{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}))
					ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
					began := time.Now()
					r := s.Do(ctx, c)
					cancel()
					s.WantCode(c, r, toolresult.RateLimited, toolresult.QuotaExceeded)
					s.Expect(time.Since(began) < time.Second, fmt.Sprintf("%s: an answer after %v", c.Capability, time.Since(began)), "at once")
				}
			},
		},
		{
			ID: "ratelimit/bounded-attempts", Since: frozen, Needs: needsRead, Kills: []string{"hammer"},
			Promise: "A provider that asks to slow down is not asked again and again in one call.",
			Run: func(ctx context.Context, s *check.Session) {
				for i, c := range s.Reads() {
					if len(s.Declaration(c.Capability).Routes) == 0 {
						continue
					}
					s.Faults(fault.Always(fault.Fault{Status: 429, Header: http.Header{"Retry-After": {"1"}}}))
					n := s.Requests()
					s.Do(ctx, c)
					sent, ordinary := s.Requests()-n, s.Ordinary[i].Requests
					s.Expect(sent <= max(ordinary, 1)+2, fmt.Sprintf("%s: %d requests, all answered with 429", c.Capability, sent), "one, or two more")
				}
			},
		},
		{
			ID: "ratelimit/scoped", Since: frozen, Level: check.Extended, Needs: check.All(needsRead, check.NeedsCredential), Kills: []string{"global-backoff"},
			Promise: "A limit that one caller has run into does not stop another.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					slowDown(ctx, s, c, "3600")
					s.Faults(nil)
					s.WantData(c, s.Do(ctx, c.As(check.Bob)))
				}
			},
		},
	}
}

// slowDown makes a call whose requests are answered with 429, and returns the
// hint that the caller gets.
func slowDown(ctx context.Context, s *check.Session, c check.Call, retryAfter string) time.Duration {
	s.Faults(fault.Always(fault.Fault{Status: 429, Header: http.Header{"Retry-After": {retryAfter}}}))
	r := s.Do(ctx, c)
	if !s.WantCode(c, r, toolresult.RateLimited, toolresult.QuotaExceeded) {
		return -1
	}
	return r.Error.RetryAfter
}
