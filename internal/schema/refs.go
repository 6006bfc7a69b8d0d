package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// Dialect is the only dialect.
const Dialect = "https://json-schema.org/draft/2020-12/schema"

// An inliner writes references out.
type inliner struct {
	root  object
	nodes int
	open  []string // the references that are being written out
}

// inline returns a copy of a schema without $ref, $defs and $schema, or an
// error if a reference leads out of it or round in a circle.
func inline(root object) (object, error) {
	if d, ok := root["$schema"]; ok && d != Dialect && d != Dialect+"#" {
		return nil, &Error{"/$schema", "is not " + Dialect + "; write the schema for that, and say so or nothing"}
	}
	out, err := (&inliner{root: root}).schema(root, "")
	if err != nil {
		return nil, err
	}
	o, ok := out.(object)
	if !ok {
		return nil, &Error{"", "want a schema object"}
	}
	return o, nil
}

// inPlace, inList and inMap are the keywords that hold a schema, a list of
// them, or named ones. Everything else is data, in which "$ref" is no
// reference.
var (
	inPlace = []string{"additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else"}
	inList  = []string{"prefixItems", "allOf", "anyOf", "oneOf"}
	inMap   = []string{"properties", "patternProperties", "dependentSchemas"}
)

func (in *inliner) schema(v any, at string) (any, error) {
	s, ok := v.(object)
	if !ok {
		return v, nil
	}
	if in.nodes++; in.nodes > maxNodes {
		return nil, &Error{"", "has more than " + strconv.Itoa(maxNodes) + " schemas once references are written out; write it smaller"}
	}
	out := maps.Clone(s)
	delete(out, "$defs")
	if at == "" {
		delete(out, "$schema")
	}
	if err := in.children(out, at); err != nil {
		return nil, err
	}
	ref, ok := out["$ref"]
	if !ok {
		return out, nil
	}
	delete(out, "$ref")
	return in.reference(out, ref, at)
}

func (in *inliner) children(out object, at string) (err error) {
	for _, k := range inPlace {
		if v, ok := out[k]; ok && err == nil {
			out[k], err = in.schema(v, at+"/"+k)
		}
	}
	for _, k := range inList {
		if l, ok := out[k].([]any); ok {
			l = slices.Clone(l)
			for i := range l {
				if err == nil {
					l[i], err = in.schema(l[i], at+"/"+k+"/"+strconv.Itoa(i))
				}
			}
			out[k] = l
		}
	}
	for _, k := range inMap {
		if o, ok := out[k].(object); ok {
			o = maps.Clone(o)
			for _, name := range slices.Sorted(maps.Keys(o)) {
				if err == nil {
					o[name], err = in.schema(o[name], at+"/"+k+"/"+strictjson.Escape(name))
				}
			}
			out[k] = o
		}
	}
	return err
}

// reference returns what a $ref stands for, together with what is beside it.
func (in *inliner) reference(beside object, ref any, at string) (any, error) {
	text, _ := ref.(string)
	pointer, local := strings.CutPrefix(text, "#")
	if !local || pointer != "" && pointer[0] != '/' || strings.Contains(pointer, "%") {
		return nil, &Error{at + "/$ref", "leads out of the schema; nothing is fetched: copy it to $defs and say #/$defs/name"}
	}
	if slices.Contains(in.open, pointer) || pointer == "" {
		return nil, &Error{at + "/$ref", "leads round in a circle; say how deep it goes with definitions of their own"}
	}
	target, ok := strictjson.Lookup(in.root, pointer)
	if !ok {
		return nil, &Error{at + "/$ref", "leads to nothing in the schema"}
	}
	in.open = append(in.open, pointer)
	got, err := in.schema(target, at)
	in.open = in.open[:len(in.open)-1]
	if err != nil || len(beside) == 0 {
		return got, err
	}
	o, ok := got.(object)
	for k := range beside {
		ok = ok && annotations[k]
	}
	if !ok {
		all, _ := beside["allOf"].([]any)
		beside["allOf"] = append(slices.Clone(all), got)
		return beside, nil
	}
	maps.Copy(o, beside)
	return o, nil
}
