package egress_test

import (
	"context"
	"errors"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

// A8: an answer that nobody asked for is not taken for that of the next
// request, which may be another user's; and R10: it is not written to the
// standard log, as net/http's own transport does.
func TestUnsolicitedAnswer_A8(t *testing.T) {
	logged := make(lines, 16)
	stdlog.SetOutput(logged)
	t.Cleanup(func() { stdlog.SetOutput(os.Stderr) })

	evil := answer("", "evil")
	late := make(chan struct{})
	for why, script := range map[string]func(n int, c net.Conn) bool{
		"with the answer": func(n int, c net.Conn) bool {
			_, _ = io.WriteString(c, answer("", "good")+strings.Repeat(evil, 3))
			return true
		},
		"while it is idle": func(n int, c net.Conn) bool {
			_, _ = io.WriteString(c, answer("", "good"))
			if n == 1 {
				<-late
				_, _ = io.WriteString(c, evil)
				late <- struct{}{}
			}
			return true
		},
		"behind an answer that has no body": func(n int, c net.Conn) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 204 No\r\n\r\n"+evil)
			return true
		},
	} {
		t.Run(why, func(t *testing.T) {
			srv := serve(t, func(n int, c net.Conn, _ *http.Request) bool { return script(n, c) })
			p := srv.profile()
			s := session(t, p, nil, nil)
			for i := range 3 {
				resp, err := s.RoundTrip(request(t, "GET", p.BaseURL+"/", ""))
				require.NoError(t, err)
				require.NotContains(t, read(t, resp), "evil")
				if i == 0 && why == "while it is idle" {
					late <- struct{}{}
					<-late
				}
			}
			_, conns := srv.counts()
			require.Greater(t, conns, 1)
		})
	}
	require.Empty(t, logged)

	// The control: net/http's transport does write it.
	srv := serve(t, func(_ int, c net.Conn, _ *http.Request) bool {
		_, _ = io.WriteString(c, answer("", "good")+evil)
		return true
	})
	bare := &http.Transport{}
	t.Cleanup(bare.CloseIdleConnections)
	resp, err := bare.RoundTrip(request(t, "GET", "http://"+srv.addr, ""))
	require.NoError(t, err)
	require.Equal(t, "good", read(t, resp))
	require.Contains(t, <-logged, "evil")
}

// lines is an io.Writer that keeps what is written.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// P3: the one repetition that there is: a read, once, on a new connection.
func TestDeadConnection_P3(t *testing.T) {
	for _, row := range []struct {
		why      string
		second   string // what the server does with the second request on a connection
		err      egress.Reason
		requests int
	}{
		{"without a word", "", "", 3},
		{"after a word", "HTTP/1.1 2", egress.ReasonBroken, 2},
		{"with an answer that breaks", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", egress.ReasonBroken, 2},
	} {
		t.Run(row.why, func(t *testing.T) {
			srv := serve(t, func(n int, c net.Conn, _ *http.Request) bool {
				if n == 2 {
					return say(row.second)(c)
				}
				_, _ = io.WriteString(c, answer("", "ok"))
				return true
			})
			p, l := srv.profile(), &log{}
			s := session(t, p, nil, &egress.Hooks{Observe: l.observe, Allow: func(context.Context, *egress.Request) (egress.Effect, error) {
				return egress.Reads, nil
			}})
			_, err := s.RoundTrip(request(t, "POST", p.BaseURL+"/search", "a"))
			require.NoError(t, err)
			resp, err := s.RoundTrip(request(t, "POST", p.BaseURL+"/search", "body"))
			requests, _ := srv.counts()
			require.Equal(t, row.requests, requests)
			require.Len(t, l.exchanges, 2)
			x := l.exchanges[1]
			require.Equal(t, int64(4), x.Sent)
			require.Equal(t, row.err, x.Reason)
			if row.err != "" {
				require.Equal(t, row.err, failed(t, err).Reason)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "ok", read(t, resp))
		})
	}
}

// A repeated read that finds nobody had left once.
func TestDeadConnectionAndNobodyThere_E3(t *testing.T) {
	srv := serve(t, func(n int, c net.Conn, _ *http.Request) bool {
		if n == 2 {
			return false
		}
		_, _ = io.WriteString(c, answer("", "ok"))
		return true
	})
	dials := 0
	opts := &egress.Options{Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		if dials++; dials > 1 {
			return nil, errors.New("nobody there")
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", a.String())
	}}
	p := srv.profile()
	s := session(t, p, opts, nil)
	_, err := s.RoundTrip(request(t, "GET", p.BaseURL+"/", ""))
	require.NoError(t, err)
	_, err = s.RoundTrip(request(t, "GET", p.BaseURL+"/", ""))
	e := failed(t, err)
	require.Equal(t, egress.ReasonDial, e.Reason)
	require.Equal(t, egress.PhaseUnanswered, e.Phase)
}

// An answer before the body was taken is an answer, and nothing hangs.
func TestEarlyAnswer_W5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := egresstest.Profile()
		opts := &egress.Options{
			Resolve: func(context.Context, string) ([]netip.Addr, error) { return addrs("10.0.0.1"), nil },
			Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
				client, server := net.Pipe()
				go func() {
					defer server.Close()
					_, _ = server.Read(make([]byte, 16))
					_, _ = io.WriteString(server, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
				}()
				return client, nil
			},
		}
		l := &log{}
		s := session(t, p, opts, &egress.Hooks{Observe: l.observe})
		start := time.Now()
		resp, err := s.RoundTrip(request(t, "POST", p.BaseURL+"/", strings.Repeat("x", 1<<20)))
		require.NoError(t, err)
		require.Equal(t, 413, resp.StatusCode)
		require.Zero(t, time.Since(start))
		_, _, x := l.only(t)
		require.Less(t, x.Sent, int64(1<<20))
	})
}

// Idle connections end by themselves, and when they are told to.
func TestIdleConnectionsEnd(t *testing.T) {
	ended := make(chan error, 2)
	srv := serve(t, func(_ int, c net.Conn, _ *http.Request) bool {
		_, _ = io.WriteString(c, answer("", "ok"))
		_, err := c.Read(make([]byte, 1))
		ended <- err
		return false
	})
	p := srv.profile()
	e, err := egress.New(p, nil)
	require.NoError(t, err)
	s := e.Open(t.Context(), nil)
	defer s.Close()
	_, err = s.RoundTrip(request(t, "GET", p.BaseURL+"/", ""))
	require.NoError(t, err)
	e.CloseIdleConnections()
	require.ErrorIs(t, <-ended, io.EOF)
}
