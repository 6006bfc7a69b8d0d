package credential

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// parseOrigin returns the origin with a lower-case host and its port:
// "https://api.example.com:443".
func parseOrigin(origin string) (string, error) {
	u, err := url.Parse(origin)
	if err != nil {
		return "", errors.New("credential: the origin is no URL") // err quotes it, and it may hold a password
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host}
	canonical, ok := originOf(&bare)
	if !ok || u.User != nil || origin != u.Scheme+"://"+u.Host {
		return "", errors.New(`credential: an origin is "https://host" or "https://host:port" and nothing more`)
	}
	return canonical, nil
}

// originOf returns the origin that a request with this URL goes to.
func originOf(u *url.URL) (string, bool) {
	port := u.Port()
	switch {
	case u.Hostname() == "" || u.Opaque != "":
		return "", false
	case u.Scheme == "https" && port == "":
		port = "443"
	case u.Scheme == "http" && port == "":
		port = "80"
	case u.Scheme != "https" && u.Scheme != "http":
		return "", false
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return u.Scheme + "://" + host + ":" + port, true
}

// sendsTo reports whether req goes to the origin, and asks it for no other
// host: one server may hold the hosts of many.
func sendsTo(req *http.Request, origin string) bool {
	if req == nil || req.URL == nil {
		return false
	}
	to, ok := originOf(req.URL)
	if !ok || to != origin {
		return false
	}
	if req.Host == "" {
		return true
	}
	named, ok := originOf(&url.URL{Scheme: req.URL.Scheme, Host: req.Host})
	return ok && named == origin
}

// framing are the fields that say where a message ends or whom it is for.
var framing = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect", "Proxy-Authorization", "Proxy-Connection"}

func checkHeader(name, prefix string) error {
	for _, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return fmt.Errorf("credential: %q is not the name of a header field", name)
		}
	}
	if slices.Contains(framing, http.CanonicalHeaderKey(name)) {
		return fmt.Errorf("credential: the header %s cannot carry a key", http.CanonicalHeaderKey(name))
	}
	for _, c := range []byte(prefix) {
		if c < ' ' || c > '~' {
			return errors.New("credential: the prefix holds characters other than visible ASCII and space")
		}
	}
	return nil
}

// maxKey bounds a key, in bytes. Servers refuse longer header fields anyway.
const maxKey = 8 << 10

// checkKey says what is wrong with a key without quoting any of it.
func checkKey(key []byte) error {
	switch {
	case len(key) == 0:
		return errors.New("credential: the key is empty")
	case len(key) > maxKey:
		return fmt.Errorf("credential: the key has %d bytes; the limit is %d", len(key), maxKey)
	}
	for i, c := range key {
		if (c == '\n' || c == '\r') && len(strings.TrimRight(string(key[i:]), "\r\n")) == 0 {
			return errors.New("credential: the key ends with a line break: trim it where it is read")
		}
		if c <= ' ' || c > '~' {
			return fmt.Errorf("credential: byte %d of the key is not visible ASCII: it could break out of its header", i)
		}
	}
	return nil
}
