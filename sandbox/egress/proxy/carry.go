package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// hop are the headers that concern one connection (RFC 9110, section 7.6.1).
var hop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// strip removes them, and what Connection names.
func strip(header http.Header) {
	for _, list := range slices.Clone(header["Connection"]) {
		for _, name := range strings.Split(list, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hop {
		header.Del(name)
	}
}

// forward carries one plain request and its answer.
func (h *handler) forward(w http.ResponseWriter, req *http.Request, t target) {
	out := req.Clone(req.Context())
	out.RequestURI, out.Close = "", false
	out.Host = t.authority("http")
	out.URL.Host = out.Host
	strip(out.Header)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header.Set("User-Agent", "") // net/http would add its own
	}
	resp, err := h.transport.RoundTrip(out)
	if err != nil {
		h.failed(w, t, err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		h.refuse(w, http.StatusBadGateway, sandbox.NetEgress, t.host, "the host changed the protocol unasked")
		return
	}
	strip(resp.Header)
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	h.copyBody(w, resp.Body)
}

// copyBody passes on what comes as it comes, and ends with the idle limit.
func (h *handler) copyBody(w http.ResponseWriter, body io.ReadCloser) {
	c := http.NewResponseController(w)
	idle := time.AfterFunc(h.opts.Idle, func() { body.Close() })
	defer idle.Stop()
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		idle.Reset(h.opts.Idle)
		if n > 0 {
			_ = c.SetWriteDeadline(time.Now().Add(h.opts.Idle))
			if _, werr := w.Write(buffer[:n]); werr != nil {
				return
			}
			_ = c.Flush()
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // so that the program does not take half for whole
		}
	}
}

// tunnel carries a TLS connection to the host that CONNECT named.
func (h *handler) tunnel(w http.ResponseWriter, req *http.Request, t target) {
	far, err := h.dial(req.Context(), t)
	if err != nil {
		h.failed(w, t, err)
		return
	}
	defer far.Close()
	h.open.Add(1)
	defer h.open.Done()
	near, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	// The request's own context ends with the first EOF, where half of the
	// conversation may still be to come.
	stop := context.AfterFunc(h.ctx, func() { near.Close(); far.Close() })
	defer stop()
	_ = near.SetDeadline(time.Now().Add(h.opts.Idle))
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	head, _ := early.Reader.Peek(early.Reader.Buffered())
	from := io.MultiReader(bytes.NewReader(head), near)
	hello, name, err := clientHello(from)
	switch {
	case err != nil:
		h.deny(sandbox.NetEgress, t.host, "what follows CONNECT is no TLS handshake")
	case name != t.host:
		h.deny(sandbox.NetEgress, name, "the TLS handshake is for another host than CONNECT named")
	default:
		_ = far.SetDeadline(time.Now().Add(h.opts.Idle))
		if _, err := far.Write(hello); err == nil {
			h.join(near, from, far)
		}
	}
}

// join copies both ways until both have ended or nothing has gone for too long.
func (h *handler) join(near net.Conn, from io.Reader, far net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { h.pump(far, from, near, far) })
	both.Go(func() { h.pump(near, far, near, far) })
	both.Wait()
}

func (h *handler) pump(to net.Conn, from io.Reader, a, b net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			deadline := time.Now().Add(h.opts.Idle)
			_ = a.SetDeadline(deadline)
			_ = b.SetDeadline(deadline)
			if _, werr := to.Write(buffer[:n]); werr != nil {
				err = werr
			}
		}
		if err == nil {
			continue
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok && err == io.EOF {
			_ = half.CloseWrite()
			return
		}
		a.Close()
		b.Close()
		return
	}
}

// clientHello reads the first message of a TLS client and returns its bytes and
// the host that it is for, in its one spelling: "" if it names none.
func clientHello(r io.Reader) (raw []byte, host string, err error) {
	seen := &bytes.Buffer{}
	read := errors.New("read")
	err = tls.Server(listening{io.TeeReader(io.LimitReader(r, maxHello), seen)}, &tls.Config{
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			if host, err = egress.Host(info.ServerName); err != nil {
				host = ""
			}
			return nil, read
		},
	}).Handshake()
	if !errors.Is(err, read) {
		return nil, "", errors.New("no TLS handshake")
	}
	return seen.Bytes(), host, nil
}

const maxHello = 64 << 10

// listening is a connection that says nothing.
type listening struct{ io.Reader }

func (l listening) Write(b []byte) (int, error)      { return len(b), nil }
func (listening) Close() error                       { return nil }
func (listening) LocalAddr() net.Addr                { return nil }
func (listening) RemoteAddr() net.Addr               { return nil }
func (listening) SetDeadline(time.Time) error        { return nil }
func (listening) SetReadDeadline(t time.Time) error  { return nil }
func (listening) SetWriteDeadline(t time.Time) error { return nil }
