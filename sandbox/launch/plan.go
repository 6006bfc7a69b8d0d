package launch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Plan is what would run, as it was found. It is immutable and safe for
// concurrent use.
type Plan struct {
	facts    facts
	command  sandbox.Command
	warnings []string
	print    string
	shebang  []string // of the executable
}

// facts are what the fingerprint covers.
type facts struct {
	Name    string   `json:"name"`
	Path    string   `json:"path"` // canonical
	Written string   `json:"written"`
	Args    []string `json:"args"`
	Dir     string   `json:"dir"`
	Env     []string `json:"env"`
	Files   []pinned `json:"files"`
	Loose   []string `json:"loose"`
	Mutable string   `json:"mutable"`
	Reasons []string `json:"reasons"` // why it is mutable
	Rules   string   `json:"rules"`
}

type pinned struct {
	Path   string `json:"path"`
	Digest string `json:"digest"`
	Role   string `json:"role"`
}

// Inspect finds what a specification would run under the rules, and hashes it.
// It starts nothing. The error says all that is wrong; for a launch that is
// refused because its code can change, the reasons are in it, and toolresult's
// code is PERMISSION_DENIED.
func Inspect(s *Spec, rules *sandbox.Rules) (*Plan, error) {
	if err := errors.Join(s.check(), rules.Check()); err != nil {
		return nil, err
	}
	if err := s.within(rules); err != nil {
		return nil, err
	}
	p := &Plan{facts: facts{
		Name: s.Name, Written: s.Path, Args: slices.Clone(s.Args), Dir: cmp.Or(s.Dir, rules.Workspace),
		Env: slices.Sorted(slices.Values(s.Env)), Loose: slices.Sorted(slices.Values(s.Loose)), Mutable: s.Mutable, Rules: rules.Digest(),
	}}
	script, err := p.find(s, rules)
	if err != nil {
		return nil, err
	}
	if p.facts.Reasons = mutable(p.programs(s, script), s.Env); len(p.facts.Reasons) > 0 && s.Mutable == "" {
		return nil, refused(p.facts.Reasons)
	}
	return p.seal(script)
}

func refused(why []string) error {
	text := strings.Join(why, "; ")
	return fmt.Errorf("launch: what would run is decided when it starts: %s; name a program and a script that can be hashed, or say in Mutable why this is acceptable: %w",
		text, toolresult.NewError(toolresult.PermissionDenied, "the code of the launch is not fixed").With("/path", text))
}

// programs are all that decide what runs: the executable with the arguments,
// the interpreter of its first line, which is given the executable, and the
// script, by its name.
func (p *Plan) programs(s *Spec, script string) []program {
	list := []program{{names: []string{s.Path, p.facts.Path}, args: s.Args, script: script}}
	if len(p.shebang) > 0 {
		found, _ := filepath.EvalSymlinks(p.shebang[0])
		list = append(list, program{names: []string{p.shebang[0], found}, args: append(slices.Clone(p.shebang[1:]), s.Path), script: s.Path})
	}
	for _, f := range p.facts.Files {
		if f.Role == "script" {
			list = append(list, program{names: []string{script, f.Path}, args: s.Args})
		}
	}
	return list
}

// find pins the executable and the files that it is told to run. It returns the
// argument that is the script of an interpreter, if there is one.
func (p *Plan) find(s *Spec, rules *sandbox.Rules) (script string, err error) {
	head, err := p.pin(s.Path, "executable", rules)
	if err != nil {
		return "", err
	}
	p.facts.Path = p.facts.Files[0].Path
	if err := p.interpreter(head, rules); err != nil {
		return "", err
	}
	for i, a := range s.Args {
		name, ok := p.names(a, s.Loose)
		if !ok {
			continue
		}
		role := "file"
		if script == "" && !strings.HasPrefix(a, "-") {
			role, script = "script", a
		}
		if _, err := p.pin(name, role, rules); err != nil {
			return "", fmt.Errorf("argument %d: %w; list it in Loose if its contents may change", i, err)
		}
	}
	for _, f := range s.Files {
		if _, err := p.pin(f, "file", rules); err != nil {
			return "", err
		}
	}
	return script, nil
}

// interpreter pins the program that the first line of a script names.
func (p *Plan) interpreter(head []byte, rules *sandbox.Rules) error {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	rest, ok := bytes.CutPrefix(line, []byte("#!"))
	if !ok {
		return nil
	}
	fields := strings.Fields(string(rest))
	if len(fields) == 0 || !filepath.IsAbs(fields[0]) {
		return invalid("/path", "is a script whose first line names no absolute interpreter")
	}
	if base(fields[0]) == "env" {
		return invalid("/path", "is a script whose interpreter is searched for by env: name the interpreter as the path, and the script as its argument")
	}
	p.shebang = fields
	head, err := p.pin(fields[0], "interpreter", rules)
	if err == nil && bytes.HasPrefix(head, []byte("#!")) {
		return invalid("/path", "is a script whose interpreter is a script")
	}
	return err
}

// names returns the file that an argument names, whole or behind "=".
func (p *Plan) names(arg string, loose []string) (string, bool) {
	if slices.Contains(loose, arg) || arg == "" {
		return "", false
	}
	_, value, _ := strings.Cut(arg, "=")
	for _, name := range []string{arg, value} {
		if name == "" {
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.facts.Dir, name)
		}
		if info, err := os.Stat(name); err == nil && !info.IsDir() {
			return name, true
		}
	}
	return "", false
}

const maxHashed = 1 << 30

// pin hashes a file under its canonical name, and returns how it begins.
func (p *Plan) pin(name, role string, rules *sandbox.Rules) ([]byte, error) {
	full, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, invalid("/"+role, "cannot be made canonical: "+reason(err))
	}
	if h := hidden(full); h != "" {
		return nil, invalid("/"+role, "leads to a name with what nobody would see: "+h)
	}
	if rules.Decide(sandbox.Op{Kind: sandbox.OpWrite, Target: full}).Allowed || slices.ContainsFunc(rules.Write, func(w string) bool { return sandbox.Within(w, full) }) {
		return nil, invalid("/"+role, "lies in what the rules permit the program to write: "+quote(full))
	}
	sum, head, err := hash(full)
	if err != nil {
		return nil, invalid("/"+role, reason(err))
	}
	if !slices.ContainsFunc(p.facts.Files, func(f pinned) bool { return f.Path == full }) {
		p.facts.Files = append(p.facts.Files, pinned{full, sum, role})
	}
	return head, nil
}

func hash(name string) (sum string, head []byte, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0) // a pipe in the file's place would block
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", nil, err
	case !info.Mode().IsRegular():
		return "", nil, errors.New("is no regular file")
	case info.Size() > maxHashed:
		return "", nil, errors.New("is larger than 1 GiB")
	}
	h := sha256.New()
	var start bytes.Buffer
	if _, err = io.CopyN(&start, f, 512); err != nil && err != io.EOF {
		return "", nil, err
	}
	h.Write(start.Bytes())
	if _, err = io.Copy(h, io.LimitReader(f, maxHashed)); err != nil {
		return "", nil, err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), start.Bytes(), nil
}

// reason leaves out the name that an error of the system repeats raw.
func reason(err error) string {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Op + ": " + e.Err.Error()
	}
	return err.Error()
}

func (p *Plan) seal(script string) (*Plan, error) {
	text, err := json.Marshal(p.facts)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", toolresult.NewError(toolresult.Internal, "a plan cannot be written"))
	}
	p.print = strictjson.Digest("drawbridge launch 1", string(text))
	p.command = sandbox.Command{Path: p.facts.Path, Args: p.facts.Args, Dir: p.facts.Dir}
	for _, f := range p.facts.Files {
		p.command.Pins = append(p.command.Pins, sandbox.Pin{Path: f.Path, Digest: f.Digest})
	}
	for _, r := range p.facts.Reasons {
		p.warnings = append(p.warnings, "not fixed: "+r)
	}
	for _, l := range p.facts.Loose {
		p.warnings = append(p.warnings, "may change: "+quote(l))
	}
	if script != "" || len(p.facts.Files) > 1 {
		p.warnings = append(p.warnings, "what the script loads besides the files below is bounded by the rules only")
	}
	return p, nil
}

// Fingerprint is "sha256:..." over everything that the package promises to fix.
func (p *Plan) Fingerprint() string { return p.print }

// Warnings are what an approval does not fix, one a line, for people.
func (p *Plan) Warnings() []string { return slices.Clone(p.warnings) }

// Text shows all of it, one fact a line, in visible ASCII: every argument whole
// and quoted, every other character as an escape. It begins with the warnings.
func (p *Plan) Text() string {
	var b strings.Builder
	for _, w := range p.warnings {
		fmt.Fprintf(&b, "WARNING %s\n", ascii(w))
	}
	f := &p.facts
	fmt.Fprintf(&b, "name      %s\nprogram   %s\n", f.Name, quote(f.Path))
	if f.Written != f.Path {
		fmt.Fprintf(&b, "written   %s\n", quote(f.Written))
	}
	for i, a := range f.Args {
		fmt.Fprintf(&b, "arg %-5d %s\n", i, quote(a))
	}
	fmt.Fprintf(&b, "arguments %d\ndirectory %s\n", len(f.Args), quote(f.Dir))
	for _, e := range f.Env {
		fmt.Fprintf(&b, "variable  %s\n", quote(e))
	}
	for _, x := range f.Files {
		fmt.Fprintf(&b, "%-9s %s %s\n", x.Role, x.Digest, quote(x.Path))
	}
	if f.Mutable != "" {
		fmt.Fprintf(&b, "accepted  %s\n", quote(f.Mutable))
	}
	fmt.Fprintf(&b, "rules     %s\nthis is   %s\n", f.Rules, p.print)
	return b.String()
}

func quote(s string) string { return strconv.QuoteToASCII(s) }

func ascii(s string) string {
	q := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
