package toolresult

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDepth is how deep JSON may be nested. Readers of other languages give up
// at 64 to 1000.
const maxDepth = 128

// unfit returns "" for a JSON text that every reader reads alike, and else what
// is wrong with it: encoding/json alone takes invalid UTF-8 and, of members
// with the same name, the last.
func unfit(text []byte) string {
	switch {
	case !utf8.Valid(text):
		return "is not UTF-8"
	case !json.Valid(text):
		return "is not JSON"
	}
	return unfitNames(text)
}

// unfitNames is the rest of unfit, for a text that is JSON.
func unfitNames(text []byte) string {
	var roomForNames [24][]byte // what most texts need, on the stack
	var roomForOpen [16]int
	names := roomForNames[:0] // of all objects that are open
	open := roomForOpen[:0]   // where the names of each begin
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if len(open) == maxDepth {
				return "is nested too deeply"
			}
			open = append(open, len(names))
		case '}', ']':
			from := open[len(open)-1]
			if repeats(names[from:]) {
				return "holds an object that has a name twice"
			}
			names, open = names[:from], open[:len(open)-1]
		case '"':
			end := stringEnd(text, i)
			if next := space(text, end); next < len(text) && text[next] == ':' {
				names = append(names, unquote(text[i:end]))
			}
			i = end - 1
		}
	}
	return ""
}

// repeats may sort names.
func repeats(names [][]byte) bool {
	if len(names) <= 8 {
		for i, a := range names {
			for _, b := range names[:i] {
				if bytes.Equal(a, b) {
					return true
				}
			}
		}
		return false
	}
	slices.SortFunc(names, bytes.Compare)
	for i := 1; i < len(names); i++ {
		if bytes.Equal(names[i-1], names[i]) {
			return true
		}
	}
	return false
}

// The functions below walk over a text that is JSON, so that none can fail.

// space returns where the white space at i ends.
func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns where the string that begins at i ends.
func stringEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// valueEnd returns where the value that begins at i ends.
func valueEnd(text []byte, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i // of a number or a word at the end of its container
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

// unquote returns what a quoted string says. Half a surrogate pair is U+FFFD,
// as for every reader in Go.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // cannot fail on what is JSON
	return []byte(s)
}

// unprintable reports whether a reader would not see r, or would see something
// else for it: controls, line and paragraph separators, and the format
// characters that reorder text or spell invisible words.
func unprintable(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// lineBreak reports whether r is a control character or ends a line for some reader.
func lineBreak(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

// oneLine returns s as valid UTF-8 in one line of at most limit bytes. Applied
// twice it changes nothing more.
func oneLine(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsFunc(s, lineBreak) {
		s = strings.Map(func(r rune) rune {
			if lineBreak(r) {
				return ' '
			}
			return r
		}, s)
	}
	return head(s, limit)
}

// head returns the first limit bytes of s, or a few less so that no rune is cut.
func head(s string, limit int) string {
	if limit = max(limit, 0); len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// isOneLine reports whether oneLine has nothing to change.
func isOneLine(s string, limit int) bool {
	return len(s) <= limit && utf8.ValidString(s) && !strings.ContainsFunc(s, lineBreak)
}

// isName reports whether s begins with a letter and goes on with letters, digits
// and underscores, at most 64 of them, the letters between a and z of one case.
func isName(s string, first byte) bool {
	if s == "" || len(s) > 64 || s[0] < first || s[0] > first+25 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < first || c > first+25) && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
