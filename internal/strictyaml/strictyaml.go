// Package strictyaml reads YAML that people write: manifests, policies,
// profiles. What is not understood is refused, with its line.
//
// YAML has many ways to say something other than what is seen: anchors and
// merge keys that put values where nobody looks, tags that choose types, a
// second document that one reader takes and another drops, a key written twice,
// a misspelt key that is ignored. [Decode] refuses them all. What is left is
// the part of YAML that means what JSON would mean.
//
// An error is one [*Error] per problem, joined, with the line, the path and
// what to do. It never quotes a value: a value may be a secret that was pasted
// into the wrong file.
//
// # What this package does not do
//
// It does not write YAML, and it does not know what a value means: callers
// check that and report with [At].
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	// MaxBytes is how long a text may be.
	MaxBytes = 1 << 20

	// MaxDepth is how deep values may be nested.
	MaxDepth = 32

	// maxProblems bounds how many are reported at once.
	maxProblems = 20
)

// Error is one problem with a text.
type Error struct {
	Line int    // from 1; 0 if the problem has no place
	Path string // "capabilities[2].effect"; "" is the whole
	Text string // what is wrong, and what to do

	column int // from 1, in characters; 0 if the parser did not say

	// Err is what a type said that reads itself, or nil. It may quote the
	// value, and Error does not show it.
	Err error
}

// Error returns one line: "yaml: line 3: auth.mode: ...".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("yaml: ")
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Text)
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Decode reads one YAML document into out, a pointer that is not nil. Names of
// fields come from yaml tags, as in package yaml, and match exactly.
//
// It refuses: more than [MaxBytes], invalid UTF-8, NUL characters, nesting over
// [MaxDepth], no document or a second one, anchors, aliases, merge keys, tags,
// keys that are not text, equal keys, fields that out does not have, values
// without a value (null), and values of another type. The error joins up to 20
// [*Error], in the order of the text; out is then unchanged.
func Decode(text []byte, out any) error {
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return &Error{Text: "nothing to decode into: want a pointer"}
	}
	root, err := parse(text)
	if err != nil {
		return err
	}
	c := checker{}
	c.check(root, v.Type().Elem(), "", 0)
	if c.errs != nil {
		return errors.Join(c.errs...)
	}
	fresh := reflect.New(v.Type().Elem())
	fresh.Elem().Set(v.Elem())
	if err := root.Load(fresh.Interface(), yaml.WithKnownFields(), yaml.WithUniqueKeys()); err != nil {
		return library(err, "does not fit")
	}
	v.Elem().Set(fresh.Elem())
	return nil
}

// At returns an error about the value at a path of a text that [Decode] read,
// with its line. If there is no such path, the line is that of the closest
// value around it.
func At(text []byte, path, problem string) *Error {
	e := &Error{Path: path, Text: problem}
	root, err := parse(text)
	if err != nil {
		return e
	}
	n := root
	e.Line = n.Line
	for _, step := range steps(path) {
		if n = child(n, step); n == nil {
			break
		}
		e.Line = n.Line
	}
	return e
}

// steps splits "a[2].b" into a, 2, b.
func steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

func child(n *yaml.Node, step string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	}
	return nil
}

// parse returns the root value of the only document.
func parse(text []byte) (root *yaml.Node, err error) {
	if err := bytesOnly(text); err != nil {
		return nil, err
	}
	// The parser is somebody else's, and the text is foreign: a fault in it
	// must not end the program.
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, &Error{Text: "cannot be read; write it more simply"}
		}
	}()
	l, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(2*MaxDepth))))
	if err != nil {
		return nil, library(err, "cannot be read")
	}
	var doc, second yaml.Node
	if err := l.Load(&doc); err == io.EOF || err == nil && len(doc.Content) == 0 {
		return nil, &Error{Text: "is empty: want one document"}
	} else if err != nil {
		return nil, library(err, "is not YAML: check indentation, quotes and colons")
	}
	switch err := l.Load(&second); {
	case err == nil:
		return nil, &Error{Line: second.Line, Text: "a second document begins here; want one, in a file of its own"}
	case err != io.EOF:
		return nil, library(err, "is not YAML: check indentation, quotes and colons")
	}
	return doc.Content[0], nil
}

// bytesOnly refuses what is no text at all, and line ends that only a YAML
// parser sees: they would hide a field in what looks like a comment, and no
// line number would be right behind them.
func bytesOnly(text []byte) error {
	if len(text) > MaxBytes {
		return &Error{Text: fmt.Sprintf("is longer than %d bytes; split it", MaxBytes)}
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		what := ""
		switch {
		case r == utf8.RuneError && size == 1:
			what = "is not UTF-8; save it as UTF-8"
		case r == 0:
			what = "holds a NUL character; remove it"
		case r == '\r' && !bytes.HasPrefix(text[i:], []byte("\r\n")):
			what = "holds a carriage return without a line feed; end lines with a line feed"
		case r == 0x85 || r == 0x2028 || r == 0x2029:
			what = fmt.Sprintf("holds U+%04X, which ends a line for YAML and not on the screen; remove it", r)
		}
		if what != "" {
			return &Error{Line: 1 + bytes.Count(text[:i], []byte("\n")), Text: what}
		}
		i += size
	}
	return nil
}

// library turns an error of package yaml into ours. Its text can quote values,
// so only the place is kept.
func library(err error, text string) *Error {
	e := &Error{Text: text}
	if le, ok := errors.AsType[*yaml.LoadErrors](err); ok && len(le.Errors) > 0 {
		err = le.Errors[0]
	}
	if le, ok := errors.AsType[*yaml.LoadError](err); ok {
		e.Line, e.column = le.Mark.Line, le.Mark.Column
		if strings.Contains(le.Message, "depth") {
			e.Text = "is nested too deeply; write it flatter"
		}
	}
	return e
}
