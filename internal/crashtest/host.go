package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os/exec"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

// again starts this program in another role.
func again(name string, env ...string) (*exec.Cmd, io.WriteCloser, *bufio.Scanner, error) {
	return peers.Again(append([]string{role + "=" + name}, env...)...)
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
