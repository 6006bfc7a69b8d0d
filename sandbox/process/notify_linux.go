package process

import (
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// The kernel's structures for denied calls that it asks us about.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type response struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

const (
	notifyReceive = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	notifySend    = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
)

// hear answers every denied call with EPERM and records it: this is exact,
// because nothing denied goes another way.
func (p *running) hear(f *os.File) {
	for _, c := range []sandbox.Claim{sandbox.ProcKernel, sandbox.NetFamilies} {
		p.exact[c] = true
	}
	p.close = append(p.close, func() { f.Close() })
	p.group.Go(func() {
		raw, err := f.SyscallConn()
		for err == nil {
			over := false
			if err = raw.Read(func(fd uintptr) bool { over = p.answer(fd); return over }); over {
				return
			}
		}
	})
}

// answer takes every notification that is there. It reports whether there will
// be no more.
func (p *running) answer(fd uintptr) bool {
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, 0); err != nil || n == 0 {
			return err != nil && err != unix.EINTR
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			return true // nobody is left who runs under the filter
		}
		var n notification
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, notifyReceive, uintptr(unsafe.Pointer(&n))); errno != 0 {
			continue // the caller was killed meanwhile
		}
		r := response{id: n.id, err: -int32(unix.EPERM)}
		unix.Syscall(unix.SYS_IOCTL, fd, notifySend, uintptr(unsafe.Pointer(&r)))
		p.deny(denial(&n))
	}
}

// denial says in words what was called.
func denial(n *notification) sandbox.Denial {
	d := sandbox.Denial{Claim: sandbox.ProcKernel, Op: "system call", Target: strconv.Itoa(int(n.nr)), Rule: "seccomp", Exact: true}
	switch n.nr {
	case unix.SYS_SOCKET, unix.SYS_SOCKETPAIR:
		d.Claim, d.Op = sandbox.NetFamilies, "socket"
		d.Target = "family " + strconv.FormatUint(n.args[0]&0xffffffff, 10) + " type " + strconv.FormatUint(n.args[1]&typeMask, 10)
	case unix.SYS_PTRACE:
		d.Target = "ptrace"
	case unix.SYS_MOUNT:
		d.Target = "mount"
	case unix.SYS_UNSHARE, unix.SYS_CLONE, unix.SYS_SETNS:
		d.Target = "namespaces"
	case unix.SYS_BPF:
		d.Target = "bpf"
	case unix.SYS_IOCTL:
		d.Target = "ioctl " + strconv.FormatUint(n.args[1]&0xffffffff, 16)
	}
	return d
}
