package egress

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// everything that an administrator can permit
var all = []string{
	"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "::1/128", "fc00::/7", "64:ff9b::/96",
}

// S3: every address of a host is judged at dial.
func TestAddresses_S3(t *testing.T) {
	for _, row := range []struct {
		addr  string
		class string // "": public
		able  bool   // with every range permitted it is reached
	}{
		{"8.8.8.8", "", true},
		{"1.0.0.0", "", true},
		{"9.255.255.255", "", true},
		{"11.0.0.0", "", true},
		{"172.15.255.255", "", true},
		{"172.32.0.0", "", true},
		{"100.63.255.255", "", true},
		{"100.128.0.0", "", true},
		{"223.255.255.255", "", true},
		{"2606:4700::1111", "", true},
		{"::ffff:8.8.8.8", "", true}, // resolvers return A records so
		{"0.0.0.0", "unspecified", false},
		{"0.1.2.3", "unspecified", false},
		{"10.0.0.1", "private", true},
		{"172.16.0.1", "private", true},
		{"172.31.255.255", "private", true},
		{"192.168.1.1", "private", true},
		{"::ffff:10.0.0.1", "private", true},
		{"100.64.0.1", "CGNAT", true},
		{"100.127.255.255", "CGNAT", true},
		{"127.0.0.1", "loopback", true},
		{"127.255.255.254", "loopback", true},
		{"::1", "loopback", true},
		{"::ffff:127.0.0.1", "loopback", true},
		{"169.254.0.1", "link-local", false},
		{"169.254.169.254", "metadata", false},
		{"::ffff:169.254.169.254", "metadata", false},
		{"100.100.100.200", "metadata", false},
		{"168.63.129.16", "metadata", false},
		{"192.0.0.192", "metadata", false},
		{"fd00:ec2::254", "metadata", false},
		{"fd20:ce::254", "metadata", false},
		{"fd00:c1::a9fe:a9fe", "metadata", false},
		{"192.0.0.8", "protocol", false},
		{"192.0.2.1", "documentation", false},
		{"198.51.100.1", "documentation", false},
		{"203.0.113.1", "documentation", false},
		{"2001:db8::1", "documentation", false},
		{"3fff::1", "documentation", false},
		{"192.31.196.1", "AS112", false},
		{"192.175.48.1", "AS112", false},
		{"192.52.193.1", "AMT", false},
		{"192.88.99.1", "6to4", false},
		{"198.18.0.1", "benchmark", true},
		{"198.19.255.255", "benchmark", true},
		{"224.0.0.1", "multicast", false},
		{"239.255.255.255", "multicast", false},
		{"240.0.0.1", "reserved", false},
		{"255.255.255.255", "reserved", false},
		{"::", "unspecified", false},
		{"::7f00:1", "IPv4-compatible", false},
		{"::ffff:0:127.0.0.1", "IPv4-translated", false},
		{"64:ff9b::8.8.8.8", "NAT64", true},
		{"64:ff9b::127.0.0.1", "NAT64", true}, // because loopback is permitted too
		{"64:ff9b::169.254.169.254", "NAT64", false},
		{"64:ff9b:1::1", "local NAT64", false},
		{"100::1", "discard", false},
		{"2001::1", "Teredo", false},
		{"2001:2::1", "protocol", false},
		{"2002:7f00:1::", "6to4", false},
		{"2620:4f:8000::1", "AS112", false},
		{"2606:4700::5efe:7f00:1", "ISATAP", false},
		{"2606:4700::200:5efe:7f00:1", "ISATAP", false},
		{"4000::1", "reserved", false},
		{"5f00::1", "segment routing", false},
		{"fc00::1", "unique local", true},
		{"fdff::1", "unique local", true},
		{"fe80::1", "link-local", false},
		{"fec0::1", "site-local", false},
		{"ff02::1", "multicast", false},
		{"fe80::1%eth0", "zone", false},
	} {
		t.Run(row.addr, func(t *testing.T) {
			a := netip.MustParseAddr(row.addr)
			got, err := checkAddress(a, nil)
			if row.class == "" {
				require.NoError(t, err)
				require.False(t, got.Is4In6(), "what is dialled is what was judged")
				return
			}
			require.ErrorContains(t, err, row.class)
			require.NotContains(t, err.Error(), row.addr)
			_, err = checkAddress(a, prefixes(all...))
			require.Equal(t, row.able, err == nil)
		})
	}
	_, err := checkAddress(netip.Addr{}, nil)
	require.Error(t, err)
}

// S3: NAT64 is judged by what it carries.
func TestNAT64CarriesItsAddress_S3(t *testing.T) {
	private := prefixes("64:ff9b::/96")
	_, err := checkAddress(netip.MustParseAddr("64:ff9b::8.8.8.8"), private)
	require.NoError(t, err)
	_, err = checkAddress(netip.MustParseAddr("64:ff9b::10.0.0.1"), private)
	require.ErrorContains(t, err, "private")
}

// A permitted range stays inside one that may be permitted.
func TestCheckPrivate_S3(t *testing.T) {
	for _, s := range all {
		require.NoError(t, checkPrivate(netip.MustParsePrefix(s)), s)
	}
	require.NoError(t, checkPrivate(netip.MustParsePrefix("10.1.2.3/32")))
	for _, s := range []string{
		"0.0.0.0/0", "::/0", "8.0.0.0/7", "10.0.0.0/7", "169.254.169.254/32", "169.254.0.0/16", "224.0.0.0/4",
		"fe80::/10", "2000::/3", "::/96", "8.8.8.8/32", "::ffff:10.0.0.0/104", "10.0.0.1/8",
	} {
		require.Error(t, checkPrivate(netip.MustParsePrefix(s)), s)
	}
	require.Error(t, checkPrivate(netip.Prefix{}))
}

// S3: nothing that the standard library calls other than global unicast or
// private is taken for public, in any spelling.
func TestAddressesDifferential_S3(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a netip.Addr
		if rapid.Bool().Draw(t, "v4") {
			a = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4 bytes")))
		} else {
			tail := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "v6 bytes")
			head := rapid.SampledFrom([]string{"::", "::ffff:0:0", "64:ff9b::", "2002::", "fe80::", "2600::", "2001::", "fd00::"}).Draw(t, "head")
			b := netip.MustParseAddr(head).As16()
			copy(b[rapid.IntRange(6, 16).Draw(t, "from"):], tail)
			a = netip.AddrFrom16(b)
		}
		got, err := checkAddress(a, nil)
		if err != nil {
			return
		}
		ip := net.IP(got.AsSlice())
		require.True(t, ip.IsGlobalUnicast())
		require.False(t, ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified())
		if a.Is4() || a.Is4In6() {
			require.Equal(t, a.Unmap(), got)
		}
	})
}
