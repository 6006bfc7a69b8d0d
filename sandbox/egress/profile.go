package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Profile describes one provider. It is maintained by an administrator, loaded
// from YAML or written in Go, and never holds a secret. Models, callers and
// connectors cannot name a host. The zero Profile reaches nothing.
type Profile struct {
	// Name is what manifests refer to ("tickets-prod"): 1 to 64 ASCII letters,
	// digits, dots, dashes and underscores.
	Name string

	// BaseURL is scheme, host, optional port and optional path prefix:
	// "https://tickets.example.com/api". Only https, unless Plaintext. The
	// host is ASCII and in its one canonical spelling; there are no wildcards. A
	// name with a dot is whole: search domains are not tried.
	BaseURL string

	// Plaintext permits http, for providers on a private network.
	Plaintext bool

	// Private lists the ranges of addresses, not public ones, that the
	// provider may resolve to. Empty: none. Link-local, multicast, metadata
	// and reserved addresses cannot be permitted.
	Private []netip.Prefix

	// CA holds the certificates in PEM that the provider's certificate must
	// lead to. Empty: those of the system.
	CA []byte

	// Redirects is how many redirects inside the profile are followed for GET
	// and HEAD, at most 10. 0: none; the redirect is the answer.
	Redirects int

	// Limits bound one exchange.
	Limits Limits
}

// Limits bound one exchange. Zero fields take the value in the comment; there
// is no way to say unlimited.
type Limits struct {
	Connect       time.Duration // 5 s, name resolution, dial and TLS together
	Headers       time.Duration // 15 s, from the last byte sent to the end of the answer's headers
	Total         time.Duration // 30 s, and never past the contexts' deadlines
	RequestBytes  int64         // 1 MiB
	ResponseBytes int64         // 8 MiB, after decompression
	HeaderBytes   int64         // 64 KiB, of the answer and of the request
	Ratio         int           // 100, decompressed to compressed, once 64 KiB were decompressed
}

// Options replace what an endpoint takes from the operating system. Addresses
// are checked whatever they are.
type Options struct {
	// Resolve returns the addresses of a host, and gives up when ctx ends.
	// Nil: the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	// Dial connects to an address that was checked, and gives up when ctx
	// ends. A connection that is no socket is used for one request. Nil: TCP.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
}

// Endpoint is a checked, immutable profile with its connections. It is safe for
// concurrent use. The zero Endpoint refuses everything.
type Endpoint struct {
	profile Profile
	base    base
	origin  string
	dialer  *dialer
	idle    pool // for reads
}

// New checks the profile and returns its endpoint. It connects to nothing.
// opts may be nil. The error says which field is wrong and what would be right.
func New(p Profile, opts *Options) (*Endpoint, error) {
	p = p.clone()
	b, err := p.check()
	if err != nil {
		return nil, fmt.Errorf("egress: profile %q: %w", p.Name, err)
	}
	roots, err := p.roots()
	if err != nil {
		return nil, fmt.Errorf("egress: profile %q: %w", p.Name, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: b.name, RootCAs: roots, NextProtos: []string{"http/1.1"}}
	d := &dialer{base: b, private: p.Private, connect: p.Limits.Connect, tls: config, resolve: systemResolve, dial: systemDial}
	d.override(opts)
	return &Endpoint{profile: p, base: b, origin: b.origin(), dialer: d}, nil
}

// Origin is scheme://host:port, with the port also when it is the scheme's own.
func (e *Endpoint) Origin() string { return e.origin }

// BaseURL is what request URLs are built on: the profile's, without a trailing
// slash.
func (e *Endpoint) BaseURL() string {
	if e.origin == "" {
		return ""
	}
	return e.base.url()
}

// Profile returns a copy of the profile, with every limit filled in.
func (e *Endpoint) Profile() Profile { return e.profile.clone() }

// CloseIdleConnections closes kept-alive connections, as when the endpoint is
// replaced by one of a changed profile.
func (e *Endpoint) CloseIdleConnections() { e.idle.close() }

func (p Profile) clone() Profile {
	p.Private, p.CA = slices.Clone(p.Private), slices.Clone(p.CA)
	return p
}

// check fills in the limits and says what is wrong.
func (p *Profile) check() (base, error) {
	if err := checkName(p.Name); err != nil {
		return base{}, err
	}
	b, err := parseBase(p.BaseURL, p.Plaintext)
	if err != nil {
		return base{}, err
	}
	for i, r := range p.Private {
		if err := checkPrivate(r); err != nil {
			return base{}, fmt.Errorf("private range %d: %w", i, err)
		}
	}
	if a, err := netip.ParseAddr(b.name); err == nil {
		if _, err := checkAddress(a, p.Private); err != nil {
			return base{}, fmt.Errorf("base URL: %w, which is not in the private ranges", err)
		}
	}
	if p.Redirects < 0 || p.Redirects > 10 {
		return base{}, errors.New("redirects must be from 0 to 10")
	}
	return b, p.Limits.fill()
}

func checkName(name string) error {
	if name == "" || len(name) > 64 {
		return errors.New("the name must have 1 to 64 characters")
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		default:
			return errors.New("the name must be of ASCII letters, digits, dots, dashes and underscores")
		}
	}
	return nil
}

// fill sets the limits that are zero.
func (l *Limits) fill() error {
	if l.Connect < 0 || l.Headers < 0 || l.Total < 0 || l.RequestBytes < 0 || l.ResponseBytes < 0 || l.HeaderBytes < 0 || l.Ratio < 0 {
		return errors.New("limits must not be negative; 0 is the default")
	}
	if l.RequestBytes > maxBytes || l.ResponseBytes > maxBytes || l.HeaderBytes > maxBytes || l.Ratio > maxRatio {
		return errors.New("limits must be at most 1 GiB, and the ratio at most 1100")
	}
	l.Connect = cmp.Or(l.Connect, 5*time.Second)
	l.Headers = cmp.Or(l.Headers, 15*time.Second)
	l.Total = cmp.Or(l.Total, 30*time.Second)
	l.RequestBytes = cmp.Or(l.RequestBytes, 1<<20)
	l.ResponseBytes = cmp.Or(l.ResponseBytes, 8<<20)
	l.HeaderBytes = cmp.Or(l.HeaderBytes, 64<<10)
	l.Ratio = cmp.Or(l.Ratio, 100)
	return nil
}

const (
	maxBytes = 1 << 30 // bodies are held in memory
	maxRatio = 1100    // deflate cannot exceed 1032
)
