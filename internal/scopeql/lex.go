package scopeql

import (
	"strings"
	"time"
	"unicode/utf8"
)

// kind is that of a token: one of these, or the character itself.
type kind byte

const (
	eof kind = iota
	ident
	str
	number
	span     // [5m], [1h:5m]
	operator // text tells which
)

type token struct {
	kind kind
	at   int
	text string        // of a string: what is between the quotes, still escaped
	span time.Duration // of a span: its length, without the step
}

// lexer cuts a text into tokens. After a refusal there are no more of them.
type lexer struct {
	text    string
	dialect Dialect
	pos     int
	ahead   token
	peeked  bool
	checked bool
	refusal *Refusal
}

// refuse keeps the first refusal, and ends the text.
func (l *lexer) refuse(at int, rule string) {
	if l.refusal == nil {
		l.refusal = &Refusal{Rule: rule, At: at}
	}
	l.pos, l.ahead, l.peeked = len(l.text), token{at: at}, true
}

// peek returns the next token and leaves it there.
func (l *lexer) peek() token {
	if !l.peeked {
		l.ahead, l.peeked = l.scan(), true
		if l.refusal != nil {
			l.ahead = token{at: l.refusal.At}
		}
	}
	return l.ahead
}

// next takes the next token. At the end it is eof, for ever.
func (l *lexer) next() token {
	t := l.peek()
	l.peeked = l.refusal != nil
	return t
}

func (l *lexer) scan() token {
	if !l.checked {
		l.checked = true
		switch {
		case len(l.text) > MaxText:
			return l.bad(0, "is too long")
		case !utf8.ValidString(l.text):
			return l.bad(0, "is not UTF-8")
		}
	}
	for l.pos < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.pos]) >= 0 {
		l.pos++
	}
	if l.pos == len(l.text) {
		return token{at: l.pos}
	}
	at, c := l.pos, l.text[l.pos]
	switch {
	case c == '"':
		return l.quoted(at)
	case c == '`' && l.dialect == LogQL:
		end := strings.IndexByte(l.text[at+1:], '`')
		if end < 0 {
			return l.bad(at, "a string is not closed")
		}
		return l.take(str, at, at+1, at+1+end, at+end+2)
	case letter(c) && (c != ':' || l.dialect == PromQL):
		return l.run(ident, at)
	case digit(c) || c == '.':
		return l.number(at)
	case c == '[':
		return l.bracket(at)
	case strings.IndexByte("{}(),", c) >= 0:
		return l.take(kind(c), at, at, at+1, at+1)
	}
	return l.symbol(at)
}

func (l *lexer) bad(at int, rule string) token {
	l.refuse(at, rule)
	return token{at: at}
}

// take returns the token whose text is from start to end, and goes on at next.
func (l *lexer) take(k kind, at, start, end, next int) token {
	l.pos = next
	return token{kind: k, at: at, text: l.text[start:end]}
}

// quoted reads a string in double quotes. A backslash takes the next byte with
// it, whatever it means.
func (l *lexer) quoted(at int) token {
	for i := at + 1; i < len(l.text); i++ {
		switch l.text[i] {
		case '\\':
			i++
		case '\n':
			return l.bad(at, "a string with a line break")
		case '"':
			return l.take(str, at, at+1, i, i+1)
		}
	}
	return l.bad(at, "a string is not closed")
}

func (l *lexer) run(k kind, at int) token {
	i := at
	for i < len(l.text) && (letter(l.text[i]) && (l.text[i] != ':' || l.dialect == PromQL) || digit(l.text[i])) {
		i++
	}
	return l.take(k, at, at, i, i)
}

// number reads a number, with a unit or without. What is glued to it in any
// other way is refused: servers cut such runs in different places.
func (l *lexer) number(at int) token {
	i := at
	for i < len(l.text) && (digit(l.text[i]) || l.text[i] == '.' || letter(l.text[i]) && l.text[i] != ':' || sign(l.text, i)) {
		i++
	}
	if !numeral(l.text[at:i]) {
		return l.bad(at, "a number with something glued to it")
	}
	return l.take(number, at, at, i, i)
}

// sign reports whether the byte at i is the sign of a decimal exponent.
func sign(s string, i int) bool {
	return (s[i] == '+' || s[i] == '-') && i > 1 && s[i-1]|0x20 == 'e' && (digit(s[i-2]) || s[i-2] == '.')
}

// numeral reports whether s is a decimal number, or a sequence of such numbers
// with units.
func numeral(s string) bool {
	for first := true; s != ""; first = false {
		n := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		switch {
		case n < 0:
			return first && s != "." && strings.Count(s, ".") < 2
		case n == 0, strings.Count(s[:n], ".") > 1, s[:n] == ".":
			return false
		}
		s = s[n:]
		if s[0]|0x20 == 'e' {
			exp := strings.TrimLeft(s[1:], "+-")
			return first && exp != "" && strings.Trim(exp, "0123456789") == ""
		}
		m := strings.IndexFunc(s, func(r rune) bool { return r == '.' || r >= '0' && r <= '9' })
		if m < 0 {
			m = len(s)
		}
		if !units[strings.ToLower(s[:m])] {
			return false
		}
		s = s[m:]
	}
	return true
}

// units are those of times and sizes.
var units = map[string]bool{
	"ns": true, "us": true, "ms": true, "s": true, "m": true, "h": true, "d": true, "w": true, "y": true,
	"b": true, "kb": true, "mb": true, "gb": true, "tb": true, "kib": true, "mib": true, "gib": true, "tib": true,
}

// bracket reads a range or a subquery: a length, and in a subquery a colon and
// perhaps a step.
func (l *lexer) bracket(at int) token {
	end := strings.IndexByte(l.text[at:], ']')
	if end < 0 {
		return l.bad(at, "a bracket is not closed")
	}
	length, step, sub := strings.Cut(l.text[at+1:at+end], ":")
	d, ok := duration(strings.Trim(length, " \t\r\n"))
	if step = strings.Trim(step, " \t\r\n"); sub && step != "" {
		_, good := duration(step)
		ok = ok && good
	}
	if !ok || sub && l.dialect != PromQL {
		return l.bad(at, "a range that is not a plain duration of at most four years")
	}
	t := l.take(span, at, at, at+end+1, at+end+1)
	t.span = d
	return t
}

// duration reads whole numbers with units, such as 1h30m, each unit once and
// smaller than the one before.
func duration(s string) (d time.Duration, ok bool) {
	rest := MaxRange * 2 // anything bigger than the first unit
	for s != "" {
		n, v := 0, time.Duration(0)
		for n < len(s) && n < 12 && digit(s[n]) {
			v = v*10 + time.Duration(s[n]-'0')
			n++
		}
		unit, width := time.Duration(0), 1
		if n > 0 && n < len(s) {
			unit, width = unitOf(s[n:])
		}
		if unit == 0 || unit >= rest || v > MaxRange/unit {
			return 0, false
		}
		d, rest, s = d+v*unit, unit, s[n+width:]
	}
	return d, d > 0 && d <= MaxRange
}

func unitOf(s string) (unit time.Duration, width int) {
	const day = 24 * time.Hour
	switch s[0] {
	case 'm':
		if len(s) > 1 && s[1] == 's' {
			return time.Millisecond, 2
		}
		return time.Minute, 1
	case 's':
		return time.Second, 1
	case 'h':
		return time.Hour, 1
	case 'd':
		return day, 1
	case 'w':
		return 7 * day, 1
	case 'y':
		return 365 * day, 1
	}
	return 0, 0
}

// symbol reads an operator.
func (l *lexer) symbol(at int) token {
	c, second := l.text[at], byte(0)
	if at+1 < len(l.text) {
		second = l.text[at+1]
	}
	width := 1
	switch c {
	case '/':
		if second == '/' || second == '*' {
			return l.bad(at, "a comment")
		}
	case '=', '!':
		if second == '=' || second == '~' || second == '>' && c == '!' && l.dialect == LogQL {
			width = 2
		}
	case '<', '>':
		if second == '=' {
			width = 2
		}
	case '|':
		if l.dialect != LogQL {
			return l.bad(at, "a character that is not looked at")
		}
		if second == '=' || second == '~' || second == '>' {
			width = 2
		}
	case '+', '-', '*', '%', '^':
	case '#':
		return l.bad(at, "a comment")
	case '@':
		return l.bad(at, "@")
	default:
		return l.bad(at, "a character that is not looked at")
	}
	return l.take(operator, at, at, at+width, at+width)
}

// letter reports whether c can begin an identifier.
func letter(c byte) bool { return c == '_' || c == ':' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }

// fold reports whether an identifier is a word, in whatever case.
func fold(s, word string) bool { return len(s) == len(word) && strings.EqualFold(s, word) }
