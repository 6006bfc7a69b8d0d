package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
)

// host lets package peers start a server for a program that is no test.
type host struct {
	testing.TB
	mu    sync.Mutex
	undos []func()
}

func (*host) Helper() {}

func (*host) Context() context.Context { return context.Background() }

func (h *host) TempDir() string {
	dir, err := os.MkdirTemp("", "crashtest")
	if err != nil {
		fatal(err)
	}
	h.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (h *host) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.undos = append(h.undos, f)
}

func (h *host) Fatalf(format string, args ...any) {
	h.close()
	fatal(fmt.Errorf(format, args...))
}

func (h *host) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

func (*host) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range slices.Backward(h.undos) {
		f()
	}
	h.undos = nil
}

// again starts this program in another role.
func again(name string, env ...string) (*exec.Cmd, io.WriteCloser, *bufio.Scanner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), role+"="+name), env...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, nil, nil, err
	}
	return cmd, in, bufio.NewScanner(out), nil
}

var errDied = errors.New("the worker died")

// process is a worker that is alive, or was.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{}

	mu      sync.Mutex
	n       int
	waiting map[int]chan answer
}

func (g *game) start() (*process, error) {
	cmd, in, out, err := again("worker", "STORE="+g.store, "DSN="+g.dsn, "PROVIDER="+g.api)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, done: make(chan struct{}), waiting: map[int]chan answer{}}
	go func() {
		for out.Scan() {
			var a answer
			if err := json.Unmarshal(out.Bytes(), &a); err != nil {
				continue // half a line: it was killed while it wrote
			}
			p.mu.Lock()
			ch := p.waiting[a.N]
			delete(p.waiting, a.N)
			p.mu.Unlock()
			if ch != nil {
				ch <- a
			}
		}
		_ = cmd.Wait() // it was killed, or its input ended
		close(p.done)
	}()
	return p, nil
}

// call sends a job and waits for its answer.
func (p *process) call(j job) (answer, error) {
	ch := make(chan answer, 1)
	p.mu.Lock()
	p.n++
	j.N = p.n
	p.waiting[j.N] = ch
	line, err := json.Marshal(j)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	p.mu.Unlock()
	if err != nil {
		return answer{}, errDied
	}
	select {
	case a := <-ch:
		return a, nil
	case <-p.done:
		select {
		case a := <-ch: // it answered, and then died
			return a, nil
		default:
			return answer{}, errDied
		}
	}
}

func (p *process) kill() { _ = p.cmd.Process.Kill() } // it may be dead already

// crew is the workers. A dead one is replaced when it is needed.
type crew struct {
	g  *game
	mu sync.Mutex
	ps []*process
}

// pick returns worker i, alive at the moment.
func (c *crew) pick(i int) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i %= len(c.ps)
	if p := c.ps[i]; p != nil {
		select {
		case <-p.done:
		default:
			return p, nil
		}
		c.g.deaths.Add(1)
	}
	p, err := c.g.start()
	if err == nil {
		c.ps[i] = p
	}
	return p, err
}

// two returns two workers, different ones if there are.
func (c *crew) two(rnd *rand.Rand) (a, b *process, err error) {
	i := rnd.IntN(len(c.ps))
	a, err1 := c.pick(i)
	b, err2 := c.pick(i + 1)
	return a, b, errors.Join(err1, err2)
}

func (c *crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.ps {
		if p != nil {
			p.in.Close()
			p.kill()
			<-p.done
		}
	}
}
