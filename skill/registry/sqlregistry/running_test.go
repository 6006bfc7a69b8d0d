package sqlregistry_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/loader"
	"github.com/drawbridge-sdk/drawbridge/skill/profile"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/skill/registry/registrytest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const name = "incident-diagnosis"

const composition = `capability_profile:
  id: incident-capabilities
  skill: incident-diagnosis
  credentials: resolve_from_run_binding
  sandbox: {filesystem: files, egress: net, env: env}
`

// process is one program of a team that share a database: the one that
// releases, or one that runs tasks.
type process struct {
	t     *testing.T
	reg   *registry.Registry
	load  *loader.Loader
	trace *profile.Trace
	who   authz.Principal
	other authz.Principal
}

func newProcess(t *testing.T, s registry.Store, who authz.Principal, authority *authz.Authority) *process {
	p := &process{t: t, who: who, other: authztest.Caller(t, authority, "acme", "carol"), trace: &profile.Trace{}}
	var err error
	p.reg, err = registry.New("acme", s, authztest.AllowAsked(), []*authz.Authority{authority}, nil)
	require.NoError(t, err)
	p.load, err = loader.New([]loader.Source{loader.FromRegistry("sre", p.reg, "prod")}, &loader.Options{Watch: p.trace.Watch})
	require.NoError(t, err)
	return p
}

func (p *process) release(version, previous string) *skill.Package {
	ctx := context.Background()
	pkg := registrytest.Package(p.t, name, version)
	_, err := p.reg.Register(ctx, p.who, pkg, registry.Record{Name: name, Version: version, Owner: "sre", Scope: []string{"prod"},
		SideEffect: risk.ReadOnly, Sensitivity: risk.Sensitive, Changelog: "c", PreviousStable: previous})
	require.NoError(p.t, err)
	_, err = p.reg.Attach(ctx, p.who, name, version, registry.Evidence{Suite: "regression-v5", URI: "eval://" + version, Artifact: pkg.Digest(), Context: pkg.Digest(), Passed: true})
	require.NoError(p.t, err)
	_, err = p.reg.Review(ctx, p.other, name, version, registry.Review{Artifact: pkg.Digest(), Approved: true})
	require.NoError(p.t, err)
	p.move(version, registry.Validated, nil)
	p.move(version, registry.Published, nil)
	return pkg
}

func (p *process) move(version string, to registry.Status, says any) {
	p.t.Helper()
	_, err := p.reg.Move(context.Background(), p.who, registry.MoveRequest{Name: name, Version: version, To: to, Reason: "r"})
	if says == nil {
		require.NoError(p.t, err)
	} else {
		require.ErrorContains(p.t, err, says.(string))
	}
}

// begin starts a task as a host does: a profile, the catalogue, an activation.
func (p *process) begin(run string) (*loader.Activation, *profile.Profile) {
	ctx := context.Background()
	spec, err := profile.Parse([]byte(composition))
	require.NoError(p.t, err)
	d := skill.DigestOf(nil)
	prof, err := profile.Resolve(ctx, spec, &profile.World{Skills: p.reg, Who: p.who, Scope: "prod", Policy: "r1", Sandboxes: map[string]skill.Digest{"files": d, "net": d, "env": d}})
	require.NoError(p.t, err)
	require.NoError(p.t, p.trace.Begin(run, p.who, prof))
	cat, err := p.load.Catalogue(ctx, p.who)
	require.NoError(p.t, err)
	require.Len(p.t, cat.Entries, 1)
	p.trace.See(run, cat.Entries[0].Ref)
	act, err := p.load.Activate(ctx, p.who, run, cat.Entries[0])
	require.NoError(p.t, err)
	return act, prof
}

// Upgrade, rollback and retirement while tasks run in another process: each task
// keeps what it began with, new ones get what is current, and the record of a
// task explains its run when everything that it used is gone.
//
// L3: running tasks keep their version. L6: a run can explain what was loaded.
func testRunsKeepTheirVersion_L3(t *testing.T, fresh func(t testing.TB) place) {
	ctx := context.Background()
	db := fresh(t)
	alice, authority := authztest.Principal(t, "acme", "alice")
	office := newProcess(t, db.open(t, "acme"), alice, authority)
	worker := newProcess(t, db.open(t, "acme"), alice, authority)
	read := func(act *loader.Activation) error { _, err := act.Read(ctx, "scripts/check.sh"); return err }

	old := office.release("1.3.2", "")
	first, firstProfile := worker.begin("run_1")
	require.Equal(t, old.Digest(), first.Entry.Digest)

	// Upgrade.
	bad := office.release("1.4.0", "1.3.2")
	second, _ := worker.begin("run_2")
	require.Equal(t, bad.Digest(), second.Entry.Digest, "a new task gets the new version")
	require.NoError(t, read(first), "a task that goes on keeps its own")
	late, err := worker.reg.Start(ctx, alice, registry.StartRequest{Run: "run_1", Name: name, Scope: "prod"})
	require.NoError(t, err)
	require.Equal(t, "1.3.2", late.Version, "and asking again does not move it")

	// Rollback.
	rolled, err := office.reg.Rollback(ctx, alice, name, "1.4.0", "it forgets logs")
	require.NoError(t, err)
	require.Equal(t, []string{"run_2"}, rolled.Running, "what a rollback cannot undo is named")
	third, _ := worker.begin("run_3")
	require.Equal(t, old.Digest(), third.Entry.Digest, "new tasks get the version before")
	require.NoError(t, read(second), "a task keeps the one that was rolled back")

	// Retirement.
	office.move("1.4.0", registry.Retired, "these runs still have it: run_2")
	require.NoError(t, read(second), "a retirement that is refused changes nothing")
	require.NoError(t, worker.reg.Finish(ctx, alice, "run_2"))
	office.move("1.4.0", registry.Retired, nil)
	require.ErrorIs(t, read(second), toolresult.Conflict, "the task is over")
	pins, err := office.reg.PinsOf(ctx, alice, "run_2")
	require.NoError(t, err)
	require.False(t, pins[0].Finished.IsZero())

	// Everything is gone, by force.
	office.release("2.0.0", "1.3.2")
	office.move("1.3.2", registry.Deprecated, nil)
	require.NoError(t, read(first), "deprecated is for those that have it")
	_, err = office.reg.Move(ctx, alice, registry.MoveRequest{Name: name, Version: "1.3.2", To: registry.Retired, Reason: "leak", Force: true})
	require.NoError(t, err)
	require.ErrorIs(t, read(first), toolresult.Conflict, "a retired version is given to nobody")
	for _, version := range []string{"1.3.2", "1.4.0"} {
		_, err = worker.reg.Start(ctx, alice, registry.StartRequest{Run: "run_9", Name: name, Version: version, Scope: "prod"})
		require.ErrorIs(t, err, toolresult.NotFound)
	}

	// The task's record explains it, from itself alone.
	e, err := worker.trace.Explain("run_1")
	require.NoError(t, err)
	text, err := json.Marshal(e)
	require.NoError(t, err)
	var kept profile.Explanation
	require.NoError(t, json.Unmarshal(text, &kept))
	require.Equal(t, firstProfile.Digest(), kept.Profile.Digest(), "the profile that was kept is the one that ran")
	require.Equal(t, profile.Skill{Name: name, Version: "1.3.2", Artifact: old.Digest(), Scope: "prod", Suite: "regression-v5", Evidence: "eval://1.3.2"}, kept.Profile.Skill())
	require.Equal(t, []string{name}, kept.Visible)
	script, _ := old.Manifest().Find("scripts/check.sh")
	var steps []string
	for _, l := range kept.Loaded {
		require.Equal(t, old.Digest(), l.Digest, "one version from the first step to the last")
		if l.Step == "read" && l.Code == "" {
			require.Equal(t, script.Digest, l.File)
		}
		steps = append(steps, l.Step+" "+string(l.Code))
	}
	require.Equal(t, []string{"activate ", "read ", "read ", "read CONFLICT"}, steps)
	require.Empty(t, kept.Unexpected)

	// And the bytes can still be looked at, in a process that begins now.
	again := db.open(t, "acme")
	pins, err = again.PinsOf(ctx, "run_1")
	require.NoError(t, err)
	require.Equal(t, late, pins[0])
	pkg, err := again.Package(ctx, pins[0].Artifact)
	require.NoError(t, err)
	require.Equal(t, old.Manifest(), pkg.Manifest())
	history, err := again.History(ctx, name, "1.3.2")
	require.NoError(t, err)
	require.Equal(t, registry.Retired, history[len(history)-1].To)
	require.Equal(t, "leak", history[len(history)-1].Reason)
}
