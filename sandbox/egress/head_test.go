package egress

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The head of a request is net/http's, byte for byte.
func FuzzHead_S3(f *testing.F) {
	f.Add("GET", "/issues.json", "status=open", "User-Agent", "me", "Accept", " text/html ", "", true)
	f.Add("POST", "/", "", "user-agent", "", "X-B", "2", "body", false)
	f.Add("PUT", "/a%20b/é", "a=b&c", "User-Agent", " ", "User-Agent", "x", "", false)
	f.Add("PATCH", "", "?", "Accept-Encoding", "identity", "accept-encoding", "br", "", true)
	f.Add("DELETE", "/x", "", "Content-Length", "7", "Trailer", "X", "b", false)
	f.Add("GET", "/", "", "X-A", "v\r\nX-C: 1", "X a", "v", "", false)
	f.Fuzz(func(t *testing.T, method, path, query, name, value, other, second, body string, last bool) {
		u := &url.URL{Scheme: "http", Host: "provider.test", Path: path, RawQuery: query}
		h := http.Header{}
		h[name] = append(h[name], value)
		h[other] = append(h[other], second)
		if checkMethod(method) != nil || checkPath(u.EscapedPath()) != nil || checkQuery(query) != nil {
			t.Skip("refused before")
		}
		line := &requestLine{method: method, path: u.EscapedPath(), query: query, host: u.Host, length: len(body), close: last}
		got, err := appendHead(nil, line, h, foreign)
		own, ownErr := ownHeaders(h)
		require.Equal(t, ownErr != nil, err != nil, "what the handler may not set is refused at both places")
		if err != nil {
			return
		}
		fromOwn, err := appendHead(nil, line, own, foreign)
		require.NoError(t, err)
		req := &http.Request{Method: method, URL: u, Host: u.Host, Header: own, Close: last, ContentLength: int64(len(body))}
		if body != "" {
			req.Body = readCloser{strings.NewReader(body)}
		}
		var want bytes.Buffer
		require.NoError(t, req.Write(&want))
		require.Equal(t, want.String(), string(fromOwn)+body)
		if !strings.EqualFold(name, other) {
			require.Equal(t, len(fromOwn), len(got), "whatever the spelling, in another order")
		}
	})
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
