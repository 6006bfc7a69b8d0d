package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawSchema draws a schema of everything that this package enforces, but for
// formats, which the other validators read in their own ways or not at all.
func drawSchema(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if depth <= 0 {
		kind %= 6
	}
	small := func() int { return rapid.IntRange(0, 3).Draw(t, "n") }
	sub := func() any { return drawSchema(t, depth-1) }
	maybe := func(s object, k string, v func() any) {
		if rapid.Bool().Draw(t, k) {
			s[k] = v()
		}
	}
	switch kind {
	case 0:
		return rapid.Bool().Draw(t, "b")
	case 1:
		return object{"type": rapid.SampledFrom([]any{"null", "boolean", "integer", "number", "string", []any{"string", "null"}, []any{"integer", "array"}}).Draw(t, "type")}
	case 2:
		return object{"enum": []any{drawValue(t, 1), drawValue(t, 1)}}
	case 3:
		return object{"const": drawValue(t, 1)}
	case 4:
		s := object{}
		for _, k := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
			maybe(s, k, func() any { return rapid.SampledFrom([]float64{-1, 0, 0.5, 2, 10}).Draw(t, k) })
		}
		maybe(s, "multipleOf", func() any { return rapid.SampledFrom([]float64{0.5, 1, 2, 3}).Draw(t, "m") })
		return s
	case 5:
		s := object{}
		maybe(s, "minLength", func() any { return small() })
		maybe(s, "maxLength", func() any { return small() })
		maybe(s, "pattern", func() any { return rapid.SampledFrom([]string{"^a", "b$", "ä", "^[a-c]*$"}).Draw(t, "p") })
		return s
	case 6, 7:
		s := object{"properties": object{"a": sub(), "b": sub()}}
		maybe(s, "required", func() any { return []any{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "r")} })
		maybe(s, "additionalProperties", sub)
		maybe(s, "patternProperties", func() any { return object{"^a": sub()} })
		maybe(s, "propertyNames", func() any { return object{"maxLength": 1 + small()} })
		maybe(s, "minProperties", func() any { return small() })
		maybe(s, "maxProperties", func() any { return small() })
		maybe(s, "dependentRequired", func() any { return object{"a": []any{"b"}} })
		maybe(s, "dependentSchemas", func() any { return object{"b": sub()} })
		return s
	case 8:
		s := object{"items": sub()}
		maybe(s, "prefixItems", func() any { return []any{sub(), sub()} })
		maybe(s, "minItems", func() any { return small() })
		maybe(s, "maxItems", func() any { return small() })
		maybe(s, "uniqueItems", func() any { return rapid.Bool().Draw(t, "u") })
		maybe(s, "contains", sub)
		if s["contains"] != nil {
			maybe(s, "minContains", func() any { return small() })
			maybe(s, "maxContains", func() any { return small() })
		}
		return s
	}
	s := object{}
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		maybe(s, k, func() any { return []any{sub(), sub()} })
	}
	maybe(s, "not", sub)
	maybe(s, "if", sub)
	maybe(s, "then", sub)
	maybe(s, "else", sub)
	return s
}

func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 6).Draw(t, "v")
	if depth <= 0 {
		kind %= 5
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "b")
	case 2:
		return rapid.SampledFrom([]float64{-1, 0, 0.5, 1, 1.5, 2, 3, 10, 11}).Draw(t, "n")
	case 3, 4:
		return rapid.SampledFrom([]string{"", "a", "ab", "äö", "b", "abcd", "1"}).Draw(t, "s")
	case 5:
		var l []any
		for range rapid.IntRange(0, 3).Draw(t, "len") {
			l = append(l, drawValue(t, depth-1))
		}
		if l == nil {
			l = []any{}
		}
		return l
	}
	o := object{}
	for _, k := range []string{"a", "b", "c", "ab"} {
		if rapid.Bool().Draw(t, k) {
			o[k] = drawValue(t, depth-1)
		}
	}
	return o
}

// Three validators, one verdict: ours, jsonschema-go, santhosh-tekuri.
func TestAgreesWithOthers(t *testing.T) {
	checked, valid := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		root, ok := drawSchema(t, 3).(object)
		if !ok {
			return
		}
		text, err := json.Marshal(root)
		require.NoError(t, err)
		s, err := Parse(text, false)
		if err != nil {
			// Refused on purpose: bounds that cross, an enum that its own
			// schema refuses.
			return
		}
		var js jsonschema.Schema
		require.NoError(t, json.Unmarshal(text, &js))
		second, err := js.Resolve(nil)
		require.NoError(t, err)
		third := santhoshOf(t, text)
		for range 5 {
			value := drawValue(t, 3)
			data, err := json.Marshal(value)
			require.NoError(t, err)
			ours := s.Check(data) == nil
			require.Equal(t, third.Validate(value) == nil, ours, "santhosh-tekuri: %s of %s", data, text)
			require.Equal(t, second.Validate(value) == nil, ours, "jsonschema-go: %s of %s", data, text)
			checked++
			if ours {
				valid++
			}
		}
	})
	require.Greater(t, valid, checked/20, "the draw hits both sides")
	require.Less(t, valid, checked*19/20)
}

func santhoshOf(t require.TestingT, text []byte) *santhosh.Schema {
	doc, err := santhosh.UnmarshalJSON(strings.NewReader(string(text)))
	require.NoError(t, err)
	c := santhosh.NewCompiler()
	c.DefaultDraft(santhosh.Draft2020)
	require.NoError(t, c.AddResource("mem:///s.json", doc))
	s, err := c.Compile("mem:///s.json")
	require.NoError(t, err, "%s", text)
	return s
}

// What is inferred from types reads alike everywhere, formats aside.
func TestInferredAgreesWithOthers(t *testing.T) {
	s, err := inputOf[search]([]byte(strings.ReplaceAll(searchOverlay, `"format"`, `"$comment"`)))
	require.NoError(t, err)
	third := santhoshOf(t, s.JSON())
	rapid.Check(t, func(t *rapid.T) {
		args := object{"query": "a"}
		for _, k := range []string{"query", "state", "count", "tags", "labels", "filters", "nope", "since"} {
			if rapid.IntRange(0, 2).Draw(t, k) == 0 {
				args[k] = drawValue(t, 3)
			}
		}
		if rapid.Bool().Draw(t, "good") {
			args["count"], args["tags"], args["filters"] = 7.0, []any{"ab"}, []any{object{"field": "a", "value": 1.5}}
		}
		data, err := json.Marshal(args)
		require.NoError(t, err)
		_, err = s.Prepare(data)
		require.Equal(t, third.Validate(map[string]any(args)) == nil, err == nil, "%s: %v", data, err)
	})
}

func ExampleSchema_Prepare() {
	type In struct {
		Query string `json:"query"`
		Days  int    `json:"days"`
	}
	s, err := Input(reflect.TypeFor[In](), &Options{
		Overlay: json.RawMessage(`{"properties":{"days":{"minimum":1,"maximum":31,"default":7}}}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	args, err := s.Prepare(json.RawMessage(`{ "query": "disk" }`))
	fmt.Println(string(args), err)
	_, err = s.Prepare(json.RawMessage(`{"query": "disk", "days": 40}`))
	fmt.Println(problemOf(err))
	// Output:
	// {"days":7,"query":"disk"} <nil>
	// /days: want a number from 1 to 31
}
