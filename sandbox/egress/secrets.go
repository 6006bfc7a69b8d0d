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
	forms  [][]byte // longest first, so that a part does not spoil the whole
	whole  []field  // headers whose parts are all among the values
}

// field is a value of a header.
type field struct{ name, value string }

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
	out.forms = make([][]byte, 0, 16*len(out.values))
	for _, v := range out.values {
		out.forms = appendForms(out.forms, v)
	}
	slices.SortFunc(out.forms, func(a, b []byte) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), bytes.Compare(a, b))
	})
	out.forms = slices.CompactFunc(out.forms, bytes.Equal)
	return out
}

// from returns secrets that also know what Authorize put on a request: every new
// or changed value of a header or of the query, and what such a value is made
// of. It does not change s.
func (s *secrets) from(before, after http.Header, queryBefore, queryAfter string) *secrets {
	var fresh []field
	for name, values := range after {
		for _, v := range values {
			f := field{name, v}
			if !given(before, name, v) && (s == nil || !slices.Contains(s.whole, f)) {
				fresh = append(fresh, f)
			}
		}
	}
	if len(fresh) == 0 && queryBefore == queryAfter {
		return s // as with every request but the first
	}
	var values []string
	for _, f := range fresh {
		values = append(values, parts(f.name, f.value)...)
	}
	out := s.with(append(values, addedQuery(queryBefore, queryAfter)...))
	if out == s || len(out.values) == maxSecrets { // as it was, or some may be forgotten
		return out
	}
	out.whole = fresh
	if s != nil {
		out.whole = append(fresh, s.whole...)
	}
	return out
}

// given reports whether a header of the handler's had the value already. The
// encoding is never a secret.
func given(before http.Header, name, value string) bool {
	if slices.Contains(before[name], value) || name == "Accept-Encoding" {
		return true
	}
	for key, values := range before { // a hook may have written it in another way
		if key != name && strings.EqualFold(key, name) && slices.Contains(values, value) {
			return true
		}
	}
	return false
}

// scrub returns b without the secrets; b itself if it holds none.
func (s *secrets) scrub(b []byte) []byte {
	if s == nil {
		return b
	}
	for _, form := range s.forms {
		if bytes.Contains(b, form) {
			b = bytes.ReplaceAll(b, form, []byte(redacted))
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
		t = strings.ReplaceAll(t, string(form), redacted)
	}
	return t
}

// header cuts the secrets out of h, and removes Set-Cookie and headers whose
// very name holds one.
func (s *secrets) header(h http.Header) {
	delete(h, "Set-Cookie")
	if !s.within(h) {
		return
	}
	for name, values := range h {
		if s.text(name) != name || s.text(strings.ToLower(name)) != strings.ToLower(name) {
			delete(h, name)
			continue
		}
		for i, v := range values {
			values[i] = s.text(v)
		}
	}
}

// within reports whether any secret is in h, or across two of its values.
func (s *secrets) within(h http.Header) bool {
	if s == nil {
		return false
	}
	var room [1 << 10]byte
	b := room[:0]
	for name, values := range h {
		b = append(append(b, name...), '\n')
		for _, c := range []byte(name) {
			b = append(b, lower(c))
		}
		for _, v := range values {
			b = append(append(b, '\n'), v...)
		}
		b = append(b, '\n')
	}
	return slices.ContainsFunc(s.forms, func(form []byte) bool { return bytes.Contains(b, form) })
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// appendForms appends the ways in which software writes v.
func appendForms(out [][]byte, v string) [][]byte {
	out = append(out, []byte(v))
	if !plain(v) {
		for _, form := range escapes(v) {
			out = append(out, []byte(form))
		}
	}
	if len(v) >= 6 { // shorter ones leave too little of themselves
		digits := hex.AppendEncode(nil, []byte(v))
		out = append(out, digits, bytes.ToUpper(digits))
		out = appendBase64(out, v)
	}
	return out
}

// escapes are v as URLs, HTML and JSON hold it, where that is not v itself.
func escapes(v string) []string {
	query, path := url.QueryEscape(v), url.PathEscape(v)
	out := []string{query, path, lowerEscapes(query), lowerEscapes(path)}
	if strings.ContainsAny(v, `<>&'"`) {
		out = append(out, html.EscapeString(v))
	}
	other := func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&/`, r) }
	if strings.ContainsFunc(v, other) {
		out = append(out, jsonForms(v)...)
	}
	return out
}

// plain reports whether URLs, HTML and JSON hold v as it is.
func plain(v string) bool {
	for _, c := range []byte(v) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' && c != '~' {
			return false
		}
	}
	return true
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
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) {
		return s
	}
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

// appendBase64 appends v in base64, and what is left of it in base64 when it
// stands at any place in a longer text, as the password in user:password does.
func appendBase64(out [][]byte, v string) [][]byte {
	first := len(out)
	out = append(out, base64.StdEncoding.AppendEncode(nil, []byte(v)))
	var room [256]byte
	for shift := range 3 {
		padded := append(room[:shift], v...)
		text := base64.RawStdEncoding.AppendEncode(nil, padded)
		from := (shift*8 + 5) / 6 // the first character that holds bits of v alone
		to := len(padded) * 8 / 6 // after the last such
		out = append(out, text[from:to])
	}
	for _, text := range out[first:] {
		if bytes.ContainsAny(text, "+/") { // URLs have an alphabet of their own
			out = append(out, bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("+"), []byte("-")), []byte("/"), []byte("_")))
		}
	}
	return out
}

// addedQuery returns every new or changed value of the query. One that does not
// parse gives what does.
func addedQuery(before, after string) []string {
	if before == after {
		return nil
	}
	var out []string
	was, _ := url.ParseQuery(before)
	is, _ := url.ParseQuery(after)
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
