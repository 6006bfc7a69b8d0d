//go:build linux

package cli_test

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cli"
	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

// A program with JSON output as a connector of one capability. What a model
// writes stands where From says and is never an option.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	policy := &sandbox.Policy{Filesystem: sandbox.Filesystem{System: true, AllowRead: []string{"./"}}}
	rules, err := policy.Resolve(sandbox.Base{Workspace: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	executor, err := process.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := cli.New(&cli.Program{
		Info: connector.Info{ID: "packages", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		Path: "/usr/bin/pkg", Rules: rules, Executor: executor,
		Commands: []cli.Command{{
			Name: "packages.show", Description: "One package.", Class: risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Internal},
			Input:  json.RawMessage(`{"type":"object","additionalProperties":false,"required":["name"],"properties":{"name":{"type":"string","pattern":"^[a-z0-9-]+$","maxLength":60}}}`),
			Output: json.RawMessage(`{"type":"object","additionalProperties":true}`),
			Args:   []cli.Arg{{Text: "show"}, {Text: "--json"}, {Text: "--"}, {From: "name"}},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Manifest().Info.ID, len(c.Manifest().Capabilities))
	// Output:
	// packages 1
}
