package process

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Bubblewrap confines programs through the command bwrap (0.8 or later), with
// our filter. It gives no network but none at all.
type Bubblewrap struct {
	path string
	work func() error
}

// NewBubblewrap returns an executor that runs the bwrap at an absolute path.
func NewBubblewrap(path string) (*Bubblewrap, error) {
	if !filepath.IsAbs(path) {
		return nil, toolresult.NewError(toolresult.InvalidInput, "bwrap must be an absolute path")
	}
	b := &Bubblewrap{path: path}
	b.work = sync.OnceValue(b.try)
	return b, nil
}

// try runs a program that does nothing, with all that a real one gets.
func (b *Bubblewrap) try() error {
	code, err := build(want{})
	if err != nil {
		return err
	}
	files, err := newStreams()
	if err != nil {
		return err
	}
	done := make(chan int, 1)
	args := append(append(isolation(), systemArgs()...), "--", "/bin/true")
	err = b.start(args, code, files.child[:], func(pid int) {
		var status syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
				break
			}
		}
		done <- status.ExitStatus()
	})
	if err != nil {
		files.close()
		return err
	}
	var says limited
	files.start(nil, nil, &says, 1024)
	status := <-done
	files.finish(time.Second)
	if status != 0 {
		return fmt.Errorf("bwrap ended with status %d: %s", status, says.text)
	}
	return nil
}

// limited keeps what bwrap says of itself.
type limited struct{ text []byte }

func (l *limited) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	return len(p), nil
}

// isolation is given always. Without --cap-drop a program of root's undoes the
// mounts.
func isolation() []string {
	// --as-pid-1: bwrap then ends after the namespace and not before.
	return []string{"--as-pid-1", "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--disable-userns", "--clearenv", "--seccomp", "3",
		"--proc", "/proc", "--remount-ro", "/proc", // user 0 may write to /proc/sys without any capability
		"--dev", "/dev", "--tmpfs", "/tmp", "--hostname", "sandbox"}
}

func systemArgs() (out []string) {
	for _, p := range sandbox.System() {
		info, err := os.Lstat(p)
		switch {
		case err != nil:
		case info.Mode()&os.ModeSymlink != 0:
			if to, err := os.Readlink(p); err == nil {
				out = append(out, "--symlink", to, p)
			}
		default:
			out = append(out, "--ro-bind", p, p)
		}
	}
	return out
}

// arguments are all mounts, outermost first, and what covers what is denied.
func arguments(r *sandbox.Rules, c *sandbox.Command, found *sandbox.Found) []string {
	args := isolation()
	if r.System {
		args = append(args, systemArgs()...)
	}
	for _, p := range r.Read {
		args = append(args, "--ro-bind", p, p)
	}
	for _, p := range r.Write {
		args = append(args, "--bind", p, p)
	}
	for _, p := range above(r.Write, slices.Concat(found.Deny, found.ReadOnly)) {
		args = append(args, "--bind", p, p)
	}
	for _, p := range found.ReadOnly {
		args = append(args, "--ro-bind", p, p)
	}
	for _, p := range found.Deny {
		if info, err := os.Lstat(p); err == nil && info.IsDir() {
			args = append(args, "--tmpfs", p, "--remount-ro", p)
		} else {
			args = append(args, "--ro-bind", "/dev/null", p) // a device without the right to devices: cannot be opened
		}
	}
	for _, v := range environ(c, "/tmp", false) {
		for i := range v {
			if v[i] == '=' {
				args = append(args, "--setenv", v[:i], v[i+1:])
				break
			}
		}
	}
	// What follows "--" is never an option, whatever it is called.
	return append(append(args, "--remount-ro", "/", "--chdir", dirOf(r, c), "--", c.Path), c.Args...)
}

// Probe implements [sandbox.Executor].
func (b *Bubblewrap) Probe(ctx context.Context, r *sandbox.Rules) (*sandbox.Report, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	rep := sandbox.NewReport(sandbox.LevelContainer, "bwrap", r)
	rep.Limits = notStopped
	if err := b.work(); err != nil {
		for _, c := range sandbox.Claims() {
			rep.Set(c, sandbox.None, "bwrap does not work here: "+err.Error())
		}
		return rep, ctx.Err()
	}
	for _, c := range []sandbox.Claim{sandbox.FSRead, sandbox.FSWrite, sandbox.FSMetadata, sandbox.FSExistence} {
		rep.Set(c, sandbox.Enforced, "", "bwrap")
	}
	rep.Set(sandbox.FSDenyRead, sandbox.Snapshot, gapName+"; a file that the host replaces loses its cover", "bwrap")
	rep.Set(sandbox.FSDenyWrite, sandbox.Snapshot, gapMade, "bwrap")
	rep.Set(sandbox.FSLinks, sandbox.Snapshot, gapName, "bwrap")
	for _, c := range []sandbox.Claim{sandbox.FSSocket, sandbox.NetFamilies, sandbox.ProcKernel} {
		rep.Set(c, sandbox.Enforced, "", "seccomp")
	}
	for _, c := range []sandbox.Claim{sandbox.NetEgress, sandbox.NetPrivate} {
		rep.Set(c, sandbox.Enforced, "", "empty network namespace")
		if len(r.Domains) > 0 {
			rep.Set(c, sandbox.None, "bwrap gives no network but none at all; the rules name hosts")
		}
	}
	rep.Set(sandbox.ProcTimeout, sandbox.Enforced, "", "kill of the pid namespace")
	rep.Set(sandbox.ProcTree, sandbox.Enforced, "", "pid namespace")
	for _, c := range []sandbox.Claim{sandbox.ProcCount, sandbox.ProcMemory, sandbox.ProcFile} {
		rep.Set(c, sandbox.None, "bwrap sets no limits")
	}
	rep.Set(sandbox.ProcImage, sandbox.None, "bwrap starts what has the name at that time")
	rep.Set(sandbox.ProcOutput, sandbox.Enforced, "", "pipes")
	rep.Set(sandbox.ProcPeers, sandbox.Enforced, "", "pid namespace")
	rep.Set(sandbox.ProcCommands, sandbox.Auxiliary, gapCommands, "strings")
	rep.Set(sandbox.CredEnv, sandbox.Enforced, "", "--clearenv")
	rep.Set(sandbox.CredFD, sandbox.Enforced, "", "close_range")
	return rep, ctx.Err()
}

// Start implements [sandbox.Executor].
func (b *Bubblewrap) Start(ctx context.Context, r *sandbox.Rules, c *sandbox.Command) (sandbox.Running, error) {
	if err := r.CheckCommand(c); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	rep, err := b.Probe(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := rep.Check(r, c); err != nil {
		return nil, err
	}
	found, err := r.Scan(ctx)
	if err != nil {
		return nil, err
	}
	code, err := build(want{})
	if err != nil {
		return nil, err
	}
	files, err := newStreams()
	if err != nil {
		return nil, fmt.Errorf("sandbox: streams: %w", err)
	}
	p := &running{report: rep, rules: r, found: found, streams: files, began: time.Now(), ended: make(chan ending, 1), exact: map[sandbox.Claim]bool{}}
	err = b.start(arguments(r, c, found), code, files.child[:], func(pid int) {
		p.mu.Lock()
		p.pid = pid
		p.mu.Unlock()
		p.ended <- p.reap(pid)
	})
	if err != nil {
		files.close()
		return nil, fmt.Errorf("sandbox: bwrap: %w", err)
	}
	files.start(c.Stdin, c.Stdout, c.Stderr, r.MaxOutput)
	p.watch(ctx)
	return p, nil
}

// start starts bwrap with nothing but its streams and the filter, and calls
// wait on the thread whose end would kill it.
func (b *Bubblewrap) start(args []string, code program, stdio []*os.File, wait func(pid int)) error {
	text, err := code.MarshalText()
	if err != nil {
		return err
	}
	filter, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = w.Write(filter) // less than a pipe holds
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return forkClean(b.path, args, append(slices.Clone(stdio), r), wait)
}

// forkClean starts a command with nothing but these descriptors and no
// environment, and calls wait on the thread whose end would kill it. Wait must
// do nothing but wait: that thread has a table of descriptors of its own.
func forkClean(path string, args []string, files []*os.File, wait func(pid int)) error {
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{}, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	started := make(chan error, 1)
	throwaway(func() { // its table of descriptors is its own
		err := unix.Unshare(unix.CLONE_FILES)
		if err == nil {
			err = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
		}
		pid := 0
		if err == nil {
			pid, err = syscall.ForkExec(path, append([]string{path}, args...), attr)
			closeCopies()
		}
		started <- err
		if err == nil {
			wait(pid)
		}
	})
	return <-started
}

// closeCopies closes what this thread has copies of, or they would hold open
// the pipes, and every connection that the host closes meanwhile. Those of the
// runtime's own poller stay: any thread may come to use them, as when it
// starts a collection, and the runtime ends the program when they are not
// there. If it cannot be known which they are, all stay until the thread ends.
func closeCopies() {
	list, err := os.ReadDir("/proc/thread-self/fd")
	if err != nil {
		return
	}
	keep := []uint{}
	for _, d := range list {
		to, err := os.Readlink("/proc/thread-self/fd/" + d.Name())
		if n, nerr := strconv.ParseUint(d.Name(), 10, 32); err == nil && nerr == nil && (to == "anon_inode:[eventpoll]" || to == "anon_inode:[eventfd]") {
			keep = append(keep, uint(n))
		}
	}
	slices.Sort(keep)
	from := uint(3)
	for _, n := range keep {
		if n > from {
			unix.CloseRange(from, n-1, 0)
		}
		from = max(from, n+1)
	}
	unix.CloseRange(from, ^uint(0), 0)
}
