package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/defuse"
	"github.com/drawbridge-sdk/drawbridge/internal/schema"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// An adaptation makes a server's schema of arguments one that is held to the
// rules for inputs here: closed, with a type at every place, and asking for
// business data only. It narrows what a model may say; where a keyword is not
// known here it is left to the server, and that is noted.
type adaptation struct {
	business map[string]string
	notes    []string
	nodes    int
}

// keptKeywords are those that mean the same here. What is in none of the lists
// is noted.
var (
	keptKeywords = words("type enum const minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems minContains maxContains " +
		"minProperties maxProperties uniqueItems required dependentRequired $ref description")
	silent    = words("$schema $id $comment title examples deprecated readOnly writeOnly contentEncoding contentMediaType x-mcp-header")
	underOne  = words("items contains not if then else propertyNames")
	underList = words("prefixItems allOf anyOf oneOf")
	underMap  = words("properties $defs definitions dependentSchemas")
	formats   = words("date-time date time uri uri-reference uuid email")
)

func words(s string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(s) {
		out[w] = true
	}
	return out
}

// mostNodes bounds a stranger's schema before anything is written out of it.
const mostNodes = 2000

// adapt returns the schema of the arguments of a tool, and what a reader must
// know about it.
func adapt(d *Definition, t *Tool) (json.RawMessage, []string, error) {
	v, err := strictjson.Parse(d.Input)
	root, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, nil, errors.New("has no schema of arguments")
	}
	a := &adaptation{business: t.Business}
	if err := fix(root, t); err != nil {
		return nil, nil, err
	}
	if root["type"] == nil {
		root["type"] = "object"
	}
	out, err := a.schema(root, "", "")
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil, nil, err
	}
	s, err := schema.Parse(text, true)
	if err != nil {
		return nil, a.notes, err
	}
	return s.JSON(), a.notes, nil
}

// fix takes out what the operator says.
func fix(root map[string]any, t *Tool) error {
	props, _ := root["properties"].(map[string]any)
	for name := range t.Fixed {
		if _, ok := props[name]; !ok {
			return fmt.Errorf("has no argument %q that could be fixed", name)
		}
		delete(props, name)
	}
	required, ok := root["required"].([]any)
	if !ok {
		return nil
	}
	root["required"] = slices.DeleteFunc(slices.Clone(required), func(r any) bool {
		name, _ := r.(string)
		_, gone := t.Fixed[name]
		_, known := props[name]
		return gone || !known
	})
	return nil
}

func (a *adaptation) note(at, format string, args ...any) {
	if len(a.notes) < 50 {
		a.notes = append(a.notes, fmt.Sprintf("%s: "+format, append([]any{"arguments" + at}, args...)...))
	}
}

// schema rewrites one schema. at is a pointer into the schema, value one into
// the arguments.
func (a *adaptation) schema(v any, at, value string) (any, error) {
	if a.nodes++; a.nodes > mostNodes || strings.Count(at, "/") > 2*strictjson.MaxDepth {
		return nil, errors.New("has a schema that is too large")
	}
	if v == true {
		v = map[string]any{}
	}
	s, ok := v.(map[string]any)
	if !ok {
		return v, nil
	}
	out := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if err := a.keyword(out, k, s[k], at, value); err != nil {
			return nil, err
		}
	}
	a.close(out, at)
	if reason := a.business[value]; value != "" && reason != "" && out["$ref"] == nil {
		out[schema.Business] = reason
	}
	return out, nil
}

func (a *adaptation) keyword(out map[string]any, k string, v any, at, value string) (err error) {
	here := at + "/" + strictjson.Escape(k)
	switch {
	case k == "description":
		text, _ := v.(string)
		text, _ = defuse.Policy{}.Text(text)
		out[k] = cut(text, 2<<10)
	case k == "$ref":
		text, _ := v.(string)
		out[k] = strings.Replace(text, "#/definitions/", "#/$defs/", 1)
	case keptKeywords[k]:
		out[k] = v
	case silent[k]:
	case k == "additionalProperties":
		if _, isSchema := v.(map[string]any); !isSchema {
			out[k] = v
			return nil
		}
		out[k], err = a.schema(v, here, value+"/*")
	case underOne[k]:
		out[k], err = a.schema(v, here, value+"/*")
	case underList[k]:
		l, _ := v.([]any)
		list := make([]any, len(l))
		for i := range l {
			if list[i], err = a.schema(l[i], here, value); err != nil {
				return err
			}
		}
		out[k] = list
	case underMap[k]:
		out[strings.Replace(k, "definitions", "$defs", 1)], err = a.named(k, v, here, value)
	case k == "format" && formats[fmt.Sprint(v)]:
		out[k] = v
	case k == "pattern":
		text, _ := v.(string)
		if _, bad := regexp.Compile(text); bad != nil || len(text) > 1000 {
			a.note(at, "has a pattern that is not checked here")
			return nil
		}
		out[k] = v
	case k == "default":
		a.note(at, "has the default %s, which the server applies", cut(compact(v), 100))
	default:
		a.note(at, "has %q, which is not checked here", cut(k, 64))
	}
	return err
}

func (a *adaptation) named(k string, v any, here, value string) (any, error) {
	o, _ := v.(map[string]any)
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		below := value
		if k == "properties" {
			below = value + "/" + strictjson.Escape(name)
		}
		var err error
		if out[name], err = a.schema(o[name], here+"/"+strictjson.Escape(name), below); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scalars are what a place holds that does not say its type.
var scalars = []any{"string", "number", "boolean", "null"}

// close says at a place what may come.
func (a *adaptation) close(s map[string]any, at string) {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := s[n]; return ok })
	}
	if s["properties"] != nil && s["type"] == nil && !has("$ref", "allOf", "anyOf", "oneOf") {
		s["type"] = "object"
	}
	if len(s) == 0 || !has("type", "enum", "const", "$ref", "allOf", "anyOf", "oneOf", "not", "if", "properties", "required", "items") {
		s["type"] = scalars
		a.note(at, "does not say its type; a single value is taken")
	}
	kind := func(name string) bool {
		if l, ok := s["type"].([]any); ok {
			return slices.Contains(l, any(name))
		}
		return s["type"] == name
	}
	if kind("array") && !has("items") {
		s["items"] = map[string]any{"type": scalars}
		a.note(at, "does not say what its items are; single values are taken")
	}
	if !kind("object") {
		return
	}
	switch rest := s["additionalProperties"].(type) {
	case nil:
		s["additionalProperties"] = false
		a.noteOpen(s, at)
	case bool:
		s["additionalProperties"] = false
		if rest {
			a.noteOpen(s, at)
		}
	case map[string]any:
		if !has("maxProperties") {
			s["maxProperties"] = json.Number("100")
		}
	}
	if required, ok := s["required"].([]any); ok {
		props, _ := s["properties"].(map[string]any)
		s["required"] = slices.DeleteFunc(slices.Clone(required), func(r any) bool {
			name, _ := r.(string)
			return props[name] == nil
		})
	}
}

func (a *adaptation) noteOpen(s map[string]any, at string) {
	if props, _ := s["properties"].(map[string]any); len(props) == 0 && at != "" {
		a.note(at, "is an object of any kind; only an empty one is taken")
	}
}

// arguments are what is sent: what the model said, and what the operator fixed.
func arguments(args json.RawMessage, fixed map[string]json.RawMessage) (json.RawMessage, error) {
	if len(fixed) == 0 {
		return args, nil
	}
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(args, &m); err != nil {
		return nil, err
	}
	maps.Copy(m, fixed)
	return json.Marshal(m)
}
