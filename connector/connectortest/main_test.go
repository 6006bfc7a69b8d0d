package connectortest_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// The matrix makes and drops some thousand hosts: with a small heap, a fifth of
// its time is spent on collecting them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
