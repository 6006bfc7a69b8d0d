package cedarpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/cedarpolicy"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func newPolicy(t *testing.T, text string, opts *cedarpolicy.Options) *cedarpolicy.Policy {
	t.Helper()
	p, err := cedarpolicy.New(map[string][]byte{"p.cedar": []byte(text)}, opts)
	require.NoError(t, err)
	return p
}

func ticket(id string) authz.Object {
	return authz.Object{ResourceID: authz.ResourceID{Type: "ticket", ID: id}, Parents: []authz.ResourceID{{Type: "project", ID: "inc"}}, Attributes: map[string]any{"open": true}}
}

func project(id string) authz.Object {
	return authz.Object{ResourceID: authz.ResourceID{Type: "project", ID: id}}
}

var get = authz.Action{Connector: "tickets", Capability: "tickets.get", Version: "1", Class: risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Internal}}

func request(p authz.Principal, target authz.Target) *authz.Request {
	return &authz.Request{Principal: p, Action: get, Target: target, Account: "alice@tickets"}
}

const window = "2026-04-29T02:35:00Z/2026-04-29T02:50:00Z"

// One object, one policy text, one answer.
func TestVerdicts_A4_A9(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice", "read")
	for _, row := range []struct {
		why, text string
		want      authz.Verdict
		reason    string
	}{
		{"no policy is no permit", ``, authz.Deny, "no permit is satisfied"},
		{"permit allows", `permit(principal, action, resource);`, authz.Allow, "permitted by p.cedar:1:1"},
		{"the action is the capability's name", `permit(principal, action == Action::"tickets.get", resource);`, authz.Allow, ""},
		{"another capability is not permitted", `permit(principal, action == Action::"tickets.gets", resource);`, authz.Deny, ""},
		{"a forbid beats every permit", "permit(principal, action, resource);\nforbid(principal, action, resource) when { resource.open };", authz.Deny, "forbidden by p.cedar:2:1"},
		{"@prohibit is final", `permit(principal, action, resource); @prohibit forbid(principal, action, resource);`, authz.Prohibit, "prohibited by p.cedar:1:38"},
		{"one @prohibit among forbids is enough", `forbid(principal, action, resource); @prohibit forbid(principal, action, resource);`, authz.Prohibit, ""},
		{"@prohibit that is not satisfied is nothing", `permit(principal, action, resource); @prohibit forbid(principal, action, resource) when { context.purpose == "read" };`, authz.Allow, ""},
		{"@approval asks for one", `@approval("required") permit(principal, action, resource);`, authz.AllowWithApproval, ""},
		{"a plain permit decides beside it", `@approval("required") permit(principal, action, resource); permit(principal, action, resource);`, authz.Allow, "permitted by p.cedar:1:60"},
		{"two of them still ask", `@approval("required") permit(principal, action, resource); @approval("required") permit(principal, action, resource);`, authz.AllowWithApproval, ""},
		{"an allow with a failed evaluation is none", "permit(principal, action, resource);\nforbid(principal, action, resource) when { resource.secret };", authz.Deny, "the evaluation failed: p.cedar:2:1"},
		{"a guarded look at an attribute does not fail", `permit(principal, action, resource); forbid(principal, action, resource) when { resource has secret && resource.secret };`, authz.Allow, ""},
		{"a failed permit is named", `permit(principal, action, resource) when { resource.secret };`, authz.Deny, "p.cedar:1:1"},
		{"scopes of the token", `permit(principal, action, resource) when { principal.scopes.contains("read") };`, authz.Allow, ""},
		{"the tenant and the user", `permit(principal == User::"acme/https:%2F%2Fissuer.test/alice", action, resource in Tenant::"acme");`, authz.Allow, ""},
		{"the connector holds its objects", `permit(principal in Tenant::"acme", action, resource in Connector::"acme/tickets");`, authz.Allow, ""},
		{"a parent holds its objects", `permit(principal, action, resource in project::"acme/tickets/inc");`, authz.Allow, ""},
		{"another parent does not", `permit(principal, action, resource in project::"acme/tickets/other");`, authz.Deny, ""},
		{"the facts of the call", `permit(principal, action, resource) when { context.purpose == "execute" && context.side_effect == "read_only" && context.sensitivity == "internal" && context.account == "alice@tickets" };`, authz.Allow, ""},
		{"the facts of the object", `permit(principal, action, resource) when { resource.id == "5" && resource.tenant == "acme" && resource.connector == "tickets" && resource.open };`, authz.Allow, ""},
		{"the facts of the principal", `permit(principal, action, resource) when { principal.tenant == "acme" && principal.subject == "alice" && principal.issuer == "https://issuer.test" && principal.authority == "authztest" && !(principal has delegation) && principal.client == "" };`, authz.Allow, ""},
	} {
		policy := newPolicy(t, row.text, nil)
		d, err := policy.Decide(t.Context(), request(alice, authz.On(ticket("5"))))
		require.NoError(t, err, row.why)
		require.Equal(t, row.want, d.Verdict, "%s: %s", row.why, d.Reason)
		require.Contains(t, d.Reason, row.reason, row.why)
		require.Equal(t, policy.Revision(), d.Revision, row.why)
		covers := d.Scope.Covers(ticket("5").ResourceID)
		require.Equal(t, row.want == authz.Allow || row.want == authz.AllowWithApproval, covers, row.why)
	}
}

func TestTargets(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	policy := newPolicy(t, `
permit(principal, action, resource == ticket::"acme/tickets/1");
@approval("required") permit(principal, action, resource == ticket::"acme/tickets/2");
@prohibit forbid(principal, action, resource == ticket::"acme/tickets/9");`, nil)
	for _, row := range []struct {
		why  string
		ids  []string
		want authz.Verdict
	}{
		{"all allowed", []string{"1"}, authz.Allow},
		{"one needs approval: the call does", []string{"1", "2"}, authz.AllowWithApproval},
		{"one denied: the call is", []string{"2", "1", "3"}, authz.Deny},
		{"one prohibited: the call is", []string{"3", "9", "1"}, authz.Prohibit},
		{"none", nil, authz.Deny},
	} {
		var objects []authz.Object
		for _, id := range row.ids {
			objects = append(objects, ticket(id))
		}
		d, err := policy.Decide(t.Context(), request(alice, authz.On(objects...)))
		require.NoError(t, err, row.why)
		require.Equal(t, row.want, d.Verdict, "%s: %s", row.why, d.Reason)
		require.Equal(t, row.want == authz.Deny || row.want == authz.Prohibit, d.Scope.IsZero(), row.why)
	}
}

func TestWindows(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	var incident, early toolresult.Interval
	require.NoError(t, incident.UnmarshalText([]byte(window)))
	early = toolresult.Interval{Start: incident.Start.Add(-time.Hour), End: incident.End}
	id := ticket("5").ResourceID
	for _, row := range []struct {
		why, text                string
		verdict                  authz.Verdict
		always, incident, before bool
	}{
		{"a window limits", `@window("` + window + `") permit(principal, action, resource);`, authz.Allow, false, true, false},
		{"a permit without one does not", `@window("` + window + `") permit(principal, action, resource); permit(principal, action, resource);`, authz.Allow, true, true, true},
		{"each window counts alone", `@window("` + window + `") permit(principal, action, resource); @window("2026-04-29T01:00:00Z/2026-04-29T02:35:00Z") permit(principal, action, resource);`, authz.Allow, false, true, false},
		{"what needs approval does not widen what needs none", `@window("` + window + `") permit(principal, action, resource); @approval("required") permit(principal, action, resource);`, authz.Allow, false, true, false},
		{"both", `@approval("required") @window("` + window + `") permit(principal, action, resource);`, authz.AllowWithApproval, false, true, false},
	} {
		d, err := newPolicy(t, row.text, nil).Decide(t.Context(), request(alice, authz.On(ticket("5"))))
		require.NoError(t, err, row.why)
		require.Equal(t, row.verdict, d.Verdict, row.why)
		require.Equal(t, []bool{row.always, row.incident, row.before},
			[]bool{d.Scope.Covers(id), d.Scope.CoversDuring(incident, id), d.Scope.CoversDuring(early, id)}, row.why)
	}
	d, err := newPolicy(t, `@window("`+window+`") permit(principal, action, resource);`, nil).Decide(t.Context(), request(alice, authz.OnConnection()))
	require.NoError(t, err)
	require.Equal(t, authz.Deny, d.Verdict, "a window cannot limit the whole connection")
}

// A3, A8: ids of two tenants, connectors or issuers cannot be confused,
// whatever characters they hold.
func TestTenantsApart_A3_A8(t *testing.T) {
	a := authz.NewAuthority("test")
	caller := func(tenant, issuer, subject string) authz.Principal {
		p, err := a.Principal(authz.Identity{Tenant: tenant, Issuer: issuer, Subject: subject})
		require.NoError(t, err)
		return p
	}
	for _, row := range []struct {
		why, text string
		p         authz.Principal
		id        string
		want      authz.Verdict
	}{
		{"control", `permit(principal, action, resource == ticket::"acme/tickets/5");`, caller("acme", "i", "alice"), "5", authz.Allow},
		{"the same id of another tenant", `permit(principal, action, resource == ticket::"acme/tickets/5");`, caller("evil", "i", "alice"), "5", authz.Deny},
		{"a tenant that spells a prefix", `permit(principal, action, resource == ticket::"acme/tickets/5");`, caller("acme/tickets", "i", "alice"), "5", authz.Deny},
		{"an escaped tenant", `permit(principal, action, resource == ticket::"acme/tickets/5");`, caller("acme%2Ftickets", "i", "alice"), "5", authz.Deny},
		{"an id that spells a tenant", `permit(principal, action, resource == ticket::"acme/tickets/5");`, caller("evil", "i", "alice"), "acme/tickets/5", authz.Deny},
		{"the same subject of another issuer", `permit(principal == User::"acme/i/alice", action, resource);`, caller("acme", "j", "alice"), "5", authz.Deny},
		{"a subject that spells an issuer", `permit(principal == User::"acme/i/j/alice", action, resource);`, caller("acme", "i/j", "alice"), "5", authz.Deny},
		{"which is who it says", `permit(principal == User::"acme/i/j/alice", action, resource);`, caller("acme", "i", "j/alice"), "5", authz.Allow},
	} {
		d, err := newPolicy(t, row.text, nil).Decide(t.Context(), request(row.p, authz.On(ticket(row.id))))
		require.NoError(t, err, row.why)
		require.Equal(t, row.want, d.Verdict, row.why)
	}
	other := request(caller("acme", "i", "alice"), authz.On(ticket("5")))
	other.Action.Connector = "chat"
	d, err := newPolicy(t, `permit(principal, action, resource == ticket::"acme/tickets/5");`, nil).Decide(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, authz.Deny, d.Verdict, "the same id at another connector")
	require.NotEqual(t, cedarpolicy.ObjectID("a/b", "c", "d"), cedarpolicy.ObjectID("a", "b/c", "d"))
	require.NotEqual(t, cedarpolicy.GroupID("a%2Fb", "c"), cedarpolicy.GroupID("a/b", "c"))
}

// A3: acting for a user is limited by the user's rights and the delegation.
func TestDelegation_A3(t *testing.T) {
	agent, err := authz.NewAuthority("test").Principal(authz.Identity{
		Tenant: "acme", Issuer: "i", Subject: "alice", Scopes: []string{"read", "write"},
		Delegation: &authz.Delegation{Actor: "bot", Run: "r1", Scopes: []string{"read", "admin"}},
	})
	require.NoError(t, err)
	for text, want := range map[string]authz.Verdict{
		`permit(principal, action, resource) when { principal.scopes.contains("read") };`:                                                                                                                    authz.Allow,
		`permit(principal, action, resource) when { principal.scopes.contains("write") };`:                                                                                                                   authz.Deny,
		`permit(principal, action, resource) when { principal.scopes.contains("admin") };`:                                                                                                                   authz.Deny,
		`permit(principal, action, resource) when { principal has delegation && principal.delegation.actor == "bot" && principal.delegation.run == "r1" && principal.delegation.scopes.contains("admin") };`: authz.Allow,
		`permit(principal, action, resource); forbid(principal, action, resource) when { principal has delegation };`:                                                                                        authz.Deny,
	} {
		d, err := newPolicy(t, text, nil).Decide(t.Context(), request(agent, authz.On(ticket("5"))))
		require.NoError(t, err)
		require.Equal(t, want, d.Verdict, text)
	}
}

func listing(objects ...authz.Object) func(context.Context, authz.Principal, string, string) ([]authz.Object, error) {
	return func(_ context.Context, _ authz.Principal, _, typ string) ([]authz.Object, error) {
		var of []authz.Object
		for _, o := range objects {
			if o.Type == typ {
				of = append(of, o)
			}
		}
		return of, nil
	}
}

func TestSearchAndDiscovery_A4_A6(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	three := listing(project("a"), project("b"), project("c"))
	unlisted := func(context.Context, authz.Principal, string, string) ([]authz.Object, error) {
		return nil, fmt.Errorf("projects: %w", cedarpolicy.ErrUnlisted)
	}
	all := `permit(principal, action, resource);`
	onA := `permit(principal, action, resource in project::"acme/tickets/a");`
	for _, row := range []struct {
		why, text  string
		candidates func(context.Context, authz.Principal, string, string) ([]authz.Object, error)
		search     authz.Verdict
		ids        []string // nil and allowed: the whole connection
		show       authz.Verdict
	}{
		{"the scope is the candidates that are allowed", all + `forbid(principal, action, resource == project::"acme/tickets/b");`, three, authz.Allow, []string{"a", "c"}, authz.Allow},
		{"one candidate is enough to be shown", onA, three, authz.Allow, []string{"a"}, authz.Allow},
		{"none is not", `permit(principal, action, resource in project::"acme/tickets/x");`, three, authz.Deny, nil, authz.Deny},
		{"no candidates are no scope, whatever the connection says", all, listing(), authz.Deny, nil, authz.Allow},
		{"without candidates the connection decides", all, nil, authz.Allow, nil, authz.Allow},
		{"a permit on an object alone does not admit a search", onA, nil, authz.Deny, nil, authz.Deny},
		{"types that nobody lists are like no candidates", all, unlisted, authz.Allow, nil, authz.Allow},
		{"a forbid inside the connection stops a search that cannot heed it", all + `forbid(principal, action, resource == project::"acme/tickets/b");`, nil, authz.Deny, nil, authz.Allow},
		{"so does one that looks at the object", all + `forbid(principal, action, resource) when { resource has open };`, nil, authz.Deny, nil, authz.Allow},
		{"and one on a type", all + `forbid(principal, action, resource is project);`, nil, authz.Deny, nil, authz.Allow},
		{"and one on a type in the connection", all + `forbid(principal, action, resource is project in Connector::"acme/tickets");`, nil, authz.Deny, nil, authz.Allow},
		{"another tenant's forbid does not", all + `forbid(principal, action, resource == project::"evil/tickets/b");`, nil, authz.Allow, nil, authz.Allow},
		{"nor another connector's", all + `forbid(principal, action, resource in project::"acme/chat/b");`, nil, authz.Allow, nil, authz.Allow},
		{"nor another capability's", all + `forbid(principal, action == Action::"x", resource is project);`, nil, authz.Allow, nil, authz.Allow},
		{"nor another caller's", all + `forbid(principal == User::"acme/i/bob", action, resource is project);`, nil, authz.Allow, nil, authz.Allow},
		{"a forbid on the connection leaves candidates", all + `forbid(principal, action, resource is Connector);`, three, authz.Allow, []string{"a", "b", "c"}, authz.Allow},
		{"@prohibit on the connection is final", all + `@prohibit forbid(principal, action, resource is Connector);`, three, authz.Prohibit, nil, authz.Prohibit},
		{"@prohibit on a candidate leaves it out", all + `@prohibit forbid(principal, action, resource == project::"acme/tickets/a");`, three, authz.Allow, []string{"b", "c"}, authz.Allow},
		{"what needs approval is left out beside what does not", onA + `@approval("required") permit(principal, action, resource == project::"acme/tickets/b");`, three, authz.Allow, []string{"a"}, authz.Allow},
		{"and is the scope where there is nothing else", `@approval("required") permit(principal, action, resource == project::"acme/tickets/b");`, three, authz.AllowWithApproval, []string{"b"}, authz.AllowWithApproval},
		{"a candidate whose evaluation fails is left out", all + `forbid(principal, action, resource == project::"acme/tickets/a") when { resource.nothing };`, three, authz.Allow, []string{"b", "c"}, authz.Allow},
	} {
		policy := newPolicy(t, row.text, &cedarpolicy.Options{Candidates: row.candidates})
		req := request(alice, authz.OnConnection())
		req.Types = []string{"project"}
		d, err := policy.Decide(t.Context(), req)
		require.NoError(t, err, row.why)
		require.Equal(t, row.search, d.Verdict, "%s: %s", row.why, d.Reason)
		ids, _ := d.Scope.IDs("project")
		require.Equal(t, row.ids, ids, row.why)
		require.Equal(t, row.search == authz.Allow && row.ids == nil, d.Scope.Whole(), row.why)

		req.Purpose, req.Target = authz.Discover, authz.Target{}
		d, err = policy.Decide(t.Context(), req)
		require.NoError(t, err, row.why)
		require.Equal(t, row.show, d.Verdict, "%s: discovery: %s", row.why, d.Reason)
		require.True(t, d.Scope.IsZero(), row.why)
	}
}

// A9, A5: whatever cannot be answered is an error, and no decision.
func TestFailsClosed_A5(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	all := `permit(principal, action, resource);`
	broken := errors.New("directory is down")
	search := request(alice, authz.OnConnection())
	search.Types = []string{"project"}
	with := func(change func(*authz.Request)) *authz.Request {
		r := request(alice, authz.On(ticket("5")))
		change(r)
		return r
	}
	odd := func(o authz.Object) *authz.Request { return request(alice, authz.On(o)) }
	for _, row := range []struct {
		why  string
		opts *cedarpolicy.Options
		req  *authz.Request
		says string
	}{
		{"groups fail", &cedarpolicy.Options{Groups: func(context.Context, authz.Principal) ([]string, error) { return []string{"g"}, broken }}, request(alice, authz.On(ticket("5"))), "directory is down"},
		{"candidates fail", &cedarpolicy.Options{Candidates: func(context.Context, authz.Principal, string, string) ([]authz.Object, error) {
			return []authz.Object{project("a")}, broken
		}}, search, "directory is down"},
		{"candidates of another type", &cedarpolicy.Options{Candidates: func(context.Context, authz.Principal, string, string) ([]authz.Object, error) {
			return []authz.Object{ticket("5")}, nil
		}}, search, `an object of type "ticket"`},
		{"a fact without a Cedar value", nil, with(func(r *authz.Request) { r.Context = map[string]any{"ratio": 0.5} }), `fact "ratio" is a float64`},
		{"a context that lies about its purpose", nil, with(func(r *authz.Request) { r.Context = map[string]any{"purpose": "read"} }), `its own "purpose"`},
		{"an object that lies about its tenant", nil, odd(authz.Object{ResourceID: authz.ResourceID{Type: "ticket", ID: "5"}, Attributes: map[string]any{"tenant": "evil"}}), `its own attribute "tenant"`},
		{"an attribute without a Cedar value", nil, odd(authz.Object{ResourceID: authz.ResourceID{Type: "ticket", ID: "5"}, Attributes: map[string]any{"x": nil}}), `fact "x"`},
		{"an object that would be a user", nil, odd(authz.Object{ResourceID: authz.ResourceID{Type: "User", ID: "5"}}), `"User" cannot be the type of an object`},
		{"a parent that would be the tenant", nil, odd(authz.Object{ResourceID: authz.ResourceID{Type: "ticket", ID: "5"}, Parents: []authz.ResourceID{{Type: "Tenant", ID: "5"}}}), `"Tenant" cannot be`},
		{"a type that Cedar cannot spell", nil, odd(authz.Object{ResourceID: authz.ResourceID{Type: "issue-type", ID: "5"}}), `"issue-type" cannot be`},
		{"no type", nil, odd(authz.Object{ResourceID: authz.ResourceID{ID: "5"}}), `"" cannot be`},
	} {
		policy := newPolicy(t, all, row.opts)
		_, err := policy.Decide(t.Context(), row.req)
		require.ErrorContains(t, err, row.says, row.why)
		_, err = policy.DecideBatch(t.Context(), []*authz.Request{row.req})
		require.ErrorContains(t, err, row.says, row.why)
		g, err := authz.Authorize(t.Context(), policy, row.req)
		require.ErrorIs(t, err, toolresult.PolicyUnavailable, row.why)
		require.True(t, g.IsZero(), row.why)
	}
	var zero cedarpolicy.Policy
	_, err := zero.Decide(t.Context(), search)
	require.ErrorContains(t, err, "use New")
	_, err = zero.DecideBatch(t.Context(), nil)
	require.ErrorContains(t, err, "use New")
	require.ErrorContains(t, zero.Replace(nil), "use New")
	require.Empty(t, zero.Revision())
	require.Empty(t, zero.Warnings())
}

// K1: a capability that nobody classified shows the highest of both axes.
func TestUnclassifiedIsHighest_K1(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	req := request(alice, authz.On(ticket("5")))
	req.Action.Class = risk.Class{}
	d, err := newPolicy(t, `permit(principal, action, resource) when { context.side_effect == "irreversible_write" && context.sensitivity == "secret" };`, nil).Decide(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, authz.Allow, d.Verdict)
}

func TestFacts(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	req := request(alice, authz.On(ticket("5")))
	req.Context = map[string]any{"profile": "incident", "n": int64(3), "ok": true, "at": time.Date(2026, 4, 29, 2, 40, 0, 0, time.UTC), "tags": []string{"a", "b"}}
	for _, purpose := range []authz.Purpose{authz.Execute, authz.Recheck, authz.Read, authz.Approve} {
		req.Purpose = purpose
		word := map[authz.Purpose]string{authz.Execute: "execute", authz.Recheck: "recheck", authz.Read: "read", authz.Approve: "approve"}[purpose]
		d, err := newPolicy(t, `permit(principal, action, resource) when {
			context.profile == "incident" && context.n == 3 && context.ok && context.tags.containsAll(["a", "b"]) &&
			context.at > datetime("2026-04-29T02:35:00Z") && context.purpose == "`+word+`" };`, nil).Decide(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, authz.Allow, d.Verdict, d.Reason)
	}
}

// A4: discovery of many capabilities asks each hook once, and gives the
// answers of Decide.
func TestBatch_A4(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	var asked []string
	policy := newPolicy(t, `permit(principal in Group::"acme/oncall", action == Action::"c1", resource in project::"acme/tickets/a");`, &cedarpolicy.Options{
		Groups: func(context.Context, authz.Principal) ([]string, error) {
			asked = append(asked, "groups")
			return []string{"oncall"}, nil
		},
		Candidates: func(_ context.Context, _ authz.Principal, account, typ string) ([]authz.Object, error) {
			asked = append(asked, account+" "+typ)
			return []authz.Object{project("a")}, nil
		},
	})
	var reqs []*authz.Request
	for i := range 3 {
		r := &authz.Request{Principal: alice, Action: get, Purpose: authz.Discover, Types: []string{"project"}, Account: "acc"}
		r.Action.Capability = fmt.Sprintf("c%d", i)
		reqs = append(reqs, r)
	}
	decisions, err := authz.DecideAll(t.Context(), policy, reqs)
	require.NoError(t, err)
	require.Equal(t, []string{"groups", "acc project"}, asked)
	for i, d := range decisions {
		one, err := policy.Decide(t.Context(), reqs[i])
		require.NoError(t, err)
		require.Equal(t, one, d)
		require.Equal(t, i == 1, d.Verdict == authz.Allow)
	}
}

// A8: a revocation counts from the next decision on, without a restart.
func TestReplace_A8(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	text := map[string][]byte{"a": []byte(`permit(principal, action, resource);`)}
	policy, err := cedarpolicy.New(text, nil)
	require.NoError(t, err)
	before := policy.Revision()
	grant, err := authz.Authorize(t.Context(), policy, request(alice, authz.On(ticket("5"))))
	require.NoError(t, err)
	require.NoError(t, grant.Check(t.Context()))

	require.ErrorContains(t, policy.Replace(map[string][]byte{"b.cedar": []byte("permit(principal, action, resource);\npermit(;")}), "b.cedar:2")
	require.Equal(t, before, policy.Revision(), "a text that does not parse replaces nothing")
	require.NoError(t, grant.Check(t.Context()))

	require.NoError(t, policy.Replace(map[string][]byte{"a": []byte(`permit(principal, action, resource) when { false };`)}))
	require.NotEqual(t, before, policy.Revision())
	require.ErrorIs(t, grant.Check(t.Context()), toolresult.PermissionDenied)

	require.NoError(t, policy.Replace(map[string][]byte{"a": []byte(`@approval("required") permit(principal, action, resource);`)}))
	require.ErrorIs(t, grant.Check(t.Context()), toolresult.PermissionDenied, "a stricter verdict grants less")
	require.NoError(t, policy.Replace(text))
	require.Equal(t, before, policy.Revision(), "the revision is a digest")
	require.NoError(t, grant.Check(t.Context()))
}

// Each decision is made by one text as a whole, while texts are replaced.
func TestReplaceWhileDeciding_A8(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	texts := []map[string][]byte{
		{"a": []byte(`permit(principal, action, resource == ticket::"acme/tickets/1");`)},
		{"a": []byte(`permit(principal, action, resource == ticket::"acme/tickets/2");`)},
	}
	policy, err := cedarpolicy.New(texts[0], nil)
	require.NoError(t, err)
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 200 {
				ds, err := policy.DecideBatch(t.Context(), []*authz.Request{request(alice, authz.On(ticket("1"))), request(alice, authz.On(ticket("2")))})
				if err != nil || ds[0].Revision != ds[1].Revision || (ds[0].Verdict == authz.Allow) == (ds[1].Verdict == authz.Allow) {
					t.Errorf("a decision by some of both: %v %v", ds, err)
				}
			}
		})
	}
	for i := range 100 {
		require.NoError(t, policy.Replace(texts[i%2]))
	}
	work.Wait()
}

func TestRefusedTexts(t *testing.T) {
	for _, row := range []struct{ why, text, says string }{
		{"a syntax error has its place", "permit(principal, action, resource);\n\npermit(principal, action resource);", "p.cedar:3:"},
		{"a misspelt annotation is no plain permit", "\n@aproval(\"required\") permit(principal, action, resource);", "p.cedar:2:1: @aproval: not known"},
		{"a misspelt value neither", `@approval("requred") permit(principal, action, resource);`, "@approval: it is written"},
		{"approval of a forbid", `@approval("required") forbid(principal, action, resource);`, "on a permit only"},
		{"prohibition of a permit", `@prohibit permit(principal, action, resource);`, "on a forbid only"},
		{"a prohibition with a value", `@prohibit("no") forbid(principal, action, resource);`, "has no value"},
		{"half a window", `@window("2026-04-29T02:35:00Z/") permit(principal, action, resource);`, "two RFC 3339 times"},
		{"a window backwards", `@window("2026-04-29T02:50:00Z/2026-04-29T02:35:00Z") permit(principal, action, resource);`, "two RFC 3339 times"},
		{"a window of a forbid", `@window("` + window + `") forbid(principal, action, resource);`, "on a permit only"},
		{"a statement that would end the process", "permit(principal, action, resource);\npermit(principal, action, resource) when {" + strings.Repeat("{a:", 1<<18) + "};", "p.cedar:1: a statement of more than 65536 bytes"},
		{"hidden behind a string", "permit(principal, action, resource) when {\"a;\\\"\" == " + strings.Repeat("!", 1<<17) + "};", "a statement of more than"},
		{"or an escaped quote", "permit(principal, action, resource) when {" + strings.Repeat(`("\";" == `, 1<<14) + "};", "a statement of more than"},
	} {
		_, err := cedarpolicy.New(map[string][]byte{"p.cedar": []byte(row.text)}, nil)
		require.ErrorContains(t, err, row.says, row.why)
	}
	many := strings.Repeat("// one; \"two\n@id(\"x\") @note(\"y;\") permit(principal, action, resource);\n", 3000)
	_, err := cedarpolicy.New(map[string][]byte{"p.cedar": []byte(many)}, &cedarpolicy.Options{Annotations: []string{"note"}})
	require.NoError(t, err, "many statements are no long one")
}

func TestWarnings_A4(t *testing.T) {
	opts := &cedarpolicy.Options{Actions: []string{"tickets.get"}, Types: []string{"ticket", "project"}, ActionGroups: map[string][]string{"reads": {"tickets.get"}}}
	for _, row := range []struct{ why, text, want string }{
		{"all known", `permit(principal in Group::"acme/g", action in [Action::"reads", Action::"tickets.get"], resource is ticket in project::"acme/tickets/a") when { resource in [project::"acme/tickets/b"] };`, ""},
		{"no policies", ``, "there are no policies: everything is denied"},
		{"an unknown capability", `permit(principal, action == Action::"tickets.gte", resource);`, `p.cedar:1:1: there is no capability or group of them Action::"tickets.gte"`},
		{"an unknown type in the head", `permit(principal, action, resource is tiket);`, "p.cedar:1:1: there is no object of type tiket"},
		{"an unknown type in a condition", `permit(principal, action, resource) when { resource is tiket };`, "there is no object of type tiket"},
		{"and in a set", `permit(principal, action, resource) when { resource in [prj::"acme/tickets/a", project::"acme/tickets/a"] };`, "there is no object of type prj"},
		{"an id without the tenant", `permit(principal, action, resource in project::"a");`, "ids begin with the tenant"},
		{"a user without the tenant", `permit(principal == User::"alice", action, resource);`, "ids begin with the tenant"},
	} {
		var all []string
		for _, w := range newPolicy(t, row.text, opts).Warnings() {
			all = append(all, w.String())
		}
		require.Contains(t, strings.Join(all, "\n"), row.want, row.why)
		require.Equal(t, row.want == "", len(all) == 0, "%s: %v", row.why, all)
	}
	require.Empty(t, newPolicy(t, `permit(principal, action == Action::"x", resource is y);`, nil).Warnings(), "nobody knows the names")
}

// What can change a decision is in the revision.
func TestRevision_A9(t *testing.T) {
	seen := map[string]string{}
	for why, make := range map[string]func() (*cedarpolicy.Policy, error){
		"a": func() (*cedarpolicy.Policy, error) {
			return cedarpolicy.New(map[string][]byte{"a": []byte("// 1")}, nil)
		},
		"text": func() (*cedarpolicy.Policy, error) {
			return cedarpolicy.New(map[string][]byte{"a": []byte("// 2")}, nil)
		},
		"name": func() (*cedarpolicy.Policy, error) {
			return cedarpolicy.New(map[string][]byte{"b": []byte("// 1")}, nil)
		},
		"split": func() (*cedarpolicy.Policy, error) {
			return cedarpolicy.New(map[string][]byte{"a": []byte("//"), "b": nil}, nil)
		},
		"group": func() (*cedarpolicy.Policy, error) {
			return cedarpolicy.New(map[string][]byte{"a": []byte("// 1")}, &cedarpolicy.Options{ActionGroups: map[string][]string{"g": {"x"}}})
		},
		"hook": func() (*cedarpolicy.Policy, error) {
			return cedarpolicy.New(map[string][]byte{"a": []byte("// 1")}, &cedarpolicy.Options{Candidates: listing()})
		},
	} {
		p, err := make()
		require.NoError(t, err)
		require.Empty(t, seen[p.Revision()], why)
		seen[p.Revision()] = why
		again, err := make()
		require.NoError(t, err)
		require.Equal(t, p.Revision(), again.Revision())
	}
}
