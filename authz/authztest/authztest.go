// Package authztest gives tests a caller and a policy.
//
//	alice, authority := authztest.Principal(t, "acme", "alice", "tickets.read")
//	policy := authztest.Allow(authz.ResourceID{Type: "project", ID: "inc"})
//
// The policies here decide by what a test wrote down. They are no place to
// start a real one from: use authz/cedarpolicy.
package authztest

import (
	"context"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// Revision is the revision that the policies of this package name.
const Revision = "authztest-1"

// Issuer is the issuer of the principals of this package.
const Issuer = "https://issuer.test"

// Principal returns a caller, and the authority that made it. The identity
// has no end and no delegation.
func Principal(t testing.TB, tenant, subject string, scopes ...string) (authz.Principal, *authz.Authority) {
	t.Helper()
	a := authz.NewAuthority("authztest")
	return Caller(t, a, tenant, subject, scopes...), a
}

// Caller returns a further caller of the same authority.
func Caller(t testing.TB, a *authz.Authority, tenant, subject string, scopes ...string) authz.Principal {
	t.Helper()
	p, err := a.Principal(authz.Identity{Tenant: tenant, Issuer: Issuer, Subject: subject, Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Policy is an [authz.Policy] that is a function. It must be safe for
// concurrent use if the test is.
type Policy func(*authz.Request) (authz.Decision, error)

// Decide implements [authz.Policy].
func (f Policy) Decide(_ context.Context, req *authz.Request) (authz.Decision, error) { return f(req) }

// Allow is a policy that allows everybody everything on the given resources
// and what they contain. Allow() has an empty scope, and so allows nothing.
func Allow(ids ...authz.ResourceID) Policy { return AllowScope(authz.Only(ids...)) }

// AllowScope is a policy that allows everybody everything in the scope.
func AllowScope(s authz.Scope) Policy {
	return func(*authz.Request) (authz.Decision, error) {
		return authz.Decision{Verdict: authz.Allow, Scope: s, Revision: Revision}, nil
	}
}

// AllowAsked is a policy that allows everybody exactly what is asked for.
func AllowAsked() Policy {
	return func(r *authz.Request) (authz.Decision, error) {
		return authz.Decision{Verdict: authz.Allow, Scope: r.Target.Scope(), Revision: Revision}, nil
	}
}
