package route

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// segment is prefix, variable, suffix; or only prefix if there is no variable.
type segment struct{ prefix, name, suffix string }

func parseSegment(text string) (segment, error) {
	bad := func(s string) bool { return strings.ContainsAny(s, "{}%?#\\ ;") || !plain(s) }
	open, end := strings.IndexByte(text, '{'), strings.IndexByte(text, '}')
	if open < 0 && end < 0 {
		if bad(text) || text == "." || text == ".." {
			return segment{}, fmt.Errorf("segment %q cannot be in a pattern", text)
		}
		return segment{prefix: text}, nil
	}
	if open < 0 || end < open+2 {
		return segment{}, fmt.Errorf("segment %q: braces without a name", text)
	}
	s := segment{text[:open], text[open+1 : end], text[end+1:]}
	if bad(s.prefix) || bad(s.suffix) || !name(s.name) {
		return segment{}, fmt.Errorf("segment %q: one variable, with plain text around it", text)
	}
	return s, nil
}

// name reports whether s is letters, digits and underscores.
func name(s string) bool {
	for _, r := range s {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
			return false
		}
	}
	return s != ""
}

// plain reports whether s is UTF-8 without control characters.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

type order int

const (
	disjoint order = iota
	first
	second
	conflict
)

// compare says which of two patterns is tried first. Segments are compared from
// the left, and the first one in which they differ decides.
func compare(a, b []segment) order {
	if len(a) != len(b) {
		return disjoint
	}
	for i := range a {
		if !overlap(a[i], b[i]) {
			return disjoint
		}
	}
	for i := range a {
		ab, ba := within(a[i], b[i]), within(b[i], a[i])
		switch {
		case ab && ba:
			continue
		case ab:
			return first
		case ba:
			return second
		}
		return conflict
	}
	return conflict
}

func overlap(a, b segment) bool {
	switch {
	case a.name == "" && b.name == "":
		return a.prefix == b.prefix
	case a.name == "":
		_, ok := b.match(a.prefix)
		return ok
	case b.name == "":
		_, ok := a.match(b.prefix)
		return ok
	}
	return (strings.HasPrefix(a.prefix, b.prefix) || strings.HasPrefix(b.prefix, a.prefix)) &&
		(strings.HasSuffix(a.suffix, b.suffix) || strings.HasSuffix(b.suffix, a.suffix))
}

// within reports whether everything that a matches is matched by b.
func within(a, b segment) bool {
	switch {
	case b.name == "":
		return a.name == "" && a.prefix == b.prefix
	case a.name == "":
		_, ok := b.match(a.prefix)
		return ok
	}
	return strings.HasPrefix(a.prefix, b.prefix) && strings.HasSuffix(a.suffix, b.suffix)
}

// match matches an unescaped segment.
func (s segment) match(text string) (value string, ok bool) {
	if s.name == "" {
		return "", text == s.prefix
	}
	if len(text) <= len(s.prefix)+len(s.suffix) || !strings.HasPrefix(text, s.prefix) || !strings.HasSuffix(text, s.suffix) {
		return "", false
	}
	value = text[len(s.prefix) : len(text)-len(s.suffix)]
	return value, value != "." && value != ".."
}

// split unescapes a path into segments, which it appends, or refuses it.
func split(path string, segs []string) ([]string, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, ErrPath
	}
	for rest, more := path[1:], true; more; {
		var p string
		p, rest, more = strings.Cut(rest, "/")
		s, err := url.PathUnescape(p)
		bare, _, _ := strings.Cut(s, ";") // servers drop what follows
		switch {
		case err != nil, !plain(s), strings.ContainsAny(s, "/\\"), bare == "." || bare == "..", s != "" && bare == "":
			return nil, ErrPath
		case s == "" && more, escaped(s):
			return nil, ErrPath
		}
		segs = append(segs, s)
	}
	return segs, nil
}

// escaped reports whether unescaping once more would change s.
func escaped(s string) bool {
	if strings.IndexByte(s, '%') < 0 {
		return false
	}
	u, err := url.PathUnescape(s)
	return err == nil && u != s
}
