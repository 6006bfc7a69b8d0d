package egress

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// S3, K4: one canonical spelling of where a provider is.
func TestParseBase_S3(t *testing.T) {
	for _, row := range []struct {
		url       string
		plaintext bool
		origin    string
		base      string
		wrong     string
	}{
		{url: "https://tickets.example.com", origin: "https://tickets.example.com:443", base: "https://tickets.example.com"},
		{url: "https://tickets.example.com/", origin: "https://tickets.example.com:443", base: "https://tickets.example.com"},
		{url: "https://tickets.example.com/api/v2/", origin: "https://tickets.example.com:443", base: "https://tickets.example.com/api/v2"},
		{url: "https://tickets.example.com:8443/api", origin: "https://tickets.example.com:8443", base: "https://tickets.example.com:8443/api"},
		{url: "https://xn--bcher-kva.example", origin: "https://xn--bcher-kva.example:443", base: "https://xn--bcher-kva.example"},
		{url: "http://provider", plaintext: true, origin: "http://provider:80", base: "http://provider"},
		{url: "https://8.8.8.8", origin: "https://8.8.8.8:443", base: "https://8.8.8.8"},
		{url: "https://[2606:4700::1111]:8443", origin: "https://[2606:4700::1111]:8443", base: "https://[2606:4700::1111]:8443"},
		{url: "", wrong: "scheme"},
		{url: "http://provider", wrong: "scheme"},
		{url: "ftp://provider", plaintext: true, wrong: "scheme"},
		{url: "https://", wrong: "no host"},
		{url: "https:provider", wrong: "no host"},
		{url: "https://user:hunter22@provider", wrong: "user"},
		{url: "https://user:hunter%zz@provider", wrong: "not a URL"},
		{url: "https://provider?key=v", wrong: "query"},
		{url: "https://provider?", wrong: "query"},
		{url: "https://provider#f", wrong: "fragment"},
		{url: "https://Provider", wrong: "lower case"},
		{url: "https://*.example.com", wrong: "wildcard"},
		{url: "https://provider.example.com.", wrong: "trailing dot"},
		{url: "https://a..b", wrong: "label"},
		{url: "https://-a.example", wrong: "label"},
		{url: "https://" + strings.Repeat("a", 64) + ".example", wrong: "label"},
		{url: "https://" + strings.Repeat("a.", 130) + "example", wrong: "not a host"},
		{url: "https://bücher.example", wrong: "xn--"},
		{url: "https://evil.test%00.example.com", wrong: "URL"},
		{url: "https://provider:443", wrong: "leave out the port"},
		{url: "https://provider:", wrong: "port is empty"},
		{url: "https://provider:0", wrong: "port"},
		{url: "https://provider:08443", wrong: "port"},
		{url: "https://provider:65536", wrong: "port"},
		{url: "https://127.1", wrong: "looks like an address"},
		{url: "https://2130706433", wrong: "looks like an address"},
		{url: "https://0x7f000001", wrong: "looks like an address"},
		{url: "https://0177.0.0.1", wrong: "looks like an address"},
		{url: "https://[example.com]", wrong: "base URL"},
		{url: "https://[::ffff:127.0.0.1]", wrong: "canonical"},
		{url: "https://[0:0::1]", wrong: "canonical"},
		{url: "https://[fe80::1%25eth0]", wrong: "canonical"},
		{url: "https://provider/a/../b", wrong: "dot segment"},
		{url: "https://provider/a//b", wrong: "empty segment"},
		{url: "https://provider/a%2fb", wrong: "slash"},
	} {
		t.Run(row.url, func(t *testing.T) {
			b, err := parseBase(row.url, row.plaintext)
			if row.wrong != "" {
				require.ErrorContains(t, err, row.wrong)
				require.NotContains(t, err.Error(), "hunter")
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.origin, b.origin())
			require.Equal(t, row.base, b.url())
		})
	}
}

// S3: what a request may look like.
func TestLocate_S3(t *testing.T) {
	b, err := parseBase("https://tickets.example.com/api", false)
	require.NoError(t, err)
	const base = "https://tickets.example.com/api"
	for _, row := range []struct {
		why, url    string
		path, query string
		wrong       string
	}{
		{why: "below the base", url: base + "/issues/1?x=%20&y=a;b", path: "/issues/1", query: "x=%20&y=a;b"},
		{why: "the base itself", url: base, path: ""},
		{why: "its directory", url: base + "/", path: "/"},
		{why: "the scheme's own port written out", url: "https://tickets.example.com:443/api/x", path: "/x"},
		{why: "an escaped space and a percent sign", url: base + "/a%20b/100%25", path: "/a%20b/100%25"},
		{why: "dots inside a name", url: base + "/issues/1.json/...x", path: "/issues/1.json/...x"},
		{why: "UTF-8", url: base + "/b%C3%BCcher", path: "/b%C3%BCcher"},
		{why: "another scheme", url: "http://tickets.example.com/api/x", wrong: "scheme"},
		{why: "no scheme", url: "//tickets.example.com/api/x", wrong: "scheme"},
		{why: "another host", url: "https://evil.test/api/x", wrong: "host"},
		{why: "a suffix", url: "https://tickets.example.com.evil.test/api/x", wrong: "host"},
		{why: "a trailing dot", url: "https://tickets.example.com./api/x", wrong: "host"},
		{why: "another case", url: "https://TICKETS.example.com/api/x", wrong: "host"},
		{why: "another port", url: "https://tickets.example.com:8443/api/x", wrong: "port"},
		{why: "an empty port", url: "https://tickets.example.com:/api/x", wrong: "port"},
		{why: "a user", url: "https://a:b@tickets.example.com/api/x", wrong: "user"},
		{why: "a host in the user's place", url: "https://tickets.example.com@evil.test/api/x", wrong: "host"},
		{why: "a fragment", url: base + "/x#y", wrong: "fragment"},
		{why: "beside the prefix", url: "https://tickets.example.com/apix", wrong: "outside"},
		{why: "above the prefix", url: "https://tickets.example.com/", wrong: "outside"},
		{why: "the prefix in another case", url: "https://tickets.example.com/API/x", wrong: "outside"},
		{why: "the prefix escaped", url: "https://tickets.example.com/%61pi/x", wrong: "outside"},
		{why: "up", url: base + "/../admin", wrong: "dot segment"},
		{why: "here", url: base + "/./x", wrong: "dot segment"},
		{why: "up at the end", url: base + "/x/..", wrong: "dot segment"},
		{why: "up, escaped", url: base + "/%2e%2E/admin", wrong: "dot segment"},
		{why: "up, half escaped", url: base + "/.%2e/admin", wrong: "dot segment"},
		{why: "up, escaped twice", url: base + "/%252e%252e/admin", wrong: "dot segment"},
		{why: "up, with a parameter", url: base + "/..;/admin", wrong: "dot segment"},
		{why: "a slash, escaped", url: base + "/a%2Fb", wrong: "slash"},
		{why: "a slash, escaped twice", url: base + "/a%252fb", wrong: "slash"},
		{why: "a slash, escaped thrice beside a bad escape", url: base + "/a%25252f%2525zz", wrong: "slash"},
		{why: "escaped too often", url: base + "/%2525252525", wrong: "many times"},
		{why: "a backslash", url: base + `/a\b`, wrong: "differ"},
		{why: "a backslash, escaped", url: base + "/a%5cb", wrong: "backslash"},
		{why: "an empty segment", url: base + "/a//b", wrong: "empty segment"},
		{why: "NUL", url: base + "/a%00b", wrong: "control"},
		{why: "a line end", url: base + "/a%0d%0aHost:%20evil", wrong: "control"},
		{why: "C1", url: base + "/a%C2%85b", wrong: "control"},
		{why: "an overlong slash", url: base + "/a%c0%afb", wrong: "UTF-8"},
		{why: "a space in the query", url: base + "/x?a b", wrong: "query"},
		{why: "another character in the query", url: base + "/x?a=\u00fc", wrong: "query"},
	} {
		t.Run(row.why, func(t *testing.T) {
			u, err := url.Parse(row.url)
			require.NoError(t, err)
			path, query, err := b.locate(&http.Request{URL: u})
			if row.wrong != "" {
				require.ErrorContains(t, err, row.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.path, path)
			require.Equal(t, row.query, query)
		})
	}
}

// S3: requests that no parser makes.
func TestLocateByHand_S3(t *testing.T) {
	b, err := parseBase("https://tickets.example.com", false)
	require.NoError(t, err)
	good := func() *http.Request {
		return &http.Request{URL: &url.URL{Scheme: "https", Host: "tickets.example.com", Path: "/x"}}
	}
	path, _, err := b.locate(good())
	require.NoError(t, err)
	require.Equal(t, "/x", path)
	for why, spoil := range map[string]func(*http.Request){
		"no URL":                    func(r *http.Request) { r.URL = nil },
		"opaque":                    func(r *http.Request) { r.URL.Opaque = "//evil.test/x" },
		"a Host header":             func(r *http.Request) { r.Host = "evil.test" },
		"a Host with a port":        func(r *http.Request) { r.Host = "tickets.example.com:443" },
		"a raw path that lies":      func(r *http.Request) { r.URL.RawPath = "/y" },
		"a raw fragment":            func(r *http.Request) { r.URL.RawFragment = "f" },
		"a relative path":           func(r *http.Request) { r.URL.Path = "x" },
		"a line end in the query":   func(r *http.Request) { r.URL.RawQuery = "a\r\nHost: evil" },
		"a fragment in the query":   func(r *http.Request) { r.URL.RawQuery = "a#b" },
		"a slash that is no slash":  func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a/b", "/a%2Fb" },
		"a backslash":               func(r *http.Request) { r.URL.Path = `/a\b` },
		"a host with a line end":    func(r *http.Request) { r.URL.Host = "tickets.example.com\r\n" },
		"a host with a NUL":         func(r *http.Request) { r.URL.Host = "evil.test\x00.tickets.example.com" },
		"a control character":       func(r *http.Request) { r.URL.Path = "/a\nb" },
		"an empty user":             func(r *http.Request) { r.URL.User = url.User("") },
		"dot segments in Path only": func(r *http.Request) { r.URL.Path = "/a/../b" },
	} {
		r := good()
		spoil(r)
		_, _, err := b.locate(r)
		require.Error(t, err, why)
	}
}

func TestCheckMethod_S3(t *testing.T) {
	for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "M-SEARCH"} {
		require.NoError(t, checkMethod(m))
	}
	for _, m := range []string{"", "CONNECT", "TRACE", "get", "GET ", "GET / HTTP/1.1\r\n", "-", "GÉT", strings.Repeat("A", 33)} {
		require.Error(t, checkMethod(m), m)
	}
}

// The handler's headers: what is not its own does not leave (S3, R10).
func TestOwnHeaders_S3(t *testing.T) {
	for _, name := range []string{
		"Authorization", "authorization", "Cookie", "Proxy-Authorization", "Proxy-Connection", "Host", "Connection",
		"Keep-Alive", "Upgrade", "HTTP2-Settings", "TE", "Trailer", "Transfer-Encoding", "transfer_encoding", "Expect",
		"Forwarded", "X-Forwarded-For", "X_Forwarded_Host", "X-HTTP-Method-Override", "X-Method-Override", "X-Original-URL",
	} {
		_, err := ownHeaders(http.Header{name: {"x"}})
		require.ErrorContains(t, err, "not the handler's", name)
	}
	for name, value := range map[string]string{
		"X Y": "v", "X\r\nY": "v", "": "v", "X-Ü": "v", "X-A": "a\r\nAuthorization: b", "X-B": "a\x00b", "X-C": "\x7f",
		"Accept-Encoding": "br",
	} {
		_, err := ownHeaders(http.Header{name: {value}})
		require.Error(t, err, name)
	}
	in := http.Header{"accept": {"a"}, "Accept": {"b"}, "If-Match": {`"1"`}, "Accept-Encoding": {"identity"}}
	own, err := ownHeaders(in)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b"}, own["Accept"])
	own["If-Match"][0] = "changed"
	require.Equal(t, `"1"`, in["If-Match"][0], "a copy")
}

// S3: whatever passes is on the origin, below the prefix, in one reading.
func FuzzLocate_S3(f *testing.F) {
	for _, s := range []string{
		"https://tickets.example.com/api/x", "https://tickets.example.com/api/..%2fx", "https://tickets.example.com/api/%252e%252e/x",
		"https://tickets.example.com\\@evil.test/api/x", "https://tickets.example.com:443/api/x?y#z", "https://a@tickets.example.com/api",
		"HTTPS://tickets.example.com/api/a;b/c", "https://tickets.example.com/api/%25252525",
	} {
		f.Add(s)
	}
	b, err := parseBase("https://tickets.example.com/api", false)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		path, query, err := b.locate(&http.Request{URL: u})
		if err != nil {
			return
		}
		require.Equal(t, "https", u.Scheme)
		require.Equal(t, "tickets.example.com", u.Hostname())
		require.Contains(t, []string{"", "443"}, u.Port())
		require.Nil(t, u.User)
		// The same by another way: what the strictest and the most lenient
		// server make of the path is below the prefix and equally deep.
		for range 4 {
			require.NotContains(t, path, `\`)
			require.NotContains(t, path, "/../")
			require.False(t, strings.HasSuffix(path, "/.."))
			require.False(t, strings.ContainsAny(path, "\r\n\x00"))
			depth := strings.Count(path, "/")
			path = unescape(path)
			require.Equal(t, depth, strings.Count(path, "/"))
		}
		back, err := url.Parse("https://tickets.example.com" + u.EscapedPath() + "?" + query)
		require.NoError(t, err)
		require.Equal(t, u.Path, back.Path)
	})
}

// S3: no BaseURL leads to another host than it shows.
func TestParseBaseShowsItsHost_S3(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := "https://" + rapid.StringMatching(`[a-zA-Z0-9.:@/\\\[\]%?#*_-]{1,24}`).Draw(t, "rest")
		b, err := parseBase(s, false)
		if err != nil {
			return
		}
		require.Equal(t, strings.TrimSuffix(s, "/"), b.url())
		require.NotContains(t, b.name, "@")
	})
}
