package cedarpolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
)

var heads = struct{ principal, action, resource []string }{
	principal: []string{
		"principal", `principal == User::"acme/https:%2F%2Fissuer.test/alice"`, `principal == User::"evil/https:%2F%2Fissuer.test/alice"`,
		`principal in Group::"acme/oncall"`, `principal in Group::"acme/none"`, `principal in Tenant::"acme"`,
		"principal is User", `principal is User in Group::"acme/oncall"`, `principal is Robot in Group::"acme/oncall"`,
	},
	action: []string{
		"action", `action == Action::"tickets.get"`, `action == Action::"tickets.find"`, `action in Action::"reads"`,
		`action in [Action::"tickets.get", Action::"reads"]`, `action in [Action::"tickets.get", Action::"tickets.get"]`,
		`action in [Action::"tickets.create"]`, `action in []`,
	},
	resource: []string{
		"resource", `resource == ticket::"acme/tickets/5"`, `resource == ticket::"acme/tickets/6"`, `resource in project::"acme/tickets/inc"`,
		`resource in Connector::"acme/tickets"`, `resource == Connector::"acme/tickets"`, `resource in Tenant::"acme"`, `resource in Tenant::"evil"`,
		"resource is ticket", "resource is Connector", `resource is ticket in project::"acme/tickets/inc"`,
	},
}

var conditions = []string{
	"", "", `when { context.purpose == "execute" }`, `when { resource.missing == 1 }`, `unless { resource.open }`,
	`when { principal.scopes.contains("read") }`, `when { context.nothing }`, `when { resource in project::"acme/tickets/inc" }`,
	`when { principal has delegation }`, `when { 1 + "a" == 2 }`, `when { context has run && context.run == "r1" }`,
	`when { context == {"purpose": "execute"} }`, `when { principal.delegation.actor == "bot" }`, `unless { principal has client }`,
}

func genPolicies(t *rapid.T) string {
	var b strings.Builder
	for range rapid.IntRange(0, 12).Draw(t, "policies") {
		fmt.Fprintf(&b, "%s(%s, %s, %s) %s;\n", rapid.SampledFrom([]string{"permit", "permit", "forbid"}).Draw(t, "effect"),
			rapid.SampledFrom(heads.principal).Draw(t, "principal"), rapid.SampledFrom(heads.action).Draw(t, "action"),
			rapid.SampledFrom(heads.resource).Draw(t, "resource"), rapid.SampledFrom(conditions).Draw(t, "condition"))
	}
	return b.String()
}

// The index answers as Cedar does over all policies: the same decision, the
// same reasons, the same errors.
func TestIndexIsEquivalent_A4(t *testing.T) {
	authority := authz.NewAuthority("test")
	rapid.Check(t, func(t *rapid.T) {
		text := genPolicies(t)
		set, err := newRuleset(map[string][]byte{"p": []byte(text)}, &Options{ActionGroups: map[string][]string{"reads": {"tickets.get", "tickets.find"}}})
		require.NoError(t, err, text)
		p, err := authority.Principal(authz.Identity{
			Tenant: rapid.SampledFrom([]string{"acme", "evil"}).Draw(t, "tenant"), Issuer: authztest.Issuer, Subject: "alice", Scopes: []string{"read"},
		})
		require.NoError(t, err)
		req := &authz.Request{Principal: p, Action: authz.Action{
			Connector: "tickets", Capability: rapid.SampledFrom([]string{"tickets.get", "tickets.find", "tickets.create"}).Draw(t, "capability"),
		}}
		groups := rapid.SampledFrom([][]string{nil, {"oncall"}, {"oncall", "other"}}).Draw(t, "groups")
		a, err := newAsker(set, req, groups)
		require.NoError(t, err)
		q, err := a.about(rapid.SampledFrom([]*authz.Object{
			nil,
			{ResourceID: authz.ResourceID{Type: "ticket", ID: "5"}, Parents: []authz.ResourceID{{Type: "project", ID: "inc"}}, Attributes: map[string]any{"open": true}},
			{ResourceID: authz.ResourceID{Type: "project", ID: "inc"}},
		}).Draw(t, "object"))
		require.NoError(t, err)

		found := set.index.find(nil, q.actions, q.users, q.resources)
		require.Len(t, slices.Compact(sorted(found, func(r *rule) string { return string(r.id) })), len(found), "a rule was found twice")
		d1, diag1 := q.evaluate(found)
		// the control evaluates every rule, and leaves no attribute out
		q.names, q.user, q.resource = nil, nil, nil
		d2, diag2 := cedar.Authorize(selection(set.rules), q, cedar.Request{Principal: q.users[0], Action: q.actions[0], Resource: q.resources[0], Context: q.contextFacts(true)})
		require.Equal(t, d2, d1, text)
		reason := func(r cedar.DiagnosticReason) string { return string(r.PolicyID) }
		failed := func(e cedar.DiagnosticError) string { return string(e.PolicyID) + e.Message }
		require.Equal(t, sorted(diag2.Reasons, reason), sorted(diag1.Reasons, reason), text)
		require.Equal(t, sorted(diag2.Errors, failed), sorted(diag1.Errors, failed), text)
	})
}

func sorted[T any](list []T, key func(T) string) []string {
	keys := make([]string, len(list))
	for i, v := range list {
		keys[i] = key(v)
	}
	slices.Sort(keys)
	return keys
}

// rules returns n policies, half of them for other actions, each of which
// names a project or a group and has a condition.
func benchPolicies(n int) []byte {
	var b strings.Builder
	for i := range n {
		action := "tickets.get"
		if i%2 == 1 {
			action = fmt.Sprintf("other.action%d", i%20)
		}
		switch i % 4 {
		case 0, 1:
			fmt.Fprintf(&b, "permit(principal, action == Action::%q, resource in project::\"acme/tickets/p%d\") when { principal.scopes.contains(\"read\") };\n", action, i)
		default:
			fmt.Fprintf(&b, "permit(principal in Group::\"acme/g%d\", action == Action::%q, resource) when { context.purpose == \"execute\" };\n", i, action)
		}
	}
	return []byte(b.String())
}

// conditionsOnly is the index's worst case: the heads name the action only.
func conditionsOnly(n int) []byte {
	var b strings.Builder
	for i := range n {
		action := "tickets.get"
		if i%2 == 1 {
			action = fmt.Sprintf("other.action%d", i%20)
		}
		fmt.Fprintf(&b, "permit(principal, action == Action::%q, resource) when { resource.id == \"t%d\" };\n", action, i)
	}
	b.WriteString(`permit(principal, action == Action::"tickets.get", resource) when { resource.id == "5" };`)
	return []byte(b.String())
}

func BenchmarkDecide(b *testing.B) {
	alice, err := authz.NewAuthority("bench").Principal(authz.Identity{Tenant: "acme", Issuer: authztest.Issuer, Subject: "alice", Scopes: []string{"read", "write"}})
	require.NoError(b, err)
	req := &authz.Request{
		Principal: alice, Action: authz.Action{Connector: "tickets", Capability: "tickets.get"}, Account: "alice@tickets",
		Target: authz.On(authz.Object{ResourceID: authz.ResourceID{Type: "ticket", ID: "5"}, Parents: []authz.ResourceID{{Type: "project", ID: "p0"}}}),
	}
	opts := &Options{Groups: func(context.Context, authz.Principal) ([]string, error) { return []string{"oncall", "g2"}, nil }}
	for _, row := range []struct {
		name string
		text func(int) []byte
	}{{"named", benchPolicies}, {"conditions", conditionsOnly}} {
		for _, n := range []int{10, 1000} {
			policy, err := New(map[string][]byte{"p": row.text(n)}, opts)
			require.NoError(b, err)
			d, err := policy.Decide(b.Context(), req)
			require.NoError(b, err)
			require.Equal(b, authz.Allow, d.Verdict)
			b.Run(fmt.Sprintf("%s/%d/indexed", row.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := policy.Decide(b.Context(), req); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%s/%d/plain", row.name, n), func(b *testing.B) {
				b.ReportAllocs()
				set := policy.set.Load()
				ps := cedar.NewPolicySet()
				for _, r := range set.rules {
					ps.Add(r.id, r.policy)
				}
				objects, _ := req.Target.Objects()
				for b.Loop() {
					a, err := newAsker(set, req, []string{"oncall", "g2"})
					require.NoError(b, err)
					q, err := a.about(&objects[0])
					require.NoError(b, err)
					cedar.Authorize(ps, q, cedar.Request{Principal: q.users[0], Action: q.actions[0], Resource: q.resources[0], Context: q.contextFacts(true)})
				}
			})
		}
	}
}
