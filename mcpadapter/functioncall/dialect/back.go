package dialect

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// node says how to undo what a projection did to one value. also are nodes that
// may be meant as well (branches, definitions): names are the same in all.
type node struct {
	props map[string]*field // by the vendor's name
	items *node
	rest  *node // of names that are not in props
	also  []*node
	json  string // the value is JSON in a string: of an "object", or of "any" type
}

type field struct {
	name string // the schema's
	node *node
	drop bool // null means that it is left out
}

func (n *node) prop(key string, f *field) {
	if n.props == nil {
		n.props = map[string]*field{}
	}
	n.props[key] = f
}

// sub takes in the node of a keyword with one subschema.
func (n *node) sub(keyword string, child *node) {
	switch keyword {
	case "additionalProperties", "unevaluatedProperties":
		n.rest = orNode(n.rest, child)
	case "contains", "unevaluatedItems":
		n.items = orNode(n.items, child)
	case "propertyNames":
	default:
		n.also = append(n.also, child)
	}
}

func orNode(a, b *node) *node {
	if a == nil {
		return b
	}
	return &node{also: []*node{a, b}}
}

// all returns the nodes that may be meant.
func (n *node) all(out []*node) []*node {
	if n == nil || slices.Contains(out, n) {
		return out
	}
	out = append(out, n)
	for _, a := range n.also {
		out = a.all(out)
	}
	return out
}

// Back returns arguments that a model wrote for the projected schema as the
// original one has them: with its names, without the nulls that stand for nothing,
// with objects that were written as JSON. Arguments that are no JSON come back as
// they are, for whoever validates them to refuse. The error is INVALID_INPUT: two
// names for one property.
func (p *Projection) Back(args json.RawMessage) (json.RawMessage, error) {
	if !p.undo {
		return args, nil
	}
	v, err := strictjson.Parse(args)
	if err != nil {
		return args, nil
	}
	v, err = back(v, []*node{p.root})
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func back(v any, nodes []*node) (_ any, err error) {
	var meant []*node
	for _, n := range nodes {
		meant = n.all(meant)
	}
	v, meant = unwrap(v, meant)
	switch v := v.(type) {
	case map[string]any:
		return backObject(v, meant)
	case []any:
		var items []*node
		for _, n := range meant {
			items = n.items.all(items)
		}
		for i := range v {
			if v[i], err = back(v[i], items); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// unwrap reads JSON in a string. What is inside has the schema's own names.
func unwrap(v any, meant []*node) (any, []*node) {
	s, ok := v.(string)
	if !ok {
		return v, meant
	}
	for _, n := range meant {
		if n.json == "" {
			continue
		}
		in, err := strictjson.Parse([]byte(s))
		if _, isObject := in.(map[string]any); err == nil && (isObject || n.json == "any") {
			return in, nil
		}
	}
	return v, meant
}

func backObject(m map[string]any, meant []*node) (any, error) {
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		name, drop := key, true
		var children []*node
		for _, n := range meant {
			f := n.props[key]
			if f == nil {
				continue
			}
			name, drop = f.name, drop && f.drop
			children = append(children, f.node)
		}
		if children == nil {
			drop = false
			for _, n := range meant {
				if n.rest != nil {
					children = append(children, n.rest)
				}
			}
		}
		if drop && m[key] == nil {
			continue
		}
		if _, ok := out[name]; ok {
			return nil, toolresult.NewError(toolresult.InvalidInput, "the arguments name one property twice").
				With("/"+strictjson.Escape(name), "is given under two names")
		}
		v, err := back(m[key], children)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}
