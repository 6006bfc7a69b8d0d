//go:build linux

package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
	"github.com/drawbridge-sdk/drawbridge/sandbox/sandboxtest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func runc(t *testing.T) *process.OCI {
	t.Helper()
	path, err := exec.LookPath("runc")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "runc must be installed: .ci/run install")
		t.Skip("runc is not installed")
	}
	o, err := process.NewOCI(path)
	require.NoError(t, err)
	return o
}

// S2, S6: the level container through an OCI runtime, as far as it works here.
// Where it does not, every claim is none and every start that requires one is
// refused, which the suite checks, too.
func TestOCI_S6(t *testing.T) {
	t.Setenv("TMPDIR", workspace(t)) // where bundles are: what another run left does not count
	o := runc(t)
	rep, err := o.Probe(t.Context(), rules(t, workspace(t), nil))
	require.NoError(t, err)
	t.Log(rep.Of(sandbox.FSRead).Strength, rep.Of(sandbox.FSRead).Gap, "count:", rep.Of(sandbox.ProcCount).Gap, "memory:", rep.Of(sandbox.ProcMemory).Gap)
	if rep.Of(sandbox.FSRead).Strength == sandbox.None {
		_, err := o.Start(t.Context(), rules(t, workspace(t), nil), &sandbox.Command{Path: "/bin/true"})
		require.ErrorIs(t, err, toolresult.Unsupported)
		return
	}
	r := sandboxtest.Run(t, o, nil)
	t.Log("own", r.Counts())
	if os.Geteuid() == 0 { // the same boundary around another user's files
		r = sandboxtest.Run(t, o, &sandboxtest.Options{Owner: 65534, Only: []string{
			"files/read-allowed", "files/write-allowed", "files/outside", "files/hard-link", "files/denied-name", "files/append-outside", "files/hooks",
			"files/chmod-outside", "network/tcp", "process/signal", "process/daemon", "process/forks", "process/memory", "process/setuid", "credentials/environment",
		}})
		t.Log("other", r.Counts())
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "sandbox-oci-*"))
	require.NoError(t, err)
	require.Empty(t, left, "no bundle is left")
}

// A runtime that is none claims nothing, and refuses.
func TestOCIAbsent(t *testing.T) {
	_, err := process.NewOCI("runc")
	require.ErrorIs(t, err, toolresult.InvalidInput)
	for _, path := range []string{"/nonexistent/runc", "/bin/false", "/bin/true"} {
		o, err := process.NewOCI(path)
		require.NoError(t, err)
		r := rules(t, workspace(t), nil)
		rep, err := o.Probe(t.Context(), r)
		require.NoError(t, err)
		if path == "/bin/true" { // and one that says yes to everything holds no limit
			require.Equal(t, sandbox.None, rep.Of(sandbox.ProcCount).Strength)
			require.Equal(t, sandbox.None, rep.Of(sandbox.ProcMemory).Strength)
			continue
		}
		require.Equal(t, sandbox.None, rep.Of(sandbox.FSRead).Strength)
		_, err = o.Start(t.Context(), r, &sandbox.Command{Path: "/bin/true"})
		require.ErrorIs(t, err, toolresult.Unsupported)
	}
}

// A thread that waits for a container's command has a table of descriptors of
// its own. The runtime's poller must be in it, or a collection that begins
// there ends the program.
func TestWaitingThreadCanCollect(t *testing.T) {
	process.CollectWhileWaiting(t, "/bin/true")
}
