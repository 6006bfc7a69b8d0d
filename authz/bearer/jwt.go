package bearer

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// A Verifier verifies the tokens of one issuer. It is made by [NewJWT] or
// [NewIntrospection], is safe for concurrent use, and can serve several
// Bearers. The zero Verifier verifies nothing.
type Verifier struct {
	issuer  string
	aliases []string
	leeway  time.Duration
	tenant  TenantFunc

	jwt *signatures    // for tokens that are verified here
	ask *introspection // for tokens that their issuer verifies
}

// Issuer returns the issuer, byte for byte as it was given.
func (v *Verifier) Issuer() string { return v.issuer }

// JWTOptions are options of [NewJWT]. Zero fields take the values in the
// comments.
type JWTOptions struct {
	// Algorithms are the signature algorithms that are accepted: RS256, RS384,
	// RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA. Nil: ES256,
	// RS256, PS256 and EdDSA. There is no way to accept "none" or a MAC.
	Algorithms []string

	// Leeway is how far clocks may differ, for exp, nbf and iat, at most 2
	// minutes. 0: 30 s. A negative one is refused; 1 ns is as good as none.
	Leeway time.Duration

	// Aliases are further audiences that mean this resource. Nil: none but
	// the resource itself. Nothing is folded, trimmed or compared in parts.
	Aliases []string

	// AllowUntyped accepts a token whose header has no typ, or the typ JWT,
	// from issuers older than RFC 9068. Such a token can be an ID token; only
	// its audience then tells them apart.
	AllowUntyped bool

	// ScopeClaim and ClientClaim name the claims that hold the scopes, as one
	// string or a list, and the client. "": scope and client_id.
	ScopeClaim, ClientClaim string

	// Refresh is how old keys may become before they are fetched again, and so
	// how long a withdrawn key works; from 1 minute to 24 hours. 0: 10 min.
	Refresh time.Duration

	// MaxStale is how long the keys of the last successful fetch are used when
	// fetching fails, from Refresh to 7 days. 0: 24 h.
	MaxStale time.Duration

	// Egress replaces what fetching takes from the operating system, as for
	// [egress.New].
	Egress *egress.Options
}

// signatures verifies JWTs by the keys of one issuer.
type signatures struct {
	algorithms    []jose.SignatureAlgorithm
	untyped       bool
	scope, client string
	keys          *keySet
}

// families are the kinds of keys by algorithm; an algorithm that is not here
// is refused, whoever names it.
var families = map[jose.SignatureAlgorithm]string{
	jose.RS256: "RSA", jose.RS384: "RSA", jose.RS512: "RSA", jose.PS256: "RSA", jose.PS384: "RSA", jose.PS512: "RSA",
	jose.ES256: "P-256", jose.ES384: "P-384", jose.ES512: "P-521", jose.EdDSA: "Ed25519",
}

// NewJWT returns a verifier of the issuer's JWT access tokens (RFC 9068).
//
// keys is the egress profile of the issuer's JSON Web Key Set (RFC 7517): its
// BaseURL is the whole address of the document. It must be https (or http on
// loopback) and follow no redirect; limits of 5 s and 1 MiB are filled in and
// cannot be raised. Nothing is fetched before the first token comes.
//
// tenant is needed. opts may be nil.
func NewJWT(issuer string, keys egress.Profile, tenant TenantFunc, opts *JWTOptions) (*Verifier, error) {
	var o JWTOptions
	if opts != nil {
		o = *opts
	}
	v, err := newVerifier(issuer, tenant, o.Aliases, o.Leeway)
	if err != nil {
		return nil, fmt.Errorf("bearer: NewJWT: %w", err)
	}
	v.jwt = &signatures{untyped: o.AllowUntyped, scope: def(o.ScopeClaim, "scope"), client: def(o.ClientClaim, "client_id")}
	if v.jwt.algorithms, err = algorithms(o.Algorithms); err != nil {
		return nil, fmt.Errorf("bearer: NewJWT: issuer %q: %w", issuer, err)
	}
	if v.jwt.keys, err = newKeySet(keys, o.Egress, o.Refresh, o.MaxStale, v.leeway); err != nil {
		return nil, fmt.Errorf("bearer: NewJWT: issuer %q: keys: %w", issuer, err)
	}
	return v, nil
}

func newVerifier(issuer string, tenant TenantFunc, aliases []string, leeway time.Duration) (*Verifier, error) {
	if err := checkURL(issuer); err != nil {
		return nil, fmt.Errorf("issuer %q: %w", issuer, err)
	}
	if tenant == nil {
		return nil, fmt.Errorf("issuer %q: a TenantFunc is needed: TenantClaim, OneTenant or a mapping of your own", issuer)
	}
	if leeway < 0 || leeway > 2*time.Minute {
		return nil, fmt.Errorf("issuer %q: the leeway must be from 0, which is 30 s, to 2 min", issuer)
	}
	if slices.Contains(aliases, "") {
		return nil, fmt.Errorf("issuer %q: an alias of the audience is empty", issuer)
	}
	return &Verifier{issuer: issuer, tenant: tenant, aliases: slices.Clone(aliases), leeway: def(leeway, 30*time.Second)}, nil
}

// checkURL wants what RFC 8414, section 2, and RFC 9728, section 1.2, want of
// an issuer and of a resource: https, a host, no query, no fragment.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.String() != s:
		return errors.New("want a URL such as https://issuer.example.com, in its one spelling")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return errors.New("the scheme must be https (or http on loopback)")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("there must be no user, query or fragment")
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func def[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

func algorithms(names []string) ([]jose.SignatureAlgorithm, error) {
	if names == nil {
		return []jose.SignatureAlgorithm{jose.ES256, jose.RS256, jose.PS256, jose.EdDSA}, nil
	}
	var out []jose.SignatureAlgorithm
	for _, n := range names {
		if families[jose.SignatureAlgorithm(n)] == "" {
			return nil, fmt.Errorf("the algorithm %q is not accepted; want RS, PS or ES with 256, 384 or 512, or EdDSA", n)
		}
		out = append(out, jose.SignatureAlgorithm(n))
	}
	if len(out) == 0 {
		return nil, errors.New("the list of algorithms is empty; nil is the default")
	}
	return out, nil
}

// verify verifies everything about a token but its audience.
func (s *signatures) verify(ctx context.Context, v *Verifier, token secret, t signed) (out verified, f *failure) {
	alg, kid, f := s.checkHeader(t.header)
	if f != nil {
		return out, f
	}
	c, f := readClaims(t.payload, true, v.issuer, s.scope, s.client)
	if f == nil {
		f = c.checkTimes(time.Now(), v.leeway)
	}
	if f != nil {
		return out, f
	}
	keys, f := s.keys.find(ctx, kid, c.IssuedAt)
	if f != nil {
		return out, f
	}
	if !verifies(token, alg, keys) {
		return out, refused("no key of the issuer made the signature")
	}
	return verified{v, kid, &keys[0], c}, nil
}

// checkHeader reads alg and kid. It looks at no member that brings a key or
// says where one is (jwk, jku, x5c, x5u): keys are the issuer's.
func (s *signatures) checkHeader(header map[string]any) (alg jose.SignatureAlgorithm, kid string, f *failure) {
	r := &reader{all: header}
	alg = jose.SignatureAlgorithm(r.text("alg", true, "alg is missing or no string"))
	kid = r.text("kid", true, "kid is missing or no string")
	typ := strings.ToLower(r.text("typ", false, "typ is no string"))
	_, critical := header["crit"]
	_, unencoded := header["b64"]
	switch {
	case r.err != nil:
		return "", "", r.err
	case !slices.Contains(s.algorithms, alg):
		return "", "", refused("the algorithm is not on the issuer's list")
	case critical || unencoded:
		return "", "", refused("the header has an extension that must be understood")
	case typ != "at+jwt" && typ != "application/at+jwt" && !(s.untyped && (typ == "" || typ == "jwt")):
		return "", "", refused("the type is not at+jwt")
	}
	return alg, kid, nil
}

// verifies tries the keys, of which there is hardly ever more than one.
func verifies(token secret, alg jose.SignatureAlgorithm, keys []jose.JSONWebKey) bool {
	for _, k := range keys {
		if family(k.Key) != families[alg] || k.Algorithm != "" && k.Algorithm != string(alg) {
			continue
		}
		parsed, err := jose.ParseSignedCompact(token(), []jose.SignatureAlgorithm{alg})
		if err != nil {
			return false
		}
		if _, err := parsed.Verify(k.Key); err == nil {
			return true
		}
	}
	return false
}

// family is the kind of a public key; "" if it is not to be used.
func family(key any) string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n >= 2048 && n <= 8192 {
			return "RSA"
		}
	case *ecdsa.PublicKey:
		return k.Curve.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return ""
}
