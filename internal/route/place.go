package route

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/scopeql"
)

// source is where a part of an id comes from.
type source uint8

const (
	literal source = iota
	inPath
	inParam
	inBody
	inHeader
	inConn
	inQuery
)

// place is one place of a request.
type place struct {
	from source
	text string // literal text, a name, or a JSON Pointer
}

// part is text or a place in an id.
type part struct {
	place
	label int  // inQuery: column of the question's rows
	until byte // what the value must not hold, so that the id is read in one way; 0: nothing
}

// touch is one entry of Touches.
type touch struct {
	text, typ string
	parts     []part
	question  int // index of the query that its labels are from; -1: none
}

// question is a query that a request holds, and what is asked about it.
type question struct {
	dialect scopeql.Dialect
	place
	list   bool
	labels []string
}

// touching reads Touches.
func (c *compiled) touching() error {
	for _, text := range c.Touches {
		typ, rest, ok := strings.Cut(text, ":")
		if !ok || !name(typ) || rest == "" {
			return fmt.Errorf("touch %q: want type:id", text)
		}
		t := touch{text: text, typ: typ, question: -1}
		if err := c.parts(&t, rest); err != nil {
			return fmt.Errorf("touch %q: %w", text, err)
		}
		c.touches = append(c.touches, t)
	}
	return nil
}

// parts reads an id.
func (c *compiled) parts(t *touch, rest string) error {
	last := -1 // the place before
	for rest != "" {
		lit, after, found := strings.Cut(rest, "{")
		if lit != "" {
			t.parts = append(t.parts, part{place: place{literal, lit}})
		}
		if strings.Contains(lit, "}") {
			return errors.New("braces do not match")
		}
		if !found {
			break
		}
		in, tail, closed := strings.Cut(after, "}")
		switch {
		case !closed || in == "":
			return errors.New("braces do not match")
		case last >= 0 && lit == "":
			return errors.New("two places without text between them")
		case last >= 0:
			t.parts[last].until = lit[0]
		}
		p, err := c.place(t, in)
		if err != nil {
			return err
		}
		last, rest = len(t.parts), tail
		t.parts = append(t.parts, p)
	}
	if last < 0 {
		return errors.New("names no place")
	}
	return nil
}

// place reads what is between braces.
func (c *compiled) place(t *touch, in string) (part, error) {
	var p part
	switch in[0] {
	case '?', '#':
		var err error
		p.place, err = c.either(in)
		return p, err
	case '^':
		p.place = place{inHeader, http.CanonicalHeaderKey(in[1:])}
	case '@':
		p.place = place{inConn, in[1:]}
		if p.text != "account" && p.text != "org" {
			return p, errors.New("a connection has account and org")
		}
	default:
		if dialect, rest, ok := dialectOf(in); ok {
			return c.labelled(t, dialect, rest)
		}
		p.place = place{inPath, in}
		if !c.variable(in) {
			return p, fmt.Errorf("names {%s}, which is not in the pattern", in)
		}
	}
	if p.text == "" {
		return p, errors.New("a place without a name")
	}
	return p, nil
}

// either reads a place that is a parameter or a pointer.
func (c *compiled) either(in string) (place, error) {
	if pointer, ok := strings.CutPrefix(in, "#"); ok {
		if !strings.HasPrefix(pointer, "/") || badEscape(pointer) {
			return place{}, errors.New("want a JSON Pointer")
		}
		return place{inBody, pointer}, nil
	}
	name, ok := strings.CutPrefix(in, "?")
	if !ok || name == "" {
		return place{}, errors.New("a place without a name")
	}
	if c.params[name] {
		return place{}, fmt.Errorf("parameter %q is a list", name)
	}
	c.params[name] = false
	return place{inParam, name}, nil
}

// badEscape reports whether a pointer has a tilde that is not ~0 or ~1 (RFC
// 6901, section 3).
func badEscape(pointer string) bool {
	for _, step := range strings.Split(pointer, "~")[1:] {
		if !strings.HasPrefix(step, "0") && !strings.HasPrefix(step, "1") {
			return true
		}
	}
	return false
}

func dialectOf(in string) (d scopeql.Dialect, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(in, "promql:"); ok {
		return scopeql.PromQL, rest, true
	}
	rest, ok = strings.CutPrefix(in, "logql:")
	return scopeql.LogQL, rest, ok
}

// labelled reads a label of a query.
func (c *compiled) labelled(t *touch, d scopeql.Dialect, rest string) (part, error) {
	i := strings.LastIndexByte(rest, ':')
	if i < 0 || !name(rest[i+1:]) {
		return part{}, errors.New("want a language, a place and a label, with colons between them")
	}
	n, err := c.ask(d, rest[:i])
	if err != nil {
		return part{}, err
	}
	if t.question >= 0 && t.question != n {
		return part{}, errors.New("labels of two queries in one id")
	}
	t.question = n
	q, label := &c.questions[n], rest[i+1:]
	column := slices.Index(q.labels, label)
	if column < 0 {
		column = len(q.labels)
		q.labels = append(q.labels, label)
	}
	return part{place: place{inQuery, label}, label: column}, nil
}

// ask returns the index of the question about a query.
func (c *compiled) ask(d scopeql.Dialect, where string) (int, error) {
	text, list := strings.CutSuffix(where, "*")
	if !strings.HasPrefix(text, "#") && !strings.HasPrefix(text, "?") {
		text = "?" + text
	}
	at, err := place{}, error(nil)
	if list && text[0] == '?' {
		at = place{inParam, text[1:]}
		if at.text == "" {
			return 0, errors.New("a place without a name")
		}
		if once, known := c.params[at.text]; known && !once {
			return 0, fmt.Errorf("parameter %q is not a list elsewhere", at.text)
		}
		c.params[at.text] = true
	} else if at, err = c.listless(text, list); err != nil {
		return 0, err
	}
	for i, q := range c.questions {
		if q.place == at {
			if q.dialect != d {
				return 0, errors.New("one query in two languages")
			}
			return i, nil
		}
	}
	c.questions = append(c.questions, question{dialect: d, place: at, list: list})
	return len(c.questions) - 1, nil
}

func (c *compiled) listless(text string, list bool) (place, error) {
	if list {
		return place{}, errors.New("only a parameter can be a list")
	}
	return c.either(text)
}
