package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// overlaid merges an overlay over an inferred schema and refuses what the
// decoder would not bear out.
func overlaid(base object, overlay json.RawMessage, input bool) (object, error) {
	merged := base
	if len(overlay) > 0 {
		over, err := parseObject(overlay)
		if err != nil {
			return nil, &Error{"overlay", err.Error()}
		}
		if err := mentions(base, over, ""); err != nil {
			return nil, err
		}
		merged = merge(base, over).(object)
		if err := narrower(base, merged, ""); err != nil {
			return nil, err
		}
	}
	return merged, fill(merged, "", input)
}

func parseObject(text json.RawMessage) (object, error) {
	v, err := strictjson.Parse(text)
	if err != nil {
		return nil, err
	}
	o, ok := v.(object)
	if !ok {
		return nil, fmt.Errorf("want a JSON object")
	}
	return o, nil
}

// merge is MergePatch of RFC 7396, section 2, on copies.
func merge(target, patch any) any {
	p, ok := patch.(object)
	if !ok {
		return patch
	}
	t, _ := target.(object)
	out := maps.Clone(t)
	if out == nil {
		out = object{}
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = merge(out[k], v)
	}
	return out
}

// mentions refuses an overlay for a property that the type does not have: it
// is a slip, and its bounds would bind nothing.
func mentions(base, over object, at string) error {
	if _, ok := base[open]; ok {
		return nil
	}
	if props, ok := over["properties"].(object); ok {
		known, _ := base["properties"].(object)
		for _, name := range slices.Sorted(maps.Keys(props)) {
			s, ok := known[name].(object)
			if !ok {
				return &Error{at + "/" + strictjson.Escape(name), "is in the overlay and not in the type; the type has " + list(slices.Sorted(maps.Keys(known)))}
			}
			o, ok := props[name].(object)
			if !ok {
				return &Error{at + "/" + strictjson.Escape(name), "cannot be removed by an overlay; remove the field, or tag it json:\"-\""}
			}
			if err := mentions(s, o, at+"/"+strictjson.Escape(name)); err != nil {
				return err
			}
		}
	}
	for _, k := range []string{"items", "additionalProperties"} {
		b, known := base[k].(object)
		o, said := over[k].(object)
		if known && said {
			if err := mentions(b, o, at+"/*"); err != nil {
				return err
			}
		}
	}
	return nil
}

// limits are the bounds that an overlay may move and not remove, and how far.
var limits = map[string]float64{"maxLength": hardMaxLength, "maxItems": hardMaxItems, "maxProperties": hardMaxProperties}

// narrower refuses a merged schema that lets through what the type's decoder
// refuses, drops or rounds.
func narrower(base, merged object, at string) error {
	if _, ok := base[open]; ok {
		return nil
	}
	wrong := func(format string, args ...any) error {
		return &Error{at, fmt.Sprintf("in the overlay: "+format, args...)}
	}
	if !subset(merged["type"], base["type"]) {
		return wrong("type must be that of the Go type, %v", base["type"])
	}
	for _, k := range []string{"format", "pattern", "contentEncoding", "minItems"} {
		if b, ok := base[k]; ok && !reflect.DeepEqual(b, merged[k]) && (k != "minItems" || base["maxItems"] == b) {
			return wrong("%s must stay as it follows from the Go type, %v", k, b)
		}
	}
	if err := bounds(base, merged, wrong); err != nil {
		return err
	}
	if base["additionalProperties"] == false && merged["additionalProperties"] != false {
		return wrong("additionalProperties must stay false")
	}
	props, _ := base["properties"].(object)
	mprops, ok := merged["properties"].(object)
	if props != nil && (!ok || len(mprops) != len(props)) {
		return wrong("properties must be those of the Go type")
	}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		m, ok := mprops[name].(object)
		if !ok {
			return wrong("%q must be a schema", cut(name))
		}
		if err := narrower(props[name].(object), m, at+"/"+strictjson.Escape(name)); err != nil {
			return err
		}
	}
	return narrowerBelow(base, merged, at, wrong)
}

func narrowerBelow(base, merged object, at string, wrong func(string, ...any) error) error {
	for _, k := range []string{"items", "additionalProperties"} {
		b, ok := base[k].(object)
		if !ok {
			continue
		}
		m, ok := merged[k].(object)
		if !ok {
			return wrong("%s must be a schema", k)
		}
		if err := narrower(b, m, at+"/*"); err != nil {
			return err
		}
	}
	return nil
}

func bounds(base, merged object, wrong func(string, ...any) error) error {
	for k, most := range limits {
		b, ok := base[k]
		if !ok {
			continue
		}
		n, ok := float(merged[k])
		if _, fixed := base["minItems"]; fixed || base["pattern"] != nil && base["contentEncoding"] == nil {
			most, _ = float(b)
		}
		if !ok || n > most {
			return wrong("%s must be a number up to %v", k, most)
		}
	}
	if b, ok := float(base["minimum"]); ok {
		if n, ok := float(merged["minimum"]); !ok || n < b {
			return wrong("minimum must be at least that of the Go type, %v", base["minimum"])
		}
	}
	if b, ok := float(base["maximum"]); ok {
		if n, ok := float(merged["maximum"]); !ok || n > b {
			return wrong("maximum must be at most that of the Go type, %v", base["maximum"])
		}
	}
	return nil
}

func float(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// subset reports whether the types of a are among those of b.
func subset(a, b any) bool {
	as, bs := typeNames(a), typeNames(b)
	return len(as) > 0 && !slices.ContainsFunc(as, func(t string) bool { return !slices.Contains(bs, t) })
}

func typeNames(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			s, _ := e.(string)
			out = append(out, s)
		}
		return out
	}
	return nil
}

// fill sees to the open places: in an input, the overlay must have said what
// goes there. It takes from required what has a default, since it need not be
// sent.
func fill(s object, at string, input bool) error {
	why, wasOpen := s[open]
	delete(s, open)
	if wasOpen && input && len(typeNames(s["type"])) == 0 && s["enum"] == nil && s["const"] == nil && s["anyOf"] == nil && s["oneOf"] == nil {
		return &Error{at, fmt.Sprintf("%v; say in the overlay what it may be", why)}
	}
	props, _ := s["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(props)) {
		p, ok := props[name].(object)
		if !ok {
			continue
		}
		if err := fill(p, at+"/"+strictjson.Escape(name), input); err != nil {
			return err
		}
		if _, ok := p["default"]; ok {
			unrequire(s, name)
		}
	}
	for _, k := range []string{"items", "additionalProperties"} {
		if e, ok := s[k].(object); ok {
			if err := fill(e, at+"/*", input); err != nil {
				return err
			}
		}
	}
	return nil
}

func unrequire(s object, name string) {
	required, _ := s["required"].([]any)
	required = slices.DeleteFunc(slices.Clone(required), func(r any) bool { return r == name })
	if s["required"] = required; len(required) == 0 {
		delete(s, "required")
	}
}
