package house

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// requirements are the promises of this SDK by their letter: how many there
// are, and what they are about. A test says in its comment which of them it
// proves.
var requirements = []struct {
	letter string
	count  int
	about  string
}{
	{"R", 11, "what a result says, on every surface"},
	{"E", 7, "what a failure is, and who acts next"},
	{"K", 5, "risk, declarations, manifests, schemas for models"},
	{"A", 9, "who calls, what they may touch, in which order it is asked"},
	{"C", 8, "the accounts that users connect"},
	{"W", 6, "changes: recorded, sent once, looked up"},
	{"P", 6, "pages, limits, caches, events, indexes"},
	{"S", 8, "sandboxes, egress, credentials on the wire"},
	{"L", 6, "skills and what a run was given"},
	{"M", 7, "MCP, function calling, releases"},
	{"T", 4, "the contract harness"},
	{"X", 2, "the incident case"},
}

var requirementID = regexp.MustCompile(`\b[A-Z][0-9]{1,2}\b`)

// tested returns every requirement id that a test file names, and where first.
// This file is left out: it may not be its own witness.
func tested(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(d.Name(), "_test.go") || strings.HasSuffix(path, "house/requirements_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "\nfunc Test") && !strings.Contains(string(text), "\nfunc Fuzz") {
			return err
		}
		for _, id := range requirementID.FindAllString(string(text), -1) {
			if found[id] == "" {
				found[id] = path
			}
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// Every requirement is named by a test, as a word of its own, so that whoever
// changes one finds what proves it.
func TestRequirementsAreNamedByTests(t *testing.T) {
	found := tested(t, filepath.Join("..", ".."))
	for _, r := range requirements {
		for n := 1; n <= r.count; n++ {
			id := fmt.Sprint(r.letter, n)
			require.NotEmpty(t, found[id], "no test names %s (%s)", id, r.about)
		}
	}
}

// The control: ids that no test names are not found, and ids are whole words.
func TestRequirementsCanBeMissing(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	file("a_test.go", "package a\n\n// W3: the receipt is lost.\nfunc TestLost_W4(t *testing.T) {}\n")
	file("b_test.go", "package a\n\n// W1: a helper proves nothing.\nfunc helper() {}\n")
	file("c.go", "package a\n\n// W2: nor does code.\nfunc TestNot() {}\n")
	found := tested(t, dir)
	require.Len(t, found, 1)
	require.Contains(t, found, "W3")
}
