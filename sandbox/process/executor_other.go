//go:build !linux

package process

import (
	"context"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Init does nothing here.
func Init() Self { return Self{} }

// Executor confines programs with Linux; elsewhere there is none.
type Executor struct{}

var errLinux = toolresult.NewError(toolresult.Unsupported, "processes are confined on Linux only")

// New returns an UNSUPPORTED error.
func New(*Options) (*Executor, error) { return nil, errLinux }

// Probe returns an UNSUPPORTED error.
func (*Executor) Probe(context.Context, *sandbox.Rules) (*sandbox.Report, error) {
	return nil, errLinux
}

// Start returns an UNSUPPORTED error.
func (*Executor) Start(context.Context, *sandbox.Rules, *sandbox.Command) (sandbox.Running, error) {
	return nil, errLinux
}
