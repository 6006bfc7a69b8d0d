package main

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// wire is the way to the ticket system. It passes everything on, until it is
// told to hold the answer to a change back: that is how a receipt gets lost.
type wire struct {
	next http.Handler
	out  *http.Transport // to a real system

	mu   sync.Mutex
	held chan struct{} // not nil: hold the next change's answer back and close this
}

// newWire leads to an embedded system or to a URL.
func newWire(embedded http.Handler, to string) (*wire, error) {
	if to == "" {
		return &wire{next: embedded}, nil
	}
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	w := &wire{out: &http.Transport{}}
	w.next = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, Transport: w.out}
	return w, nil
}

// Close ends its connections.
func (w *wire) Close() {
	if w.out != nil {
		w.out.CloseIdleConnections()
	}
}

// hold holds the answer to the next change back, for good. The channel is
// closed when the system has answered.
func (w *wire) hold() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = make(chan struct{})
	return w.held
}

// ServeHTTP implements [http.Handler].
func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	held := w.held
	if r.Method == http.MethodGet {
		held = nil
	}
	if held != nil {
		w.held = nil
	}
	w.mu.Unlock()
	if held == nil {
		w.next.ServeHTTP(rw, r)
		return
	}
	w.next.ServeHTTP(&nowhere{header: http.Header{}}, r)
	close(held)
	<-r.Context().Done() // until whoever waits for the answer is gone
}

// nowhere is where a lost answer goes.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}

// server is a handler on a port of the loopback interface.
type server struct {
	*http.Server
	url  string
	done chan struct{}
}

func serveLoopback(h http.Handler) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{&http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}, "http://" + l.Addr().String(), make(chan struct{})}
	go func() {
		defer close(s.done)
		_ = s.Serve(l) // until Close
	}()
	return s, nil
}

// Close ends it and waits.
func (s *server) Close() error {
	err := s.Server.Close()
	<-s.done
	return err
}

// lateHandler is a handler that is known only after its address is.
type lateHandler struct {
	mu   sync.Mutex
	next http.Handler
}

func (h *lateHandler) set(next http.Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = next
}

// ServeHTTP implements [http.Handler].
func (h *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	next := h.next
	h.mu.Unlock()
	if next == nil {
		http.Error(w, "not yet", http.StatusServiceUnavailable)
		return
	}
	next.ServeHTTP(w, r)
}
