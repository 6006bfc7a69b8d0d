package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

const (
	threadMode = process.Thread
	reexecMode = process.Reexec
)

// start compares /bin/true in a sandbox with /bin/true. The helper of re-exec
// mode is the small one of the tests: this program would be a slow one.
func start(mode process.Mode, dir string) (row, error) {
	opts := &process.Options{Mode: mode}
	if mode == reexecMode {
		opts.Helper = filepath.Join(dir, "helper")
		if out, err := exec.Command("go", "build", "-o", opts.Helper, "github.com/drawbridge-sdk/drawbridge/sandbox/process/testdata/helper").CombinedOutput(); err != nil {
			return row{}, fmt.Errorf("the helper cannot be built: %w: %s", err, out)
		}
	}
	x, err := process.New(opts)
	if err != nil {
		return row{}, err
	}
	workspace := filepath.Join(dir, "workspace")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return row{}, err
	}
	p := &sandbox.Policy{Filesystem: sandbox.Filesystem{System: true, AllowWrite: []string{"./"}},
		Require: map[sandbox.Claim]sandbox.Strength{sandbox.ProcTree: 0, sandbox.FSMetadata: 0}} // what thread mode cannot hold
	rules, err := p.Resolve(sandbox.Base{Workspace: workspace})
	if err != nil {
		return row{}, err
	}
	ctx := context.Background()
	if rep, err := x.Probe(ctx, rules); err != nil || rep.Check(rules, nil) != nil {
		return row{}, errNotHere{"the kernel does not enforce it"}
	}
	return row{func() { confined(ctx, x, rules) }, func() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			panic(err)
		}
	}}, nil
}

func confined(ctx context.Context, x sandbox.Executor, rules *sandbox.Rules) {
	running, err := x.Start(ctx, rules, &sandbox.Command{Path: "/bin/true"})
	if err != nil {
		panic(err)
	}
	if res, err := running.Wait(); err != nil || res.ExitCode != 0 {
		panic(fmt.Sprint("/bin/true failed: ", err))
	}
}
