// Package proxy lets a confined program out to the hosts of its sandbox rules,
// and to nothing else.
//
// It is the sandbox.Proxy of an executor: the program's network holds nothing
// but a listener, and this package answers there.
//
//	p, err := proxy.New(nil)
//	executor, err := process.New(&process.Options{Self: self, Proxy: p})
//
// # What it lets through
//
// Plain HTTP in absolute form to port 80, and CONNECT to port 443 whose first
// bytes are a TLS handshake for the very host that CONNECT named. The host is
// brought into its one spelling before anything is decided; then the rules are
// asked, then the name is resolved, once, then every address is judged, and then
// one of those is connected to. A name that the rules do not permit is not
// resolved, so that no data leave in questions to name servers. Redirects are
// the program's to follow, and are judged like any request.
//
// Everything that is refused is reported as a Denial, exactly.
//
// # What this package does not do
//
// It does not look into TLS: paths, methods and bodies to a permitted host are
// the program's own, and a host that serves others behind one name (domain
// fronting by the Host header inside, or an encrypted hello) can be used to
// reach those. A rule like "*.example.com" lets data out to whoever answers for
// names below example.com. It puts on no credential. It does not cache, and it
// never asks the environment for another proxy.
package proxy

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Options of a Proxy. Nil is the zero Options.
type Options struct {
	// Token must be the password of each request's Proxy-Authorization (Basic,
	// any user). Set it for a listener that others on this machine reach: with
	// 32 random characters. Empty: the listener belongs to the program alone,
	// as that of an executor does. At least 16 characters.
	Token string

	// Ports are permitted besides 80 for plain HTTP and 443 for CONNECT, for
	// both.
	Ports []uint16

	// Connections is how many the program may have open at a time. 0: 64.
	Connections int

	// Connect bounds name resolution and connection together. 0: 5 s.
	Connect time.Duration

	// Idle ends a connection over which nothing has gone for so long. 0: one
	// minute.
	Idle time.Duration

	// Egress replaces name resolution and connection. Nil: the system's.
	Egress *egress.Options
}

// Proxy implements sandbox.Proxy. It is safe for concurrent use. The zero Proxy
// is that of zero Options.
type Proxy struct {
	opts  Options       // without the token
	token func() string // a function, so that nothing prints it; nil: there is none
}

// New checks the options, which may be nil.
func New(opts *Options) (*Proxy, error) {
	p := &Proxy{}
	if opts != nil {
		p.opts = *opts
		p.opts.Ports = slices.Clone(opts.Ports)
	}
	switch {
	case p.opts.Token != "" && len(p.opts.Token) < 16:
		return nil, toolresult.NewError(toolresult.InvalidInput, "a token of a proxy must have at least 16 characters")
	case slices.Contains(p.opts.Ports, 0):
		return nil, toolresult.NewError(toolresult.InvalidInput, "port 0 is no port")
	case p.opts.Connections < 0 || p.opts.Connect < 0 || p.opts.Idle < 0:
		return nil, toolresult.NewError(toolresult.InvalidInput, "a limit of a proxy is negative")
	}
	if token := p.opts.Token; token != "" {
		p.opts.Token, p.token = "", func() string { return token }
	}
	return p, nil
}

// Serve implements sandbox.Proxy. The error says why it could not serve; it is
// nil when l was closed or ctx ended.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, r *sandbox.Rules, denied func(sandbox.Denial)) error {
	if err := r.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &handler{
		ctx: ctx, opts: p.opts, token: p.token, rules: r, denied: denied, own: l.Addr(), slots: make(chan struct{}, cmp.Or(p.opts.Connections, 64)),
	}
	h.opts.Connect, h.opts.Idle = cmp.Or(h.opts.Connect, 5*time.Second), cmp.Or(h.opts.Idle, time.Minute)
	h.transport = &http.Transport{
		Proxy: nil, DialContext: h.dialAddr, DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: 64 << 10, ResponseHeaderTimeout: h.opts.Idle,
	}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: h.opts.Idle, IdleTimeout: h.opts.Idle, MaxHeaderBytes: 64 << 10,
		ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: h.count,
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	err := srv.Serve(l)
	cancel()
	srv.Close()
	h.open.Wait()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// A handler serves one listener.
type handler struct {
	ctx       context.Context // of Serve
	opts      Options
	token     func() string
	rules     *sandbox.Rules
	denied    func(sandbox.Denial)
	own       net.Addr
	transport *http.Transport
	slots     chan struct{}
	open      sync.WaitGroup // connections, also those that were taken over
}

func (h *handler) count(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		h.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		h.open.Done()
	}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		h.refuse(w, http.StatusServiceUnavailable, sandbox.NetEgress, req.Host, "more connections than the proxy serves at a time")
		return
	}
	if !h.knows(req) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="sandbox"`)
		h.refuse(w, http.StatusProxyAuthRequired, sandbox.NetEgress, req.Host, "the proxy's token is missing or wrong")
		return
	}
	t, problem := h.target(req)
	if problem != "" {
		h.refuse(w, t.status(), sandbox.NetEgress, req.Host, problem)
		return
	}
	if d := h.rules.Decide(sandbox.Op{Kind: sandbox.OpConnect, Target: t.host}); !d.Allowed {
		h.refuse(w, http.StatusForbidden, sandbox.NetEgress, t.host, d.Rule)
		return
	}
	if req.Method == http.MethodConnect {
		h.tunnel(w, req, t)
		return
	}
	h.forward(w, req, t)
}

// knows compares the token in constant time.
func (h *handler) knows(req *http.Request) bool {
	if h.token == nil {
		return true
	}
	text, ok := strings.CutPrefix(req.Header.Get("Proxy-Authorization"), "Basic ")
	raw, err := base64.StdEncoding.DecodeString(text)
	_, token, _ := strings.Cut(string(raw), ":")
	return ok && err == nil && subtle.ConstantTimeCompare([]byte(token), []byte(h.token())) == 1
}

// refuse answers with the rule, and never with an address.
func (h *handler) refuse(w http.ResponseWriter, status int, c sandbox.Claim, target, why string) {
	h.deny(c, target, why)
	w.Header().Set("Connection", "close")
	http.Error(w, "refused by the sandbox: "+why, status)
}

func (h *handler) deny(c sandbox.Claim, target, why string) {
	if h.denied != nil {
		h.denied(sandbox.Denial{Claim: c, Op: "connect", Target: target, Rule: why, Exact: true, First: time.Now()})
	}
}

// Format implements [fmt.Formatter], so that no verb prints the token.
func (o Options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "proxy.Options") }

// LogValue implements [slog.LogValuer].
func (o Options) LogValue() slog.Value { return slog.StringValue("proxy.Options") }

// MarshalText implements [encoding.TextMarshaler], for JSON too. It always
// fails; options can be decoded.
func (o Options) MarshalText() ([]byte, error) {
	return nil, errors.New("proxy: options hold a token and are not for encoding")
}
