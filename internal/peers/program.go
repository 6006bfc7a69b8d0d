package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
)

// Program lets this package start a server for a program that is no test. The
// zero Program is ready; Close ends what was started.
type Program struct {
	testing.TB
	mu    sync.Mutex
	undos []func()
}

// Helper implements testing.TB.
func (*Program) Helper() {}

// Context implements testing.TB.
func (*Program) Context() context.Context { return context.Background() }

// TempDir implements testing.TB.
func (p *Program) TempDir() string {
	dir, err := os.MkdirTemp("", "drawbridge")
	if err != nil {
		p.Fatalf("%v", err)
	}
	p.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Cleanup implements testing.TB.
func (p *Program) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.undos = append(p.undos, f)
}

// Fatalf implements testing.TB: it ends the program.
func (p *Program) Fatalf(format string, args ...any) {
	p.Close()
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(2)
}

// Skipf implements testing.TB: a program has nothing to skip.
func (p *Program) Skipf(format string, args ...any) { p.Fatalf(format, args...) }

// Logf implements testing.TB.
func (*Program) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Close undoes what Cleanup was told, the last first.
func (p *Program) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range slices.Backward(p.undos) {
		f()
	}
	p.undos = nil
}

// Again starts this program once more, with the variables of env. Its log is
// ours; in and out are its standard input and output.
func Again(env ...string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Scanner, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, nil, nil, err
	}
	return cmd, in, bufio.NewScanner(stdout), nil
}
