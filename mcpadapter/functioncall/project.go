package functioncall

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// A projection makes the schema of one tool smaller and keeps what was lost.
type projection struct {
	tool   string
	losses []Loss
}

func (p *projection) lose(path, format string, args ...any) {
	p.losses = append(p.losses, Loss{p.tool, path, fmt.Sprintf(format, args...)})
}

// atRoot are the keywords that neither vendor takes at the root.
var atRoot = []string{"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "dependentSchemas", "dependentRequired"}

// root takes from a schema what the vendors refuse there.
func (p *projection) root(s map[string]any) {
	for _, k := range atRoot {
		if _, ok := s[k]; ok {
			delete(s, k)
			p.lose("/"+k, "is not taken at the root, and is left out")
		}
	}
}

// maxDescription is OpenAI's bound, in characters.
const maxDescription = 1024

func (p *projection) describe(s string) string {
	if utf8.RuneCountInString(s) <= maxDescription {
		return s
	}
	p.lose("", "the description is over %d characters, and is cut", maxDescription)
	return string([]rune(s)[:maxDescription-1]) + "…"
}

// OpenAI's structured outputs, as its guide says in 2026: these keywords, every
// property required, closed objects, and these bounds.
var (
	strictKeywords = map[string]bool{
		"type": true, "description": true, "title": true, "properties": true, "required": true, "additionalProperties": true, "items": true,
		"enum": true, "const": true, "anyOf": true, "pattern": true, "format": true, "multipleOf": true,
		"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "minItems": true, "maxItems": true,
	}
	// notStrict change what an object is made of: without them the schema
	// would be another one.
	notStrict     = map[string]bool{"oneOf": true, "allOf": true, "not": true, "if": true, "patternProperties": true, "prefixItems": true}
	strictFormats = map[string]bool{"date-time": true, "time": true, "date": true, "duration": true, "email": true, "hostname": true,
		"ipv4": true, "ipv6": true, "uuid": true}
)

const (
	maxStrictDepth      = 10
	maxStrictProperties = 5000
	maxStrictEnum       = 1000
)

// strict returns the schema for strict mode, or the schema as it is and false.
func (p *projection) strict(s map[string]any) (map[string]any, bool) {
	before := len(p.losses)
	st := &strictness{projection: p}
	out := st.schema(s, "", 1)
	if st.why == "" && (st.properties > maxStrictProperties || st.enum > maxStrictEnum) {
		st.why = "it is over the bounds of strict mode"
	}
	if st.why != "" {
		p.losses = p.losses[:before]
		p.lose(st.path, "strict mode is off: %s", st.why)
		return s, false
	}
	o, ok := out.(map[string]any)
	return o, ok
}

type strictness struct {
	*projection
	properties, enum int
	branches         int    // anyOf that are being read
	why, path        string // why it cannot be strict
}

func (st *strictness) refuse(path, why string) {
	if st.why == "" {
		st.why, st.path = why, path
	}
}

// schema returns a copy in the subset.
func (st *strictness) schema(v any, path string, depth int) any {
	s, ok := v.(map[string]any)
	if !ok {
		st.refuse(path, "a schema that is true or false has no place in it")
		return v
	}
	if depth > maxStrictDepth {
		st.refuse(path, "it is nested too deep")
		return v
	}
	out := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(s)) {
		st.keyword(out, k, s[k], path)
	}
	if s["type"] == nil && s["anyOf"] == nil && s["enum"] == nil && s["const"] == nil {
		st.refuse(path, "a value of any type has no place in it")
	}
	if items, ok := s["items"]; ok {
		out["items"] = st.schema(items, path+"/items", depth+1)
	}
	if list, ok := s["anyOf"].([]any); ok {
		branches := make([]any, len(list))
		st.branches++
		for i := range list {
			branches[i] = st.schema(list[i], fmt.Sprintf("%s/anyOf/%d", path, i), depth)
		}
		st.branches--
		out["anyOf"] = branches
	}
	if isObject(s) {
		st.object(out, s, path, depth)
	}
	return out
}

func (st *strictness) keyword(out map[string]any, k string, v any, path string) {
	at := path + "/" + k
	switch {
	case notStrict[k]:
		st.refuse(at, "the keyword has no place in it")
	case k == "default":
		text, _ := json.Marshal(v)
		out["description"] = note(out["description"], "Default: "+string(text)+".")
		st.lose(at, "is said in the description only")
	case k == "format":
		if f, _ := v.(string); !strictFormats[f] {
			st.lose(at, "is not known to strict mode, and is left out")
			return
		}
		out[k] = v
	case k == "enum":
		list, _ := v.([]any)
		st.enum += len(list)
		out[k] = v
	case k == "description":
		out[k] = note(v, text(out[k]))
	case strictKeywords[k]:
		out[k] = v
	default:
		st.lose(at, "is not known to strict mode, and is left out")
	}
}

// object makes every property required; one that was optional may be null, and
// Dispatch takes a null there for nothing.
func (st *strictness) object(out, s map[string]any, path string, depth int) {
	if rest, ok := s["additionalProperties"]; ok && rest != false {
		st.refuse(path+"/additionalProperties", "an object with names of any kind has no place in it")
	}
	props, _ := s["properties"].(map[string]any)
	projected := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		at := path + "/properties/" + strictjson.Escape(name)
		got, ok := st.schema(props[name], at, depth+1).(map[string]any)
		if !ok {
			return
		}
		if !slices.Contains(required(s), name) && !nullable(props[name]) {
			if st.branches > 0 { // Dispatch could not tell which branch was meant
				st.refuse(at, "an optional property of a branch has no place in it")
			}
			got = orNull(got)
		}
		projected[name] = got
		st.properties++
	}
	out["properties"], out["additionalProperties"] = projected, false
	out["required"] = append([]string{}, slices.Sorted(maps.Keys(projected))...)
}

func isObject(s map[string]any) bool {
	_, ok := s["properties"]
	return ok || s["type"] == "object"
}

func required(s map[string]any) (out []string) {
	list, _ := s["required"].([]any)
	for _, v := range list {
		out = append(out, text(v))
	}
	return out
}

func text(v any) string {
	s, _ := v.(string)
	return s
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

// nullable reports whether a schema takes null.
func nullable(v any) bool {
	s, ok := v.(map[string]any)
	if !ok {
		return v == true
	}
	switch t := s["type"].(type) {
	case string:
		return t == "null"
	case []any:
		return slices.Contains(t, any("null"))
	}
	if list, ok := s["anyOf"].([]any); ok {
		return slices.ContainsFunc(list, nullable)
	}
	if list, ok := s["enum"].([]any); ok {
		return slices.Contains(list, nil)
	}
	return s["const"] == nil && s["oneOf"] == nil && s["allOf"] == nil
}

// orNull is a schema or null, with the description outside.
func orNull(s map[string]any) map[string]any {
	out := map[string]any{}
	if d, ok := s["description"]; ok {
		out["description"] = d
		s = maps.Clone(s)
		delete(s, "description")
	}
	out["anyOf"] = []any{s, map[string]any{"type": "null"}}
	return out
}

// dropNulls takes from arguments the nulls that strict mode made a model write
// for what it left out. v is changed.
func dropNulls(v, schema any) {
	s, _ := schema.(map[string]any)
	switch v := v.(type) {
	case map[string]any:
		props, _ := s["properties"].(map[string]any)
		for name, sub := range props {
			got, ok := v[name]
			switch {
			case ok && got == nil && !slices.Contains(required(s), name) && !nullable(sub):
				delete(v, name)
			case ok:
				dropNulls(got, sub)
			}
		}
	case []any:
		for _, item := range v {
			dropNulls(item, s["items"])
		}
	}
}
