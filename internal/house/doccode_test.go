package house

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The code in the documentation of these packages is code of their tests: whoever
// copies it has something that compiles. Package connectortest holds its own.
func TestDocumentedCodeCompiles(t *testing.T) {
	for _, pkg := range []string{"connector", "mcpadapter"} {
		var known [][]string
		files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*_test.go"))
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			known = append(known, trimmed(strings.Split(string(text), "\n")))
		}
		doc, err := os.ReadFile(filepath.Join("..", "..", pkg, "doc.go"))
		require.NoError(t, err)
		blocks := codeBlocks(string(doc))
		require.NotEmpty(t, blocks, pkg)
		for _, b := range blocks {
			if !slices.ContainsFunc(known, func(lines []string) bool { return holds(lines, b) }) {
				t.Errorf("%s/doc.go shows code that is in no test of it:\n%s", pkg, strings.Join(b, "\n"))
			}
		}
	}
}

// codeBlocks returns the indented blocks of a package comment, without their
// indentation and without empty lines.
func codeBlocks(doc string) (out [][]string) {
	var block []string
	for line := range strings.Lines(doc) {
		code, ok := strings.CutPrefix(line, "//\t")
		switch {
		case ok:
			block = append(block, code)
		case line != "//\n" && block != nil:
			out, block = append(out, trimmed(block)), nil
		}
	}
	return out
}

func trimmed(lines []string) (out []string) {
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

func holds(lines, block []string) bool {
	for i := range lines {
		if i+len(block) <= len(lines) && slices.Equal(lines[i:i+len(block)], block) {
			return true
		}
	}
	return false
}
