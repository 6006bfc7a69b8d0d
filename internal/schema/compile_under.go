package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/lazyre"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// under compiles a keyword that holds schemas, and reports whether it is one.
func (c *compiler) under(n *node, k string, v any, at string, branch bool) bool {
	switch k {
	case "properties":
		n.props = c.schemas(v, at, branch)
		n.names = slices.Sorted(maps.Keys(n.props))
	case "additionalProperties":
		n.rest = c.schema(v, at, branch)
	case "patternProperties":
		for _, p := range slices.Sorted(maps.Keys(c.schemas(v, at, branch))) {
			n.patterns = append(n.patterns, patternNode{c.regexp(p, at), c.schema(v.(object)[p], at+"/"+strictjson.Escape(p), branch)})
		}
	case "propertyNames":
		n.propNames = c.schema(v, at, true)
	case "dependentSchemas":
		n.when = c.schemas(v, at, true)
	case "items":
		n.items = c.schema(v, at, branch)
	case "prefixItems":
		n.prefix = c.list(v, at, branch)
	case "contains":
		n.contains = c.schema(v, at, true)
	case "allOf":
		n.all = c.list(v, at, true)
	case "anyOf":
		n.any = c.list(v, at, true)
	case "oneOf":
		n.one = c.list(v, at, true)
	case "not":
		n.not = c.schema(v, at, true)
	case "if":
		n.iff = c.schema(v, at, true)
	case "then":
		n.then = c.schema(v, at, true)
	case "else":
		n.els = c.schema(v, at, true)
	default:
		return false
	}
	return true
}

func (c *compiler) schemas(v any, at string, branch bool) map[string]*node {
	o, ok := v.(object)
	if !ok {
		c.fail(at, "want an object of schemas")
	}
	out := map[string]*node{}
	for _, k := range slices.Sorted(maps.Keys(o)) {
		out[k] = c.schema(o[k], at+"/"+strictjson.Escape(k), branch)
	}
	return out
}

func (c *compiler) list(v any, at string, branch bool) []*node {
	l, ok := v.([]any)
	if !ok || len(l) == 0 {
		c.fail(at, "want a list of schemas that is not empty")
	}
	var out []*node
	for i, e := range l {
		out = append(out, c.schema(e, at+"/"+strconv.Itoa(i), branch))
	}
	return out
}

// finish checks what concerns several keywords.
func (c *compiler) finish(n *node, s object, at string, branch bool) {
	if c.err != nil {
		return
	}
	n.label = describe(n)
	for _, pair := range [][2]int{{n.minLength, n.maxLength}, {n.minItems, n.maxItems}, {n.minProps, n.maxPro}} {
		if pair[0] >= 0 && pair[1] >= 0 && pair[0] > pair[1] {
			c.fail(at, "asks for at least %d and at most %d", pair[0], pair[1])
		}
	}
	if n.min != nil && n.max != nil && *n.min > *n.max {
		c.fail(at, "has a minimum over its maximum")
	}
	for i := range n.enum {
		if p := n.problems(&n.enum[i]); p != nil {
			c.fail(at+"/enum", "value %d does not fit its own schema: %s", i, p[0].Text)
		}
	}
	n.fills = n.filler()
	c.defaults(n, s, at, branch)
	if c.input {
		c.names(n, at, branch)
	}
	if reason, ok := s[Business]; ok {
		if text, _ := reason.(string); strings.TrimSpace(text) == "" || len(text) > 500 {
			c.fail(at+"/"+Business, "want the reason, in up to 500 bytes, why a model may say this")
		}
	}
}

func (c *compiler) defaults(n *node, s object, at string, branch bool) {
	def, ok := s["default"]
	if !ok {
		return
	}
	if branch {
		c.fail(at, "has a default where none is applied; move it to a property outside of anyOf, allOf, not and the like")
	}
	n.def, n.fills = c.value(def, at+"/default"), true
	if p := n.problems(n.def); p != nil {
		c.fail(at+"/default", "does not fit its own schema: %s", p[0].Text)
	}
}

// portable is what every vendor's function calling takes as a name.
var portable = lazyre.New(`^[a-zA-Z0-9_.-]{1,64}$`)

// names checks the names of arguments.
func (c *compiler) names(n *node, at string, branch bool) {
	folded := map[string]string{}
	for _, name := range n.names {
		if !portable.MatchString(name) {
			c.fail(at, "has the property %s; a name is 1 to 64 of a-z A-Z 0-9 _ . -", strconv.Quote(cut(name)))
		}
		if other, ok := folded[strings.ToLower(name)]; ok {
			c.fail(at, "has the properties %q and %q, which differ only in case; rename one", other, name)
		}
		folded[strings.ToLower(name)] = name
	}
	for _, name := range n.required {
		if n.props[name] == nil && !branch {
			c.fail(at, "requires %q, which is not among its properties", cut(name))
		}
	}
}

// closed checks that an input says at every place what may come: a type, and
// for objects which members.
func closed(n *node, at string) error {
	if n == nil || n.never || n.enum != nil || n.is != nil {
		return nil
	}
	if n.types == 0 {
		return closedBranches(n, at)
	}
	if n.types&kindArray != 0 {
		if n.items == nil {
			return &Error{at, "is an array that does not say what its items are"}
		}
		for i, p := range n.prefix {
			if err := closed(p, at+"/prefixItems/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
		if err := closed(n.items, at+"/items"); err != nil {
			return err
		}
	}
	if n.types&kindObject != 0 {
		return closedObject(n, at)
	}
	return nil
}

// closedBranches is for a place without a type: every alternative is closed,
// or one of the parts.
func closedBranches(n *node, at string) error {
	subs, k := n.any, "/anyOf/"
	if subs == nil {
		subs, k = n.one, "/oneOf/"
	}
	for i, b := range subs {
		if err := closed(b, at+k+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	for _, part := range n.all {
		if subs == nil && closed(part, at) == nil {
			return nil
		}
	}
	if subs == nil {
		return &Error{at, "does not say its type; an argument must"}
	}
	return nil
}

func closedObject(n *node, at string) error {
	switch {
	case len(n.patterns) > 0:
		return &Error{at, "has patternProperties; name the properties"}
	case n.rest == nil:
		return &Error{at, "lets unknown properties through; say additionalProperties: false"}
	case !n.rest.never && n.maxPro < 0:
		return &Error{at, "is a map without maxProperties; say how many"}
	}
	for _, name := range n.names {
		if err := closed(n.props[name], at+"/properties/"+strictjson.Escape(name)); err != nil {
			return err
		}
	}
	return closed(n.rest, at+"/additionalProperties")
}

// describe says what a schema wants, for problems: "a whole number".
func describe(n *node) string {
	if n.is != nil {
		return cut(string(appendCanonical(nil, n.is)))
	}
	if n.enum != nil {
		var opts []string
		for i := range n.enum {
			opts = append(opts, cut(string(appendCanonical(nil, &n.enum[i]))))
		}
		return "one of " + list(opts)
	}
	var out []string
	for _, row := range []struct {
		k    kinds
		text string
	}{{kindString, "a string"}, {kindInteger, "a whole number"}, {kindNumber, "a number"}, {kindBool, "true or false"}, {kindObject, "an object"}, {kindArray, "an array"}, {kindNull, "null"}} {
		if n.types&row.k != 0 {
			out = append(out, row.text)
		}
	}
	text := strings.Join(out, " or ")
	narrow := n.min != nil && *n.min > -maxInteger || n.max != nil && *n.max < maxInteger
	if n.types&^(kindInteger|kindNumber) == 0 && narrow {
		text += " " + n.between()
	}
	return text
}
