package bearer

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// DPoPOptions are options of [NewDPoP]. Zero fields take the values in the
// comments.
type DPoPOptions struct {
	// Algorithms are those of proofs, of the names that JWTOptions.Algorithms
	// knows. Nil: ES256, RS256, PS256 and EdDSA.
	Algorithms []string

	// Window is how old a proof may be. 0: one minute; at most five. A proof
	// that is from the future by more than [DPoPSkew] is refused.
	Window time.Duration

	// Replays remembers proofs that were used. Nil: in memory, for at most
	// 65,536 of them, which replicas do not share.
	Replays Replays

	// NonceKey makes callers prove that their proof is new: it has to hold a
	// nonce that this server made, which is told to those without one (RFC
	// 9449, section 9). Replicas share the key, of 32 random bytes. Nil: no
	// nonce is wanted.
	NonceKey []byte
}

// DPoPSkew is how far a caller's clock may be ahead.
const DPoPSkew = 10 * time.Second

// Replays remembers what was used once.
type Replays interface {
	// Use records that the proof with the mark was used, and reports whether
	// it was the first time. The mark MUST be remembered until the given time.
	// An error means that it cannot be known now, and the request is refused
	// with 503. It is called from many goroutines, and of two calls with the
	// same mark one at most MUST report true.
	Use(ctx context.Context, mark [32]byte, until time.Time) (first bool, err error)
}

// DPoP verifies proofs that a caller holds the key that its token is bound to
// (RFC 9449). It is made by [NewDPoP] and is safe for concurrent use. The zero
// DPoP refuses everybody.
type DPoP struct {
	htu        string
	algorithms []jose.SignatureAlgorithm
	window     time.Duration
	replays    Replays
	nonceKey   func() []byte // a function, so that nothing prints it; nil: no nonces
}

// NewDPoP returns a verifier of proofs for one resource, the URL that clients
// call, as [New] has it. opts may be nil. Its Confirm belongs into
// [Options.Confirm]:
//
//	proofs, err := bearer.NewDPoP("https://mcp.example.com/mcp", nil)
//	opts := &bearer.Options{Confirm: map[string]bearer.ConfirmFunc{"jkt": proofs.Confirm}}
func NewDPoP(resource string, opts *DPoPOptions) (*DPoP, error) {
	var o DPoPOptions
	if opts != nil {
		o = *opts
	}
	if err := checkURL(resource); err != nil {
		return nil, fmt.Errorf("bearer: NewDPoP: resource %q: %w", resource, err)
	}
	d := &DPoP{window: def(o.Window, time.Minute), replays: o.Replays}
	if key := slices.Clone(o.NonceKey); key != nil {
		d.nonceKey = func() []byte { return key }
	}
	var err error
	if d.algorithms, err = algorithms(o.Algorithms); err != nil {
		return nil, fmt.Errorf("bearer: NewDPoP: %w", err)
	}
	d.htu, _ = place(resource)
	switch {
	case d.window < 0 || d.window > 5*time.Minute:
		return nil, errors.New("bearer: NewDPoP: the window must be from 0, which is one minute, to 5 min")
	case o.NonceKey != nil && len(o.NonceKey) != 32:
		return nil, errors.New("bearer: NewDPoP: NonceKey must have 32 bytes")
	}
	if d.replays == nil {
		d.replays = &memoryReplays{salt: newFingerprints()}
	}
	return d, nil
}

// A ProofError is why a proof does not hold. As the error of a function in
// [Options.Confirm] it makes the answer 401 with a challenge of the scheme DPoP
// (RFC 9449, section 7.1).
type ProofError struct {
	Algorithms []string // that would be accepted
	Nonce      string   // to be used in the next proof; "" if it was not for want of one

	why string
}

// Error is for operators.
func (e *ProofError) Error() string { return "bearer: " + e.why }

// Confirm verifies the proof of a request (RFC 9449, sections 4.3 and 7.1). It
// is a function for [Options.Confirm], under "jkt".
func (d *DPoP) Confirm(ctx context.Context, p *Proof) error {
	if d == nil || d.replays == nil {
		return toolresult.NewError(toolresult.ContractViolation, "the DPoP was not made by NewDPoP")
	}
	proof, why := d.read(p)
	if why != "" {
		return d.refuse(why, "")
	}
	if d.nonceKey != nil && !d.fresh(proof.nonce) {
		return d.refuse("a proof without a nonce of this server that is still good", d.nonce(0))
	}
	mark := sha256.Sum256([]byte(p.Value + " " + proof.id))
	first, err := d.replays.Use(ctx, mark, proof.at.Add(d.window+DPoPSkew))
	switch {
	case err != nil:
		return toolresult.WrapError(toolresult.PolicyUnavailable, "it cannot be found out whether the proof was used before", err)
	case !first:
		return d.refuse("a proof that was used before", "")
	}
	return nil
}

func (d *DPoP) refuse(why, nonce string) *ProofError {
	e := &ProofError{Nonce: nonce, why: why}
	for _, a := range d.algorithms {
		e.Algorithms = append(e.Algorithms, string(a))
	}
	return e
}

// proven is what a proof says, once it holds.
type proven struct {
	id, nonce string
	at        time.Time
}

const maxProof = 8 << 10 // bytes, before anything is decoded

// read verifies everything about a proof that needs no memory. why is a constant
// text, "" if the proof holds.
func (d *DPoP) read(p *Proof) (out proven, why string) {
	values := p.Request.Header["Dpop"]
	switch {
	case len(values) != 1:
		return out, "no header DPoP, or more than one"
	case len(values[0]) > maxProof:
		return out, "a proof that is too long"
	}
	t, kind := parseSigned(values[0])
	if kind != jws {
		return out, "a proof that is no JWS"
	}
	key, alg, why := d.key(t.header)
	if why != "" {
		return out, why
	}
	claims := &reader{all: t.payload}
	method, where := claims.text("htm", true, "a proof without htm"), claims.text("htu", true, "a proof without htu")
	hash := claims.text("ath", true, "a proof without ath")
	out = proven{id: claims.text("jti", true, "a proof without jti"), nonce: claims.text("nonce", false, "a nonce that is no text"),
		at: claims.date("iat", true, "a proof without iat")}
	at, ok := place(where)
	age := time.Since(out.at)
	switch {
	case claims.err != nil:
		return out, claims.err.why
	case len(out.id) > maxJTI:
		return out, "a jti that is too long"
	case method != p.Request.Method:
		return out, "a proof for another method"
	case !ok || at != d.htu:
		return out, "a proof for another URL"
	case age > d.window:
		return out, "a proof that is too old"
	case age < -DPoPSkew:
		return out, "a proof from the future"
	case !equal(hash, p.TokenHash):
		return out, "a proof for another token"
	case !equal(thumbprint(key), p.Value):
		return out, "a proof by another key"
	case !verifies(func() string { return values[0] }, alg, []jose.JSONWebKey{{Key: key.Key}}):
		return out, "a proof that its key did not sign"
	}
	return out, ""
}

const maxJTI = 256 // bytes

// key reads the header: the key that the proof is made by comes with it.
func (d *DPoP) key(header map[string]any) (key jose.JSONWebKey, alg jose.SignatureAlgorithm, why string) {
	r := &reader{all: header}
	alg = jose.SignatureAlgorithm(r.text("alg", true, "alg is missing or no string"))
	typ := r.text("typ", true, "typ is missing or no string")
	public, ok := header["jwk"].(map[string]any)
	_, critical := header["crit"]
	_, unencoded := header["b64"]
	switch {
	case r.err != nil:
		return key, "", r.err.why
	case typ != "dpop+jwt":
		return key, "", "a proof of another type"
	case !slices.Contains(d.algorithms, alg):
		return key, "", "a proof with an algorithm that is not on the list"
	case critical || unencoded:
		return key, "", "a proof with an extension that must be understood"
	case !ok:
		return key, "", "a proof without a key"
	}
	for _, secret := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		if _, there := public[secret]; there {
			return key, "", "a proof that brings a private key"
		}
	}
	text, err := json.Marshal(public)
	if err != nil || key.UnmarshalJSON(text) != nil || !key.Valid() || !key.IsPublic() || family(key.Key) != families[alg] {
		return key, "", "a proof with a key that does not fit its algorithm"
	}
	return key, alg, ""
}

// thumbprint is that of RFC 7638, as jkt has it.
func thumbprint(key jose.JSONWebKey) string {
	sum, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(sum)
}

func equal(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// place is a URL without query and fragment, in one spelling (RFC 9449, section
// 4.3; RFC 3986, sections 6.2.2 and 6.2.3, as far as they change no meaning).
func place(s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || strings.ContainsAny(s, " \t\r\n\\") {
		return "", false
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, map[string]string{"https": ":443", "http": ":80"}[scheme])
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return scheme + "://" + host + path, true
}

// nonceLife is how long one nonce is given out; it is good for as long again.
const nonceLife = 2 * time.Minute

// nonce is that of now, or of so many lives ago. It says nothing about anybody.
func (d *DPoP) nonce(ago int64) string {
	mac := hmac.New(sha256.New, d.nonceKey())
	_, _ = mac.Write(binary.BigEndian.AppendUint64(nil, uint64(time.Now().Unix()/int64(nonceLife/time.Second)-ago)))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:18])
}

func (d *DPoP) fresh(nonce string) bool {
	return equal(nonce, d.nonce(0)) || equal(nonce, d.nonce(1))
}

// maxReplays is how many proofs are remembered. When so many are still good,
// no more are taken: what is forgotten could be used again.
const maxReplays = 1 << 16

// memoryReplays are [Replays] in memory.
type memoryReplays struct {
	salt fingerprints

	mu    sync.Mutex
	until map[[16]byte]int64 // Unix time
	swept int64
}

var errManyProofs = errors.New("bearer: more proofs than can be remembered")

// Use implements [Replays].
func (m *memoryReplays) Use(_ context.Context, mark [32]byte, until time.Time) (bool, error) {
	var key [16]byte // with a salt, so that nobody can look for two that are alike
	sum := m.salt.of(func() string { return string(mark[:]) })
	copy(key[:], sum[:])
	now := time.Now().Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until == nil {
		m.until = map[[16]byte]int64{}
	}
	if end, used := m.until[key]; used && now <= end {
		return false, nil
	}
	if now-m.swept > 60 || len(m.until) >= maxReplays && now > m.swept {
		m.swept = now
		for k, end := range m.until {
			if now > end {
				delete(m.until, k)
			}
		}
	}
	if len(m.until) >= maxReplays {
		return false, errManyProofs
	}
	m.until[key] = until.Unix() + 1
	return true, nil
}

// dpopChallenge is the challenge of RFC 9449, section 7.1, or 9.
func (b *Bearer) dpopChallenge(e *ProofError, scopes []string) string {
	code := "invalid_dpop_proof"
	if e.Nonce != "" {
		code = "use_dpop_nonce"
	}
	c := `DPoP error="` + code + `", resource_metadata="` + b.challenge + `"`
	if algs := strings.Join(e.Algorithms, " "); algs != "" && !strings.ContainsAny(algs, "\"\\\r\n") {
		c += `, algs="` + algs + `"`
	}
	if len(scopes) > 0 {
		c += `, scope="` + strings.Join(scopes, " ") + `"`
	}
	return c
}

// tellNonce adds the nonce to an answer, if it is one (RFC 9449, section 8.1).
func (e *ProofError) tellNonce(h http.Header) {
	ok := e.Nonce != "" && !strings.ContainsFunc(e.Nonce, func(r rune) bool { return r < '!' || r > '~' || r == '"' || r == '\\' })
	if ok {
		h.Set("DPoP-Nonce", e.Nonce)
	}
}
