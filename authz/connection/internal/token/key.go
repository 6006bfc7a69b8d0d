package token

import (
	"crypto"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Key signs assertions (RFC 7523). The private key stays with its owner: it may
// be in a KMS.
type Key struct{ signer jose.Signer }

// NewKey returns a key of an RSA (2048 bits and more), P-256, P-384, P-521 or
// Ed25519 signer. id is the kid; it may be empty.
func NewKey(private crypto.Signer, id string) (*Key, error) {
	if private == nil {
		return nil, errors.New("a signer is needed")
	}
	o := cryptosigner.Opaque(private)
	algs := o.Algs()
	if len(algs) == 0 {
		return nil, fmt.Errorf("no algorithm for a key of type %T", private.Public())
	}
	alg := algs[0]
	opts := (&jose.SignerOptions{}).WithType("JWT")
	if id != "" {
		opts = opts.WithHeader("kid", id)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: o}, opts)
	if err != nil {
		return nil, fmt.Errorf("the key cannot sign: %T", private.Public())
	}
	return &Key{s}, nil
}

// Claims are those of an assertion.
type Claims struct {
	Issuer, Subject, Audience string
	Scopes                    string // of Google's profile of RFC 7523; "" for none
	Lifetime                  time.Duration
}

// MaxAssertion is how long an assertion is good at most.
const MaxAssertion = 5 * time.Minute

// Sign returns an assertion with a jti of its own, good for Lifetime or one
// minute.
func (k *Key) Sign(c *Claims) (Secret, error) {
	d := c.Lifetime
	if d <= 0 {
		d = time.Minute
	}
	now := time.Now()
	claims := jwt.Claims{
		Issuer: c.Issuer, Subject: c.Subject, Audience: jwt.Audience{c.Audience}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(min(d, MaxAssertion))),
	}
	b := jwt.Signed(k.signer).Claims(claims)
	if c.Scopes != "" {
		b = b.Claims(map[string]any{"scope": c.Scopes})
	}
	s, err := b.Serialize()
	if err != nil {
		return Secret{}, errors.New("token: the assertion cannot be signed")
	}
	return NewSecret(s), nil
}
