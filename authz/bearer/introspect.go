package bearer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// A ClientCredential puts this server's own credential for an issuer on a
// request to its introspection endpoint, as the hook Authorize of
// [egress.Hooks] does; what it adds never comes back. [ClientSecret] makes one.
type ClientCredential func(ctx context.Context, origin string, req *http.Request) error

// ClientSecret authenticates by HTTP Basic, each part form-encoded first (RFC
// 6749, section 2.3.1). secret is asked for each request, so that a secret that
// is replaced where it is kept is used at once.
func ClientSecret(id string, secret func(context.Context) ([]byte, error)) ClientCredential {
	return func(ctx context.Context, _ string, req *http.Request) error {
		s, err := secret(ctx)
		if err != nil {
			return err
		}
		if len(s) == 0 {
			return errors.New("bearer: the client secret is empty")
		}
		req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(string(s)))
		return nil
	}
}

// IntrospectionOptions are options of [NewIntrospection]. Zero fields take the
// values in the comments.
type IntrospectionOptions struct {
	// CacheFor is how long "active" is believed, and so how late a revocation
	// may be noticed where [Options.Cached] allows it; at most 5 minutes, and
	// never past exp. 0: 30 s.
	CacheFor time.Duration

	// CacheTokens is how many tokens are remembered, the last used ones.
	// 0: 4096.
	CacheTokens int

	// Leeway, Aliases, ScopeClaim, ClientClaim and Egress are as in
	// [JWTOptions].
	Leeway                  time.Duration
	Aliases                 []string
	ScopeClaim, ClientClaim string
	Egress                  *egress.Options
}

const (
	maxIntrospection = 64 << 10         // bytes of one answer
	inactiveFor      = 5 * time.Second  // how long "not active" is believed
	withoutExp       = 5 * time.Minute  // a principal of a token that has no exp
	maxCacheFor      = 5 * time.Minute  // revocation must be noticed
	defaultCacheFor  = 30 * time.Second // likewise
)

// introspection asks an issuer about tokens (RFC 7662). A request that needs an
// answer asks by itself; others with the same token wait for it.
type introspection struct {
	endpoint      *egress.Endpoint
	client        ClientCredential
	cacheFor      time.Duration
	scope, holder string
	key           fingerprints

	mu     sync.Mutex
	known  lru[known]
	asking map[fingerprint]*question
}

// known is what was said about a token.
type known struct {
	claims *Claims // nil: not active
	asked  time.Time
	until  time.Time
}

// A question is under way; claims and failure are there when done is closed.
type question struct {
	done    chan struct{}
	claims  *Claims
	failure *failure
}

// NewIntrospection returns a verifier that asks the issuer about each token (RFC
// 7662). endpoint is the egress profile of its introspection endpoint, under the
// rules of [NewJWT] with a limit of 64 KiB; client authenticates this server
// there and is needed, as is tenant. opts may be nil.
//
// The token must be active, have this resource in aud, which RFC 7662 leaves
// open and MCP does not, and a sub. One that is cached is asked about again at
// its exp, however clocks differ.
func NewIntrospection(issuer string, endpoint egress.Profile, client ClientCredential, tenant TenantFunc, opts *IntrospectionOptions) (*Verifier, error) {
	var o IntrospectionOptions
	if opts != nil {
		o = *opts
	}
	v, err := newVerifier(issuer, tenant, o.Aliases, o.Leeway)
	switch {
	case err != nil:
		return nil, fmt.Errorf("bearer: NewIntrospection: %w", err)
	case client == nil:
		return nil, fmt.Errorf("bearer: NewIntrospection: issuer %q: a ClientCredential is needed (RFC 7662, section 2.1)", issuer)
	case o.CacheFor < 0 || o.CacheFor > maxCacheFor || o.CacheTokens < 0:
		return nil, fmt.Errorf("bearer: NewIntrospection: issuer %q: CacheFor must be from 0, which is 30 s, to 5 min, and CacheTokens not negative", issuer)
	}
	e, err := newEndpoint(endpoint, o.Egress, maxIntrospection)
	if err != nil {
		return nil, fmt.Errorf("bearer: NewIntrospection: issuer %q: endpoint: %w", issuer, err)
	}
	v.ask = &introspection{
		endpoint: e, client: client, cacheFor: def(o.CacheFor, defaultCacheFor), known: lru[known]{max: def(o.CacheTokens, 4096)},
		scope: def(o.ScopeClaim, "scope"), holder: def(o.ClientClaim, "client_id"), key: newFingerprints(),
		asking: map[fingerprint]*question{},
	}
	return v, nil
}

// verify verifies everything about a token but its audience. fresh says that
// what was said before does not do, unless it was that the token is not active.
func (in *introspection) verify(ctx context.Context, v *Verifier, token secret, fresh bool) (*Claims, *failure) {
	key := in.key.of(token)
	claims, q, mine, f := in.look(key, fresh)
	switch {
	case f != nil:
		return nil, f
	case mine:
		in.run(ctx, v, token, key, q)
		claims, f = q.claims, q.failure
	case q != nil:
		select {
		case <-q.done:
			claims, f = q.claims, q.failure
		case <-ctx.Done():
			return nil, outage("the caller went away while the issuer was asked", retryAfter, ctx.Err())
		}
	}
	if f == nil {
		f = claims.checkTimes(time.Now(), v.leeway)
	}
	if f != nil {
		return nil, f
	}
	return claims, nil
}

// look returns what is known about a token, or the question about it that is
// under way, or one that is for the caller to run. A fresh answer is always
// asked for after the request came, and nobody waits for it but its own request.
func (in *introspection) look(key fingerprint, fresh bool) (c *Claims, q *question, mine bool, f *failure) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if k, ok := in.known.get(key); ok && time.Now().Before(k.until) {
		switch {
		case k.claims == nil:
			return nil, nil, false, refused("the issuer says that the token is not active")
		case !fresh:
			return k.claims, nil, false, nil
		}
	}
	if q = in.asking[key]; q != nil && !fresh {
		return nil, q, false, nil
	}
	q = &question{done: make(chan struct{}), failure: &failure{kind: broken, why: "asking the issuer panicked"}}
	if !fresh {
		in.asking[key] = q
	}
	return nil, q, true, nil
}

// run asks, and tells those who wait. It goes on when its client goes away,
// because others may wait for the answer.
func (in *introspection) run(ctx context.Context, v *Verifier, token secret, key fingerprint, q *question) {
	asked := time.Now()
	defer func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		if in.asking[key] == q {
			delete(in.asking, key)
		}
		in.remember(key, known{claims: q.claims, asked: asked}, q.failure)
		close(q.done)
	}()
	q.claims, q.failure = in.query(context.WithoutCancel(ctx), v, token)
}

// remember keeps an answer, unless there is one to a later question, or the
// token was found not to be active while this one was under way.
func (in *introspection) remember(key fingerprint, k known, f *failure) {
	switch {
	case f != nil && f.kind != invalid:
		return
	case f != nil:
		k.claims, k.until = nil, k.asked.Add(inactiveFor)
	default:
		k.until = k.asked.Add(in.cacheFor)
		if exp := k.claims.Expires; !exp.IsZero() && exp.Before(k.until) {
			k.until = exp
		}
	}
	old, ok := in.known.get(key)
	if ok && k.claims != nil && (old.asked.After(k.asked) || old.claims == nil && k.asked.Before(old.until)) {
		return
	}
	in.known.put(key, k)
}

// query asks the issuer.
func (in *introspection) query(ctx context.Context, v *Verifier, token secret) (*Claims, *failure) {
	session := in.endpoint.Open(ctx, &egress.Hooks{
		Allow:     func(context.Context, *egress.Request) (egress.Effect, error) { return egress.Reads, nil },
		Authorize: in.client,
	})
	defer session.Close()
	form := url.Values{"token": {token()}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, in.endpoint.BaseURL(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, outage("the issuer could not be asked", retryAfter, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := session.RoundTrip(req)
	if err != nil {
		return nil, outage("the issuer could not be asked", retryAfter, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, outage("the issuer's answer did not arrive", retryAfter, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, outage("the issuer did not answer about the token", retryAfter, fmt.Errorf("status %d", resp.StatusCode))
	}
	return in.read(text, v.issuer)
}

// read reads an answer (RFC 7662, section 2.2). One that does not say plainly
// whether the token is active is none.
func (in *introspection) read(text []byte, issuer string) (*Claims, *failure) {
	parsed, err := strictjson.Parse(text)
	all, ok := parsed.(map[string]any)
	active, said := all["active"].(bool)
	switch {
	case err != nil || !ok || !said:
		return nil, outage("the issuer's answer does not say whether the token is active", retryAfter, err)
	case !active:
		return nil, refused("the issuer says that the token is not active")
	}
	r := &reader{all: all}
	kind, use := r.text("token_type", false, "token_type is no string"), r.text("token_use", false, "token_use is no string")
	_, bound := all["cnf"]
	switch {
	case r.err != nil:
		return nil, r.err
	case kind != "" && !strings.EqualFold(kind, schemeBearer) && !(bound && strings.EqualFold(kind, schemeDPoP)):
		return nil, refused("a token of a type that is not known")
	case use != "" && use != "access_token":
		return nil, refused("the token is for another use than access")
	}
	return readClaims(all, false, issuer, in.scope, in.holder)
}
