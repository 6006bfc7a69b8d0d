//go:build linux

package proxy_test

import (
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/proxy"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

// The way out of confined programs, as an executor is given it. Which hosts a
// program reaches is in the rules that it is started with.
func ExampleNew() {
	p, err := proxy.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	executor, err := process.New(&process.Options{Self: process.Init(), Proxy: p})
	fmt.Println(executor != nil, err)
	// Output: true <nil>
}
