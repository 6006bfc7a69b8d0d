package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// Unit says how a scheme writes its time.
type Unit uint8

const (
	Seconds      Unit = iota // since 1970
	Milliseconds             // since 1970
	RFC3339                  // 2006-01-02T15:04:05Z07:00
)

// HMAC describes a scheme: HMAC-SHA256 over some of the request, in a header.
// Most providers have one of this kind. Box, for one, is
//
//	webhook.HMAC{Name: "box", Headers: []string{"Box-Signature-Primary", "Box-Signature-Secondary"}, Base64: true,
//		Signed: "{body}{timestamp}", Timestamp: "Box-Delivery-Timestamp", Unit: webhook.RFC3339, ID: "Box-Delivery-Id"}
type HMAC struct {
	Name    string   // of the scheme: one line
	Headers []string // that can hold the signature; one is enough, none may be there twice
	Prefix  string   // of the signature, such as "sha256="
	Base64  bool     // standard, with padding; false: hexadecimal
	HexKey  bool     // the secret is hexadecimal for the key; false: it is the key

	// Signed is what the signature is over, "{body}" if empty, with the words
	// {body}, {timestamp}, {id}, {method} and {url} for those. It must have
	// {body}.
	Signed string

	Timestamp string // header of the signed time; "": no time is signed
	Unit      Unit

	ID   string // header of the delivery's id; "": a digest of the body is the id
	Type string // header of the event's type; may be empty

	// IDAt and TypeAt are where the same are in a body of JSON: pointers of RFC
	// 6901. What is there is signed, and comes before the headers.
	IDAt, TypeAt string

	// URL is the public address of the endpoint without its query, for schemes
	// that sign {url}. The query is the request's.
	URL string
}

// pieces are words and texts, in turns.
type pieces []string

func (h *HMAC) pieces() (pieces, error) {
	text := h.Signed
	if text == "" {
		text = "{body}"
	}
	var out pieces
	for text != "" {
		before, after, found := strings.Cut(text, "{")
		out = append(out, before)
		if !found {
			break
		}
		word, rest, closed := strings.Cut(after, "}")
		switch word {
		case "body", "timestamp", "id", "method", "url":
		default:
			return nil, fmt.Errorf("%w: Signed has the word {%.20s}, want body, timestamp, id, method or url", ErrOptions, word)
		}
		if !closed {
			return nil, fmt.Errorf("%w: a word in Signed has no end", ErrOptions)
		}
		out, text = append(out, word), rest
	}
	return out, nil
}

func (p pieces) has(word string) bool {
	for i := 1; i < len(p); i += 2 {
		if p[i] == word {
			return true
		}
	}
	return false
}

func (h *HMAC) check(p pieces) error {
	why := ""
	switch {
	case !isName(h.Name):
		why = "want a Name"
	case len(h.Headers) == 0 || h.Headers[0] == "":
		why = "want a header that holds the signature"
	case !p.has("body"):
		why = "what is signed must have {body}: otherwise nothing is known about it"
	case p.has("timestamp") != (h.Timestamp != ""):
		why = "{timestamp} and Timestamp belong together: a time that is not signed proves nothing"
	case p.has("id") && h.ID == "":
		why = "{id} wants ID"
	case p.has("url") != (h.URL != ""):
		why = "{url} and URL belong together"
	}
	if why != "" {
		return fmt.Errorf("%w: %s", ErrOptions, why)
	}
	if h.URL == "" {
		return nil
	}
	return checkURL(h.URL)
}

// checkURL refuses an address that nobody can have signed.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("%w: want the public address of the endpoint as the provider has it, with scheme and host and without a query (that is the request's)", ErrOptions)
	}
	return nil
}

func withQuery(base, query string) string {
	if query == "" {
		return base
	}
	return base + "?" + query
}

// NewHMAC returns a Verifier for a scheme. It fails with ErrOptions.
func NewHMAC(scheme HMAC, secrets []string, opts *Options) (*Verifier, error) {
	return scheme.verifier(secrets, opts, func(key []byte) hash.Hash { return hmac.New(sha256.New, key) })
}

// verifier builds a Verifier that makes MACs in the given way.
func (h HMAC) verifier(secrets []string, opts *Options, mac func(key []byte) hash.Hash) (*Verifier, error) {
	p, err := h.pieces()
	if err != nil {
		return nil, err
	}
	if err := h.check(p); err != nil {
		return nil, err
	}
	o, err := settings(opts)
	if err != nil {
		return nil, err
	}
	var decode func(string) ([]byte, error)
	if h.HexKey {
		decode = hex.DecodeString
	}
	ks, err := keys(secrets, decode)
	if err != nil {
		return nil, err
	}
	idSigned := p.has("id")
	return &Verifier{name: h.Name, check: func(r *Request, at time.Time) (Delivery, error) {
		d, stamp, err := h.read(r)
		if err != nil {
			return d, err
		}
		if err := h.signature(r, p, ks, mac, d.ID, stamp); err != nil {
			return d, err
		}
		if stamp != "" {
			if d.SignedAt, err = instant(stamp, h.Unit); err == nil {
				err = within(d.SignedAt, at, o.Tolerance)
			}
		}
		if !h.inside(r.Body, &d) && !idSigned && d.ID != "" && !o.RepeatedBodies {
			d.Digest = digest(r.Body)
		}
		return d, err
	}}, nil
}

// read takes the headers but for the signature. Nothing of it is believed yet.
func (h *HMAC) read(r *Request) (d Delivery, stamp string, err error) {
	if h.Timestamp != "" {
		if stamp, err = one(r.Header, h.Timestamp); err != nil {
			return d, "", err
		}
	}
	if d.ID, err = atMostOne(r.Header, h.ID); err != nil {
		return d, "", err
	}
	d.Type, err = atMostOne(r.Header, h.Type)
	return d, stamp, err
}

// inside takes id and type from a signed body, and reports whether the id was
// there.
func (h *HMAC) inside(body []byte, d *Delivery) bool {
	if h.IDAt == "" && h.TypeAt == "" {
		return false
	}
	v, err := strictjson.Parse(body)
	if err != nil {
		return false
	}
	if s := nameAt(v, h.TypeAt); s != "" {
		d.Type = s
	}
	s := nameAt(v, h.IDAt)
	if s != "" {
		d.ID = s
	}
	return s != ""
}

// nameAt returns a text or a number at a pointer, or "".
func nameAt(v any, pointer string) string {
	if pointer == "" {
		return ""
	}
	at, _ := strictjson.Lookup(v, pointer)
	s := ""
	switch at := at.(type) {
	case string:
		s = at
	case interface{ String() string }: // json.Number
		s = at.String()
	}
	if !isName(s) {
		return ""
	}
	return s
}

// signature reports whether one of the headers holds what one of the keys makes
// of the request.
func (h *HMAC) signature(r *Request, p pieces, ks [][]byte, mac func([]byte) hash.Hash, id, stamp string) error {
	var given [][]byte
	for _, name := range h.Headers {
		if len(r.Header.Values(name)) == 0 && len(h.Headers) > 1 {
			continue
		}
		line, err := one(r.Header, name)
		if err != nil {
			return err
		}
		sig, ok := h.decode(line)
		if !ok {
			return refuse(name+" is not in the form of the scheme", ErrHeader)
		}
		given = append(given, sig)
	}
	if given == nil {
		return refuse("no header holds a signature", ErrHeader)
	}
	for _, k := range ks {
		m := mac(k)
		p.write(m, h.URL, r, id, stamp)
		sum := m.Sum(nil)
		for _, sig := range given {
			if hmac.Equal(sum, sig) {
				return nil
			}
		}
	}
	return refuse("check the secret, and that nothing before this handler changes the body", ErrSignature)
}

func (p pieces) write(m hash.Hash, base string, r *Request, id, stamp string) {
	for i, s := range p {
		if i%2 == 1 {
			switch s {
			case "body":
				m.Write(r.Body)
				continue
			case "timestamp":
				s = stamp
			case "id":
				s = id
			case "method":
				s = r.Method
			case "url":
				s = withQuery(base, r.RawQuery)
			}
		}
		m.Write([]byte(s))
	}
}

func (h *HMAC) decode(line string) ([]byte, bool) {
	text, ok := strings.CutPrefix(line, h.Prefix)
	if !ok || len(text) > 2*sha256.Size {
		return nil, false
	}
	var b []byte
	var err error
	if h.Base64 {
		b, err = base64.StdEncoding.Strict().DecodeString(text)
	} else {
		b, err = hex.DecodeString(text)
	}
	return b, err == nil && len(b) == sha256.Size
}

// instant reads a signed time. Only digits are one: no sign, no fraction, no
// space, and nothing that overflows.
func instant(text string, unit Unit) (time.Time, error) {
	if unit == RFC3339 {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return t, refuse("the signed time is not in the form of RFC 3339", ErrHeader)
		}
		return t.UTC(), nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || text[0] == '+' || n > 1<<44 {
		return time.Time{}, refuse("the signed time is not a number of the expected kind", ErrHeader)
	}
	if unit == Milliseconds {
		return time.UnixMilli(int64(n)).UTC(), nil
	}
	return time.Unix(int64(n), 0).UTC(), nil
}

// within refuses times that are far from the receipt, early or late.
func within(signed, at time.Time, tolerance time.Duration) error {
	if d := at.Sub(signed); d > tolerance || d < -tolerance {
		return refuse("it is too old, or this machine's clock is wrong", ErrTimestamp)
	}
	return nil
}
