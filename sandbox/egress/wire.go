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
	"slices"
	"sync"
	"time"
)

// This file speaks HTTP/1.1 itself, with the parser of net/http and without its
// Transport, for three reasons. The Transport decides on its own when a request
// is sent again; here that is one visible line. It writes what a provider sends
// unasked to the standard log, and that may echo a credential. And a request and
// an answer that are both held in memory need none of its goroutines.

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
	limit io.LimitedReader
	in    *bufio.Reader
	probe *probe // nil: it cannot be asked whether it is silent
	used  bool   // an exchange was completed on it

	mu    sync.Mutex
	timer *time.Timer // made once; closes the connection when it is due
	due   time.Time   // zero: never
	late  bool        // it was closed so
	home  *pool       // it is idle there
}

func newConn(raw net.Conn) *conn {
	c := &conn{Conn: raw, limit: io.LimitedReader{R: raw, N: math.MaxInt64}}
	c.in = bufio.NewReaderSize(&c.limit, readAhead)
	if t, ok := raw.(*tls.Conn); ok {
		raw = t.NetConn() // so that a session's renewal counts as noise, too
	}
	c.probe = newProbe(raw)
	return c
}

// quiet reports whether nothing came while the connection was idle: neither its
// end nor an answer that would be taken for that of the next request.
func (c *conn) quiet() bool { return c.in.Buffered() == 0 && c.probe.silent() }

// closeIn closes the connection after d, unless keep is called before.
func (c *conn) closeIn(d time.Duration, home *pool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due, c.home = time.Now().Add(d), home
	if c.timer == nil {
		c.timer = time.AfterFunc(d, c.expire)
		return
	}
	c.timer.Reset(d)
}

// keep takes back closeIn, and reports whether that was too late.
func (c *conn) keep() (late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due, c.home = time.Time{}, nil
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.late
}

// expire closes the connection if it is due: the timer may have been stopped or
// set anew since it went off.
func (c *conn) expire() {
	c.mu.Lock()
	if c.due.IsZero() || time.Now().Before(c.due) {
		c.mu.Unlock()
		return
	}
	c.late = true
	home := c.home
	c.mu.Unlock()
	_ = c.Close()
	if home != nil {
		home.drop(c)
	}
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
		if c == nil || !c.keep() && c.quiet() {
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
	return c
}

// put keeps c if it can be asked later whether it stayed quiet.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= maxIdle || c.probe == nil || c.in.Buffered() > 0 {
		_ = c.Close()
		return
	}
	c.used = true
	c.closeIn(idleTime, p)
	p.idle = append(p.idle, c)
}

// drop forgets c if it is still idle.
func (p *pool) drop(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.idle, c); i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
}

func (p *pool) close() {
	for c := p.pop(); c != nil; c = p.pop() {
		c.keep()
		_ = c.Close()
	}
}

// exchange is a trip's request on one connection.
type exchange struct {
	t *trip
	c *conn

	heard   bool // a byte of an answer came
	late    bool // the provider took too long
	release func() bool
	written chan struct{} // closed when nothing more is written; nil if that is so already
	failed  error         // of writing; read after written

	mu   sync.Mutex
	over bool // the headers are here, or will not come
}

// begin sends the request and reads the headers of its answer. The connection is
// closed when the trip's life ends, until finish.
func (x *exchange) begin() (*http.Response, error) {
	x.release = context.AfterFunc(x.t.life, func() { _ = x.c.Close() })
	if len(x.t.r.Body) == 0 {
		x.write()
	} else { // an answer may come before the body was taken
		x.written = make(chan struct{})
		go func() {
			defer close(x.written)
			x.write()
		}()
	}
	resp, heard, err := x.c.head(&x.t.req, x.t.s.e.profile.Limits.HeaderBytes)
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
	x.failed = x.send()
	if x.failed != nil && !x.t.touched.Load() {
		_ = x.c.Close() // nobody will answer
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.c.closeIn(x.t.s.e.profile.Limits.Headers, nil)
	}
}

// send writes the head with the beginning of the body, and the rest.
func (x *exchange) send() error {
	const first, piece = 4 << 10, 32 << 10
	head, body := x.t.head, x.t.r.Body
	n := min(len(body), first)
	if n > 0 {
		head = append(head[:len(head):len(head)], body[:n]...)
	}
	for {
		x.t.touched.Store(true)
		x.t.sent.Add(int64(n))
		if _, err := x.c.Write(head); err != nil {
			return err
		}
		if body = body[n:]; len(body) == 0 {
			return nil
		}
		n = min(len(body), piece)
		head = body[:n]
	}
}

// stopAlarm reports whether the answer's headers came too late.
func (x *exchange) stopAlarm() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	x.late = x.c.keep()
	return x.late
}

// finish gives the connection to p if it can be used again, and closes it
// otherwise. Nothing is written when it returns.
func (x *exchange) finish(p *pool, whole bool) {
	if x.release() && whole && p != nil && x.complete() {
		p.put(x.c)
		return
	}
	_ = x.c.Close()
	if x.written != nil {
		<-x.written
	}
}

// complete reports whether all of the request was written. One that was answered
// before its body was taken is not.
func (x *exchange) complete() bool {
	if x.written == nil {
		return x.failed == nil
	}
	if x.t.sent.Load() < int64(len(x.t.r.Body)) || !x.c.quiet() {
		return false
	}
	<-x.written // the provider answered all of it; writing is about to return
	return x.failed == nil
}
