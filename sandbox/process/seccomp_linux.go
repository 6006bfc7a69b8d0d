package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errNoFilter says that there is no table of system calls for this machine.
var errNoFilter = errors.New("seccomp: no table of system calls for " + runtime.GOARCH)

// Offsets in struct seccomp_data, little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

const x32 = 0x40000000

// A filter is a program for the kernel's BPF machine.
type filter struct{ code []unix.SockFilter }

func (f *filter) op(code uint16, k uint32, jt, jf uint8) {
	f.code = append(f.code, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (f *filter) load(offset uint32) { f.op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }
func (f *filter) ret(action uint32)  { f.op(unix.BPF_RET|unix.BPF_K, action, 0, 0) }

// equal continues with the next instruction if the accumulator is k, else
// skips n.
func (f *filter) equal(k uint32, n uint8) { f.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, 0, n) }

func (f *filter) and(k uint32) { f.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, k, 0, 0) }

// block runs body for one system call; body may use the accumulator and must
// end in no jump past itself.
func (f *filter) block(number uint32, body func(*filter)) {
	var b filter
	body(&b)
	b.load(offNumber) // the next block looks at the number again
	f.equal(number, uint8(len(b.code)))
	f.code = append(f.code, b.code...)
}

const (
	kinship     = unix.CLONE_PARENT // a child of who started the program, and so of this process
	errnoPerm   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	errnoNoSys  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	kill        = unix.SECCOMP_RET_KILL_PROCESS
	allow       = unix.SECCOMP_RET_ALLOW
	namespaces  = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | 0x80 // CLONE_NEWTIME
	tiocsti     = 0x5412
	tioclinux   = 0x541c
	setFlags    = 0x40086602 // FS_IOC_SETFLAGS
	setFlags32  = 0x40046602
	fsSetXattr  = 0x401c5820 // FS_IOC_FSSETXATTR
	typeMask    = 0xf        // the type of a socket without its flags
	maxFilter   = 4096       // BPF_MAXINSNS
	tcpProtocol = 6
)

// want says what a filter has to deny besides the fixed list.
type want struct {
	Inet     bool   // TCP sockets are allowed: there is a network with only a proxy in it
	Metadata bool   // modes, owners, times and attributes: nothing may be written
	Peers    bool   // limits and shares of other processes, which there are to see
	Deny     uint32 // the action for what is denied; 0: EPERM
}

// build makes the program. What is first is not negotiable: a call of another
// architecture (int 0x80, a 32-bit program) ends the process, because its
// numbers mean other calls.
func build(w want) ([]unix.SockFilter, error) {
	if arch == 0 {
		return nil, errNoFilter
	}
	deny := w.Deny
	if deny == 0 {
		deny = errnoPerm
	}
	f := &filter{}
	f.load(offArch)
	f.equal(arch, 1)
	f.op(unix.BPF_JMP|unix.BPF_JA, 1, 0, 0)
	f.ret(kill)
	f.load(offNumber)
	if arch == unix.AUDIT_ARCH_X86_64 {
		f.op(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, x32, 0, 1)
		f.ret(errnoNoSys)
	}
	list := slices.Clone(denied)
	if w.Metadata {
		list = append(list, metadata...)
	}
	for _, n := range list {
		f.equal(n, 1)
		f.ret(deny)
	}
	f.conditional(w, deny)
	f.ret(allow)
	if len(f.code) > maxFilter {
		return nil, fmt.Errorf("seccomp: the filter has %d instructions, at most %d", len(f.code), maxFilter)
	}
	return f.code, nil
}

// conditional adds what depends on arguments.
func (f *filter) conditional(w want, deny uint32) {
	// The flags of clone3 lie in memory, where no filter can look. Libraries
	// fall back to clone when the call is not there.
	f.equal(unix.SYS_CLONE3, 1)
	f.ret(errnoNoSys)
	f.block(unix.SYS_CLONE, func(b *filter) {
		b.load(offArgs)
		b.op(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, namespaces|kinship, 0, 1)
		b.ret(deny)
	})
	if w.Peers {
		f.peers(deny)
	}
	f.block(unix.SYS_IOCTL, func(b *filter) {
		requests := []uint32{tiocsti, tioclinux}
		if w.Metadata {
			requests = append(requests, setFlags, setFlags32, fsSetXattr)
		}
		b.load(offArgs + 8)
		for _, r := range requests {
			b.equal(r, 1)
			b.ret(deny)
		}
	})
	f.block(unix.SYS_SOCKETPAIR, func(b *filter) {
		b.load(offArgs)
		b.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.AF_UNIX, 1, 0)
		b.ret(deny)
	})
	f.block(unix.SYS_SOCKET, func(b *filter) {
		if !w.Inet {
			b.ret(deny)
			return
		}
		jeq := uint16(unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K)
		b.load(offArgs)
		b.op(jeq, unix.AF_INET, 2, 0)
		b.op(jeq, unix.AF_INET6, 1, 0)
		b.ret(deny)
		b.load(offArgs + 8)
		b.and(typeMask)
		b.op(jeq, unix.SOCK_STREAM, 1, 0)
		b.ret(deny)
		b.load(offArgs + 16)
		b.op(jeq, 0, 2, 0) // not MPTCP: it passes rules that know TCP only
		b.op(jeq, tcpProtocol, 1, 0)
		b.ret(deny)
	})
}

// peers leaves a program its own limits and its own share of the machine. Those
// of other processes of the same user are the same calls with a number: by a
// limit on the time of the processor the kernel ends whom it is set for.
func (f *filter) peers(deny uint32) {
	jeq := uint16(unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K)
	for _, number := range []uint32{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR} {
		f.block(number, func(b *filter) {
			b.load(offArgs)
			b.op(jeq, 0, 1, 0)
			b.ret(deny)
		})
	}
	for number, process := range map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_PROCESS, unix.SYS_IOPRIO_SET: ioprioProcess} {
		f.block(number, func(b *filter) {
			b.load(offArgs)
			b.op(jeq, process, 1, 0)
			b.ret(deny)
			b.load(offArgs + 8)
			b.op(jeq, 0, 1, 0)
			b.ret(deny)
		})
	}
}

const ioprioProcess = 1 // IOPRIO_WHO_PROCESS

// seccomp loads a filter for this thread, and what it starts. If listen, the
// descriptor returned tells of calls with the action SECCOMP_RET_USER_NOTIF;
// else it is -1. no_new_privs must be on.
func seccomp(code []unix.SockFilter, listen bool) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	flags := uintptr(0)
	if listen {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return -1, fmt.Errorf("seccomp: %w", errno)
	}
	if !listen {
		return -1, nil
	}
	return int(fd), nil
}

// dropCapabilities empties every set of this thread, keeps a program of root
// from getting any back, and makes sure of it: as root nothing else holds
// until this is done.
func dropCapabilities() error {
	lockCapabilities()
	return clearCapabilities()
}

// lockCapabilities makes sure that none comes back. It does not take those
// that this thread has.
func lockCapabilities() {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	const bits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7 // NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE with their locks, KEEP_CAPS locked
	_ = unix.Prctl(unix.PR_SET_SECUREBITS, bits, 0, 0, 0)       // without CAP_SETPCAP it fails, and there is nothing to get back
	for c := uintptr(0); c < 64; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL {
			break
		}
	}
}

func clearCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none, have [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if have != none {
		return errors.New("capabilities: some are left after they were dropped")
	}
	return nil
}

// become makes this thread alone another user, without root's groups. The
// kernel then takes the whole process for one that hides something; that is
// put back.
func become(id identity) error {
	if os.Geteuid() != 0 {
		return nil
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	for _, call := range [][4]uintptr{
		{unix.SYS_SETGROUPS, 0, 0, 0},
		{unix.SYS_SETRESGID, uintptr(id.gid), uintptr(id.gid), uintptr(id.gid)},
		{unix.SYS_SETRESUID, uintptr(id.uid), uintptr(id.uid), uintptr(id.uid)},
	} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return fmt.Errorf("identity: %w", errno)
		}
	}
	if dumpable == 1 {
		return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
	return nil
}

func noNewPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}
