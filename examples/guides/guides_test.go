// Package guides holds the guides to what they say: every block of Go, Cedar,
// YAML or JSON in a guide is found in a file beside it, every output in an
// example beside it, every command names packages, tests and flags that exist,
// every name of code is one, and every link leads somewhere.
package guides

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// block is one fenced block of a page.
type block struct {
	lang, text string
	line       int
}

// blocks returns the fenced blocks of a page. Whatever a reader would take for
// code as well is a block without a language, which is refused.
func blocks(page string) (out []block) {
	var b block
	in := false
	for i, line := range strings.Split(page+"\n", "\n") {
		lang, fence := strings.CutPrefix(line, "```")
		switch {
		case !fence && !in && (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t") || strings.HasPrefix(strings.TrimSpace(line), "~~~") || strings.HasPrefix(strings.TrimSpace(line), "```")):
			out = append(out, block{text: line + "\n", line: i + 1})
		case !fence && in:
			b.text += line + "\n"
		case fence && in:
			out, in = append(out, b), false
		case fence:
			b, in = block{lang: strings.TrimSpace(lang), line: i + 1}, true
		}
	}
	if in { // it does not end
		out = append(out, block{text: b.text, line: b.line})
	}
	return out
}

// flat takes the common indentation and the empty lines at the ends away, so
// that a part of a function may be shown.
func flat(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for strings.TrimSpace(text) != "" {
		for _, l := range lines {
			if l != "" && !strings.HasPrefix(l, "\t") {
				return strings.Join(lines, "\n") + "\n"
			}
		}
		for i, l := range lines {
			lines[i] = strings.TrimPrefix(l, "\t")
		}
	}
	return ""
}

// shows reports whether source holds the block as whole lines, at some depth of
// indentation.
func shows(source, want string) bool {
	want = flat(want)
	if strings.TrimSpace(want) == "" {
		return false
	}
	for range 6 {
		if strings.Contains("\n"+source, "\n"+want) {
			return true
		}
		var deeper strings.Builder
		for _, l := range strings.SplitAfter(want, "\n") {
			if l != "" && l != "\n" {
				l = "\t" + l
			}
			deeper.WriteString(l)
		}
		want = deeper.String()
	}
	return false
}

// sources are the files of a guide but for its page, those of Go apart.
func sources(t *testing.T, dir string) (code, rest []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, ".go") {
			code = append(code, string(text))
		} else {
			rest = append(rest, string(text))
		}
		return err
	}))
	return code, rest
}

// outputs are those that the examples of a guide are held to.
func outputs(t *testing.T, dir string) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, e := range doc.Examples(f) {
			out = append(out, e.Output)
		}
	}
	return out
}

// wrong says what is wrong with a block of a guide, or "".
func wrong(t *testing.T, dir string, b block) string {
	t.Helper()
	code, rest := sources(t, dir)
	switch b.lang {
	case "go":
		for _, s := range code {
			if shows(s, b.text) {
				return ""
			}
		}
		return "is in no .go file of " + dir
	case "text":
		for _, o := range outputs(t, dir) {
			if shows(o, b.text) {
				return ""
			}
		}
		return "is the output of no example of " + dir
	case "cedar", "yaml", "json", "sql":
		for _, s := range append(rest, code...) {
			if shows(s, b.text) {
				return ""
			}
		}
		return "is in no file of " + dir
	case "sh":
		for _, l := range strings.Split(strings.Trim(b.text, "\n"), "\n") {
			if says := badCommand(t, l); says != "" {
				return says
			}
		}
		return ""
	}
	return "has the language \"" + b.lang + "\", which nothing checks"
}

var testName = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`)

// badCommand says what is wrong with a line for a shell in the root of the
// repository, or "".
func badCommand(t *testing.T, line string) string {
	t.Helper()
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	if len(words) == 3 && words[0] == "go" && words[1] == "run" && words[2] == "." {
		return "say which program: " + line
	}
	if len(words) < 3 || words[0] != "go" || words[1] != "test" && words[1] != "run" && words[1] != "doc" {
		return "only go test, run and doc can be checked: " + line
	}
	var texts string // of the packages that are named
	var flags []string
	pattern := ""
	for i, w := range words[2:] {
		before := words[i+1]
		switch {
		case strings.HasPrefix(w, "-"):
			flags = append(flags, w)
		case w == "./..." && words[1] == "test":
		case strings.HasPrefix(w, "./"):
			name := strings.TrimSuffix(w, "/...")
			if i := strings.LastIndexByte(name, '.'); i > 0 { // of "./x.Name", which go doc takes
				name = name[:i]
			}
			files, err := filepath.Glob(filepath.Join(root, name, "*.go"))
			require.NoError(t, err)
			if len(files) == 0 {
				return "there is no package " + w
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				require.NoError(t, err)
				texts += string(b)
			}
		case before == "-run":
			pattern = strings.Trim(w, `"`)
		case words[1] == "doc" || strings.HasPrefix(before, "-"):
		default:
			return "what is " + w + "?"
		}
	}
	for _, f := range flags {
		name, _, _ := strings.Cut(strings.TrimLeft(f, "-"), "=")
		known := words[1] == "test" && (name == "run" || name == "v" || name == "count" || name == "race") || words[1] == "doc" && name == "all"
		if !known && !strings.Contains(texts, `"`+name+`"`) && !declared(t, name) {
			return "there is no flag " + f
		}
	}
	if pattern == "" {
		return ""
	}
	re, err := regexp.Compile(strings.Split(pattern, "/")[0])
	if err != nil {
		return err.Error()
	}
	for _, m := range testName.FindAllStringSubmatch(texts, -1) {
		if re.MatchString(m[1]) {
			return ""
		}
	}
	return "no test is called like " + pattern
}

// declared reports whether the contract harness has a flag, which the tests of a
// connector have through it.
func declared(t *testing.T, name string) bool {
	code, _ := sources(t, filepath.Join(root, "connector/connectortest"))
	return strings.HasPrefix(name, "connectortest.") && strings.Contains(strings.Join(code, "\n"), `"`+name+`"`)
}

// pages are those of the guides, but for the index.
func pages(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("*/README.md")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return list
}

// texts are all pages that speak of code.
func texts(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(root + "/internal/*.md")
	require.NoError(t, err)
	return append(append(list, "README.md", root+"/README.md"), pages(t)...)
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(b)
}

func TestGuidesShowWhatIsCompiled(t *testing.T) {
	for _, p := range pages(t) {
		shown := blocks(read(t, p))
		require.NotEmpty(t, shown, p)
		for _, b := range shown {
			require.Empty(t, wrong(t, filepath.Dir(p), b), "%s:%d: the block\n%s", p, b.line, b.text)
		}
	}
}

// The commands that the project's page shows are there as well.
func TestCommandsOfThePageAreThere(t *testing.T) {
	n := 0
	for _, l := range strings.Split(read(t, root+"/README.md"), "\n") {
		if command, ok := strings.CutPrefix(l, "    go "); ok {
			n++
			require.Empty(t, badCommand(t, "go "+command))
		}
	}
	require.GreaterOrEqual(t, n, 3)
}

// A guide is read at one sitting, and is in the index.
func TestGuidesAreShortAndListed(t *testing.T) {
	index := read(t, "README.md")
	for _, p := range pages(t) {
		lines := strings.Count(read(t, p), "\n")
		require.GreaterOrEqual(t, lines, 60, p)
		require.LessOrEqual(t, lines, 150, p)
		require.Contains(t, index, "("+filepath.Dir(p)+")", "the index leads to it")
	}
	require.Contains(t, read(t, root+"/README.md"), "(examples/guides)")
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range texts(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, p), -1) {
			to, _, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") || to == "" {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(p), to))
			require.NoError(t, err, "%s links to %s", p, m[1])
		}
	}
}

// names maps "package.Name" and "package.Type.Member" of everything exported in
// the repository. Packages of one name are one here.
type names struct {
	known    map[string]bool
	packages map[string]bool
	alias    map[string]string // of a type, to the one that it stands for
}

func collect(t *testing.T) *names {
	t.Helper()
	n := &names{map[string]bool{}, map[string]bool{}, map[string]string{}}
	set := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".." && d.Name() != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		n.packages[f.Name.Name] = true
		for _, d := range f.Decls {
			n.add(f.Name.Name, d)
		}
		return nil
	}))
	return n
}

func (n *names) add(pkg string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := pkg + "."
		if d.Recv != nil {
			typ := d.Recv.List[0].Type
			if s, ok := typ.(*ast.StarExpr); ok {
				typ = s.X
			}
			switch g := typ.(type) {
			case *ast.IndexExpr:
				typ = g.X
			case *ast.IndexListExpr:
				typ = g.X
			}
			if id, ok := typ.(*ast.Ident); ok {
				name += id.Name + "."
			}
		}
		n.known[name+d.Name.Name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					n.known[pkg+"."+id.Name] = true
				}
			case *ast.TypeSpec:
				n.typ(pkg+"."+s.Name.Name, s)
			}
		}
	}
}

func (n *names) typ(name string, s *ast.TypeSpec) {
	n.known[name] = true
	var fields *ast.FieldList
	switch x := s.Type.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	case *ast.SelectorExpr:
		if p, ok := x.X.(*ast.Ident); ok {
			n.alias[name] = p.Name + "." + x.Sel.Name
		}
	}
	if fields == nil {
		return
	}
	for _, f := range fields.List {
		for _, id := range f.Names {
			n.known[name+"."+id.Name] = true
		}
	}
}

// has reports whether a name is of the repository, or of a package that is not.
func (n *names) has(name string) bool {
	pkg, rest, _ := strings.Cut(name, ".")
	if !n.packages[pkg] || n.known[name] {
		return true
	}
	typ, member, ok := strings.Cut(rest, ".")
	to := n.alias[pkg+"."+typ]
	return ok && to != "" && n.known[to+"."+member]
}

var codeName = regexp.MustCompile("`[*&]?([a-z][a-z0-9]*(?:\\.[A-Z]\\w*){1,2})(?:\\(\\))?`")

// A name in the text of a page is a name in the code.
func TestNamesAreInTheCode(t *testing.T) {
	n := collect(t)
	for _, name := range []string{"connector.Invoker.Lookup", "connectortest.Fixture.Released", "sqlstore.SQLiteDSN", "http.Client"} {
		require.True(t, n.has(name), "control: %s", name)
	}
	for _, name := range []string{"connector.Invoker.Retry", "connector.Magic", "connectortest.Fixture.Skip"} {
		require.False(t, n.has(name), "control: %s", name)
	}
	for _, p := range texts(t) {
		for _, m := range codeName.FindAllStringSubmatch(read(t, p), -1) {
			require.True(t, n.has(m[1]), "%s names %s, which is not in the code", p, m[1])
		}
	}
}

// The control: what a guide must not say is found.
func TestGuidesCanBeWrong(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\n\nfunc f() {\n\tif true {\n\t\tg()\n\t\th()\n\t}\n}\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x_test.go"), []byte("package x\n\nfunc Example() {\n\tf()\n\t// Output:\n\t// one\n}\n\nfunc Example_idle() {\n\t// It is not run.\n\t// Output:\n\t// three\n}\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.cedar"), []byte("permit(principal, action, resource);\n"), 0o600))
	for _, row := range []struct {
		why, page string
		ok        bool
	}{
		{"two lines of a function, without their indentation", "```go\ng()\nh()\n```", true},
		{"the same with some of it", "```go\n\tg()\n\th()\n```", true},
		{"a call that is not there", "```go\ng()\ni()\n```", false},
		{"a part of a line", "```go\n()\n```", false},
		{"nothing", "```go\n\n```", false},
		{"an output", "```text\none\n```", true},
		{"the output of an example that is not run", "```text\nthree\n```", false},
		{"another output", "```text\ntwo\n```", false},
		{"a policy", "```cedar\npermit(principal, action, resource);\n```", true},
		{"another policy", "```cedar\nforbid(principal, action, resource);\n```", false},
		{"a language that nothing checks", "```python\ng()\n```", false},
		{"a test that is there", "```sh\ngo test ./examples/guides -run GuidesCanBeWrong\n```", true},
		{"a test that is not", "```sh\ngo test ./examples/guides -run TestNothing\n```", false},
		{"a package that is not", "```sh\ngo run ./examples/nothing\n```", false},
		{"a flag that is there", "```sh\ngo run ./internal/bench -rounds 3\n```", true},
		{"a flag that is not", "```sh\ngo run ./internal/bench -fast\n```", false},
		{"a flag of the harness", "```sh\ngo test ./examples/connectors -connectortest.report=DIR\n```", true},
		{"a flag that the harness does not have", "```sh\ngo test ./examples/connectors -connectortest.skip=x\n```", false},
		{"a block that does not end", "```go\ng()\nh()\n", false},
		{"code by indentation", "    g()", false},
		{"another fence", "~~~go", false},
		{"a block in a list", "  ```go", false},
		{"a program that nothing checks", "```sh\ncurl https://example.com | sh\n```", false},
	} {
		b := blocks(row.page)
		require.Len(t, b, 1, row.why)
		require.Equal(t, row.ok, wrong(t, dir, b[0]) == "", "%s: %s", row.why, wrong(t, dir, b[0]))
	}
}
