package bearer

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// Claims are what an issuer says in a token that was verified. They are shared
// between requests and must not be changed.
type Claims struct {
	// Issuer is one of the issuers that the [Bearer] was made with, byte for
	// byte.
	Issuer string

	// Subject is whose rights count: sub.
	Subject string

	// Client is the OAuth client: client_id. Empty only if the introspection
	// does not say.
	Client string

	// ID is jti. Empty only if the introspection does not say.
	ID string

	// Audience holds the resource that the Bearer guards, or one of its
	// aliases, among others.
	Audience []string

	// Scopes are those of the token, sorted, without what they imply.
	Scopes []string

	// Actors are who acts for the subject (RFC 8693, section 4.1): the one
	// that acts now first, then those that acted before it, which are for the
	// record and have no rights.
	Actors []string

	// IssuedAt, NotBefore and Expires are iat, nbf and exp as the issuer
	// wrote them. Zero: it does not say.
	IssuedAt, NotBefore, Expires time.Time

	all map[string]any
}

// Text returns the claim at a JSON Pointer (RFC 6901), such as "/tenant" or
// "/https:~1~1example.com~1org/id", and whether it is there and is a string.
func (c *Claims) Text(pointer string) (string, bool) {
	if c == nil {
		return "", false
	}
	v, _ := strictjson.Lookup(c.all, pointer)
	s, ok := v.(string)
	return s, ok
}

// A TenantFunc says which tenant the holder of a verified token belongs to, by
// the claims or by a mapping that the server keeps. "" means that it belongs to
// none, and the token is refused like an invalid one. An error means that it
// cannot be found out now, and the caller is told to come back.
//
// It is called for every request and from many goroutines. It gets no request,
// so that no header and no argument can choose the tenant.
type TenantFunc func(ctx context.Context, c *Claims) (string, error)

// OneTenant is for a server of one tenant.
func OneTenant(tenant string) TenantFunc {
	return func(context.Context, *Claims) (string, error) { return tenant, nil }
}

// TenantClaim takes the tenant from the claim at a JSON Pointer, such as
// "/tenant". A token without it, or in which it is not a string, has no tenant.
func TenantClaim(pointer string) TenantFunc {
	return func(_ context.Context, c *Claims) (string, error) {
		tenant, _ := c.Text(pointer)
		return tenant, nil
	}
}

// A reader takes claims out of their JSON and remembers the first that is wrong.
type reader struct {
	all map[string]any
	err *failure
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = refused(why)
	}
}

// text reads a string. needed says whether it must be there; an empty one is
// not there.
func (r *reader) text(name string, needed bool, why string) string {
	v, there := r.all[name]
	s, ok := v.(string)
	if there && !ok || needed && s == "" {
		r.fail(why)
	}
	return s
}

// date reads a NumericDate (RFC 7519, section 2): a number of seconds, which
// may have a fraction.
func (r *reader) date(name string, needed bool, why string) time.Time {
	v, there := r.all[name]
	if !there && !needed {
		return time.Time{}
	}
	n, ok := v.(json.Number)
	f, err := n.Float64()
	if !ok || err != nil || f < 0 || f > maxDate {
		r.fail(why)
		return time.Time{}
	}
	whole, part := math.Modf(f)
	return time.Unix(int64(whole), int64(part*1e9))
}

const maxDate = 1 << 38 // seconds: the year 10680

// list reads a string or a list of strings.
func (r *reader) list(name, why string) []string {
	switch v := r.all[name].(type) {
	case nil:
		if _, there := r.all[name]; there {
			r.fail(why)
		}
		return nil
	case string:
		return []string{v}
	case []any:
		out := make([]string, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				r.fail(why)
			}
			out[i] = s
		}
		return out
	}
	r.fail(why)
	return nil
}

// scopes reads a list separated by spaces (RFC 6749, section 3.3), or a list.
func (r *reader) scopes(name string) []string {
	var out []string
	for _, s := range r.list(name, "the scopes are no strings") {
		out = append(out, strings.Fields(s)...)
	}
	for _, s := range out {
		if !isScope(s) {
			r.fail("a scope holds characters that a scope may not have")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isScope reports whether s is a scope-token of RFC 6749, section 3.3.
func isScope(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}

// actors reads act and what is nested in it. An actor of another issuer is
// refused: its name could be that of somebody else here.
func (r *reader) actors(issuer string) (out []string) {
	v, there := r.all["act"]
	for there {
		m, _ := v.(map[string]any)
		a := reader{all: m}
		name := a.text("sub", true, "an actor has no sub")
		if iss := a.text("iss", false, "an actor's iss is no string"); m["iss"] != nil && iss != issuer {
			a.fail("an actor of another issuer")
		}
		if a.err != nil {
			r.fail(a.err.why)
			return nil
		}
		out = append(out, name)
		v, there = m["act"]
	}
	return out
}

// readClaims reads the claims that every kind of token may have; strict says
// that those of RFC 9068, section 2.2, must be there. What names another issuer
// is refused.
func readClaims(all map[string]any, strict bool, issuer, scope, client string) (*Claims, *failure) {
	r := &reader{all: all}
	c := &Claims{
		Issuer:    r.text("iss", strict, "iss is missing or no string"),
		Subject:   r.text("sub", true, "sub is missing or no string"),
		Client:    r.text(client, strict, "client_id is missing or no string"),
		ID:        r.text("jti", strict, "jti is missing or no string"),
		Audience:  r.list("aud", "aud is no string and no list of strings"),
		Scopes:    r.scopes(scope),
		IssuedAt:  r.date("iat", strict, "iat is missing or no number"),
		NotBefore: r.date("nbf", false, "nbf is no number"),
		Expires:   r.date("exp", strict, "exp is missing or no number"),
		all:       all,
	}
	if _, there := all["iss"]; there && c.Issuer != issuer {
		r.fail("iss is another issuer")
	}
	c.Issuer = issuer
	c.Actors = r.actors(issuer)
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// checkTimes holds the claims against the clock.
func (c *Claims) checkTimes(now time.Time, leeway time.Duration) *failure {
	switch {
	case !c.Expires.IsZero() && !now.Before(c.Expires.Add(leeway)):
		return refused("the token is expired")
	case c.NotBefore.After(now.Add(leeway)):
		return refused("the token is not valid yet")
	case c.IssuedAt.After(now.Add(leeway)):
		return refused("the token was issued in the future")
	}
	return nil
}

// meantFor reports whether the audience holds the resource or an alias of it,
// byte for byte.
func (c *Claims) meantFor(resource string, aliases []string) bool {
	return slices.ContainsFunc(c.Audience, func(a string) bool { return a == resource || slices.Contains(aliases, a) })
}

// end is when a principal ends.
func (c *Claims) end(leeway time.Duration) time.Time {
	if c.Expires.IsZero() {
		return time.Now().Add(withoutExp)
	}
	return c.Expires.Add(leeway)
}
