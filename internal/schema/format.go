package schema

import (
	"net/mail"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// A format is a form of strings that is checked, not only named.
type format struct {
	want  string
	valid func(s string) bool
}

// formats are those of JSON Schema (validation, section 7.3) that are checked.
// Another one is refused in a schema, since it would bind nothing.
var formats = map[string]*format{
	"date-time": {"a time with zone such as 2026-04-29T02:35:00Z", func(s string) bool {
		// Package time takes a comma for the point and one digit for an hour;
		// RFC 3339 does not. What is left is what a time.Time decodes.
		var t time.Time
		return len(s) >= 20 && len(s) <= 64 && s[13] == ':' && !strings.Contains(s, ",") && t.UnmarshalText([]byte(s)) == nil
	}},
	"date": {"a date such as 2026-04-29", func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil }},
	"time": {"a time of day with zone such as 02:35:00Z", func(s string) bool {
		_, err := time.Parse("15:04:05.999999999Z07:00", s)
		return err == nil && len(s) >= 9 && len(s) <= 64 && s[2] == ':' && !strings.Contains(s, ",")
	}},
	"uri": {"a URI with its scheme such as https://example.com/a", func(s string) bool {
		u, err := url.Parse(s)
		return err == nil && u.Scheme != "" && uriBytes(s)
	}},
	"uri-reference": {"a URI or a part of one such as /a?b=c", func(s string) bool { _, err := url.Parse(s); return err == nil && uriBytes(s) }},
	"uuid":          {"a UUID such as 2eb8aa08-aa98-11ea-b4aa-73b441d16380", uuid},
	"email": {"an e-mail address such as ada@example.com", func(s string) bool {
		a, err := mail.ParseAddress(s)
		return err == nil && a.Address == s && a.Name == "" && len(s) <= 254 && !strings.ContainsAny(s, "\" \t()")
	}},
	"hostname": {"a host name such as www.example.com", hostname},
	"ipv4":     {"an IPv4 address such as 192.0.2.1", func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is4() }},
	"ipv6": {"an IPv6 address such as 2001:db8::1", func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err == nil && a.Is6() && a.Zone() == ""
	}},
}

// uriBytes refuses what RFC 3986 has no place for and net/url takes.
func uriBytes(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

func uuid(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range 36 {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && strings.IndexByte("0123456789abcdefABCDEF", s[i]) < 0 {
			return false
		}
	}
	return true
}

func hostname(s string) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i] | 0x20; label[i] != '-' && (c < 'a' || c > 'z') && (label[i] < '0' || label[i] > '9') {
				return false
			}
		}
	}
	return true
}
