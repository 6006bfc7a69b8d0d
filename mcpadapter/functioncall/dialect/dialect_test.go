package dialect_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter/functioncall/dialect"
)

var update = flag.Bool("update", false, "write the golden files anew")

type row struct {
	Name   string
	Schema json.RawMessage
}

func corpus(t testing.TB) (out []row) {
	t.Helper()
	text, err := os.ReadFile("testdata/schemas.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// golden is what a dialect makes of one schema.
type golden struct {
	Name   string         `json:"name"`
	Schema map[string]any `json:"schema,omitempty"`
	Losses []string       `json:"losses,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// M2: what each vendor gets of each of the schemas of cases S and of the
// specification of MCP, with everything that is lost. Each is a schema also for a
// second implementation.
func TestGolden_M2(t *testing.T) {
	rows := corpus(t)
	require.GreaterOrEqual(t, len(rows), 40)
	for _, r := range dialect.All() {
		t.Run(r.Name, func(t *testing.T) {
			var got []golden
			for _, row := range rows {
				g := golden{Name: row.Name}
				p, err := r.Project("tool", row.Schema)
				if err != nil {
					g.Error = err.Error()
				} else {
					g.Schema = p.Schema
					for _, l := range p.Losses {
						g.Losses = append(g.Losses, string(l.Kind)+" "+l.Path+": "+l.What)
					}
					compile(t, p.Schema)
					legal(t, r, p.Schema, "", false)
				}
				got = append(got, g)
			}
			text, err := json.MarshalIndent(got, "", " ")
			require.NoError(t, err)
			path := filepath.Join("testdata", "golden", r.Name+".json")
			if *update {
				require.NoError(t, os.WriteFile(path, append(text, '\n'), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), string(text)+"\n")
		})
	}
}

// compile reads a schema with a second implementation.
func compile(t testing.TB, schema any) *oracle.Schema {
	t.Helper()
	s, err := compiled(schema)
	require.NoError(t, err)
	return s
}

func compiled(schema any) (*oracle.Schema, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	doc, err := oracle.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := oracle.NewCompiler()
	c.DefaultDraft(oracle.Draft2020)
	if err := c.AddResource("mem:x", unNullable(doc)); err != nil {
		return nil, err
	}
	return c.Compile("mem:x")
}

// unNullable says OpenAPI's nullable in JSON Schema.
func unNullable(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, sub := range v {
			out[k] = unNullable(sub)
		}
		if out["nullable"] != true {
			return out
		}
		delete(out, "nullable")
		return map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}}
	case []any:
		for i := range v {
			v[i] = unNullable(v[i])
		}
	}
	return v
}

// legal walks a projected schema as a vendor would, by the rules alone.
func legal(t testing.TB, r *dialect.Rules, v any, path string, isMap bool) {
	t.Helper()
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	if path == "" {
		require.Equal(t, "object", s["type"], "the root is an object")
		require.NotNil(t, s["properties"], "S-07")
		for _, k := range []string{"anyOf", "oneOf", "allOf", "not", "if", "enum", "const"} {
			require.NotContains(t, s, k, "S-10")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s)) {
		at := path + "/" + k
		if isMap {
			require.True(t, r.Key.Takes(k), "%s: S-13: the name %q", path, k)
			legal(t, r, s[k], at, false)
			continue
		}
		require.NotEqual(t, "$schema", k)
		if r.Keywords != nil && k != "$defs" {
			require.Contains(t, r.Keywords, k, at)
		}
		if r.Formats != nil && k == "format" {
			require.Contains(t, r.Formats, s[k], at)
		}
		switch sub := s[k].(type) {
		case map[string]any:
			legal(t, r, sub, at, k == "properties" || k == "$defs" && r.Key.Max == 0)
		case []any:
			for _, one := range sub {
				if k == "anyOf" || k == "oneOf" || k == "allOf" {
					legal(t, r, one, at, false)
				}
			}
		}
	}
	if !isMap {
		legalNode(t, r, s, path)
	}
}

func legalNode(t testing.TB, r *dialect.Rules, s map[string]any, path string) {
	t.Helper()
	_, isObject := s["properties"].(map[string]any)
	if r.AllRequired && isObject {
		require.Equal(t, false, s["additionalProperties"], "%s: S-09", path)
		props := s["properties"].(map[string]any)
		require.Len(t, s["required"], len(props), "%s: S-25", path)
	}
	if !r.OpenAPI {
		return
	}
	kind, one := s["type"].(string)
	if _, ok := s["anyOf"]; ok {
		require.Len(t, s, 1, "%s: S-18: anyOf stands alone", path)
		return
	}
	require.True(t, one, "%s: S-17: one type", path)
	if _, ok := s["enum"]; ok {
		require.Equal(t, "string", kind, "%s: S-15", path)
		for _, v := range s["enum"].([]any) {
			require.NotEmpty(t, v, "%s: S-15", path)
		}
	}
	require.True(t, !isObject || kind == "object", "%s: S-19", path)
	if kind == "object" && path != "" {
		require.NotEmpty(t, s["properties"], "%s: an object has properties", path)
	}
	if kind == "array" {
		require.NotNil(t, s["items"], "%s: an array has items", path)
	}
}

func name(parts ...string) string { return strings.Join(parts, " ") }

// What the dialects take for a name of a function, and what becomes of one that
// they do not take: never the name of another (S-01, S-02, S-03, S-05, S-06).
func TestNames_M2_S06(t *testing.T) {
	long := strings.Repeat("mcp_long_server_name_", 5)
	names := []string{"1st_tool", "a.b", "a/b", "ünï", "UPPER-case_1", // S-06
		"calendar.respondToEvent",        // S-01: a dot
		"mcp/context7/query-docs",        // S-02: a separator of somebody's
		"example.com_-_query",            // S-02: a host's name before it
		"catalog.query", "catalog_query", // S-03: alike, if signs are replaced alike
		long + "list", long + "list_all", // S-05: alike, if they are cut
		strings.Repeat("x", 65), strings.Repeat("x", 128), "日本", "日本語", "---", "_", " "}
	for _, r := range dialect.All() {
		got, err := r.Names(names)
		require.NoError(t, err, r.Name)
		seen := map[string]string{}
		for _, n := range names {
			require.True(t, r.Tool.Takes(got[n]), "%s: %q became %q", r.Name, n, got[n])
			require.Empty(t, seen[got[n]], "%s: %q", r.Name, n)
			seen[got[n]] = n
			if r.Tool.Takes(n) {
				require.Equal(t, n, got[n], "a name that is taken stays")
			}
		}
		_, err = r.Names([]string{"a.b", "a.b"})
		if r.Tool.Takes("a.b") {
			require.ErrorContains(t, err, `"a.b" cannot be told from "a.b"`)
		} else {
			require.Error(t, err)
		}
		replacement := r.Tool.Replace("a/b")
		_, err = r.Names([]string{"a/b", replacement})
		require.ErrorContains(t, err, "cannot be told from", "a replacement that is somebody's name")
		require.False(t, r.Tool.Takes(""), r.Name)
	}
	takes := map[string][3]bool{ // OpenAI, Anthropic, Gemini
		"1st_tool":              {true, true, false},
		"a.b":                   {false, false, true},
		"a/b":                   {false, false, false},
		"ünï":                   {false, false, false},
		"UPPER-case_1":          {true, true, true},
		strings.Repeat("x", 65): {false, false, false},
		strings.Repeat("x", 64): {true, true, true},
	}
	for n, want := range takes {
		got := [3]bool{dialect.OpenAI.Tool.Takes(n), dialect.Anthropic.Tool.Takes(n), dialect.Gemini.Tool.Takes(n)}
		require.Equal(t, want, got, n)
	}
}

// S-27: a description that is too long is cut between characters, and one that is
// needed is there.
func TestDescriptions_M2_S27(t *testing.T) {
	for _, r := range dialect.All() {
		got, losses := r.Describe("tool", strings.Repeat("é", 2780))
		if r.MaxDescription == 0 {
			require.Empty(t, losses)
			require.Len(t, []rune(got), 2780)
		} else {
			require.Len(t, []rune(got), r.MaxDescription)
			require.True(t, strings.HasSuffix(got, "é…"))
			require.Equal(t, dialect.Annotation, losses[0].Kind)
		}
		got, _ = r.Describe("tool", "")
		require.Equal(t, r.NeedsDescription, got != "", r.Name)
		require.NotEmpty(t, r.Date)
		require.True(t, strings.HasPrefix(r.Source, "https://"))
	}
}

// What a model writes for a projected schema, and what the capability gets.
func TestBack_M2(t *testing.T) {
	rows := map[string]struct {
		rules         *dialect.Rules
		schema        string
		written, want string
	}{
		"S-13: names of properties are put back, deep down too": {dialect.Anthropic,
			`{"type":"object","properties":{"$top":{"type":"integer"},"o":{"type":"object","properties":{"a[]":{"type":"string"}}}}}`,
			`{"KEY($top)":5,"o":{"KEY(a[])":"x"}}`, `{"$top":5,"o":{"a[]":"x"}}`},
		"S-13: a name that nothing was made of stays": {dialect.Anthropic,
			`{"type":"object","properties":{"$top":{"type":"integer"}}}`, `{"other":5}`, `{"other":5}`},
		"S-25: null for what was optional is left out": {dialect.OpenAIStrict,
			`{"type":"object","properties":{"n":{"type":"integer"},"m":{"type":["integer","null"]},"r":{"type":"string"}},"required":["r"],"additionalProperties":false}`,
			`{"n":null,"m":null,"r":null}`, `{"m":null,"r":null}`},
		"S-25: in a recursive definition too": {dialect.OpenAIStrict,
			`{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"required":["n"],"additionalProperties":false,"$defs":{"N":{"type":"object","properties":{"v":{"type":"string"},"next":{"$ref":"#/$defs/N"}},"additionalProperties":false}}}`,
			`{"n":{"v":null,"next":{"v":"x","next":null}}}`, `{"n":{"next":{"v":"x"}}}`},
		"S-15: an integer stays one, though its enum is gone": {dialect.Gemini,
			`{"type":"object","properties":{"n":{"type":"integer","enum":[1,2]}}}`, `{"n":2}`, `{"n":2}`},
		"an object that was asked for as JSON": {dialect.Gemini,
			`{"type":"object","properties":{"m":{"type":"object","additionalProperties":true}}}`, `{"m":"{\"a\":[1]}"}`, `{"m":{"a":[1]}}`},
		"a value of any type":        {dialect.Gemini, `{"type":"object","properties":{"v":{}}}`, `{"v":"[1,null]"}`, `{"v":[1,null]}`},
		"text that is no JSON stays": {dialect.Gemini, `{"type":"object","properties":{"v":{}}}`, `{"v":"hello"}`, `{"v":"hello"}`},
		"a string where an object was asked for stays": {dialect.Gemini,
			`{"type":"object","properties":{"m":{"type":"object"}}}`, `{"m":"5"}`, `{"m":"5"}`},
		"T-10: a big integer is not rounded": {dialect.Anthropic,
			`{"type":"object","properties":{"$id2":{"type":"integer"}}}`, `{"KEY($id2)":9007199254740993}`, `{"$id2":9007199254740993}`},
		"T-10: nor is a number's form changed": {dialect.Anthropic,
			`{"type":"object","properties":{"$x":{"type":"number"}}}`, `{"KEY($x)":1.0e2}`, `{"$x":1.0e2}`},
		"what is no JSON is left for others to refuse": {dialect.Anthropic, `{"type":"object","properties":{"$x":{}}}`, `{"a":`, `{"a":`},
	}
	for what, row := range rows {
		t.Run(what, func(t *testing.T) {
			p, err := row.rules.Project("tool", json.RawMessage(row.schema))
			require.NoError(t, err)
			written := row.written
			for _, key := range []string{"$top", "a[]", "$id2", "$x"} {
				written = strings.ReplaceAll(written, "KEY("+key+")", row.rules.Key.Replace(key))
			}
			got, err := p.Back(json.RawMessage(written))
			require.NoError(t, err)
			require.Equal(t, row.want, string(got))
		})
	}
	p, err := dialect.Anthropic.Project("tool", json.RawMessage(`{"type":"object","properties":{"$top":{"type":"integer"}}}`))
	require.NoError(t, err)
	_, err = p.Back(json.RawMessage(fmt.Sprintf(`{"$top":1,%q:2}`, dialect.Anthropic.Key.Replace("$top"))))
	require.ErrorContains(t, err, "twice")
}

// S-21: whatever a schema unfolds to, there is an end, and it is an error.
func TestHostileSchemas_M2_S21(t *testing.T) {
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 100) + `{"type":"string"}` + strings.Repeat(`}}`, 100)
	var bomb strings.Builder // each definition has two of the next
	bomb.WriteString(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&bomb, `"d%d":{"type":"object","properties":{"l":{"$ref":"#/$defs/d%d"},"r":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	bomb.WriteString(`"d40":{"type":"string"}}}`)
	wide := `{"type":"object","properties":{"a":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{` +
		strings.Repeat(`"x":1,`, 0) + manyRefs(60) + `}}}}`
	rows := map[string]string{
		"too deep":                     deep,
		"a bomb":                       bomb.String(),
		"recursive in many ways":       wide,
		"a dynamic reference":          `{"type":"object","properties":{"a":{"$dynamicRef":"#x"}}}`,
		"a reference that is a number": `{"type":"object","properties":{"a":{"$ref":7}}}`,
		"nothing fits":                 `{"type":"object","allOf":[false]}`,
		"no object among the branches": `{"anyOf":[{"type":"string"}]}`,
		"branches that are no list":    `{"type":"object","anyOf":{}}`,
		"an empty anyOf":               `{"type":"object","properties":{"a":{"anyOf":[]}}}`,
		"required that is no list":     `{"type":"object","properties":{"a":{"type":"object","required":"x","properties":{"x":{"type":"string"}}}}}`,
		"a schema that is a list":      `{"type":"object","properties":{"a":[]}}`,
		"an exponent without end":      `{"type":"object","properties":{"a":{"type":"integer","exclusiveMinimum":1e999999999}}}`,
		"S-31: no schema at all":       ``,
		"null":                         `null`,
		"no JSON":                      `{`,
		"two values":                   `{} {}`,
	}
	fits := map[string]bool{"an exponent without end": true, "required that is no list": true, "recursive in many ways": true} // somewhere
	for what, schema := range rows {
		for _, r := range dialect.All() {
			p, err := r.Project("tool", json.RawMessage(schema))
			if fits[what] && err == nil {
				continue
			}
			require.Error(t, err, name(what, r.Name))
			require.Nil(t, p)
		}
	}
}

func manyRefs(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/N"}`, i))
	}
	return strings.Join(out, ",")
}

// No schema makes the projection panic, and what it returns is what the vendor takes.
func FuzzProject(f *testing.F) {
	for _, row := range corpus(f) {
		f.Add([]byte(row.Schema), []byte(`{"a":null}`))
	}
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		for _, r := range dialect.All() {
			p, err := r.Project("tool", schema)
			if err != nil {
				continue
			}
			legal(t, r, p.Schema, "", false)
			_, _ = p.Back(args)
		}
	})
}
