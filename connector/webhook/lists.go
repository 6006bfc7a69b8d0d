package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// maxSignatures is how many signatures one header may hold: enough for any
// rotation, and few enough that a forged header costs little to refuse.
const maxSignatures = 32

// Stripe returns a Verifier for Stripe: HMAC-SHA256 over "time.body", as v1 in
// Stripe-Signature, keyed with the endpoint's secret as it is written, "whsec_"
// and all (docs.stripe.com/webhooks/signature). Other than Stripe's libraries it
// refuses times in the future as well.
func Stripe(secrets []string, opts *Options) (*Verifier, error) {
	o, err1 := settings(opts)
	ks, err2 := keys(secrets, nil)
	if err1 != nil || err2 != nil {
		return nil, first(err1, err2)
	}
	where := HMAC{IDAt: "/id", TypeAt: "/type"}
	return &Verifier{name: "stripe", check: func(r *Request, at time.Time) (d Delivery, err error) {
		line, err := one(r.Header, "Stripe-Signature")
		if err != nil {
			return d, err
		}
		stamp, given, err := stripeHeader(line)
		if err != nil {
			return d, err
		}
		if !anyMAC(ks, given, []byte(stamp), []byte("."), r.Body) {
			return d, refuse("check the secret, and that nothing before this handler changes the body", ErrSignature)
		}
		if d.SignedAt, err = instant(stamp, Seconds); err == nil {
			err = within(d.SignedAt, at, o.Tolerance)
		}
		where.inside(r.Body, &d)
		return d, err
	}}, nil
}

// stripeHeader reads "t=1,v1=...,v1=...,v0=...". Schemes other than v1 are left
// out; v0 is for test events.
func stripeHeader(line string) (stamp string, given [][]byte, err error) {
	parts := strings.Split(line, ",")
	if len(parts) > maxSignatures {
		return "", nil, refuse("Stripe-Signature has too many parts", ErrHeader)
	}
	for _, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok:
			return "", nil, refuse("Stripe-Signature is not a list of name=value", ErrHeader)
		case name == "t" && stamp != "":
			return "", nil, refuse("Stripe-Signature has two times", ErrHeader)
		case name == "t":
			stamp = value
		case name == "v1":
			if b, err := hex.DecodeString(value); err == nil && len(b) == sha256.Size {
				given = append(given, b)
			}
		}
	}
	if stamp == "" || given == nil {
		return "", nil, refuse("Stripe-Signature has no time or no v1 signature", ErrHeader)
	}
	return stamp, given, nil
}

// anyMAC reports whether one of the signatures is one of the keys' over the
// parts.
func anyMAC(ks, given [][]byte, parts ...[]byte) bool {
	for _, k := range ks {
		m := hmac.New(sha256.New, k)
		for _, p := range parts {
			m.Write(p)
		}
		sum := m.Sum(nil)
		for _, g := range given {
			if hmac.Equal(sum, g) {
				return true
			}
		}
	}
	return false
}

// StandardWebhooks returns a Verifier for Standard Webhooks and Svix, whose
// headers differ in their names only (standardwebhooks.com, specification 1.0).
// A secret is "whsec_" and the base64 of the key, or that alone: HMAC-SHA256. A
// public key is "whpk_" and the base64 of the key: Ed25519. Both kinds may be
// given at once. A signature counts only for keys of its own kind.
func StandardWebhooks(secrets []string, opts *Options) (*Verifier, error) {
	o, err := settings(opts)
	if err != nil {
		return nil, err
	}
	var s standardKeys
	if _, err := keys(secrets, s.add); err != nil {
		return nil, err
	}
	return &Verifier{name: "standard-webhooks", check: func(r *Request, at time.Time) (d Delivery, err error) {
		h, err := standardHeaders(r.Header)
		if err != nil {
			return d, err
		}
		if err := s.verify(h, r.Body); err != nil {
			return d, err
		}
		if d.SignedAt, err = instant(h.stamp, Seconds); err == nil {
			err = within(d.SignedAt, at, o.Tolerance)
		}
		d.ID = h.id
		where := HMAC{TypeAt: "/type"}
		where.inside(r.Body, &d)
		return d, err
	}}, nil
}

type standardKeys struct {
	secret [][]byte
	public []ed25519.PublicKey
}

var errForm = errors.New("webhook: not a key")

// add sorts a key by its prefix. A private one is none to verify with.
func (s *standardKeys) add(text string) ([]byte, error) {
	kind, rest, ok := strings.Cut(text, "_")
	if !ok {
		kind, rest = "whsec", text
	}
	b, err := base64.StdEncoding.Strict().DecodeString(rest)
	switch {
	case err != nil:
		return nil, err
	case kind == "whsec":
		s.secret = append(s.secret, b)
	case kind == "whpk" && len(b) == ed25519.PublicKeySize:
		s.public = append(s.public, b)
	default:
		return nil, errForm
	}
	return b, nil
}

type standardHeader struct{ id, stamp, signatures string }

// standardHeaders takes the three headers from one family: those of the
// standard, or Svix's where there is none of these.
func standardHeaders(from http.Header) (h standardHeader, err error) {
	family := "Webhook-"
	if len(from.Values("Webhook-Id"))+len(from.Values("Webhook-Signature"))+len(from.Values("Webhook-Timestamp")) == 0 {
		family = "Svix-"
	}
	var errs [3]error
	h.id, errs[0] = one(from, family+"Id")
	h.stamp, errs[1] = one(from, family+"Timestamp")
	h.signatures, errs[2] = one(from, family+"Signature")
	if err := first(errs[:]...); err != nil {
		return h, err
	}
	if !isName(h.id) || strings.Contains(h.id, ".") { // "a.1" and "1" would sign what "a" and "1.1" do
		return h, refuse(family+"Id is not one line of at most 256 bytes without a dot", ErrHeader)
	}
	return h, nil
}

func (s *standardKeys) verify(h standardHeader, body []byte) error {
	list := strings.Split(h.signatures, " ")
	if len(list) > maxSignatures {
		return refuse(fmt.Sprintf("there are more than %d signatures", maxSignatures), ErrHeader)
	}
	head := []byte(h.id + "." + h.stamp + ".")
	for _, entry := range list {
		version, text, _ := strings.Cut(entry, ",")
		sig, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(sig) == 0 {
			continue // not ours: the list is for several receivers of several ages
		}
		switch {
		case version == "v1" && anyMAC(s.secret, [][]byte{sig}, head, body):
			return nil
		case version == "v1a" && s.public != nil:
			text := append(head[:len(head):len(head)], body...)
			for _, k := range s.public {
				if ed25519.Verify(k, text, sig) {
					return nil
				}
			}
		}
	}
	return refuse("check the key, and that nothing before this handler changes the body", ErrSignature)
}
