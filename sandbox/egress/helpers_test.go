package egress_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log keeps what Observe was told.
type log struct {
	mu        sync.Mutex
	requests  []*egress.Request
	responses []*egress.Response
	exchanges []egress.Exchange
}

func (l *log) observe(_ context.Context, r *egress.Request, a *egress.Response, x egress.Exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests, l.responses, l.exchanges = append(l.requests, r), append(l.responses, a), append(l.exchanges, x)
}

// only returns the one exchange that there was.
func (l *log) only(t testing.TB) (*egress.Request, *egress.Response, egress.Exchange) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Len(t, l.exchanges, 1, "Observe is called once for each request")
	return l.requests[0], l.responses[0], l.exchanges[0]
}

// open opens a session on a handler in memory.
func open(t testing.TB, h http.HandlerFunc, hooks *egress.Hooks, change ...func(*egress.Profile)) *egress.Session {
	t.Helper()
	p, opts := egresstest.Serve(t, h)
	for _, c := range change {
		c(&p)
	}
	return session(t, p, opts, hooks)
}

func session(t testing.TB, p egress.Profile, opts *egress.Options, hooks *egress.Hooks) *egress.Session {
	t.Helper()
	e, err := egress.New(p, opts)
	require.NoError(t, err)
	t.Cleanup(e.CloseIdleConnections)
	s := e.Open(t.Context(), hooks)
	t.Cleanup(s.Close)
	return s
}

func request(t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	require.NoError(t, err)
	return req
}

// failed takes an error apart and holds it to its promises.
func failed(t testing.TB, err error) *egress.Error {
	t.Helper()
	require.Error(t, err)
	e, ok := errors.AsType[*egress.Error](err)
	require.True(t, ok, "%T", err)
	require.NotErrorIs(t, e, context.Canceled)
	require.NotErrorIs(t, e, context.DeadlineExceeded)
	require.NotErrorIs(t, e, io.EOF)
	_, isNet := errors.AsType[net.Error](error(e))
	require.False(t, isNet, "no net.Error in the chain")
	require.Nil(t, errors.Unwrap(e))
	return e
}

func read(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

// tcp serves raw connections on loopback with a script, and counts requests.
type tcp struct {
	addr     string
	mu       sync.Mutex
	requests int
	conns    int
}

func (s *tcp) counts() (requests, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.conns
}

// serve runs script for each request; a connection ends when script says false.
func serve(t testing.TB, script func(n int, c net.Conn, r *http.Request) bool) *tcp {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &tcp{addr: l.Addr().String()}
	var running sync.WaitGroup
	var open sync.Map
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(c, true)
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
			running.Go(func() { s.talk(c, script) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		open.Range(func(c, _ any) bool { return c.(net.Conn).Close() == nil || true })
		running.Wait()
	})
	return s
}

func (s *tcp) talk(c net.Conn, script func(int, net.Conn, *http.Request) bool) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		s.requests++
		n := s.requests
		s.mu.Unlock()
		if !script(n, c, r) {
			return
		}
	}
}

// profile reaches the server by its address.
func (s *tcp) profile() egress.Profile {
	return egress.Profile{
		Name: "tcp", BaseURL: "http://" + s.addr, Plaintext: true,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
}

func reset(c net.Conn) bool {
	_ = c.(*net.TCPConn).SetLinger(0)
	return false
}

type addr = netip.Addr

func addrs(list ...string) []addr {
	var out []addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}
