package process

import (
	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// Mode is how a program is started.
type Mode uint8

const (
	Auto   Mode = iota // the cheapest that holds what the rules require
	Thread             // from a confined thread of this program
	Reexec             // through a helper in namespaces
)

// String returns the word used in reports.
func (m Mode) String() string {
	return [...]string{"auto", "thread", "re-exec", "unknown"}[min(m, 3)]
}

// Options of an executor. The zero Options give thread mode only.
type Options struct {
	// Mode forces one way to start. Auto: whatever holds.
	Mode Mode

	// Self is what Init returned: this program may be started again as its
	// own helper. The zero Self: it may not.
	Self Self

	// Helper is the absolute path of another program whose main calls Init,
	// for a program that takes long to start: each confined program pays for
	// the package initialisation of its helper, and for the dynamic linker
	// unless it is built with CGO_ENABLED=0. It must not be writable by whom
	// the confined programs run as. Empty: Self.
	Helper string

	// Proxy serves what the rules permit of the network. Nil: rules that name
	// hosts are refused.
	Proxy sandbox.Proxy
}

// Self says that this program called Init before anything else.
type Self struct{ ok bool }
