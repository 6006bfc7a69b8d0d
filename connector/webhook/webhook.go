package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Tolerance is how far the signed time of a delivery may be from the time of
// receipt, unless Options says otherwise. Slack, Stripe, HubSpot and Standard
// Webhooks all name five minutes.
const Tolerance = 5 * time.Minute

// Errors of verification. They come wrapped, with a code of package toolresult:
// AUTHENTICATION_REQUIRED, or INVALID_INPUT for ErrRawBody.
var (
	// ErrSignature says that no key fits.
	ErrSignature = errors.New("webhook: the signature does not fit")

	// ErrHeader says that a header of the scheme is missing, empty, there more
	// than once, or not in its form.
	ErrHeader = errors.New("webhook: a header of the scheme is missing, repeated or malformed")

	// ErrTimestamp says that the signed time is not near the time of receipt.
	ErrTimestamp = errors.New("webhook: the signed time is outside of the window")

	// ErrRawBody says that the bytes that were signed are not to be had: a
	// handler before this one has read them, or changed them.
	ErrRawBody = errors.New("webhook: raw body unavailable")

	// ErrOptions is what constructors return, wrapped, when they are given no
	// key, one that cannot be one, or what they do not do.
	ErrOptions = errors.New("webhook: options")
)

// Request is a delivery as it was received.
type Request struct {
	Method   string
	RawQuery string // as in url.URL
	Header   http.Header
	Body     []byte // every byte, none decoded
}

// Delivery is what a Verifier has found a Request to be. Its texts are the
// sender's: untrusted data.
type Delivery struct {
	Scheme string // name of the Verifier's

	// ID is the provider's id of the delivery, the same for each attempt at
	// it: one line of at most 256 bytes. Where there is none it is a digest of
	// the body, "sha256:...".
	ID string

	// Digest is a second name of the same delivery, "sha256:..." of the body.
	// It is set where ID is not signed. It may be empty.
	Digest string

	Type     string    // the provider's word for what happened; may be empty
	SignedAt time.Time // zero if the scheme signs no time
	Body     []byte    // the Request's

	// Challenge is what the provider wants to hear to believe that somebody
	// listens. If it is not empty, nothing happened, and an Endpoint answers
	// with it and stores nothing.
	Challenge string
}

// Options are options of a Verifier.
type Options struct {
	// Tolerance is how far from the time of receipt a signed time may be, at
	// most one hour. 0: the constant Tolerance. A scheme that signs no time
	// does not look at it.
	Tolerance time.Duration

	// RepeatedBodies says that two deliveries with the same bytes can be two
	// events. Then whoever has captured one of a scheme that does not sign its
	// ids can repeat it.
	RepeatedBodies bool
}

// Verifier proves that deliveries come from who holds a key. It is immutable and
// safe for concurrent use. The zero Verifier refuses everything. It prints as
// its scheme's name.
type Verifier struct {
	name  string
	ack   string // the body of a thank-you, where the provider wants one
	check func(r *Request, at time.Time) (Delivery, error)
}

// String returns the name of the scheme.
func (v *Verifier) String() string {
	if v == nil || v.check == nil {
		return "none"
	}
	return v.name
}

// GoString implements [fmt.GoStringer], so that no key is printed.
func (v *Verifier) GoString() string { return "webhook.Verifier(" + v.String() + ")" }

// Format implements [fmt.Formatter], so that no verb prints more than String.
func (v *Verifier) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(v.String())) }

// Verify checks a delivery that was received at the given time. It keeps
// neither the request nor its body beyond what Delivery shares with it. The
// errors are those of this package; they say what is wrong to an operator and
// hold nothing of the request.
func (v *Verifier) Verify(r *Request, at time.Time) (Delivery, error) {
	if v == nil || v.check == nil {
		return Delivery{}, refuse("there is no scheme and no key to verify with", ErrOptions)
	}
	if r == nil {
		return Delivery{}, refuse("there is no request", ErrRawBody)
	}
	d, err := v.check(r, at)
	if err != nil {
		return Delivery{}, err
	}
	d.Scheme, d.Body = v.name, r.Body
	if d.ID == "" {
		d.ID, d.Digest = digest(r.Body), ""
	}
	return d, nil
}

// refuse makes the error of a delivery that is not believed.
func refuse(says string, err error) error {
	code := toolresult.AuthenticationRequired
	if errors.Is(err, ErrRawBody) {
		code = toolresult.InvalidInput
	}
	return fmt.Errorf("%w: %s (%w)", err, says, code)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// one returns the value of a header that has to be there once.
func one(h http.Header, name string) (string, error) {
	switch lines := h.Values(name); {
	case len(lines) == 0:
		return "", refuse(name+" is missing", ErrHeader)
	case len(lines) > 1:
		return "", refuse(name+" is there more than once", ErrHeader)
	case strings.TrimSpace(lines[0]) == "":
		return "", refuse(name+" is empty", ErrHeader)
	default:
		return lines[0], nil
	}
}

// atMostOne returns the value of a header that names something, or "".
func atMostOne(h http.Header, name string) (string, error) {
	if name == "" || len(h.Values(name)) == 0 {
		return "", nil
	}
	v, err := one(h, name)
	if err == nil && !isName(v) {
		err = refuse(name+" is not one line of at most 256 bytes", ErrHeader)
	}
	return v, err
}

const maxName = 256

// isName reports whether a text can name something: one line of UTF-8.
func isName(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// keys checks secrets and turns them into bytes.
func keys(secrets []string, decode func(string) ([]byte, error)) ([][]byte, error) {
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%w: no secret; without one everybody is believed", ErrOptions)
	}
	if len(secrets) > maxKeys {
		return nil, fmt.Errorf("%w: %d secrets, want at most %d", ErrOptions, len(secrets), maxKeys)
	}
	var out [][]byte
	for i, s := range secrets {
		switch {
		case strings.TrimSpace(s) == "":
			return nil, fmt.Errorf("%w: secret %d is empty", ErrOptions, i)
		case strings.TrimSpace(s) != s:
			return nil, fmt.Errorf("%w: secret %d begins or ends with a space or a line end: was it read from a file?", ErrOptions, i)
		}
		k := []byte(s)
		if decode != nil {
			var err error
			if k, err = decode(s); err != nil || len(k) == 0 {
				return nil, fmt.Errorf("%w: secret %d is not in the form of this scheme", ErrOptions, i) // err may quote it
			}
		}
		out = append(out, k)
	}
	return out, nil
}

// maxKeys bounds what one forged delivery costs to refuse.
const maxKeys = 8

// settings fills in Options.
func settings(opts *Options) (Options, error) {
	o := Options{Tolerance: Tolerance}
	if opts == nil {
		return o, nil
	}
	if opts.Tolerance < 0 || opts.Tolerance > time.Hour {
		return o, fmt.Errorf("%w: want a Tolerance between 0 and one hour; it is %v", ErrOptions, opts.Tolerance)
	}
	o.RepeatedBodies = opts.RepeatedBodies
	if opts.Tolerance > 0 {
		o.Tolerance = opts.Tolerance
	}
	return o, nil
}
