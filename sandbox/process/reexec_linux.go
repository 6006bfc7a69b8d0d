package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// maxCovered bounds the mounts of one run.
const maxCovered = 4096

// helperDeadline is how long a helper may take to build the boundary.
const helperDeadline = 30 * time.Second

// kid is a helper that has become the program, with what it handed out.
type kid struct {
	pid      int
	listener net.Listener
	notify   *os.File
	ready    bool // it was a trial, and went through
}

func (k *kid) close() {
	if k.listener != nil {
		k.listener.Close()
	}
	if k.notify != nil {
		k.notify.Close()
	}
}

// frugal is the environment of a helper, which lives for milliseconds: one
// thread and no collection. The program does not get it.
var frugal = []string{"GOMAXPROCS=1", "GOGC=off"}

// spawn starts a helper and returns when it has become the program. On the
// same goroutine that started it, wait is then called: it must return when the
// process is gone, because the process is killed when its thread ends.
func (x *Executor) spawn(ctx context.Context, s *spec, id identity, stdio []*os.File, wait func(pid int)) (*kid, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	specR, specW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer specW.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		specR.Close()
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		theirs.Close()
		specR.Close()
		return nil, err
	}
	defer conn.Close()

	attr := &syscall.ProcAttr{Dir: "/", Env: frugal, Sys: id.attributes(s.namespaces)}
	for _, f := range append(append([]*os.File{}, stdio...), specR, theirs) {
		attr.Files = append(attr.Files, f.Fd())
	}
	started := make(chan error, 1)
	k := &kid{}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		k.pid, err = syscall.ForkExec(x.exe, []string{helperName}, attr)
		started <- err
		if err == nil {
			wait(k.pid)
		}
	}()
	err = <-started
	specR.Close()
	theirs.Close()
	if err != nil {
		return nil, fmt.Errorf("helper: %w", err)
	}
	specW.Write(text) // a helper that died says more on the control socket
	specW.Close()
	if err := k.listen(ctx, conn.(*net.UnixConn)); err != nil {
		syscall.Kill(k.pid, syscall.SIGKILL)
		<-gone
		k.close()
		return nil, err
	}
	return k, nil
}

const allNamespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP

// attributes of a helper: seven namespaces, in which it is alone and may do
// what builds the boundary.
func (id identity) attributes(namespaces uintptr) *syscall.SysProcAttr {
	root := os.Geteuid() == 0
	a := &syscall.SysProcAttr{
		Cloneflags: namespaces,
		Pdeathsig:  syscall.SIGKILL, Setsid: true,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: id.uid, HostID: id.uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: id.gid, HostID: id.gid, Size: 1}},
	}
	if root {
		// Only root may leave its other groups, and must.
		a.GidMappingsEnableSetgroups = true
		a.Credential = &syscall.Credential{Uid: uint32(id.uid), Gid: uint32(id.gid)}
	}
	if id.uid != 0 {
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	}
	return a
}

// listen reads what the helper says until it has become the program.
func (k *kid) listen(ctx context.Context, conn *net.UnixConn) error {
	conn.SetReadDeadline(time.Now().Add(helperDeadline))
	defer context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })()
	message, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	for {
		n, on, _, _, err := conn.ReadMsgUnix(message, rights)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
			return nil // closed on exec
		}
		if err != nil {
			return fmt.Errorf("helper: %w", err)
		}
		if err := k.take(message[:n], rights[:on]); err != nil {
			return err
		}
	}
}

func (k *kid) take(message, rights []byte) error {
	fd, err := descriptor(rights)
	if err != nil {
		return fmt.Errorf("helper: %w", err)
	}
	switch {
	case message[0] == msgFailed:
		if fd >= 0 {
			unix.Close(fd)
		}
		return failure(string(message[1:]))
	case message[0] == msgReady:
		k.ready = true
		return nil
	case message[0] == msgListener && fd >= 0:
		f := os.NewFile(uintptr(fd), "listener")
		defer f.Close()
		k.listener, err = net.FileListener(f)
		return err
	case message[0] == msgNotify && fd >= 0:
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
		k.notify = os.NewFile(uintptr(fd), "notify")
		return nil
	}
	return errors.New("helper: a message that is not understood")
}

func failure(text string) error {
	err := fmt.Errorf("helper: %s", text)
	if strings.HasPrefix(text, notPinned) {
		return fmt.Errorf("%w: %w", toolresult.NewError(toolresult.ApprovalInvalid, "a file is not the one that was approved"), err)
	}
	for _, e := range []syscall.Errno{syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.ENOSPC} {
		if strings.HasSuffix(text, e.Error()) {
			return fmt.Errorf("%w (%w)", err, e)
		}
	}
	return err
}

func descriptor(rights []byte) (int, error) {
	if len(rights) == 0 {
		return -1, nil
	}
	list, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(list) != 1 {
		return -1, errors.New("a message with rights that are not understood")
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("a message with rights that are not understood")
	}
	return fds[0], nil
}

func (x *Executor) startHelper(ctx context.Context, r *sandbox.Rules, c *sandbox.Command, rep *sandbox.Report) (sandbox.Running, error) {
	found, err := r.Scan(ctx)
	if err != nil {
		return nil, err
	}
	if len(found.Deny)+len(found.ReadOnly) > maxCovered {
		return nil, toolresult.NewError(toolresult.ResultTooLarge, "more files have to be covered than one run may have mounts; allow fewer directories or permit hard_links")
	}
	s, err := x.spec(r, c, found)
	if err != nil {
		return nil, err
	}
	files, err := newStreams()
	if err != nil {
		return nil, fmt.Errorf("sandbox: streams: %w", err)
	}
	p := &running{report: rep, rules: r, found: found, streams: files, began: time.Now(), ended: make(chan ending, 1), exact: map[sandbox.Claim]bool{}}
	k, err := x.spawn(ctx, s, as(r), files.child[:], func(pid int) {
		p.mu.Lock()
		p.pid = pid
		p.mu.Unlock()
		p.ended <- p.reap(pid)
	})
	if err != nil {
		files.close()
		return nil, fmt.Errorf("sandbox: %w", explain(err))
	}
	files.start(c.Stdin, c.Stdout, c.Stderr, r.MaxOutput)
	p.watch(ctx)
	if k.notify != nil {
		p.hear(k.notify)
	}
	if k.listener != nil {
		p.serve(ctx, x.opts.Proxy, k.listener)
		p.exact[sandbox.NetEgress], p.exact[sandbox.NetPrivate] = true, true
	}
	return p, nil
}

// spec makes all decisions for the helper.
func (x *Executor) spec(r *sandbox.Rules, c *sandbox.Command, found *sandbox.Found) (*spec, error) {
	h := x.host()
	proxy := len(r.Domains) > 0
	s := &spec{
		Path: c.Path, Dir: dirOf(r, c), Args: c.Args, Env: environ(c, "/tmp", proxy),
		System: r.System, Read: r.Read, Write: r.Write, Deny: found.Deny, ReadOnly: found.ReadOnly, Pins: c.Pins,
		Listen: proxy, FileSize: uint64(r.MaxFile), namespaces: allNamespaces,
	}
	for i, p := range s.Pins {
		real, err := filepath.EvalSymlinks(p.Path)
		if err != nil || real != p.Path {
			return nil, fmt.Errorf("sandbox: pins[%d]: %w", i, toolresult.NewError(toolresult.InvalidInput, "a pin must be a canonical path"))
		}
	}
	if h.abi >= leastABI {
		s.ABI = h.abi
	}
	if r.MaxChildren > 0 && as(r).uid != 0 {
		s.Tasks = uint64(r.MaxChildren) + 1
	}
	if h.filter == nil {
		var err error
		s.Notify = true
		s.Filter, err = build(want{Inet: proxy, Deny: unix.SECCOMP_RET_USER_NOTIF})
		if err != nil {
			return nil, err
		}
	}
	if x.adjust != nil {
		x.adjust(s)
	}
	return s, nil
}
