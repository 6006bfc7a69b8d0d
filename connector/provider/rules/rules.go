// Package rules knows what the answers of common providers mean.
//
// A status says too little: GitHub's limits are a 403, Slack's failures a 200, a
// 409 of Stripe is about the request before. What is known is kept in tables, one
// [Set] for each provider, and each row says where it is from and when that was
// read. A connector names the set of its provider:
//
//	connector.Info{ID: "issues", Rules: rules.GitHub, ...}
//
// A connector that knows more asks the set last:
//
//	func mine(r *provider.Response) (provider.Ruling, bool) {
//		if ... {
//			return provider.Ruling{Code: toolresult.Conflict}, true
//		}
//		return rules.GitHub(r)
//	}
//
// Every set reads a body before it believes it. A 2xx answer that calls itself
// JSON and is none, or that is a page for a browser, is a failure: it came from a
// sign-in page or a proxy, and not from the API.
//
// What a set does not do: it does not say that a change was not applied unless
// the provider refuses such a request before it looks at it; it does not judge
// the parts of a batch ([Batch] does); it waits for nothing and repeats nothing.
// Where a provider changes its codes, a set falls back to the status.
package rules

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Rule is one row: an answer that fits every condition means Is. Rules are
// asked in their order, and the first that fits counts.
type Rule struct {
	Status int    // 0: any
	Code   string // one of the codes in the answer; "": any
	Phrase string // in lower case, within the provider's message; "": any
	Is     toolresult.ErrorCode

	Effect Effect // what it says about a change

	// Wait is how long the provider documents that one has to wait, if the
	// answer does not say.
	Wait time.Duration

	Source string // where this is from, and when it was read
}

// Effect is what a rule says about a change.
type Effect uint8

const (
	ByStatus Effect = iota // what the status says: a 4xx was not applied
	Refused                // the provider refuses such a request before it does anything
	Unsure                 // it may have been applied, also if the status is a 4xx
)

// Set is what is known about one provider. It is a table to look at; to use it
// name its function, such as [GitHub].
type Set struct {
	Name  string
	Rules []Rule

	read func(*answer) // fills in what the body says
}

// answer is an answer while it is judged.
type answer struct {
	*provider.Response
	body   any  // nil unless parsed
	parsed bool // the body is JSON that can be read in one way only

	codes  []string
	text   string
	more   string // where phrases are looked for, too
	failed bool   // the body says that a 2xx answer is a failure
	wait   time.Duration
}

// judge is a provider.Rules.
func (s *Set) judge(r *provider.Response) (provider.Ruling, bool) {
	v := provider.Classify(nil, r)
	a := &answer{Response: r}
	body, err := strictjson.Parse(r.Body)
	if a.parsed = err == nil; a.parsed {
		a.body = body
	}
	if v.OK && a.foreign() {
		return provider.Ruling{Code: toolresult.ProviderError, RequestID: v.RequestID}, true
	}
	if s.read != nil {
		s.read(a)
	}
	if v.OK && !a.failed {
		return provider.Ruling{}, false
	}
	if v.OK {
		v = provider.Ruling{Code: toolresult.ProviderError, RequestID: v.RequestID}
	}
	v.Text = a.text
	if len(a.codes) > 0 {
		v.ProviderCode = a.codes[0]
	}
	if a.wait > 0 && v.RetryAfter == 0 {
		v.RetryAfter = a.wait
	}
	for i := range s.Rules {
		if s.Rules[i].fits(a) {
			return s.Rules[i].apply(a, v), true
		}
	}
	return v, true
}

func (x *Rule) fits(a *answer) bool {
	return (x.Status == 0 || x.Status == a.Status) &&
		(x.Code == "" || slices.Contains(a.codes, x.Code)) &&
		(x.Phrase == "" || strings.Contains(strings.ToLower(a.text+" "+a.more), x.Phrase))
}

func (x *Rule) apply(a *answer, v provider.Ruling) provider.Ruling {
	v.Code = x.Is
	if x.Code != "" {
		v.ProviderCode = x.Code
	}
	switch x.Effect {
	case Refused:
		v.Effect = toolresult.EffectNotApplied
	case Unsure:
		v.Effect = toolresult.EffectUnknown
	}
	if v.RetryAfter == 0 && x.Is == toolresult.RateLimited {
		if v.RetryAfter = provider.RetryAfter(a.Header); v.RetryAfter == 0 {
			v.RetryAfter = x.Wait
		}
	}
	return v
}

// foreign reports whether an answer is not the API's: it is a page for a
// browser, or calls itself JSON and is none. Without a content type the body
// decides. An empty body is no page.
func (a *answer) foreign() bool {
	body := bytes.TrimLeft(a.Body, "\ufeff \t\r\n")
	if len(body) == 0 {
		return false
	}
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	switch {
	case kind == "application/json" || strings.HasSuffix(kind, "+json") && kind != "application/stream+json":
		// JSON that readers differ about is for whoever decodes it, and a watch
		// sends one text after the other.
		return !a.parsed && json.NewDecoder(bytes.NewReader(a.Body)).Decode(new(json.RawMessage)) != nil
	case kind == "text/html" || kind == "application/xhtml+xml":
		return true
	case kind == "" || err != nil:
		return body[0] == '<'
	}
	return false
}

// at returns the string, number or boolean at a JSON Pointer as text; "" is
// none.
func (a *answer) at(pointer string) string {
	v, _ := strictjson.Lookup(a.body, pointer)
	return scalar(v)
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	return ""
}

// list returns the array at a JSON Pointer.
func (a *answer) list(pointer string) []any {
	v, _ := strictjson.Lookup(a.body, pointer)
	out, _ := v.([]any)
	return out
}

// code adds codes that are not empty.
func (a *answer) code(codes ...string) {
	for _, c := range codes {
		if c != "" && len(a.codes) < 32 {
			a.codes = append(a.codes, c)
		}
	}
}

// plain takes a body that is no markup as the message.
func (a *answer) plain() {
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if !a.parsed && kind == "text/plain" {
		a.text = string(a.Body[:min(len(a.Body), 2048)])
	}
}

// texts collects the texts in a value, however it is nested, each behind its
// name, up to 16.
func texts(v any) string {
	var out []string
	var walk func(name string, v any, depth int)
	walk = func(name string, v any, depth int) {
		if len(out) == 16 || depth == 4 {
			return
		}
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(name, x, depth+1)
			}
		case map[string]any:
			for _, k := range sorted(v) {
				walk(k, v[k], depth+1)
			}
		default:
			if s := scalar(v); s != "" && name != "" {
				out = append(out, name+": "+s)
			} else if s != "" {
				out = append(out, s)
			}
		}
	}
	walk("", v, 0)
	return strings.Join(out, "; ")
}

func sorted(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// challenged reports whether a challenge has a parameter with a value (RFC 9110,
// section 11.6.1); enough to recognize a constant.
func challenged(h http.Header, param, value string) bool {
	for _, c := range h.Values("WWW-Authenticate") {
		if strings.Contains(strings.ReplaceAll(c, " ", ""), param+`="`+value+`"`) {
			return true
		}
	}
	return false
}
