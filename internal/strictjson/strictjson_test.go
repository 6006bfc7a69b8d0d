package strictjson

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRefuses(t *testing.T) {
	for _, row := range []struct{ why, text, says string }{
		{"a repeated name", `{"a":1,"a":2}`, "has a name twice"},
		{"a name that differs in case", `{"x":{"a":1,"A":2}}`, "/x: has a name twice"},
		{"a Kelvin sign is a k", "{\"k\":1,\"\u212a\":2}", "has a name twice"},
		{"invalid UTF-8", "\"\xff\"", "is not UTF-8"},
		{"a NUL", `{"a":["\u0000"]}`, "/a/0: holds a NUL"},
		{"two values", `{}{}`, "goes on"},
		{"cut short", `{"a":[1,`, "is not JSON"},
		{"nothing", ``, "is not JSON"},
		{"too deep", strings.Repeat("[", 70) + strings.Repeat("]", 70), "nested too deeply"},
	} {
		_, err := Parse([]byte(row.text))
		require.ErrorContains(t, err, row.says, row.why)
	}
}

func TestCanonical(t *testing.T) {
	for _, row := range []struct{ why, text, want, says string }{
		{"sorted and compact", `{"b":1.0,"a":[ true, null ]}`, `{"a":[true,null],"b":1}`, ""},
		{"a scalar", `1e2`, `100`, ""},
		{"a string with <", `"<"`, `"<"`, ""},
		{"the last whole number", `[9007199254740992]`, `[9007199254740992]`, ""},
		{"one more", `{"n":[9007199254740993]}`, "", "/n/0: is a number beyond 2^53"},
		{"hidden in an exponent", `[90071992547409930e-1]`, "", "beyond 2^53"},
		{"as a string it is fine", `["9007199254740993"]`, `["9007199254740993"]`, ""},
		{"not finite", `[1e999]`, "", "beyond 2^53"},
	} {
		got, err := Canonical([]byte(row.text))
		if row.says != "" {
			require.ErrorContains(t, err, row.says, row.why)
			continue
		}
		require.NoError(t, err, row.why)
		require.Equal(t, row.want, string(got), row.why)
	}
}

func TestLookup(t *testing.T) {
	v, err := Parse([]byte(`{"a":[{"b/c":"x"}],"":1}`))
	require.NoError(t, err)
	got, ok := Lookup(v, "/a/0/b~1c")
	require.True(t, ok)
	require.Equal(t, "x", got)
	for _, pointer := range []string{"a", "/a/00", "/a/1", "/a/0/b", "/a/-", "/b"} {
		_, ok := Lookup(v, pointer)
		require.False(t, ok, pointer)
	}
	got, ok = Lookup(v, "/")
	require.True(t, ok)
	require.Equal(t, json.Number("1"), got)
}

func TestDigestKeepsBorders(t *testing.T) {
	require.NotEqual(t, Digest("ab", "c"), Digest("a", "bc"))
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5,"x\u2028",null,{"B":true}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, err := Canonical(text)
		if err != nil {
			return
		}
		again, err := Canonical(first)
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	})
}
