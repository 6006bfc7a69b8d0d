//go:build linux

package process_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

// BenchmarkStart starts /bin/true: plainly, in each mode, and by bwrap, in one
// run, so that the ratios can be read.
func BenchmarkStart(b *testing.B) {
	ws := workspace(b)
	r := rules(b, ws, weakly)
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, exec.Command("/bin/true").Run())
		}
	})
	starts := func(name string, x sandbox.Executor) {
		b.Run(name, func(b *testing.B) {
			if rep, err := x.Probe(b.Context(), r); err != nil || rep.Check(r, nil) != nil {
				b.Skip("does not work here: ", rep.Of(sandbox.FSRead).Gap)
			}
			b.ReportAllocs()
			for b.Loop() {
				require.Zero(b, run(b, x, r, &sandbox.Command{Path: "/bin/true"}).ExitCode)
			}
		})
	}
	starts("thread", executor(b, process.Thread))
	starts("re-exec", executor(b, process.Reexec))
	exe := filepath.Join(workspace(b), "helper")
	build := exec.Command("go", "build", "-o", exe, "./testdata/helper")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(b, err, "%s", out)
	x, err := process.New(&process.Options{Mode: process.Reexec, Helper: exe})
	require.NoError(b, err)
	starts("helper", x)
	b.Run("bwrap", func(b *testing.B) {
		if exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").Run() != nil {
			b.Skip("bwrap is not here, or does not work here")
		}
		for b.Loop() {
			require.NoError(b, exec.Command("bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", ws, ws, "--die-with-parent", "--new-session", "--cap-drop", "ALL", "/bin/true").Run())
		}
	})
}
