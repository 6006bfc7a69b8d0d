package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// contract compares the tests of the guide's connector, which run the whole
// contract against its double, with the same program running none.
func contract(dir string) (row, error) {
	exe := filepath.Join(dir, "contract")
	if out, err := exec.Command("go", "test", "-c", "-o", exe, "github.com/drawbridge-sdk/drawbridge/examples/guides/connector").CombinedOutput(); err != nil {
		return row{}, fmt.Errorf("the test cannot be built: %w: %s", err, out)
	}
	run := func(pattern string) func() {
		return func() {
			cmd := exec.Command(exe, "-test.run", pattern)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				panic(fmt.Sprintf("%v: %s", err, out))
			}
		}
	}
	return row{run("^TestContract"), run("^$")}, nil
}
