package launch_test

import (
	"context"
	"fmt"
	"io"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/remote"
	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/launch"
)

// An operator approves a program once; a remote.Server then starts it for each
// caller.
func Example() {
	var (
		executor sandbox.Executor // process.New(...)
		rules    *sandbox.Rules   // policy.Resolve(...)
	)
	spec := &launch.Spec{Name: "tickets", Path: "/opt/servers/tickets", Args: []string{"--read-only"}, Env: []string{"TICKETS_TOKEN"}}

	// Once, at a terminal.
	plan, err := launch.Inspect(spec, rules)
	if err != nil {
		fmt.Println("refused")
		return
	}
	fmt.Print(plan.Text())

	// In the host, with the fingerprint from where changes are reviewed.
	approved := launch.Approved{"tickets": plan.Fingerprint()}
	_ = remote.Server{ID: "tickets", Launch: func(ctx context.Context, who authz.Principal) (io.ReadWriteCloser, error) {
		return launch.Start(ctx, executor, spec, rules, approved, &launch.Options{Env: map[string]string{"TICKETS_TOKEN": "of " + who.Identity().Subject}})
	}}
	// Output: refused
}
