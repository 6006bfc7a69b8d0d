package authztest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestPolicies(t *testing.T) {
	alice, a := authztest.Principal(t, "acme", "alice", "read")
	bob := authztest.Caller(t, a, "acme", "bob")
	require.True(t, a.Vouches(alice) && a.Vouches(bob) && alice.HasScope("read"))
	inc, other := authz.ResourceID{Type: "project", ID: "inc"}, authz.ResourceID{Type: "project", ID: "other"}
	on := func(id authz.ResourceID) *authz.Request {
		return &authz.Request{Principal: alice, Target: authz.On(authz.Object{ResourceID: id})}
	}
	for _, row := range []struct {
		why    string
		policy authz.Policy
		id     authz.ResourceID
		want   error
	}{
		{"what is listed is allowed", authztest.Allow(inc), inc, nil},
		{"what is not listed is not", authztest.Allow(inc), other, toolresult.PermissionDenied},
		{"an empty list is nothing", authztest.Allow(), inc, toolresult.PermissionDenied},
		{"what is asked for", authztest.AllowAsked(), other, nil},
	} {
		g, err := authz.Authorize(t.Context(), row.policy, on(row.id))
		require.ErrorIs(t, err, row.want, row.why)
		require.Equal(t, row.want == nil, g.Permits(row.id), row.why)
	}
}
