package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
)

// mostBody bounds what is kept of a request or an answer.
const mostBody = 4 << 20

var errDown = errors.New("connectortest: connection refused")

type dialFunc = func(context.Context, netip.AddrPort) (net.Conn, error)

func (s *Session) dialer(next dialFunc) dialFunc {
	return func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		s.mu.Lock()
		down := s.down
		s.mu.Unlock()
		if down {
			s.run.count(&s.run.fired)
			return nil, errDown
		}
		return next(ctx, addr)
	}
}

// serve is the provider's side of the wire: it notes the exchange, and gives it
// its fault.
func (s *Session) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	x := &Exchange{Method: r.Method, URL: r.URL.RequestURI(), Host: r.Host, Header: r.Header.Clone(), Body: body, Credential: s.Broker.credential(r)}
	x.Changes = s.changes(r, body)
	r = r.WithContext(context.WithValue(r.Context(), changesKey{}, x.Changes))
	s.mu.Lock()
	x.At, x.N = time.Since(s.began), len(s.seen)+1
	s.planned++
	if s.plan != nil {
		x.Fault = s.plan(s.planned, r)
	}
	if !x.Fault.IsZero() {
		s.run.count(&s.run.fired)
	}
	s.seen = append(s.seen, x)
	s.run.count(&s.run.requests)
	s.mu.Unlock()
	fault.Serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.provider(x, w, r) }), x.Fault)
}

// provider asks the double. One that panics breaks the suite, not the connector.
func (s *Session) provider(x *Exchange, w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			s.run.breaks("the double panicked: ", p)
		}
	}()
	rec := &keeper{ResponseWriter: w, status: http.StatusOK}
	s.Double.ServeHTTP(rec, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	x.Reached, x.Status, x.Answer, x.AnswerHeader = true, rec.status, rec.body.Bytes(), w.Header().Clone()
}

// keeper keeps an answer beside writing it.
type keeper struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements [http.ResponseWriter].
func (k *keeper) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (k *keeper) Write(p []byte) (int, error) {
	if k.body.Len() < mostBody {
		k.body.Write(p)
	}
	return k.ResponseWriter.Write(p)
}

// Buffer is a log that many goroutines write to. The zero Buffer is ready.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns everything that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
