package skill

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// BenchmarkCorpus reads and checks real skills (DRAWBRIDGE_DATA), against a bare
// decode of the same front matters:
//
//	go test ./skill -run xxx -bench Corpus
func BenchmarkCorpus(b *testing.B) {
	files := corpus(b)
	var fronts [][]byte
	for _, f := range files {
		if parts := strings.SplitN(string(f.text), "---\n", 3); len(parts) == 3 {
			fronts = append(fronts, []byte(parts[1]))
		}
	}
	require.Greater(b, len(fronts), 1000)
	p := Portable()
	b.Run("parse and check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, f := range files {
				if doc, err := Parse(f.text); err == nil {
					doc.Check(p, f.dir)
				}
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, f := range files {
				_, _ = Parse(f.text)
			}
		}
	})
	b.Run("bare decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, f := range fronts {
				var m map[string]any
				_ = yaml.Unmarshal(f, &m)
			}
		}
	})
}

// What an attacker writes costs what its length says: one megabyte of beginnings
// of links was looked at once for each of them.
func TestHostileText_L1(t *testing.T) {
	for _, row := range []struct{ name, unit string }{
		{"beginnings of links", "](("},
		{"links that do not end", "[a](<"},
		{"definitions", "[a]: x\n"},
		{"backticks", "`](x)"},
		{"fences", "```\n"},
		{"links out of the skill", "[a](../b) "},
	} {
		text := []byte("---\nname: a\ndescription: b\n---\n" + strings.Repeat(row.unit, 1_000_000/len(row.unit)))
		doc, err := Parse(text)
		require.NoError(t, err, row.name)
		_ = doc.Check(Portable(), "a")
	}
}
