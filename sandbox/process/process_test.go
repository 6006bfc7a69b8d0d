//go:build linux

package process_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

var self process.Self

func TestMain(m *testing.M) {
	self = process.Init()
	os.Exit(m.Run())
}

func TestTry(t *testing.T) {
	ws, _ := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, os.WriteFile(ws+"/.env", []byte("SECRET"), 0o600))
	for _, mode := range []process.Mode{process.Thread, process.Reexec} { // replaced by the suite
		x, err := process.New(&process.Options{Mode: mode, Self: self})
		require.NoError(t, err)
		p := sandbox.Policy{Filesystem: sandbox.Filesystem{System: true, AllowWrite: []string{"./"}, DenyRead: []string{".env"}}}
		if mode == process.Thread {
			p.Require = map[sandbox.Claim]sandbox.Strength{sandbox.ProcTree: 0, sandbox.FSMetadata: 0}
		}
		r, err := p.Resolve(sandbox.Base{Workspace: ws})
		require.NoError(t, err)
		rep, err := x.Probe(context.Background(), r)
		require.NoError(t, err)
		t.Log("\n" + r.Explain(rep))
		t.Log(rep.Host)
		var out, errs bytes.Buffer
		run, err := x.Start(context.Background(), r, &sandbox.Command{Path: "/bin/sh", Args: []string{"-c", "id; pwd; ls -la /; cat .env; cat /etc/shadow; ls -la; unshare -U true; cat /proc/self/status | grep -i cap; ls -l /proc/self/fd; env"}, Stdout: &out, Stderr: &errs})
		require.NoError(t, err)
		res, err := run.Wait()
		require.NoError(t, err)
		t.Log(out.String(), errs.String(), res)
	}
}
