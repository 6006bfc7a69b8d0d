//go:build linux

package process_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
	"github.com/drawbridge-sdk/drawbridge/sandbox/sandboxtest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// S5: on a real executor a shell runs, and a search runs nothing. Thread mode
// is too weak for either, and says so.
func TestToolTypes_S5(t *testing.T) {
	x, ok := needs(t, process.Reexec, nil)
	if !ok {
		return
	}
	bash, err := sandbox.NewProfile(sandbox.ShellCode, sandbox.Scope{})
	require.NoError(t, err)
	bash.Policy.Require = map[sandbox.Claim]sandbox.Strength{sandbox.ProcCount: sandbox.None} // root's own directory
	rb, err := bash.Resolve(sandbox.Base{Workspace: workspace(t)})
	require.NoError(t, err)
	var out bytes.Buffer
	c := &sandbox.Command{Path: "/bin/sh", Args: []string{"-c", "echo ran"}, Stdout: &out}
	require.Zero(t, run(t, bash.Executor(x), rb, c).ExitCode)
	require.Equal(t, "ran\n", out.String())
	_, err = executor(t, process.Thread).Start(t.Context(), rb, c)
	require.ErrorIs(t, err, toolresult.Unsupported)

	search, err := sandbox.NewProfile(sandbox.SearchAPI, sandbox.Scope{Hosts: []string{"docs.example.com"}})
	require.NoError(t, err)
	rs, err := search.Resolve(sandbox.Base{Workspace: rb.Workspace})
	require.NoError(t, err)
	_, err = x.Start(t.Context(), rs, c)
	require.ErrorIs(t, err, toolresult.PermissionDenied, "its rules read no program")
	_, err = search.Executor(x).Start(t.Context(), rb, c)
	require.ErrorIs(t, err, toolresult.Unsupported, "nor with the shell's rules")
}

// Case 142: a loader, an interpreter and memory run what no list of programs
// names, and reach nothing more by it. That they run is a limit that the report
// states.
func TestExecutionIsNoBoundary(t *testing.T) {
	for _, mode := range []process.Mode{process.Thread, process.Reexec} {
		x, ok := needs(t, mode, nil)
		if !ok {
			continue
		}
		r := sandboxtest.Run(t, x, &sandboxtest.Options{Only: []string{"process/via-memory", "process/via-interpreter", "process/via-loader"}})
		require.Equal(t, 3, r.Counts()[sandboxtest.Held])
		var out bytes.Buffer
		ws := rules(t, workspace(t), weakly)
		res := run(t, x, ws, &sandbox.Command{Path: "/bin/sh", Args: []string{"-c", "for l in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do [ -e $l ] && exec $l /bin/echo runs; done"}, Stdout: &out})
		require.Equal(t, "runs\n", out.String())
		limit := ""
		for _, l := range res.Report.Limits {
			if l.Number == 142 {
				limit = l.Text
			}
		}
		require.Contains(t, limit, "no boundary")
	}
}
