package skill

import (
	"iter"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"
)

type linkKind uint8

const (
	linkLocal    linkKind = iota // to a path below the skill
	linkAbsolute                 // to an absolute path of the machine
	linkEscape                   // to a path above the skill
)

// link is a link of the body to a file.
type link struct {
	kind         linkKind
	path         string // clean; of a linkLocal
	line, column int
}

// links finds the links to files in the body: inline links, images and
// definitions of Markdown, outside of code. Links to the network and to places
// in the same file are none. It is a scanner and not a Markdown parser: what it
// misses is not an error.
func (d *Document) links() iter.Seq[link] {
	return func(yield func(link) bool) {
		if !strings.Contains(d.Body, "](") && !strings.Contains(d.Body, "]:") {
			return
		}
		number, code := d.bodyLine-1, ""
		for line := range strings.SplitSeq(d.Body, "\n") {
			number++
			if f := codeFence(line); f != "" && (code == "" || strings.HasPrefix(f, code)) {
				if code == "" {
					code = f
				} else {
					code = ""
				}
				continue
			}
			if code != "" || strings.IndexByte(line, ']') < 0 {
				continue
			}
			column, counted := 1, 0
			for target, at := range targets(line) {
				l, ok := classify(target)
				column += utf8.RuneCountInString(line[counted:at])
				counted = at
				l.line, l.column = number, column
				if ok && !yield(l) {
					return
				}
			}
		}
	}
}

// codeFence returns the fence that a line is, or "".
func codeFence(line string) string {
	i := 0
	for i < len(line) && (line[i] == ' ' || line[i] == '\t' || line[i] == '>') {
		i++
	}
	if i == len(line) || line[i] != '`' && line[i] != '~' {
		return ""
	}
	n := i
	for n < len(line) && line[n] == line[i] {
		n++
	}
	if n-i < 3 {
		return ""
	}
	return line[i:n]
}

// targets finds what the links of one line lead to, with their offsets. It looks
// at each byte once, however the line is made.
func targets(line string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		if s := strings.TrimLeft(line, " "); strings.HasPrefix(s, "[") && !strings.HasPrefix(s, "[^") {
			if label, rest, ok := strings.Cut(s, "]:"); ok && !strings.Contains(label, "](") {
				yield(destination(strings.TrimSpace(rest)), len(line)-len(rest))
				return
			}
		}
		span := false
		for i := 0; i < len(line); i++ {
			switch {
			case line[i] == '`':
				span = !span && strings.IndexByte(line[i+1:], '`') >= 0
			case !span && strings.HasPrefix(line[i:], "]("):
				to := destination(line[i+2:])
				if !yield(to, i+2) {
					return
				}
				i += 1 + len(to) // what is inside of it is no link
			}
		}
	}
}

// destination cuts what a link leads to out of what follows "(".
func destination(s string) string {
	if rest, ok := strings.CutPrefix(s, "<"); ok {
		to, _, _ := strings.Cut(rest, ">")
		return to
	}
	depth := 0
	for i, r := range s {
		switch {
		case r == '(':
			depth++
		case r == ')' && depth == 0, r == ' ', r == '\t', r == '\r':
			return s[:i]
		case r == ')':
			depth--
		}
	}
	return s
}

// classify says where a link leads; !ok if to no file.
func classify(target string) (link, bool) {
	target, _, _ = strings.Cut(target, "#")
	target, _, _ = strings.Cut(target, "?")
	if plain, err := url.PathUnescape(target); err == nil {
		target = plain
	}
	lower := strings.ToLower(target)
	drive := len(target) > 2 && target[1] == ':' && (target[2] == '/' || target[2] == '\\')
	switch {
	case target == "" || strings.HasPrefix(target, "//"):
		return link{}, false
	case drive || strings.HasPrefix(lower, "file:") || strings.ContainsAny(target[:1], `/\~`):
		return link{kind: linkAbsolute}, true
	case strings.ContainsAny(target, "{}<>$*"): // a place to fill in
		return link{}, false
	}
	if scheme, _, ok := strings.Cut(target, ":"); ok && !strings.ContainsAny(scheme, "/.") {
		return link{}, false
	}
	clean := path.Clean(strings.ReplaceAll(target, `\`, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return link{kind: linkEscape}, true
	}
	return link{path: clean}, true
}
