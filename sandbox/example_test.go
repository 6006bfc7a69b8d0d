package sandbox_test

import (
	"fmt"
	"os"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

func Example() {
	policy, err := sandbox.ParsePolicy([]byte(`
sandbox_policy:
  filesystem: {allow_read: ["./"], deny_read: [".env"]}
  network: {default: deny, allow_domains: [packages.example.org]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	rules, err := policy.Resolve(sandbox.Base{Workspace: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rules.Decide(sandbox.Op{Kind: sandbox.OpRead, Target: rules.Workspace + "/.env"}).Rule)
	fmt.Println(rules.Decide(sandbox.Op{Kind: sandbox.OpConnect, Target: "packages.example.org"}).Allowed)
	// An executor says what it holds; one that holds nothing starts nothing.
	fmt.Println(sandbox.NewReport(sandbox.LevelProcess, "none", rules).Check(rules, nil) != nil)
	// Output:
	// filesystem.deny_read[0] ".env"
	// true
	// true
}
