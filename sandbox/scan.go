package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// maxScanned bounds how many files a scan looks at.
const maxScanned = 2_000_000

// Found is what a scan found in the allowed directories: what a boundary that
// works by path has to cover up. It is a snapshot.
type Found struct {
	Deny     []string // denied by deny_read, or linked from elsewhere; topmost only
	Links    []string // of Deny, the files with several names
	ReadOnly []string // in allow_write and denied by deny_write; topmost only
	Sockets  []string // unix sockets in allowed directories
}

// Scan walks the allowed directories and lists what the deny rules mean there
// now. It follows no symbolic link. A directory that cannot be read is denied:
// whoever runs inside may be able to change its mode. More than 2,000,000
// files are an error.
func (r *Rules) Scan(ctx context.Context) (*Found, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	s := &scan{r: r, ctx: ctx}
	for _, root := range topmost(slices.Concat(r.Read, r.Write)) {
		if err := s.root(root); err != nil {
			return nil, fmt.Errorf("sandbox: scan: %w", err)
		}
	}
	slices.Sort(s.found.Links)
	slices.Sort(s.found.Sockets)
	s.found.Deny, s.found.ReadOnly = topmost(s.found.Deny), topmost(s.found.ReadOnly)
	return &s.found, nil
}

type scan struct {
	r     *Rules
	ctx   context.Context
	count int
	found Found
}

// root looks through an allowed directory. It is filepath.WalkDir for directories
// that somebody else may have filled, and may be changing: it remembers no more
// names than may be looked at, and waits for no pipe that has taken the place of a
// directory.
func (s *scan) root(p string) error {
	info, err := os.Lstat(p)
	if err != nil {
		err = s.visit(p, nil, err)
	} else {
		err = s.walk(p, fs.FileInfoToDirEntry(info))
	}
	if errors.Is(err, fs.SkipDir) {
		return nil
	}
	return err
}

func (s *scan) walk(p string, d fs.DirEntry) error {
	err := s.visit(p, d, nil)
	if err != nil || !d.IsDir() {
		return skipped(err, d)
	}
	list, err := readDir(p, maxScanned-s.count+1)
	if err != nil {
		if err := s.visit(p, d, err); err != nil {
			return skipped(err, d)
		}
	}
	for _, e := range list {
		if err := s.walk(filepath.Join(p, e.Name()), e); err != nil {
			return skipped(err, d)
		}
	}
	return nil
}

// skipped makes nothing of the wish to skip a directory.
func skipped(err error, d fs.DirEntry) error {
	if d.IsDir() && errors.Is(err, fs.SkipDir) {
		return nil
	}
	return err
}

// readDir returns at most so many names of a directory, in its order.
func readDir(p string, most int) ([]fs.DirEntry, error) {
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(max(most, 1))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return list, err
}

func (s *scan) visit(p string, d fs.DirEntry, err error) error {
	if s.count++; s.count > maxScanned {
		return toolresult.NewError(toolresult.ResultTooLarge, "the allowed directories hold too many files to look through; allow less")
	}
	if s.count%256 == 0 && s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && d != nil:
		return nil // gone since it was listed
	case err != nil:
		s.found.Deny = append(s.found.Deny, p)
		return fs.SkipDir
	}
	_, writable := s.r.root(s.r.Write, p)
	if s.r.denied(p) {
		return s.deny(p, d)
	}
	if writable && s.r.protects(p) {
		s.found.ReadOnly = append(s.found.ReadOnly, p)
	}
	switch {
	case d.Type().IsRegular() && !s.r.HardLinks:
		if info, err := d.Info(); err == nil && links(info) > 1 {
			s.found.Deny, s.found.Links = append(s.found.Deny, p), append(s.found.Links, p)
		}
	case d.Type()&fs.ModeSocket != 0:
		s.found.Sockets = append(s.found.Sockets, p)
	}
	return nil
}

// deny covers p up and, if p is a link, also what it leads to: the name that
// was denied stands for the contents.
func (s *scan) deny(p string, d fs.DirEntry) error {
	if d.Type()&fs.ModeSymlink != 0 {
		if real, err := filepath.EvalSymlinks(p); err == nil && s.r.Decide(Op{OpRead, real}).Allowed {
			s.found.Deny = append(s.found.Deny, real)
		}
		return nil
	}
	s.found.Deny = append(s.found.Deny, p)
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// denied reports whether deny_read names p.
func (r *Rules) denied(p string) bool {
	root, ok := r.root(slices.Concat(r.Write, r.Read), p)
	return ok && denies(r.DenyRead, root, p) != ""
}

// protects reports whether deny_write names p.
func (r *Rules) protects(p string) bool {
	root, ok := r.root(r.Write, p)
	return ok && denies(r.DenyWrite, root, p) != ""
}

// Appeared lists what deny_write names and is there now but was not when f was
// found: files that a program made although other programs of the host act
// upon them. No kernel forbids a name that does not exist yet.
func (r *Rules) Appeared(ctx context.Context, f *Found) ([]string, error) {
	now, err := r.Scan(ctx)
	if err != nil {
		return nil, err
	}
	before := setOf(f.ReadOnly)
	return slices.DeleteFunc(now.ReadOnly, func(p string) bool { return below(before, p) }), nil
}

var errSymlink = errors.New("is or leads through a symbolic link, which this level does not follow")

// Files are the file calls of this program, confined to the rules: the level
// path. It is safe for concurrent use. It confines nothing but its own
// methods: not the rest of the program, and no program that is started.
type Files struct {
	rules *Rules
	roots map[string]*os.Root
}

// Files opens the allowed directories. Close it after use.
func (r *Rules) Files() (*Files, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	f := &Files{rules: r, roots: map[string]*os.Root{}}
	for _, p := range slices.Concat(r.Read, r.Write) {
		dir := p
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			dir = filepath.Dir(p)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("sandbox: files: %w", err), f.Close())
		}
		if old := f.roots[p]; old != nil {
			old.Close()
		}
		f.roots[p] = root
	}
	return f, nil
}

// Close closes the directories.
func (f *Files) Close() error {
	var errs []error
	for _, r := range f.roots {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// Open opens a regular file or a directory for reading. The name is absolute,
// or relative to the workspace. It follows no symbolic link, opens no device,
// pipe or socket, and no file with several names unless the rules permit them.
// A refusal is PERMISSION_DENIED.
func (f *Files) Open(name string) (*os.File, error) {
	return f.open(name, OpRead, os.O_RDONLY, 0)
}

// Create opens a regular file for writing, made if it is not there, and cut to
// nothing if it is. It refuses like Open.
func (f *Files) Create(name string) (*os.File, error) {
	file, err := f.open(name, OpWrite, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// Only now: an open that cuts would have cut what the checks refuse.
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (f *Files) open(name, op string, flags int, perm fs.FileMode) (*os.File, error) {
	p, root, rel, err := f.place(name, op)
	if err != nil {
		return nil, err
	}
	dir, last, err := walk(root, rel)
	if err != nil {
		return nil, refused(p, err)
	}
	defer dir.Close()
	before, err := dir.Lstat(last)
	switch {
	case err == nil:
		if err := plain(before); err != nil {
			return nil, refused(p, err)
		}
	case op == OpRead || !errors.Is(err, fs.ErrNotExist):
		return nil, err
	default:
		flags |= os.O_EXCL
	}
	file, err := dir.OpenFile(last, flags|nonblock, perm)
	if err != nil {
		return nil, err
	}
	after, err := file.Stat()
	if err == nil {
		err = f.opened(before, after)
	}
	if err != nil {
		return nil, errors.Join(refused(p, err), file.Close())
	}
	return file, nil
}

// place finds the allowed directory that a name lies in.
func (f *Files) place(name, op string) (p string, root *os.Root, rel string, err error) {
	p = name
	if !filepath.IsAbs(p) {
		p = filepath.Join(f.rules.Workspace, p)
	}
	// A name with ".." is refused before it is cleaned: through a link,
	// a/../b is not b.
	if slices.Contains(segments(filepath.ToSlash(name)), "..") {
		return "", nil, "", refused(name, errors.New(`holds ".."`))
	}
	p = filepath.Clean(p)
	if d := f.rules.Decide(Op{op, p}); !d.Allowed || d.Rule == "filesystem.system" {
		return "", nil, "", refused(p, errors.New(d.Rule))
	}
	list := f.rules.Write
	if op == OpRead {
		list = slices.Concat(f.rules.Write, f.rules.Read)
	}
	for _, q := range list {
		if r := f.roots[q]; r != nil && Within(q, p) {
			if rel, err = filepath.Rel(r.Name(), p); err == nil {
				return p, r, rel, nil
			}
		}
	}
	return "", nil, "", refused(p, errors.New("no allowed directory"))
}

// walk goes down one directory at a time and follows no link, not even one
// that stays inside: it would be another name for what a rule denies.
func walk(root *os.Root, rel string) (*os.Root, string, error) {
	dir, err := root.OpenRoot(".")
	if err != nil {
		return nil, "", err
	}
	segs := segments(filepath.ToSlash(rel))
	if len(segs) == 0 {
		return dir, ".", nil
	}
	for _, seg := range segs[:len(segs)-1] {
		next, err := step(dir, seg)
		dir.Close()
		if err != nil {
			return nil, "", err
		}
		dir = next
	}
	return dir, segs[len(segs)-1], nil
}

func step(dir *os.Root, name string) (*os.Root, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if before.Mode()&fs.ModeSymlink != 0 {
		return nil, errSymlink
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := next.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = errors.New("was exchanged while it was opened")
	}
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

func plain(info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return errSymlink
	case !info.Mode().IsRegular() && !info.IsDir():
		return errors.New("is no regular file")
	}
	return nil
}

// opened looks at what was really opened.
func (f *Files) opened(before, after fs.FileInfo) error {
	if err := plain(after); err != nil {
		return err
	}
	if before != nil && !os.SameFile(before, after) {
		return errors.New("was exchanged while it was opened")
	}
	if after.Mode().IsRegular() && !f.rules.HardLinks && links(after) > 1 {
		return errors.New("has several names, and another may lie outside; permit hard_links if that is meant")
	}
	return nil
}

func refused(p string, err error) error {
	return fmt.Errorf("sandbox: %s: %w", p, toolresult.WrapError(toolresult.PermissionDenied, "the sandbox policy does not permit this file", err))
}

// Report says what the level path enforces: the file claims for calls of
// Files, and nothing for anything that is started.
func (f *Files) Report() *Report {
	r := NewReport(LevelPath, "os.Root", f.rules)
	for i := range r.Claims {
		r.Claims[i].Gap = "the level path confines file calls only"
	}
	const calls = "calls of Files only; no program that is started"
	r.Set(FSRead, Enforced, calls, "os.Root")
	r.Set(FSWrite, Enforced, calls, "os.Root")
	r.Set(FSDenyRead, Enforced, calls+"; by name, an alias by a bind mount is not seen", "os.Root without links")
	r.Set(FSDenyWrite, Enforced, calls+"; by name, an alias by a bind mount is not seen", "os.Root without links")
	if knowsLinks {
		r.Set(FSLinks, Enforced, calls, "number of names")
	}
	return r
}
