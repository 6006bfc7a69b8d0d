//go:build linux

package process

import (
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Spec is what tests adjust to open a hole.
type Spec = spec

// Weaken opens a hole.
func Weaken(x *Executor, adjust func(*Spec)) { x.adjust = adjust }

// ShareNetwork leaves the program in the host's network.
func ShareNetwork(s *Spec) {
	s.namespaces &^= unix.CLONE_NEWNET
	s.Filter, _ = build(want{Inet: true})
	s.Notify = false
}

// Let makes the filter forget a comparison: with a system call, an ioctl.
func Let(s *Spec, k uint32) {
	for i, c := range s.Filter {
		if c.K == k && c.Code == unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K {
			s.Filter[i].K = 0xfffffff0
		}
	}
}

// Arch is the number of this machine in filters, Build makes one.
var Arch uint32 = arch

// Build makes a filter.
func BuildForThread() ([]unix.SockFilter, error) { return build(want{Peers: true}) }

// Build makes a filter.
func Build(inet, metadata bool) ([]unix.SockFilter, error) {
	return build(want{Inet: inet, Metadata: metadata})
}

// Denied are the calls that every filter denies.
var Denied = denied

// Lacking returns an executor on a machine that lacks something.
func Lacking(opts *Options, abi int, filter, thread, reexec error) *Executor {
	x, err := New(opts)
	if err != nil {
		panic(err)
	}
	x.host = func() host { return host{abi, filter, thread, reexec} }
	return x
}

// CollectWhileWaiting collects on the thread that waits for a command.
func CollectWhileWaiting(t interface{ Fatal(...any) }, path string) {
	r, w, err := os.Pipe() // the poller is there
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := make(chan error, 1)
	err = forkClean(path, nil, []*os.File{w, w, w}, func(pid int) {
		for range 5 {
			runtime.GC()
			time.Sleep(time.Microsecond)
		}
		_, err := unix.Wait4(pid, nil, 0, nil)
		done <- err
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal("the pipe is held open: ", err)
	}
}
