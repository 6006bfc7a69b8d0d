package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// running is a program that was started, in any mode.
type running struct {
	report  *sandbox.Report
	rules   *sandbox.Rules
	found   *sandbox.Found
	streams *streams
	began   time.Time
	cancel  context.CancelFunc

	ended chan ending
	group sync.WaitGroup // the watcher, the proxy, the listener for denials
	close []func()       // when the program is gone

	mu       sync.Mutex
	pid      int // of the leader of its group; 0 when it is over
	denials  sandbox.Denials
	timedOut bool
	exact    map[sandbox.Claim]bool
}

type ending struct {
	state *os.ProcessState
	err   error
}

// watch kills the program when its time is over or ctx ends.
func (p *running) watch(ctx context.Context) {
	ctx, p.cancel = context.WithTimeout(ctx, p.rules.Timeout)
	p.group.Go(func() {
		<-ctx.Done()
		p.mu.Lock()
		p.timedOut = p.pid != 0
		p.mu.Unlock()
		p.Kill()
	})
}

// Kill implements sandbox.Running. The number of a process is used only while
// it cannot be another's.
func (p *running) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 {
		syscall.Kill(-p.pid, syscall.SIGKILL)
		syscall.Kill(p.pid, syscall.SIGKILL) // before it has made its group
	}
	return nil
}

// Wait implements sandbox.Running.
func (p *running) Wait() (*sandbox.Result, error) {
	end, ok := <-p.ended
	if !ok {
		return nil, errors.New("sandbox: Wait was called twice")
	}
	close(p.ended)
	elapsed := time.Since(p.began)
	p.cancel()
	p.streams.finish(time.Second)
	for _, f := range p.close {
		f()
	}
	p.group.Wait()
	if end.err != nil {
		return nil, fmt.Errorf("sandbox: wait: %w", end.err)
	}
	p.appeared()
	r := &sandbox.Result{ExitCode: end.state.ExitCode(), Elapsed: elapsed, TimedOut: p.timedOut, Truncated: p.streams.cut.Load(), Exact: p.exact, Report: p.report}
	if st, ok := end.state.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		r.Signal = st.Signal().String()
	}
	r.Denials, r.Dropped = p.denials.List()
	return r, nil
}

// deny records a denial.
func (p *running) deny(d sandbox.Denial) {
	d.First = time.Now().UTC()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.denials.Add(d)
}

// appeared reports the protected files that the program made: no kernel
// forbids a name that does not exist yet, but nobody should be surprised.
func (p *running) appeared() {
	if p.found == nil || len(p.rules.Write) == 0 {
		return
	}
	list, err := p.rules.Appeared(context.Background(), p.found)
	if err != nil {
		p.deny(sandbox.Denial{Claim: sandbox.FSDenyWrite, Op: "look", Target: "the workspace cannot be looked through any more"})
	}
	for _, f := range list {
		p.deny(sandbox.Denial{Claim: sandbox.FSDenyWrite, Op: "made", Target: f, Rule: "filesystem.deny_write"})
	}
}

// serve runs the proxy on what the program sees as its network.
func (p *running) serve(ctx context.Context, proxy sandbox.Proxy, l net.Listener) {
	ctx, cancel := context.WithCancel(ctx)
	p.close = append(p.close, func() { cancel(); l.Close() })
	p.group.Go(func() {
		if err := proxy.Serve(ctx, l, p.rules, p.deny); err != nil && ctx.Err() == nil {
			p.deny(sandbox.Denial{Claim: sandbox.NetEgress, Op: "proxy", Target: "the proxy ended: nothing can be reached"})
		}
	})
}

// reap waits until the program is a zombie, kills what is left of its group
// while the number is still its own, and takes its status.
//
// Where no filter forbids it, a thread of the program can make this process its
// tracer. Such a thread must be waited for by its own number, or the program
// never becomes a zombie; and when it stops, only its tracer could let it go on.
// It is asked for by group, therefore: the program leads one, cannot leave it,
// and nothing else in it is a child of this process.
func (p *running) reap(pid int) ending {
	for {
		c, err := changed(unix.P_PGID, pid, unix.WEXITED|unix.WNOWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return ending{err: err}
		case c.over() && int(c.pid) == pid:
			return p.take(pid)
		case c.over():
			changed(unix.P_PID, int(c.pid), unix.WEXITED)
		default:
			p.Kill()
			changed(unix.P_PID, int(c.pid), unix.WSTOPPED|unix.WNOHANG) // or it would be told again
		}
	}
}

// take ends the group of a zombie and takes its status.
func (p *running) take(pid int) ending {
	p.Kill()
	p.mu.Lock()
	p.pid = 0
	p.mu.Unlock()
	proc, err := os.FindProcess(pid)
	if err != nil {
		return ending{err: err}
	}
	state, err := proc.Wait()
	return ending{state, err}
}

// child is the kernel's siginfo_t for SIGCHLD, up to the number.
type child struct {
	signo, errno, code int32
	_                  [(unsafe.Sizeof(uintptr(0)) - 4) / 4]int32 // the rest is aligned as a pointer
	pid                int32
	_                  [112]byte
}

func (c *child) over() bool { return c.code >= cldExited && c.code <= cldDumped }

// Of <asm-generic/siginfo.h>: CLD_EXITED, CLD_KILLED, CLD_DUMPED.
const cldExited, cldDumped = 1, 3

// changed waits for a child or a thread that this process traces.
func changed(kind, id, options int) (child, error) {
	var c child
	err := unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(&c)), options|unix.WALL, nil)
	return c, err
}
