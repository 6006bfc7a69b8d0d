package sandboxtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func errnoOf(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func raw(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, e := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return errnoOf(e)
}

// reached turns any error but a refusal into success: the call came to where
// it is worked on, and only its arguments were wrong.
func reached(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		return err
	}
	return nil
}

func show(path string) error {
	text, err := os.ReadFile(path)
	os.Stdout.Write(text)
	return err
}

func put(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("guest")
	return err
}

func dial(d *net.Dialer, network, addr string) error {
	d.Timeout = 2 * time.Second
	c, err := d.Dial(network, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("guest"))
	return err
}

// onFirst runs f on the process's first thread: the parent, once it traces
// another, would have to know the number of that thread to see this process end.
func onFirst(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- f()
		} else {
			done <- onFirst(f) // while this thread is taken
		}
	}()
	return <-done
}

// traceMe makes the parent the tracer. A signal to this thread, and the Go
// runtime sends some, would then stop it for ever.
func traceMe() error {
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil); err != nil {
		return err
	}
	return raw(unix.SYS_PTRACE, unix.PTRACE_TRACEME)
}

var operations = map[string]func([]string) error{
	// files
	"read": func(a []string) error { return show(a[0]) },
	"list": func(a []string) error {
		list, err := os.ReadDir(a[0])
		for _, e := range list {
			fmt.Println(e.Name())
		}
		return err
	},
	"write":  func(a []string) error { return put(a[0], os.O_WRONLY|os.O_CREATE|os.O_TRUNC) },
	"append": func(a []string) error { return put(a[0], os.O_WRONLY|os.O_APPEND) },
	"open-to-write": func(a []string) error {
		f, err := os.OpenFile(a[0], os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		return err
	},
	"truncate": func(a []string) error { return os.Truncate(a[0], 0) },
	"mkdir":    func(a []string) error { return os.Mkdir(a[0], 0o700) },
	"remove":   func(a []string) error { return os.Remove(a[0]) },
	"rename":   func(a []string) error { return os.Rename(a[0], a[1]) },
	"link-and-read": func(a []string) error {
		if err := os.Link(a[0], a[1]); err != nil {
			return err
		}
		return show(a[1])
	},
	"symlink-and-read": func(a []string) error {
		if err := os.Symlink(a[0], a[1]); err != nil {
			return err
		}
		return show(a[1])
	},
	"move-and-make": func(a []string) error { // a directory away, and the protected file anew
		if err := os.Rename(a[0], a[0]+".old"); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(a[1]), 0o700); err != nil {
			return err
		}
		return put(a[1], os.O_WRONLY|os.O_CREATE)
	},
	"replace-and-read": func(a []string) error { // the denied file, or what holds it, under another name
		os.Rename(a[0], a[1])
		if err := show(a[1]); err == nil {
			return nil
		}
		return show(filepath.Join(a[1], ".env"))
	},
	"chmod":  func(a []string) error { return os.Chmod(a[0], 0o777) },
	"chown":  func(a []string) error { return os.Chown(a[0], os.Getuid(), os.Getgid()) },
	"utimes": func(a []string) error { return os.Chtimes(a[0], time.Unix(1, 0), time.Unix(1, 0)) },
	"xattr":  func(a []string) error { return unix.Setxattr(a[0], "user.guest", []byte("1"), 0) },
	"stat":   func(a []string) error { _, err := os.Stat(a[0]); return err },
	"mknod": func(a []string) error {
		return unix.Mknod(a[0], unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0)))
	},
	"umount-and-read": func(a []string) error {
		unix.Unmount(a[0], unix.MNT_DETACH)
		return show(a[0])
	},
	"remount-and-write": func(a []string) error {
		for d := a[0]; d != "/"; d = filepath.Dir(d) {
			unix.Mount("", d, "", unix.MS_REMOUNT|unix.MS_BIND, "")
		}
		return put(a[0], os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	},
	"handle": func(a []string) error {
		_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, a[0], 0)
		return err
	},
	"fill": func(a []string) error {
		signal.Ignore(syscall.SIGXFSZ)
		f, err := os.Create(a[0])
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(f, io.LimitReader(zeros{}, int64(number(a[1]))))
		return err
	},

	// network
	"tcp":   func(a []string) error { return dial(&net.Dialer{}, "tcp", a[0]) },
	"udp":   func(a []string) error { return dial(&net.Dialer{}, "udp", a[0]) },
	"unix":  func(a []string) error { return dial(&net.Dialer{}, "unix", a[0]) },
	"mptcp": mptcp,
	"fast-open": func(a []string) error {
		addr, err := net.ResolveTCPAddr("tcp4", a[0])
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		sa := &unix.SockaddrInet4{Port: addr.Port}
		copy(sa.Addr[:], addr.IP.To4())
		return unix.Sendto(fd, []byte("guest"), unix.MSG_FASTOPEN, sa)
	},
	"socket": func(a []string) error {
		fd, err := unix.Socket(number(a[0]), number(a[1]), number(a[2]))
		if err == nil {
			unix.Close(fd)
		}
		return err
	},

	// other processes
	"signal": func(a []string) error { return syscall.Kill(number(a[0]), 0) },
	"trace": func(a []string) error {
		err := unix.PtraceSeize(number(a[0]))
		if err == nil {
			unix.PtraceDetach(number(a[0]))
		}
		return err
	},
	"read-memory": func(a []string) error {
		b := make([]byte, 16)
		at := uintptr(number(a[1]))
		_, err := unix.ProcessVMReadv(number(a[0]), []unix.Iovec{{Base: &b[0], Len: 16}}, []unix.RemoteIovec{{Base: at, Len: 16}}, 0)
		return err
	},
	"take-descriptor": func(a []string) error {
		fd, err := unix.PidfdOpen(number(a[0]), 0)
		if err != nil {
			return err
		}
		got, err := unix.PidfdGetfd(fd, 1, 0)
		if err == nil {
			unix.Close(got)
		}
		return err
	},
	"compare": func(a []string) error {
		return raw(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(number(a[0])), 1, 0, 0)
	},

	// the kernel
	"trace-me": func([]string) error { return onFirst(traceMe) },
	"unshare":  func([]string) error { return reached(raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)) }, // a program with threads gets another error
	"clone": func([]string) error {
		cmd := exec.Command(os.Args[0], mark, "nothing")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return cmd.Run()
	},
	"clone3": func([]string) error {
		var args [11]uint64
		args[0], args[4] = unix.CLONE_NEWUSER, uint64(unix.SIGCHLD)
		pid, _, e := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
		if e == 0 && pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return errnoOf(e)
	},
	"io-uring": func([]string) error {
		var params [120]byte
		return raw(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)))
	},
	"bpf":  func([]string) error { return reached(raw(unix.SYS_BPF, 9999)) },
	"perf": func([]string) error { return reached(raw(unix.SYS_PERF_EVENT_OPEN, 0)) },
	"keyctl": func([]string) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return err
	},
	"userfaultfd": func([]string) error {
		return raw(unix.SYS_USERFAULTFD, 1) // UFFD_USER_MODE_ONLY
	},
	"tiocsti":   func([]string) error { return reached(raw(unix.SYS_IOCTL, 1, 0x5412, 0)) },
	"tioclinux": func([]string) error { return reached(raw(unix.SYS_IOCTL, 1, 0x541c, 0)) },
	"x32":       func([]string) error { return reached(raw(0x40000000 | unix.SYS_GETPID)) },
	"mount": func(a []string) error {
		return reached(unix.Mount("none", a[0], "tmpfs", 0, ""))
	},
	"run": func(a []string) error {
		out, err := exec.Command(a[0]).CombinedOutput()
		os.Stdout.Write(out)
		return err
	},
	"euid": func([]string) error {
		if os.Geteuid() != 0 || os.Getuid() == 0 {
			return errors.New("no other user")
		}
		return nil
	},
	// A program that no path names: memory, filled with another program.
	"via-memory": func(a []string) error {
		text, err := os.ReadFile("/bin/cat")
		if err != nil {
			return err
		}
		fd, err := unix.MemfdCreate("program", 0)
		if err != nil {
			return err
		}
		if _, err := unix.Write(fd, text); err != nil {
			return err
		}
		return syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), []string{"cat", a[0]}, nil)
	},
	"via-setuid": func(a []string) error { return exec.Command(a[0], mark, "euid").Run() },
	"nothing":    func([]string) error { return nil },

	// what it was given
	"environment": func([]string) error {
		fmt.Println(strings.Join(os.Environ(), "\n"))
		return nil
	},
	"descriptors": func([]string) error {
		for fd := 3; fd < 256; fd++ {
			b := make([]byte, 256)
			if n, err := unix.Pread(fd, b, 0); err == nil {
				os.Stdout.Write(b[:n])
			}
		}
		return nil
	},
	"reopen-output": func([]string) error {
		f, err := os.OpenFile("/proc/self/fd/1", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Truncate(0)
	},

	// limits
	"outlive": func(a []string) error {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		time.Sleep(10 * time.Minute)
		return nil
	},
	"daemon": func(a []string) error {
		cmd := exec.Command(a[1], mark, "outlive", a[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	},
	"forks": func(a []string) error {
		var err error
		started := 0
		for range number(a[0]) {
			cmd := exec.Command("/bin/sleep", "20")
			if err = cmd.Start(); err != nil {
				break
			}
			started++
			defer func() { cmd.Process.Kill(); cmd.Wait() }()
		}
		fmt.Println("started", started)
		return err
	},
	"open-exe": func(a []string) error {
		f, err := os.Open("/proc/" + a[0] + "/exe")
		if err == nil {
			f.Close()
		}
		return err
	},
	"take-memory": func(a []string) error {
		b := make([]byte, number(a[0]))
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		return nil
	},
	"flood": func(a []string) error {
		_, err := io.Copy(os.Stdout, io.LimitReader(zeros{}, int64(number(a[0]))))
		return err
	},
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func mptcp(a []string) error {
	addr, err := net.ResolveTCPAddr("tcp4", a[0])
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	sa := &unix.SockaddrInet4{Port: addr.Port}
	copy(sa.Addr[:], addr.IP.To4())
	return unix.Connect(fd, sa)
}
