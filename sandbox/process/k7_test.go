//go:build linux

package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

func cpuAll() time.Duration {
	var d time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		syscall.Getrusage(who, &u)
		d += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return d
}

func TestK7Start(t *testing.T) {
	ws := workspace(t)
	r := rules(t, ws, weakly)
	type mode struct {
		name string
		f    func()
	}
	on := func(x sandbox.Executor) func() {
		return func() { require.Zero(t, run(t, x, r, &sandbox.Command{Path: "/bin/true"}).ExitCode) }
	}
	x, err := process.New(&process.Options{Mode: process.Reexec, Helper: os.Getenv("K7_HELPER")})
	require.NoError(t, err)
	modes := []mode{
		{"plain", func() { require.NoError(t, exec.Command("/bin/true").Run()) }},
		{"thread", on(executor(t, process.Thread))},
		{"re-exec", on(executor(t, process.Reexec))},
		{"helper", on(x)},
		{"bwrap", func() {
			require.NoError(t, exec.Command("bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", ws, ws, "--die-with-parent", "--new-session", "--cap-drop", "ALL", "/bin/true").Run())
		}},
	}
	if only := os.Getenv("K7_ONLY"); only != "" {
		modes = slices.DeleteFunc(modes, func(m mode) bool { return !strings.Contains(only, m.name) })
	}
	wall, cpu := map[string][]time.Duration{}, map[string]time.Duration{}
	const n = 60
	for range n {
		for _, m := range modes {
			c, w := cpuAll(), time.Now()
			m.f()
			wall[m.name] = append(wall[m.name], time.Since(w))
			cpu[m.name] += cpuAll() - c
		}
	}
	for _, m := range modes {
		slices.Sort(wall[m.name])
		fmt.Printf("%-8s wall min %v p25 %v median %v cpu %v\n", m.name, wall[m.name][0].Round(10*time.Microsecond), wall[m.name][n/4].Round(10*time.Microsecond), wall[m.name][n/2].Round(10*time.Microsecond), (cpu[m.name] / n).Round(10*time.Microsecond))
	}
}
