package sandbox

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Executor runs programs inside a boundary. Implementations are safe for
// concurrent use.
type Executor interface {
	// Probe says what would be enforced for these rules on this machine. It
	// MUST find out by doing, not by version numbers, and start nothing of
	// the caller's.
	Probe(ctx context.Context, r *Rules) (*Report, error)

	// Start runs a program. It MUST refuse, with an *UnenforcedError and
	// before anything of the command ran, when [Report.Check] does, and MUST
	// never run with a weaker boundary than it reported. The end of ctx kills
	// the program.
	Start(ctx context.Context, r *Rules, c *Command) (Running, error)
}

// Running is a program that was started. Wait must be called once.
type Running interface {
	// Wait returns when the program and everything it started are gone and
	// the streams are done. The error is about the sandbox: how the program
	// itself ended is in the Result.
	Wait() (*Result, error)

	// Kill ends the program and everything it started. It may be called at
	// any time, also more than once.
	Kill() error
}

// Command is what runs. Everything in it is the host's choice, or was approved.
type Command struct {
	// Path is the program, absolute and without symbolic links that lead
	// outside: there is no search.
	Path string

	// Args are its arguments, without the name of the program. No shell reads
	// them.
	Args []string

	// Dir is the directory it starts in, inside what may be read. It widens
	// nothing. Empty: the workspace.
	Dir string

	// Env are variables whose names the rules list. Empty: only those that the
	// executor sets.
	Env map[string]string

	// Stdin may be nil: empty. Stdout and Stderr may be nil: discarded. They
	// are always connected by pipes, because a descriptor is a right.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Pins are files that must have these contents when the program runs: the
	// program itself, a script that it interprets. An executor that cannot
	// make sure of it refuses.
	Pins []Pin
}

// Pin fixes the contents of one file.
type Pin struct {
	Path   string // absolute and canonical
	Digest string // "sha256:" and 64 hexadecimal digits
}

// Result is how a run ended.
type Result struct {
	ExitCode  int    // -1 if it was ended by a signal
	Signal    string // "killed", "segmentation fault", ...; empty if it ended itself
	TimedOut  bool   // by the rules' timeout or the context
	Truncated bool   // it wrote more than max_output_bytes; the rest was dropped
	Elapsed   time.Duration

	Denials []Denial
	Dropped int            // how many more denials there were
	Exact   map[Claim]bool // claims for which Denials is complete
	Report  *Report
}

// Proxy lets a confined program out. Package sandbox/egress has one.
type Proxy interface {
	// Serve answers HTTP proxy requests (absolute form and CONNECT) that come
	// in on l, until l is closed or ctx ends, and then returns with nothing
	// left running. It MUST reach only hosts that [Rules.Decide] permits and
	// only addresses that are public or in r.Private, and call denied, which
	// may be called concurrently, for everything that it refuses.
	Serve(ctx context.Context, l net.Listener, r *Rules, denied func(Denial)) error
}

// CheckCommand refuses a command that the rules do not permit, before anything
// starts. Executors call it. The error is INVALID_INPUT or PERMISSION_DENIED.
func (r *Rules) CheckCommand(c *Command) error {
	if err := r.check(); err != nil {
		return err
	}
	switch {
	case c == nil || !filepath.IsAbs(c.Path) || filepath.Clean(c.Path) != c.Path:
		return toolresult.NewError(toolresult.InvalidInput, "the program must be an absolute, clean path; there is no search")
	case c.Dir != "" && (!filepath.IsAbs(c.Dir) || filepath.Clean(c.Dir) != c.Dir):
		return toolresult.NewError(toolresult.InvalidInput, "the directory must be an absolute, clean path")
	case !r.readable(c.Path, true):
		return toolresult.NewError(toolresult.PermissionDenied, "the rules do not permit reading the program")
	case c.Dir != "" && !r.readable(c.Dir, false) || c.Dir == "" && !r.readable(r.Workspace, false):
		return toolresult.NewError(toolresult.PermissionDenied, "the rules do not permit reading the directory that the program starts in")
	}
	for _, s := range append(slices.Clone(c.Args), c.Path, c.Dir) {
		if strings.ContainsRune(s, 0) {
			return toolresult.NewError(toolresult.InvalidInput, "a text of the command holds a NUL character")
		}
	}
	for name, value := range c.Env {
		if !slices.Contains(r.Env, name) {
			return toolresult.NewError(toolresult.PermissionDenied, "the rules do not list a variable of the command").With("/env/"+name, "add it to credentials.env")
		}
		if strings.ContainsRune(value, 0) {
			return toolresult.NewError(toolresult.InvalidInput, "a variable of the command holds a NUL character")
		}
	}
	if d := r.Decide(Op{Kind: OpRun, Target: strings.Join(append([]string{c.Path}, c.Args...), " ")}); !d.Allowed {
		return toolresult.NewError(toolresult.PermissionDenied, "the command line holds a blocked text").With("/args", d.Rule)
	}
	for _, p := range c.Pins {
		if !filepath.IsAbs(p.Path) || filepath.Clean(p.Path) != p.Path || !isDigest(p.Digest) {
			return toolresult.NewError(toolresult.InvalidInput, "a pin must have an absolute, clean path and a digest sha256:...")
		}
	}
	return nil
}

func isDigest(s string) bool {
	rest, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(rest) == 64 && strings.Trim(rest, "0123456789abcdef") == ""
}

// readable reports whether p lies in what may be read. The system counts if
// system is set: for programs.
func (r *Rules) readable(p string, system bool) bool {
	if r.Decide(Op{Kind: OpRead, Target: p}).Allowed {
		return true
	}
	return system && r.System && inSystem(p)
}

// System are the directories and files that filesystem.system permits to read.
// Those that do not exist on a machine are left out.
func System() []string { return slices.Clone(system) }

var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
	"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/mime.types",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
}

func inSystem(p string) bool {
	return slices.ContainsFunc(system, func(s string) bool { return Within(s, p) })
}
