//go:build linux

package process_test

import (
	"context"
	"fmt"
	"os"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

// A program in a workspace of its own. What the kernel cannot hold is refused
// by name before anything starts.
func Example() {
	self := process.Init() // first in main: this program is its own helper
	executor, err := process.New(&process.Options{Self: self})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := &sandbox.Policy{Filesystem: sandbox.Filesystem{System: true, AllowRead: []string{"./"}}}
	rules, err := policy.Resolve(sandbox.Base{Workspace: "/srv/agents/run-17"})
	if err != nil {
		fmt.Println(err)
		return
	}
	running, err := executor.Start(context.Background(), rules, &sandbox.Command{Path: "/usr/bin/git", Args: []string{"status"}, Stdout: os.Stdout})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := running.Wait()
	fmt.Println(result.ExitCode, err)
}
