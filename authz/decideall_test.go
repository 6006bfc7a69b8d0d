package authz_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// batch answers many questions at once.
type batch struct {
	authztest.Policy
	drop int
	err  error
	seen *int
}

func (b batch) DecideBatch(_ context.Context, reqs []*authz.Request) ([]authz.Decision, error) {
	*b.seen += len(reqs)
	var ds []authz.Decision
	for _, r := range reqs[b.drop:] {
		d, err := b.Policy(r)
		if err != nil {
			return nil, err
		}
		r.Action.Capability = "changed"
		ds = append(ds, d)
	}
	return ds, b.err
}

// A4: discovery shows what Authorize would grant, with either kind of policy.
func TestDecideAll_A4(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	rule := authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		d := authz.Decision{Verdict: authz.Allow, Revision: "1", Scope: authz.WholeConnection()}
		switch r.Action.Capability {
		case "c1":
			d = authz.Decision{Verdict: authz.Prohibit, Reason: "never"}
		case "c2":
			d.Revision = ""
		case "c3":
			d.Expires = time.Now().Add(-1)
		case "c4":
			d.Verdict = authz.AllowWithApproval
		}
		return d, nil
	})
	want := []authz.Verdict{authz.Allow, authz.Prohibit, authz.Deny, authz.Deny, authz.AllowWithApproval, authz.Deny, authz.Deny}
	seen := 0
	for why, policy := range map[string]authz.Policy{"one by one": rule, "at once": batch{Policy: rule, seen: &seen}} {
		var reqs []*authz.Request
		for i := range 5 {
			reqs = append(reqs, &authz.Request{Principal: alice, Purpose: authz.Discover, Action: authz.Action{Capability: fmt.Sprintf("c%d", i)}})
		}
		reqs = append(reqs, nil, &authz.Request{Purpose: authz.Discover})
		ds, err := authz.DecideAll(t.Context(), policy, reqs)
		require.NoError(t, err, why)
		for i, d := range ds {
			require.Equal(t, want[i], d.Verdict, "%s: %d", why, i)
			_, err := authz.Authorize(t.Context(), policy, reqs[i])
			require.Equal(t, err == nil, d.Verdict == authz.Allow || d.Verdict == authz.AllowWithApproval, "%s: %d", why, i)
		}
		require.Equal(t, "c0", reqs[0].Action.Capability, "the policy has copies")
	}
	require.Equal(t, 5, seen, "nobody is not asked about")

	reqs := []*authz.Request{{Principal: alice, Purpose: authz.Discover}, {Principal: alice, Purpose: authz.Discover}}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		why    string
		ctx    context.Context
		policy authz.Policy
	}{
		{"no policy", t.Context(), nil},
		{"one cannot be answered", t.Context(), authztest.Policy(func(*authz.Request) (authz.Decision, error) { return authz.Decision{}, errors.New("x") })},
		{"an answer is missing", t.Context(), batch{Policy: rule, drop: 1, seen: &seen}},
		{"answers with an error", t.Context(), batch{Policy: rule, err: errors.New("x"), seen: &seen}},
		{"a panic", t.Context(), batch{Policy: func(*authz.Request) (authz.Decision, error) { panic("x") }, seen: &seen}},
		{"too late", over, batch{Policy: rule, seen: &seen}},
	} {
		ds, err := authz.DecideAll(row.ctx, row.policy, reqs)
		require.ErrorIs(t, err, toolresult.PolicyUnavailable, row.why)
		require.Nil(t, ds, row.why)
	}
	ds, err := authz.DecideAll(t.Context(), rule, nil)
	require.NoError(t, err)
	require.Empty(t, ds)
}

// L6, A4: a profile narrows, and names nothing that is not in it.
func TestProfileAllows_A4_K2(t *testing.T) {
	p := authz.Profile{Capabilities: map[string]string{"get": "1", "create": "1", "any": ""}, Prohibited: []string{"create", "restart"}}
	for _, row := range []struct {
		why, name, version string
		profile            authz.Profile
		want               bool
	}{
		{"listed", "get", "1", p, true},
		{"another version", "get", "2", p, false},
		{"no version", "get", "", p, false},
		{"not listed", "delete", "1", p, false},
		{"prohibited wins", "create", "1", p, false},
		{"prohibited and not listed", "restart", "1", p, false},
		{"a pin to nothing", "any", "", p, false},
		{"the zero profile", "get", "1", authz.Profile{}, false},
	} {
		require.Equal(t, row.want, row.profile.Allows(row.name, row.version), row.why)
	}
}

func TestStaticProfiles_A3_E7(t *testing.T) {
	a := authz.NewAuthority("test")
	alice, bob, eve := authztest.Caller(t, a, "acme", "alice"), authztest.Caller(t, a, "acme", "bob"), authztest.Caller(t, a, "evil", "alice")
	given := map[authz.PrincipalKey][]authz.Profile{
		{Tenant: "acme"}: {{ID: "incident", Capabilities: map[string]string{"get": "1"}}},
		alice.Key():      {{ID: "mine"}},
	}
	profiles, err := authz.NewStaticProfiles(given)
	require.NoError(t, err)
	given[authz.PrincipalKey{Tenant: "acme"}][0].Capabilities["create"] = "1"
	var texts []string
	for _, row := range []struct {
		why  string
		from authz.Profiles
		p    authz.Principal
		id   string
		ok   bool
	}{
		{"the tenant's", profiles, bob, "incident", true},
		{"one's own", profiles, alice, "mine", true},
		{"somebody else's", profiles, bob, "mine", false},
		{"another tenant's", profiles, eve, "incident", false},
		{"none's", profiles, alice, "no such", false},
		{"nobody's", profiles, authz.Principal{}, "incident", false},
		{"without a name", profiles, alice, "", false},
		{"of no profiles", (*authz.StaticProfiles)(nil), alice, "incident", false},
		{"of the zero value", new(authz.StaticProfiles), alice, "incident", false},
	} {
		got, err := row.from.Profile(t.Context(), row.p, row.id)
		if row.ok {
			require.NoError(t, err, row.why)
			require.Equal(t, row.id, got.ID, row.why)
			continue
		}
		require.ErrorIs(t, err, toolresult.PermissionDenied, row.why)
		require.Empty(t, got.ID, row.why)
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		require.Equal(t, texts[0], text, "foreign and missing read alike")
	}
	got, err := profiles.Profile(t.Context(), bob, "incident")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"get": "1"}, got.Capabilities, "what was given is copied")
	got.Capabilities["create"] = "1"
	again, err := profiles.Profile(t.Context(), bob, "incident")
	require.NoError(t, err)
	require.False(t, again.Allows("create", "1"), "so is what is returned")

	for why, bad := range map[string]map[authz.PrincipalKey][]authz.Profile{
		"no tenant":        {{}: {{ID: "x"}}},
		"half a principal": {{Tenant: "acme", Subject: "alice"}: {{ID: "x"}}},
		"no ID":            {{Tenant: "acme"}: {{}}},
		"twice":            {{Tenant: "acme"}: {{ID: "x"}, {ID: "x"}}},
		"two owners":       {{Tenant: "acme"}: {{ID: "x"}}, alice.Key(): {{ID: "x"}}},
	} {
		_, err := authz.NewStaticProfiles(bad)
		require.Error(t, err, why)
	}
}
