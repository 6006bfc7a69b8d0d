package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/proxy"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// world is a proxy on loopback whose names all lead to one server there, and a
// record of what was resolved, dialled and denied.
type world struct {
	t     testing.TB
	addr  string
	port  uint16 // of the server
	names map[string][]netip.Addr

	mu       sync.Mutex
	resolved []string
	dialled  []string
	denials  []sandbox.Denial
}

type setup struct {
	server *httptest.Server
	rules  func(*sandbox.Policy)
	opts   proxy.Options
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{t: t, names: map[string][]netip.Addr{}}
	if s.server != nil {
		t.Cleanup(s.server.Close)
		w.port = netip.MustParseAddrPort(s.server.Listener.Addr().String()).Port()
		s.opts.Ports = append(s.opts.Ports, w.port)
	}
	s.opts.Egress = &egress.Options{Resolve: w.resolve, Dial: w.dial}
	if s.opts.Idle == 0 {
		s.opts.Idle = 300 * time.Millisecond
	}
	p, err := proxy.New(&s.opts)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.addr = l.Addr().String()
	policy := &sandbox.Policy{Network: sandbox.Network{
		AllowDomains: []string{"allowed.test", "*.wild.test"}, AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}
	if s.rules != nil {
		s.rules(policy)
	}
	r, err := policy.Resolve(sandbox.Base{Workspace: t.TempDir()})
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- p.Serve(context.Background(), l, r, w.denied) }()
	t.Cleanup(func() {
		l.Close()
		require.NoError(t, <-ended)
	})
	return w
}

func (w *world) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolved = append(w.resolved, host)
	if a, ok := w.names[host]; ok {
		return a, nil
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func (w *world) dial(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, a.String())
	w.mu.Unlock()
	var d net.Dialer
	return d.DialContext(ctx, "tcp", a.String())
}

func (w *world) denied(d sandbox.Denial) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denials = append(w.denials, d)
}

// reset forgets what was seen.
func (w *world) seen() (resolved, dialled []string, denials []sandbox.Denial) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resolved, dialled, denials = w.resolved, w.dialled, w.denials
	w.resolved, w.dialled, w.denials = nil, nil, nil
	return resolved, dialled, denials
}

// say sends raw bytes, completed to a request that a server reads, and returns the whole answer, or what came before the
// connection broke.
func (w *world) say(raw string) string {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	require.NoError(w.t, err)
	defer c.Close()
	if line, rest, ok := strings.Cut(raw, " HTTP/1.1\r\n"); ok {
		if !strings.Contains(rest, "Host:") {
			rest = "Host: other.test\r\n" + rest
		}
		if !strings.HasPrefix(raw, "CONNECT") && !strings.Contains(rest, "Connection:") {
			rest = "Connection: close\r\n" + rest
		}
		raw = line + " HTTP/1.1\r\n" + rest
	}
	_, err = io.WriteString(c, raw)
	require.NoError(w.t, err)
	out, _ := io.ReadAll(c)
	return string(out)
}

func (w *world) client(roots *x509.CertPool, user *url.Userinfo) *http.Client {
	at := &url.URL{Scheme: "http", Host: w.addr, User: user}
	tr := &http.Transport{Proxy: http.ProxyURL(at), TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: ""}}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello %s %s %v", r.Host, r.URL.Path, r.Header)
}

// S3: what the rules permit works: plain, in a tunnel, and with a redirect.
func TestPermitted_S3(t *testing.T) {
	w := newWorld(t, setup{server: httptest.NewServer(http.HandlerFunc(hello))})
	for _, host := range []string{"allowed.test", "a.wild.test", "a.b.wild.test", "ALLOWED.test", "allowed.test."} {
		out := w.say(fmt.Sprintf("GET http://%s:%d/x HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: Basic c2VjcmV0\r\nConnection: X-Gone, close\r\nX-Gone: 1\r\nX-Kept: 1\r\n\r\n", host, w.port))
		require.Contains(t, out, "200 OK", host)
		require.Contains(t, out, fmt.Sprintf("hello %s:%d /x", strings.TrimSuffix(strings.ToLower(host), "."), w.port), "the host that was judged, whatever the Host header said")
		require.NotContains(t, out, "X-Gone")
		require.NotContains(t, out, "c2VjcmV0")
		require.Contains(t, out, "X-Kept")
	}
	_, _, denials := w.seen()
	require.Empty(t, denials)

	s := httptest.NewTLSServer(http.HandlerFunc(hello))
	w = newWorld(t, setup{server: s, rules: func(p *sandbox.Policy) { p.Network.AllowDomains = []string{"example.com"} }})
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	resp, err := w.client(roots, nil).Get(fmt.Sprintf("https://example.com:%d/y", w.port))
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(text), "hello example.com")
	_, _, denials = w.seen()
	require.Empty(t, denials)

	// A program that says it is done, and then listens, gets its answer.
	c, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "CONNECT example.com:%d HTTP/1.1\r\nHost: example.com\r\n\r\n", w.port)
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n")))
	require.NoError(t, err)
	secure := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "example.com"})
	_, err = io.WriteString(secure, "GET /z HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, secure.CloseWrite())
	text, err = io.ReadAll(secure)
	require.NoError(t, err)
	require.Contains(t, string(text), "/z")
}

// S3, cases 53, 67, 98, 100, 101: what is not permitted is not resolved, not
// dialled, and reported.
func TestRefused_S3(t *testing.T) {
	w := newWorld(t, setup{server: httptest.NewServer(http.HandlerFunc(hello))})
	port := fmt.Sprint(w.port)
	for _, row := range []struct{ says, raw string }{
		{"case 98: plain HTTP to another host", "GET http://evil.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 98: with an allowed Host header", "GET http://evil.test:" + port + "/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"},
		{"case 98: the form of an origin server", "GET / HTTP/1.1\r\nHost: allowed.test:" + port + "\r\n\r\n"},
		{"case 99: CONNECT to another host", "CONNECT evil.test:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 99: CONNECT with an allowed Host header", "CONNECT evil.test:" + port + " HTTP/1.1\r\nHost: allowed.test:" + port + "\r\n\r\n"},
		{"case 100: data in a name that is not permitted", "GET http://c2VjcmV0.evil.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 52: a suffix", "GET http://allowed.test.evil.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 52: a prefix", "GET http://evilallowed.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 52: the parent of a wildcard", "GET http://wild.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 52: a twin of a wildcard", "GET http://xwild.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 53: NUL", "CONNECT evil.test\x00.wild.test:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 53: NUL, escaped", "GET http://evil.test%00.wild.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 53: a space", "CONNECT evil.test .wild.test:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 53: a percent sign", "CONNECT evil.test%2e.wild.test:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 53: a carriage return", "CONNECT evil.test\r.wild.test:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 53: a line end", "CONNECT evil.test\n.wild.test:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 53: a slash", "CONNECT evil.test/.wild.test:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 53: an at sign", "CONNECT x@evil.test:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 43: a user before the host", "GET http://allowed.test@evil.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 43: a user with the allowed host", "GET http://x@allowed.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 1: an address in another spelling", "GET http://127.1:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 13: no address", "GET http://0.0.0.0:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 15: an address is no name", "GET http://127.0.0.1:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 28: a zone", "CONNECT [::1%25.wild.test]:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 29: a zone, raw", "CONNECT [::ffff:127.0.0.1%.wild.test]:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 30: wide digits", "CONNECT １２７.０.０.１:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 34: circled letters", "GET http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 50: brackets around a name", "CONNECT [allowed.test]:" + port + " HTTP/1.1\r\n\r\n"},
		{"case 55: metadata", "GET http://169.254.169.254/latest/ HTTP/1.1\r\n\r\n"},
		{"case 57: metadata by name", "GET http://metadata.google.internal/ HTTP/1.1\r\n\r\n"},
		{"case 67: another port", "GET http://allowed.test:22/ HTTP/1.1\r\n\r\n"},
		{"case 67: another port in a tunnel", "CONNECT allowed.test:22 HTTP/1.1\r\n\r\n"},
		{"case 67: port 0", "CONNECT allowed.test:0 HTTP/1.1\r\n\r\n"},
		{"case 67: a port with zeros", "CONNECT allowed.test:0" + port + " HTTP/1.1\r\n\r\n"},
		{"case 67: no port", "CONNECT allowed.test HTTP/1.1\r\n\r\n"},
		{"case 70: another scheme", "GET ftp://allowed.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 70: https in absolute form", "GET https://allowed.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"case 82: an upgrade", "GET http://allowed.test:" + port + "/ HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"},
		{"case 86: TRACE", "TRACE http://allowed.test:" + port + "/ HTTP/1.1\r\n\r\n"},
		{"no HTTP", "\x16\x03\x01\x00\x05hello"},
		{"SOCKS", "\x05\x01\x00"},
	} {
		out := w.say(row.raw)
		require.NotContains(t, out, "hello", row.says)
		require.NotContains(t, out, "HTTP/1.1 200", row.says)
		resolved, dialled, denials := w.seen()
		require.Empty(t, resolved, row.says)
		require.Empty(t, dialled, row.says)
		if strings.Contains(out, " 403 ") {
			require.Len(t, denials, 1, row.says)
			require.True(t, denials[0].Exact)
			require.Equal(t, sandbox.NetEgress, denials[0].Claim)
			require.NotEmpty(t, denials[0].Rule)
		}
	}

	// Case 101: no list is no host.
	w = newWorld(t, setup{server: httptest.NewServer(http.HandlerFunc(hello)), rules: func(p *sandbox.Policy) { p.Network.AllowDomains = nil }})
	require.Contains(t, w.say(fmt.Sprintf("GET http://allowed.test:%d/ HTTP/1.1\r\n\r\n", w.port)), "403")
	_, _, denials := w.seen()
	require.Len(t, denials, 1)
}

// S3, cases 55-66: a permitted name that leads where nobody may go.
func TestAddresses_S3(t *testing.T) {
	w := newWorld(t, setup{server: httptest.NewServer(http.HandlerFunc(hello)), rules: func(p *sandbox.Policy) {
		p.Network.AllowPrivate = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
	}})
	for says, addrs := range map[string][]string{
		"case 62: loopback":           {"127.0.0.1"},
		"case 63: one of two denied":  {"8.8.8.8", "127.0.0.1"},
		"case 63: the other order":    {"169.254.169.254", "8.8.8.8"},
		"case 66: AAAA private":       {"fd00::1", "8.8.8.8"},
		"case 55: metadata":           {"169.254.169.254"},
		"case 58: CGNAT":              {"100.64.0.1"},
		"case 16: mapped":             {"::ffff:127.0.0.1"},
		"case 21: NAT64 of metadata":  {"64:ff9b::a9fe:a9fe"},
		"case 68: no address":         {},
		"case 23: 6to4":               {"2002:7f00:1::"},
		"case 61: an interface of us": {firstInterface(t)},
	} {
		w.names["allowed.test"] = nil
		for _, a := range addrs {
			w.names["allowed.test"] = append(w.names["allowed.test"], netip.MustParseAddr(a))
		}
		for _, raw := range []string{"GET http://allowed.test:%d/ HTTP/1.1\r\n\r\n", "CONNECT allowed.test:%d HTTP/1.1\r\n\r\n"} {
			out := w.say(fmt.Sprintf(raw, w.port))
			require.NotContains(t, out, "200", says)
			for _, a := range addrs {
				require.NotContains(t, out, a, "%s: a refusal names the class", says)
			}
			resolved, dialled, denials := w.seen()
			require.Len(t, resolved, 1, "%s: one look-up", says)
			require.Empty(t, dialled, says)
			if len(addrs) > 0 {
				require.Len(t, denials, 1, says)
				require.Equal(t, sandbox.NetPrivate, denials[0].Claim, says)
			}
		}
	}
}

func firstInterface(t *testing.T) string {
	list, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range list {
		if n := a.(*net.IPNet); !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// S3, case 61: the proxy is no way to the proxy.
func TestNotItself_S3(t *testing.T) {
	w := newWorld(t, setup{})
	own := netip.MustParseAddrPort(w.addr)
	p, err := proxy.New(&proxy.Options{Ports: []uint16{own.Port()}, Egress: &egress.Options{Resolve: w.resolve, Dial: w.dial}})
	require.NoError(t, err)
	_ = p // the first proxy does not permit the port; a second on the same port of all interfaces does
	l, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	p, err = proxy.New(&proxy.Options{Ports: []uint16{port}, Egress: &egress.Options{Resolve: w.resolve, Dial: w.dial}})
	require.NoError(t, err)
	policy := &sandbox.Policy{Network: sandbox.Network{AllowDomains: []string{"allowed.test"}, AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	r, err := policy.Resolve(sandbox.Base{Workspace: t.TempDir()})
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- p.Serve(t.Context(), l, r, w.denied) }()
	w.addr = fmt.Sprintf("127.0.0.1:%d", port)
	require.Contains(t, w.say(fmt.Sprintf("GET http://allowed.test:%d/ HTTP/1.1\r\n\r\n", port)), "the proxy itself")
	l.Close()
	require.NoError(t, <-ended)
}

// S3, case 87, 99: what follows CONNECT is TLS for the host that it named, or
// nothing.
func TestTunnelIsForItsHost_S3(t *testing.T) {
	var got sync.Map
	far, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := far.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				b, _ := io.ReadAll(c)
				got.Store(len(b) > 0, true)
			})
		}
	})
	t.Cleanup(func() { far.Close(); all.Wait() })
	port := netip.MustParseAddrPort(far.Addr().String()).Port()
	w := newWorld(t, setup{opts: proxy.Options{Ports: []uint16{port}}})
	connect := fmt.Sprintf("CONNECT allowed.test:%d HTTP/1.1\r\n\r\n", port)
	for says, payload := range map[string]string{
		"plain HTTP": "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "SSH": "SSH-2.0-x\r\n", "noise": "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1000),
		"case 99: another proxy's CONNECT": "CONNECT evil.test:443 HTTP/1.1\r\n\r\n", "nothing": "",
		"case 87: TLS for another host": handshake(t, "evil.test"), "TLS for nobody": handshake(t, ""), "TLS for a parent": handshake(t, "test"),
	} {
		out := w.say(connect + payload)
		_, _, denials := w.seen()
		require.Len(t, denials, 1, "%s: %s", says, out)
	}
	_, ok := got.Load(true)
	require.False(t, ok, "no byte of it arrived")
	w.say(connect + handshake(t, "allowed.test"))
	w.say(connect + handshake(t, "Allowed.Test"))
	_, _, denials := w.seen()
	require.Empty(t, denials)
}

// handshake is the first message of a TLS client for a host.
func handshake(t *testing.T, host string) string {
	t.Helper()
	here, there := net.Pipe()
	var all sync.WaitGroup
	all.Go(func() {
		_ = tls.Client(here, &tls.Config{ServerName: host, InsecureSkipVerify: true}).Handshake()
	})
	buffer := make([]byte, 64<<10)
	n, err := there.Read(buffer)
	require.NoError(t, err)
	there.Close()
	all.Wait()
	here.Close()
	return string(buffer[:n])
}

// S3, case 102: who may use the proxy.
func TestToken_S3(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	w := newWorld(t, setup{server: httptest.NewServer(http.HandlerFunc(hello)), opts: proxy.Options{Token: token}})
	get := fmt.Sprintf("GET http://allowed.test:%d/ HTTP/1.1\r\n", w.port)
	basic := func(s string) string {
		return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(s)) + "\r\n\r\n"
	}
	for says, tail := range map[string]string{
		"none": "\r\n", "wrong": basic("x:" + token[1:]), "empty": basic("x:"), "no user": basic(token), "not basic": "Proxy-Authorization: Bearer " + token + "\r\n\r\n",
		"not base64": "Proxy-Authorization: Basic !!\r\n\r\n", "in Authorization": strings.Replace(basic("x:"+token), "Proxy-", "", 1),
	} {
		require.Contains(t, w.say(get+tail), " 407 ", says)
		_, dialled, denials := w.seen()
		require.Empty(t, dialled, says)
		require.Len(t, denials, 1, says)
	}
	out := w.say(get + basic("x:"+token))
	require.Contains(t, out, "hello")
	require.NotContains(t, out, base64.StdEncoding.EncodeToString([]byte(token)), "it goes no further")
	resp, err := w.client(nil, url.UserPassword("any", token)).Get(fmt.Sprintf("http://allowed.test:%d/", w.port))
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	resp.Body.Close()
	_, err = proxy.New(&proxy.Options{Token: "short"})
	require.ErrorIs(t, err, toolresult.InvalidInput)
	_, err = proxy.New(&proxy.Options{Ports: []uint16{0}})
	require.ErrorIs(t, err, toolresult.InvalidInput)
}

// S3, case 70, 82, 84, 85: what a permitted host may do to the program's host.
func TestHostileHost_S3(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	mux := http.NewServeMux()
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Large", strings.Repeat("x", 200<<10)) })
	mux.HandleFunc("/half", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/protocol", func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := w.(http.Hijacker).Hijack()
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nraw")
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	w := newWorld(t, setup{server: httptest.NewServer(mux), opts: proxy.Options{Idle: 300 * time.Millisecond}})
	get := func(path string) string {
		return w.say(fmt.Sprintf("GET http://allowed.test:%d%s HTTP/1.1\r\nConnection: close\r\n\r\n", w.port, path))
	}
	require.Contains(t, get("/redirect"), "Location: http://169.254.169.254/", "it is the program's to follow")
	_, dialled, _ := w.seen()
	require.Len(t, dialled, 1)
	require.Contains(t, get("/large"), " 502 ")
	require.NotContains(t, get("/protocol"), "raw")
	_, err := http.ReadResponse(bufio.NewReader(strings.NewReader(get("/half"))), nil)
	require.NoError(t, err)
	slow := get("/slow")
	require.Contains(t, slow, "200")
	require.False(t, strings.HasSuffix(slow, "0\r\n\r\n"), "half an answer does not look whole")
}

// S3: the end of the listener ends everything, also what stands open; and the
// rules must be whole.
func TestEnd_S3(t *testing.T) {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer far.Close()
	port := netip.MustParseAddrPort(far.Addr().String()).Port()
	w := newWorld(t, setup{opts: proxy.Options{Ports: []uint16{port}, Connections: 1}})
	c, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "CONNECT allowed.test:%d HTTP/1.1\r\n\r\n", port)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Contains(t, w.say(fmt.Sprintf("CONNECT allowed.test:%d HTTP/1.1\r\n\r\n", port)), " 503 ", "one at a time")

	p, err := proxy.New(nil)
	require.NoError(t, err)
	require.ErrorIs(t, p.Serve(t.Context(), far, &sandbox.Rules{}, nil), toolresult.InvalidInput)
}

// FuzzRequest_S3: whatever a program sends, nothing is resolved or dialled but
// what the rules permit.
func FuzzRequest_S3(f *testing.F) {
	for _, s := range []string{"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n", "GET http://allowed.test/ HTTP/1.1\r\n\r\n", "GET http://evil.test/ HTTP/1.1\r\n\r\n",
		"CONNECT [::1]:443 HTTP/1.1\r\n\r\n", "GET http://a.wild.test:80/ HTTP/1.0\r\n\r\n", "POST http://allowed.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		near, far := net.Pipe()
		var mu sync.Mutex
		var asked []string
		p, err := proxy.New(&proxy.Options{Idle: time.Second, Egress: &egress.Options{
			Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, host)
				return nil, nil
			},
		}})
		require.NoError(t, err)
		policy := &sandbox.Policy{Network: sandbox.Network{AllowDomains: []string{"allowed.test", "*.wild.test"}}}
		r, err := policy.Resolve(sandbox.Base{Workspace: t.TempDir()})
		require.NoError(t, err)
		l := &one{conn: far, done: make(chan struct{})}
		ended := make(chan error)
		go func() { ended <- p.Serve(t.Context(), l, r, nil) }()
		go func() {
			_, _ = near.Write(raw)
			_ = near.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, _ = io.Copy(io.Discard, near)
			near.Close()
			l.Close()
		}()
		require.NoError(t, <-ended)
		for _, host := range asked {
			require.True(t, host == "allowed.test" || strings.HasSuffix(host, ".wild.test"), "%q", host)
		}
	})
}

// one is a listener with one connection.
type one struct {
	conn net.Conn
	once sync.Once
	done chan struct{}
	used bool
}

func (l *one) Accept() (net.Conn, error) {
	if !l.used {
		l.used = true
		return l.conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

func (l *one) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *one) Addr() net.Addr { return l.conn.LocalAddr() }

// C2: the token is in nothing that is printed.
func TestTokenIsNotPrinted_C2(t *testing.T) {
	opts := proxy.Options{Token: "CANARY-token-0123456789"}
	p, err := proxy.New(&opts)
	require.NoError(t, err)
	for _, v := range []any{opts, &opts, p, []any{p, opts}, struct{ in *proxy.Proxy }{p}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			require.NotContains(t, fmt.Sprintf(verb, v), "CANARY")
		}
		text, _ := json.Marshal(v)
		require.NotContains(t, string(text), "CANARY")
	}
}
