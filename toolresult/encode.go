package toolresult

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// A member is a name and a value of a JSON object.
type member struct {
	name  string
	value json.RawMessage // JSON
}

// An encoder appends JSON to b. Its text is a fixed point of every setting of
// encoding/json: no spaces, and <, >, &, U+2028 and U+2029 escaped. The first
// error stays.
type encoder struct {
	b   []byte
	err error
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// open begins an object or, with '[', an array.
func (e *encoder) open(c byte)  { e.b = append(e.b, c) }
func (e *encoder) close(c byte) { e.b = append(e.b, c) }

// next separates members and elements.
func (e *encoder) next() {
	if c := e.b[len(e.b)-1]; c != '{' && c != '[' {
		e.b = append(e.b, ',')
	}
}

// name is for names that need no escapes.
func (e *encoder) name(name string) {
	e.next()
	e.b = append(append(append(e.b, '"'), name...), '"', ':')
}

func (e *encoder) str(name, value string) {
	e.name(name)
	e.b = appendString(e.b, value)
}

// strIf leaves an empty value out.
func (e *encoder) strIf(name, value string) {
	if value != "" {
		e.str(name, value)
	}
}

// strOrNull writes an empty value as null.
func (e *encoder) strOrNull(name, value string) {
	if value == "" {
		e.null(name)
		return
	}
	e.str(name, value)
}

func (e *encoder) null(name string) {
	e.name(name)
	e.b = append(e.b, "null"...)
}

func (e *encoder) boolean(name string, value bool) {
	e.name(name)
	e.b = strconv.AppendBool(e.b, value)
}

func (e *encoder) integer(name string, value int64) {
	e.name(name)
	e.b = strconv.AppendInt(e.b, value, 10)
}

// timeIf leaves a zero time out.
func (e *encoder) timeIf(name string, t time.Time) {
	switch {
	case t.IsZero():
	case !writable(t):
		e.fail(fmt.Errorf("toolresult: %s: the year is out of range", name))
	default:
		e.name(name)
		e.b = append(t.UTC().AppendFormat(append(e.b, '"'), time.RFC3339Nano), '"')
	}
}

// raw writes a value that may be something else than JSON.
func (e *encoder) raw(name string, value json.RawMessage) {
	if !json.Valid(value) || !utf8.Valid(value) {
		e.fail(fmt.Errorf("toolresult: %s is not JSON in UTF-8", name))
		return
	}
	e.name(name)
	e.b = appendCompact(e.b, value)
}

// rest writes the members of a newer peer.
func (e *encoder) rest(members []member) {
	for _, m := range members {
		e.next()
		e.b = append(appendString(e.b, m.name), ':')
		e.b = appendCompact(e.b, m.value)
	}
}

const hexDigits = "0123456789abcdef"

// appendString is encoding/json's form of s, except that a byte that is not
// UTF-8 becomes the character U+FFFD and not its escape: the escape would be
// another text after decoding and encoding again.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
				i++
				continue
			}
			dst = appendEscape(append(dst, s[from:i]...), c)
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[from:i]...), "\uFFFD"...)
			from = i + size
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[from:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xF])
			from = i + size
		}
		i += size
	}
	return append(append(dst, s[from:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
}

// appendCompact is json.Compact and json.HTMLEscape in one, for a text that is
// JSON: outside of strings there are only ASCII characters.
func appendCompact(dst, text []byte) []byte {
	from := 0
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++
		case c == '<' || c == '>' || c == '&':
			dst = appendEscape(append(dst, text[from:i]...), c)
			from = i + 1
		case c == 0xE2 && i+2 < len(text) && text[i+1] == 0x80 && text[i+2]&^1 == 0xA8: // U+2028, U+2029
			dst = append(append(dst, text[from:i]...), `\u202`...)
			dst = append(dst, hexDigits[text[i+2]&0xF])
			i += 2
			from = i + 1
		case c <= ' ' && !quoted:
			dst = append(dst, text[from:i]...)
			from = i + 1
		}
	}
	return append(dst, text[from:]...)
}

// done returns what was written.
func (e *encoder) done() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	return e.b, nil
}

// MarshalJSON implements [json.Marshaler]. It does not validate: what is
// invalid is written as it is, so that it can be seen. It fails only on what
// JSON cannot say: Data that is not JSON in UTF-8, a year of more than four
// digits, and Sources nested over their limit.
func (r Result) MarshalJSON() ([]byte, error) {
	return r.AppendJSON(make([]byte, 0, 512+len(r.Summary)+len(r.Data)+len(r.NextCursor)))
}

// AppendJSON appends what MarshalJSON returns to dst and returns the extended
// slice. json.Marshal checks and copies the bytes of every Marshaler again;
// AppendJSON does not. dst is not extended on an error.
func (r *Result) AppendJSON(dst []byte) ([]byte, error) {
	e := encoder{b: dst}
	e.result(r)
	if e.err != nil {
		return dst, e.err
	}
	return e.b, nil
}

func (e *encoder) result(r *Result) {
	e.open('{')
	e.str("call_id", r.CallID)
	e.str("status", string(r.Status))
	e.str("summary", r.Summary)
	if r.Data != nil {
		e.raw("data", r.Data)
	}
	e.strIf("data_ref", r.DataRef)
	e.name("coverage")
	e.coverage(r.Coverage)
	e.name("effect")
	e.effect(r.Effect)
	e.boolean("truncated", r.Truncated)
	e.strOrNull("next_cursor", r.NextCursor)
	if r.Error == nil {
		e.null("error")
	} else {
		e.name("error")
		e.error(r.Error)
	}
	e.name("provenance")
	e.provenance(&r.Provenance, 0)
	e.str("verification_state", r.Verification.String())
	e.rest(r.unknown)
	e.close('}')
}

// MarshalJSON implements [json.Marshaler].
func (c Coverage) MarshalJSON() ([]byte, error) {
	var e encoder
	e.coverage(c)
	return e.done()
}

func (e *encoder) coverage(c Coverage) {
	e.open('{')
	e.boolean("complete", c.Complete)
	e.name("missing")
	e.open('[')
	for _, g := range c.Missing {
		e.next()
		e.b = appendString(e.b, string(g))
	}
	e.close(']')
	e.close('}')
}

// MarshalJSON implements [json.Marshaler].
func (x Effect) MarshalJSON() ([]byte, error) {
	var e encoder
	e.effect(x)
	return e.done()
}

func (e *encoder) effect(x Effect) {
	e.open('{')
	e.str("disposition", x.Disposition.String())
	e.strOrNull("operation_id", x.OperationID)
	e.close('}')
}

// MarshalJSON implements [json.Marshaler]. The cause is not written; Problems
// and Diagnostics are written within their bounds, whoever filled them.
func (e Error) MarshalJSON() ([]byte, error) {
	var enc encoder
	enc.error(&e)
	return enc.done()
}

func (e *encoder) error(x *Error) {
	info := x.Code.Info()
	e.open('{')
	e.str("code", string(x.Code))
	e.str("message", string(x.Message))
	e.boolean("retryable", x.Retryable)
	if s := x.retrySeconds(); s > 0 {
		e.integer("retry_after_seconds", s)
	} else {
		e.null("retry_after_seconds")
	}
	e.str("actor", string(info.Actor))
	e.str("next_step", string(info.Next))
	e.details(x)
	e.rest(x.unknown)
	e.close('}')
}

// details writes the members of an error that are left out when empty.
func (e *encoder) details(x *Error) {
	if len(x.Problems) > 0 {
		e.name("problems")
		e.open('[')
		for _, p := range x.Problems {
			e.next()
			e.problem(p)
		}
		e.close(']')
	}
	if x.Connect != nil {
		e.name("connect")
		e.connect(x.Connect)
	}
	if x.Approval != nil {
		e.name("approval")
		e.approval(x.Approval)
	}
	if x.Diagnostics != (Diagnostics{}) {
		e.name("diagnostics")
		e.diagnostics(x.Diagnostics)
	}
}

// MarshalJSON implements [json.Marshaler]. Both members are one line of at
// most 1024 bytes.
func (p Problem) MarshalJSON() ([]byte, error) {
	var e encoder
	e.problem(p)
	return e.done()
}

func (e *encoder) problem(p Problem) {
	e.open('{')
	e.str("pointer", oneLine(p.Pointer, maxMessage))
	e.str("text", oneLine(p.Text, maxMessage))
	e.close('}')
}

// MarshalJSON implements [json.Marshaler].
func (s ConnectStep) MarshalJSON() ([]byte, error) {
	var e encoder
	e.connect(&s)
	return e.done()
}

func (e *encoder) connect(s *ConnectStep) {
	e.open('{')
	e.str("provider", s.Provider)
	e.str("url", s.URL)
	if len(s.Missing) > 0 {
		e.name("missing_scopes")
		e.open('[')
		for _, m := range s.Missing {
			e.next()
			e.b = appendString(e.b, m)
		}
		e.close(']')
	}
	e.timeIf("expires_at", s.Expires)
	e.close('}')
}

// MarshalJSON implements [json.Marshaler].
func (s ApprovalStep) MarshalJSON() ([]byte, error) {
	var e encoder
	e.approval(&s)
	return e.done()
}

func (e *encoder) approval(s *ApprovalStep) {
	e.open('{')
	e.str("id", s.ID)
	e.strIf("url", s.URL)
	e.str("digest", s.Digest)
	e.strIf("rendering", s.Rendering)
	e.timeIf("expires_at", s.Expires)
	e.close('}')
}

// MarshalJSON implements [json.Marshaler]. It writes d.Bounded.
func (d Diagnostics) MarshalJSON() ([]byte, error) {
	var e encoder
	e.diagnostics(d)
	return e.done()
}

func (e *encoder) diagnostics(d Diagnostics) {
	d = d.Bounded()
	e.open('{')
	e.strIf("provider", d.Provider)
	e.strIf("provider_code", d.ProviderCode)
	e.strIf("provider_request_id", d.RequestID)
	if d.HTTPStatus != 0 {
		e.integer("http_status", int64(d.HTTPStatus))
	}
	e.strIf("untrusted_text", d.ProviderText)
	e.close('}')
}

// MarshalJSON implements [json.Marshaler]. Empty members are left out.
func (p Provenance) MarshalJSON() ([]byte, error) {
	var e encoder
	e.provenance(&p, 0)
	return e.done()
}

var errSources = errors.New("toolresult: provenance: sources are nested too deeply")

func (e *encoder) provenance(p *Provenance, depth int) {
	if depth > maxSources { // also ends a slice that holds itself
		e.fail(errSources)
		return
	}
	e.open('{')
	e.strIf("service", p.Service)
	e.strIf("object", p.Object)
	e.strIf("source_version", p.Version)
	e.strIf("source_url", p.URL)
	e.window(p.Window)
	e.timeIf("fetched_at", p.FetchedAt)
	e.strIf("provider_request_id", p.RequestID)
	e.str("trust", p.Trust.String())
	if len(p.Sources) > 0 {
		e.name("sources")
		e.open('[')
		for i := range p.Sources {
			e.next()
			e.provenance(&p.Sources[i], depth+1)
		}
		e.close(']')
	}
	e.rest(p.unknown)
	e.close('}')
}

func (e *encoder) window(i Interval) {
	switch {
	case i.text != "":
		e.str("window", i.text)
	case !i.IsZero():
		e.name("window")
		e.b = append(i.appendTo(append(e.b, '"')), '"')
	}
}
