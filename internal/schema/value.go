package schema

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// maxBytes is how long arguments may be.
const maxBytes = 1 << 20

// A value is a parsed JSON value. It exists for the sake of the hot path: a
// text of usual size is read, checked and written with a handful of
// allocations, where map[string]any takes several for each member. What it
// accepts is what strictjson.Parse accepts, but for half surrogate pairs
// (FuzzText holds it to that).
type value struct {
	kind kinds   // one of kindNull ... kindString
	name string  // of a member
	text string  // of a string, decoded; of a number, as written
	num  float64 // of a number; of a bool, 1 for true
	kids []value // of an array or an object
}

// A reader parses one text.
type reader struct {
	s       string
	i       int
	strict  bool    // as strictjson.Parse; else what encoding/json writes
	scratch []value // the kids of the containers that are open
	path    path
	err     *Problem
}

// A path is where in the instance a walk is. It becomes a text only when
// something is wrong.
type path []step

type step struct {
	name  string
	index int // of an item; -1 for a member
}

func (p path) pointer() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte('/')
		if s.index >= 0 {
			b.WriteString(strconv.Itoa(s.index))
		} else {
			b.WriteString(strictjson.Escape(cut(s.name)))
		}
	}
	return b.String()
}

// parse reads one value. In strict form it refuses what strictjson.Parse does,
// and numbers that [strictjson.Exact] does not vouch for.
func parse(s string, strict bool) (value, *Problem) {
	if !utf8.ValidString(s) {
		return value{}, &Problem{Text: "is not UTF-8; send valid UTF-8"}
	}
	r := reader{s: s, strict: strict, scratch: make([]value, 0, 16), path: make(path, 0, 8)}
	v := r.value()
	if r.err == nil {
		if r.space(); r.i < len(s) {
			r.fail("goes on after its value; send one JSON object")
		}
	}
	return v, r.err
}

func (r *reader) fail(text string) {
	if r.err == nil {
		r.err = &Problem{Pointer: r.path.pointer(), Text: text}
	}
}

func (r *reader) space() {
	for r.i < len(r.s) && (r.s[r.i] == ' ' || r.s[r.i] == '\n' || r.s[r.i] == '\t' || r.s[r.i] == '\r') {
		r.i++
	}
}

const notJSON = "is not JSON; send one JSON object"

func (r *reader) value() value {
	if len(r.path) > strictjson.MaxDepth {
		r.path = r.path[:0]
		r.fail("is nested too deeply; at most 64 levels")
		return value{}
	}
	r.space()
	if r.i >= len(r.s) {
		r.fail(notJSON)
		return value{}
	}
	switch c := r.s[r.i]; {
	case c == '{':
		return r.container(kindObject, '}')
	case c == '[':
		return r.container(kindArray, ']')
	case c == '"':
		return value{kind: kindString, text: r.str()}
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	case r.word("true"):
		return value{kind: kindBool, num: 1}
	case r.word("false"):
		return value{kind: kindBool}
	case r.word("null"):
		return value{kind: kindNull}
	}
	r.fail(notJSON)
	return value{}
}

func (r *reader) word(w string) bool {
	if !strings.HasPrefix(r.s[r.i:], w) {
		return false
	}
	r.i += len(w)
	return true
}

// next steps over a character that has to come.
func (r *reader) next(c byte) bool {
	r.space()
	if r.i < len(r.s) && r.s[r.i] == c {
		r.i++
		return true
	}
	return false
}

func (r *reader) container(kind kinds, end byte) value {
	r.i++
	first, depth := len(r.scratch), len(r.path)
	for n := 0; r.err == nil; n++ {
		if n == 0 && r.next(end) {
			break
		}
		here := step{index: n}
		if kind == kindObject && !r.memberName(&here) {
			break
		}
		r.path = append(r.path, here)
		v := r.value()
		if r.err != nil {
			break
		}
		r.path = r.path[:depth]
		v.name = here.name
		r.scratch = append(r.scratch, v)
		if r.next(end) {
			break
		}
		if !r.next(',') {
			r.fail(notJSON)
		}
	}
	if r.err != nil {
		return value{}
	}
	out := value{kind: kind}
	if len(r.scratch) > first {
		out.kids = append([]value(nil), r.scratch[first:]...)
	}
	r.scratch = r.scratch[:first]
	if kind == kindObject && r.strict && twins(out.kids) {
		r.fail("has a name twice, or twice but for case; send each once")
	}
	return out
}

func (r *reader) memberName(here *step) bool {
	r.space()
	if r.i >= len(r.s) || r.s[r.i] != '"' {
		r.fail(notJSON)
		return false
	}
	here.name, here.index = r.str(), -1
	if !r.next(':') {
		r.fail(notJSON)
		return false
	}
	return true
}

// twins reports whether two names are equal but for case.
func twins(kids []value) bool {
	if len(kids) > 16 {
		seen := make(map[string]bool, len(kids))
		for i := range kids {
			f := fold(kids[i].name)
			if seen[f] {
				return true
			}
			seen[f] = true
		}
		return false
	}
	for i := range kids {
		for j := range i {
			a, b := kids[i].name, kids[j].name
			if ascii(a) && ascii(b) && strings.EqualFold(a, b) || (!ascii(a) || !ascii(b)) && fold(a) == fold(b) {
				return true
			}
		}
	}
	return false
}

func fold(s string) string { return strings.ToLower(strings.ToUpper(s)) }

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// str reads a string. Without escapes it is a part of the text.
func (r *reader) str() string {
	r.i++
	for start := r.i; r.i < len(r.s); r.i++ {
		switch c := r.s[r.i]; {
		case c == '"':
			r.i++
			return r.s[start : r.i-1]
		case c == '\\':
			return r.escaped(start)
		case c < 0x20:
			r.fail(notJSON)
			return ""
		}
	}
	r.fail(notJSON)
	return ""
}

func (r *reader) escaped(start int) string {
	b := append(make([]byte, 0, 2*(r.i-start)+16), r.s[start:r.i]...)
	for r.i < len(r.s) {
		c := r.s[r.i]
		r.i++
		switch {
		case c == '"':
			return string(b)
		case c < 0x20:
			r.fail(notJSON)
			return ""
		case c != '\\':
			b = append(b, c)
			continue
		}
		x, ok := r.escape()
		switch {
		case !ok:
			r.fail(notJSON)
			return ""
		case r.strict && x == 0:
			r.fail("holds a NUL character; remove it")
			return ""
		case x >= 0xd800 && x < 0xe000:
			r.fail("holds half a surrogate pair; send both halves or neither")
			return ""
		}
		b = utf8.AppendRune(b, x)
	}
	r.fail(notJSON)
	return ""
}

// escape reads what follows a backslash. Half a pair comes back as it is.
func (r *reader) escape() (rune, bool) {
	if r.i >= len(r.s) {
		return 0, false
	}
	c := r.s[r.i]
	r.i++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), true
	}
	if c != 'u' {
		return 0, false
	}
	x, ok := r.hex()
	if ok && x >= 0xd800 && x < 0xdc00 && strings.HasPrefix(r.s[r.i:], `\u`) {
		back := r.i
		r.i += 2
		if y, ok := r.hex(); ok && y >= 0xdc00 && y < 0xe000 {
			return (x-0xd800)<<10 + (y - 0xdc00) + 0x10000, true
		}
		r.i = back
	}
	return x, ok
}

func (r *reader) hex() (rune, bool) {
	if r.i+4 > len(r.s) {
		return 0, false
	}
	var x rune
	for _, c := range []byte(r.s[r.i : r.i+4]) {
		switch {
		case c >= '0' && c <= '9':
			x = x<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			x = x<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	r.i += 4
	return x, true
}

func (r *reader) digits() int {
	start := r.i
	for r.i < len(r.s) && r.s[r.i] >= '0' && r.s[r.i] <= '9' {
		r.i++
	}
	return r.i - start
}

func (r *reader) number() value {
	start := r.i
	if r.s[r.i] == '-' {
		r.i++
	}
	lead := r.i
	n := r.digits()
	if n == 0 || n > 1 && r.s[lead] == '0' {
		r.fail(notJSON)
		return value{}
	}
	whole := true
	if r.i < len(r.s) && r.s[r.i] == '.' {
		r.i++
		whole = false
		if r.digits() == 0 {
			r.fail(notJSON)
		}
	}
	if r.i < len(r.s) && r.s[r.i]|0x20 == 'e' {
		r.i++
		whole = false
		if r.i < len(r.s) && (r.s[r.i] == '+' || r.s[r.i] == '-') {
			r.i++
		}
		if r.digits() == 0 {
			r.fail(notJSON)
		}
	}
	return r.amount(r.s[start:r.i], whole && n <= 15)
}

func (r *reader) amount(text string, short bool) value {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case r.strict && !short && !strictjson.Exact(json.Number(text)):
		r.fail("is a number beyond 2^53 that readers round; send a smaller one")
	case err != nil || math.IsInf(f, 0):
		r.fail("is a number that no reader holds")
	}
	return value{kind: kindNumber, text: text, num: f}
}
