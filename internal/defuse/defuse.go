// Package defuse makes text of strangers harmless to show, without deciding
// what it means.
//
// [Clean] removes what a reader would not see and what directs a terminal:
// control characters, escape sequences, characters that turn the direction of
// writing, zero-width and tag characters. [Markup] takes the effect out of what
// a renderer would act on: images and links of Markdown, tags of HTML and of
// chat templates, lines that begin like a speaker's, and addresses.
// [Policy.Value] does both to every string of a JSON value.
//
// [Spell] takes nothing away: it writes what cannot be seen in letters, for text
// that a person has to judge before it is sent.
//
// Nothing is lost that a person would read: what is taken away was invisible,
// and what would act is written so that it no longer does ("hxxps://host[.]tld").
//
// # What it does not do
//
// It recognises no instructions, and its output is not to be trusted: that is
// what labels are for.
package defuse

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/internal/lazyre"
)

// Policy says what may stay as it is. The zero Policy defuses everything.
type Policy struct {
	// Hosts are those whose addresses stay as they are, in lower case: the exact
	// name, never its subdomains. Images and links of Markdown are taken apart
	// all the same.
	Hosts []string

	// Markup leaves markup and addresses alone, for sources whose text is code.
	// Clean is done all the same.
	Markup bool
}

// longestMarks is how many combining marks may follow each other.
const longestMarks = 8

// Clean returns s without what cannot be seen, and reports whether anything was
// taken away. Line ends become \n. It is idempotent.
func Clean(s string) (string, bool) {
	if plain(s) {
		return s, false
	}
	before := s
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	// What hides an escape sequence goes first, what was one next: a sequence in
	// two halves must not become whole.
	for {
		next := visible(escapes.ReplaceAllString(s, ""))
		if next == s {
			return s, s != before
		}
		s = next
	}
}

func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7F || c < ' ' && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// escapes are the sequences of ECMA-48: CSI, then the strings OSC, DCS, SOS, PM
// and APC up to their end, then the short ones; ESC or one character of C1.
var escapes = lazyre.New("(?s)(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]?" +
	"|(?:\x1b[\\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\x07\x1b\u009c\n]*(?:\x07|\x1b\\\\|\u009c)?" +
	"|\x1b[ -/]*[0-~]?")

// visible drops the runes that a reader does not see.
func visible(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	marks := 0
	var prev rune
	for i, r := range s {
		next, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
		switch {
		case r == '\u2028', r == '\u2029', r == '\u0085':
			r = '\n'
		case hidden(r) && !joins(prev, r, next):
			continue
		case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r):
			if marks++; marks > longestMarks {
				continue
			}
		default:
			marks = 0
		}
		b.WriteRune(r)
		prev = r
	}
	return b.String()
}

// Spell writes each character that a reader would not see, that looks like a
// space and is none, or that changes how others look, as \u{202e}, and bytes that
// are no UTF-8 as \x{ff}. Line ends (\n) and the plain space stay. Two texts that
// differ look different, but for those that hold such letters themselves.
func Spell(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	marks := 0
	for i, r := range s {
		if unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x{%02x}`, s[i])
		case r == '\n' || r == ' ':
			b.WriteRune(r)
		case hidden(r) || !unicode.IsGraphic(r) || unicode.IsSpace(r) || unicode.Is(unicode.Zs, r) || marks > longestMarks:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports whether a rune shows nothing, or moves others about.
func hidden(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r), unicode.Is(unicode.Noncharacter_Code_Point, r):
		return true
	case r >= 0xE0000 && r <= 0xE0FFF: // tags, and what is not assigned beside them
		return true
	}
	// Fillers and blanks that are letters or symbols by their class.
	return r == 0x034F || r == 0x115F || r == 0x1160 || r == 0x17B4 || r == 0x17B5 || r == 0x2065 || r == 0x2800 || r == 0x3164 || r == 0xFFA0 || r == 0x1D159
}

// joins keeps one joiner or one emoji selector where a script needs it: between
// two visible characters beyond Latin, or behind a symbol.
func joins(prev, r, next rune) bool {
	beyond := func(r rune) bool { return r > 0x2FF && r != utf8.RuneError && !hidden(r) }
	switch r {
	case 0x200C, 0x200D:
		return (beyond(prev) || prev == 0xFE0F) && beyond(next)
	case 0xFE0E, 0xFE0F:
		return prev != r && (unicode.IsSymbol(prev) || prev >= '0' && prev <= '9' && next == 0x20E3)
	}
	return false
}

// Text does what the policy says to one text, and reports whether it changed.
func (p Policy) Text(s string) (string, bool) {
	out, changed := Clean(s)
	if p.Markup {
		return out, changed
	}
	m := p.markup(out)
	return m, changed || m != out
}

var (
	tags     = lazyre.New(`<([A-Za-z/!?|])`)
	template = lazyre.New(`\[(/?[A-Z][A-Z_]{2,24})\]`)
	speaker  = lazyre.New(`(?mi)^([ \t>#*_-]*)((?:human|user|assistant|system|developer|tool|function|model)[ \t*_]*:)`)
	link     = strings.NewReplacer("![", "[image: ", "](", "] (", "][", "] [", "]:", "] :")
	script   = lazyre.New(`(?i)(javascript|vbscript|view-source):`)
	active   = lazyre.New(`(?i)(data):([a-z0-9.+-]+/|[;,])|(file|ftp|wss?|blob|intent):(//|h[tx])`)
	address  = lazyre.New(`(?i)(https?)(:[\\/]{1,2})([^\s"'<>‹|(){}\[\]]*)`)
	www      = lazyre.New(`(?i)\bwww\.`)
)

// markup is idempotent: what it writes it leaves alone.
func (p Policy) markup(s string) string {
	if !strings.ContainsAny(s, "<[]:.") {
		return s
	}
	s = tags.ReplaceAllString(s, "‹$1")
	s = template.ReplaceAllString(s, "($1)")
	s = link.Replace(s)
	s = speaker.ReplaceAllString(s, "$1| $2")
	s = address.ReplaceAllStringFunc(s, p.address)
	s = script.ReplaceAllString(s, "$1[:]")
	s = active.ReplaceAllString(s, "$1$3[:]$2$4")
	if len(p.Hosts) == 0 || !strings.Contains(s, "://") {
		s = www.ReplaceAllString(s, "www[.]")
	}
	return s
}

// address writes an address so that no renderer makes a link of it.
func (p Policy) address(text string) string {
	if u, err := url.Parse(text); err == nil && u.User == nil && slices.Contains(p.Hosts, strings.ToLower(u.Hostname())) {
		return text
	}
	parts := address.FindStringSubmatch(text)
	scheme, rest := strings.Replace(strings.ToLower(parts[1]), "tt", "xx", 1), parts[3]
	end := strings.IndexAny(rest, `/\?#`)
	if end < 0 {
		end = len(rest)
	}
	return scheme + parts[2] + strings.ReplaceAll(rest[:end], ".", "[.]") + rest[end:]
}

// Value does to every string of a JSON value, names included, what Text does. It
// returns a new value and how many strings changed. Two names that become equal
// stay two.
func (p Policy) Value(v any) (any, int) {
	switch v := v.(type) {
	case string:
		s, changed := p.Text(v)
		return s, count(changed)
	case []any:
		out, n := make([]any, len(v)), 0
		for i := range v {
			e, m := p.Value(v[i])
			out[i], n = e, n+m
		}
		return out, n
	case map[string]any:
		return p.object(v)
	}
	return v, 0
}

func (p Policy) object(v map[string]any) (any, int) {
	out, n := make(map[string]any, len(v)), 0
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e, m := p.Value(v[name])
		key, changed := p.Text(name)
		for i := 2; ; i++ {
			if _, taken := out[key]; !taken {
				break
			}
			key = key + "~" + strconv.Itoa(i)
		}
		out[key], n = e, n+m+count(changed)
	}
	return out, n
}

func count(changed bool) int {
	if changed {
		return 1
	}
	return 0
}
