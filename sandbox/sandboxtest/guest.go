//go:build linux

package sandboxtest

import (
	"fmt"
	"os"
)

// mark is how this binary knows that it is the guest.
const mark = "sandboxtest-guest"

// How a guest ends. Anything else is a crash, and did not get through.
const (
	exitThrough = 0
	exitRefused = 10
	exitUsage   = 11
)

// Guest must be called at the start of TestMain, before anything else. In a
// process that was started as the hostile program it does that program's work
// and does not return. It does nothing else.
func Guest() {
	if len(os.Args) < 3 || os.Args[1] != mark {
		return
	}
	op, ok := operations[os.Args[2]]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such operation:", os.Args[2])
		os.Exit(exitUsage)
	}
	if err := op(append(os.Args[3:], "", "", "")); err != nil {
		fmt.Println("refused:", err)
		os.Exit(exitRefused)
	}
	fmt.Println("got through")
	os.Exit(exitThrough)
}
