package dialect_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall/dialect"
)

// M2: an instance that is valid for the projected schema is, mapped back, valid
// for the original, or a Wider loss says that it need not be. And where nothing is
// mapped, an instance of the original is one of the projected schema, or a Narrower
// loss says so. A second implementation judges both. -rapid.checks sets how many
// schemas.
func TestInstancesComeBack_M2(t *testing.T) {
	rows := corpus(t)
	cases, valid, lossless, mapped := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var schema any
		if rapid.IntRange(0, 3).Draw(t, "source") == 0 {
			row := rapid.SampledFrom(rows).Draw(t, "row")
			if err := json.Unmarshal(row.Schema, &schema); err != nil {
				t.Fatal(err)
			}
		} else {
			schema = rootSchema(t)
		}
		text, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		original, err := compiled(schema)
		if err != nil {
			t.Skip() // such as a reference without a target
		}
		for _, r := range dialect.All() {
			p, err := r.Project("tool", text)
			if err != nil {
				continue
			}
			projected, err := compiled(p.Schema)
			if err != nil {
				t.Fatalf("%s: %s: %v", r.Name, text, err)
			}
			root := decode(p.Schema)
			for range 3 {
				cases++
				v := instance(t, root, root, 4)
				if projected.Validate(v) == nil {
					valid++
					args, err := json.Marshal(v)
					if err != nil {
						t.Fatal(err)
					}
					got, err := p.Back(args)
					if err != nil {
						continue // one property under two names
					}
					if string(got) != string(args) {
						mapped++
					}
					if has(p.Losses, dialect.Wider) {
						continue
					}
					lossless++
					if err := validate(original, got); err != nil {
						t.Fatalf("%s:\n%s\nbecame\n%s\nwhich accepts %s, that is %s\n%v\n%v", r.Name, text, mustJSON(p.Schema), args, got, err, p.Losses)
					}
				}
			}
			if r.Key.Max > 0 || r.Keywords != nil || has(p.Losses, dialect.Narrower) {
				continue
			}
			o := decode(schema)
			v := instance(t, o, o, 4)
			if _, isObject := v.(map[string]any); isObject && original.Validate(v) == nil && projected.Validate(v) != nil {
				t.Fatalf("%s:\n%s\nbecame\n%s\nwhich refuses %s", r.Name, text, mustJSON(p.Schema), mustJSON(v))
			}
		}
	})
	t.Logf("%d instances, %d valid for the projected schema, %d of them without a Wider loss, %d mapped", cases, valid, lossless, mapped)
}

func has(losses []dialect.Loss, k dialect.Kind) bool {
	return slices.ContainsFunc(losses, func(l dialect.Loss) bool { return l.Kind == k })
}

func validate(s *oracle.Schema, text []byte) error {
	v, err := oracle.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func mustJSON(v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// decode returns a schema as the oracle reads it, without nullable.
func decode(schema any) any {
	v, err := oracle.UnmarshalJSON(strings.NewReader(mustJSON(schema)))
	if err != nil {
		return nil
	}
	return unNullable(v)
}

var (
	propNames = []string{"a", "b", "$c", "d e", "properties"}
	strs      = []string{"", "a", "bb", "abcdef", "5", "{}", `{"a":1}`, "null"}
	nums      = []string{"0", "1", "2", "-1", "1.5", "3.0", "100"}
)

// rootSchema draws a schema for arguments.
func rootSchema(t *rapid.T) any {
	if s, ok := drawSchema(t, 3).(map[string]any); ok && rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
		return s
	}
	s := map[string]any{"type": "object"}
	drawObject(t, s, 3)
	drawCombinators(t, s, 3)
	if rapid.IntRange(0, 2).Draw(t, "defs") == 0 {
		s["$defs"] = map[string]any{"N": drawSchema(t, 2)}
	} else {
		s["$defs"] = map[string]any{"N": map[string]any{"type": "object", "properties": map[string]any{"v": drawSchema(t, 1), "next": map[string]any{"$ref": "#/$defs/N"}}}}
	}
	return s
}

func coin(t *rapid.T, of int) bool { return rapid.IntRange(1, of).Draw(t, "coin") == 1 }

func drawSchema(t *rapid.T, depth int) any {
	kinds := []string{"string", "string", "integer", "number", "boolean", "null", "enum", "const", "list", "any", "true", "ref"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "array", "array", "anyOf", "oneOf", "allOf", "mixed", "false")
	}
	s := map[string]any{}
	switch k := rapid.SampledFrom(kinds).Draw(t, "kind"); k {
	case "true", "false":
		return k == "true"
	case "any":
	case "ref":
		s["$ref"] = "#/$defs/N"
	case "enum":
		s["enum"] = rapid.SliceOfNDistinct(rapid.SampledFrom([]any{"", "a", "bb", 1, 2, nil, true, 1.5}), 1, 4, func(v any) string { return fmt.Sprint(v) }).Draw(t, "enum")
		if coin(t, 2) {
			s["type"] = rapid.SampledFrom([]any{"string", "integer", []any{"string", "null"}}).Draw(t, "type")
		}
	case "const":
		s["const"] = rapid.SampledFrom([]any{"a", 1, true, nil}).Draw(t, "const")
	case "list":
		s["type"] = rapid.SliceOfNDistinct(rapid.SampledFrom([]any{"string", "number", "null", "boolean", "integer", "array", "object"}), 1, 3, func(v any) string { return v.(string) }).Draw(t, "types")
		drawBounds(t, s)
	case "object":
		s["type"] = "object"
		drawObject(t, s, depth)
	case "array":
		s["type"] = "array"
		drawArray(t, s, depth)
	case "anyOf", "oneOf", "allOf":
		s[k] = drawList(t, depth)
		if coin(t, 3) {
			s["type"] = rapid.SampledFrom([]any{"string", "integer", "object"}).Draw(t, "type")
		}
	case "mixed":
		drawObject(t, s, depth)
		drawBounds(t, s)
	default:
		s["type"] = k
		drawBounds(t, s)
	}
	if depth > 0 && coin(t, 6) {
		drawCombinators(t, s, depth)
	}
	if s["$ref"] != nil && coin(t, 3) {
		drawBounds(t, s)
	}
	return s
}

func drawList(t *rapid.T, depth int) []any {
	var out []any
	for range rapid.IntRange(1, 3).Draw(t, "branches") {
		out = append(out, drawSchema(t, depth-1))
	}
	return out
}

func drawCombinators(t *rapid.T, s map[string]any, depth int) {
	if depth == 0 || !coin(t, 2) {
		return
	}
	switch k := rapid.SampledFrom([]string{"anyOf", "oneOf", "allOf", "not", "if", "required"}).Draw(t, "combinator"); k {
	case "not":
		s[k] = drawSchema(t, 0)
	case "if":
		s[k], s["then"], s["else"] = drawSchema(t, 0), drawSchema(t, 0), drawSchema(t, 0)
	case "required":
		s["anyOf"] = []any{map[string]any{"required": []any{"a"}}, map[string]any{"required": []any{"$c"}}}
	default:
		if s[k] == nil {
			s[k] = drawList(t, depth)
		}
	}
}

func drawObject(t *rapid.T, s map[string]any, depth int) {
	props := map[string]any{}
	var required []any
	for _, name := range propNames {
		if coin(t, 2) {
			props[name] = drawSchema(t, depth-1)
		}
		if coin(t, 3) {
			required = append(required, name)
		}
	}
	if s["properties"] = props; required != nil {
		s["required"] = required
	}
	switch rapid.IntRange(0, 6).Draw(t, "rest") {
	case 0, 1, 2:
		s["additionalProperties"] = false
	case 3:
		s["additionalProperties"] = drawSchema(t, 0)
	case 4:
		s["patternProperties"] = map[string]any{"^a": drawSchema(t, 0)}
	case 5:
		s["dependentRequired"] = map[string]any{"a": []any{"$c"}}
	}
	if coin(t, 6) {
		s["maxProperties"] = rapid.IntRange(0, 3).Draw(t, "max")
	}
	if coin(t, 8) {
		s["propertyNames"] = map[string]any{"maxLength": 3}
	}
}

func drawArray(t *rapid.T, s map[string]any, depth int) {
	if coin(t, 2) {
		s["items"] = drawSchema(t, depth-1)
	}
	if coin(t, 5) {
		s["prefixItems"] = []any{drawSchema(t, 0)}
	}
	if coin(t, 5) {
		s["contains"] = drawSchema(t, 0)
	}
	if coin(t, 3) {
		s["maxItems"] = rapid.IntRange(0, 2).Draw(t, "max")
	}
	if coin(t, 5) {
		s["uniqueItems"] = true
	}
}

func drawBounds(t *rapid.T, s map[string]any) {
	for k, v := range map[string]any{"minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$", "minimum": 1, "maximum": 2, "exclusiveMinimum": 0, "exclusiveMaximum": 2, "multipleOf": 0.5, "minItems": 1, "description": "x", "default": "a"} {
		if coin(t, 6) {
			s[k] = v
		}
	}
}

// instance draws a value that is likely to fit a schema.
func instance(t *rapid.T, v, root any, depth int) any {
	s, ok := v.(map[string]any)
	if !ok || depth == 0 {
		return scalar(t)
	}
	if ref, ok := s["$ref"].(string); ok {
		target := root
		if name, ok := strings.CutPrefix(ref, "#/$defs/"); ok {
			defs, _ := root.(map[string]any)["$defs"].(map[string]any)
			target = defs[name]
		}
		return instance(t, target, root, depth-1)
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return rapid.SampledFrom(list).Draw(t, "enum")
	}
	if c, ok := s["const"]; ok {
		return c
	}
	var out any
	for _, k := range []string{"anyOf", "oneOf", "allOf"} {
		if list, ok := s[k].([]any); ok && len(list) > 0 {
			out = instance(t, rapid.SampledFrom(list).Draw(t, k), root, depth)
		}
	}
	kind, _ := s["type"].(string)
	if list, ok := s["type"].([]any); ok {
		kind, _ = rapid.SampledFrom(list).Draw(t, "type").(string)
	}
	if kind == "" && s["properties"] != nil {
		kind = "object"
	}
	switch kind {
	case "object":
		return object(t, s, root, out, depth)
	case "array":
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "length") {
			list = append(list, instance(t, s["items"], root, depth-1))
		}
		return list
	case "string":
		return rapid.SampledFrom(strs).Draw(t, "string")
	case "integer", "number":
		return json.Number(rapid.SampledFrom(nums).Draw(t, "number"))
	case "boolean":
		return rapid.Bool().Draw(t, "bool")
	case "null":
		return nil
	}
	if out != nil {
		return out
	}
	return scalar(t)
}

func object(t *rapid.T, s map[string]any, root, with any, depth int) any {
	out := map[string]any{}
	if m, ok := with.(map[string]any); ok {
		maps.Copy(out, m)
	}
	props, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(props)) {
		if slices.Contains(required, any(name)) || coin(t, 2) {
			out[name] = instance(t, props[name], root, depth-1)
		}
	}
	for _, r := range required {
		if _, ok := out[r.(string)]; !ok {
			out[r.(string)] = scalar(t)
		}
	}
	if coin(t, 5) {
		out[rapid.SampledFrom(propNames).Draw(t, "extra")] = scalar(t)
	}
	return out
}

func scalar(t *rapid.T) any {
	return rapid.SampledFrom([]any{"a", "", "5", json.Number("1"), json.Number("2.5"), true, nil, map[string]any{}, []any{}}).Draw(t, "scalar")
}

// S-11: what fitted a branch fits the folded schema.
func TestEveryBranchStillFits_M2_S11(t *testing.T) {
	schema := `{"anyOf":[{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]},{"type":"object","properties":{"source_url":{"type":"string"}},"required":["source_url"]}]}`
	for _, r := range dialect.All() {
		p, err := r.Project("tool", json.RawMessage(schema))
		if r.AllRequired {
			require.ErrorIs(t, err, dialect.ErrNotStrict)
			continue
		}
		require.NoError(t, err)
		for _, witness := range []string{`{"content":"x"}`, `{"source_url":"x"}`} {
			require.NoError(t, validate(compile(t, p.Schema), []byte(witness)), r.Name)
		}
	}
}
