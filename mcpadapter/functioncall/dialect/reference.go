package dialect

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// beside are keywords that may stand beside a reference without a constraint.
var beside = []string{"description", "title", "default", "examples", "deprecated", "readOnly", "writeOnly"}

// lookup finds what a reference means, through references that are nothing else.
func (p *projector) lookup(ref, path string) (target any, pointer string) {
	for range maxDepth {
		if !strings.HasPrefix(ref, "#") {
			p.fail(fmt.Errorf("dialect: the reference at %q leads out of the schema; write its target into $defs", path))
			return nil, ""
		}
		pointer, err := url.PathUnescape(ref[1:])
		if err != nil {
			pointer = ref[1:]
		}
		target, ok := strictjson.Lookup(p.doc, pointer)
		if !ok {
			p.fail(fmt.Errorf("dialect: the reference at %q has no target", path))
			return nil, ""
		}
		m, _ := target.(map[string]any)
		next, isRef := m["$ref"].(string)
		if !isRef || slices.ContainsFunc(slices.Collect(maps.Keys(m)), func(k string) bool { return k != "$ref" && !slices.Contains(silent, k) }) {
			return target, pointer
		}
		ref = next
	}
	p.fail(fmt.Errorf("dialect: the reference at %q leads to nothing but itself", path))
	return nil, ""
}

// recursive reports whether what a reference means contains that reference.
func (p *projector) recursive(pointer string) bool {
	if known, ok := p.circles[pointer]; ok {
		return known
	}
	was := p.err // a reference in data leads nowhere, and is none
	found := p.circle(pointer)
	p.err, p.circles[pointer] = was, found
	return found
}

func (p *projector) circle(pointer string) bool {
	seen, budget := map[string]bool{}, maxNodes
	var visit func(v any) bool
	visit = func(v any) bool {
		if budget--; budget < 0 {
			return true
		}
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				target, at := p.lookup(ref, pointer)
				bad := p.err != nil
				p.err = nil
				if !bad && at == pointer {
					return true
				}
				if !bad && !seen[at] {
					seen[at] = true
					if visit(target) {
						return true
					}
				}
			}
			for k, sub := range v {
				if k != "$defs" && k != "definitions" && visit(sub) {
					return true
				}
			}
		case []any:
			return slices.ContainsFunc(v, visit)
		}
		return false
	}
	target, _ := strictjson.Lookup(p.doc, pointer)
	return visit(target)
}

// reference writes a reference out, with what stands beside it (2020-12, section
// 8.2.3: both count). A recursive one stays, or is cut.
func (p *projector) reference(s map[string]any, ref, path string, depth int) (any, *node) {
	target, pointer := p.lookup(ref, path)
	if p.err != nil {
		return nil, &node{}
	}
	rest := maps.Clone(s)
	delete(rest, "$ref")
	maps.DeleteFunc(rest, func(k string, _ any) bool { return slices.Contains(silent, k) })
	if !p.recursive(pointer) {
		return p.schema(p.both(target, rest, path), path, depth)
	}
	if p.rules.Refs {
		for k := range rest {
			if !slices.Contains(beside, k) {
				delete(rest, k)
				p.cannot(path+"/"+k, "stands beside a recursive reference, and is left out")
			}
		}
		return p.keep(target, pointer, text(rest["description"]), path)
	}
	if p.open[pointer] >= MaxUnfold {
		p.lose(Wider, path, "is recursive, and is cut here")
		return p.cut(target)
	}
	p.open[pointer]++
	defer func() { p.open[pointer]-- }()
	return p.schema(p.both(target, rest, path), path, depth)
}

// keep leaves a reference to a definition that is projected once.
func (p *projector) keep(target any, pointer, description, path string) (any, *node) {
	out := map[string]any{}
	if description != "" && !p.rules.AllRequired {
		out["description"] = description
	} else if description != "" {
		p.lose(Annotation, path+"/description", "has no place beside a reference")
	}
	if pointer == "" {
		out["$ref"] = "#"
		return out, p.root
	}
	name := plainName.Replace(pointer[strings.LastIndexByte(pointer, '/')+1:])
	if !strings.HasPrefix(pointer, "/$defs/") || strings.Count(pointer, "/") > 2 {
		name = plainName.Replace(strings.TrimPrefix(pointer, "/"))
	}
	out["$ref"] = "#/$defs/" + name
	if n, ok := p.defNodes[name]; ok {
		return out, n
	}
	n := &node{}
	p.defNodes[name] = n
	branches := p.branches
	p.branches = 0
	def, got := p.schema(target, pointer, 2)
	p.branches = branches
	n.also = append(n.also, got)
	p.defs[name] = def
	return out, n
}

// cut stands for what is not written out any further.
func (p *projector) cut(target any) (any, *node) {
	kind := "any"
	if m, _ := target.(map[string]any); m["type"] == "object" || m["properties"] != nil {
		kind = "object"
	}
	return p.asJSON(map[string]any{}, kind)
}

// both is a schema that accepts what two accept.
func (p *projector) both(a any, b map[string]any, path string) any {
	if len(b) == 0 {
		return a
	}
	m, ok := a.(map[string]any)
	if !ok {
		if a == true {
			return b
		}
		return a
	}
	return p.merge(m, b, path, 0)
}
