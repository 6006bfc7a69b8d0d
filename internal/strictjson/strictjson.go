// Package strictjson reads JSON that every reader reads the same way.
//
// encoding/json takes the last of two equal names, matches names without
// regard to case and replaces invalid UTF-8. Whoever checks a text with one
// reader and hands it to another has then checked something else. [Parse]
// refuses such texts; [Canonical] writes RFC 8785 form for digests, and refuses
// integers that it would round.
//
// It does not validate against a schema (internal/schema does).
package strictjson

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// MaxDepth is how deep values may be nested.
const MaxDepth = 64

// An Error says what is wrong with a text, and where.
type Error struct {
	Pointer string // JSON Pointer (RFC 6901) of the value; "" is the whole
	Text    string // a constant of this package, never a part of the text
}

// Error returns one line.
func (e *Error) Error() string {
	if e.Pointer == "" {
		return "json: " + e.Text
	}
	return "json: " + e.Pointer + ": " + e.Text
}

// Parse reads one JSON value: map[string]any, []any, string, [json.Number],
// bool or nil. It refuses invalid UTF-8, NUL characters, names of one object
// that are equal or differ only in case, nesting over [MaxDepth], and anything
// after the value. The error is an [*Error].
func Parse(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, &Error{"", "is not UTF-8"}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := value(d, nil)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, &Error{"", "goes on after its value"}
	}
	return v, nil
}

// path is a linked list, so that the common case allocates no pointer text.
type path struct {
	up    *path
	step  string
	depth int
}

func (p *path) child(step string) *path {
	if p == nil {
		return &path{nil, step, 1}
	}
	return &path{p, step, p.depth + 1}
}

func (p *path) String() string {
	if p == nil {
		return ""
	}
	return p.up.String() + "/" + Escape(p.step)
}

func value(d *json.Decoder, at *path) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, &Error{at.String(), "is not JSON"}
	}
	if at != nil && at.depth > MaxDepth {
		return nil, &Error{"", "is nested too deeply"}
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return object(d, at)
		}
		return list(d, at)
	case string:
		if strings.ContainsRune(t, 0) {
			return nil, &Error{at.String(), "holds a NUL character"}
		}
	}
	return t, nil
}

func object(d *json.Decoder, at *path) (any, error) {
	m := map[string]any{}
	var folded map[string]bool
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, &Error{at.String(), "is not JSON"}
		}
		if folded == nil {
			folded = map[string]bool{}
		}
		f := strings.ToLower(strings.ToUpper(name))
		if folded[f] {
			return nil, &Error{at.String(), "has a name twice, or twice but for case"}
		}
		if strings.ContainsRune(name, 0) {
			return nil, &Error{at.String(), "has a name with a NUL character"}
		}
		folded[f] = true
		if m[name], err = value(d, at.child(name)); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, &Error{at.String(), "is not JSON"}
	}
	return m, nil
}

func list(d *json.Decoder, at *path) (any, error) {
	l := []any{}
	for d.More() {
		v, err := value(d, at.child(strconv.Itoa(len(l))))
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	if _, err := d.Token(); err != nil {
		return nil, &Error{at.String(), "is not JSON"}
	}
	return l, nil
}

// Canonical returns the RFC 8785 form of a text that [Parse] accepts. It
// refuses whole numbers beyond 2^53 and numbers that a double cannot hold: the
// form would print two different ones alike, and a digest would bind neither.
func Canonical(text []byte) ([]byte, error) {
	v, err := Parse(text)
	if err != nil {
		return nil, err
	}
	if err := exact(v, nil); err != nil {
		return nil, err
	}
	out, err := jcs.Transform(text)
	if err != nil {
		// jcs takes objects and arrays only; the other values are canonical
		// once encoding/json has written them, but for numbers.
		return scalar(v)
	}
	return out, nil
}

func scalar(v any) ([]byte, error) {
	wrapped, err := json.Marshal([]any{v})
	if err != nil {
		return nil, err
	}
	out, err := jcs.Transform(wrapped)
	if err != nil {
		return nil, &Error{"", "has no canonical form"}
	}
	return out[1 : len(out)-1], nil
}

// exact refuses numbers that lose digits as doubles.
func exact(v any, at *path) error {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if err := exact(e, at.child(k)); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range v {
			if err := exact(e, at.child(strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case json.Number:
		if !Exact(v) {
			return &Error{at.String(), "is a number beyond 2^53; send it as a string"}
		}
	}
	return nil
}

// Exact reports whether a double holds the number: a whole number up to 2^53,
// or a fraction that is finite.
func Exact(n json.Number) bool {
	f, err := n.Float64()
	if err != nil {
		return false
	}
	if f < 1<<53 && f > -(1<<53) {
		return true
	}
	r, ok := new(big.Rat).SetString(n.String())
	return ok && len(n.String()) < 400 && r.IsInt() && new(big.Rat).SetFloat64(f).Cmp(r) == 0 && (f == 1<<53 || f == -(1<<53))
}

// Digest returns "sha256:..." of the texts, each with its length before it, so
// that no two lists of texts have the same bytes.
func Digest(texts ...string) string {
	var room [512]byte // what most calls need, on the stack
	b := room[:0]
	for _, t := range texts {
		b = strconv.AppendInt(b, int64(len(t)), 10)
		b = append(b, ':')
		b = append(b, t...)
	}
	sum := sha256.Sum256(b)
	out := make([]byte, 0, len("sha256:")+2*len(sum))
	return string(hex.AppendEncode(append(out, "sha256:"...), sum[:]))
}

// Lookup returns the value at a JSON Pointer, and false if there is none or the
// pointer is not one.
func Lookup(v any, pointer string) (any, bool) {
	if pointer == "" {
		return v, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for step := range strings.SplitSeq(pointer[1:], "/") {
		step = unescape.Replace(step)
		switch at := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = at[step]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) || strconv.Itoa(i) != step {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

var (
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
)

// Escape returns one step of a JSON Pointer (RFC 6901, section 3).
func Escape(step string) string { return escape.Replace(step) }

// ErrPointer is what callers that need a well-formed pointer return.
var ErrPointer = errors.New("json: want a JSON Pointer: empty, or steps that each begin with a slash")
