package bearer

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// secret is a token that no verb of package fmt and no encoder prints: a
// function prints as an address at most.
type secret func() string

// hash is what RFC 9449 calls ath.
func (s secret) hash() string {
	sum := sha256.Sum256([]byte(s()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

const (
	maxToken = 16 << 10 // bytes, before anything is decoded

	schemeBearer = "Bearer"
	schemeDPoP   = "DPoP"
)

// presented finds the token of a request: in the header Authorization, once,
// and nowhere else (RFC 6750, section 2). dpop says whether the scheme DPoP is
// known too.
func presented(r *http.Request, dpop bool) (scheme string, token secret, f *failure) {
	values := r.Header["Authorization"]
	switch {
	case inQuery(r.URL.RawQuery):
		return "", nil, &failure{kind: malformed, why: "a token in the query"}
	case len(values) > 1:
		return "", nil, &failure{kind: malformed, why: "more than one Authorization header"}
	case len(values) == 0:
		return "", nil, &failure{kind: noToken, why: "no Authorization header"}
	}
	return parseAuthorization(values[0], dpop)
}

// parseAuthorization reads "Bearer" 1*SP b64token, with the scheme in any case
// (RFC 6750, section 2.1; RFC 9110, section 11.1).
func parseAuthorization(value string, dpop bool) (scheme string, token secret, f *failure) {
	name, rest, _ := strings.Cut(value, " ")
	switch {
	case strings.EqualFold(name, schemeBearer):
		scheme = schemeBearer
	case dpop && strings.EqualFold(name, schemeDPoP):
		scheme = schemeDPoP
	default:
		return "", nil, &failure{kind: noToken, why: "an Authorization header of another scheme"}
	}
	text := strings.TrimLeft(rest, " ")
	if !isB64Token(text) {
		return "", nil, &failure{kind: malformed, why: "an Authorization header that holds no single token"}
	}
	return scheme, func() string { return text }, nil
}

func isB64Token(s string) bool {
	body := strings.TrimRight(s, "=")
	for _, c := range []byte(body) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~+/", c) >= 0:
		default:
			return false
		}
	}
	return body != ""
}

// inQuery reports whether a query or a form holds the parameter access_token,
// however it is separated and escaped.
func inQuery(raw string) bool {
	for pair := range strings.FieldsFuncSeq(raw, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if name == "access_token" {
			return true
		}
	}
	return false
}

// A signed is a token in the form of a JWS, with nothing of it verified.
type signed struct {
	header, payload map[string]any
}

// A shape is what a token looks like.
type shape uint8

const (
	opaque    shape = iota // only its issuer can read it
	jws                    // a JWS in the compact form
	ambiguous              // a JWS that two readers could read differently
)

// parseSigned tells the shape of a token, and decodes a JWS. Three parts of
// which the first is a JOSE header are a JWS; it is then refused rather than
// called opaque when its texts break a rule (RFC 7515, section 5.2, with equal
// names refused; RFC 7519, section 4).
func parseSigned(token string) (signed, shape) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return signed{}, opaque
	}
	first, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || len(first) == 0 || first[0] != '{' {
		return signed{}, opaque
	}
	header, ok := object(parts[0])
	payload, ok2 := object(parts[1])
	_, err = base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if !ok || !ok2 || err != nil || parts[2] == "" {
		return signed{}, ambiguous
	}
	return signed{header, payload}, jws
}

// object decodes one part of a JWS. Decoding is strict: the alphabet has no
// padding, no line breaks, and no bits that mean nothing.
func object(part string) (map[string]any, bool) {
	if strings.ContainsAny(part, "\r\n") {
		return nil, false
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, false
	}
	v, err := strictjson.Parse(text)
	m, ok := v.(map[string]any)
	return m, err == nil && ok
}
