package registry_test

import (
	"context"
	"crypto/ed25519"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/skill/registry/registrytest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// liar is a store that was tampered with, or that others change at a bad moment.
type liar struct {
	registry.Store
	pkg  *skill.Package           // given out for every digest
	get  func(r *registry.Record) // changes what is read
	list func()                   // called before runs are listed
}

func (l *liar) Package(ctx context.Context, d skill.Digest) (*skill.Package, error) {
	if l.pkg != nil {
		return l.pkg, nil
	}
	return l.Store.Package(ctx, d)
}

func (l *liar) Get(ctx context.Context, name, version string) (registry.Record, error) {
	rec, err := l.Store.Get(ctx, name, version)
	if l.get != nil {
		l.get(&rec)
	}
	return rec, err
}

func (l *liar) Put(ctx context.Context, rec registry.Record, ev registry.Event) (registry.Record, error) {
	if l.list != nil {
		l.list()
	}
	return l.Store.Put(ctx, rec, ev)
}

// The registry verifies what a store gives it.
func TestLyingStore_L2_L3(t *testing.T) {
	ctx := context.Background()
	s := &liar{Store: &registry.Memory{}}
	w := newWorld(t, s, nil)
	p := w.release("1.0.0", "")
	other := registrytest.Package(t, name, "other")
	w.start("run_1")

	s.pkg = other
	_, _, err := w.Load(ctx, w.rob, "run_1", name)
	require.ErrorIs(t, err, toolresult.Conflict, "another package under the digest")
	_, err = w.Peek(ctx, w.rob, name, "1.0.0")
	require.ErrorIs(t, err, toolresult.Conflict, "and for a catalogue")
	_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.0.0", To: registry.Deprecated, Reason: "x"})
	require.NoError(t, err)
	_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.0.0", To: registry.Published, Reason: "x"})
	require.ErrorIs(t, err, toolresult.Conflict, "the rules are checked on the package itself")
	s.pkg = nil
	_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.0.0", To: registry.Published, Reason: "x"})
	require.NoError(t, err, "control")

	s.get = func(r *registry.Record) { r.Artifact = other.Digest() }
	_, _, err = w.Load(ctx, w.rob, "run_1", name)
	require.ErrorIs(t, err, toolresult.Conflict, "another digest under the version")

	for says, review := range map[string]registry.Review{
		"of another package": {Reviewer: registry.Person{Subject: "carol"}, Artifact: other.Digest(), Approved: true},
		"of the registrant":  {Reviewer: registry.Person{Issuer: authztest.Issuer, Subject: "alice"}, Artifact: p.Digest(), Approved: true},
	} {
		s.get = func(r *registry.Record) { r.Status, r.Reviews = registry.Validated, []registry.Review{review} }
		_, err = w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.0.0", To: registry.Published})
		require.ErrorContains(t, err, "0 of 1 reviews", says)
	}
}

// A key that is revoked ends the skill for running tasks too.
func TestRevokedKey_L2(t *testing.T) {
	ctx := context.Background()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	s := &liar{Store: &registry.Memory{}}
	w := newWorld(t, s, nil)
	p := w.release("1.0.0", "")
	signer, err := skill.NewSigner("k", private)
	require.NoError(t, err)
	sig, err := signer.Sign(skill.Statement{Name: name, Version: "1.0.0", Digest: p.Digest()})
	require.NoError(t, err)
	_, err = w.Sign(ctx, w.rita, name, "1.0.0", sig)
	require.NoError(t, err)

	keys := skill.Keys{"k": public}
	r, err := registry.New("acme", s, authztest.Policy(policy), []*authz.Authority{w.authority}, &registry.Options{Keys: keys})
	require.NoError(t, err)
	_, err = r.Start(ctx, w.rob, registry.StartRequest{Run: "run_1", Name: name, Scope: "prod"})
	require.NoError(t, err)
	_, _, err = r.Load(ctx, w.rob, "run_1", name)
	require.NoError(t, err)
	delete(keys, "k")
	_, _, err = r.Load(ctx, w.rob, "run_1", name)
	require.ErrorIs(t, err, skill.ErrSignature)
	_, err = r.Peek(ctx, w.rob, name, "1.0.0")
	require.ErrorIs(t, err, skill.ErrSignature)
	_, err = r.Start(ctx, w.rob, registry.StartRequest{Run: "run_2", Name: name, Scope: "prod"})
	require.ErrorIs(t, err, skill.ErrSignature)
}

// A run that begins while a version is retired is named, and cannot load it.
func TestRetiredMeanwhile_L3(t *testing.T) {
	ctx := context.Background()
	s := &liar{Store: &registry.Memory{}}
	w := newWorld(t, s, nil)
	p := w.release("1.0.0", "")
	_, err := w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.0.0", To: registry.Deprecated, Reason: "old"})
	require.NoError(t, err)
	s.list = func() {
		_, err := s.PutPin(ctx, registry.Pin{Run: "run_late", Name: name, Version: "1.0.0", Artifact: p.Digest(), Scope: "prod"})
		require.NoError(t, err)
	}
	rec, err := w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.0.0", To: registry.Retired, Reason: "old"})
	require.ErrorContains(t, err, "these runs had just begun with it: run_late")
	require.Equal(t, registry.Retired, rec.Status)
	_, _, err = w.Load(ctx, w.rob, "run_late", name)
	require.ErrorIs(t, err, toolresult.Conflict)
}

// A version that is for staging alone does not get into prod by way of a run that
// began in staging.
func TestScopeOfARun_L3(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, &registry.Memory{}, nil)
	w.release("1.0.0", "")
	req := registry.StartRequest{Run: "run_1", Name: name, Scope: "staging"}
	_, err := w.Start(ctx, w.rob, req)
	require.NoError(t, err)
	_, err = w.Start(ctx, w.rob, req)
	require.NoError(t, err, "control")
	req.Scope = "prod"
	pin, err := w.Start(ctx, w.rob, req)
	require.ErrorIs(t, err, toolresult.Conflict)
	require.Zero(t, pin)
}

// Of two owners that registered a first version at the same moment, one publishes.
func TestTwoOwners_L3(t *testing.T) {
	ctx := context.Background()
	s := &liar{Store: &registry.Memory{}}
	w := newWorld(t, s, nil)
	w.release("1.0.0", "")
	p := registrytest.Package(t, name, "mallory")
	_, err := w.Register(ctx, w.alice, p, draft("1.1.0", "1.0.0"))
	require.NoError(t, err)
	_, err = w.Attach(ctx, w.alice, name, "1.1.0", evidence(p))
	require.NoError(t, err)
	_, err = w.Review(ctx, w.carol, name, "1.1.0", registry.Review{Artifact: p.Digest(), Approved: true})
	require.NoError(t, err)
	s.get = func(r *registry.Record) { r.Owner = "mallory" } // as if it had been registered in between
	move := func(to registry.Status) error {
		_, err := w.Move(ctx, w.rita, registry.MoveRequest{Name: name, Version: "1.1.0", To: to})
		return err
	}
	require.NoError(t, move(registry.Validated))
	require.ErrorContains(t, move(registry.Published), "belongs to another owner, sre")
}
