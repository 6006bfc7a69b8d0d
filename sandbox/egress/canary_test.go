package egress_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

const canary = `Cana/ry+"7f<3>=9€`

// everywhere prints all that a handler or an observer can lay hands on.
func everywhere(resp *http.Response, err error, l *log) string {
	var b strings.Builder
	if resp != nil {
		body, _ := io.ReadAll(resp.Body)
		fmt.Fprintf(&b, "%s\n%v\n%v\n%+v\n%#v\n%s\n", resp.Status, resp.Header, resp.Trailer, resp.Request.Header, resp.Request.URL, body)
	}
	if err != nil {
		fmt.Fprintf(&b, "%v %+v %#v %q\n", err, err, err, err)
		slog.New(slog.NewTextHandler(&b, nil)).Error("failed", "error", err)
		e := err.(*egress.Error)
		fmt.Fprintf(&b, "%+v %v\n", *e, e.Cause())
	}
	for i := range l.exchanges {
		fmt.Fprintf(&b, "%+v %s\n%+v\n", l.requests[i], l.requests[i].Body, l.exchanges[i])
		if a := l.responses[i]; a != nil {
			fmt.Fprintf(&b, "%+v %s\n", a, a.Body)
		}
	}
	return b.String()
}

// R10: wherever a provider echoes the credential, nobody gets it.
func TestCanary_R10(t *testing.T) {
	quoted, err := json.Marshal(canary)
	require.NoError(t, err)
	inJSON := string(quoted[1 : len(quoted)-1])
	basic := base64.StdEncoding.EncodeToString([]byte("bot:" + canary))
	forms := []string{
		canary, inJSON, url.QueryEscape(canary), url.PathEscape(canary), basic, hex.EncodeToString([]byte(canary)),
		base64.StdEncoding.EncodeToString([]byte(canary)), "Cana", "7f<3", "9€", base64.StdEncoding.EncodeToString([]byte(canary)[:6]), lower(url.QueryEscape(canary)),
	}
	leaks := func(shown string) bool {
		return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(shown, form) })
	}
	chunks := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\nX-T: %s\r\n\r\n",
			7, body[:7], len(body)-7, body[7:], body)
	}
	for _, row := range []struct {
		why, wire string
		dropped   bool // not even without a credential would it be shown
	}{
		{"in the body", answer("", "you sent "+canary+"!"), false},
		{"in the body, alone", answer("", canary), false},
		{"in two chunks and a trailer", chunks(canary), false},
		{"in gzip", answer("Content-Encoding: gzip\r\n", zipped(strings.Repeat("x", 40<<10)+canary)), false},
		{"in JSON", answer("", `{"key":"`+inJSON+`"}`), false},
		{"in JSON of another hand", answer("", `{"key":"`+strings.ReplaceAll(inJSON, "/", `\/`)+`"}`), false},
		{"in a link of the query", answer("", "https://x/?k="+url.QueryEscape(canary)), false},
		{"in a link of the query, lower case", answer("", "https://x/?k="+lower(url.QueryEscape(canary))), false},
		{"in a path", answer("", "https://x/"+url.PathEscape(canary)), false},
		{"in base64", answer("", base64.StdEncoding.EncodeToString([]byte(canary))), false},
		{"in Basic", answer("", basic), false},
		{"in base64 of more", answer("", base64.RawURLEncoding.EncodeToString([]byte("Authorization: "+canary+"\r\n"))), false},
		{"in hex", answer("", hex.EncodeToString([]byte(canary))), false},
		{"in a header", answer("X-Echo: "+canary+"\r\n", ""), false},
		{"in a list of headers", answer("X-Echo: a, "+canary+", b\r\nX-Echo: "+canary+"\r\n", ""), false},
		{"in a cookie", answer("Set-Cookie: k="+canary+"\r\n", ""), true},
		{"in a redirect", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /?k=" + url.QueryEscape(canary) + "\r\n\r\n", false},
		{"in a challenge", "HTTP/1.1 401 No\r\nContent-Length: 0\r\nWWW-Authenticate: Basic realm=\"" + canary + "\"\r\n\r\n", false},
		{"in the reason of a status", "HTTP/1.1 400 " + canary + "\r\nContent-Length: 0\r\n\r\n", true},
		{"in an answer that is no HTTP", canary + "\r\n\r\n", false},
		{"in a status that is none", "HTTP/1.1 " + canary + "\r\n\r\n", false},
		{"in a length", "HTTP/1.1 200 OK\r\nContent-Length: " + canary + "\r\n\r\n", false},
		{"in an encoding", answer("Content-Encoding: "+canary+"\r\n", "x"), false},
		{"in a body that breaks", "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + canary, true},
	} {
		for place, put := range map[string]func(*http.Request){
			"bearer": func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+canary) },
			"basic":  func(r *http.Request) { r.SetBasicAuth("bot", canary) },
			"header": func(r *http.Request) { r.Header.Set("X-Api-Key", canary) },
			"query":  func(r *http.Request) { r.URL.RawQuery = "key=" + url.QueryEscape(canary) },
		} {
			t.Run(row.why+"/"+place, func(t *testing.T) {
				srv := serve(t, func(_ int, c net.Conn, _ *http.Request) bool { return say(row.wire)(c) })
				p, l := srv.profile(), &log{}
				s := session(t, p, nil, &egress.Hooks{Observe: l.observe, Authorize: func(_ context.Context, _ string, r *http.Request) error {
					put(r)
					return nil
				}})
				resp, err := s.RoundTrip(request(t, "GET", p.BaseURL+"/users/current.json", ""))
				require.False(t, leaks(everywhere(resp, err, l)))

				// The control: to a session that knows no credential it is text.
				l = &log{}
				naive := session(t, p, nil, &egress.Hooks{Observe: l.observe})
				resp, err = naive.RoundTrip(request(t, "GET", p.BaseURL+"/users/current.json", ""))
				require.Equal(t, !row.dropped, leaks(everywhere(resp, err, l)))
			})
		}
	}
}

func lower(s string) string {
	for _, hex := range []string{"%2F", "%2B", "%22", "%3C", "%3E", "%3D", "%E2%82%AC"} {
		s = strings.ReplaceAll(s, hex, strings.ToLower(hex))
	}
	return s
}

// R10: an answer may hold the credential of an earlier or a concurrent request.
func TestCanaryOfAnotherRequest_R10(t *testing.T) {
	n := 0
	s := open(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "first-token second-token") },
		&egress.Hooks{Authorize: func(_ context.Context, _ string, r *http.Request) error {
			n++
			r.Header.Set("X-Key", []string{"first-token", "second-token"}[n-1])
			return nil
		}})
	for _, want := range []string{"[redacted] second-token", "[redacted] [redacted]"} {
		resp, err := s.RoundTrip(request(t, "GET", egresstest.Base+"/", ""))
		require.NoError(t, err)
		require.Equal(t, want, read(t, resp))
	}
}

// FuzzAnswer_S3: whatever a provider sends, the call ends, within its limits
// and without the credential.
func FuzzAnswer_S3(f *testing.F) {
	for _, s := range []string{
		answer("", "hello token-1234"), answer("Content-Encoding: gzip\r\n", zipped("token-1234")),
		"HTTP/1.1 103 Early\r\n\r\n" + answer("X-A: token-1234\r\n", ""), "HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nhello", "\x16\x03\x01",
		"HTTP/1.1 302 x\r\nLocation: http://evil.test\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		p := egresstest.Profile()
		p.Limits = egress.Limits{ResponseBytes: 64 << 10, HeaderBytes: 4 << 10, Ratio: 10}
		opts := &egress.Options{
			Resolve: func(context.Context, string) ([]netip.Addr, error) { return addrs("10.0.0.1"), nil },
			Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
				client, server := net.Pipe()
				go func() {
					defer server.Close()
					if _, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
						_, _ = server.Write(wire)
					}
				}()
				return client, nil
			},
		}
		l := &log{}
		s := session(t, p, opts, &egress.Hooks{Observe: l.observe, Authorize: func(_ context.Context, _ string, r *http.Request) error {
			r.Header.Set("X-Key", "token-1234")
			return nil
		}})
		resp, err := s.RoundTrip(request(t, "POST", p.BaseURL+"/", ""))
		_, _, x := l.only(t)
		require.Equal(t, x.Phase == egress.PhaseAnswered && x.Reason == "", err == nil)
		if err == nil {
			require.LessOrEqual(t, resp.ContentLength, int64(80<<10))
		} else {
			failed(t, err)
		}
		require.NotContains(t, everywhere(resp, err, l), "token-1234")
	})
}
