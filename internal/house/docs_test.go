package house

import (
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// withoutExample are packages that integrators may import and that are shown by
// the examples of another.
var withoutExample = map[string]string{
	"authz/risk":                        "two enumerations, in every example of package connector",
	"authz/authztest/authserver":        "a server, in the guide on OAuth",
	"connector/cache/generation":        "a store of numbers behind package cache",
	"connector/connectortest/check":     "package connectortest's fixture",
	"connector/connectortest/report":    "made by a flag of package connectortest",
	"authz/connection/connectiontest":   "one call in the test of a store",
	"connector/artifact/artifacttest":   "one call in the test of a store",
	"connector/operation/operationtest": "one call in the test of a store",
	"connector/webhook/webhooktest":     "one call in the test of a store",
	"connector/ingest/ingesttest":       "one call in the test of a store",
	"skill/registry/registrytest":       "one call in the test of a store",
	"sandbox/sandboxtest":               "one call in the test of an executor",
	"sandbox/remote/remotetest":         "one call in the test of a service",
	"authz/authztest":                   "for tests, and in theirs",
	"authz/bearer/bearertest":           "for tests, and in theirs",
	"sandbox/egress/egresstest":         "for tests, and in theirs",
}

// documented says what is wrong with a directory of a package, or "".
func documented(t *testing.T, dir string, needsExample bool) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	text, examples := "", 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		if !strings.HasSuffix(name, "_test.go") {
			text += f.Doc.Text()
			continue
		}
		for _, e := range doc.Examples(f) {
			examples++
			// An output that is not alone in its comment is no output, and the
			// example is not run.
			for _, c := range e.Comments {
				if at := strings.Index(c.Text(), "Output:"); at > 0 && c.Pos() > e.Code.Pos() && c.End() < e.Code.End() {
					return name + ": Example" + e.Name + " has an output that nobody looks at"
				}
			}
		}
	}
	switch {
	case !strings.HasPrefix(text, "Package "):
		return dir + " has no package documentation"
	case len(strings.Fields(text)) < 8:
		return dir + " says too little of itself"
	case needsExample && examples == 0:
		return dir + " has no example"
	}
	return ""
}

// Every package that integrators import says what it is, and shows it.
func TestPackagesAreDocumented(t *testing.T) {
	pkgs := list(t)
	for pkg := range withoutExample {
		require.Contains(t, pkgs, pkg, "there is no such package any more")
	}
	for pkg := range pkgs {
		if strings.HasPrefix(pkg, "examples/") || slices.Contains(strings.Split(pkg, "/"), "internal") {
			continue
		}
		require.Empty(t, documented(t, filepath.Join("..", "..", pkg), withoutExample[pkg] == ""))
	}
}

// The control: what is missing is found.
func TestDocumentationCanBeMissing(t *testing.T) {
	for _, row := range []struct{ why, code, test, says string }{
		{"a package that says nothing", "package x\n", "", "no package documentation"},
		{"one that says next to nothing", "// Package x is x.\npackage x\n", "", "too little"},
		{"one without an example", "// Package x is a package that says at some length what it is for and what it does not do.\npackage x\n", "package x\n", "no example"},
		{"an example whose output is a part of another comment", "// Package x is a package that says at some length what it is for and what it does not do.\npackage x\n",
			"package x\n\nfunc Example() {\n\tprintln()\n\t// and then\n\t// Output:\n\t// one\n}\n", "nobody looks at"},
		{"a package as it has to be", "// Package x is a package that says at some length what it is for and what it does not do.\npackage x\n",
			"package x\n\nfunc Example() {\n\tprintln()\n\t// Output:\n\t// one\n}\n", ""},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x.go"), []byte(row.code), 0o600))
		if row.test != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "x_test.go"), []byte(row.test), 0o600))
		}
		got := documented(t, dir, true)
		if row.says == "" {
			require.Empty(t, got, row.why)
			continue
		}
		require.Contains(t, got, row.says, row.why)
	}
}
