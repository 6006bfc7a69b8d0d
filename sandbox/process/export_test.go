//go:build linux

package process

import "golang.org/x/sys/unix"

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
