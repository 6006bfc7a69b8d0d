package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
)

// A network is a row of the table of addresses that are not public.
type network struct {
	prefix netip.Prefix
	class  string

	// permit says that an administrator may name it in Profile.Private. The
	// others never hold a provider, or are one hop from the machine's own
	// credentials.
	permit bool
}

// networks is read from the top; the first row that holds an address names its
// class. IPv6 outside 2000::/3 is refused without a row. Sources: the IANA
// special-purpose registries (RFC 6890), and what clouds document about their
// metadata services.
var networks = sync.OnceValue(func() []network {
	return []network{
		{netip.MustParsePrefix("169.254.169.254/32"), "metadata", false},
		{netip.MustParsePrefix("100.100.100.200/32"), "metadata", false},
		{netip.MustParsePrefix("168.63.129.16/32"), "metadata", false},
		{netip.MustParsePrefix("192.0.0.192/32"), "metadata", false},
		{netip.MustParsePrefix("0.0.0.0/8"), "unspecified", false},
		{netip.MustParsePrefix("10.0.0.0/8"), "private", true},
		{netip.MustParsePrefix("100.64.0.0/10"), "shared (CGNAT)", true},
		{netip.MustParsePrefix("127.0.0.0/8"), "loopback", true},
		{netip.MustParsePrefix("169.254.0.0/16"), "link-local", false},
		{netip.MustParsePrefix("172.16.0.0/12"), "private", true},
		{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignment", false},
		{netip.MustParsePrefix("192.0.2.0/24"), "documentation", false},
		{netip.MustParsePrefix("192.31.196.0/24"), "AS112", false},
		{netip.MustParsePrefix("192.52.193.0/24"), "AMT", false},
		{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay", false},
		{netip.MustParsePrefix("192.168.0.0/16"), "private", true},
		{netip.MustParsePrefix("192.175.48.0/24"), "AS112", false},
		{netip.MustParsePrefix("198.18.0.0/15"), "benchmark", true},
		{netip.MustParsePrefix("198.51.100.0/24"), "documentation", false},
		{netip.MustParsePrefix("203.0.113.0/24"), "documentation", false},
		{netip.MustParsePrefix("224.0.0.0/4"), "multicast", false},
		{netip.MustParsePrefix("240.0.0.0/4"), "reserved", false},

		{netip.MustParsePrefix("fd00:ec2::/32"), "metadata", false},
		{netip.MustParsePrefix("fd20:ce::254/128"), "metadata", false},
		{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), "metadata", false},
		{netip.MustParsePrefix("fd00:42::42/128"), "metadata", false},
		{netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"), "metadata", false},
		{netip.MustParsePrefix("fd00:100::100:200/128"), "metadata", false},
		{netip.MustParsePrefix("::/128"), "unspecified", false},
		{netip.MustParsePrefix("::1/128"), "loopback", true},
		{netip.MustParsePrefix("::/96"), "IPv4-compatible", false},
		{netip.MustParsePrefix("::ffff:0:0/96"), "IPv4-mapped", false},
		{netip.MustParsePrefix("::ffff:0:0:0/96"), "IPv4-translated", false},
		{netip.MustParsePrefix("64:ff9b::/96"), "NAT64", true},
		{netip.MustParsePrefix("64:ff9b:1::/48"), "local NAT64", false},
		{netip.MustParsePrefix("100::/64"), "discard", false},
		{netip.MustParsePrefix("2001::/32"), "Teredo", false},
		{netip.MustParsePrefix("2001::/23"), "protocol assignment", false},
		{netip.MustParsePrefix("2001:db8::/32"), "documentation", false},
		{netip.MustParsePrefix("2002::/16"), "6to4", false},
		{netip.MustParsePrefix("2620:4f:8000::/48"), "AS112", false},
		{netip.MustParsePrefix("3fff::/20"), "documentation", false},
		{netip.MustParsePrefix("5f00::/16"), "segment routing", false},
		{netip.MustParsePrefix("fc00::/7"), "unique local", true},
		{netip.MustParsePrefix("fe80::/10"), "link-local", false},
		{netip.MustParsePrefix("fec0::/10"), "site-local", false},
		{netip.MustParsePrefix("ff00::/8"), "multicast", false},
	}
})

// global reports whether a is in 2000::/3, all that IANA has given out.
func global(a netip.Addr) bool { return a.As16()[0]>>5 == 1 }

// nat64 returns the IPv4 address that an address of 64:ff9b::/96 carries (RFC
// 6052).
func nat64(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	wellKnown := [12]byte{0x00, 0x64, 0xff, 0x9b}
	return netip.AddrFrom4([4]byte(b[12:])), a.Is6() && [12]byte(b[:12]) == wellKnown
}

// classify returns the class of an address that is not public, "" for a public
// one, and whether an administrator may permit it. a is unmapped and has no
// zone.
func classify(a netip.Addr) (class string, permit bool) {
	for _, n := range networks() {
		if n.prefix.Contains(a) {
			return n.class, n.permit
		}
	}
	switch {
	case a.Is4():
		return "", false
	case !global(a):
		return "reserved", false
	case isatap(a):
		return "ISATAP", false
	}
	return "", false
}

// isatap reports whether the interface identifier carries an IPv4 address (RFC
// 5214), which a tunnel would reach under any prefix.
func isatap(a netip.Addr) bool {
	b := a.As16()
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// checkAddress returns the address to dial for a, or an error with the class,
// never with the address: refusals are read by people outside the network.
// IPv4-mapped addresses are judged and dialled as the IPv4 that they are;
// resolvers return them for every A record.
func checkAddress(a netip.Addr, private []netip.Prefix) (netip.Addr, error) {
	if !a.IsValid() {
		return a, errors.New("an invalid address")
	}
	if a.Zone() != "" {
		return a, errors.New("an address with a zone")
	}
	a = a.Unmap()
	class, permit := classify(a)
	if class == "" {
		return a, nil
	}
	if !permit || !slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return a, fmt.Errorf("a %s address", class)
	}
	if carried, ok := nat64(a); ok { // must be allowed as well
		if _, err := checkAddress(carried, private); err != nil {
			return a, fmt.Errorf("a NAT64 address of %w", err)
		}
	}
	return a, nil
}

// checkPrivate refuses ranges that no provider may be in, and those that hold
// more than one class: 0.0.0.0/0 is not a private range.
func checkPrivate(p netip.Prefix) error {
	if !p.IsValid() {
		return errors.New("not a range of addresses")
	}
	if p != p.Masked() {
		return fmt.Errorf("%s has bits beyond its length: write %s", p, p.Masked())
	}
	for _, n := range networks() {
		if n.permit && n.prefix.Bits() <= p.Bits() && n.prefix.Contains(p.Addr()) {
			return nil
		}
	}
	return fmt.Errorf("%s is not inside a range that may be permitted (private, shared, loopback, benchmark, unique local, NAT64)", p)
}
