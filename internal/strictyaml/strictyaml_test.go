package strictyaml

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type inner struct {
	Mode string        `yaml:"mode"`
	Wait time.Duration `yaml:"wait"`
}

type outer struct {
	ID      string         `yaml:"id"`
	Version string         `yaml:"version"`
	Auth    *inner         `yaml:"auth"`
	Items   []inner        `yaml:"items"`
	Labels  map[string]int `yaml:"labels"`
	On      bool           `yaml:"on"`
	Size    int            `yaml:"size"`
	At      time.Time      `yaml:"at"`
	Any     any            `yaml:"any"`
	Rate    float64        `yaml:"rate"`
	inner   inner          //lint:ignore U1000 it must not be settable
}

func TestDecode(t *testing.T) {
	var got outer
	require.NoError(t, Decode([]byte("\ufeff# a comment\nid: x\nversion: 1.10\nauth: {mode: m, wait: 30s}\nitems:\n  - mode: a\nlabels: {a: 1}\n\"on\": true\nsize: 3\nat: 2026-04-29T02:35:00Z\nany: [1, {b: c}]\n"), &got))
	require.Equal(t, outer{ID: "x", Version: "1.10", Auth: &inner{"m", 30 * time.Second}, Items: []inner{{Mode: "a"}},
		Labels: map[string]int{"a": 1}, On: true, Size: 3, At: time.Date(2026, 4, 29, 2, 35, 0, 0, time.UTC),
		Any: []any{1, map[string]any{"b": "c"}}}, got)
}

func TestDecodeRefuses(t *testing.T) {
	for _, row := range []struct{ why, text, says string }{
		{"an unknown field, with its line and the known ones", "id: x\nauth:\n  mdoe: x\n", "yaml: line 3: auth.mdoe: is not a field here; the fields are mode, wait"},
		{"an unknown field in a list", "items:\n- mode: a\n- mode: a\n  x: 1\n", "line 4: items[1].x: is not a field"},
		{"a field in other case", "ID: x", "line 1: ID: is not a field"},
		{"a private field", "inner: {}", "inner: is not a field"},
		{"a key twice", "id: x\nid: y", "line 2: id: occurs twice, first on line 1"},
		{"a key twice in a map", "labels:\n  a: 1\n  \"a\": 2", "line 3: labels.a: occurs twice"},
		{"a key twice where anything goes", "any: {a: 1, a: 2}", "any.a: occurs twice"},
		{"an anchor", "id: &a x", "line 1: id: has an anchor"},
		{"an alias", "any: [&a x, *a]", "any[1]: is an alias"},
		{"an anchored key", "&a id: x", "has an anchor"},
		{"an aliased key", "any: {? *a : 1}", "is not YAML"},
		{"a merge key", "auth:\n  <<: {mode: x}", "line 2: auth: has a merge key"},
		{"a quoted merge key", "any: {\"<<\": {}}", "has a merge key"},
		{"a tag of one's own", "id: !secret x", "line 1: id: has a tag"},
		{"a standard tag", "size: !!int 3", "size: has a tag"},
		{"the empty tag makes text of a number", "size: ! 3", "size: want a whole number"},
		{"octal, which readers take for ten or for twelve", "size: 012", "size: want a whole number"},
		{"hexadecimal", "size: 0x1F", "size: want a whole number"},
		{"a number with underscores", "size: 1_000", "size: want a whole number"},
		{"a number that is none", "rate: .nan", "rate: want a number"},
		{"infinity", "rate: -.inf", "rate: want a number"},
		{"bytes in base64", "id: !!binary eA==", "id: has a tag"},
		{"a second document", "id: x\n---\nid: y\n", "second document"},
		{"an empty second document", "id: x\n---\n", "second document"},
		{"nothing", "", "is empty"},
		{"only a comment", "# x\n", "is empty"},
		{"a value left out", "id:\nsize: 1", "line 1: id: has no value"},
		{"null", "id: ~", "id: has no value"},
		{"null where anything goes", "any: [null]", "any[0]: has no value"},
		{"no document at all", "~", "has no value"},
		{"text for a number", "size: many", "line 1: size: want a whole number"},
		{"a fraction for a whole number", "size: 1.5", "size: want a whole number"},
		{"a number that does not fit", "size: 99999999999999999999", "size: want a whole number"},
		{"yes for true", "\"on\": yes", "on: want true or false"},
		{"a bare number for a duration", "auth: {wait: 30}", "auth.wait: want a duration such as 30s"},
		{"a list for text", "id: [x]", "id: want text, not a list"},
		{"a mapping for a list", "items: {a: b}", "items: want a list, not keys"},
		{"text for a mapping", "auth: x", "auth: want keys with values"},
		{"text for everything", "hello", "want keys with values"},
		{"a NUL", "id: x\nsize: \x00", "yaml: line 2: holds a NUL"},
		{"a field in a comment, for who reads it", "id: x # it is\u2028size: 1", "yaml: line 1: holds U+2028"},
		{"the same by another line end", "id: x\n# it is\u0085size: 1", "yaml: line 2: holds U+0085"},
		{"the same by a carriage return", "id: x\n# it is\rsize: 1", "yaml: line 2: holds a carriage return"},
		{"an escaped NUL", `id: "a\0b"`, "id: holds a NUL"},
		{"invalid UTF-8", "id: x\n\nsize: \xff", "yaml: line 3: is not UTF-8"},
		{"UTF-16", "\xff\xfei\x00d\x00", "is not UTF-8"},
		{"too long", "id: x\n#" + strings.Repeat("x", MaxBytes), "is longer than"},
		{"too deep where anything goes", "any: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested too deeply"},
		{"far too deep", "any: " + strings.Repeat("[", 1<<19), "nested too deeply"},
		{"deep blocks", strings.Repeat("? ", 1<<19), "nested too deeply"},
		{"a list as a key", "any: {[a]: b}", "list or a mapping"},
		{"a tab", "id: x\n\tsize: 1", "line 2"},
		{"a type that reads itself", "\nat: yesterday", "yaml: line 2: at: is not a valid time.Time"},
		{"a quote left open", "id: \"x", "is not YAML"},
	} {
		got := outer{ID: "before"}
		err := Decode([]byte(row.text), &got)
		require.ErrorContains(t, err, row.says, row.why)
		_, ok := errors.AsType[*Error](err)
		require.True(t, ok, row.why)
		require.Equal(t, outer{ID: "before"}, got, "unchanged: "+row.why)
	}
}

func TestDecodeReportsAll(t *testing.T) {
	err := Decode([]byte("a: 1\nb: 2\nsize: x\n"), &outer{})
	require.ErrorContains(t, err, "line 1: a:")
	require.ErrorContains(t, err, "line 2: b:")
	require.ErrorContains(t, err, "line 3: size:")
}

func TestDecodeNeverQuotesValues(t *testing.T) {
	for _, text := range []string{"size: s3cr3t", "auth: s3cr3t", "auth: {wait: s3cr3t}", "id: \"s3cr3t", "id: &s3cr3t x\nany: *t", "on: s3cr3t", "any: !t s3cr3t", "at: s3cr3t"} {
		err := Decode([]byte(text), &outer{})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "s3cr3t", text)
	}
}

func TestDecodeInto(t *testing.T) {
	require.ErrorContains(t, Decode([]byte("a: 1"), nil), "want a pointer")
	require.ErrorContains(t, Decode([]byte("a: 1"), outer{}), "want a pointer")
	require.ErrorContains(t, Decode([]byte("a: 1"), (*outer)(nil)), "want a pointer")
}

func TestAt(t *testing.T) {
	text := []byte("id: x\nitems:\n  - mode: a\n  - mode: b\n    wait: 1s\n")
	for _, row := range []struct {
		path string
		line int
	}{{"id", 1}, {"items[1].wait", 5}, {"items[1]", 4}, {"items[7].wait", 3}, {"", 1}, {"nothing", 1}} {
		require.Equal(t, row.line, At(text, row.path, "wrong").Line, row.path)
	}
	require.Equal(t, "yaml: line 5: items[1].wait: is too short", At(text, "items[1].wait", "is too short").Error())
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"id: x\nversion: 1\nauth: {mode: a}\n", "a: &b c\nd: *b", "<<: {}", "--- !x\n...\n---", "any: [[[", "? a\n: b", "%YAML 1.1\n---\na", "id: |\n  x\n", "size: 0x1F"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var a, b outer
		if err := Decode(text, &a); err != nil {
			_, ok := errors.AsType[*Error](err)
			require.True(t, ok)
			require.Equal(t, outer{}, a)
			return
		}
		require.NoError(t, Decode(text, &b))
		require.NotContains(t, a.ID+a.Version, "\x00")
	})
}
