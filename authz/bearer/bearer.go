package bearer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Options are options of [New]. Zero fields take the values in the comments.
type Options struct {
	// Name is the name of the authority that makes the principals, for audit
	// records. "": "bearer".
	Name string

	// Scopes are those that every request needs. Nil: none.
	Scopes []string

	// ToolScopes says which scopes a call of a tool needs beside Scopes. Nil:
	// none. who is nobody when a caller without a valid token is told what to
	// ask for.
	//
	// A caller learns from the answer that the tool exists. Where that is to
	// be hidden, return nil for tools that who would not see with the scopes
	// either; the call then goes on and finds no such tool.
	//
	// A caller with a token that has too few is told all of them at once. A
	// scope that is none (RFC 6749, section 3.3) ends the request with status
	// 500. ToolScopes is called from many goroutines.
	ToolScopes func(ctx context.Context, who authz.Principal, tool string) []string

	// Implies says which scopes a scope includes, as in {"tickets.manage":
	// {"tickets.read"}}; what those include is included too. Principals carry
	// the included scopes beside those of the token, so that a policy sees
	// what was decided by here. Nil: none.
	Implies map[string][]string

	// Cached reports whether a call of a tool may be let in by what an issuer
	// said about the token up to [IntrospectionOptions.CacheFor] ago; for
	// tools that only read. Nil: no call may. What is no call of a tool, such
	// as a list, may. It matters for introspection only, and is called from
	// many goroutines.
	Cached func(tool string) bool

	// Confirm verifies tokens that are bound to a key of their holder, by the
	// member of cnf (RFC 7800) that binds them: "jkt" for DPoP (RFC 9449, see
	// [NewDPoP]), "x5t#S256" for mutual TLS (RFC 8705). A token with a member that is not
	// here is refused; nil refuses every bound token.
	Confirm map[string]ConfirmFunc

	// ScopesSupported are the scopes in the metadata. Nil: those of Scopes.
	ScopesSupported []string

	// DisplayName and Documentation, a URL, are for people who read the
	// metadata. "": left out.
	DisplayName, Documentation string

	// MaxRequestBytes bounds a body that has to be read. 0: 1 MiB.
	MaxRequestBytes int64

	// Logger gets why a request was not let in: a constant text, and what the
	// network said. It gets no token and no claim. Nil: nothing is logged.
	Logger *slog.Logger
}

// A ConfirmFunc verifies that the caller holds what its token is bound to. An
// error refuses the request: with 503 if its code is one of an outage, and with
// 401 otherwise.
type ConfirmFunc = func(ctx context.Context, p *Proof) error

// A Proof is what is known about a token that is bound to a key of its holder.
type Proof struct {
	Scheme    string // "Bearer" or "DPoP", as it was presented
	Member    string // of cnf
	Value     string // what it binds to
	TokenHash string // base64url(SHA-256(token)): ath of RFC 9449
	Claims    *Claims

	// Request is the request without its body and without the token. DPoP
	// compares its method and the resource's own URL, never the Host header.
	Request *http.Request
}

// Bearer guards one resource. It is safe for concurrent use. The zero Bearer
// lets nobody in.
type Bearer struct {
	resource  string
	metadata  []byte
	path      string // of the metadata
	challenge string // its URL
	authority *authz.Authority
	issuers   map[string]*Verifier
	asks      *Verifier // for tokens that only their issuer can read; may be nil
	opts      Options
	implied   map[string][]string
	logger    *slog.Logger
	seen      *verifications
}

const defaultBody = 1 << 20

// New returns a Bearer for one resource, which is the URL that clients call,
// such as "https://mcp.example.com/mcp": what their tokens' aud must hold, byte
// for byte, and what the metadata names. A verifier is needed for each issuer.
//
// One verifier at most may be of [NewIntrospection]: a token that only its
// issuer can read does not say who that is, and must not be shown to another.
// opts may be nil.
func New(resource string, issuers []*Verifier, opts *Options) (*Bearer, error) {
	b := &Bearer{resource: resource, issuers: map[string]*Verifier{}}
	if opts != nil {
		b.opts = *opts
	}
	b.logger = b.opts.Logger
	b.seen = &verifications{key: newFingerprints(), lru: lru[verified]{max: maxVerified}}
	b.authority = authz.NewAuthority(def(b.opts.Name, "bearer"))
	if err := b.locate(resource); err != nil {
		return nil, fmt.Errorf("bearer: New: resource %q: %w", resource, err)
	}
	names, err := b.add(issuers)
	if err != nil {
		return nil, fmt.Errorf("bearer: New: %w", err)
	}
	if b.opts.MaxRequestBytes = def(b.opts.MaxRequestBytes, defaultBody); b.opts.MaxRequestBytes < 0 {
		return nil, errors.New("bearer: New: MaxRequestBytes is negative; 0 is 1 MiB")
	}
	if err := b.ownScopes(); err != nil {
		return nil, fmt.Errorf("bearer: New: %w", err)
	}
	b.metadata, err = b.document(names)
	return b, err
}

// locate checks the resource and finds the place of its metadata: the
// well-known segment goes between host and path (RFC 9728, section 3.1).
func (b *Bearer) locate(resource string) error {
	if err := checkURL(resource); err != nil {
		return err
	}
	u, err := url.Parse(resource)
	if err != nil {
		return err
	}
	at := strings.TrimSuffix(u.Path, "/")
	if u.RawPath != "" || strings.ContainsAny(at, "{}% ") || at != "" && path.Clean(at) != at {
		return errors.New("the path must be plain: no escapes, braces, dot segments or doubled slashes")
	}
	if u.Path == "/" {
		u.Path = ""
	}
	b.path = wellKnown + u.Path
	b.challenge = u.Scheme + "://" + u.Host + b.path
	return nil
}

const wellKnown = "/.well-known/oauth-protected-resource"

// add takes the verifiers and returns their issuers in order.
func (b *Bearer) add(issuers []*Verifier) (names []string, err error) {
	for i, v := range issuers {
		switch {
		case v == nil || v.issuer == "":
			return nil, fmt.Errorf("verifier %d is empty: use NewJWT or NewIntrospection", i)
		case b.issuers[v.issuer] != nil:
			return nil, fmt.Errorf("two verifiers for the issuer %q: a token is verified in one way", v.issuer)
		case v.ask != nil && b.asks != nil:
			return nil, errors.New("two verifiers that ask their issuer: a token that says nothing would be shown to the wrong one")
		case v.ask != nil:
			b.asks = v
		}
		b.issuers[v.issuer] = v
		names = append(names, v.issuer)
	}
	if len(names) == 0 {
		return nil, errors.New("a verifier is needed; without one nobody is let in")
	}
	return names, nil
}

// Authority makes the principals. An invoker that is to serve them is given it.
func (b *Bearer) Authority() *authz.Authority { return b.authority }

// verify finds out whose token it is; fresh is as in introspection.
func (b *Bearer) verify(ctx context.Context, in *inbound, scheme string, token secret, fresh bool) (authz.Principal, *failure) {
	v, c, f := b.claims(ctx, token, fresh)
	switch {
	case f != nil:
		return authz.Principal{}, f
	case !c.meantFor(b.resource, v.aliases):
		return authz.Principal{}, refused("the token is meant for another resource")
	}
	if f := b.confirm(ctx, token, in, &Proof{Scheme: scheme, Claims: c}); f != nil {
		return authz.Principal{}, f
	}
	return b.principal(ctx, v, c)
}

// claims finds the verifier of a token and lets it verify, but for what it did
// before.
func (b *Bearer) claims(ctx context.Context, token secret, fresh bool) (*Verifier, *Claims, *failure) {
	text := token()
	if len(text) > maxToken {
		return nil, nil, refused("the token is too long")
	}
	mark := b.seen.key.of(token)
	if v, c, f := b.seen.recall(ctx, mark); c != nil || f != nil {
		return v, c, f
	}
	t, kind := parseSigned(text)
	v, f := b.verifierOf(t, kind)
	if f != nil {
		return nil, nil, f
	}
	if v.ask != nil {
		c, f := v.ask.verify(ctx, v, token, fresh)
		return v, c, f
	}
	done, f := v.jwt.verify(ctx, v, token, t)
	if f == nil && len(text) <= maxVerifiedToken {
		b.seen.keep(mark, done)
	}
	return v, done.claims, f
}

// verifierOf chooses by what the token says of its issuer, byte for byte. A
// token in clear is never asked about elsewhere, and one that is verified by
// asking is never verified here.
func (b *Bearer) verifierOf(t signed, kind shape) (*Verifier, *failure) {
	if kind == ambiguous {
		return nil, refused("the token is no well-formed JWS")
	}
	iss, named := t.payload["iss"]
	if kind == opaque || !named {
		if b.asks == nil {
			return nil, refused("the token names no issuer")
		}
		return b.asks, nil
	}
	name, _ := iss.(string)
	if v := b.issuers[name]; v != nil {
		return v, nil
	}
	return nil, refused("the token is of an issuer that is not configured")
}

// confirm holds a token that is bound to a key against that key, and refuses
// what cannot be checked.
func (b *Bearer) confirm(ctx context.Context, token secret, in *inbound, p *Proof) *failure {
	cnf, bound := p.Claims.all["cnf"]
	if !bound {
		if p.Scheme == schemeDPoP {
			return refused("a token that is bound to no key, with the scheme DPoP")
		}
		return nil
	}
	members, _ := cnf.(map[string]any)
	if len(members) == 0 {
		return refused("the token is bound to something that is not known")
	}
	if _, jkt := members["jkt"]; jkt != (p.Scheme == schemeDPoP) {
		return refused("the token is presented with another scheme than it is bound to")
	}
	for name, value := range members {
		text, ok := value.(string)
		check := b.opts.Confirm[name]
		if !ok || check == nil {
			return refused("the token is bound to something that cannot be checked here")
		}
		one := *p
		one.Member, one.Value, one.TokenHash, one.Request = name, text, token.hash(), in.bare()
		if err := check(ctx, &one); err != nil {
			return b.unconfirmed(err)
		}
	}
	return nil
}

// unconfirmed is a check that failed, unless it could not be made.
func (b *Bearer) unconfirmed(err error) *failure {
	switch toolresult.Code(err) {
	case toolresult.PolicyUnavailable, toolresult.ProviderUnavailable, toolresult.RateLimited, toolresult.Timeout, toolresult.Cancelled:
		return outage("the holder's key could not be checked", retryAfter, err)
	}
	f := &failure{kind: invalid, why: "the caller did not prove to hold the token's key", cause: err}
	f.proof, _ = errors.AsType[*ProofError](err)
	return f
}

// principal makes the principal of verified claims. It ends when the token is no
// longer accepted, which is the leeway after exp.
func (b *Bearer) principal(ctx context.Context, v *Verifier, c *Claims) (authz.Principal, *failure) {
	tenant, err := v.tenant(ctx, c)
	switch {
	case err != nil:
		return authz.Principal{}, outage("the tenant could not be found out", retryAfter, err)
	case tenant == "":
		return authz.Principal{}, refused("the token belongs to no tenant")
	}
	id := authz.Identity{
		Tenant: tenant, Issuer: c.Issuer, Subject: c.Subject, Client: c.Client,
		Scopes: b.with(c.Scopes), Expires: c.end(v.leeway),
	}
	if len(c.Actors) > 0 {
		// The issuer cut the scopes to what the actor may do when it made the
		// token; the policy cuts them to what the subject may do now.
		id.Delegation = &authz.Delegation{Actor: c.Actors[0], Scopes: slices.Clone(id.Scopes)}
	}
	who, err := b.authority.Principal(id)
	if err != nil {
		return authz.Principal{}, &failure{kind: invalid, why: "the token makes no principal", cause: err}
	}
	return who, nil
}
