package dialect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// atRoot are keywords that no vendor takes at the root, after unions are folded.
var atRoot = []string{"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "dependentSchemas", "dependentRequired"}

// top projects the root, which is an object and nothing else everywhere (S-10).
func (p *projector) top() map[string]any {
	s := p.flat(p.doc, "", 0)
	for range maxDepth { // a branch may be a union itself
		for _, k := range []string{"anyOf", "oneOf"} {
			if list, ok := s[k]; ok && p.err == nil {
				s = p.fold(s, k, list)
			}
		}
	}
	for _, k := range atRoot {
		if _, ok := s[k]; ok {
			delete(s, k)
			p.cannot("/"+k, "is not taken at the root, and is left out")
		}
	}
	if t := types(s["type"]); t != nil && !slices.Contains(t, "object") {
		p.fail(fmt.Errorf("dialect: the arguments are no object but %s", strings.Join(t, " or ")))
	}
	if p.err != nil {
		return nil
	}
	s["type"] = "object"
	if s["properties"] == nil {
		s["properties"] = map[string]any{}
	}
	p.open[""]++
	out, n := p.schema(s, "", 1)
	p.root.also = append(p.root.also, n)
	m, ok := out.(map[string]any)
	if !ok || p.err != nil {
		return nil
	}
	if m["properties"] == nil {
		m["properties"] = map[string]any{}
	}
	if len(p.defs) > 0 {
		m["$defs"] = p.defs
	}
	return m
}

// flat returns the root without references and allOf.
func (p *projector) flat(s map[string]any, path string, depth int) map[string]any {
	s = maps.Clone(s)
	for _, k := range silent {
		delete(s, k)
	}
	if _, ok := s["$ref"]; ok {
		s = p.opened(s, path, depth)
	}
	list, ok := s["allOf"].([]any)
	if !ok || p.err != nil {
		return s
	}
	s = maps.Clone(s)
	delete(s, "allOf")
	for i, v := range list {
		at := fmt.Sprintf("%s/allOf/%d", path, i)
		m, isMap := v.(map[string]any)
		if v == true {
			continue
		}
		if !isMap || !p.spend(depth) {
			p.malformed(at)
			return s
		}
		// what the outer schema says to people stays
		got, isMap := p.mergeAny(p.flat(m, at, depth+1), s, at, depth).(map[string]any)
		if !isMap {
			p.fail(fmt.Errorf("dialect: nothing fits the schema at %q", at))
			return s
		}
		s = got
	}
	return s
}

// fold makes one object of a union of objects: the properties of all branches, of
// which those are required that every branch requires (S-10, S-11).
func (p *projector) fold(s map[string]any, k string, v any) map[string]any {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		p.malformed("/" + k)
		return s
	}
	outer := maps.Clone(s)
	delete(outer, k)
	var branches []map[string]any
	for i, v := range list {
		b, isMap := v.(map[string]any)
		at := fmt.Sprintf("/%s/%d", k, i)
		if v == true {
			b, isMap = map[string]any{}, true
		}
		if !isMap {
			continue // false is no branch
		}
		b = p.inner(p.flat(b, at, 1))
		joined, isMap := p.mergeAny(b, outer, at, 1).(map[string]any)
		if t := types(joined["type"]); isMap && (t == nil || slices.Contains(t, "object")) {
			branches = append(branches, joined)
		}
	}
	if p.err != nil {
		return s
	}
	if len(branches) == 0 {
		p.fail(fmt.Errorf("dialect: no branch of %q is an object", "/"+k))
		return s
	}
	if len(branches) == 1 && k == "anyOf" {
		return branches[0]
	}
	p.cannot("/"+k, "is not taken at the root: its branches are folded into one object")
	return p.hull(outer, k, branches)
}

// inner folds the unions of a branch, which hull could not look into.
func (p *projector) inner(b map[string]any) map[string]any {
	for _, k := range []string{"anyOf", "oneOf"} {
		if list, ok := b[k]; ok && p.spend(1) {
			b = p.fold(b, k, list)
		}
	}
	return b
}

// hull accepts what any branch accepts, as far as one object can say so.
func (p *projector) hull(outer map[string]any, k string, branches []map[string]any) map[string]any {
	out := maps.Clone(branches[0])
	props, needed, closed := map[string]any{}, []any{}, true
	var words []string
	for _, b := range branches {
		mine, _ := b["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(mine)) {
			props[name] = union(props[name], mine[name])
		}
		closed = closed && b["additionalProperties"] == false
		if needs := strings.Join(required(b), ", "); needs != "" {
			words = append(words, needs)
		}
		maps.DeleteFunc(out, func(key string, v any) bool { return !same(v, b[key]) })
	}
	for _, name := range required(branches[0]) {
		if !slices.ContainsFunc(branches, func(b map[string]any) bool { return !slices.Contains(required(b), name) }) {
			needed = append(needed, name)
		}
	}
	for _, b := range branches {
		mine, _ := b["properties"].(map[string]any)
		for name := range props {
			if _, ok := mine[name]; !ok && b["additionalProperties"] != false {
				p.lose(Narrower, "/properties/"+strictjson.Escape(name), "has the type of the branches that name it, also for the others")
			}
		}
	}
	for _, k := range []string{k, "additionalProperties", "required"} {
		delete(out, k)
	}
	if out["properties"] = props; closed {
		out["additionalProperties"] = false
	}
	if len(needed) > 0 {
		out["required"] = needed
	}
	rule := map[string]string{"anyOf": "At least one", "oneOf": "Exactly one"}[k]
	if len(words) > 1 {
		out["description"] = note(outer["description"], rule+" of these forms, by what each needs: "+strings.Join(words, "; ")+".")
	}
	return out
}

// union is a schema for a property that two branches have.
func union(a, b any) any {
	m, _ := a.(map[string]any)
	switch list, ok := m["anyOf"].([]any); {
	case a == nil || same(a, b):
		return b
	case ok && len(m) == 1:
		if slices.ContainsFunc(list, func(v any) bool { return same(v, b) }) {
			return a
		}
		return map[string]any{"anyOf": append(slices.Clone(list), b)}
	}
	return map[string]any{"anyOf": []any{a, b}}
}

func required(s map[string]any) (out []string) {
	list, _ := s["required"].([]any)
	for _, v := range list {
		out = append(out, text(v))
	}
	return out
}

func note(description any, more string) string {
	switch d := text(description); {
	case d == "":
		return more
	case more == "":
		return d
	default:
		return d + " " + more
	}
}
