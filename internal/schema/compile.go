package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// A node is a compiled schema. Nil pointers and negative numbers: no such
// keyword.
type node struct {
	never bool // the schema false
	types kinds
	enum  []value
	is    *value // const
	label string // what it wants, for people

	min, max, above, below *float64
	multiple               *big.Rat

	minLength, maxLength int
	pattern              *regexp.Regexp
	format               *format

	prefix                []*node
	items                 *node
	minItems, maxItems    int
	unique                bool
	contains              *node
	minContains, maxFound int

	props            map[string]*node
	names            []string // of props, sorted
	required         []string
	patterns         []patternNode
	rest             *node // additionalProperties
	propNames        *node
	minProps, maxPro int
	needs            map[string][]string // dependentRequired
	when             map[string]*node    // dependentSchemas

	all, any, one  []*node
	not            *node
	iff, then, els *node

	def   *value // default
	fills bool   // there is a default in or below it
}

type patternNode struct {
	re *regexp.Regexp
	n  *node
}

// kinds is a set of JSON types. Zero: any.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBool
	kindObject
	kindArray
	kindNumber
	kindString
	kindInteger
)

var kindNames = map[string]kinds{"null": kindNull, "boolean": kindBool, "object": kindObject, "array": kindArray, "number": kindNumber, "string": kindString, "integer": kindInteger}

// maxNodes bounds a schema after its references are written out.
const maxNodes = 10_000

// compiler goes from JSON to nodes. It stops at the first fault.
type compiler struct {
	input bool
	nodes int
	err   error
}

func (c *compiler) fail(at, format string, args ...any) {
	if c.err == nil {
		c.err = &Error{at, fmt.Sprintf(format, args...)}
	}
}

// compile checks a schema without references and compiles it.
func compile(root object, input bool) (*node, error) {
	c := &compiler{input: input}
	n := c.schema(root, "", false)
	if c.err == nil && input {
		c.err = closed(n, "")
	}
	if c.err != nil {
		return nil, c.err
	}
	text, err := json.Marshal(root)
	if err != nil {
		return nil, &Error{"", "cannot be written as JSON"}
	}
	// A second reader, so that what we let pass is a schema for others too.
	var second jsonschema.Schema
	if err := json.Unmarshal(text, &second); err != nil {
		return nil, &Error{"", "is not a JSON Schema: " + err.Error()}
	}
	if _, err := second.Resolve(nil); err != nil {
		return nil, &Error{"", "is not a JSON Schema: " + err.Error()}
	}
	return n, nil
}

// schema compiles one schema. branch says that it is below a keyword such as
// anyOf, where a default is not applied.
func (c *compiler) schema(v any, at string, branch bool) *node {
	if c.nodes++; c.nodes > maxNodes {
		c.fail(at, "has more than %d schemas; write it smaller", maxNodes)
	}
	if strings.Count(at, "/") > 3*strictjson.MaxDepth {
		c.fail(at[:64], "is nested too deeply; write it flatter")
	}
	n := &node{minLength: -1, maxLength: -1, minItems: -1, maxItems: -1, minProps: -1, maxPro: -1, minContains: -1, maxFound: -1}
	if b, ok := v.(bool); ok {
		n.never = !b
		return n
	}
	s, ok := v.(object)
	if !ok {
		c.fail(at, "want a schema: an object, true or false")
	}
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if c.err != nil {
			return n
		}
		if set, ok := keywords[k]; ok {
			set(c, n, s[k], at+"/"+k)
		} else if !c.under(n, k, s[k], at+"/"+strictjson.Escape(k), branch) && !annotations[k] {
			c.fail(at, "%s", unknownKeyword(k))
		}
	}
	c.finish(n, s, at, branch)
	return n
}

func unknownKeyword(k string) string {
	switch k {
	case "definitions", "dependencies", "additionalItems", "$recursiveRef", "id":
		return fmt.Sprintf("%q is not of JSON Schema 2020-12; use its successor ($defs, dependentRequired, dependentSchemas, items)", k)
	case "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$dynamicAnchor", "$anchor", "$id", "$vocabulary", "contentSchema":
		return fmt.Sprintf("%q is not supported; use additionalProperties, items, or a $ref to #/$defs", k)
	}
	return fmt.Sprintf("%q is not a keyword of JSON Schema 2020-12; correct or remove it", cut(k))
}

// annotations bind nothing.
var annotations = map[string]bool{
	"title": true, "description": true, "$comment": true, "deprecated": true, "readOnly": true, "writeOnly": true,
	"examples": true, "contentEncoding": true, "contentMediaType": true, "default": true, Business: true,
}

// keywords that hold no schemas.
var keywords = map[string]func(c *compiler, n *node, v any, at string){
	"type": func(c *compiler, n *node, v any, at string) {
		names := typeNames(v)
		for _, name := range names {
			k, ok := kindNames[name]
			if !ok || n.types&k != 0 {
				c.fail(at, "want names of JSON types, each once")
			}
			n.types |= k
		}
		if len(names) == 0 {
			c.fail(at, "want the name of a JSON type, or a list of them")
		}
	},
	"enum": func(c *compiler, n *node, v any, at string) {
		l, ok := v.([]any)
		if !ok || len(l) == 0 {
			c.fail(at, "want a list that is not empty")
			return
		}
		for _, e := range l {
			n.enum = append(n.enum, *c.value(e, at))
		}
	},
	"const":            func(c *compiler, n *node, v any, at string) { n.is = c.value(v, at) },
	"minimum":          func(c *compiler, n *node, v any, at string) { n.min = c.float(v, at) },
	"maximum":          func(c *compiler, n *node, v any, at string) { n.max = c.float(v, at) },
	"exclusiveMinimum": func(c *compiler, n *node, v any, at string) { n.above = c.float(v, at) },
	"exclusiveMaximum": func(c *compiler, n *node, v any, at string) { n.below = c.float(v, at) },
	"multipleOf": func(c *compiler, n *node, v any, at string) {
		if f := c.float(v, at); f != nil && *f > 0 {
			n.multiple, _ = new(big.Rat).SetString(string(v.(json.Number)))
			return
		}
		c.fail(at, "want a number over 0")
	},
	"minLength":     func(c *compiler, n *node, v any, at string) { n.minLength = c.count(v, at) },
	"maxLength":     func(c *compiler, n *node, v any, at string) { n.maxLength = c.count(v, at) },
	"minItems":      func(c *compiler, n *node, v any, at string) { n.minItems = c.count(v, at) },
	"maxItems":      func(c *compiler, n *node, v any, at string) { n.maxItems = c.count(v, at) },
	"minContains":   func(c *compiler, n *node, v any, at string) { n.minContains = c.count(v, at) },
	"maxContains":   func(c *compiler, n *node, v any, at string) { n.maxFound = c.count(v, at) },
	"minProperties": func(c *compiler, n *node, v any, at string) { n.minProps = c.count(v, at) },
	"maxProperties": func(c *compiler, n *node, v any, at string) { n.maxPro = c.count(v, at) },
	"uniqueItems": func(c *compiler, n *node, v any, at string) {
		var ok bool
		if n.unique, ok = v.(bool); !ok {
			c.fail(at, "want true or false")
		}
	},
	"pattern": func(c *compiler, n *node, v any, at string) { n.pattern = c.regexp(v, at) },
	"format": func(c *compiler, n *node, v any, at string) {
		name, _ := v.(string)
		if n.format = formats[name]; n.format == nil {
			c.fail(at, "is not a format that is checked; the formats are %s", list(slices.Sorted(maps.Keys(formats))))
		}
	},
	"required": func(c *compiler, n *node, v any, at string) { n.required = c.strings(v, at) },
	"dependentRequired": func(c *compiler, n *node, v any, at string) {
		o, ok := v.(object)
		if !ok {
			c.fail(at, "want an object")
		}
		n.needs = map[string][]string{}
		for k, l := range o {
			n.needs[k] = c.strings(l, at+"/"+strictjson.Escape(k))
		}
	},
}

// value turns a value of the schema into one to compare with.
func (c *compiler) value(v any, at string) *value {
	text, err := json.Marshal(v)
	if err != nil {
		c.fail(at, "cannot be written as JSON")
		return &value{}
	}
	out, p := parse(string(text), true)
	if p != nil {
		c.fail(at+p.Pointer, "%s", p.Text)
	}
	return &out
}

func (c *compiler) float(v any, at string) *float64 {
	f, ok := float(v)
	if n, isNumber := v.(json.Number); !ok || !isNumber || !strictjson.Exact(n) {
		c.fail(at, "want a number that a double holds, whole up to 2^53")
		return nil
	}
	return &f
}

func (c *compiler) count(v any, at string) int {
	f, ok := float(v)
	if !ok || f < 0 || f > 1<<31-1 || f != float64(int(f)) {
		c.fail(at, "want a whole number, at least 0")
		return -1
	}
	return int(f)
}

func (c *compiler) strings(v any, at string) []string {
	l, ok := v.([]any)
	out := []string{}
	for _, e := range l {
		s, isString := e.(string)
		ok = ok && isString && !slices.Contains(out, s)
		out = append(out, s)
	}
	if !ok {
		c.fail(at, "want a list of names, each once")
	}
	return out
}

func (c *compiler) regexp(v any, at string) *regexp.Regexp {
	s, ok := v.(string)
	re, err := regexp.Compile(s)
	if !ok || err != nil || len(s) > 1000 {
		c.fail(at, "want a regular expression that Go (RE2) takes, without look-around and back-references, up to 1000 bytes")
	}
	return re
}
