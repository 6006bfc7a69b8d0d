package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/balance"
)

// fleet is the replicas that were started.
type fleet struct {
	dir, config string
	balancer    *balance.Balancer

	mu     sync.Mutex
	all    []*process
	kills  []time.Time
	unfit  int // replicas that ended otherwise than they should
	report func(format string, args ...any)
}

// process is one replica.
type process struct {
	name, release string
	cmd           *exec.Cmd
	public, admin string
	backend       *balance.Backend
	leave         context.CancelFunc
	left          <-chan struct{}
	done          chan struct{}
	err           error // how it ended, once done is closed
}

const patience = 2 * time.Minute // for what a loaded machine may take

// start starts a replica, and returns when it is served by the balancer.
func (f *fleet) start(ctx context.Context, release string) (*process, error) {
	p, err := f.launch(release)
	if err != nil {
		return nil, err
	}
	watch, leave := context.WithCancel(context.WithoutCancel(ctx))
	p.leave = leave
	if p.backend, p.left, err = f.balancer.Add(watch, p.public, p.admin); err != nil {
		leave()
		return nil, err
	}
	deadline := time.Now().Add(patience)
	for !p.backend.Ready() {
		select {
		case <-p.done:
			return nil, fmt.Errorf("replica %s ended at its start: %v; see %s", p.name, p.err, f.log(p.name))
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("replica %s was not ready", p.name)
		}
	}
	return p, nil
}

func (f *fleet) log(name string) string { return filepath.Join(f.dir, "log-"+name+".txt") }

// launch starts the process, and returns when it has said where it is.
func (f *fleet) launch(release string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &process{name: fmt.Sprint("r", len(f.all)+1), release: release, done: make(chan struct{})}
	log, err := os.OpenFile(f.log(p.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(self, "-config", f.config, "-id", p.name, "-release", release, "-traces", filepath.Join(f.dir, "traces-"+p.name+".json"))
	p.cmd.Env = append(os.Environ(), role+"=replica")
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	said := lines.Scan()
	where := lines.Text()
	go func() {
		for lines.Scan() {
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	f.all = append(f.all, p)
	if p.public, p.admin, _ = strings.Cut(where, " "); !said {
		<-p.done
		return nil, fmt.Errorf("replica %s did not start: %v; see %s", p.name, p.err, f.log(p.name))
	}
	return p, nil
}

// retire ends a replica in order, and waits.
func (f *fleet) retire(ctx context.Context, p *process) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		f.blame("%s (%s) has not ended", p.name, p.release)
		_ = p.cmd.Process.Kill() // counted above
		<-p.done
	}
	f.forget(p)
	if p.err != nil {
		f.blame("%s (%s) ended with %v; see %s", p.name, p.release, p.err, f.log(p.name))
	}
	return ctx.Err()
}

// end ends what runs, in order and all at once.
func (f *fleet) end(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(f.all))
	for i, p := range f.all {
		select {
		case <-p.done:
		default:
			wg.Go(func() { errs[i] = f.retire(ctx, p) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// kill kills a replica, as a machine that burns does.
func (f *fleet) kill(p *process) error {
	f.mu.Lock()
	f.kills = append(f.kills, time.Now())
	f.mu.Unlock()
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	<-p.done
	f.forget(p)
	return nil
}

// knock starts a replica that must be refused at the gate.
func (f *fleet) knock(release string) error {
	p, err := f.launch(release)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill() // it is one that should not be
		<-p.done
	}
	text, err := os.ReadFile(f.log(p.name))
	if err != nil {
		return err
	}
	if p.err == nil || !strings.Contains(string(text), "does not go beside") {
		return errors.New("a release that breaks the contract was let in")
	}
	return nil
}

func (f *fleet) forget(p *process) {
	p.leave()
	<-p.left
}

func (f *fleet) blame(format string, args ...any) {
	f.mu.Lock()
	f.unfit++
	f.mu.Unlock()
	f.report(format, args...)
}

// close kills what is left.
func (f *fleet) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.all {
		select {
		case <-p.done:
		default:
			_ = p.cmd.Process.Kill() // it may have ended by now
			<-p.done
		}
		if p.leave != nil {
			p.leave()
			<-p.left
		}
	}
}
