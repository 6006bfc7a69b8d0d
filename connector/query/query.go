// Package query builds PromQL and LogQL texts from structure.
//
// A connector for metrics or logs takes the labels that decide from the grant
// and the rest from its arguments, and puts both into one text. Done with
// fmt.Sprintf, an argument with a quote in it is a second query. Here it is a
// string, or an error:
//
//	orders := query.Metric("http_requests_total", query.Is("namespace", ns), query.Is("service", svc))
//	text, err := query.Sum(query.Rate(orders, time.Minute), "code").Build()
//	// sum by (code) (rate(http_requests_total{namespace="prod",service="orders"}[1m]))
//
// What is built can be proven by a route with the place
// {promql:query:namespace}: every selector has braces, and nothing is computed,
// shifted or commented.
//
// The package knows the few forms that a metrics and a logs connector need. It
// does not read queries, and it asks no server.
package query

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxValue is the longest value, pattern or filter, in bytes.
const MaxValue = 1024

// Match is one condition on a label. The zero Match is refused.
type Match struct {
	label, op, value string
	err              error
}

// Is is label="value". The empty value is refused: servers take it for "has no
// such label".
func Is(label, value string) Match {
	m := newMatch(label, "=", value)
	if m.err == nil && value == "" {
		m.err = errors.New("query: a label is compared with nothing; leave the condition out")
	}
	return m
}

// Like is label=~"pattern". Servers anchor the pattern (RE2) at both ends. A
// route cannot prove a label that decides by a pattern: use [Is] for those.
func Like(label, pattern string) Match {
	m := newMatch(label, "=~", pattern)
	if _, err := regexp.Compile(pattern); m.err == nil && err != nil {
		m.err = errors.New("query: a pattern is not a regular expression (RE2)")
	}
	return m
}

func newMatch(label, op, value string) Match {
	quoted, err := Quote(value)
	if err == nil && !name(label, false) {
		err = errors.New("query: a label name is not letters, digits and underscores")
	}
	return Match{label, op, quoted, err}
}

// Quote returns s as a string of both languages, in double quotes. Control
// characters, invalid UTF-8 and texts over [MaxValue] are refused.
func Quote(s string) (string, error) {
	switch {
	case len(s) > MaxValue:
		return "", errors.New("query: a value is longer than 1024 bytes")
	case !utf8.ValidString(s):
		return "", errors.New("query: a value is not UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", errors.New("query: a value holds a control character")
	}
	return `"` + escape.Replace(s) + `"`, nil
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// name reports whether s names a label, or with colons a metric.
func name(s string, colons bool) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || colons && c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Selector selects series or streams. It is made by [Metric] or [Stream]; the
// zero Selector is refused. It is an immutable value.
type Selector struct {
	text string
	logs bool
	err  error
}

// Metric selects the series of a metric (PromQL).
func Metric(metric string, where ...Match) Selector {
	s := braces(where)
	if s.err == nil && !name(metric, true) {
		s.err = errors.New("query: a metric's name is not letters, digits, underscores and colons")
	}
	s.text = metric + s.text
	return s
}

// Stream selects log lines (LogQL). It needs a condition.
func Stream(where ...Match) Selector {
	s := braces(where)
	if s.err == nil && len(where) == 0 {
		s.err = errors.New("query: a stream without a condition")
	}
	s.logs = true
	return s
}

func braces(where []Match) Selector {
	var b strings.Builder
	b.WriteByte('{')
	seen := map[string]bool{}
	for i, m := range where {
		switch {
		case m.err != nil:
			return Selector{err: m.err}
		case m.label == "":
			return Selector{err: errors.New("query: a condition that was not made by Is or Like")}
		case seen[m.label]:
			return Selector{err: errors.New("query: two conditions on one label")}
		}
		seen[m.label] = true
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(m.label + m.op + m.value)
	}
	b.WriteByte('}')
	return Selector{text: b.String()}
}

// Containing keeps the lines of a [Stream] that hold a text.
func (s Selector) Containing(text string) Selector {
	quoted, err := Quote(text)
	switch {
	case s.err != nil:
		return s
	case !s.logs:
		err = errors.New("query: only log lines contain a text")
	case text == "":
		err = errors.New("query: every line contains the empty text")
	}
	return Selector{text: s.text + " |= " + quoted, logs: s.logs, err: err}
}

// Expr is a query. The zero Expr is refused. It is an immutable value.
type Expr struct {
	text string
	err  error
}

// All returns the query for what s selects, as it is.
func (s Selector) All() Expr { return Expr{s.text, s.err} }

// Build returns the text, or the first thing that is wrong. The error quotes
// nothing of it.
func (e Expr) Build() (string, error) {
	switch {
	case e.err != nil:
		return "", e.err
	case e.text == "":
		return "", errors.New("query: nothing was built")
	}
	return e.text, nil
}

// Rate is the growth per second, of a counter or of a number of lines, over a
// span of at least a millisecond and at most four years.
func Rate(s Selector, over time.Duration) Expr { return ranged("rate", s, over) }

// Count is the number of lines over a span (LogQL), or of samples (PromQL).
func Count(s Selector, over time.Duration) Expr { return ranged("count_over_time", s, over) }

func ranged(f string, s Selector, over time.Duration) Expr {
	span, err := span(over)
	switch {
	case s.err != nil:
		err = s.err
	case s.text == "":
		err = errors.New("query: a selector that was not made by Metric or Stream")
	case s.logs:
		span = " " + span // a filter may stand before it
	}
	return Expr{f + "(" + s.text + span + ")", err}
}

// span writes a range in whole units.
func span(d time.Duration) (string, error) {
	if d < time.Millisecond || d > 4*365*24*time.Hour || d%time.Millisecond != 0 {
		return "", errors.New("query: a span is not whole milliseconds, at most four years")
	}
	var b strings.Builder
	b.WriteByte('[')
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / u.unit; n > 0 {
			b.WriteString(strconv.Itoa(int(n)) + u.name)
			d -= n * u.unit
		}
	}
	b.WriteByte(']')
	return b.String(), nil
}

// Sum adds up what has the same values of some labels; with none, everything.
func Sum(e Expr, by ...string) Expr {
	if _, err := e.Build(); err != nil {
		return Expr{err: err}
	}
	for _, l := range by {
		if !name(l, false) {
			return Expr{err: errors.New("query: a label name is not letters, digits and underscores")}
		}
	}
	if len(by) == 0 {
		return Expr{text: "sum(" + e.text + ")"}
	}
	return Expr{text: "sum by (" + strings.Join(by, ", ") + ") (" + e.text + ")"}
}

// Quantile is a quantile, between 0 and 1, of a classic histogram whose buckets
// have the label le (PromQL).
func Quantile(q float64, e Expr) Expr {
	_, err := e.Build()
	if err == nil && !(q >= 0 && q <= 1) {
		err = errors.New("query: a quantile is not between 0 and 1")
	}
	return Expr{fmt.Sprintf("histogram_quantile(%s, %s)", strconv.FormatFloat(q, 'f', -1, 64), e.text), err}
}

// Ratio is one query divided by another, such as errors by requests. Both sides
// need the same labels.
func Ratio(part, whole Expr) Expr {
	_, err := part.Build()
	if _, err2 := whole.Build(); err == nil {
		err = err2
	}
	return Expr{"(" + part.text + ") / (" + whole.text + ")", err}
}
