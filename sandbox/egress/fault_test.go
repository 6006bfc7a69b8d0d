package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}

func answer(head, body string) string {
	return "HTTP/1.1 200 OK\r\n" + head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// E3, W5: what each fault on the wire is, for a change and for a read, and how
// many requests the server saw. A change is seen at most once.
func TestFaults_E3(t *testing.T) {
	const (
		unanswered = egress.PhaseUnanswered
		answered   = egress.PhaseAnswered
	)
	for _, row := range []struct {
		why    string
		script func(c net.Conn) bool
		phase  egress.Phase
		reason egress.Reason
		status int
		body   string
	}{
		{why: "answered", script: say(answer("", "hello")), phase: answered, status: 200, body: "hello"},
		{why: "answered, without a length", script: say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"), phase: answered, status: 200, body: "hello"},
		{why: "answered with an error", script: say("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), phase: answered, status: 500},
		{why: "closed without a word", script: say(""), phase: unanswered, reason: egress.ReasonBroken},
		{why: "reset without a word", script: reset, phase: unanswered, reason: egress.ReasonBroken},
		{why: "closed within the headers", script: say("HTTP/1.1 200 OK\r\nContent-Le"), phase: unanswered, reason: egress.ReasonBroken},
		{why: "no HTTP", script: say("SSH-2.0-OpenSSH_9.2\r\n"), phase: unanswered, reason: egress.ReasonBroken},
		{why: "headers over the limit", script: say("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("x", 80<<10) + "\r\n\r\n"),
			phase: unanswered, reason: egress.ReasonTooLarge},
		{why: "headers without an end", script: say("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: xxxxxxxx\r\n", 8<<10)),
			phase: unanswered, reason: egress.ReasonTooLarge},
		{why: "a flood of informational answers", script: say(strings.Repeat("HTTP/1.1 103 Early\r\nX-A: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n", 4<<10)),
			phase: unanswered, reason: egress.ReasonTooLarge},
		{why: "a few informational answers", script: say("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 102 Wait\r\n\r\n" + answer("", "hello")),
			phase: answered, status: 200, body: "hello"},
		{why: "a switch of protocols", script: say("HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nbytes"),
			phase: answered, reason: egress.ReasonBroken, status: 101},
		{why: "a body shorter than announced", script: say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
			phase: answered, reason: egress.ReasonBroken, status: 200},
		{why: "a body longer than announced", script: say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, world"),
			phase: answered, status: 200, body: "hello"},
		{why: "two lengths", script: say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
			phase: unanswered, reason: egress.ReasonBroken},
		{why: "reset within the body", script: func(c net.Conn) bool {
			say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")(c)
			return reset(c)
		}, phase: answered, reason: egress.ReasonBroken, status: 200},
		{why: "a chunk that ends early", script: say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
			phase: answered, reason: egress.ReasonBroken, status: 200},
		{why: "trailers are dropped", script: say("HTTP/1.1 200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: v\r\n\r\n"),
			phase: answered, status: 200, body: "hello"},
		{why: "a body over the limit, announced", script: say("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nhello"),
			phase: answered, reason: egress.ReasonTooLarge, status: 200},
		{why: "a body over the limit, chunked", script: say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n" + strings.Repeat("x", 1<<20) + "\r\n0\r\n\r\n"),
			phase: answered, reason: egress.ReasonTooLarge, status: 200},
		{why: "gzip", script: say(answer("Content-Encoding: gzip\r\n", zipped("hello"))), phase: answered, status: 200, body: "hello"},
		{why: "gzip of nothing", script: say(answer("Content-Encoding: gzip\r\n", "")), phase: answered, status: 200},
		{why: "small and repetitive", script: say(answer("Content-Encoding: gzip\r\n", zipped(strings.Repeat("a", 60<<10)))),
			phase: answered, status: 200, body: strings.Repeat("a", 60<<10)},
		{why: "a gzip bomb", script: say(answer("Content-Encoding: gzip\r\n", zipped(strings.Repeat("\x00", 500<<10)))),
			phase: answered, reason: egress.ReasonTooLarge, status: 200},
		{why: "gzip cut off", script: say(answer("Content-Encoding: gzip\r\n", zipped("hello, world")[:15])),
			phase: answered, reason: egress.ReasonBroken, status: 200},
		{why: "gzip with a tail", script: say(answer("Content-Encoding: gzip\r\n", zipped("hello")+"tail")),
			phase: answered, reason: egress.ReasonBroken, status: 200},
		{why: "an encoding nobody asked for", script: say(answer("Content-Encoding: br\r\n", "xx")),
			phase: answered, reason: egress.ReasonBroken, status: 200},
		{why: "gzip in gzip", script: say(answer("Content-Encoding: gzip, gzip\r\n", zipped(zipped("hello")))),
			phase: answered, reason: egress.ReasonBroken, status: 200},
	} {
		for _, method := range []string{"POST", "GET"} {
			t.Run(row.why+"/"+method, func(t *testing.T) {
				srv := serve(t, func(_ int, c net.Conn, _ *http.Request) bool { return row.script(c) })
				l := &log{}
				p := srv.profile()
				p.Limits.ResponseBytes = 600 << 10
				s := session(t, p, nil, &egress.Hooks{Observe: l.observe})
				resp, err := s.RoundTrip(request(t, method, p.BaseURL+"/x", ""))
				requests, _ := srv.counts()
				require.Equal(t, 1, requests)
				_, a, x := l.only(t)
				require.Equal(t, row.phase, x.Phase)
				require.Equal(t, row.reason, x.Reason, "%v", err)
				require.Equal(t, row.status, x.Status)
				require.Equal(t, row.status != 0, a != nil)
				if row.reason == "" {
					require.NoError(t, err)
					require.Equal(t, row.body, read(t, resp))
					require.Equal(t, row.body, string(a.Body))
					require.Empty(t, resp.Trailer)
					require.Empty(t, resp.Header.Get("Content-Encoding"))
					require.Equal(t, int64(len(row.body)), resp.ContentLength)
					return
				}
				e := failed(t, err)
				require.Equal(t, row.phase, e.Phase)
				require.Equal(t, row.reason, e.Reason)
				if a != nil {
					require.Equal(t, row.status, a.Status)
					require.Nil(t, a.Body)
				}
			})
		}
	}
}

// say writes and ends the connection.
func say(text string) func(net.Conn) bool {
	return func(c net.Conn) bool {
		_, _ = io.WriteString(c, text)
		return false
	}
}

// W5: a change is never sent again, with a key and without a body, on a
// connection that was kept alive and that the server kills after reading.
// net/http sends exactly this twice.
func TestChangeIsSentOnce_W5(t *testing.T) {
	kills := func(n int, c net.Conn, r *http.Request) bool {
		if r.Method == "GET" && n == 1 {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			return true
		}
		return false
	}
	control := serve(t, kills)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	keyed := func(base string) *http.Request {
		r := request(t, "POST", base+"/x", "")
		r.Header.Set("Idempotency-Key", "k")
		return r
	}
	warm, err := tr.RoundTrip(request(t, "GET", "http://"+control.addr+"/", ""))
	require.NoError(t, err)
	require.NoError(t, warm.Body.Close())
	_, err = tr.RoundTrip(keyed("http://" + control.addr))
	require.Error(t, err)
	requests, _ := control.counts()
	require.Equal(t, 3, requests, "control: the bare transport repeats it")

	srv := serve(t, kills)
	p := srv.profile()
	s := session(t, p, nil, nil)
	_, err = s.RoundTrip(request(t, "GET", p.BaseURL+"/", ""))
	require.NoError(t, err)
	_, err = s.RoundTrip(keyed(p.BaseURL))
	e := failed(t, err)
	require.Equal(t, egress.PhaseUnanswered, e.Phase)
	require.Equal(t, egress.ReasonBroken, e.Reason)
	requests, conns := srv.counts()
	require.Equal(t, 2, requests)
	require.Equal(t, 2, conns, "on a connection of its own")
}

// Reads share connections; a GET on one that died is repeated by net/http.
func TestReadsArePooled_P3(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	srv := serve(t, func(n int, c net.Conn, _ *http.Request) bool {
		if n == 3 {
			return false
		}
		_, _ = io.WriteString(c, ok)
		return true
	})
	p := srv.profile()
	l := &log{}
	s := session(t, p, nil, &egress.Hooks{Observe: l.observe})
	for range 3 {
		_, err := s.RoundTrip(request(t, "GET", p.BaseURL+"/", ""))
		require.NoError(t, err)
	}
	requests, conns := srv.counts()
	require.Equal(t, 4, requests)
	require.Equal(t, 2, conns)
	require.Len(t, l.exchanges, 3)
	for range 2 {
		_, err := s.RoundTrip(request(t, "POST", p.BaseURL+"/", "x"))
		require.NoError(t, err)
	}
	_, conns = srv.counts()
	require.Equal(t, 4, conns, "each change on its own")
}

// E3: before a connection, nothing was sent.
func TestNotSent_E3(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := l.Addr().String()
	require.NoError(t, l.Close())
	silent := serve(t, func(int, net.Conn, *http.Request) bool { return false })
	secure := func(c *tls.Config) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(echo))
		s.TLS, s.Config.ErrorLog = c, stdlog.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	untrusted, old := secure(nil), secure(&tls.Config{MaxVersion: tls.VersionTLS11})
	ca := func(s *httptest.Server) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	}
	for _, row := range []struct {
		why, base string
		ca        []byte
		reason    egress.Reason
	}{
		{"refused", "http://" + closed, nil, egress.ReasonDial},
		{"refused, with TLS", "https://" + closed, nil, egress.ReasonDial},
		{"no certificate that is trusted", untrusted.URL, nil, egress.ReasonTLS},
		{"a certificate that the profile trusts", untrusted.URL, ca(untrusted), ""},
		{"TLS 1.1", old.URL, ca(old), egress.ReasonTLS},
		{"no TLS at all", "https://" + silent.addr, nil, egress.ReasonTLS},
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(row.why+"/"+method, func(t *testing.T) {
				watch := &log{}
				p := egress.Profile{Name: "t", BaseURL: row.base, Plaintext: true, CA: row.ca, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
				s := session(t, p, nil, &egress.Hooks{Observe: watch.observe})
				_, err := s.RoundTrip(request(t, method, row.base+"/", ""))
				if row.reason == "" { // the control
					require.NoError(t, err)
					return
				}
				e := failed(t, err)
				require.Equal(t, row.reason, e.Reason, "%v", e.Cause())
				require.Equal(t, egress.PhaseNotSent, e.Phase)
				require.NotContains(t, err.Error(), "127.0.0.1")
				_, _, x := watch.only(t)
				require.Equal(t, egress.PhaseNotSent, x.Phase)
				require.Zero(t, x.Sent)
			})
		}
	}
}

// S3: the certificate is for the name of the profile, whatever the address.
func TestTLSName_S3(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	srv.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	target := netip.MustParseAddrPort(strings.TrimPrefix(srv.URL, "https://"))
	opts := &egress.Options{
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return addrs("8.8.8.8"), nil },
		Dial: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			require.Equal(t, "8.8.8.8:443", a.String(), "what was checked is what is dialled")
			var d net.Dialer
			return d.DialContext(ctx, "tcp", target.String())
		},
	}
	for host, want := range map[string]egress.Reason{"example.com": "", "example.org": egress.ReasonTLS} {
		s := session(t, egress.Profile{Name: "t", BaseURL: "https://" + host, CA: ca}, opts, nil)
		for _, method := range []string{"GET", "POST"} {
			resp, err := s.RoundTrip(request(t, method, "https://"+host+"/", ""))
			if want == "" {
				require.NoError(t, err)
				require.Equal(t, method+" / ", read(t, resp))
				continue
			}
			require.Equal(t, want, failed(t, err).Reason)
		}
	}
}

// S3: no proxy, whatever the environment says.
func TestNoProxy_S3(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"} {
		t.Setenv(name, "http://10.9.9.9:3128")
	}
	dialled := ""
	p, opts := egresstest.Serve(t, http.HandlerFunc(echo))
	dial := opts.Dial
	opts.Dial = func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		dialled = a.String()
		return dial(ctx, a)
	}
	_, err := session(t, p, opts, nil).RoundTrip(request(t, "GET", p.BaseURL+"/", ""))
	require.NoError(t, err)
	require.Equal(t, "10.0.0.1:80", dialled)
}

// An address that does not answer leaves time for the next.
func TestNextAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, opts := egresstest.Serve(t, http.HandlerFunc(echo))
		dial := opts.Dial
		opts.Resolve = func(context.Context, string) ([]netip.Addr, error) {
			return addrs("10.0.0.1", "10.0.0.2", "10.0.0.3"), nil
		}
		opts.Dial = func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			switch a.Addr().String() {
			case "10.0.0.1":
				return nil, errors.New("refused")
			case "10.0.0.2":
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, a)
		}
		s := session(t, p, opts, nil)
		_, err := s.RoundTrip(request(t, "POST", p.BaseURL+"/", ""))
		require.NoError(t, err)
	})
}

// E3: which limit ended it, and how far it got, in virtual time.
func TestTimeouts_E3(t *testing.T) {
	forever := func(ctx context.Context) { <-ctx.Done() }
	for _, row := range []struct {
		why     string
		limits  egress.Limits
		ctx     time.Duration // deadline of the request's context
		resolve bool          // hangs
		dial    bool          // hangs
		handler http.HandlerFunc
		body    io.Reader
		after   time.Duration
		phase   egress.Phase
		status  int
	}{
		{why: "resolving hangs", limits: egress.Limits{Connect: 2 * time.Second}, resolve: true, after: 2 * time.Second, phase: egress.PhaseNotSent},
		{why: "dialling hangs", limits: egress.Limits{Connect: 2 * time.Second}, dial: true, after: 2 * time.Second, phase: egress.PhaseNotSent},
		{why: "dialling hangs beyond the total", limits: egress.Limits{Connect: time.Hour, Total: time.Second}, dial: true, after: time.Second, phase: egress.PhaseNotSent},
		{why: "dialling hangs beyond the context", ctx: time.Second, dial: true, after: time.Second, phase: egress.PhaseNotSent},
		{why: "no headers", limits: egress.Limits{Headers: 3 * time.Second}, after: 3 * time.Second, phase: egress.PhaseUnanswered,
			handler: func(_ http.ResponseWriter, r *http.Request) { forever(r.Context()) }},
		{why: "no headers, by default", after: 15 * time.Second, phase: egress.PhaseUnanswered,
			handler: func(_ http.ResponseWriter, r *http.Request) { forever(r.Context()) }},
		{why: "no headers before the context's end", ctx: 4 * time.Second, after: 4 * time.Second, phase: egress.PhaseUnanswered,
			handler: func(_ http.ResponseWriter, r *http.Request) { forever(r.Context()) }},
		{why: "a slow body", limits: egress.Limits{Total: 5 * time.Second}, after: 5 * time.Second, phase: egress.PhaseAnswered, status: 200,
			handler: func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					_, _ = io.WriteString(w, "x")
					w.(http.Flusher).Flush()
					select {
					case <-time.After(time.Second):
					case <-r.Context().Done():
					}
				}
			}},
		{why: "a body of the handler that does not come", limits: egress.Limits{Total: 5 * time.Second}, body: never(), after: 5 * time.Second, phase: egress.PhaseNotSent},
	} {
		for _, effect := range []egress.Effect{egress.Reads, egress.Changes} {
			t.Run(row.why+"/"+effect.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := row.handler
					if h == nil {
						h = echo
					}
					p, opts := egresstest.Serve(t, h)
					p.Limits = row.limits
					if row.resolve {
						opts.Resolve = func(ctx context.Context, _ string) ([]netip.Addr, error) { forever(ctx); return nil, ctx.Err() }
					}
					if row.dial {
						opts.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) { forever(ctx); return nil, ctx.Err() }
					}
					l := &log{}
					s := session(t, p, opts, &egress.Hooks{Observe: l.observe,
						Allow: func(context.Context, *egress.Request) (egress.Effect, error) { return effect, nil }})
					ctx := t.Context()
					if row.ctx != 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, row.ctx)
						defer cancel()
					}
					body := row.body
					if body != nil {
						body = never()
					}
					req, err := http.NewRequestWithContext(ctx, "POST", p.BaseURL+"/", body)
					require.NoError(t, err)
					start := time.Now()
					_, err = s.RoundTrip(req)
					e := failed(t, err)
					require.Equal(t, egress.ReasonTimeout, e.Reason, "%v", e.Cause())
					require.Equal(t, row.phase, e.Phase)
					require.Equal(t, row.after, time.Since(start))
					_, _, x := l.only(t)
					require.Equal(t, row.status, x.Status)
					require.Equal(t, row.after, x.Duration)
				})
			})
		}
	}
}

// never is a body that comes only to an end when it is closed.
func never() io.Reader { r, _ := io.Pipe(); return r }

// A commit that takes too long leaves the request here, and a request whose
// time is up is not committed.
func TestDeadlineAroundCommit_W2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served, commits := 0, 0
		p, opts := egresstest.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
		s := session(t, p, opts, &egress.Hooks{Commit: func(ctx context.Context, _ *egress.Request) error {
			commits++
			<-ctx.Done()
			return nil // recorded all the same
		}})
		_, err := s.RoundTrip(request(t, "POST", p.BaseURL+"/", ""))
		e := failed(t, err)
		require.Equal(t, egress.PhaseNotSent, e.Phase)
		require.Equal(t, egress.ReasonTimeout, e.Reason)
		require.Equal(t, 1, commits)

		late := session(t, p, opts, &egress.Hooks{
			Authorize: func(ctx context.Context, _ string, _ *http.Request) error { <-ctx.Done(); return nil },
			Commit:    func(context.Context, *egress.Request) error { commits++; return nil },
		})
		_, err = late.RoundTrip(request(t, "POST", p.BaseURL+"/", ""))
		require.Equal(t, egress.ReasonTimeout, failed(t, err).Reason)
		require.Equal(t, 1, commits)
		require.Zero(t, served)
	})
}
