package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// A target is where a request goes, in its one spelling.
type target struct {
	host string
	port uint16
	bad  bool // the request is malformed, rather than forbidden
}

func (t target) status() int {
	if t.bad {
		return http.StatusBadRequest
	}
	return http.StatusForbidden
}

// target reads where a request goes, and refuses every form but the two of a
// proxy.
func (h *handler) target(req *http.Request) (target, string) {
	bad := target{bad: true}
	if req.Method == http.MethodConnect {
		t, problem := read(req.RequestURI, "")
		if problem == "" && t.port != 443 && !slices.Contains(h.opts.Ports, t.port) {
			return target{}, "CONNECT to this port is not permitted"
		}
		return t, problem
	}
	u := req.URL
	switch {
	case u.Scheme == "" || u.Host == "":
		return bad, "a proxy wants the whole address in the request line"
	case u.Scheme != "http":
		return target{}, "only http: in absolute form; CONNECT for the rest"
	case u.User != nil || u.Opaque != "" || u.Fragment != "":
		return bad, "the address holds a user, a fragment or no host"
	case req.Method == http.MethodTrace:
		return target{}, "the method TRACE"
	case req.Header.Get("Upgrade") != "":
		return target{}, "an upgrade"
	}
	t, problem := read(u.Host, "80")
	if problem == "" && t.port != 80 && !slices.Contains(h.opts.Ports, t.port) {
		return target{}, "plain HTTP to this port is not permitted"
	}
	return t, problem
}

func read(authority, port string) (target, string) {
	host := authority
	if name, p, err := net.SplitHostPort(authority); err == nil {
		host, port = name, p
	} else if a, ok := strings.CutPrefix(authority, "["); ok {
		host = strings.TrimSuffix(a, "]")
	}
	if strings.HasPrefix(authority, "[") != strings.Contains(host, ":") {
		return target{bad: true}, "not a host"
	}
	name, err := egress.Host(host)
	if err != nil {
		return target{bad: true}, err.Error()
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return target{bad: true}, "not a port"
	}
	return target{host: name, port: uint16(n)}, ""
}

func (t target) authority(scheme string) string {
	host := t.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if t.port == 80 && scheme == "http" {
		return host
	}
	return host + ":" + strconv.Itoa(int(t.port))
}

// dialAddr is for the transport, whose requests bear the target's spelling.
func (h *handler) dialAddr(ctx context.Context, _, addr string) (net.Conn, error) {
	t, problem := read(addr, "")
	if problem != "" {
		return nil, errors.New(problem)
	}
	return h.dial(ctx, t)
}

// dial connects to a judged address, and never to this proxy.
func (h *handler) dial(ctx context.Context, t target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opts.Connect)
	defer cancel()
	conn, err := egress.Dial(ctx, t.host, t.port, h.rules.Private, h.opts.Egress)
	if err != nil {
		return nil, err
	}
	if h.self(conn.RemoteAddr()) {
		conn.Close()
		return nil, errSelf
	}
	return conn, nil
}

var errSelf = errors.New("the proxy itself")

func (h *handler) self(a net.Addr) bool {
	remote, err1 := netip.ParseAddrPort(a.String())
	own, err2 := netip.ParseAddrPort(h.own.String())
	if err1 != nil || err2 != nil || remote.Port() != own.Port() {
		return false
	}
	return own.Addr().IsUnspecified() || own.Addr().Unmap() == remote.Addr().Unmap()
}

// failed answers a request whose connection did not come about. It names the
// class of an address and never the address, and nothing that a server said.
func (h *handler) failed(w http.ResponseWriter, t target, err error) {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	e, ok := errors.AsType[*egress.Error](err)
	switch {
	case errors.Is(err, errSelf):
		h.refuse(w, http.StatusForbidden, sandbox.NetPrivate, t.host, "it leads to the proxy itself")
	case ok && e.Reason == egress.ReasonAddress:
		h.refuse(w, http.StatusForbidden, sandbox.NetPrivate, t.host, e.Cause().Error())
	case ok && e.Reason == egress.ReasonTimeout:
		http.Error(w, "the host did not answer in time", http.StatusGatewayTimeout)
	default:
		http.Error(w, "the host cannot be reached", http.StatusBadGateway)
	}
}
