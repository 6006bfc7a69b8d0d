package skills

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/skill"
)

// FuzzEntry holds what a server lists to what an Entry promises: files inside of
// the skill, each with a digest and a size, SKILL.md among them, and one digest
// for one entry.
func FuzzEntry(f *testing.F) {
	digest := string(skill.DigestOf([]byte("x")))
	f.Add("skill://a/pdf/SKILL.md", `{"name":"pdf","description":"d"}`, `[{"uri":"skill://a/pdf/SKILL.md","digest":"`+digest+`","size":1},{"uri":"skill://a/pdf/s/a%20b.py","digest":"`+digest+`","size":2}]`)
	f.Add("skill://a/pdf/SKILL.md", `{"name":"pdf","name":"x"}`, `"dynamic"`)
	f.Add("skill://a/pdf/SKILL.md", `{"name":"pdf","description":"d"}`, `[{"uri":"skill://a/pdf/%2e%2e/x","digest":"`+digest+`","size":1}]`)
	f.Add("skill://a/pdf/SKILL.md", `{"name":"pdf","description":"d"}`, `[{"uri":"skill://a/pdf/SKILL.md","digest":"`+digest+`","size":1e400}]`)
	h := &Host{label: "here"}
	f.Fuzz(func(t *testing.T, uri, front, files string) {
		w := wireEntry{URI: uri, FrontMatter: json.RawMessage(front), Resources: json.RawMessage(files)}
		e, err := h.entry(w)
		if err != nil {
			return
		}
		require.True(t, strings.HasSuffix(e.URI, "/"+e.Name+"/SKILL.md"))
		require.True(t, e.Digest.Valid())
		seen := map[string]bool{}
		for _, file := range e.Files {
			require.True(t, fs.ValidPath(file.Path) && !strings.ContainsAny(file.Path, "\\\x00"), file.Path)
			require.False(t, seen[file.Path], "twice")
			require.True(t, file.Digest.Valid() && file.Size >= 0)
			require.NotEmpty(t, e.uris[file.Path])
			seen[file.Path] = true
		}
		require.True(t, seen["SKILL.md"])
		again, err := h.entry(w)
		require.NoError(t, err)
		require.Equal(t, e.Digest, again.Digest)
	})
}
