package skill

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Limits bound a package. Zero fields take the value in the comment; there is
// no way to say unlimited.
type Limits struct {
	Files int   // 512, as hosts of MCP take (SEP-2640)
	Bytes int64 // 16 MiB, of all files together
	Depth int   // 8, directories below the skill's, and the file
}

func (l *Limits) orDefaults() Limits {
	out := Limits{512, 16 << 20, 8}
	if l != nil {
		out = Limits{cmp.Or(max(l.Files, 0), out.Files), cmp.Or(max(l.Bytes, 0), out.Bytes), cmp.Or(max(l.Depth, 0), out.Depth)}
	}
	return out
}

// entries bounds files and directories together.
func (l Limits) entries() int { return 2 * l.Files }

// PathError says which file of a directory or an archive cannot be packed. It
// matches [toolresult.InvalidInput].
type PathError struct {
	Path string // as found; may hold anything
	Text string // what is wrong
	Err  error  // of the system, or nil
}

// Error returns one line; the path is quoted and cut.
func (e *PathError) Error() string {
	s := "skill: "
	if e.Path != "" {
		s += quote(e.Path) + " "
	}
	s += e.Text
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the code, and the system's error if there is one.
func (e *PathError) Unwrap() []error {
	if e.Err == nil {
		return []error{toolresult.InvalidInput}
	}
	return []error{toolresult.InvalidInput, e.Err}
}

// MismatchError says that a package is not the one that was pinned. It matches
// [toolresult.Conflict].
type MismatchError struct {
	Want, Got Digest
	Changes   []Change // if the pinned manifest is known
}

// Error returns both digests and the first changes.
func (e *MismatchError) Error() string {
	s := fmt.Sprintf("skill: the package is %s and not %s, which was pinned", e.Got, e.Want)
	for i, c := range e.Changes {
		if i == 5 {
			return s + fmt.Sprintf("; and %d more", len(e.Changes)-i)
		}
		s += "; " + quote(c.Path) + ": " + c.What
	}
	return s
}

// Unwrap returns the code.
func (e *MismatchError) Unwrap() error { return toolresult.Conflict }

// Package is a skill's whole directory as it was when it was read. It is
// immutable and safe for concurrent use. It holds every byte in memory.
type Package struct {
	name     string
	doc      *Document
	manifest Manifest
	digest   Digest
	content  map[string][]byte
}

// Open reads the skill in a directory, which root confines it to. The error is
// a [*PathError] for what cannot be packed, an [*Invalid] for a SKILL.md that
// cannot be read, or the system's. opts may be nil.
//
// The executable bits are those of the file system: on one that has none, a
// package has another digest than where it was made. Move packages as archives.
func Open(root *os.Root, limits *Limits) (*Package, error) {
	b := builder{limits: limits.orDefaults()}
	if err := b.directory(root, "."); err != nil {
		return nil, err
	}
	return b.finish()
}

// builder collects files until they are a package.
type builder struct {
	limits  Limits
	names   names
	entries int // seen, directories too
	total   int64
	files   Manifest
	content map[string][]byte
}

// room refuses a file by its path before anything of it is read.
func (b *builder) room(p string, size int64) error {
	what := checkPath(p, b.limits.Depth)
	if what == "" {
		what = b.names.add(p, true)
	}
	switch {
	case what != "":
	case len(b.files) >= b.limits.Files:
		what = fmt.Sprintf("is one too many: a package has at most %d files", b.limits.Files)
	case size < 0 || size > b.limits.Bytes-b.total:
		what = fmt.Sprintf("is too large: a package has at most %d bytes", b.limits.Bytes)
	default:
		return nil
	}
	return &PathError{Path: p, Text: what}
}

// step says why a directory cannot be part of the package, or "".
func (b *builder) step(p string) string {
	if what := checkPath(p, b.limits.Depth); what != "" {
		return what // names are for proper paths alone
	}
	return b.names.add(p, false)
}

// take reads a file of a known size.
func (b *builder) take(p string, size int64, executable bool, r io.Reader) error {
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(r, size+1))
	if err != nil {
		return &PathError{Path: p, Text: "cannot be read", Err: err}
	}
	if n != size {
		return &PathError{Path: p, Text: "has another size than it said; it may be changing"}
	}
	if b.content == nil {
		b.content = map[string][]byte{}
	}
	b.content[p] = buf.Bytes()
	b.files = append(b.files, File{p, size, DigestOf(buf.Bytes()), executable})
	b.total += size
	return nil
}

func (b *builder) directory(root *os.Root, dir string) error {
	if strings.Count(dir, "/") >= b.limits.Depth {
		return &PathError{Path: dir, Text: fmt.Sprintf("is more than %d directories deep", b.limits.Depth-1)}
	}
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	most := b.limits.entries()
	entries, err := f.ReadDir(most + 1) // one more is enough to refuse
	f.Close()
	if err != nil && err != io.EOF {
		return err
	}
	if b.entries += len(entries); b.entries > most {
		return &PathError{Path: dir, Text: fmt.Sprintf("is one too many: a package has at most %d files and directories", most)}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if err := b.entry(root, path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) entry(root *os.Root, p string) error {
	info, err := root.Lstat(p)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if what := b.step(p); what != "" {
			return &PathError{Path: p, Text: what}
		}
		return b.directory(root, p)
	}
	if what := special(info.Mode()); what != "" {
		return &PathError{Path: p, Text: what}
	}
	if linked(info) {
		return &PathError{Path: p, Text: "is a hard link: the same file has another name, by which it can be changed; copy it"}
	}
	if err := b.room(p, info.Size()); err != nil {
		return err
	}
	// Opening follows links and waits for pipes, so that what is open has to be
	// what was looked at.
	f, err := root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if !now.Mode().IsRegular() || !os.SameFile(info, now) {
		return &PathError{Path: p, Text: "changed while it was read"}
	}
	return b.take(p, info.Size(), info.Mode()&0o111 != 0, f)
}

// special says why a mode is not that of a plain file.
func special(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "is a symbolic link; put the file itself there"
	case m&fs.ModeDevice != 0:
		return "is a device"
	case m&fs.ModeNamedPipe != 0:
		return "is a pipe"
	case m&fs.ModeSocket != 0:
		return "is a socket"
	case !m.IsRegular():
		return "is not a plain file"
	case m&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0:
		return "has a set-user, set-group or sticky bit"
	}
	return ""
}

// finish checks what a package must have, and reads its entry.
func (b *builder) finish() (*Package, error) {
	slices.SortFunc(b.files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	text, ok := b.content[entry]
	if !ok {
		e := &PathError{Text: "there is no SKILL.md"}
		for _, f := range b.files {
			if strings.EqualFold(f.Path, entry) {
				e = &PathError{Path: f.Path, Text: "is not SKILL.md: rename it, case counts"}
			}
		}
		return nil, e
	}
	doc, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return &Package{doc.Name, doc, b.files, b.files.Digest(), b.content}, nil
}

// Document returns the SKILL.md of the package.
func (p *Package) Document() *Document { return p.doc }

// Name is what its SKILL.md says that the skill is called.
func (p *Package) Name() string { return p.name }

// Digest is the digest of the whole package.
func (p *Package) Digest() Digest { return p.digest }

// Manifest lists its files.
func (p *Package) Manifest() Manifest { return slices.Clone(p.manifest) }

// ReadFile returns a copy of a file's bytes. A path that is not in the manifest
// is [fs.ErrNotExist] and NOT_FOUND, whatever it looks like: there is nothing to
// escape to.
func (p *Package) ReadFile(name string) ([]byte, error) {
	b, ok := p.content[name]
	if !ok {
		return nil, fmt.Errorf("skill: %s is not a file of the package: %w: %w", quote(name), toolresult.NotFound, fs.ErrNotExist)
	}
	return bytes.Clone(b), nil
}

// Verify returns a [*MismatchError] unless the package has the digest. before
// is the manifest that was pinned, to say what changed; it may be nil.
func (p *Package) Verify(want Digest, before Manifest) error {
	if p.digest == want {
		return nil
	}
	e := &MismatchError{Want: want, Got: p.digest}
	if before != nil && before.Digest() == want {
		e.Changes = before.Changes(p.manifest)
	}
	return e
}

// Check returns every breach of a rule by SKILL.md and by the package as a
// whole, in the order of files and lines. dir is as in [Document.Check].
func (p *Package) Check(pr Profile, dir string) Violations {
	c := checker{d: p.doc, p: pr, out: p.doc.Check(pr, dir)}
	for l := range p.doc.links() {
		if l.kind == linkLocal && !p.has(l.path) {
			c.add(RuleLinkMissing, l.line, l.column, "the link leads to "+quote(l.path)+", which is not in the package")
		}
	}
	for _, f := range p.manifest {
		c.file(f, p.content[f.Path])
	}
	if len(p.manifest) > 512 || p.manifest.Bytes() > 16<<20 {
		c.add(RuleOverMCP, 1, 1, fmt.Sprintf("the package has %d files and %d bytes", len(p.manifest), p.manifest.Bytes()))
	}
	c.out.sort()
	return c.out
}

// MissingLinks returns the paths that SKILL.md links to and that are not in the
// package, in the order of the text.
func (p *Package) MissingLinks() (out []string) {
	for l := range p.doc.links() {
		if l.kind == linkLocal && !p.has(l.path) {
			out = append(out, l.path)
		}
	}
	return out
}

// file checks a file beside SKILL.md.
func (c *checker) file(f File, content []byte) {
	if f.Path == entry {
		return
	}
	report := func(r Rule, line int, text string) {
		if l := c.p.Level(r); l != Off {
			c.out = append(c.out, Violation{r, l, f.Path, line, 1, text, mend(r)})
		}
	}
	if path.Base(f.Path) == entry {
		report(RuleNested, 1, "there is a skill inside the skill")
	}
	// A NUL is how git tells a binary file, whose line ends nobody changes.
	if i := bytes.Index(content, []byte("\r\n")); i >= 0 && bytes.IndexByte(content, 0) < 0 {
		report(RuleLineEnds, 1+bytes.Count(content[:i], []byte("\n")), "the file has CR line ends, which change with the system that it is checked out on")
	}
}

// has reports whether a path is a file or a directory of the package.
func (p *Package) has(name string) bool {
	if name == "." {
		return true
	}
	i, ok := slices.BinarySearchFunc(p.manifest, name, func(f File, n string) int { return cmp.Compare(f.Path, n) })
	// Names between "a" and "a/" sort before the files in a, so look on.
	for !ok && i < len(p.manifest) && strings.HasPrefix(p.manifest[i].Path, name) {
		ok = strings.HasPrefix(p.manifest[i].Path, name+"/")
		i++
	}
	return ok
}

// Extract writes the files below a directory that has to be empty, so that
// nothing is overwritten or mixed with something else. It may leave files
// behind when it fails.
func (p *Package) Extract(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if left, err := dir.ReadDir(1); len(left) > 0 || !errors.Is(err, io.EOF) {
		return &PathError{Text: "the directory to extract into is not empty", Err: err}
	}
	for _, f := range p.manifest {
		if d := path.Dir(f.Path); d != "." {
			if err := root.MkdirAll(d, 0o755); err != nil {
				return err
			}
		}
		mode := fs.FileMode(0o644)
		if f.Executable {
			mode = 0o755
		}
		if err := write(root, f.Path, mode, p.content[f.Path]); err != nil {
			return err
		}
	}
	return nil
}

func write(root *os.Root, name string, mode fs.FileMode, content []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
