package provider

import (
	"net/http"
	"strings"
	"time"
)

// Bucket is one limit that an answer tells about. What it counts is the
// provider's: calls of an app, of an account, of a kind of resource.
type Bucket struct {
	Name  string        // the provider's; "" if it has none; one line, at most 64 bytes
	Left  float64       // what is left, in the provider's unit
	Known bool          // Left was said
	Reset time.Duration // until it is full again, whole seconds, at most 30 days; 0: not said
}

// Empty reports whether nothing is left: the next call of this bucket will be
// refused, although the answer that says so may be a good one.
func (b Bucket) Empty() bool { return b.Known && b.Left == 0 }

// Buckets reads what an answer says about limits, whatever its status: the
// RateLimit header in its draft forms, and the separate headers that came before
// it, with the bucket that GitHub names in X-RateLimit-Resource. It returns nil
// if the answer says nothing that can be read, and at most 16.
func Buckets(h http.Header) []Bucket {
	var out []Bucket
	for _, value := range h.Values("RateLimit") {
		var whole policy
		for rest := value; rest != "" && len(out) < 16; {
			var member string
			member, rest = cut(rest, ',')
			p, name := policy{}, ""
			for params := member; params != ""; {
				var text string
				text, params = cut(params, ';')
				if text = strings.TrimSpace(text); !strings.Contains(text, "=") || strings.HasPrefix(text, `"`) {
					name = line(strings.Trim(text, `"`), 64)
				}
				p.read(text)
				whole.read(text)
			}
			if !whole.dictionary && (p.known || p.reset > 0) {
				out = append(out, Bucket{name, p.left, p.known, p.reset})
			}
		}
		if whole.dictionary {
			out = append(out, Bucket{Left: whole.left, Known: whole.known, Reset: whole.reset})
		}
	}
	for _, name := range []string{"RateLimit", "X-RateLimit", "X-Rate-Limit"} {
		if left, ok := number(h.Get(name + "-Remaining")); ok {
			out = append(out, Bucket{line(h.Get(name+"-Resource"), 64), left, true, reset(h.Get(name + "-Reset"))})
		}
	}
	return out
}
