package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// This file speaks HTTP/1.1 itself, with the parser and the writer of net/http
// and without its Transport, for three reasons. The Transport decides on its own
// when a request is sent again; here that is one visible line. It writes what a
// provider sends unasked to the standard log, and that may echo a credential. And
// a request and an answer that are both held in memory need none of its
// goroutines.

var (
	errLate    = errors.New("no answer's headers within the limit")
	errHeaders = errors.New("the answer's headers are over the limit")
)

const (
	maxIdle   = 16               // connections that are kept for reads
	idleTime  = 90 * time.Second // and how long
	readAhead = 4096             // of bufio, beyond the headers
)

// conn is a connection with what was read ahead of it. One trip owns it at a
// time.
type conn struct {
	net.Conn
	limit *io.LimitedReader
	in    *bufio.Reader
	used  bool        // an exchange was completed on it
	timer *time.Timer // closes it while it is idle
}

func newConn(raw net.Conn) *conn {
	limit := &io.LimitedReader{R: raw, N: math.MaxInt64}
	return &conn{Conn: raw, limit: limit, in: bufio.NewReaderSize(limit, readAhead)}
}

// quiet reports whether nothing came while the connection was idle: neither its
// end nor an answer that would be taken for that of the next request. What is
// below TLS is asked, so that a session's renewal counts as noise too.
func (c *conn) quiet() bool {
	raw := c.Conn
	if t, ok := raw.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	return c.in.Buffered() == 0 && silent(raw)
}

// head reads status line and headers of the final answer.
func (c *conn) head(req *http.Request, limit int64) (resp *http.Response, heard bool, err error) {
	c.limit.N = limit + readAhead
	for {
		resp, err = http.ReadResponse(c.in, req)
		heard = c.limit.N < limit+readAhead
		if err != nil && c.limit.N <= 0 {
			err = errHeaders
		}
		if err != nil {
			return nil, heard, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			c.limit.N = math.MaxInt64 // the body has limits of its own
			return resp, true, nil
		}
	}
}

// pool keeps connections for reads, the latest first. The zero pool is ready.
type pool struct {
	mu   sync.Mutex
	idle []*conn
}

// get returns a connection that was quiet, or nil.
func (p *pool) get() *conn {
	for {
		c := p.pop()
		if c == nil || c.quiet() {
			return c
		}
		_ = c.Close()
	}
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle = p.idle[:n-1]
	c.timer.Stop()
	return c
}

func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= maxIdle || !c.quiet() {
		_ = c.Close()
		return
	}
	c.used = true
	c.timer = time.AfterFunc(idleTime, func() { p.drop(c) })
	p.idle = append(p.idle, c)
}

// drop closes c if it is still idle.
func (p *pool) drop(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.idle {
		if other == c {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			_ = c.Close()
			return
		}
	}
}

func (p *pool) close() {
	for c := p.pop(); c != nil; c = p.pop() {
		_ = c.Close()
	}
}

// exchange is one request on one connection.
type exchange struct {
	c       *conn
	out     *http.Request
	limits  Limits
	touched *atomic.Bool  // a byte of the request may have left
	sent    *atomic.Int64 // bytes of the body that were taken

	heard   bool // a byte of an answer came
	release func() bool
	written chan struct{} // closed when nothing more is written
	failed  error         // of writing; read after written

	mu    sync.Mutex
	alarm *time.Timer
	over  bool // the headers are here, or will not come
	late  bool
}

// begin sends the request and reads the headers of its answer. The connection is
// closed when life ends, until finish.
func (x *exchange) begin(life context.Context) (*http.Response, error) {
	x.release = context.AfterFunc(life, func() { _ = x.c.Close() })
	x.written = make(chan struct{})
	if x.out.Body == nil {
		x.write()
	} else {
		go x.write() // an answer may come before the body was taken
	}
	resp, heard, err := x.c.head(x.out, x.limits.HeaderBytes)
	x.heard = heard
	if x.stopAlarm() {
		err = errLate
	}
	if err != nil {
		x.finish(nil, false)
		if x.failed != nil && !heard {
			err = errors.Join(x.failed, err)
		}
		return nil, err
	}
	return resp, nil
}

// write sends the request, and gives the provider its time to answer.
func (x *exchange) write() {
	defer close(x.written)
	x.failed = x.out.Write(&toucher{x.c, x.touched})
	if x.failed != nil && !x.touched.Load() {
		_ = x.c.Close() // nobody will answer
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	x.alarm = time.AfterFunc(x.limits.Headers, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if !x.over {
			x.late = true
			_ = x.c.Close()
		}
	})
}

// stopAlarm reports whether it went off.
func (x *exchange) stopAlarm() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	if x.alarm != nil {
		x.alarm.Stop()
	}
	return x.late
}

// finish gives the connection to p if it can be used again, and closes it
// otherwise. Nothing is written when it returns.
func (x *exchange) finish(p *pool, whole bool) {
	if whole && p != nil && x.sent.Load() == x.out.ContentLength && x.c.quiet() {
		<-x.written // the provider answered all of it; writing is about to return
	}
	select {
	case <-x.written:
	default:
		whole = false // answered before the body was taken
	}
	if whole && p != nil && x.release() && x.failed == nil {
		p.put(x.c)
		return
	}
	x.release()
	_ = x.c.Close()
	<-x.written
}

// toucher notes that something is about to be written.
type toucher struct {
	w       io.Writer
	touched *atomic.Bool
}

func (t *toucher) Write(p []byte) (int, error) {
	t.touched.Store(true)
	return t.w.Write(p)
}
