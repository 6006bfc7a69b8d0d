package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Base is what the host fixes for one run. None of it may come from a model or
// from the program that is to be confined: who chooses the directory chooses
// the boundary.
type Base struct {
	Workspace string // absolute, an existing directory; what relative paths begin at
	Home      string // what "~/" stands for; required only if the policy says "~"
}

// Rules are a policy with every path, pattern and default fixed. They are made
// by [Policy.Resolve] and [Rules.Tighten] and must not be changed: an executor
// refuses Rules that no longer have their digest.
type Rules struct {
	Name      string             `json:"name"`
	Require   map[Claim]Strength `json:"require"` // what the policy said itself
	Workspace string             `json:"workspace"`

	// Read and Write are canonical and absolute, without symbolic links; none
	// lies below another of the same list.
	Read      []string  `json:"read"`
	Write     []string  `json:"write"`
	DenyRead  []Pattern `json:"deny_read"`
	DenyWrite []Pattern `json:"deny_write"`
	System    bool      `json:"system"`
	HardLinks bool      `json:"hard_links"`

	Domains []string       `json:"domains"`
	Private []netip.Prefix `json:"private"`

	Timeout     time.Duration `json:"timeout"` // more than 0
	MaxChildren int           `json:"max_children"`
	MaxMemory   int64         `json:"max_memory"`
	MaxFile     int64         `json:"max_file"`
	MaxOutput   int64         `json:"max_output"` // more than 0
	Blocked     []string      `json:"blocked"`

	Env []string `json:"env"`

	digest string
}

// Pattern is one rule that denies.
type Pattern struct {
	Rule string `json:"rule"` // where it stands: filesystem.deny_read[1] "**/*secret*"
	Base string `json:"base"` // canonical directory that Glob begins at; "" is every allowed directory, at any depth
	Glob string `json:"glob"` // "" is Base itself
}

// Resolve fixes the policy for one run. A path that cannot be made canonical
// is an error, never taken as it is written. The error is INVALID_INPUT.
func (p *Policy) Resolve(b Base) (*Rules, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s, err := newResolver(p, b)
	if err != nil {
		return nil, err
	}
	r := &Rules{
		Name: p.Name, Require: maps.Clone(p.Require), Workspace: s.workspace,
		System: p.Filesystem.System, HardLinks: p.Filesystem.HardLinks,
		Domains: sorted(p.Network.AllowDomains), Private: slices.Clone(p.Network.AllowPrivate),
		Timeout: cmp.Or(p.Process.Timeout, time.Minute), MaxChildren: p.Process.MaxChildren,
		MaxMemory: p.Process.MaxMemory, MaxFile: p.Process.MaxFile, MaxOutput: cmp.Or(p.Process.MaxOutput, 1<<20),
		Blocked: sorted(p.Process.BlockedCommands), Env: sorted(p.Credentials.Env),
	}
	r.Read = s.allowed("filesystem.allow_read", p.Filesystem.AllowRead)
	r.Write = s.allowed("filesystem.allow_write", p.Filesystem.AllowWrite)
	r.DenyRead = s.denied("filesystem.deny_read", p.Filesystem.DenyRead)
	r.DenyWrite = append(s.denied("filesystem.deny_write", p.Filesystem.DenyWrite), s.protected()...)
	if s.errs != nil {
		return nil, invalid(errors.Join(s.errs...))
	}
	return r.sealed(), nil
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// A resolver collects what is wrong while paths are fixed.
type resolver struct {
	workspace, home string
	errs            []error
}

func newResolver(p *Policy, b Base) (*resolver, error) {
	s := &resolver{}
	var err error
	if s.workspace, err = directory("workspace", b.Workspace); err != nil {
		return nil, invalid(err)
	}
	if b.Home != "" {
		if s.home, err = directory("home", b.Home); err != nil {
			return nil, invalid(err)
		}
	}
	return s, nil
}

func directory(what, name string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", fmt.Errorf("base: the %s must be an absolute path, from the host", what)
	}
	full, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", fmt.Errorf("base: the %s cannot be made canonical: %w", what, err)
	}
	if info, err := os.Stat(full); err != nil || !info.IsDir() {
		return "", fmt.Errorf("base: the %s is no directory", what)
	}
	if full == filepath.Dir(full) {
		return "", fmt.Errorf("base: the %s is the whole machine", what)
	}
	return full, nil
}

func (s *resolver) fail(where, entry, format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf("%s %q: %w", where, entry, fmt.Errorf(format, args...)))
}

// locate makes an entry absolute, without looking at the disk.
func (s *resolver) locate(where, entry string) (string, bool) {
	switch {
	case entry == "~" || strings.HasPrefix(entry, "~/"):
		if s.home == "" {
			s.fail(where, entry, "the host gave no home directory")
			return "", false
		}
		return filepath.Join(s.home, filepath.FromSlash(strings.TrimPrefix(entry[1:], "/"))), true
	case filepath.IsAbs(filepath.FromSlash(entry)):
		return filepath.Clean(filepath.FromSlash(entry)), true
	}
	return filepath.Join(s.workspace, filepath.FromSlash(entry)), true
}

func (s *resolver) allowed(where string, entries []string) (out []string) {
	for i, entry := range entries {
		where := fmt.Sprintf("%s[%d]", where, i)
		full, ok := s.locate(where, entry)
		if !ok {
			continue
		}
		names := []string{full}
		if strings.ContainsAny(filepath.Base(full), meta) {
			names = s.expand(where, entry, full)
		}
		for _, name := range names {
			if real, ok := s.canonical(where, entry, name); ok {
				out = append(out, real)
			}
		}
	}
	return topmost(out)
}

// expand lists what a pattern in the last element stands for now. Symbolic
// links are left out: in a shared directory anybody can make one.
func (s *resolver) expand(where, entry, full string) (out []string) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil {
		s.fail(where, entry, "its directory cannot be made canonical: %w", err)
		return nil
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		s.fail(where, entry, "its directory cannot be read: %w", err)
		return nil
	}
	for _, e := range list {
		if ok, _ := path.Match(filepath.Base(full), e.Name()); ok && e.Type()&(fs.ModeType&^fs.ModeDir) == 0 {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

func (s *resolver) canonical(where, entry, name string) (string, bool) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		s.fail(where, entry, "cannot be made canonical: %w", err)
		return "", false
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		s.fail(where, entry, "cannot be looked at: %w", err)
	case real == filepath.Dir(real):
		s.fail(where, entry, "is the whole machine; name directories")
	case !info.IsDir() && !info.Mode().IsRegular():
		s.fail(where, entry, "is neither a directory nor a regular file")
	case slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(d string) bool { return Within(d, real) }):
		s.fail(where, entry, "is an interface of the kernel, not a place for files")
	default:
		return real, true
	}
	return "", false
}

// topmost sorts and drops what lies below another.
func topmost(list []string) (out []string) {
	list = sorted(list)
	have := setOf(list)
	for _, p := range list {
		if dir := filepath.Dir(p); dir == p || !below(have, dir) {
			out = append(out, p)
		}
	}
	return slices.Compact(out)
}

func setOf(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, p := range list {
		out[p] = true
	}
	return out
}

// below reports whether one of the canonical paths is p or lies above it. It
// takes as long as p is deep: a program may have made very many.
func below(paths map[string]bool, p string) bool {
	for ; !paths[p]; p = filepath.Dir(p) {
		if p == filepath.Dir(p) {
			return false
		}
	}
	return true
}

// Within reports whether the canonical path p is root or lies below it.
func Within(root, p string) bool {
	rest, ok := strings.CutPrefix(p, root)
	return ok && (rest == "" || rest[0] == filepath.Separator || strings.HasSuffix(root, string(filepath.Separator)))
}

func (s *resolver) denied(where string, entries []string) (out []Pattern) {
	for i, entry := range entries {
		rule := fmt.Sprintf("%s[%d] %q", where, i, entry)
		if rest, ok := strings.CutPrefix(entry, "**/"); ok {
			out = append(out, Pattern{Rule: rule, Glob: rest})
			continue
		}
		if !strings.Contains(strings.TrimSuffix(entry, "/"), "/") && !strings.HasPrefix(entry, "~") {
			out = append(out, Pattern{Rule: rule, Glob: strings.TrimSuffix(entry, "/")})
			continue
		}
		if full, ok := s.locate(where, entry); ok {
			out = append(out, anchored(rule, full)...)
		}
	}
	return out
}

// anchored returns the pattern as it is written, and once more with the
// symbolic links of its fixed part followed, as far as there is one.
func anchored(rule, full string) []Pattern {
	fixed, glob := full, ""
	segs := segments(filepath.ToSlash(full))
	for i, seg := range segs {
		if strings.ContainsAny(seg, meta) {
			glob = strings.Join(segs[i:], "/")
			fixed = string(filepath.Separator) + filepath.Join(segs[:i]...)
			break
		}
	}
	out := []Pattern{{Rule: rule, Base: fixed, Glob: glob}}
	rest := ""
	for dir := fixed; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			if real = filepath.Join(real, rest); real != fixed {
				out = append(out, Pattern{Rule: rule, Base: real, Glob: glob})
			}
			return out
		}
		if dir == filepath.Dir(dir) {
			return out
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

func (s *resolver) protected() (out []Pattern) {
	for _, name := range protected {
		out = append(out, Pattern{Rule: fmt.Sprintf("built-in %q", name), Glob: name})
	}
	return out
}

// Denies returns the rule that denies p, a canonical path below one of the
// allowed ones, or "".
func denies(patterns []Pattern, root, p string) string {
	for _, pat := range patterns {
		base := pat.Base
		if base == "" {
			base = root
		}
		if !Within(base, p) {
			continue
		}
		rel := segments(filepath.ToSlash(strings.TrimPrefix(p, base)))
		glob := segments(pat.Glob)
		if pat.Base == "" {
			glob = append([]string{"**"}, glob...)
		}
		if matchAny(glob, rel) {
			return pat.Rule
		}
	}
	return ""
}

// matchAny reports whether the glob matches the path or something above it:
// what lies below something denied is denied.
func matchAny(glob, rel []string) bool {
	if len(glob) == 0 {
		return true
	}
	for i := 1; i <= len(rel); i++ {
		if match(glob, rel[:i]) {
			return true
		}
	}
	return false
}

func match(glob, rel []string) bool {
	if len(glob) == 0 {
		return len(rel) == 0
	}
	if glob[0] == "**" {
		for i := 0; i <= len(rel); i++ {
			if match(glob[1:], rel[i:]) {
				return true
			}
		}
		return false
	}
	if len(rel) == 0 {
		return false
	}
	// Case is ignored: on some file systems .GIT/Hooks is .git/hooks.
	ok, err := path.Match(strings.ToLower(glob[0]), strings.ToLower(rel[0]))
	return (ok || err != nil) && match(glob[1:], rel[1:])
}

// root returns the allowed directory that p lies in, where floating patterns
// begin: the workspace, else the allowed path itself or, if it is a file, its
// directory.
func (r *Rules) root(list []string, p string) (string, bool) {
	for _, q := range list {
		if !Within(q, p) {
			continue
		}
		if Within(r.Workspace, p) && p != r.Workspace {
			return r.Workspace, true
		}
		if q == p && p != r.Workspace {
			return filepath.Dir(q), true
		}
		return q, true
	}
	return "", false
}

// Tighten returns what both permit: an organisation's rules and a task's and a
// tool's. It can only remove. The workspace is r's.
func (r *Rules) Tighten(o *Rules) (*Rules, error) {
	if err := errors.Join(r.check(), o.check()); err != nil {
		return nil, err
	}
	t := *r
	t.Name = strings.Trim(r.Name+" & "+o.Name, " &")
	t.Require = map[Claim]Strength{}
	for _, n := range needs {
		t.Require[n.claim] = stricter(r.required(n), o.required(n))
	}
	t.Read = topmost(intersect(slices.Concat(r.Read, r.Write), slices.Concat(o.Read, o.Write)))
	t.Write = topmost(intersect(r.Write, o.Write))
	t.DenyRead, t.DenyWrite = slices.Concat(r.DenyRead, o.DenyRead), slices.Concat(r.DenyWrite, o.DenyWrite)
	t.System, t.HardLinks = r.System && o.System, r.HardLinks && o.HardLinks
	t.Domains = domains(r.Domains, o.Domains)
	t.Private = ranges(r.Private, o.Private)
	t.Timeout = min(r.Timeout, o.Timeout)
	t.MaxChildren, t.MaxMemory = least(r.MaxChildren, o.MaxChildren), least(r.MaxMemory, o.MaxMemory)
	t.MaxFile, t.MaxOutput = least(r.MaxFile, o.MaxFile), min(r.MaxOutput, o.MaxOutput)
	t.Blocked = sorted(slices.Concat(r.Blocked, o.Blocked))
	t.Env = slices.DeleteFunc(slices.Clone(r.Env), func(e string) bool { return !slices.Contains(o.Env, e) })
	return t.sealed(), nil
}

// stricter is the requirement that satisfies both.
func stricter(a, b Strength) Strength {
	if a == Delegated && b != None && b != Delegated {
		return b
	}
	if b == Delegated && a != None && a != Delegated {
		return a
	}
	return max(a, b)
}

// least is the smaller limit, where 0 is no limit.
func least[T int | int64](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func intersect(a, b []string) (out []string) {
	for _, x := range a {
		for _, y := range b {
			switch {
			case Within(x, y):
				out = append(out, y)
			case Within(y, x):
				out = append(out, x)
			}
		}
	}
	return out
}

func domains(a, b []string) (out []string) {
	for _, x := range a {
		for _, y := range b {
			switch {
			case x == y || underDomain(y, x):
				out = append(out, x)
			case underDomain(x, y):
				out = append(out, y)
			}
		}
	}
	return sorted(out)
}

// underDomain reports whether pattern, which begins with "*.", covers name.
func underDomain(pattern, name string) bool {
	suffix, ok := strings.CutPrefix(pattern, "*")
	return ok && strings.HasSuffix(strings.TrimPrefix(name, "*"), suffix) && (len(name) > len(suffix) || strings.HasPrefix(name, "*"))
}

func ranges(a, b []netip.Prefix) (out []netip.Prefix) {
	for _, x := range a {
		for _, y := range b {
			if x.Overlaps(y) {
				if x.Bits() < y.Bits() {
					out = append(out, y)
				} else {
					out = append(out, x)
				}
			}
		}
	}
	return out
}

// sealed returns r with its digest.
func (r *Rules) sealed() *Rules {
	r.digest = r.sum()
	return r
}

func (r *Rules) sum() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // a strength that is none: check refuses an empty digest
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Digest names the rules in approvals and records: "sha256:" over their JSON.
// It covers the paths that were found, so it differs between workspaces.
func (r *Rules) Digest() string { return r.digest }

// Check reports whether these are rules that Resolve or Tighten made, and
// unchanged. Executors call it first. The error is INVALID_INPUT.
func (r *Rules) Check() error { return r.check() }

func (r *Rules) check() error {
	if r == nil || r.digest == "" || r.digest != r.sum() {
		return fmt.Errorf("sandbox: rules: %w", toolresult.NewError(toolresult.InvalidInput, "the rules were not made by Resolve or Tighten, or were changed since"))
	}
	return nil
}

// ParseRules reads rules from the JSON that they marshal to, for an executor on
// another machine, and compares them with the digest that came another way.
func ParseRules(text []byte, digest string) (*Rules, error) {
	var r Rules
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, invalid(err)
	}
	if r.sealed(); r.digest == "" || r.digest != digest {
		return nil, fmt.Errorf("sandbox: rules: %w", toolresult.NewError(toolresult.InvalidInput, "the rules do not have the digest that was promised"))
	}
	return &r, nil
}

// required is how strong a claim must be under these rules.
func (r *Rules) required(n need) Strength {
	if s, ok := r.Require[n.claim]; ok {
		return s
	}
	if n.used != nil && !n.used(r) {
		return None
	}
	return n.least
}
