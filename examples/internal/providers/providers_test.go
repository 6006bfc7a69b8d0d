package providers

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A capture is an answer received from a real server.
type capture struct {
	status int
	header http.Header
	body   string
}

// captured reads testdata/server/name.hdr and .body.
func captured(t *testing.T, server, name string) capture {
	t.Helper()
	base := filepath.Join("testdata", server, name)
	head, err := os.ReadFile(base + ".hdr")
	require.NoError(t, err)
	body, err := os.ReadFile(base + ".body")
	require.NoError(t, err)
	head = bytes.Replace(head, []byte("HTTP/2 "), []byte("HTTP/2.0 "), 1)
	head = bytes.ReplaceAll(head, []byte("Transfer-Encoding: chunked\r\n"), nil)
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(body))), nil)
	require.NoError(t, err)
	return capture{resp.StatusCode, resp.Header, string(body)}
}

// ask sends one request to a handler and returns the whole answer.
func ask(t testing.TB, h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

// same holds an answer against a capture: status, body and the headers named.
func same(t testing.TB, want capture, got *httptest.ResponseRecorder, headers ...string) {
	t.Helper()
	require.Equal(t, want.status, got.Code, got.Body.String())
	require.Equal(t, want.body, got.Body.String())
	for _, name := range append(headers, "Content-Type") {
		require.Equal(t, want.header.Get(name), got.Header().Get(name), name)
	}
}

// form builds a path with a query from pairs.
func form(path string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return path + "?" + v.Encode()
}

// wire is what a client sees of an answer that came over a real connection.
func wire(t testing.TB, base, method, target, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req, err := http.NewRequest(method, base+target, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	rec := httptest.NewRecorder()
	rec.Code = resp.StatusCode
	for name, values := range resp.Header {
		rec.Header()[name] = values
	}
	_, err = io.Copy(rec.Body, resp.Body)
	require.NoError(t, err)
	return rec
}
