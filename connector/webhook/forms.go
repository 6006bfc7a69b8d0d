package webhook

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Twilio returns a Verifier for Twilio: HMAC-SHA1 over the address and the
// sorted parameters of the form, or, for bodies of JSON, over an address that
// has the body's digest in it (twilio.com, "Webhooks security"). publicURL is the
// address as it is registered at Twilio, without a query; it is used as it is
// written, with and without the default port, and nothing of the request but its
// query is. Twilio signs no time.
func Twilio(publicURL string, secrets []string, opts *Options) (*Verifier, error) {
	o, err1 := settings(opts)
	ks, err2 := keys(secrets, nil)
	if err := first(err1, err2, checkURL(publicURL)); err != nil {
		return nil, err
	}
	bases := portVariants(publicURL)
	return &Verifier{name: "twilio", check: func(r *Request, _ time.Time) (d Delivery, err error) {
		line, err := one(r.Header, "X-Twilio-Signature")
		if err != nil {
			return d, err
		}
		sig, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(sig) != sha1.Size {
			return d, refuse("X-Twilio-Signature is not in the form of the scheme", ErrHeader)
		}
		params, err := twilioParams(r)
		if err != nil {
			return d, err
		}
		for _, base := range bases {
			for _, k := range ks {
				m := hmac.New(sha1.New, k)
				m.Write([]byte(withQuery(base, r.RawQuery) + params))
				if hmac.Equal(m.Sum(nil), sig) {
					return twilioNames(r, o)
				}
			}
		}
		return d, refuse("check the secret and the public address", ErrSignature)
	}}, nil
}

// twilioNames names a delivery. The token that Twilio repeats with each attempt
// is not signed.
func twilioNames(r *Request, o Options) (d Delivery, err error) {
	if d.ID, err = atMostOne(r.Header, "I-Twilio-Idempotency-Token"); err == nil && d.ID != "" && !o.RepeatedBodies {
		d.Digest = digest(r.Body)
	}
	return d, err
}

// twilioParams returns what is signed after the address: names and values of
// the form, sorted by name, each value once. A body that is no form is signed by
// its digest in the query.
func twilioParams(r *Request) (string, error) {
	if sum, signed := bodyDigest(r.RawQuery); signed {
		want := sha256.Sum256(r.Body)
		if got, err := hex.DecodeString(sum); err != nil || !hmac.Equal(got, want[:]) {
			return "", refuse("the body is not the one whose digest is in the address", ErrSignature)
		}
		return "", nil
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" && len(r.Body) > 0 {
		return "", refuse("the body is neither a form nor has its digest in the address: nothing signs it", ErrSignature)
	}
	form, err := url.ParseQuery(string(r.Body))
	if err != nil {
		return "", refuse("the form cannot be read", ErrHeader)
	}
	names := make([]string, 0, len(form))
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		values := form[name]
		slices.Sort(values)
		for _, v := range slices.Compact(values) {
			b.WriteString(name + v)
		}
	}
	return b.String(), nil
}

// bodyDigest finds bodySHA256 in a query, which has to be there once.
func bodyDigest(query string) (string, bool) {
	q, err := url.ParseQuery(query)
	if err != nil || len(q["bodySHA256"]) != 1 {
		return "", false
	}
	return q["bodySHA256"][0], true
}

// portVariants returns an address with and without its default port: Twilio
// signs either.
func portVariants(text string) []string {
	u, err := url.Parse(text)
	if err != nil {
		return []string{text}
	}
	port := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
	head, rest, _ := strings.Cut(text, u.Host)
	switch {
	case port == "":
		return []string{text}
	case strings.HasSuffix(u.Host, port):
		return []string{text, head + strings.TrimSuffix(u.Host, port) + rest}
	case u.Port() == "":
		return []string{text, head + u.Host + port + rest}
	}
	return []string{text}
}
