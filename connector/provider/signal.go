package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// Signal is where a provider says that a listing goes on. The SDK compares it
// with what the page says: an end that the wire contradicts is refused. The
// zero Signal is refused by connector.New. It is comparable.
type Signal struct {
	kind, a, b string
	offset     int // items before the page, plus one; 0: nobody knows
}

// LinkNext is a Link header with rel="next" (RFC 8288).
func LinkNext() Signal { return Signal{kind: "link"} }

// Pointer is a JSON Pointer to the next page's token or URL, which is absent,
// null or empty on the last page, or to a value that is true while there is
// more.
func Pointer(next string) Signal { return Signal{kind: "pointer", a: next} }

// Total is a pair of JSON Pointers to the number of all items and to the items
// of this page.
func Total(total, items string) Signal { return Signal{kind: "total", a: total, b: items} }

// NoSignal is for a provider that returns everything at once, or says nothing.
// The reason is kept in the manifest.
func NoSignal(reason string) Signal { return Signal{kind: "none", a: reason} }

// Check says what is wrong with a signal that can never be seen; nil: nothing,
// also for the zero Signal.
func (s Signal) Check() error {
	if s.kind != "pointer" && s.kind != "total" {
		return nil
	}
	for _, p := range []string{s.a, s.b} {
		if p != "" && p[0] != '/' || p == "" && s.a == "" {
			return fmt.Errorf("%q is not a JSON Pointer: want /%s", p, p)
		}
	}
	return nil
}

// From returns s for a page with so many items before it, because the position
// it was asked for is an offset. A negative number means that nobody knows.
// [Total] needs it: of one page alone only the first can be told.
func (s Signal) From(before int) Signal {
	s.offset = max(0, before+1)
	return s
}

// More reports whether the provider says that the listing goes on after r, and
// whether it says anything at all. An answer that cannot be read, a total
// without a number, a Link header that is not one: not known.
func (s Signal) More(r *Response) (more, known bool) {
	switch s.kind {
	case "link":
		target, ok := link(r.Header, "next")
		return target != "", ok
	case "pointer":
		body, err := strictjson.Parse(r.Body)
		if err != nil {
			return false, false
		}
		v, _ := strictjson.Lookup(body, s.a)
		return says(v), true
	case "total":
		return s.total(r)
	}
	return false, false
}

// says reports whether a value says that there is a next page.
func says(v any) bool {
	switch v := v.(type) {
	case string:
		return v != ""
	case bool:
		return v
	case json.Number:
		f, err := v.Float64()
		return err != nil || f != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

func (s Signal) total(r *Response) (more, known bool) {
	body, err := strictjson.Parse(r.Body)
	if err != nil {
		return false, false
	}
	number, _ := strictjson.Lookup(body, s.a)
	n, ok := number.(json.Number)
	total, err := strconv.Atoi(n.String())
	if !ok || err != nil || total < 0 {
		return false, false
	}
	list, _ := strictjson.Lookup(body, s.b)
	items, ok := list.([]any)
	switch {
	case !ok && total > 0:
		return false, false
	case s.offset > 0:
		return total-len(items) > s.offset-1, true
	}
	return false, total <= len(items)
}

// LinkTarget returns the target of the first link in Link headers (RFC 8288)
// that has a relation type, in whatever case, or "". Links that are about
// another document (anchor) are passed over. The target may be relative, and
// is as untrusted as everything else in an answer.
func LinkTarget(h http.Header, rel string) string {
	target, _ := link(h, rel)
	return target
}

// link is LinkTarget that also says whether all headers could be read.
func link(h http.Header, rel string) (target string, ok bool) {
	for _, field := range h.Values("Link") {
		for field = skip(field); field != ""; field = skip(field) {
			var l linkValue
			if l, field, ok = nextLink(field); !ok {
				return "", false
			}
			if l.target != "" && !l.anchored && l.has(rel) {
				return l.target, true
			}
		}
	}
	return "", true
}

// linkValue is one link of a header.
type linkValue struct {
	target, rel string
	seen        bool // rel was there; only the first counts
	anchored    bool
}

func (l *linkValue) has(rel string) bool {
	for word := range strings.FieldsSeq(l.rel) {
		if strings.EqualFold(word, rel) {
			return true
		}
	}
	return false
}

// skip drops white space and commas between links.
func skip(s string) string { return strings.TrimLeft(s, " \t,") }

// nextLink reads one link, and returns what is behind it.
func nextLink(s string) (l linkValue, rest string, ok bool) {
	if s[0] != '<' {
		return l, "", false
	}
	end := strings.IndexByte(s, '>')
	if end < 0 {
		return l, "", false
	}
	l.target, s = strings.TrimSpace(s[1:end]), strings.TrimLeft(s[end+1:], " \t")
	for s != "" && s[0] == ';' {
		var name, value string
		if name, value, s, ok = nextParam(s[1:]); !ok {
			return l, "", false
		}
		switch strings.ToLower(name) {
		case "rel":
			if !l.seen {
				l.rel, l.seen = value, true
			}
		case "anchor":
			l.anchored = true
		}
	}
	return l, s, s == "" || s[0] == ','
}

// nextParam reads a parameter of a link: a name, and perhaps a value in quotes
// or without.
func nextParam(s string) (name, value, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t")
	n := strings.IndexAny(s, "=;, \t")
	if n < 0 {
		return s, "", "", true
	}
	name, s = s[:n], strings.TrimLeft(s[n:], " \t")
	if s == "" || s[0] != '=' {
		return name, "", s, true
	}
	s = strings.TrimLeft(s[1:], " \t")
	if s != "" && s[0] == '"' {
		value, s, ok = unquote(s[1:])
		return name, value, strings.TrimLeft(s, " \t"), ok
	}
	n = strings.IndexAny(s, ";, \t")
	if n < 0 {
		return name, s, "", true
	}
	return name, s[:n], strings.TrimLeft(s[n:], " \t"), true
}

// unquote reads the rest of a quoted string (RFC 9110, section 5.6.4).
func unquote(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], true
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
