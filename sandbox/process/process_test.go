//go:build linux

package process_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
	"github.com/drawbridge-sdk/drawbridge/sandbox/sandboxtest"
)

var self process.Self

func TestMain(m *testing.M) {
	sandboxtest.Guest()
	if len(os.Args) == 3 && os.Args[1] == traced {
		beTraced(os.Args[2])
	}
	if len(os.Args) == 4 && os.Args[1] == guest {
		attack(os.Args[2], os.Args[3])
	}
	self = process.Init()
	if len(os.Args) == 2 && os.Args[1] == firstThread {
		useFirstThread()
	}
	goleak.VerifyTestMain(m)
}

func executor(t testing.TB, mode process.Mode) *process.Executor {
	t.Helper()
	x, err := process.New(&process.Options{Mode: mode, Self: self})
	require.NoError(t, err)
	return x
}

// S6: the suite finds nothing in either mode, as root with root's files, and
// as root with another user's.
func TestSuite_S6(t *testing.T) {
	for _, mode := range []process.Mode{process.Thread, process.Reexec} {
		for _, owner := range []int{0, 65534} {
			if owner != 0 && os.Geteuid() != 0 {
				continue // the same run as above
			}
			t.Run(mode.String()+"/"+map[int]string{0: "own", 65534: "other"}[owner], func(t *testing.T) {
				r := sandboxtest.Run(t, executor(t, mode), &sandboxtest.Options{Owner: owner})
				t.Log(r.Counts())
				require.NotEmpty(t, r.Outcomes)
			})
		}
	}
}

// S6: the same as a user without rights.
func TestSuiteUnprivileged_S6(t *testing.T) {
	if os.Geteuid() != 0 {
		return // TestSuite_S6 was that run
	}
	dir, err := os.MkdirTemp("", "process-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o777))
	text, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	exe := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(exe, text, 0o755))
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^(TestSuite_S6)$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	var counts []string
	for _, l := range strings.Split(string(out), "\n") {
		if strings.Contains(l, "map[") {
			counts = append(counts, strings.TrimSpace(l))
		}
	}
	t.Log(strings.Join(counts, "\n"))
	require.NoError(t, err, "%s", out)
}

func rules(t testing.TB, ws string, change func(*sandbox.Policy)) *sandbox.Rules {
	t.Helper()
	p := &sandbox.Policy{Filesystem: sandbox.Filesystem{System: true, AllowWrite: []string{"./"}}}
	if change != nil {
		change(p)
	}
	r, err := p.Resolve(sandbox.Base{Workspace: ws})
	require.NoError(t, err)
	return r
}

func run(t testing.TB, x sandbox.Executor, r *sandbox.Rules, c *sandbox.Command) *sandbox.Result {
	t.Helper()
	running, err := x.Start(context.Background(), r, c)
	require.NoError(t, err)
	res, err := running.Wait()
	require.NoError(t, err)
	return res
}
