package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/remote"
)

// fleet would carry both calls to machines that run the programs.
type fleet struct{}

func (fleet) Probe(_ context.Context, rules json.RawMessage, digest string) (*sandbox.Report, error) {
	r, err := sandbox.ParseRules(rules, digest)
	if err != nil {
		return nil, err
	}
	return sandbox.NewReport(sandbox.LevelRemote, "fleet", r), nil // and holds nothing yet
}

func (fleet) Run(context.Context, *remote.Request, remote.Streams) (*remote.Outcome, error) {
	panic("not reached: nothing is run that cannot be enforced")
}

func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	profile, err := sandbox.NewProfile(sandbox.UntrustedCode, sandbox.Scope{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rules, err := profile.Resolve(sandbox.Base{Workspace: dir}) // takes a machine's word
	if err != nil {
		fmt.Println(err)
		return
	}
	x, err := remote.New(fleet{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = profile.Executor(x).Start(context.Background(), rules, &sandbox.Command{Path: "/bin/true"})
	fmt.Println(err != nil)
	// Output: true
}
