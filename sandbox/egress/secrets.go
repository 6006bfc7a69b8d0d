package egress

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

const (
	redacted  = "[redacted]"
	minSecret = 4 // bytes; shorter ones would be found everywhere
)

// secrets are the credentials of a session in every form in which a provider
// may send them back. A nil *secrets finds nothing.
type secrets struct {
	values []string
	forms  []string // longest first, so that a part does not spoil the whole
}

// maxSecrets bounds what a session remembers. Tokens are few; signatures differ
// in every request, and the oldest are forgotten.
const maxSecrets = 32

// with returns secrets that also know the values. It does not change s.
func (s *secrets) with(values []string) *secrets {
	out := &secrets{}
	if s != nil {
		out.values = slices.Clone(s.values)
	}
	for _, v := range values {
		if len(v) >= minSecret && !slices.Contains(out.values, v) {
			out.values = append(out.values, v)
		}
	}
	if s != nil && len(out.values) == len(s.values) {
		return s
	}
	out.values = out.values[max(0, len(out.values)-maxSecrets):]
	for _, v := range out.values {
		out.forms = append(out.forms, forms(v)...)
	}
	slices.SortFunc(out.forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	out.forms = slices.Compact(out.forms)
	return out
}

// scrub returns b without the secrets; b itself if it holds none.
func (s *secrets) scrub(b []byte) []byte {
	if s == nil {
		return b
	}
	for _, form := range s.forms {
		if bytes.Contains(b, []byte(form)) {
			b = bytes.ReplaceAll(b, []byte(form), []byte(redacted))
		}
	}
	return b
}

// text is scrub for a string.
func (s *secrets) text(t string) string {
	if s == nil {
		return t
	}
	for _, form := range s.forms {
		t = strings.ReplaceAll(t, form, redacted)
	}
	return t
}

// header returns a scrubbed copy of h without Set-Cookie, and without headers
// whose very name holds a secret.
func (s *secrets) header(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		if name == "Set-Cookie" || s.text(name) != name || s.text(strings.ToLower(name)) != strings.ToLower(name) {
			continue
		}
		for _, v := range values {
			out[name] = append(out[name], s.text(v))
		}
	}
	return out
}

// forms are the ways in which software writes v.
func forms(v string) []string {
	query, path := url.QueryEscape(v), url.PathEscape(v)
	out := []string{v, query, path, lowerEscapes(query), lowerEscapes(path), html.EscapeString(v)}
	out = append(out, jsonForms(v)...)
	if len(v) >= 6 { // shorter ones leave too little of themselves
		out = append(out, hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v))))
		out = append(out, base64Forms(v)...)
	}
	return out
}

// lowerEscapes writes the digits of %XX in lower case.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// jsonForms are v as encoders write it inside a JSON string: with and without
// escapes for HTML, with \/ and with \u for what is not ASCII.
func jsonForms(v string) []string {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return nil
	}
	bare := strings.Trim(strings.TrimSpace(plain.String()), "\n")
	bare = bare[1 : len(bare)-1]
	escaped, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	web := string(escaped[1 : len(escaped)-1])
	out := []string{bare, web}
	for _, s := range []string{bare, web} {
		slashed := strings.ReplaceAll(s, "/", `\/`)
		out = append(out, slashed, ascii(s, false), ascii(s, true), ascii(slashed, false), ascii(slashed, true))
	}
	return out
}

// ascii writes what is not ASCII as \uXXXX.
func ascii(s string, upper bool) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			digits := strconv.FormatUint(0x10000|uint64(unit), 16)[1:]
			if upper {
				digits = strings.ToUpper(digits)
			}
			b.WriteString(`\u` + digits)
		}
	}
	return b.String()
}

// base64Forms are v in base64, and what is left of it in base64 when it stands
// at any place in a longer text, as the password in user:password does.
func base64Forms(v string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		out = append(out, enc.EncodeToString([]byte(v)))
		for shift := range 3 {
			padded := append(make([]byte, shift), v...)
			text := enc.WithPadding(base64.NoPadding).EncodeToString(padded)
			from := (shift*8 + 5) / 6 // the first character that holds bits of v alone
			to := len(padded) * 8 / 6 // after the last such
			out = append(out, text[from:to])
		}
	}
	return out
}

// added returns what Authorize put on a request: every new or changed value of
// a header or of the query, and what such a value is made of.
func added(before, after http.Header, queryBefore, queryAfter string) []string {
	var out []string
	for name, values := range after {
		for _, v := range values {
			if !slices.Contains(before[name], v) {
				out = append(out, parts(name, v)...)
			}
		}
	}
	if queryBefore == queryAfter {
		return out
	}
	// A query that does not parse gives what does.
	was, _ := url.ParseQuery(queryBefore)
	is, _ := url.ParseQuery(queryAfter)
	for key, values := range is {
		for _, v := range values {
			if !slices.Contains(was[key], v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// parts are the secrets in the value of a header: all of it, what follows the
// scheme, what Basic encodes, and the values of its parameters.
func parts(name, value string) []string {
	value = strings.TrimSpace(value)
	out := []string{value}
	scheme, rest, ok := strings.Cut(value, " ")
	if ok {
		rest = strings.TrimSpace(rest)
		out = append(out, rest)
	}
	if ok && strings.EqualFold(scheme, "Basic") {
		return append(out, basic(rest)...)
	}
	long := 8
	if name == "Cookie" {
		long = minSecret
	}
	for _, field := range strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' || r == ';' }) {
		if _, v, ok := strings.Cut(field, "="); ok && len(strings.Trim(v, `"`)) >= long {
			out = append(out, strings.Trim(v, `"`))
		}
	}
	return out
}

// basic returns the parts of a Basic credential. The user's name counts when it
// is likely to be a key: where the password is no secret, or where it is long
// and no mail address. A name such as "user" is in every answer's member names,
// and cutting it out would spoil them.
func basic(encoded string) []string {
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	user, password, _ := strings.Cut(string(b), ":")
	out := []string{string(b), password}
	if len(password) < minSecret || len(user) >= 16 && !strings.Contains(user, "@") {
		out = append(out, user)
	}
	return out
}
