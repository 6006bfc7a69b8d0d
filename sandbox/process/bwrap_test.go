//go:build linux

package process_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
	"github.com/drawbridge-sdk/drawbridge/sandbox/sandboxtest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// S2, S6: the level container through bwrap, as far as it works here.
func TestBubblewrap_S6(t *testing.T) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "bwrap must be installed: .ci/run install")
		t.Skip("bwrap is not installed")
	}
	b, err := process.NewBubblewrap(path)
	require.NoError(t, err)
	r := sandboxtest.Run(t, b, nil)
	t.Log(r.Counts())
}

// A bwrap that is none claims nothing, and refuses.
func TestBubblewrapAbsent(t *testing.T) {
	_, err := process.NewBubblewrap("bwrap")
	require.ErrorIs(t, err, toolresult.InvalidInput)
	for _, path := range []string{"/nonexistent/bwrap", "/bin/false"} {
		b, err := process.NewBubblewrap(path)
		require.NoError(t, err)
		r := rules(t, workspace(t), nil)
		rep, err := b.Probe(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, sandbox.None, rep.Of(sandbox.FSRead).Strength)
		_, err = b.Start(t.Context(), r, &sandbox.Command{Path: "/bin/true"})
		require.ErrorIs(t, err, toolresult.Unsupported)
	}
}
