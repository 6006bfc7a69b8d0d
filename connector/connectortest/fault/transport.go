package fault

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Errors of a [Transport], as net/http has them for the same events.
var (
	ErrRefused = errors.New("fault: connection refused")
	ErrLost    = io.ErrUnexpectedEOF
)

// Transport calls the provider in the goroutine of the request: no server, no
// connection, faults exact to the byte. What net/http does on its own, such as
// sending a request again, does not happen here; use [Handler] behind a server
// for that.
func Transport(h http.Handler, plan Plan) http.RoundTripper {
	return &transport{h: h, c: counter{plan: plan}}
}

type transport struct {
	h http.Handler
	c counter
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		b, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		body = b
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	f := t.c.next(r)
	a := exchange(r, body, t.h, f)
	switch {
	case a == nil && r.Context().Err() != nil:
		return nil, r.Context().Err()
	case a == nil && f.DropBefore:
		return nil, ErrRefused
	case a == nil:
		return nil, ErrLost
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: &pacedBody{r: a.body, a: a, req: r}, ContentLength: a.length, Request: r,
	}, nil
}

// pacedBody is the body of an answer: paced, cut, and ended by the request's context.
type pacedBody struct {
	r   io.Reader
	a   *answer
	req *http.Request
}

// Read implements [io.Reader].
func (b *pacedBody) Read(p []byte) (int, error) {
	if err := b.req.Context().Err(); err != nil {
		return 0, err
	}
	if b.a.pace > 0 && len(p) > 0 {
		t := time.NewTimer(b.a.pace)
		defer t.Stop()
		select {
		case <-t.C:
		case <-b.req.Context().Done():
			return 0, b.req.Context().Err()
		}
		p = p[:1]
	}
	n, err := b.r.Read(p)
	if err == io.EOF && b.a.cut {
		err = ErrLost
	}
	return n, err
}

// Close implements [io.Closer].
func (b *pacedBody) Close() error { return nil }
