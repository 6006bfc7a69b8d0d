package egress

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// base is a checked BaseURL: the only place that requests go to.
type base struct {
	scheme string
	host   string // as in a Host header: without the scheme's own port
	name   string // host without port and brackets
	port   uint16
	prefix string // escaped path without a trailing slash: "" or "/api"
}

func (b base) origin() string {
	if strings.Contains(b.name, ":") {
		return fmt.Sprintf("%s://[%s]:%d", b.scheme, b.name, b.port)
	}
	return fmt.Sprintf("%s://%s:%d", b.scheme, b.name, b.port)
}

func (b base) url() string { return b.scheme + "://" + b.host + b.prefix }

// parseBase reads a BaseURL and refuses every spelling but one.
func parseBase(s string, plaintext bool) (base, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil: // the text would quote a password
		return base{}, errors.New("base URL: not a URL")
	case u.Scheme != "https" && !(u.Scheme == "http" && plaintext):
		return base{}, errors.New("base URL: the scheme must be https (or http, with Plaintext)")
	case u.Opaque != "" || u.Host == "":
		return base{}, errors.New("base URL: it names no host")
	case u.User != nil:
		return base{}, errors.New("base URL: it must not hold a user or a password")
	case strings.ContainsAny(s, "?#"):
		return base{}, errors.New("base URL: it must not hold a query or a fragment")
	}
	b := base{scheme: u.Scheme, host: u.Host, name: u.Hostname()}
	if err := b.setPort(u.Port()); err != nil {
		return base{}, err
	}
	if err := checkHost(b.name, strings.HasPrefix(u.Host, "[")); err != nil {
		return base{}, err
	}
	b.prefix = strings.TrimSuffix(u.EscapedPath(), "/")
	if err := checkPath(b.prefix); err != nil {
		return base{}, fmt.Errorf("base URL: %w", err)
	}
	return b, nil
}

func (b *base) setPort(port string) error {
	b.port = 443
	if b.scheme == "http" {
		b.port = 80
	}
	if port == "" {
		if strings.HasSuffix(b.host, ":") {
			return errors.New("base URL: the port is empty")
		}
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || n == 0 || strconv.FormatUint(n, 10) != port:
		return errors.New("base URL: the port must be a number from 1 to 65535 without leading zeros")
	case uint16(n) == b.port:
		return fmt.Errorf("base URL: leave out the port; %s means %d", b.scheme, n)
	}
	b.port = uint16(n)
	return nil
}

// checkHost takes names of letters, digits, dashes and underscores, and
// addresses in the spelling that netip prints. A resolver reads "127.1",
// "0x7f000001" and "2130706433" as addresses, so a last label that looks like a
// number must be part of a proper one.
func checkHost(name string, bracketed bool) error {
	if a, err := netip.ParseAddr(name); err == nil {
		if a.String() != name || a.Zone() != "" || a.Is4In6() || a.Is6() != bracketed {
			return errors.New("base URL: the address is not in its canonical form")
		}
		return nil
	}
	if bracketed || len(name) > 253 {
		return errors.New("base URL: not a host")
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return err
		}
	}
	last := labels[len(labels)-1]
	if last[0] >= '0' && last[0] <= '9' {
		return errors.New("base URL: the host looks like an address, and is not one")
	}
	return nil
}

func checkLabel(label string) error {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return errors.New("base URL: the host has an empty, overlong or dashed label (no trailing dot)")
	}
	for _, c := range []byte(label) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case 'A' <= c && c <= 'Z':
			return errors.New("base URL: write the host in lower case")
		case c == '*':
			return errors.New("base URL: the host must not hold a wildcard")
		default:
			return errors.New("base URL: the host must be ASCII letters, digits, dashes and dots (write other names in their xn-- form)")
		}
	}
	return nil
}

// locate checks where req goes and returns path and query below the base. It
// accepts one spelling of the host, because every other one is a chance for the
// check and the connection to differ.
func (b base) locate(req *http.Request) (path, query string, err error) {
	u := req.URL
	switch {
	case u == nil || u.Opaque != "":
		return "", "", errors.New("the URL has no host")
	case u.Scheme != b.scheme:
		return "", "", errors.New("another scheme than the profile's")
	case u.Host != b.host && u.Host != b.hostPort():
		return "", "", errors.New("another host or port than the profile's")
	case req.Host != "" && req.Host != u.Host:
		return "", "", errors.New("a Host header that differs from the URL")
	case u.User != nil:
		return "", "", errors.New("user information in the URL")
	case u.Fragment != "" || u.RawFragment != "":
		return "", "", errors.New("a fragment in the URL")
	}
	return b.below(u)
}

func (b base) hostPort() string { return strings.TrimPrefix(b.origin(), b.scheme+"://") }

func (b base) below(u *url.URL) (path, query string, err error) {
	escaped := u.EscapedPath()
	if u.RawPath != "" && u.RawPath != escaped {
		return "", "", errors.New("path and escaped path of the URL differ")
	}
	if err := checkPath(escaped); err != nil {
		return "", "", err
	}
	path, ok := strings.CutPrefix(escaped, b.prefix)
	if !ok || path != "" && path[0] != '/' {
		return "", "", errors.New("outside the profile's path")
	}
	if b.prefix == "" && path == "" {
		path = "/"
	}
	return path, u.RawQuery, checkQuery(u.RawQuery)
}

// checkPath takes an escaped path and refuses what a server may read as another
// one: dot segments, empty segments, and slashes, backslashes and control
// characters that are escaped, also twice.
func checkPath(escaped string) error {
	if escaped == "" || escaped == "/" {
		return nil
	}
	if escaped[0] != '/' {
		return errors.New("the path does not begin with a slash")
	}
	segment, rest, more := strings.Cut(escaped[1:], "/")
	for ; more; segment, rest, more = strings.Cut(rest, "/") {
		if segment == "" {
			return errors.New("an empty segment in the path")
		}
		if err := checkSegment(segment); err != nil {
			return err
		}
	}
	return checkSegment(segment)
}

func checkSegment(s string) error {
	for range 4 {
		if err := checkDecoded(s); err != nil {
			return err
		}
		decoded := unescape(s)
		if decoded == s {
			return nil
		}
		s = decoded
	}
	return errors.New("a path that is escaped many times over")
}

// unescape decodes what is an escape and leaves the rest, as lenient servers
// do: "100%" is a name.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func checkDecoded(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("a path that is not UTF-8")
	}
	if strings.ContainsAny(s, `/\`) {
		return errors.New("an escaped slash or a backslash in the path")
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("a control character in the path")
	}
	name, _, _ := strings.Cut(s, ";") // some servers cut parameters off first
	if name == "." || name == ".." {
		return errors.New("a dot segment in the path")
	}
	return nil
}

// checkQuery holds a raw query to visible ASCII; net/http writes it as it is.
func checkQuery(raw string) error {
	for _, c := range []byte(raw) {
		if c <= ' ' || c >= 0x7f || c == '#' {
			return errors.New("a character in the query that must be escaped")
		}
	}
	return nil
}

// checkMethod takes the methods that carry an ordinary request. TRACE would
// send the credential back.
func checkMethod(m string) error {
	if m == http.MethodConnect || m == http.MethodTrace {
		return errors.New("the method " + m)
	}
	if m == "" || len(m) > 32 {
		return errors.New("no method")
	}
	for i, c := range []byte(m) {
		if (c < 'A' || c > 'Z') && (c != '-' || i == 0) {
			return errors.New("a method that is not in capital letters")
		}
	}
	return nil
}
