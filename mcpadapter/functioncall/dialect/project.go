package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// A Projection is a schema as a vendor takes it, and the way back. It is
// immutable and safe for concurrent use.
type Projection struct {
	Schema map[string]any // its root is an object with properties, never nil
	Losses []Loss

	root *node
	undo bool
}

// ErrNotStrict says that a schema has no form in a dialect whose objects are all
// closed and required. The dialect without that may have one.
var ErrNotStrict = errors.New("dialect: no strict form")

const (
	maxDepth = 64
	maxNodes = 20_000

	// MaxUnfold is how often a recursive reference is written out where the vendor
	// follows none.
	MaxUnfold = 3
)

// Project rewrites the schema of the arguments of one tool. The error is for this
// tool alone: the schema is not one, leads out of itself, has no objects, is too
// big, or ErrNotStrict with the reason. Nothing of it is cached.
func (r *Rules) Project(tool string, schema json.RawMessage) (*Projection, error) {
	dec := json.NewDecoder(bytes.NewReader(schema))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil || dec.More() || doc == nil {
		return nil, errors.New("dialect: the schema is not a JSON object; a tool without arguments says so with {\"type\":\"object\"}")
	}
	p := &projector{rules: r, tool: tool, doc: doc, defs: map[string]any{}, defNodes: map[string]*node{}, open: map[string]int{}, circles: map[string]bool{}, lost: map[Loss]bool{}, root: &node{}}
	if err := p.name(); err != nil {
		return nil, err
	}
	out := p.top()
	if p.err == nil {
		p.bounds()
	}
	if p.err != nil {
		return nil, p.err
	}
	return &Projection{Schema: out, Losses: p.losses, root: p.root, undo: p.undo}, nil
}

// projector is one projection under way. The first error ends it.
type projector struct {
	rules  *Rules
	tool   string
	doc    map[string]any
	losses []Loss
	err    error

	names    map[string]string // of properties, where they are replaced
	defs     map[string]any    // recursive definitions that stay
	defNodes map[string]*node
	open     map[string]int  // how often a recursive reference is being written out
	circles  map[string]bool // which references are recursive
	lost     map[Loss]bool
	root     *node

	nodes, properties, enums, chars int
	branches                        int // unions of objects that are being read
	undo                            bool
}

func (p *projector) lose(kind Kind, path, format string, args ...any) {
	l := Loss{p.tool, path, fmt.Sprintf(format, args...), kind}
	if !p.lost[l] {
		p.lost[l] = true
		p.losses = append(p.losses, l)
	}
}

func (p *projector) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *projector) malformed(path string) {
	p.fail(fmt.Errorf("dialect: the schema is not one at %q", path))
}

func (p *projector) notStrict(path, why string) {
	p.fail(fmt.Errorf("%w: at %q: %s", ErrNotStrict, path, why))
}

// cannot is what happens to a constraint that has no form: strict mode is for
// schemas that are said whole, elsewhere it is a loss.
func (p *projector) cannot(path, what string) {
	if p.rules.AllRequired {
		p.notStrict(path, what)
		return
	}
	p.lose(Wider, path, "%s", what)
}

// spend counts one subschema.
func (p *projector) spend(depth int) bool {
	if p.nodes++; p.nodes > maxNodes || depth > maxDepth {
		p.fail(errBounds)
	}
	return p.err == nil
}

func (p *projector) bounds() {
	r := p.rules
	over := func(n, most int) bool { return most > 0 && n > most }
	switch {
	case over(p.properties, r.MaxProperties):
		p.notStrict("", fmt.Sprintf("it has over %d properties", r.MaxProperties))
	case over(p.enums, r.MaxEnum):
		p.notStrict("", fmt.Sprintf("it has over %d enum values", r.MaxEnum))
	case over(p.chars, r.MaxChars):
		p.notStrict("", fmt.Sprintf("its names and enum values have over %d characters", r.MaxChars))
	}
}

// name finds a name for every property anywhere in the schema, so that one name
// is replaced by the same one everywhere.
func (p *projector) name() (err error) {
	if p.rules.Key.Max == 0 {
		return nil
	}
	found := map[string]bool{}
	collect(p.doc, found, 0)
	p.names, err = replaceAll(p.rules.Key, slices.Sorted(maps.Keys(found)))
	return err
}

// collect finds the names of properties. It looks at data as well, where it may
// find some that are none: a name more is replaced, and nobody uses it.
func collect(v any, found map[string]bool, depth int) {
	switch v := v.(type) {
	case map[string]any:
		for k, sub := range v {
			if named, ok := sub.(map[string]any); ok && (k == "properties" || k == "dependentSchemas" || k == "dependentRequired") {
				for name := range named {
					found[name] = true
				}
			}
			if list, ok := sub.([]any); ok && k == "required" {
				for _, name := range list {
					if s, ok := name.(string); ok {
						found[s] = true
					}
				}
			}
			if depth < 2*maxDepth {
				collect(sub, found, depth+1)
			}
		}
	case []any:
		for _, sub := range v {
			if depth < 2*maxDepth {
				collect(sub, found, depth+1)
			}
		}
	}
}

func (p *projector) key(s string) string {
	name, ok := p.names[s]
	if !ok {
		return s
	}
	p.undo = p.undo || name != s
	return name
}

// schema projects one subschema.
func (p *projector) schema(v any, path string, depth int) (any, *node) {
	if !p.spend(depth) {
		return nil, &node{}
	}
	s, ok := v.(map[string]any)
	if _, isBool := v.(bool); !ok && !isBool {
		p.malformed(path)
		return nil, &node{}
	}
	if !ok && p.rules.Keywords == nil {
		return v, &node{}
	}
	if ref, ok := s["$ref"]; ok {
		return p.reference(s, text(ref), path, depth)
	}
	if _, ok := s["$dynamicRef"]; ok {
		p.fail(fmt.Errorf("dialect: a dynamic reference at %q cannot be followed", path))
	}
	if p.rules.Keywords == nil {
		return p.loose(s, path, depth)
	}
	if !ok {
		s = map[string]any{}
		if v == false {
			s["not"] = map[string]any{}
		}
	}
	return p.tight(s, path, depth)
}

// silent are keywords that say nothing to a model.
var silent = []string{"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$vocabulary", "$comment", "$defs", "definitions"}

// loose keeps every keyword, and rewrites names and references in them.
func (p *projector) loose(s map[string]any, path string, depth int) (any, *node) {
	out, n := map[string]any{}, &node{}
	for _, k := range slices.Sorted(maps.Keys(s)) {
		at, v := path+"/"+strictjson.Escape(k), s[k]
		switch k {
		case "properties", "dependentSchemas", "patternProperties":
			out[k] = p.named(n, k, v, at, depth)
		case "anyOf", "oneOf", "allOf", "prefixItems":
			out[k] = p.listed(n, k, v, at, depth)
		case "items", "additionalItems":
			if list, ok := v.([]any); ok { // before 2020-12
				k, v = "prefixItems", list
				out[k] = p.listed(n, k, v, at, depth)
				continue
			}
			sub, child := p.schema(v, at, depth+1)
			out["items"], n.items = sub, orNode(n.items, child)
		case "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "unevaluatedProperties", "unevaluatedItems":
			sub, child := p.schema(v, at, depth+1)
			out[k] = sub
			n.sub(k, child)
		case "required":
			out[k] = p.renamed(n, v, at)
		case "dependentRequired":
			out[k] = p.dependent(n, v, at)
		default:
			if !slices.Contains(silent, k) {
				out[k] = v
			}
		}
	}
	p.afterRenaming(s, out, path)
	// Some endpoints refuse the short forms (S-07); these say the same.
	if t := types(out["type"]); slices.Contains(t, "object") && out["properties"] == nil {
		out["properties"] = map[string]any{}
	} else if slices.Contains(t, "array") && out["items"] == nil {
		out["items"] = map[string]any{}
	}
	return out, n
}

// afterRenaming takes away what would judge the new names of properties. In an
// object that takes other names, the old one is one of those, and nothing judges
// it until it is back.
func (p *projector) afterRenaming(s, out map[string]any, path string) {
	names := p.replaced(s)
	if len(names) == 0 {
		return
	}
	for _, k := range []string{"propertyNames", "patternProperties"} {
		if _, ok := out[k]; ok {
			delete(out, k)
			p.lose(Wider, path+"/"+k, "judges names of properties that are replaced for this vendor, and is left out")
		}
	}
	if out["additionalProperties"] == false && s["patternProperties"] != nil {
		delete(out, "additionalProperties")
		p.lose(Wider, path+"/additionalProperties", "is left out with patternProperties")
	}
	if out["additionalProperties"] != false {
		p.lose(Wider, path, "takes other names, among them %q, which is called otherwise for this vendor", names[0])
	}
}

// replaced returns the names that one object's keywords have and the vendor does
// not take, sorted.
func (p *projector) replaced(s map[string]any) (out []string) {
	found := required(s)
	for _, k := range []string{"properties", "dependentRequired", "dependentSchemas"} {
		m, _ := s[k].(map[string]any)
		found = slices.AppendSeq(found, maps.Keys(m))
	}
	for _, name := range found {
		if p.names != nil && p.names[name] != name {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (p *projector) named(n *node, k string, v any, path string, depth int) any {
	m, ok := v.(map[string]any)
	if !ok {
		p.malformed(path)
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		sub, child := p.schema(m[name], path+"/"+strictjson.Escape(name), depth+1)
		switch k {
		case "properties":
			key := p.key(name)
			out[key] = sub
			n.prop(key, &field{name, child, false})
		case "dependentSchemas":
			out[p.key(name)] = sub
			n.also = append(n.also, child)
		default:
			out[name] = sub
			n.rest = orNode(n.rest, child)
		}
	}
	return out
}

func (p *projector) listed(n *node, k string, v any, path string, depth int) any {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		p.malformed(path)
	}
	out := make([]any, len(list))
	for i := range list {
		sub, child := p.schema(list[i], fmt.Sprintf("%s/%d", path, i), depth+1)
		out[i] = sub
		if k == "prefixItems" {
			n.items = orNode(n.items, child)
		} else {
			n.also = append(n.also, child)
		}
	}
	return out
}

// renamed writes a list of names. One that no property is declared for is put back
// all the same.
func (p *projector) renamed(n *node, v any, path string) any {
	list, ok := v.([]any)
	if !ok {
		p.malformed(path)
	}
	out := make([]any, len(list))
	for i := range list {
		if _, ok := list[i].(string); !ok {
			p.malformed(path)
		}
		name := text(list[i])
		key := p.key(name)
		if n.props[key] == nil {
			n.prop(key, &field{name: name})
		}
		out[i] = key
	}
	return out
}

func (p *projector) dependent(n *node, v any, path string) any {
	m, ok := v.(map[string]any)
	if !ok {
		p.malformed(path)
	}
	out := map[string]any{}
	for name, list := range m {
		out[p.key(name)] = p.renamed(n, list, path)
		p.renamed(n, []any{name}, path)
	}
	return out
}

// count adds a name or a value of an enum to what strict modes bound.
func (p *projector) count(s string) { p.chars += utf8.RuneCountInString(s) }

func text(v any) string {
	s, _ := v.(string)
	return s
}
