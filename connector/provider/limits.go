package provider

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longest is the longest advice to wait. More is none.
const longest = 30 * 24 * time.Hour

// retryAfter reads the forms that providers use, rounded up to seconds. Only
// Retry-After counts whatever the status. The others stand in every answer of
// some providers, and say something about a failure only if it is one of
// limits.
func retryAfter(h http.Header, status int) time.Duration {
	if d, ok := retryHeader(h.Values("Retry-After")); ok {
		return d
	}
	if status != http.StatusTooManyRequests && status != http.StatusForbidden {
		return 0
	}
	limited := status == http.StatusTooManyRequests
	if d, ok := draft(h.Values("RateLimit"), limited); ok {
		return d
	}
	for _, name := range []string{"RateLimit", "X-RateLimit", "X-Rate-Limit"} {
		left := h.Get(name + "-Remaining")
		if v := h.Get(name + "-Reset"); v != "" && (left == "" && limited || zero(left)) {
			return reset(v)
		}
	}
	return 0
}

// RetryAfter returns how long an answer that is about a limit asks to wait, also
// when its status does not say that it is: GraphQL says so with 200. In whole
// seconds, at most 30 days; 0 if it does not say.
func RetryAfter(h http.Header) time.Duration { return retryAfter(h, http.StatusTooManyRequests) }

// exhausted reports whether a header says that nothing is left.
func exhausted(h http.Header) bool {
	for _, name := range []string{"RateLimit-Remaining", "X-RateLimit-Remaining", "X-Rate-Limit-Remaining"} {
		if zero(h.Get(name)) {
			return true
		}
	}
	return false
}

func zero(s string) bool {
	n, ok := number(s)
	return ok && n == 0
}

// retryHeader reads Retry-After: seconds or a date. Of several, the longest
// counts.
func retryHeader(values []string) (longest time.Duration, ok bool) {
	for _, v := range values {
		v = strings.TrimSpace(v)
		if n, isNumber := number(v); isNumber {
			longest, ok = max(longest, seconds(n)), true
		} else if t, err := http.ParseTime(v); err == nil {
			longest, ok = max(longest, until(t)), true
		}
	}
	return longest, ok
}

// draft reads the RateLimit header: in the form of structured fields
//
//	"default";r=0;t=30, "daily";r=99;t=3600
//
// and in the earlier one
//
//	limit=100, remaining=0, reset=30
//
// The longest time of an exhausted policy counts. If none is, and the answer
// says that there were too many requests, the longest of all.
func draft(values []string, limited bool) (wait time.Duration, ok bool) {
	var any, gone time.Duration
	found := false
	for _, value := range values {
		old := policy{}
		for rest := value; rest != ""; {
			var member string
			member, rest = cut(rest, ',')
			p := policy{}
			for params := member; params != ""; {
				var text string
				text, params = cut(params, ';')
				p.read(text)
				old.read(text)
			}
			if p.reset > 0 {
				any, found = max(any, p.reset), true
			}
			if p.reset > 0 && p.known && p.left == 0 {
				gone = max(gone, p.reset)
			}
		}
		if old.dictionary && old.known && old.left == 0 {
			gone = max(gone, old.reset)
		}
	}
	switch {
	case gone > 0:
		return gone, true
	case limited:
		return any, found
	}
	return 0, false
}

// policy is what one member of a RateLimit header says, or all of them in the
// earlier form.
type policy struct {
	left       float64
	known      bool // left was said
	reset      time.Duration
	dictionary bool
}

func (p *policy) read(text string) {
	name, value, _ := strings.Cut(strings.TrimSpace(text), "=")
	n, ok := number(value)
	if !ok {
		return
	}
	switch name {
	case "r", "remaining":
		p.left, p.known = n, true
	case "t", "reset":
		p.reset = seconds(n)
	}
	p.dictionary = p.dictionary || name == "remaining" || name == "reset"
}

// reset reads a reset header: seconds to wait, or since 1970. What is neither
// is no advice.
func reset(v string) time.Duration {
	n, ok := number(v)
	switch {
	case ok && n <= longest.Seconds():
		return seconds(n)
	case ok && n > 1e9 && n < 1e11:
		return until(time.Unix(int64(math.Ceil(n)), 0))
	}
	return 0
}

// number reads a decimal number that is not negative and has at most 18 digits:
// more is no advice.
func number(s string) (float64, bool) {
	if s == "" || len(s) > 18 || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

func seconds(n float64) time.Duration {
	return time.Duration(min(math.Ceil(n), longest.Seconds())) * time.Second
}

func until(t time.Time) time.Duration {
	switch d := time.Until(t); {
	case d <= 0:
		return 0
	case d >= longest: // before anything is added: it may be all that a Duration holds
		return longest
	default:
		return (d + time.Second - 1).Truncate(time.Second)
	}
}

// cut cuts s at the first separator outside of double quotes.
func cut(s string, sep byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\\' && quoted:
			i++
		case s[i] == sep && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
