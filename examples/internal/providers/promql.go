package providers

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The part of PromQL that the embedded Prometheus understands:
//
//	expr     = selector | rate | quantile | sum
//	rate     = ("rate" | "increase") "(" selector "[" duration "]" ")"
//	quantile = "histogram_quantile" "(" number "," expr ")"
//	sum      = ("sum" | "max") [ by ] "(" expr ")" [ by ]
//	by       = "by" "(" [ label { "," label } ] ")"
//	selector = name [ matchers ] | matchers
//	matchers = "{" [ label op string { "," label op string } [ "," ] ] "}"
//	op       = "=" | "!=" | "=~" | "!~"
//
// Blanks are allowed between tokens, comments are not.

// A node is one of *selector, *rateCall, *quantileCall, *aggregate.
type node interface{}

type selector struct {
	matchers []matcher
	window   time.Duration // 0: instant vector
	place    string        // line:column of its first character
}

type rateCall struct {
	of      *selector
	perTime bool // rate, else increase
}

type quantileCall struct {
	q  float64
	of node
}

type aggregate struct {
	op string // sum or max
	by []string
	of node
}

type matcher struct {
	name, op, value string
	re              *regexp.Regexp // for =~ and !~
}

func (m matcher) matches(value string) bool {
	switch m.op {
	case "=":
		return value == m.value
	case "!=":
		return value != m.value
	case "=~":
		return m.re.MatchString(value)
	default:
		return !m.re.MatchString(value)
	}
}

// maxNesting bounds the depth of an expression.
const maxNesting = 20

// parsePromQL parses a whole query. Errors read as Prometheus 2.42 words them,
// where it has the same; a query that is PromQL but outside the grammar above is
// called a parse error, too.
func parsePromQL(query string) (node, error) {
	p := &promParser{text: query}
	if p.blank(); p.pos == len(p.text) {
		return nil, errors.New("1:1: parse error: no expression found in input")
	}
	n, err := p.expr(0)
	if err != nil {
		return nil, err
	}
	if p.blank(); p.pos < len(p.text) {
		return nil, p.unexpected("end of input")
	}
	return n, nil
}

type promParser struct {
	text  string
	pos   int
	depth int // open parentheses
}

func (p *promParser) blank() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *promParser) fail(format string, args ...any) error {
	return fmt.Errorf("%s: parse error: %s", p.place(p.pos), fmt.Sprintf(format, args...))
}

// place names a position as line:column, both from one, in bytes.
func (p *promParser) place(pos int) string {
	before := p.text[:pos]
	return fmt.Sprintf("%d:%d", 1+strings.Count(before, "\n"), pos-strings.LastIndexByte(before, '\n'))
}

func (p *promParser) unexpected(want string) error {
	if p.pos >= len(p.text) {
		if p.depth > 0 {
			return p.fail("unclosed left parenthesis")
		}
		return p.fail("unexpected end of input, expected %s", want)
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	return p.fail("unexpected character: %q, expected %s", r, want)
}

// accept takes the byte c if it comes next.
func (p *promParser) accept(c byte) bool {
	p.blank()
	if p.pos == len(p.text) || p.text[p.pos] != c {
		return false
	}
	p.pos++
	switch c {
	case '(':
		p.depth++
	case ')':
		p.depth--
	}
	return true
}

func (p *promParser) expect(c byte) error {
	if p.accept(c) {
		return nil
	}
	return p.unexpected(strconv.Quote(string(c)))
}

// name takes an identifier: letters, digits, _ and, in metric names, colons.
func (p *promParser) name(colons bool) string {
	p.blank()
	start := p.pos
	for ; p.pos < len(p.text); p.pos++ {
		c := p.text[p.pos]
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || colons && c == ':'
		if !letter && (p.pos == start || c < '0' || c > '9') {
			break
		}
	}
	return p.text[start:p.pos]
}

func (p *promParser) expr(level int) (node, error) {
	if level > maxNesting {
		return nil, p.fail("expression is nested too deeply")
	}
	p.blank()
	start := p.pos
	word := p.name(true)
	switch word {
	case "rate", "increase":
		return p.rate(word == "rate")
	case "histogram_quantile":
		return p.quantile(level)
	case "sum", "max":
		return p.aggregate(word, level)
	}
	if rest := strings.TrimLeft(p.text[p.pos:], " \t\r\n"); word != "" && strings.HasPrefix(rest, "(") {
		p.pos = start
		return nil, p.fail("unknown function with name %q", word)
	}
	return p.selector(word)
}

func (p *promParser) selector(metric string) (*selector, error) {
	s := &selector{place: p.place(p.pos - len(metric))}
	if metric != "" {
		s.matchers = append(s.matchers, matcher{name: "__name__", op: "=", value: metric})
	}
	if p.accept('{') {
		if err := p.matchers(s); err != nil {
			return nil, err
		}
	} else if metric == "" {
		return nil, p.unexpected("an expression")
	}
	for _, m := range s.matchers {
		if !m.matches("") {
			return s, p.window(s)
		}
	}
	return nil, fmt.Errorf("%s: parse error: vector selector must contain at least one non-empty matcher", s.place)
}

func (p *promParser) matchers(s *selector) error {
	for !p.accept('}') {
		m := matcher{name: p.name(false)}
		if m.name == "" {
			return p.unexpected("identifier or \"}\"")
		}
		if err := p.operator(&m); err != nil {
			return err
		}
		s.matchers = append(s.matchers, m)
		if !p.accept(',') {
			if p.accept('}') {
				return nil
			}
			return p.unexpected("\",\" or \"}\"")
		}
	}
	return nil
}

func (p *promParser) operator(m *matcher) error {
	p.blank()
	for _, op := range []string{"=~", "!~", "!=", "="} {
		if strings.HasPrefix(p.text[p.pos:], op) {
			m.op = op
			p.pos += len(op)
			break
		}
	}
	if m.op == "" {
		return p.unexpected("label matching operator")
	}
	value, err := p.quoted()
	if err != nil {
		return err
	}
	m.value = value
	if m.op == "=~" || m.op == "!~" {
		if m.re, err = regexp.Compile("^(?:" + value + ")$"); err != nil {
			return p.fail("%s", err)
		}
	}
	return nil
}

// quoted takes a string in double quotes.
func (p *promParser) quoted() (string, error) {
	p.blank()
	prefix, err := strconv.QuotedPrefix(p.text[p.pos:])
	if err != nil || prefix[0] != '"' {
		return "", p.unexpected("string")
	}
	p.pos += len(prefix)
	return strconv.Unquote(prefix)
}

// window takes a range such as [1m] behind a selector, if there is one.
func (p *promParser) window(s *selector) error {
	if !p.accept('[') {
		return nil
	}
	p.blank()
	end := strings.IndexByte(p.text[p.pos:], ']')
	if end < 0 {
		return p.fail("unclosed left bracket")
	}
	d, err := promDuration(strings.TrimSpace(p.text[p.pos : p.pos+end]))
	if err != nil {
		return p.fail("%s", err)
	}
	s.window, p.pos = d, p.pos+end+1
	return nil
}

func (p *promParser) rate(perTime bool) (node, error) {
	if err := p.expect('('); err != nil {
		return nil, err
	}
	s, err := p.selector(p.name(true))
	if err != nil {
		return nil, err
	}
	if s.window == 0 {
		return nil, p.fail("expected type range vector in call to function, got instant vector")
	}
	return &rateCall{s, perTime}, p.expect(')')
}

func (p *promParser) quantile(level int) (node, error) {
	if err := p.expect('('); err != nil {
		return nil, err
	}
	p.blank()
	end := strings.IndexAny(p.text[p.pos:], ",)")
	if end < 0 {
		p.pos = len(p.text)
		return nil, p.unexpected("\",\"")
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(p.text[p.pos:p.pos+end]), 64)
	if err != nil {
		return nil, p.unexpected("number")
	}
	p.pos += end
	if err := p.expect(','); err != nil {
		return nil, err
	}
	of, err := p.vector(level)
	if err != nil {
		return nil, err
	}
	return &quantileCall{q, of}, p.expect(')')
}

func (p *promParser) aggregate(op string, level int) (node, error) {
	a := &aggregate{op: op}
	grouped, err := p.by(a)
	if err != nil {
		return nil, err
	}
	if err := p.expect('('); err != nil {
		return nil, err
	}
	if a.of, err = p.vector(level); err != nil {
		return nil, err
	}
	if err := p.expect(')'); err != nil || grouped {
		return a, err
	}
	_, err = p.by(a)
	return a, err
}

// vector parses an argument that must be an instant vector.
func (p *promParser) vector(level int) (node, error) {
	n, err := p.expr(level + 1)
	if s, ok := n.(*selector); ok && err == nil && s.window != 0 {
		return nil, p.fail("expected type instant vector, got range vector")
	}
	return n, err
}

func (p *promParser) by(a *aggregate) (bool, error) {
	start := p.pos
	if p.name(false) != "by" {
		p.pos = start
		return false, nil
	}
	if err := p.expect('('); err != nil {
		return true, err
	}
	for !p.accept(')') {
		label := p.name(false)
		if label == "" {
			return true, p.unexpected("label")
		}
		a.by = append(a.by, label)
		if !p.accept(',') {
			return true, p.expect(')')
		}
	}
	return true, nil
}

// promDuration parses 5m, 1h30m, 15s, 500ms: units in falling order, each once.
func promDuration(s string) (time.Duration, error) {
	units := []struct {
		name string
		size time.Duration
	}{{"y", 365 * 24 * time.Hour}, {"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}
	var sum time.Duration
	rest := s
	for _, u := range units {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		name := strings.TrimLeft(rest[digits:], "0123456789")
		if digits == 0 || digits > 9 || !strings.HasPrefix(rest[digits:], u.name) || u.name == "m" && strings.HasPrefix(name, "ms") {
			continue
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil || n > int64((1<<62)/u.size) {
			break
		}
		sum, rest = sum+time.Duration(n)*u.size, rest[digits+len(u.name):]
	}
	if rest != "" || s == "" || sum < 0 {
		return 0, fmt.Errorf("not a valid duration string: %q", s)
	}
	if sum == 0 {
		return 0, errors.New("duration must be greater than 0")
	}
	return sum, nil
}
