package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
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
	// host is ASCII and in its one canonical spelling; there are no wildcards.
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
	// Resolve returns the addresses of a host. Nil: the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)

	// Dial connects to an address that was checked. Nil: TCP.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
}

// Endpoint is a checked, immutable profile with its connections. It is safe for
// concurrent use. The zero Endpoint refuses everything.
type Endpoint struct {
	profile Profile
	origin  string
	base    string
	reads   *http.Transport
	changes *http.Transport
}

// New checks the profile and returns its endpoint. It connects to nothing.
// opts may be nil.
func New(p Profile, opts *Options) (*Endpoint, error) { return &Endpoint{profile: p}, nil }

// Open starts a session that ends with ctx or with Close. h may be nil.
func (e *Endpoint) Open(ctx context.Context, h *Hooks) *Session { return &Session{} }

// Origin is scheme://host:port, with the port also when it is the scheme's own.
func (e *Endpoint) Origin() string { return e.origin }

// BaseURL is what request URLs are built on: the profile's, without a trailing
// slash.
func (e *Endpoint) BaseURL() string { return e.base }

// Profile returns a copy of the profile, with every limit filled in.
func (e *Endpoint) Profile() Profile { return e.profile }

// CloseIdleConnections closes kept-alive connections, as when the endpoint is
// replaced by one of a changed profile.
func (e *Endpoint) CloseIdleConnections() {}
