package registry_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/skill/registry/registrytest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const name = "incident-diagnosis"

var today = skill.DigestOf([]byte("tools v3, model m1"))

// world is a registry with people: alice makes, carol reviews, rita releases,
// rob is the runtime, mallory may nothing.
type world struct {
	*registry.Registry
	store                                  registry.Store
	alice, carol, dave, rita, rob, mallory authz.Principal
	authority                              *authz.Authority
	t                                      *testing.T
}

func policy(r *authz.Request) (authz.Decision, error) {
	may := map[string]string{
		"skills.register": "alice", "skills.validate": "alice", "skills.review": "carol dave alice",
		"skills.release": "rita", "skills.use": "alice carol dave rita rob",
	}
	d := authz.Decision{Reason: "not in the table"}
	if strings.Contains(may[r.Action.Capability], r.Principal.Key().Subject) {
		d = authz.Decision{Verdict: authz.Allow, Scope: r.Target.Scope(), Revision: "r1"}
	}
	return d, nil
}

func newWorld(t *testing.T, s registry.Store, opts *registry.Options) *world {
	alice, authority := authztest.Principal(t, "acme", "alice")
	w := &world{store: s, alice: alice, authority: authority, t: t}
	for _, p := range []struct {
		to   *authz.Principal
		name string
	}{{&w.carol, "carol"}, {&w.dave, "dave"}, {&w.rita, "rita"}, {&w.rob, "rob"}, {&w.mallory, "mallory"}} {
		*p.to = authztest.Caller(t, authority, "acme", p.name)
	}
	var err error
	w.Registry, err = registry.New("acme", s, authztest.Policy(policy), []*authz.Authority{authority}, opts)
	require.NoError(t, err)
	return w
}

func draft(version, previous string) registry.Record {
	return registry.Record{Name: name, Version: version, Owner: "sre", Scope: []string{"staging", "prod"}, SideEffect: risk.ReadOnly,
		Sensitivity: risk.Sensitive, PreviousStable: previous, Changelog: "c"}
}

func evidence(p *skill.Package) registry.Evidence {
	return registry.Evidence{Suite: "regression-v5", URI: "eval://x", Artifact: p.Digest(), Context: today, Passed: true}
}

// release takes a version through all of its life up to published.
func (w *world) release(version, previous string) *skill.Package {
	ctx := context.Background()
	p := registrytest.Package(w.t, name, version)
	_, err := w.Register(ctx, w.alice, p, draft(version, previous))
	require.NoError(w.t, err)
	_, err = w.Attach(ctx, w.alice, name, version, evidence(p))
	require.NoError(w.t, err)
	_, err = w.Review(ctx, w.carol, name, version, registry.Review{Artifact: p.Digest(), Approved: true})
	require.NoError(w.t, err)
	for _, to := range []registry.Status{registry.Validated, registry.Published} {
		_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: version, To: to})
		require.NoError(w.t, err)
	}
	return p
}

func (w *world) start(run string) registry.Pin {
	pin, err := w.Start(context.Background(), w.rob, registry.StartRequest{Run: run, Name: name, Scope: "prod"})
	require.NoError(w.t, err)
	return pin
}

func eachStore(t *testing.T, f func(t *testing.T, s registry.Store)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { f(t, open(t)) })
	}
}

// An upgrade, a rollback and a retirement while runs go on: each run keeps what
// it began with, new runs get what is current, and what a run used can be told
// after all of it is gone.
func TestRunsKeepTheirVersion_L3(t *testing.T) {
	eachStore(t, func(t *testing.T, s registry.Store) {
		ctx := context.Background()
		w := newWorld(t, s, nil)
		old := w.release("1.3.2", "")
		require.Equal(t, "1.3.2", w.start("run_1").Version)

		bad := w.release("1.4.0", "1.3.2")
		require.Equal(t, "1.4.0", w.start("run_2").Version, "a new run gets the new version")
		require.Equal(t, "1.3.2", w.start("run_1").Version, "a run that goes on keeps its own")

		rolled, err := w.Rollback(ctx, w.rita, name, "1.4.0", "it forgets logs")
		require.NoError(t, err)
		require.Equal(t, []string{"run_2"}, rolled.Running, "what a rollback cannot undo is named")
		require.Equal(t, registry.Deprecated, rolled.From.Status)
		require.Equal(t, "1.3.2", w.start("run_3").Version, "new runs get the version before")
		p, rec, err := w.Load(ctx, w.rob, "run_2", name)
		require.NoError(t, err)
		require.Equal(t, bad.Digest(), p.Digest(), "and a run keeps the one that was rolled back")
		require.Equal(t, "1.4.0", rec.Version)

		_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.4.0", To: registry.Retired, Reason: "bad"})
		require.ErrorContains(t, err, "these runs still have it: run_2")
		require.NoError(t, w.Finish(ctx, w.rob, "run_2"))
		_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.4.0", To: registry.Retired, Reason: "bad"})
		require.NoError(t, err)

		_, err = w.Rollback(ctx, w.rita, name, "1.3.2", "no")
		require.ErrorContains(t, err, "one before it")
		for _, to := range []registry.Status{registry.Deprecated, registry.Retired} {
			_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.3.2", To: to, Reason: "over", Force: true})
			require.NoError(t, err)
		}
		_, _, err = w.Load(ctx, w.rob, "run_1", name)
		require.ErrorIs(t, err, toolresult.Conflict, "a retired version is given to nobody")
		_, err = w.Start(ctx, w.rob, registry.StartRequest{Run: "run_1", Name: name, Scope: "prod"})
		require.ErrorIs(t, err, toolresult.Conflict)
		_, err = w.Start(ctx, w.rob, registry.StartRequest{Run: "run_4", Name: name, Scope: "prod"})
		require.ErrorIs(t, err, toolresult.NotFound)

		pins, err := w.PinsOf(ctx, w.rob, "run_1")
		require.NoError(t, err)
		require.Equal(t, old.Digest(), pins[0].Artifact, "the run still explains itself")
		kept, err := s.Package(ctx, pins[0].Artifact)
		require.NoError(t, err)
		require.Equal(t, old.Manifest(), kept.Manifest())
		history, err := w.History(ctx, w.rob, name, "1.4.0")
		require.NoError(t, err)
		var said []string
		for _, e := range history {
			said = append(said, fmt.Sprintf("%s %s>%s by %s", e.What, e.From, e.To, e.By.Subject))
		}
		require.Equal(t, []string{"register >draft by alice", "validate draft>draft by alice", "review draft>draft by carol", "move draft>validated by rita",
			"move validated>published by rita", "move published>deprecated by rita", "move deprecated>retired by rita"}, said)
	})
}

// A rollback to a version that was deprecated publishes it again, under today's
// conditions.
func TestRollbackToDeprecated_L3(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, &registry.Memory{}, nil)
	w.release("1.3.2", "")
	w.release("1.3.9", "1.3.2")
	w.release("1.4.0", "1.3.2")
	_, err := w.Rollback(ctx, w.rita, name, "1.4.0", "bad")
	require.ErrorContains(t, err, "version 1.3.9 is published too")
	for _, v := range []string{"1.3.9", "1.3.2"} {
		_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: v, To: registry.Deprecated, Reason: "superseded"})
		require.NoError(t, err)
	}
	strict, err := registry.New("acme", w.store, authztest.Policy(policy), []*authz.Authority{w.authority}, &registry.Options{Context: skill.DigestOf([]byte("model m2"))})
	require.NoError(t, err)
	_, err = strict.Rollback(ctx, w.rita, name, "1.4.0", "bad")
	require.ErrorContains(t, err, "the evidence is stale")
	rolled, err := w.Rollback(ctx, w.rita, name, "1.4.0", "bad")
	require.NoError(t, err)
	require.Equal(t, registry.Published, rolled.To.Status)
	require.Equal(t, "1.3.2", w.start("run_1").Version)
}

// Evidence and reviews of one package do not let another through.
func TestBoundToDigest_L3(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, &registry.Memory{}, nil)
	a, b := registrytest.Package(t, name, "a"), registrytest.Package(t, name, "b")
	_, err := w.Register(ctx, w.alice, b, draft("1.0.0", ""))
	require.NoError(t, err)
	_, err = w.Attach(ctx, w.alice, name, "1.0.0", evidence(a))
	require.ErrorIs(t, err, toolresult.InvalidInput)
	_, err = w.Review(ctx, w.carol, name, "1.0.0", registry.Review{Artifact: a.Digest(), Approved: true})
	require.ErrorIs(t, err, toolresult.ApprovalInvalid)

	_, err = w.Register(ctx, w.alice, a, draft("1.0.0", ""))
	require.ErrorContains(t, err, "a version never changes")
	again, err := w.Register(ctx, w.alice, b, draft("1.0.0", ""))
	require.NoError(t, err, "a repeated registration answers what is there")
	require.Equal(t, int64(1), again.Revision)
	other := draft("1.0.0", "")
	other.Scope = []string{"everywhere"}
	_, err = w.Register(ctx, w.alice, b, other)
	require.ErrorContains(t, err, "a version never changes", "not even what is said about it")

	// A store that was tampered with does not help.
	rec, err := w.store.Get(ctx, name, "1.0.0")
	require.NoError(t, err)
	e := evidence(a)
	rec.Validation, rec.Reviews = &e, []registry.Review{{Reviewer: registry.Person{Subject: "carol"}, Artifact: a.Digest(), Approved: true}}
	_, err = w.store.Put(ctx, rec, registry.Event{})
	require.NoError(t, err)
	_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.0.0", To: registry.Validated})
	require.ErrorContains(t, err, "the evidence is for another package")
}

// The gate says everything that is missing at once.
func TestGate_L3(t *testing.T) {
	ctx := context.Background()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	w := newWorld(t, &registry.Memory{}, &registry.Options{
		Reviews: 2, Keys: skill.Keys{"k": public}, Context: today,
		Gates: []registry.Gate{func(_ context.Context, r registry.Record, p *skill.Package, to registry.Status) error {
			if to == registry.Published && len(p.Manifest()) > 0 && r.SideEffect == risk.ReadOnly {
				return errors.New("the tools that it needs write")
			}
			return nil
		}},
	})
	p := registrytest.Package(t, name, "[x](../out.md)\n")
	rec := draft("1.0.0", "")
	rec.Scope, rec.Changelog = nil, ""
	_, err = w.Register(ctx, w.alice, p, rec)
	require.NoError(t, err)
	move := func(to registry.Status) error {
		_, err := w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.0.0", To: to})
		return err
	}
	require.ErrorContains(t, move(registry.Published), "it is draft, and after that comes validated or retired")
	require.ErrorContains(t, move(registry.Validated), "there is no evidence")
	e := evidence(p)
	e.Passed = false
	_, err = w.Attach(ctx, w.alice, name, "1.0.0", e)
	require.NoError(t, err)
	require.ErrorContains(t, move(registry.Validated), "did not pass")
	e.Passed, e.Context = true, skill.DigestOf(nil)
	_, err = w.Attach(ctx, w.alice, name, "1.0.0", e)
	require.NoError(t, err)
	require.ErrorContains(t, move(registry.Validated), "stale")
	_, err = w.Attach(ctx, w.alice, name, "1.0.0", evidence(p))
	require.NoError(t, err)
	require.NoError(t, move(registry.Validated))
	require.NoError(t, move(registry.Validated), "again changes nothing")

	for _, r := range []struct {
		who      authz.Principal
		approved bool
	}{{w.carol, true}, {w.carol, true}, {w.dave, false}} {
		_, err = w.Review(ctx, r.who, name, "1.0.0", registry.Review{Artifact: p.Digest(), Approved: r.approved})
		require.NoError(t, err)
	}
	blocked, ok := errors.AsType[*registry.Blocked](move(registry.Published))
	require.True(t, ok)
	require.ErrorIs(t, blocked, toolresult.Conflict)
	require.Equal(t, toolresult.Conflict, toolresult.Code(blocked))
	require.Len(t, blocked.Reasons, 7)
	for i, says := range []string{"link/escape", "a reviewer objects: dave", "1 of 2 reviews", "no scope", "no changelog", "no signature that holds", "the tools that it needs write"} {
		require.Contains(t, blocked.Reasons[i], says)
	}

	signer, err := skill.NewSigner("k", private)
	require.NoError(t, err)
	sig, err := signer.Sign(skill.Statement{Name: name, Version: "1.0.1", Digest: p.Digest()})
	require.NoError(t, err)
	_, err = w.Sign(ctx, w.rita, name, "1.0.0", sig)
	require.ErrorIs(t, err, skill.ErrSignature, "of another version")
	sig, err = signer.Sign(skill.Statement{Name: name, Version: "1.0.0", Digest: p.Digest()})
	require.NoError(t, err)
	_, err = w.Sign(ctx, w.rita, name, "1.0.0", sig)
	require.NoError(t, err)
	require.NotContains(t, move(registry.Published).Error(), "signature")
}

func TestPreviousStable_L3(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, &registry.Memory{}, nil)
	w.release("1.0.0", "")
	for previous, says := range map[string]string{"": "such as 1.0.0", "0.9.0": "0.9.0 was never published"} {
		version := "1.1.0-" + map[string]string{"": "a", "0.9.0": "b"}[previous]
		p := registrytest.Package(t, name, version)
		_, err := w.Register(ctx, w.alice, p, draft(version, previous))
		require.NoError(t, err)
		_, err = w.Attach(ctx, w.alice, name, version, evidence(p))
		require.NoError(t, err)
		_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: version, To: registry.Validated})
		require.NoError(t, err)
		_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: version, To: registry.Published})
		require.ErrorContains(t, err, says)
	}
}

// Who may not act is told nothing, not even whether there is such a skill.
func TestWhoMay_L3_A7(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, &registry.Memory{}, nil)
	p := w.release("1.0.0", "")
	w.start("run_1")
	stranger, _ := authztest.Principal(t, "acme", "rita")
	elsewhere := authztest.Caller(t, w.authority, "other", "rita")
	acts := map[string]func(who authz.Principal, name string) error{
		"register": func(who authz.Principal, name string) error {
			_, err := w.Register(ctx, who, p, draft("2.0.0", ""))
			return err
		},
		"attach": func(who authz.Principal, name string) error {
			_, err := w.Attach(ctx, who, name, "1.0.0", evidence(p))
			return err
		},
		"review": func(who authz.Principal, name string) error {
			_, err := w.Review(ctx, who, name, "1.0.0", registry.Review{Artifact: p.Digest()})
			return err
		},
		"move": func(who authz.Principal, name string) error {
			_, err := w.Move(ctx, who, registry.MoveRequest{Name: name, Version: "1.0.0", To: registry.Deprecated, Reason: "x"})
			return err
		},
		"rollback": func(who authz.Principal, name string) error {
			_, err := w.Rollback(ctx, who, name, "1.0.0", "x")
			return err
		},
		"sign": func(who authz.Principal, name string) error {
			_, err := w.Sign(ctx, who, name, "1.0.0", skill.Signature{})
			return err
		},
		"record": func(who authz.Principal, name string) error { _, err := w.Record(ctx, who, name, "1.0.0"); return err },
		"history": func(who authz.Principal, name string) error {
			_, err := w.History(ctx, who, name, "1.0.0")
			return err
		},
		"start": func(who authz.Principal, name string) error {
			_, err := w.Start(ctx, who, registry.StartRequest{Run: "r", Name: name, Scope: "prod"})
			return err
		},
		"load": func(who authz.Principal, name string) error {
			_, _, err := w.Load(ctx, who, "run_1", name)
			return err
		},
		"peek": func(who authz.Principal, name string) error { _, err := w.Peek(ctx, who, name, "1.0.0"); return err },
	}
	for what, do := range acts {
		t.Run(what, func(t *testing.T) {
			known, unknown := do(w.mallory, name), do(w.mallory, "no-such-skill")
			require.ErrorIs(t, known, toolresult.NotFound)
			require.Equal(t, known.Error(), unknown.Error())
			require.ErrorIs(t, do(stranger, name), toolresult.AuthenticationRequired, "another authority's rita")
			require.ErrorIs(t, do(elsewhere, name), toolresult.AuthenticationRequired, "another tenant's rita")
			require.ErrorIs(t, do(authz.Principal{}, name), toolresult.AuthenticationRequired, "nobody")
		})
	}
	for _, err := range []error{w.Finish(ctx, w.mallory, "run_1"), func() error { _, err := w.Current(ctx, w.mallory, ""); return err }(), func() error { _, err := w.PinsOf(ctx, w.mallory, "run_1"); return err }()} {
		require.Error(t, err)
	}
	rec, err := w.Record(ctx, w.rob, name, "1.0.0")
	require.NoError(t, err)
	require.Equal(t, registry.Published, rec.Status, "nothing of it had an effect")
}

func TestReviewers_L3(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, &registry.Memory{}, nil)
	p := registrytest.Package(t, name, "")
	_, err := w.Register(ctx, w.alice, p, draft("1.0.0", ""))
	require.NoError(t, err)
	v := registry.Review{Artifact: p.Digest(), Approved: true, Reviewer: registry.Person{Subject: "boss"}}
	_, err = w.Review(ctx, w.alice, name, "1.0.0", v)
	require.ErrorIs(t, err, toolresult.PermissionDenied, "the registrant")
	agent, err := w.authority.Principal(authz.Identity{Tenant: "acme", Issuer: authztest.Issuer, Subject: "carol", Delegation: &authz.Delegation{Actor: "agent", Expires: time.Now().Add(time.Hour)}})
	require.NoError(t, err)
	_, err = w.Review(ctx, agent, name, "1.0.0", v)
	require.ErrorIs(t, err, toolresult.PermissionDenied, "somebody who acts for carol")
	rec, err := w.Review(ctx, w.carol, name, "1.0.0", v)
	require.NoError(t, err)
	require.Equal(t, "carol", rec.Reviews[0].Reviewer.Subject, "nobody signs for somebody else")
	v.Approved = false
	rec, err = w.Review(ctx, w.carol, name, "1.0.0", v)
	require.NoError(t, err)
	require.Len(t, rec.Reviews, 1)
	require.False(t, rec.Reviews[0].Approved, "the last word counts")
}

func TestRegister_L3(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, &registry.Memory{}, nil)
	w.release("1.0.0", "")
	p := registrytest.Package(t, name, "x")
	for _, row := range []struct {
		name, says string
		change     func(*registry.Record)
	}{
		{"a version that is none", "semantic version", func(r *registry.Record) { r.Version = "v1" }},
		{"no owner", "owner", func(r *registry.Record) { r.Owner = "" }},
		{"another owner", "belongs to another owner", func(r *registry.Record) { r.Owner = "mallory" }},
		{"an unclassified effect", "side_effect", func(r *registry.Record) { r.SideEffect = 0 }},
		{"another skill", "names another skill", func(r *registry.Record) { r.Name = "other" }},
		{"another digest", "artifact_digest is not that", func(r *registry.Record) { r.Artifact = today }},
		{"itself as the version before", "another version", func(r *registry.Record) { r.PreviousStable = r.Version }},
	} {
		rec := draft("2.0.0", "1.0.0")
		row.change(&rec)
		_, err := w.Register(ctx, w.alice, p, rec)
		require.ErrorContains(t, err, row.says, row.name)
		require.ErrorIs(t, err, toolresult.Conflict)
	}
	rec := draft("2.0.0", "1.0.0")
	rec.Status, rec.Reviews = registry.Published, []registry.Review{{Approved: true}}
	got, err := w.Register(ctx, w.alice, p, rec)
	require.NoError(t, err)
	require.Equal(t, registry.Draft, got.Status, "what a record says of itself counts for nothing")
	require.Empty(t, got.Reviews)
	_, err = w.Register(ctx, w.alice, nil, rec)
	require.ErrorIs(t, err, toolresult.InvalidInput)
	_, err = registry.New("", nil, nil, nil, nil)
	require.Error(t, err)
	_, err = new(registry.Registry).Current(ctx, w.rob, "")
	require.ErrorIs(t, err, toolresult.AuthenticationRequired, "the zero Registry refuses")
}

func TestCurrentAndStale_L3(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, &registry.Memory{}, nil)
	w.release("1.9.0", "")
	w.release("1.10.0", "1.9.0")
	for scope, n := range map[string]int{"": 1, "prod": 1, "dev": 0} {
		recs, err := w.Current(ctx, w.rob, scope)
		require.NoError(t, err)
		require.Len(t, recs, n, scope)
		if n > 0 {
			require.Equal(t, "1.10.0", recs[0].Version)
		}
	}
	stale, err := w.Stale(ctx, w.rob, today)
	require.NoError(t, err)
	require.Empty(t, stale)
	stale, err = w.Stale(ctx, w.rob, skill.DigestOf([]byte("model m2")))
	require.NoError(t, err)
	require.Len(t, stale, 1)
	_, err = w.Start(ctx, w.rob, registry.StartRequest{Run: "../x", Name: name, Scope: "prod"})
	require.ErrorIs(t, err, toolresult.InvalidInput)
	pin, err := w.Start(ctx, w.rob, registry.StartRequest{Run: "r", Name: name, Scope: "prod", Version: "1.9.0"})
	require.NoError(t, err)
	require.Equal(t, "1.9.0", pin.Version)
	require.NoError(t, w.Finish(ctx, w.rob, "r"))
	_, _, err = w.Load(ctx, w.rob, "r", name)
	require.ErrorIs(t, err, toolresult.Conflict, "a finished run loads nothing")
	_, _, err = w.Load(ctx, w.rob, "r2", name)
	require.ErrorIs(t, err, toolresult.NotFound, "and neither does one that has not started")
}

// The record of the source loads, and says nothing that counts as evidence.
const sourceRecord = `name: incident-diagnosis
version: "1.4.0"
owner: sre-platform
status: published
artifact_digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
scope: [staging, prod]
side_effect: read_only
data_sensitivity: sensitive
dependencies:
  tool_contract: observability-v3
  runtime_profile: incident-reader-v2
validation:
  suite: incident-diagnosis-regression-v5
  evidence: "eval://incident-diagnosis/1.4.0"
previous_stable: "1.3.2"
changelog: "How to go on when a log query fails"
`

func TestParseRecord_L3(t *testing.T) {
	rec, err := registry.ParseRecord([]byte(sourceRecord))
	require.NoError(t, err)
	require.Equal(t, "observability-v3", rec.Dependencies.ToolContract)
	require.Equal(t, risk.Sensitive, rec.Sensitivity)
	require.Empty(t, rec.Validation.Artifact)
	for _, row := range []struct{ from, to, says string }{
		{"owner:", "ownr:", "line 3: ownr: is not a field"},
		{`"1.4.0"`, `"1.04.0"`, "version: want"},
		{"read_only", "harmless", "line 7"},
		{"side_effect: read_only\n", "", "side_effect: want"},
		{"sha256:0", "md5:0", "artifact_digest: want"},
		{"incident-diagnosis\n", "../x\n", "name: want"},
	} {
		_, err := registry.ParseRecord([]byte(strings.Replace(sourceRecord, row.from, row.to, 1)))
		require.ErrorContains(t, err, row.says)
		require.ErrorIs(t, err, toolresult.InvalidInput)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(sourceRecord))
	f.Add([]byte(`{"name":"a","version":"1.0.0-rc.1","owner":"b","side_effect":"read_only","data_sensitivity":"public","reviews":[{"at":"2026-01-02T03:04:05Z"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rec, err := registry.ParseRecord(text)
		if err != nil {
			require.Zero(t, rec)
			require.ErrorIs(t, err, toolresult.InvalidInput)
			return
		}
		require.True(t, rec.Name != "" && rec.Owner != "" && rec.SideEffect.Known() && rec.Sensitivity.Known())
	})
}
