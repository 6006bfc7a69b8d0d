// Package schema makes, checks and applies the JSON Schemas (2020-12) of
// capabilities.
//
// # From types to schemas
//
// [Input] and [Output] go from a Go type to a schema by the rules of
// encoding/json, and then ask encoding/json whether it agrees: a member that
// only one of the two knows would be checked by nobody. What a type does not
// say (bounds, units, enums, defaults) comes from an overlay, which can narrow
// and never widen what the decoder takes. [Parse] reads a schema that was
// written by hand.
//
// Whatever its origin, a schema passes the same checks: only keywords of
// 2020-12 that are enforced, no references that lead out or round in a circle,
// no formats that nobody checks, no defaults and enum values that do not fit.
// The schema of an input is moreover closed at every depth, has portable names
// and asks a model for business data only (see [Business]).
//
// # Arguments
//
// [Schema.Prepare] is the only way from foreign bytes to arguments:
//
//	args, err := s.Prepare(raw) // strict, valid, with defaults, canonical
//	err = schema.Decode(args, &in)
//
// Its result is in RFC 8785 form, so that equal arguments have equal digests,
// and preparing it again changes nothing.
//
// # What this package does not do
//
// It fetches nothing. It does not support unevaluatedProperties,
// unevaluatedItems, anchors and dynamic references: they are refused. Patterns
// are RE2.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Schema is a checked JSON Schema. It is immutable and safe for concurrent use.
// The zero Schema and nil refuse everything.
type Schema struct {
	text, model json.RawMessage
	root        *node
}

// Options say what a Go type cannot. Nil is the zero Options.
type Options struct {
	// Overlay is merged (RFC 7396) over the schema that follows from the type.
	// It may narrow, describe, and give defaults; a property with a default
	// need not be sent. It may raise the bounds that every string (4096),
	// array (1000) and map (100) of an input has, to 1 Mi, 100 000 and 10 000.
	Overlay json.RawMessage

	// Page, if over 0, makes the input that of a listing: it adds page_size
	// (1 to Page, default Page) and cursor (up to 4096 characters), which are
	// not decoded into the type (see [Listing]).
	Page int
}

// Error is what is wrong with a schema or a type.
type Error struct {
	Where string // the Go name of a field, or a JSON Pointer into the schema or the arguments; "" is the whole
	Text  string // what is wrong, and what to do
}

// Error returns one line.
func (e *Error) Error() string {
	if e.Where == "" {
		return "schema: " + e.Text
	}
	return "schema: " + e.Where + ": " + e.Text
}

// Input returns the schema of arguments that are decoded into t, a struct. The
// error is an [*Error].
func Input(t reflect.Type, opts *Options) (*Schema, error) {
	if opts == nil {
		opts = &Options{}
	}
	if t == nil || t.Kind() != reflect.Struct || readsItself(t) {
		return nil, &Error{"", "want a struct for arguments, with a field for each"}
	}
	return keep(made{t, string(opts.Overlay), opts.Page, true}, func() (*Schema, error) { return inferInput(t, opts) })
}

func inferInput(t reflect.Type, opts *Options) (*Schema, error) {
	in := inference{input: true}
	base, err := in.infer(t, t.Name())
	if err != nil {
		return nil, err
	}
	if err := addPage(base, opts.Page); err != nil {
		return nil, err
	}
	merged, err := overlaid(base, opts.Overlay, true)
	if err != nil {
		return nil, err
	}
	if merged, err = inline(merged); err != nil {
		return nil, err
	}
	return build(merged, true)
}

func addPage(base object, page int) error {
	if page <= 0 {
		return nil
	}
	props := base["properties"].(object)
	for _, name := range []string{"page_size", "cursor"} {
		if _, ok := props[name]; ok {
			return &Error{"/" + name, "is added to every listing; remove the field"}
		}
	}
	props["page_size"] = object{"type": "integer", "minimum": number(1), "maximum": number(int64(page)), "default": number(int64(page)), "description": "the most items to return"}
	props["cursor"] = object{"type": "string", "maxLength": number(defaultMaxLength), "description": "next_cursor of the page before, unchanged; leave it out for the first page"}
	return nil
}

// Output returns the schema of what encoding/json writes for t, of any type but
// a time.Duration, a function or a channel.
func Output(t reflect.Type, opts *Options) (*Schema, error) {
	if opts == nil {
		opts = &Options{}
	}
	if t == nil {
		return nil, &Error{"", "want a type"}
	}
	return keep(made{t, string(opts.Overlay), 0, false}, func() (*Schema, error) { return inferOutput(t, opts) })
}

func inferOutput(t reflect.Type, opts *Options) (*Schema, error) {
	base, err := (&inference{}).infer(t, t.String())
	if err != nil {
		return nil, err
	}
	merged, err := overlaid(base, opts.Overlay, false)
	if err != nil {
		return nil, err
	}
	if merged, err = inline(merged); err != nil {
		return nil, err
	}
	return build(merged, false)
}

// Parse reads a schema that was written by hand. That of an input is held to
// the rules for inputs, but for the bounds on strings and arrays.
func Parse(raw json.RawMessage, input bool) (*Schema, error) {
	if len(raw) > maxBytes {
		return nil, &Error{"", "is longer than 1 MiB"}
	}
	return keep(made{nil, string(raw), 0, input}, func() (*Schema, error) { return parseText(raw, input) })
}

func parseText(raw json.RawMessage, input bool) (*Schema, error) {
	root, err := parseObject(raw)
	if err != nil {
		return nil, &Error{"", "is not a schema: " + err.Error()}
	}
	if root, err = inline(root); err != nil {
		return nil, err
	}
	return build(root, input)
}

// build checks and compiles.
func build(root object, input bool) (*Schema, error) {
	if input {
		if root["type"] != "object" {
			return nil, &Error{"", `want "type": "object" at the root of arguments`}
		}
		if err := businessOnly(root, ""); err != nil {
			return nil, err
		}
	}
	n, err := compile(root, input)
	if err != nil {
		return nil, err
	}
	s := &Schema{root: n}
	if s.text, err = canonical(root); err != nil {
		return nil, err
	}
	s.model, err = canonical(withoutBusiness(root))
	return s, err
}

func canonical(v any) (json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, &Error{"", "cannot be written as JSON"}
	}
	out, err := strictjson.Canonical(text)
	if e, ok := errors.AsType[*strictjson.Error](err); ok {
		return nil, &Error{e.Pointer, e.Text}
	}
	return out, err
}

// JSON returns the whole schema in RFC 8785 form, without references and
// $schema. It is the contract: with the annotations of [Business], so that
// Parse takes it again. The caller owns it.
func (s *Schema) JSON() json.RawMessage { return append(json.RawMessage(nil), s.text...) }

// Model returns the schema as a model should see it. The caller owns it.
func (s *Schema) Model() json.RawMessage { return append(json.RawMessage(nil), s.model...) }

// Prepare reads arguments strictly, puts in the defaults, checks the whole, and
// returns it in RFC 8785 form. Nil is {}. The error is a [*toolresult.Error]
// with INVALID_INPUT and up to 10 problems, sorted by pointer; each says what would be right, and quotes nothing of the
// arguments but names, of which at most 64 bytes.
func (s *Schema) Prepare(args json.RawMessage) (json.RawMessage, error) {
	if s == nil || s.root == nil {
		return nil, invalid(problem("", "there is no schema for these arguments"))
	}
	if args == nil {
		args = json.RawMessage("{}")
	}
	if len(args) > maxBytes {
		return nil, invalid(problem("", fmt.Sprintf("want at most %d bytes", maxBytes)))
	}
	v, p := parse(string(args), true)
	if p != nil {
		return nil, invalid(*p)
	}
	s.root.fill(&v)
	if ps := s.root.problems(&v); ps != nil {
		return nil, invalid(ps...)
	}
	return appendCanonical(make([]byte, 0, len(args)+64), &v), nil
}

// fill puts in the defaults of absent members, at every depth that is present.
func (n *node) fill(v *value) {
	switch {
	case !n.fills:
	case v.kind == kindArray:
		for i := range v.kids {
			if i < len(n.prefix) {
				n.prefix[i].fill(&v.kids[i])
			} else if n.items != nil {
				n.items.fill(&v.kids[i])
			}
		}
	case v.kind == kindObject:
		n.fillObject(v)
	}
}

func (n *node) fillObject(v *value) {
	for _, name := range n.names {
		p := n.props[name]
		if p.def != nil && member(v, name) == nil {
			d := p.def.clone()
			d.name = name
			v.kids = append(v.kids, d)
		}
	}
	for i := range v.kids {
		if p := n.props[v.kids[i].name]; p != nil {
			p.fill(&v.kids[i])
		} else if n.rest != nil {
			n.rest.fill(&v.kids[i])
		}
	}
}

// filler reports whether there is a default below n.
func (n *node) filler() bool {
	below := func(m *node) bool { return m != nil && m.fills }
	if below(n.items) || below(n.rest) {
		return true
	}
	for _, p := range n.prefix {
		if below(p) {
			return true
		}
	}
	for _, p := range n.props {
		if below(p) {
			return true
		}
	}
	return false
}

// clone is deep, since writing sorts members.
func (v *value) clone() value {
	c := *v
	c.kids = make([]value, len(v.kids))
	for i := range v.kids {
		c.kids[i] = v.kids[i].clone()
	}
	return c
}

// Check checks a value that is about to be emitted. The error is a
// [*toolresult.Error] with CONTRACT_VIOLATION; nothing of the value is quoted.
func (s *Schema) Check(data json.RawMessage) error {
	if s == nil || s.root == nil {
		return violation(problem("", "there is no schema for this answer"))
	}
	v, p := parse(string(data), false)
	if p != nil {
		return violation(*p)
	}
	r := report{ours: true}
	s.root.check(&v, &r)
	if r.failed {
		return violation(r.problems...)
	}
	return nil
}

func invalid(ps ...Problem) *toolresult.Error {
	e := toolresult.NewError(toolresult.InvalidInput, "the arguments do not fit the capability's schema")
	e.Problems = ps
	return e
}

func violation(ps ...Problem) *toolresult.Error {
	e := toolresult.NewError(toolresult.ContractViolation, "the answer does not fit the capability's schema")
	e.Problems = ps
	return e
}

// Listing takes page_size and cursor out of arguments that a schema with
// [Options].Page has prepared. What is left is for [Decode].
func Listing(args json.RawMessage) (rest json.RawMessage, size int, cursor string, err error) {
	v, p := parse(string(args), true)
	if p != nil || v.kind != kindObject {
		return nil, 0, "", invalid(problem("", notJSON))
	}
	kept := v.kids[:0]
	for _, m := range v.kids {
		switch m.name {
		case "page_size":
			size = int(m.num)
		case "cursor":
			cursor = m.text
		default:
			kept = append(kept, m)
		}
	}
	v.kids = kept
	return appendCanonical(nil, &v), size, cursor, nil
}
