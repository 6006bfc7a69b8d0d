package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Policy is what an administrator writes. The zero Policy permits nothing.
type Policy struct {
	// Name is shown in reports; at most 64 characters.
	Name string

	// Require overrides how strong a claim must be. A claim that the policy
	// uses and that is not here must be enforced; fs.deny_read, fs.deny_write
	// and fs.links a snapshot; proc.commands auxiliary.
	Require map[Claim]Strength

	Filesystem  Filesystem
	Network     Network
	Process     Process
	Credentials Credentials
}

// Filesystem says which files a program may touch. Paths are absolute, or
// relative to the workspace, or begin with "~/".
type Filesystem struct {
	// AllowRead and AllowWrite are files and directories with all below them.
	// The last element may hold "*", "?" and "[...]": it stands for what
	// matches when the policy is resolved. What AllowWrite names may also be
	// read. Empty: nothing.
	AllowRead, AllowWrite []string

	// DenyRead wins over both. A name without a slash, and what follows
	// "**/", is denied at any depth. Letter case is ignored.
	DenyRead []string

	// DenyWrite is like DenyRead for changes. A built-in list of files that
	// other programs of the host act upon is always part of it: see Protected.
	DenyWrite []string

	// System permits reading the programs, libraries and certificates of the
	// operating system, and the devices null, zero, full, random and urandom.
	System bool

	// HardLinks permits files with several names in allowed directories. Such
	// a file may also lie elsewhere, which no rule about paths sees. False:
	// those that exist are left out.
	HardLinks bool
}

// Network says which hosts may be reached. The zero Network: none.
type Network struct {
	// AllowDomains are exact ASCII host names, or "*.example.com" for all
	// names below. Only HTTP through the executor's proxy.
	AllowDomains []string

	// AllowPrivate lists ranges of addresses, not public ones, that these
	// hosts may resolve to.
	AllowPrivate []netip.Prefix
}

// Process bounds a program and everything that it starts.
type Process struct {
	Timeout     time.Duration // 0: 60 s; at most 24 h
	MaxChildren int           // processes and threads besides the first; 0: no limit is claimed
	MaxMemory   int64         // bytes, all together; 0: no limit is claimed
	MaxFile     int64         // bytes of one file; 0: no limit is claimed
	MaxOutput   int64         // bytes of standard output and error each; 0: 1 MiB, at most 1 GiB

	// BlockedCommands are texts that no command line may hold. Any other
	// spelling passes: this is advice, and the Report says so.
	BlockedCommands []string
}

// Credentials says what a program may know.
type Credentials struct {
	// Env are the names of the variables that a command may be given, besides
	// PATH, HOME, TMPDIR, LANG and those of the proxy, which the executor
	// sets. Nothing is ever taken from this process's own environment.
	Env []string
}

// Protected are the names in a writable directory that other programs of the
// host act upon when they change: hooks, settings, start-up files. They are
// part of every policy's DenyWrite.
func Protected() []string { return slices.Clone(protected) }

var protected = []string{
	".git/hooks", ".git/config", ".git/info/attributes", ".gitmodules", ".gitattributes", ".gitconfig",
	".mcp.json", ".vscode", ".idea", ".cursor", ".claude", ".codex", ".envrc",
	".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zprofile", ".zshenv", ".npmrc", ".netrc", ".ssh",
}

// document is the YAML form. Pointers tell "absent" from a refused value.
type document struct {
	Policy struct {
		Name       string             `yaml:"name"`
		Require    map[Claim]Strength `yaml:"require"`
		Filesystem struct {
			AllowRead  []string `yaml:"allow_read"`
			AllowWrite []string `yaml:"allow_write"`
			DenyRead   []string `yaml:"deny_read"`
			DenyWrite  []string `yaml:"deny_write"`
			System     bool     `yaml:"system"`
			HardLinks  bool     `yaml:"hard_links"`
		} `yaml:"filesystem"`
		Network struct {
			Default      string         `yaml:"default"`
			AllowDomains []string       `yaml:"allow_domains"`
			DenyPrivate  *bool          `yaml:"deny_private_ip_ranges"`
			AllowPrivate []netip.Prefix `yaml:"allow_private"`
		} `yaml:"network"`
		Process struct {
			Timeout     int      `yaml:"timeout_seconds"`
			MaxChildren int      `yaml:"max_child_processes"`
			MaxMemory   int64    `yaml:"max_memory_bytes"`
			MaxFile     int64    `yaml:"max_file_bytes"`
			MaxOutput   int64    `yaml:"max_output_bytes"`
			Blocked     []string `yaml:"blocked_commands"`
		} `yaml:"process"`
		Credentials struct {
			Env     []string `yaml:"env"`
			PerTool *bool    `yaml:"inject_per_tool"`
			Expose  bool     `yaml:"expose_to_model"`
			Redact  *bool    `yaml:"redact_in_logs"`
		} `yaml:"credentials"`
	} `yaml:"sandbox_policy"`
}

// ParsePolicy reads a policy from YAML:
//
//	sandbox_policy:
//	  name: build
//	  filesystem: {system: true, allow_read: ["./"], allow_write: ["./out"], deny_read: [".env"]}
//	  network: {default: deny, allow_domains: [packages.example.org]}
//	  process: {timeout_seconds: 300, max_child_processes: 32}
//	  credentials: {env: [GIT_AUTHOR_NAME]}
//	  require: {proc.count: none}
//
// network.default may only be "deny". deny_private_ip_ranges, inject_per_tool
// and redact_in_logs may only be true, and expose_to_model only false: they are
// always so, and a policy may say it. Unknown fields, repeated keys, aliases, a
// second document and values that cannot be meant are refused, each with its
// line. The error is INVALID_INPUT.
func ParsePolicy(text []byte) (*Policy, error) {
	var d document
	if err := strictyaml.Decode(text, &d); err != nil {
		return nil, invalid(err)
	}
	y := &d.Policy
	p := &Policy{
		Name: y.Name, Require: y.Require,
		Filesystem:  Filesystem(y.Filesystem),
		Network:     Network{y.Network.AllowDomains, y.Network.AllowPrivate},
		Process:     Process{time.Duration(y.Process.Timeout) * time.Second, y.Process.MaxChildren, y.Process.MaxMemory, y.Process.MaxFile, y.Process.MaxOutput, y.Process.Blocked},
		Credentials: Credentials{y.Credentials.Env},
	}
	var errs []error
	add := func(bad bool, field, problem string) {
		if bad {
			errs = append(errs, strictyaml.At(text, "sandbox_policy."+field, problem))
		}
	}
	add(y.Network.Default != "" && y.Network.Default != "deny", "network.default", `may only be "deny"; name the hosts in allow_domains`)
	add(y.Network.DenyPrivate != nil && !*y.Network.DenyPrivate, "network.deny_private_ip_ranges", "may only be true; name the ranges in allow_private")
	add(y.Process.Timeout < 0 || y.Process.Timeout > int(maxTimeout/time.Second), "process.timeout_seconds", "must be from 0 (60 s) to 86400")
	add(y.Credentials.PerTool != nil && !*y.Credentials.PerTool, "credentials.inject_per_tool", "may only be true")
	add(y.Credentials.Expose, "credentials.expose_to_model", "may only be false")
	add(y.Credentials.Redact != nil && !*y.Credentials.Redact, "credentials.redact_in_logs", "may only be true")
	for _, f := range p.faults() {
		add(f.field != "process.timeout_seconds", f.field, f.text)
	}
	if errs != nil {
		return nil, invalid(errors.Join(errs...))
	}
	return p, nil
}

// invalid keeps the details readable for the administrator who wrote the text.
func invalid(err error) error {
	return fmt.Errorf("sandbox: policy: %w", errors.Join(err, toolresult.InvalidInput))
}

const (
	maxTimeout  = 24 * time.Hour
	maxOutput   = 1 << 30
	maxPatterns = 256
	maxPattern  = 1024 // bytes
)

type fault struct{ field, text string }

// Validate says what is wrong with a policy that was written in Go. The error
// is INVALID_INPUT.
func (p *Policy) Validate() error {
	var errs []error
	for _, f := range p.faults() {
		errs = append(errs, fmt.Errorf("%s: %s", f.field, f.text))
	}
	if errs != nil {
		return invalid(errors.Join(errs...))
	}
	return nil
}

func (p *Policy) faults() (out []fault) {
	add := func(bad bool, field, text string) {
		if bad {
			out = append(out, fault{field, text})
		}
	}
	add(len(p.Name) > 64 || strings.ContainsFunc(p.Name, control), "name", "must have at most 64 bytes and no control characters")
	for _, c := range slices.Sorted(mapKeys(p.Require)) {
		add(!known(c), "require", fmt.Sprintf("%q is no claim", string(c)))
		add(p.Require[c] > Delegated, "require", fmt.Sprintf("%s: no such strength", c))
	}
	lists := []struct {
		field string
		list  []string
		check func(string) string
	}{
		{"filesystem.allow_read", p.Filesystem.AllowRead, allowFault},
		{"filesystem.allow_write", p.Filesystem.AllowWrite, allowFault},
		{"filesystem.deny_read", p.Filesystem.DenyRead, denyFault},
		{"filesystem.deny_write", p.Filesystem.DenyWrite, denyFault},
		{"network.allow_domains", p.Network.AllowDomains, domainFault},
		{"process.blocked_commands", p.Process.BlockedCommands, blockedFault},
		{"credentials.env", p.Credentials.Env, envFault},
	}
	for _, l := range lists {
		add(len(l.list) > maxPatterns, l.field, fmt.Sprintf("must have at most %d entries", maxPatterns))
		for i, s := range l.list {
			text := cmp.Or(textFault(s), l.check(s))
			add(text != "", fmt.Sprintf("%s[%d]", l.field, i), text)
		}
	}
	for i, r := range p.Network.AllowPrivate {
		add(!r.IsValid() || r != r.Masked(), fmt.Sprintf("network.allow_private[%d]", i), "must be a range without host bits, such as 10.20.0.0/16")
	}
	add(p.Process.Timeout < 0 || p.Process.Timeout > maxTimeout, "process.timeout_seconds", "must be from 0 (60 s) to 86400")
	add(p.Process.MaxChildren < 0 || p.Process.MaxChildren > 1<<16, "process.max_child_processes", "must be from 0 (no limit is claimed) to 65536")
	add(p.Process.MaxMemory < 0, "process.max_memory_bytes", "must not be negative")
	add(p.Process.MaxFile < 0, "process.max_file_bytes", "must not be negative")
	add(p.Process.MaxOutput < 0 || p.Process.MaxOutput > maxOutput, "process.max_output_bytes", "must be from 0 (1 MiB) to 1 GiB")
	return out
}

func mapKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func control(r rune) bool { return r < 0x20 || r == 0x7f }

func textFault(s string) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > maxPattern:
		return fmt.Sprintf("is longer than %d bytes", maxPattern)
	case strings.ContainsFunc(s, control):
		return "holds a control character"
	}
	return ""
}

const meta = "*?[\\"

// segments splits a path, without the empty ones.
func segments(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

func pathFault(s string) string {
	if strings.HasPrefix(s, "~") && s != "~" && !strings.HasPrefix(s, "~/") {
		return `names another user's home; only "~/" is known`
	}
	for _, seg := range segments(s) {
		if seg == ".." {
			return `holds ".."; write the path out`
		}
		if _, err := path.Match(seg, ""); err != nil {
			return "holds a pattern that is not closed"
		}
	}
	return ""
}

func allowFault(s string) string {
	if text := pathFault(s); text != "" {
		return text
	}
	segs := segments(s)
	for i, seg := range segs {
		if strings.ContainsAny(seg, meta) && (i < len(segs)-1 || seg == "**" || i == 0 && strings.HasPrefix(s, "/")) {
			return `may hold "*", "?" and "[" in the last element only, and not below the root`
		}
	}
	if strings.HasPrefix(s, "/") && len(segs) == 0 {
		return "is the whole machine; name directories"
	}
	return ""
}

func denyFault(s string) string {
	if text := pathFault(s); text != "" {
		return text
	}
	if segs := segments(s); len(segs) > 0 && segs[len(segs)-1] == "**" {
		return `ends with "**"; name the directory, all below it is denied too`
	}
	return ""
}

// Compiled when needed: a helper that becomes a program starts often.
var domain = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
})

func domainFault(s string) string {
	if len(s) > 253 || !domain().MatchString(s) {
		return `must be a lower-case ASCII host name without a trailing dot, or "*." and one; addresses and ports are not names`
	}
	if strings.HasPrefix(s, "*.") && !strings.Contains(s[2:], ".") {
		return "permits a whole top-level domain"
	}
	return ""
}

func blockedFault(s string) string {
	if strings.TrimSpace(s) == "" {
		return "is only space"
	}
	return ""
}

var envName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// loaders are variables that make other programs run code.
var loaders = []string{"LD_", "DYLD_", "BASH_ENV", "ENV", "GLIBC_TUNABLES", "GCONV_PATH", "IFS", "PYTHONSTARTUP", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "PAGER", "PROMPT_COMMAND", "SHELLOPTS", "PS4"}

func envFault(s string) string {
	if !envName().MatchString(s) {
		return "is no name of a variable"
	}
	for _, l := range loaders {
		if s == l || strings.HasSuffix(l, "_") && strings.HasPrefix(s, l) {
			return "makes other programs run code; set it inside a program of yours"
		}
	}
	return ""
}
