package process

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// confinement is what a thread gives up before it starts a program.
type confinement struct {
	abi    int
	grants []grant
	filter []unix.SockFilter
	id     identity
}

// throwaway runs f on a thread that ends with it. The goroutine never unlocks its
// thread: were it used again, another goroutine of the host would run with what
// f gave up, and were the goroutine not locked, f could run on two threads.
//
// The first thread of a process never ends: it would stay as f leaves it, with
// copies of all descriptors that the host had then, and everybody takes its
// user for that of the process. It is held until another has the work.
func throwaway(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		taken := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(taken)
			f()
		}()
		<-taken
		runtime.UnlockOSThread()
	}()
}

// startThread starts the program from a thread that is confined first and ends
// after.
func (c *confinement) startThread(argv0 string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	done := make(chan struct{})
	throwaway(func() {
		defer close(done)
		if err = c.confine(); err == nil {
			pid, err = syscall.ForkExec(argv0, argv, attr)
		}
	})
	<-done
	return pid, err
}

// confine is done to this thread only, and cannot be undone.
func (c *confinement) confine() error {
	// A copy of the table of descriptors, so that marking them changes
	// nothing for the host; what the host itself inherited would otherwise be
	// passed on.
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	lockCapabilities()
	if err := become(c.id); err != nil {
		return err
	}
	if err := clearCapabilities(); err != nil {
		return err
	}
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if err := landlock(c.abi, c.grants); err != nil {
		return err
	}
	_, err := seccomp(c.filter, false)
	return err
}

// threadWorks tries it once, with a thread that starts nothing.
func threadWorks(abi int) error {
	code, err := build(want{})
	if err != nil {
		return err
	}
	c := confinement{abi, nil, code, identity{os.Geteuid(), os.Getegid()}}
	done := make(chan error)
	throwaway(func() { done <- c.confine() })
	return <-done
}

func (x *Executor) startInThread(ctx context.Context, r *sandbox.Rules, c *sandbox.Command, rep *sandbox.Report) (sandbox.Running, error) {
	found, err := r.Scan(ctx)
	if err != nil {
		return nil, err
	}
	grants, err := expand(r, found)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if r.System {
		grants = slices.Concat(grants, systemGrants(), deviceGrants())
	}
	code, err := build(want{Metadata: len(r.Write) == 0, Peers: true})
	if err != nil {
		return nil, err
	}
	s, err := newStreams()
	if err != nil {
		return nil, fmt.Errorf("sandbox: streams: %w", err)
	}
	attr := &syscall.ProcAttr{Dir: dirOf(r, c), Env: environ(c, home(r), false), Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range s.child {
		attr.Files = append(attr.Files, f.Fd())
	}
	conf := confinement{x.host().abi, grants, code, as(r)}
	p := &running{report: rep, rules: r, found: found, streams: s, began: time.Now(), ended: make(chan ending, 1), exact: map[sandbox.Claim]bool{}}
	pid, err := conf.startThread(c.Path, append([]string{c.Path}, c.Args...), attr)
	if err != nil {
		s.close()
		return nil, fmt.Errorf("sandbox: start: %w", err)
	}
	p.pid = pid
	s.start(c.Stdin, c.Stdout, c.Stderr, r.MaxOutput)
	p.watch(ctx)
	go func() { p.ended <- p.reap(pid) }()
	return p, nil
}

func dirOf(r *sandbox.Rules, c *sandbox.Command) string {
	if c.Dir != "" {
		return c.Dir
	}
	return r.Workspace
}

// home is a directory that may be written, or the workspace.
func home(r *sandbox.Rules) string {
	if len(r.Write) > 0 {
		if info, err := os.Stat(r.Write[0]); err == nil && info.IsDir() {
			return r.Write[0]
		}
	}
	return r.Workspace
}

// proxyPort is where the proxy is inside of the program's own network.
const proxyPort = 3128

// environ is all that a program sees: nothing of the host's.
func environ(c *sandbox.Command, home string, proxy bool) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8"}
	if proxy {
		at := fmt.Sprintf("http://127.0.0.1:%d", proxyPort)
		for _, n := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
			env = append(env, n+"="+at)
		}
	}
	for name, value := range c.Env {
		env = append(env, name+"="+value)
	}
	return env
}
