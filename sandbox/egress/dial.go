package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// failure is an error of the dialer with its reason.
type failure struct {
	reason Reason
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// dialer connects to one host: it resolves, judges every address, and connects
// to one that it judged, so that no second look-up can answer differently.
type dialer struct {
	base    base
	private []netip.Prefix
	connect time.Duration
	tls     *tls.Config
	resolve func(context.Context, string) ([]netip.Addr, error)
	dial    func(context.Context, netip.AddrPort) (net.Conn, error)
}

// open connects within the limit, which holds for resolution, connection and
// handshake together.
func (d *dialer) open(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	raw, err := d.reach(ctx)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // whatever Options.Dial made of it
		_ = raw.Close()
		return nil, &failure{dialReason(ctx, ReasonDial), ctx.Err()}
	}
	if d.base.scheme != "https" {
		return raw, nil
	}
	conn := tls.Client(raw, d.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, &failure{dialReason(ctx, ReasonTLS), err}
	}
	return conn, nil
}

// dialReason is r, unless time ran out first.
func dialReason(ctx context.Context, r Reason) Reason {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ReasonTimeout
	}
	return r
}

func (d *dialer) reach(ctx context.Context) (net.Conn, error) {
	addrs, err := d.addresses(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, a := range addrs {
		conn, err := d.try(ctx, a, len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, &failure{dialReason(ctx, ReasonDial), errors.Join(errs...)}
}

// try dials one address in its share of the time, so that one that does not
// answer leaves some for the next.
func (d *dialer) try(ctx context.Context, a netip.Addr, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return d.dial(ctx, netip.AddrPortFrom(a, d.base.port))
}

const maxAddresses = 16

// addresses returns the addresses of the host, or refuses the host for one of
// them: a name with a public and a private address is an attack or a mistake.
func (d *dialer) addresses(ctx context.Context) ([]netip.Addr, error) {
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(d.base.name); err == nil {
		addrs = append(addrs, a)
	} else {
		found, err := d.resolve(ctx, d.base.name)
		if err != nil {
			return nil, &failure{dialReason(ctx, ReasonDial), err}
		}
		addrs = append(addrs, found...)
	}
	if len(addrs) == 0 {
		return nil, &failure{ReasonDial, errors.New("the host has no address")}
	}
	for i, a := range addrs {
		checked, err := checkAddress(a, d.private)
		named := slices.ContainsFunc(d.private, func(p netip.Prefix) bool { return p.Contains(checked) })
		if err == nil && !named && own(checked) {
			err = errors.New("an address of this machine")
		}
		if err != nil {
			return nil, &failure{ReasonAddress, fmt.Errorf("the host resolves to %w; name its range in the profile's private ranges if that is meant", err)}
		}
		addrs[i] = checked
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

// own reports whether an interface of this machine has the address: what
// listens on a public one may trust whoever comes from here. It is asked for at
// each connection to a public address, because interfaces change.
func own(a netip.Addr) bool {
	list, _ := net.InterfaceAddrs() // none: the classes still hold
	return slices.ContainsFunc(list, func(i net.Addr) bool {
		n, ok := i.(*net.IPNet)
		if !ok {
			return false
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		return ok && ip.Unmap() == a
	})
}

// Host returns the one spelling of a host name or address, in lower case and
// without a trailing dot, as a filter should compare, resolve and connect to it.
// It refuses what resolvers and filters may read differently: characters that
// are not ASCII, zones, brackets, and other spellings of addresses.
func Host(name string) (string, error) {
	name = strings.TrimSuffix(asciiLower(name), ".")
	if err := checkHost(name, strings.Contains(name, ":")); err != nil {
		return "", errors.New("not a host name or address in its one spelling")
	}
	return name, nil
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// Dial connects to a host as an endpoint does: it resolves once, judges every
// address, and connects to one that it judged. It is for a proxy on the same
// rules. Host is in the spelling that [Host] returns; private is as in Profile;
// opts may be nil. The error is an *Error: ReasonDestination, ReasonAddress,
// ReasonDial or ReasonTimeout.
func Dial(ctx context.Context, host string, port uint16, private []netip.Prefix, opts *Options) (net.Conn, error) {
	refuse := func(r Reason, err error) (net.Conn, error) {
		return nil, &Error{Phase: PhaseNotSent, Reason: r, Profile: "dial", cause: err}
	}
	if name, err := Host(host); err != nil || name != host || port == 0 {
		return refuse(ReasonDestination, errors.New("the host is not in its one spelling, or there is no port"))
	}
	d := &dialer{base: base{name: host, port: port}, private: private, resolve: systemResolve, dial: systemDial}
	d.override(opts)
	conn, err := d.reach(ctx)
	if err != nil {
		f, ok := errors.AsType[*failure](err)
		if !ok {
			f = &failure{ReasonDial, err}
		}
		return refuse(f.reason, f.err)
	}
	return conn, nil
}

// override takes what the options replace.
func (d *dialer) override(opts *Options) {
	if opts != nil && opts.Resolve != nil {
		d.resolve = opts.Resolve
	}
	if opts != nil && opts.Dial != nil {
		d.dial = opts.Dial
	}
}

// systemResolve asks for the absolute name: "api.example.com" is not to become
// "api.example.com.corp.test" by a list of search domains. A name without a dot
// is a local one, which only such a list or the hosts file knows.
func systemResolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", absolute(host))
}

func absolute(host string) string {
	if strings.Contains(host, ".") {
		return host + "."
	}
	return host
}

func systemDial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
}
