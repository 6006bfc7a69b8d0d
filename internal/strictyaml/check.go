package strictyaml

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// A checker walks a document beside the Go type that it is for.
type checker struct{ errs []error }

func (c *checker) add(n *yaml.Node, path, text string) {
	if len(c.errs) < maxProblems {
		c.errs = append(c.errs, &Error{Line: n.Line, Path: path, Text: text})
	}
}

// check checks n against t, which is nil where anything goes.
func (c *checker) check(n *yaml.Node, t reflect.Type, path string, depth int) {
	if depth > MaxDepth {
		c.add(n, path, "is nested too deeply; write it flatter")
		return
	}
	if !c.plain(n, path) {
		return
	}
	for t != nil && t.Kind() == reflect.Pointer && !reads(t) {
		t = t.Elem()
	}
	if t != nil && reads(t) {
		if err := n.Load(reflect.New(t).Interface()); err != nil {
			c.errs = append(c.errs, &Error{Line: n.Line, Path: path, Text: "is not a valid " + t.String(), Err: err})
			return
		}
	}
	if t != nil && (t.Kind() == reflect.Interface || reads(t)) {
		t = nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		c.mapping(n, t, path, depth)
	case yaml.SequenceNode:
		c.sequence(n, t, path, depth)
	default:
		c.scalar(n, t, path)
	}
}

// plain refuses what the surface does not show.
func (c *checker) plain(n *yaml.Node, path string) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Alias != nil:
		c.add(n, path, "is an alias; write the value out")
	case n.Anchor != "":
		c.add(n, path, "has an anchor; remove it and write each value out")
	case n.Style&yaml.TaggedStyle != 0:
		c.add(n, path, "has a tag; remove it, types follow from the field")
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		c.add(n, path, "has no value; give one or remove the line")
	case strings.ContainsRune(n.Value, 0):
		c.add(n, path, "holds a NUL character; remove it")
	default:
		return true
	}
	return false
}

func (c *checker) mapping(n *yaml.Node, t reflect.Type, path string, depth int) {
	if t != nil && t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		c.add(n, path, "want "+want(t)+", not keys with values")
		return
	}
	var fields map[string]reflect.Type
	if t != nil && t.Kind() == reflect.Struct {
		fields = map[string]reflect.Type{}
		fieldsOf(t, fields)
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if !c.key(k, path) {
			continue
		}
		at := join(path, k.Value)
		if first, ok := lines[k.Value]; ok {
			c.add(k, at, fmt.Sprintf("occurs twice, first on line %d; keep one", first))
			continue
		}
		lines[k.Value] = k.Line
		var vt reflect.Type
		switch {
		case fields != nil:
			ft, ok := fields[k.Value]
			if !ok {
				c.add(k, at, "is not a field here; the fields are "+names(fields))
				continue
			}
			vt = ft
		case t != nil:
			vt = t.Elem()
		}
		c.check(v, vt, at, depth+1)
	}
}

// key refuses keys that are not plain text.
func (c *checker) key(k *yaml.Node, path string) bool {
	if k.Kind == yaml.ScalarNode && (k.ShortTag() == "!!merge" || k.Value == "<<") {
		c.add(k, path, "has a merge key; write the values out")
		return false
	}
	if k.Kind != yaml.ScalarNode {
		if c.plain(k, path) {
			c.add(k, path, "has a key that is a list or a mapping; want text")
		}
		return false
	}
	return c.plain(k, join(path, k.Value))
}

func (c *checker) sequence(n *yaml.Node, t reflect.Type, path string, depth int) {
	if t != nil && t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
		c.add(n, path, "want "+want(t)+", not a list")
		return
	}
	var et reflect.Type
	if t != nil {
		et = t.Elem()
	}
	for i, e := range n.Content {
		c.check(e, et, fmt.Sprintf("%s[%d]", path, i), depth+1)
	}
}

func (c *checker) scalar(n *yaml.Node, t reflect.Type, path string) {
	if t == nil {
		return
	}
	if n.Load(reflect.New(t).Interface()) != nil || !oneMeaning(n.Value, t) {
		c.add(n, path, "want "+want(t))
	}
}

// oneMeaning refuses what YAML 1.1 and 1.2 read differently: yes, 012, 1_000,
// and numbers that are none.
func oneMeaning(s string, t reflect.Type) bool {
	switch k := t.Kind(); {
	case t == reflect.TypeFor[time.Duration]():
		return true
	case k == reflect.Bool:
		return s == "true" || s == "false"
	case k >= reflect.Int && k <= reflect.Float64:
		return json.Valid([]byte(s))
	}
	return true
}

// reads reports whether a type reads itself.
func reads(t reflect.Type) bool {
	if t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[yaml.Node]() {
		return true
	}
	p := reflect.PointerTo(t)
	if t.Kind() == reflect.Pointer {
		p = t
	}
	_, ok := p.MethodByName("UnmarshalYAML")
	return ok || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fieldsOf collects the fields of a struct under the names that package yaml
// gives them.
func fieldsOf(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case f.Tag.Get("yaml") == "-" || !f.IsExported() && !f.Anonymous:
		case strings.Contains(options, "inline"):
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct {
				fieldsOf(ft, into)
			}
		case name == "":
			into[strings.ToLower(f.Name)] = f.Type
		default:
			into[name] = f.Type
		}
	}
}

func names(fields map[string]reflect.Type) string {
	var ns []string
	for n := range fields {
		ns = append(ns, n)
	}
	slices.Sort(ns)
	return strings.Join(ns, ", ")
}

// want says what a type takes.
func want(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration such as 30s"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return "a whole number in range"
	case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return "a list"
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
		return "keys with values"
	}
	return "something else"
}

// join appends a key to a path; a key that is not a plain word is quoted, and
// cut to 64 bytes.
func join(path, key string) string {
	if strings.IndexFunc(key, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' && r != '-'
	}) >= 0 || key == "" || len(key) > 64 {
		key = strconv.Quote(strings.ToValidUTF8(key[:min(len(key), 64)], ""))
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
