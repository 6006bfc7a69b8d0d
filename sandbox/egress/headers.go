package egress

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
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

// ForeignHeader reports whether a header is not a handler's to set, in whatever
// case: credentials, what belongs to one connection, and what makes a server read
// another request than the one that was checked.
func ForeignHeader(name string) bool { return foreign(name) }

// foreign reports whether a canonical name is not the handler's to set. Servers
// that make variables of headers take an underscore for a dash.
func foreign(name string) bool {
	name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
	return notYours[name] || strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "X-Forwarded-")
}

// ownHeaders copies the handler's headers under canonical names, and refuses
// what it may not send.
func ownHeaders(h http.Header) (http.Header, error) {
	own := make(http.Header, len(h))
	n := 0
	for _, values := range h {
		n += len(values)
	}
	all := make([]string, 0, n) // one array for the values of all
	for key, values := range h {
		name := http.CanonicalHeaderKey(key)
		if err := checkHeader(name, values, foreign); err != nil {
			return nil, err
		}
		if had := own[name]; had != nil {
			own[name] = append(had, values...)
			continue
		}
		from := len(all)
		all = append(all, values...)
		own[name] = all[from:len(all):len(all)]
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

// checkHeader refuses names that are another's to set, names that are no token,
// and values that end the line (RFC 9110, section 5.5).
func checkHeader(name string, values []string, foreign func(name string) bool) error {
	if foreign(name) {
		return fmt.Errorf("the header %s is not the handler's to set", name)
	}
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

// requestLine is what a request says beside its headers.
type requestLine struct {
	method, path, query string
	host                string
	length              int  // of the body
	close               bool // the connection is for this request alone
}

// notHere are headers that are written from the request itself.
var notHere = map[string]bool{"Host": true, "User-Agent": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

// appendHead appends a request's head as http.Request.Write writes it, and holds
// the headers to what checkHeader says.
func appendHead(b []byte, line *requestLine, h http.Header, foreign func(name string) bool) ([]byte, error) {
	b = append(append(b, line.method...), ' ')
	if line.path == "" {
		b = append(b, '/')
	}
	b = append(b, line.path...)
	if line.query != "" {
		b = append(append(b, '?'), line.query...)
	}
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendHeader(b, "Host", line.host)
	if agent := agent(h); agent != "" {
		b = appendHeader(b, "User-Agent", agent)
	}
	if line.close {
		b = appendHeader(b, "Connection", "close")
	}
	if m := line.method; line.length > 0 || m == http.MethodPost || m == http.MethodPut || m == http.MethodPatch {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(line.length), 10), "\r\n"...)
	}
	b, err := appendHeaders(b, h, foreign)
	return append(b, "\r\n"...), err
}

// agent is what the header says, "" if it says that there is none.
func agent(h http.Header) string {
	for key, values := range h {
		if http.CanonicalHeaderKey(key) == "User-Agent" {
			return strings.Join(values[:min(1, len(values))], "")
		}
	}
	return "Go-http-client/1.1"
}

// appendHeaders appends headers in the order of their names.
func appendHeaders(b []byte, h http.Header, foreign func(name string) bool) ([]byte, error) {
	var few [16]string
	keys := few[:0]
	for key := range h {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		name, values := http.CanonicalHeaderKey(key), h[key]
		if err := checkHeader(name, values, foreign); err != nil {
			return b, err
		}
		if name == "Accept-Encoding" {
			if err := checkEncodings(values); err != nil {
				return b, err
			}
		}
		if notHere[name] {
			continue
		}
		for _, v := range values {
			b = appendHeader(b, name, v)
		}
	}
	return b, nil
}

func appendHeader(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, textproto.TrimString(value)...), "\r\n"...)
}
