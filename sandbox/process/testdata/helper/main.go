// Command helper builds boundaries for a program that takes long to start.
package main

import (
	"os"

	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

func main() {
	process.Init()
	os.Exit(2) // it was not started as a helper
}
