// Package scopeql proves what a PromQL or LogQL text can select.
//
// A grant names values of labels ("namespace prod, service orders"), and a
// query is a text in somebody else's language. This package answers one
// question about such a text: if the server accepts it, which combinations of
// values can its selectors match, and how far back do they read? It never
// rewrites a query, and it has no tree of it. What it cannot prove, it refuses,
// however harmless.
//
// # PromQL
//
// The text is read from the left, and at each word it is known whether an
// operand or an operator has to come, so that `and`, `or`, `by` and the other
// words that are also legal names of metrics are never taken for the wrong one.
// Each selector has braces, and in them one plain equality for every label that
// is asked for.
//
// # LogQL
//
// Streams are selected by braces alone. Each pair of braces outside of a string
// is proven as above; what else is in a pipeline does not matter.
//
// # What is refused
//
// In both: comments, offset, @, single quotes, anything that is not ASCII
// outside of strings, names in quotes, a label asked for that is missing,
// repeated, empty, or matched by anything but an equality with a plain value,
// texts over [MaxText], nesting over [MaxDepth], queries that select nothing. In
// PromQL also: metrics without braces, functions that are not known (info reads
// metrics that the query does not name), raw strings, computed durations.
//
// # What it does not do
//
// It does not say whether a text is valid: the server does. It does not count
// what a server adds by itself: Prometheus takes a sample that is up to five
// minutes old (its own flag) for an instant.
package scopeql

import (
	"slices"
	"strconv"
	"time"
)

// Dialect is a query language. The zero Dialect is none, and is refused.
type Dialect uint8

const (
	Undeclared Dialect = iota
	PromQL
	LogQL
)

// Bounds of a query. They are part of the proof: nothing recurses, and sums of
// ranges cannot overflow.
const (
	MaxText  = 16 << 10 // bytes
	MaxDepth = 64       // open parentheses
	MaxRange = 4 * 365 * 24 * time.Hour
)

// Proof is what is certain about a query, if the server accepts it.
type Proof struct {
	// Selectors has one row for each distinct combination of values, in order
	// of appearance, with the value of each asked label. It has at least one
	// row. A row of no labels is empty.
	Selectors [][]string

	// Lookback is how far before its evaluation time the query reads: the
	// longest chain of ranges and subqueries. 0: it has none.
	Lookback time.Duration
}

// Refusal says which rule a query breaks, and where. It holds nothing of the
// query.
type Refusal struct {
	Rule string // a constant of this package
	At   int    // offset in bytes
}

// Error returns one line.
func (r *Refusal) Error() string { return "query: byte " + strconv.Itoa(r.At) + ": " + r.Rule }

// Prove returns what query can select by labels, or a [*Refusal]. No labels at
// all is allowed, when only the Lookback matters.
func Prove(d Dialect, query string, labels []string) (Proof, error) {
	p := prover{lexer: lexer{text: query, dialect: d}, labels: labels, frames: make([]frame, 1, 8)}
	switch d {
	case PromQL:
		p.promql()
	case LogQL:
		p.logql()
	default:
		p.refuse(0, "no query language is declared")
	}
	if p.refusal == nil && len(p.frames) > 1 {
		p.refuse(len(query), "a parenthesis is not closed")
	}
	if p.refusal == nil && len(p.rows) == 0 {
		p.refuse(len(query), "selects nothing")
	}
	if p.refusal != nil {
		return Proof{}, p.refusal
	}
	return Proof{Selectors: p.rows, Lookback: p.frames[0].look}, nil
}

// prover is the state of one proof.
type prover struct {
	lexer
	labels []string
	rows   [][]string
	frames []frame       // open parentheses, below them the whole
	last   time.Duration // look back of the operand that has just ended
	ranged bool          // it ended with a range
	over   bool          // the text ended where it may
}

// frame is one open parenthesis.
type frame struct {
	call, aggregates bool
	look             time.Duration // longest look back so far inside
}

func (p *prover) top() *frame { return &p.frames[len(p.frames)-1] }

func (p *prover) push(at int, f frame) {
	if len(p.frames) > MaxDepth {
		p.refuse(at, "is nested too deeply")
		return
	}
	p.frames = append(p.frames, f)
}

// pop closes a parenthesis; what was in it is the operand that has just ended.
func (p *prover) pop(at int) frame {
	if len(p.frames) == 1 {
		p.refuse(at, "a parenthesis was not opened")
		return frame{}
	}
	f := *p.top()
	p.frames = p.frames[:len(p.frames)-1]
	p.ended(f.look)
	return f
}

// ended notes that an operand with a look back has ended.
func (p *prover) ended(look time.Duration) {
	p.last, p.ranged = look, false
	p.top().look = max(p.top().look, look)
}

// extend adds a range to the operand that has just ended.
func (p *prover) extend(t token) {
	if p.ranged {
		p.refuse(t.at, "two ranges in a row")
		return
	}
	p.ended(p.last + t.span)
	p.ranged = true
}

// selector proves what is between braces; the opening one has been read.
func (p *prover) selector(open token) {
	row := make([]string, len(p.labels))
	for t := p.next(); t.kind != '}'; t = p.next() {
		if t.kind != ident || !label(t.text) {
			p.refuse(t.at, "a matcher does not begin with a plain label name")
			return
		}
		op, value := p.next(), p.next()
		if !matches(op) || value.kind != str {
			p.refuse(op.at, "a matcher is not a name, an operator and a string")
			return
		}
		if i := slices.Index(p.labels, t.text); i >= 0 {
			if op.text != "=" || row[i] != "" || !plain(value.text) {
				p.refuse(op.at, "a label that decides is not matched by one equality with a plain value")
				return
			}
			row[i] = value.text
		}
		if p.peek().kind == ',' {
			p.next()
		} else if p.peek().kind != '}' {
			p.refuse(p.peek().at, "matchers without a comma between them")
			return
		}
	}
	if slices.Contains(row, "") {
		p.refuse(open.at, "a selector does not match every label that decides")
		return
	}
	if !slices.ContainsFunc(p.rows, func(r []string) bool { return slices.Equal(r, row) }) {
		p.rows = append(p.rows, row)
	}
	p.ended(0)
}

func matches(op token) bool {
	return op.kind == operator && (op.text == "=" || op.text == "!=" || op.text == "=~" || op.text == "!~")
}

// label reports whether an identifier can be the name of a label.
func label(s string) bool {
	for i := range len(s) {
		if s[i] == ':' {
			return false
		}
	}
	return true
}

// plain reports whether a value means the same under every rule for escapes,
// cases and patterns.
func plain(s string) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !letter(c) && !digit(c) && c != '.' && c != '-' && c != '/' {
			return false
		}
	}
	return true
}

// logql walks over a LogQL text. Only braces select.
func (p *prover) logql() {
	for p.refusal == nil {
		switch t := p.next(); t.kind {
		case eof:
			return
		case '{':
			p.selector(t)
		case '}':
			p.refuse(t.at, "a brace was not opened")
		case '(':
			p.push(t.at, frame{})
		case ')':
			p.pop(t.at)
		case span:
			p.extend(t)
		case ident:
			if fold(t.text, "offset") {
				p.refuse(t.at, "offset")
			}
			p.last, p.ranged = 0, false
		default:
			p.last, p.ranged = 0, false
		}
	}
}
