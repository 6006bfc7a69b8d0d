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
func (p *running) reap(pid int) ending {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return ending{err: err}
		}
	}
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
