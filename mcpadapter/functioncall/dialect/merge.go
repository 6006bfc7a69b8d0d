package dialect

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// merge returns a schema that accepts what both a and b accept. What has no common
// form is left out of b, which is a loss; in strict mode it is the end. Words for
// people are b's, which stand nearer to where they are used.
func (p *projector) merge(a, b map[string]any, path string, depth int) any {
	if !p.spend(depth) {
		return nil
	}
	if a["$ref"] != nil || b["$ref"] != nil {
		if a = p.opened(a, path, depth); b["$ref"] != nil {
			b = p.opened(b, path, depth)
		}
		if p.err != nil {
			return nil
		}
	}
	out := maps.Clone(a)
	b = p.apart(out, b, path)
	b = p.mergeObjects(out, a, b, path, depth)
	if _, ok := a["prefixItems"]; ok && b["items"] != nil || b["prefixItems"] != nil && a["items"] != nil {
		b = p.without(b, path, "items", "prefixItems")
	}
	if a["if"] != nil && b["if"] != nil {
		b = p.without(b, path, "if", "then", "else")
	}
	for _, k := range slices.Sorted(maps.Keys(b)) {
		v, ok := mergeKeyword(k, out[k], b[k])
		if _, had := out[k]; !had {
			v, ok = b[k], true
		} else if k == "items" {
			v, ok = p.mergeAny(out[k], b[k], path+"/items", depth), true
		}
		if !ok {
			p.cannot(path+"/"+k, "cannot be joined with another of its kind, and is left out")
			continue
		}
		if k == "type" && v == nil {
			return false
		}
		out[k] = v
	}
	return out
}

// apart takes away what would mean something else beside the other schema's
// keywords, from out as well. It returns what is left of b.
func (p *projector) apart(out, b map[string]any, path string) map[string]any {
	b = maps.Clone(b)
	for _, dead := range []struct{ of, words string }{{"contains", "minContains"}, {"contains", "maxContains"}, {"if", "then"}, {"if", "else"}} {
		for _, m := range []map[string]any{out, b} {
			if _, ok := m[dead.of]; !ok {
				delete(m, dead.words) // it says nothing alone
			}
		}
	}
	if len(b) > 0 && len(out) > 0 {
		p.drop(out, path, "unevaluatedProperties", "unevaluatedItems")
		p.drop(b, path, "unevaluatedProperties", "unevaluatedItems")
	}
	if out["contains"] != nil && b["contains"] != nil {
		p.drop(b, path, "contains", "minContains", "maxContains")
	}
	return b
}

func (p *projector) drop(m map[string]any, path string, keys ...string) {
	for _, k := range keys {
		if _, ok := m[k]; ok {
			delete(m, k)
			p.cannot(path+"/"+k, "cannot be joined with another of its kind, and is left out")
		}
	}
}

func (p *projector) mergeAny(a, b any, path string, depth int) any {
	ma, oka := a.(map[string]any)
	mb, okb := b.(map[string]any)
	switch {
	case a == false || b == false:
		return false
	case !oka:
		return b
	case !okb:
		return a
	}
	return p.merge(ma, mb, path, depth+1)
}

// opened writes the reference of a schema out once.
func (p *projector) opened(s map[string]any, path string, depth int) map[string]any {
	ref, ok := s["$ref"].(string)
	if !ok {
		return s
	}
	target, pointer := p.lookup(ref, path)
	if p.err != nil || !p.spend(depth) {
		return map[string]any{}
	}
	rest := maps.Clone(s)
	delete(rest, "$ref")
	if depth > 1 && p.recursive(pointer) {
		p.cannot(path+"/$ref", "is recursive and joined with other constraints, and is left out")
		return rest
	}
	m, ok := p.mergeAny(target, rest, path, depth).(map[string]any)
	if !ok {
		m = map[string]any{"not": map[string]any{}}
	}
	return m
}

func (p *projector) without(b map[string]any, path string, keys ...string) map[string]any {
	b = maps.Clone(b)
	p.drop(b, path, keys...)
	return b
}

// mergeObjects joins properties and what is said about all others, into out. It
// returns b without them.
func (p *projector) mergeObjects(out, a, b map[string]any, path string, depth int) map[string]any {
	names := []string{"properties", "additionalProperties", "patternProperties"}
	has := func(m map[string]any) bool {
		return slices.ContainsFunc(names, func(k string) bool { return m[k] != nil })
	}
	if !has(a) || !has(b) {
		return b
	}
	if a["patternProperties"] != nil || b["patternProperties"] != nil {
		return p.without(b, path, names...)
	}
	pa, _ := a["properties"].(map[string]any)
	pb, _ := b["properties"].(map[string]any)
	props := map[string]any{}
	for name := range pa {
		props[name] = p.mergeAny(pa[name], other(b, pb, name), path+"/properties/"+strictjson.Escape(name), depth)
	}
	for name := range pb {
		if _, done := props[name]; !done {
			props[name] = p.mergeAny(pb[name], other(a, pa, name), path+"/properties/"+strictjson.Escape(name), depth)
		}
	}
	b = maps.Clone(b)
	rest := p.mergeAny(orTrue(a["additionalProperties"]), orTrue(b["additionalProperties"]), path+"/additionalProperties", depth)
	for _, k := range names {
		delete(b, k)
	}
	if len(props) > 0 {
		out["properties"] = props
	}
	if rest != true {
		out["additionalProperties"] = rest
	}
	return b
}

// other is what a schema says about a property.
func other(s, props map[string]any, name string) any {
	if v, ok := props[name]; ok {
		return v
	}
	return orTrue(s["additionalProperties"])
}

func orTrue(v any) any {
	if v == nil {
		return true
	}
	return v
}

// mergeKeyword joins two values of a keyword; false if they have no common form.
func mergeKeyword(k string, a, b any) (any, bool) {
	if same(a, b) {
		return a, true
	}
	switch k {
	case "description", "title", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment":
		return b, true
	case "type":
		return mergeTypes(types(a), types(b)), true
	case "required":
		la, _ := a.([]any)
		lb, _ := b.([]any)
		out := slices.Clone(la)
		for _, v := range lb {
			if !slices.Contains(la, v) {
				out = append(out, v)
			}
		}
		return out, true
	case "enum":
		la, _ := a.([]any)
		lb, _ := b.([]any)
		out := []any{}
		for _, v := range la {
			if slices.ContainsFunc(lb, func(w any) bool { return same(v, w) }) {
				out = append(out, v)
			}
		}
		return out, len(out) > 0
	case "uniqueItems":
		return true, true
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		return extreme(a, b, 1)
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		return extreme(a, b, -1)
	}
	return nil, false
}

func extreme(a, b any, sign int) (any, bool) {
	ra, oka := number(a)
	rb, okb := number(b)
	if !oka || !okb {
		return nil, false
	}
	if ra.Cmp(rb)*sign >= 0 {
		return a, true
	}
	return b, true
}

// number reads a number without rounding. An exponent that would take much memory
// is none.
func number(v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	if f, err := n.Float64(); err != nil || f > 1e300 || f < -1e300 || len(n) > 400 || f != 0 && f < 1e-300 && f > -1e-300 {
		return nil, false
	}
	return new(big.Rat).SetString(string(n))
}

func same(a, b any) bool {
	ta, erra := json.Marshal(a)
	tb, errb := json.Marshal(b)
	return erra == nil && errb == nil && string(ta) == string(tb)
}

// types returns the types that a keyword names; nil: every one.
func types(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, t := range v {
			if s := text(t); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

func mergeTypes(a, b []string) any {
	var out []any
	for _, t := range a {
		switch {
		case t == "integer" && slices.Contains(a, "number") && slices.Contains(b, "integer"): // comes with number
		case slices.Contains(b, t), t == "integer" && slices.Contains(b, "number"):
			out = append(out, t)
		case t == "number" && slices.Contains(b, "integer"):
			out = append(out, "integer")
		}
	}
	switch len(out) {
	case 0:
		return nil
	case 1:
		return out[0]
	}
	return out
}
