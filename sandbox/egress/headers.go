package egress

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// notYours are the headers that a handler cannot set: credentials, what belongs
// to one connection, and what makes a server read another request than the one
// that was checked.
var notYours = map[string]bool{
	"Authorization":          true,
	"Cookie":                 true,
	"Host":                   true,
	"Connection":             true,
	"Keep-Alive":             true,
	"Upgrade":                true,
	"Http2-Settings":         true,
	"Te":                     true,
	"Trailer":                true,
	"Transfer-Encoding":      true,
	"Expect":                 true,
	"Forwarded":              true,
	"X-Http-Method":          true,
	"X-Http-Method-Override": true,
	"X-Method-Override":      true,
	"X-Original-Url":         true,
	"X-Rewrite-Url":          true,
}

// ofCredentials are those of them that Authorize sets.
var ofCredentials = map[string]bool{"Authorization": true, "Cookie": true}

// foreign reports whether a canonical name is not the handler's to set. Servers
// that make variables of headers take an underscore for a dash.
func foreign(name string) bool {
	name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
	return notYours[name] || strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "X-Forwarded-")
}

// ownHeaders copies the handler's headers under canonical names, and refuses
// what it may not send.
func ownHeaders(h http.Header) (http.Header, error) {
	own := make(http.Header, len(h)+2)
	for key, values := range h {
		name := http.CanonicalHeaderKey(key)
		if foreign(name) {
			return nil, fmt.Errorf("the header %s is not the handler's to set", name)
		}
		if err := checkHeader(name, values); err != nil {
			return nil, err
		}
		own[name] = append(own[name], values...)
	}
	return own, checkEncodings(own["Accept-Encoding"])
}

// takeLength removes a Content-Length that says what is so.
func takeLength(h http.Header, n int) error {
	for _, v := range h["Content-Length"] {
		if v != strconv.Itoa(n) {
			return errors.New("a Content-Length that is not the body's")
		}
	}
	delete(h, "Content-Length")
	return nil
}

// checkEncodings holds the answer to what can be searched for the credential.
func checkEncodings(values []string) error {
	for _, v := range values {
		if v != "gzip" && v != "identity" {
			return errors.New("an Accept-Encoding other than gzip or identity")
		}
	}
	return nil
}

// checkHeader refuses names that are no token and values that end the line (RFC
// 9110, section 5.5).
func checkHeader(name string, values []string) error {
	for _, c := range []byte(name) {
		if !token(c) {
			return errors.New("a header whose name is no token")
		}
	}
	if name == "" {
		return errors.New("a header without a name")
	}
	for _, v := range values {
		for _, c := range []byte(v) {
			if c < ' ' && c != '\t' || c == 0x7f {
				return fmt.Errorf("a control character in the header %s", name)
			}
		}
	}
	return nil
}

func token(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// headerSize is about what a request's line and headers take on the wire.
func headerSize(url string, h http.Header) int64 {
	n := len(url) + 32
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v) + 4
		}
	}
	return int64(n)
}
