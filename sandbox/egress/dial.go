package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
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
		if err != nil {
			return nil, &failure{ReasonAddress, fmt.Errorf("the host resolves to %w; name its range in the profile's private ranges if that is meant", err)}
		}
		addrs[i] = checked
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

func systemResolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

func systemDial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
}
