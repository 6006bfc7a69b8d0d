package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRefuses(t *testing.T) {
	in := func(body string) string { return `{"type":"object","additionalProperties":false,` + body + `}` }
	for _, row := range []struct{ why, schema, says string }{
		{"no JSON", `{`, "is not a schema: json"},
		{"no object", `true`, "want a JSON object"},
		{"a name twice", `{"type":"object","type":"object"}`, "has a name twice"},
		{"another dialect", in(`"$schema":"http://json-schema.org/draft-07/schema#"`), "/$schema: is not https://json-schema.org/draft/2020-12/schema"},
		{"a dialect inside", in(`"properties":{"a":{"type":"string","$schema":"x"}}`), "not a keyword"},
		{"a root that is no object", `{"type":"array","items":{"type":"string"}}`, `want "type": "object" at the root`},
		{"a remote reference", in(`"properties":{"a":{"$ref":"https://example.com/s.json"}}`), "/properties/a/$ref: leads out of the schema"},
		{"a file", in(`"properties":{"a":{"$ref":"other.json#/a"}}`), "leads out of the schema"},
		{"an anchor", in(`"properties":{"a":{"$ref":"#here"}}`), "leads out of the schema"},
		{"a reference to nothing", in(`"properties":{"a":{"$ref":"#/$defs/a"}}`), "leads to nothing"},
		{"a circle", in(`"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"}}},"properties":{"a":{"$ref":"#/$defs/a"}}`), "leads round in a circle"},
		{"the root again", in(`"properties":{"a":{"$ref":"#"}}`), "leads round in a circle"},
		{"a wider circle", in(`"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"a":{"$ref":"#/$defs/a"}}`), "leads round in a circle"},
		{"a keyword of an older draft", in(`"definitions":{}`), "not of JSON Schema 2020-12"},
		{"a keyword that is not enforced", in(`"unevaluatedProperties":false`), "is not supported"},
		{"an identity", in(`"$id":"https://example.com/x"`), "is not supported"},
		{"a misspelling", in(`"propertes":{}`), `"propertes" is not a keyword`},
		{"an unknown type", in(`"properties":{"a":{"type":"text"}}`), "/properties/a/type: want names of JSON types"},
		{"a place without a type", in(`"properties":{"a":{"minLength":1}}`), "/properties/a: does not say its type"},
		{"true", in(`"properties":{"a":true}`), "does not say its type"},
		{"an open object", `{"type":"object"}`, "lets unknown properties through"},
		{"an open object, deep", in(`"properties":{"a":{"type":"array","items":{"type":["object","null"]}}}`), "/properties/a/items: lets unknown properties through"},
		{"an open object in an alternative", in(`"properties":{"a":{"oneOf":[{"type":"string"},{"type":"object"}]}}`), "/properties/a/oneOf/1: lets unknown"},
		{"a map without end", `{"type":"object","additionalProperties":{"type":"string"}}`, "without maxProperties"},
		{"a pattern that Go does not take", in(`"properties":{"a":{"type":"string","pattern":"(?=a)"}}`), "regular expression that Go"},
		{"a pattern that is no string", in(`"properties":{"a":{"type":"string","pattern":1}}`), "regular expression"},
		{"a bound below zero", in(`"minProperties":-1`), "want a whole number, at least 0"},
		{"bounds that cross", in(`"properties":{"a":{"type":"string","minLength":3,"maxLength":2}}`), "asks for at least 3 and at most 2"},
		{"a range that crosses", in(`"properties":{"a":{"type":"integer","minimum":3,"maximum":2}}`), "minimum over its maximum"},
		{"an integer beyond 2^53", in(`"properties":{"a":{"type":"integer","enum":[9007199254740993]}}`), "beyond 2^53"},
		{"a multiple of nothing", in(`"properties":{"a":{"type":"integer","multipleOf":0}}`), "want a number over 0"},
		{"an empty enum", in(`"properties":{"a":{"enum":[]}}`), "list that is not empty"},
		{"required twice", in(`"properties":{"a":{"type":"string"}},"required":["a","a"]`), "each once"},
		{"a default below anyOf", in(`"properties":{"a":{"anyOf":[{"type":"string","default":"x"}]}}`), "default where none is applied"},
		{"a default deep inside that does not fit", in(`"properties":{"a":{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string","default":1}}}}`), "/default: does not fit its own schema: want a string"},
		{"too many schemas", in(`"$defs":{` + doubling(20) + `},"properties":{"a":{"$ref":"#/$defs/d19"}}`), "more than 10000 schemas"},
		{"nesting", strings.Repeat(`{"items":`, 100) + `{}` + strings.Repeat(`}`, 100), "nested too deeply"},
	} {
		_, err := Parse(json.RawMessage(row.schema), true)
		require.ErrorContains(t, err, row.says, row.why)
	}
}

// doubling is a small text that references blow up.
func doubling(n int) string {
	out := `"d0":{"type":"string"}`
	for i := 1; i < n; i++ {
		out += fmt.Sprintf(`,"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i-1, i-1)
	}
	return out
}

func TestParseWritesReferencesOut(t *testing.T) {
	s, err := Parse(json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,
		"$defs":{"id/x":{"type":"string","maxLength":3}},
		"properties":{"a":{"$ref":"#/$defs/id~1x","description":"one"},"b":{"$ref":"#/$defs/id~1x","minLength":2},"c":{"type":"string","enum":["$ref"],"default":"$ref"}}}`), true)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"properties":{
		"a":{"type":"string","maxLength":3,"description":"one"},
		"b":{"allOf":[{"type":"string","maxLength":3}],"minLength":2},
		"c":{"type":"string","enum":["$ref"],"default":"$ref"}}}`, string(s.JSON()))
	_, err = s.Prepare(json.RawMessage(`{"b":"x"}`))
	require.Equal(t, []Problem{problem("/b", "want at least 2 characters, not 1")}, problemsOf(t, err))
	_, err = s.Prepare(json.RawMessage(`{"b":"xxxx"}`))
	require.Equal(t, []Problem{problem("/b", "want at most 3 characters, not 4")}, problemsOf(t, err))
}

// The schema that the first source shows for a search.
func TestParseOfTheSource_S1(t *testing.T) {
	s, err := Parse(json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","minLength":1},
		"page_size":{"type":"integer","minimum":1,"maximum":50},"cursor":{"type":["string","null"]}},
		"required":["query","page_size","cursor"],"additionalProperties":false}`), true)
	require.NoError(t, err)
	got, err := s.Prepare(json.RawMessage(`{"query":"x","page_size":50,"cursor":null}`))
	require.NoError(t, err)
	require.Equal(t, `{"cursor":null,"page_size":50,"query":"x"}`, string(got))
}

func TestFormats(t *testing.T) {
	for _, row := range []struct {
		format string
		good   []string
		bad    []string
	}{
		{"date-time", []string{"2026-04-29T02:35:00Z", "2026-04-29T02:35:00.123+08:00"}, []string{"", "2026-04-29", "2026-04-29T02:35:00", "2026-04-29 02:35:00Z", "2026-02-30T02:35:00Z", "2026-04-29T2:35:00Z", "2026-04-29T02:35:00,5Z", "2026-04-29T02:35:00+99:00"}},
		{"date", []string{"2026-04-29"}, []string{"2026-4-29", "2026-02-30", "29.04.2026"}},
		{"time", []string{"02:35:00Z", "02:35:00.5-03:00"}, []string{"02:35:00", "2:35:00Z", "25:00:00Z", "02:35:00,5Z"}},
		{"uri", []string{"https://example.com/a?b#c", "urn:x:y", "mailto:a@b"}, []string{"", "/a", "example.com", "https://exa mple.com", "http://[::1", "https://x/\u00e4", "https://x/a|b"}},
		{"uri-reference", []string{"/a", "https://x", "?a=b"}, []string{"", "a b", "http://[::1"}},
		{"uuid", []string{"2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2EB8AA08-AA98-11EA-B4AA-73B441D16380"}, []string{"", "2eb8aa08aa9811eab4aa73b441d16380", "{2eb8aa08-aa98-11ea-b4aa-73b441d1638}", "2eb8aa08-aa98-11ea-b4aa-73b441d1638g"}},
		{"email", []string{"ada@example.com", "a.b+c@x.y"}, []string{"", "ada", "Ada <ada@example.com>", "a b@example.com", "a@b@c", "ada@example.com, b@example.com", strings.Repeat("a", 300) + "@b.c"}},
		{"hostname", []string{"a", "www.example.com", "x-1"}, []string{"", "-a", "a-", "a..b", "a_b", strings.Repeat("a", 64)}},
		{"ipv4", []string{"192.0.2.1"}, []string{"192.0.2", "192.0.2.01", "::1", "192.0.2.256"}},
		{"ipv6", []string{"::1", "2001:db8::1"}, []string{"192.0.2.1", "fe80::1%eth0", ":::"}},
	} {
		for _, s := range row.good {
			require.True(t, formats[row.format].valid(s), "%s: %q", row.format, s)
		}
		for _, s := range row.bad {
			require.False(t, formats[row.format].valid(s), "%s: %q", row.format, s)
		}
	}
}

func FuzzParseSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":["string","null"],"pattern":"^a"}}}`), []byte(`{"a":"b"}`))
	f.Add([]byte(`{"type":"object","additionalProperties":false,"properties":{"a":{"anyOf":[{"const":1},{"enum":[2.5]}]}},"not":{"required":["b"]}}`), []byte(`{"a":1}`))
	f.Add([]byte(`{"type":"object","maxProperties":2,"additionalProperties":{"type":"array","items":{"type":"number","multipleOf":0.1},"uniqueItems":true,"contains":{"minimum":3}}}`), []byte(`{"a":[3]}`))
	f.Fuzz(func(t *testing.T, raw, args []byte) {
		s, err := Parse(raw, true)
		if err != nil {
			return
		}
		again, err := Parse(s.JSON(), true)
		require.NoError(t, err, "a schema that was taken is taken again")
		require.Equal(t, string(s.JSON()), string(again.JSON()))
		got, err := s.Prepare(args)
		if err != nil {
			return
		}
		same, err := s.Prepare(got)
		require.NoError(t, err)
		require.Equal(t, string(got), string(same))
	})
}

func FuzzOverlay(f *testing.F) {
	f.Add([]byte(searchOverlay))
	f.Add([]byte(`{"properties":{"filters":{"items":{"properties":{"value":{"minimum":1e3}}}},"labels":{"additionalProperties":{"enum":["a"]}}},"required":[]}`))
	f.Add([]byte(`{"properties":{"query":{"type":["string"],"maxLength":1048576}}}`))
	f.Add([]byte(`{"additionalProperties":null,"properties":null,"type":null}`))
	f.Fuzz(func(t *testing.T, overlay []byte) {
		s, err := inputOf[search](overlay)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		_, err = Parse(s.JSON(), true)
		require.NoError(t, err)
		// Whatever the overlay, no argument that the type lacks gets in.
		_, err = s.Prepare(json.RawMessage(`{"nope":1}`))
		require.Error(t, err)
		for _, args := range []string{`{"query":"a"}`, `{"query":"a","count":2,"labels":{"a":"b"},"filters":[{"field":"f","value":2000}]}`} {
			if got, err := s.Prepare(json.RawMessage(args)); err == nil {
				var in search
				require.NoError(t, Decode(got, &in), "%s", s.JSON())
			}
		}
	})
}
