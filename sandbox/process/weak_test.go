//go:build linux

package process_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
	"github.com/drawbridge-sdk/drawbridge/sandbox/sandboxtest"
)

// naive starts programs as os/exec does and claims everything. Each field is
// one thing that it does right.
type naive struct {
	timeout, pipe, env, nothing, silent, ignores bool
}

func (n naive) Probe(_ context.Context, r *sandbox.Rules) (*sandbox.Report, error) {
	rep := sandbox.NewReport(sandbox.LevelProcess, "naive", r)
	for _, c := range sandbox.Claims() {
		switch {
		case n.silent:
			rep.Set(c, sandbox.None, "")
		case n.ignores:
			rep.Set(c, sandbox.None, "not here")
		default:
			rep.Set(c, sandbox.Enforced, "", "trust")
		}
	}
	return rep, nil
}

func (n naive) Start(ctx context.Context, r *sandbox.Rules, c *sandbox.Command) (sandbox.Running, error) {
	rep, _ := n.Probe(ctx, r)
	limit := 4 * time.Second // or this test would not end
	if n.timeout {
		limit = r.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Workspace, c.Stdout, c.Stderr
	if n.pipe {
		cmd.Stdout, cmd.Stderr = struct{ io.Writer }{c.Stdout}, struct{ io.Writer }{c.Stderr}
	}
	if n.env {
		cmd.Env = []string{}
	}
	if n.nothing {
		cmd.Path = "/bin/false"
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	return &naiveRun{cmd, rep, time.Now(), cancel}, nil
}

type naiveRun struct {
	*exec.Cmd
	report *sandbox.Report
	began  time.Time
	cancel context.CancelFunc
}

func (r *naiveRun) Kill() error { return r.Process.Kill() }

func (r *naiveRun) Wait() (*sandbox.Result, error) {
	defer r.cancel()
	err := r.Cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, err
	}
	res := &sandbox.Result{ExitCode: r.ProcessState.ExitCode(), Elapsed: time.Since(r.began), Report: r.report}
	if st, ok := r.ProcessState.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		res.Signal = st.Signal().String()
	}
	return res, nil
}

// outside is the directory beside the workspace of the suite.
func outside(s *process.Spec) string { return filepath.Join(filepath.Dir(s.Write[0]), "outside") }

// holes are executors that are weak in one place, and the case that must find
// it. The claim is what the report must name.
var holes = []struct {
	hole   string
	owner  int // 65534: needs root
	root   bool
	adjust func(*process.Spec) // re-exec mode with this hole
	naive  *naive
	finds  string
	claim  sandbox.Claim
}{
	{hole: "denied files are not covered", adjust: func(s *process.Spec) { s.Deny = nil }, finds: "files/denied-name", claim: sandbox.FSDenyRead},
	{hole: "patterns that begin with stars are not applied", adjust: func(s *process.Spec) { drop(&s.Deny, "secret") }, finds: "files/denied-glob", claim: sandbox.FSDenyRead},
	{hole: "letter case is a way around", adjust: func(s *process.Spec) { drop(&s.Deny, ".ENV") }, finds: "files/denied-case", claim: sandbox.FSDenyRead},
	{hole: "a denied directory is forgotten", adjust: func(s *process.Spec) { drop(&s.Deny, "keys") }, finds: "files/denied-directory", claim: sandbox.FSDenyRead},
	{hole: "hard links are not covered", adjust: func(s *process.Spec) { drop(&s.Deny, "hard") }, finds: "files/hard-link", claim: sandbox.FSLinks},
	{hole: "protected files are writable", adjust: func(s *process.Spec) { s.ReadOnly = nil }, finds: "files/hooks", claim: sandbox.FSDenyWrite},
	{hole: "git's settings are writable", adjust: func(s *process.Spec) { drop(&s.ReadOnly, "config") }, finds: "files/git-config", claim: sandbox.FSDenyWrite},
	{hole: "a directory too much is readable", adjust: func(s *process.Spec) { s.Read = append(s.Read, outside(s)) }, finds: "files/outside", claim: sandbox.FSRead},
	{hole: "a link out of the workspace leads somewhere", adjust: func(s *process.Spec) { s.Read = append(s.Read, outside(s)) }, finds: "files/symlink-chain", claim: sandbox.FSRead},
	{hole: "a directory too much is writable", adjust: func(s *process.Spec) { s.Write = append(s.Write, outside(s)) }, finds: "files/append-outside", claim: sandbox.FSWrite},
	{hole: "commands reach outside", adjust: func(s *process.Spec) { s.Write = append(s.Write, outside(s)) }, finds: "commands/01-rm", claim: sandbox.FSWrite},
	{hole: "modes outside can be changed", adjust: func(s *process.Spec) { s.Write = append(s.Write, outside(s)) }, finds: "files/chmod-outside", claim: sandbox.FSMetadata},
	{hole: "the outside can be seen", adjust: func(s *process.Spec) { s.Read = append(s.Read, outside(s)) }, finds: "files/stat-outside", claim: sandbox.FSExistence},
	{hole: "no filter", adjust: func(s *process.Spec) { s.Filter = nil }, finds: "kernel/trace-me", claim: sandbox.ProcKernel},
	{hole: "rings pass the filter", adjust: func(s *process.Spec) { process.Let(s, unix.SYS_IO_URING_SETUP) }, finds: "network/io-uring", claim: sandbox.ProcKernel},
	{hole: "namespaces by unshare", adjust: func(s *process.Spec) { process.Let(s, unix.SYS_UNSHARE) }, finds: "kernel/unshare", claim: sandbox.ProcKernel},
	{hole: "namespaces by clone3", adjust: func(s *process.Spec) { process.Let(s, unix.SYS_CLONE3) }, finds: "kernel/clone3", claim: sandbox.ProcKernel},
	{hole: "namespaces by clone", adjust: func(s *process.Spec) { process.Let(s, unix.SYS_CLONE) }, finds: "kernel/clone", claim: sandbox.ProcKernel},
	{hole: "keys of the session", adjust: func(s *process.Spec) { process.Let(s, unix.SYS_KEYCTL) }, finds: "kernel/keyctl", claim: sandbox.ProcKernel},
	{hole: "typing into the terminal", adjust: func(s *process.Spec) { process.Let(s, unix.TIOCSTI) }, finds: "kernel/tiocsti", claim: sandbox.ProcKernel},
	{hole: "every socket family", adjust: func(s *process.Spec) { process.Let(s, unix.SYS_SOCKET) }, finds: "network/netlink", claim: sandbox.NetFamilies},
	{hole: "unix sockets in the workspace", adjust: func(s *process.Spec) { process.Let(s, unix.SYS_SOCKET) }, finds: "network/unix-inside", claim: sandbox.FSSocket},
	{hole: "the host's network", adjust: process.ShareNetwork, finds: "network/tcp", claim: sandbox.NetEgress},
	{hole: "private addresses", adjust: process.ShareNetwork, finds: "network/private", claim: sandbox.NetPrivate},
	{hole: "the host's environment", adjust: func(s *process.Spec) { s.Env = append(s.Env, os.Environ()...) }, finds: "credentials/environment", claim: sandbox.CredEnv},
	{hole: "no limit of a file", adjust: func(s *process.Spec) { s.FileSize = 0 }, finds: "files/large", claim: sandbox.ProcFile},
	{hole: "no count of processes", owner: 65534, root: true, adjust: func(s *process.Spec) { s.Tasks = 0 }, finds: "process/forks", claim: sandbox.ProcCount},
	{hole: "descriptors are passed on", naive: &naive{pipe: true}, finds: "credentials/descriptor", claim: sandbox.CredFD},
	{hole: "the output is a file of the host", naive: &naive{}, finds: "credentials/output-reopened", claim: sandbox.CredFD},
	{hole: "no timeout", naive: &naive{}, finds: "process/timeout", claim: sandbox.ProcTimeout},
	{hole: "what detaches itself survives", naive: &naive{timeout: true, pipe: true}, finds: "process/daemon", claim: sandbox.ProcTree},
	{hole: "no end of the output", naive: &naive{pipe: true}, finds: "process/output", claim: sandbox.ProcOutput},
	{hole: "other processes are seen", naive: &naive{}, finds: "credentials/environment-of-other", claim: sandbox.ProcPeers},
	{hole: "other processes are traced", naive: &naive{}, finds: "process/trace", claim: sandbox.ProcPeers},
	{hole: "root keeps its rights", root: true, naive: &naive{}, finds: "files/device", claim: sandbox.FSWrite},
	{hole: "memory without end", naive: &naive{timeout: true}, finds: "process/memory", claim: sandbox.ProcMemory},
	{hole: "nothing works at all", naive: &naive{nothing: true}, finds: "files/read-allowed"},
	{hole: "a gap without a reason", naive: &naive{silent: true}, finds: "files/outside", claim: sandbox.FSRead},
	{hole: "starts although it must refuse", naive: &naive{ignores: true}, finds: "files/outside", claim: sandbox.FSRead},
}

func drop(list *[]string, part string) {
	*list = slices.DeleteFunc(slices.Clone(*list), func(p string) bool { return strings.HasSuffix(p, part) || strings.Contains(filepath.Base(p), part) })
}

// S6, acceptance 3: each hole is found, and named.
func TestWeakened_S6(t *testing.T) {
	found := 0
	for _, row := range holes {
		t.Run(row.hole, func(t *testing.T) {
			if row.root && os.Geteuid() != 0 {
				t.Log("not as this user: the attempt needs root outside")
				return
			}
			var x sandbox.Executor = row.naive
			if row.adjust != nil {
				reexec := executor(t, process.Reexec)
				if rep, err := reexec.Probe(t.Context(), rules(t, workspace(t), nil)); err != nil || rep.Of(sandbox.FSRead).Strength == sandbox.None {
					require.Contains(t, rep.Host["re-exec"], " ", "there is a reason")
					t.Log("re-exec mode does not work here, so it cannot be weakened:", rep.Host["re-exec"])
					return
				}
				process.Weaken(reexec, row.adjust)
				x = reexec
			}
			dir, err := os.MkdirTemp("", "weak-")
			require.NoError(t, err)
			defer os.RemoveAll(dir)
			rep, err := sandboxtest.Check(t.Context(), x, dir, &sandboxtest.Options{Only: []string{row.finds}, Owner: row.owner})
			require.NoError(t, err)
			require.False(t, rep.OK(), "%+v", rep.Outcomes)
			require.Contains(t, rep.Holes(), row.finds)
			require.Contains(t, rep.Holes(), string(row.claim)+":")
			found++
		})
	}
	t.Log(found, "holes found of", len(holes))
}

func workspace(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "process-ws-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
