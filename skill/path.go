package skill

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

const (
	maxPath    = 512 // bytes
	maxSegment = 255 // bytes; file systems take no more
)

// checkPath says why a path cannot be unpacked alike on every system, or "".
func checkPath(p string, depth int) string {
	switch {
	case p == "":
		return "has an empty name"
	case !utf8.ValidString(p):
		return "has a name that is not UTF-8"
	case len(p) > maxPath:
		return fmt.Sprintf("has a path of more than %d bytes", maxPath)
	case p[0] == '/':
		return "has an absolute path"
	case strings.ContainsRune(p, '\\'):
		return "has a backslash in its path, which separates directories on Windows"
	case strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "has a character in its path that cannot be printed"
	case strings.ContainsAny(p, `:*?"<>|`):
		return `has one of : * ? " < > | in its path, which Windows refuses`
	case !norm.NFC.IsNormalString(p):
		return "has a path that is not in Unicode form NFC, which file systems change"
	case strings.Count(p, "/") >= depth:
		return fmt.Sprintf("is more than %d directories deep", depth-1)
	}
	for s := range strings.SplitSeq(p, "/") {
		if what := checkSegment(s); what != "" {
			return what
		}
	}
	return ""
}

func checkSegment(s string) string {
	switch {
	case s == "..":
		return "has .. in its path"
	case s == "" || s == ".":
		return "has an empty step or a dot in its path"
	case len(s) > maxSegment:
		return fmt.Sprintf("has a name of more than %d bytes", maxSegment)
	case strings.TrimRight(s, ". ") != s || s[0] == ' ':
		return "has a name with a blank at its ends or a dot at its end, which Windows drops"
	case device(s):
		return "has the name of a device of Windows"
	}
	return ""
}

// device reports whether Windows takes a name for a device, whatever follows
// its first dot.
func device(s string) bool {
	base, _, _ := strings.Cut(strings.ToLower(s), ".")
	base = strings.TrimRight(base, " ")
	switch base {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	for _, port := range []string{"com", "lpt"} {
		if n, ok := strings.CutPrefix(base, port); ok && strings.Contains("1 2 3 4 5 6 7 8 9 \u00b9 \u00b2 \u00b3", n) && n != "" && n != " " {
			return true
		}
	}
	return false
}

// fold gives names that some file system takes for the same one form.
func fold(p string) string {
	if ascii(p) {
		return strings.ToLower(p)
	}
	return norm.NFC.String(cases.Fold().String(norm.NFD.String(p)))
}

// names holds the paths of a package so far, and finds twins.
type names struct {
	seen  map[string]string // folded: as written
	files map[string]bool   // folded
}

// add says why a path that checkPath takes cannot stand beside the others, or "".
// Every directory on the way is a name too.
func (n *names) add(p string, file bool) string {
	if n.seen == nil {
		n.seen, n.files = map[string]string{}, map[string]bool{}
	}
	for d := path.Dir(p); d != "." && d != "/"; d = path.Dir(d) {
		if n.files[fold(d)] {
			return "lies below a path that is a file"
		}
		if first, ok := n.seen[fold(d)]; ok && first != d {
			return "lies in a directory whose name differs from another's in case or Unicode form alone"
		}
		n.seen[fold(d)] = d
	}
	f := fold(p)
	first, ok := n.seen[f]
	switch {
	case ok && first != p:
		return "has a name that differs from another's in case or Unicode form alone"
	case ok && (file || n.files[f]):
		return "occurs twice"
	}
	n.seen[f] = p
	if file {
		n.files[f] = true
	}
	return ""
}
