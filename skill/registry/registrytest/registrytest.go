// Package registrytest holds every registry.Store to what its text says:
//
//	registrytest.Run(t, func(t *testing.T) registry.Store { return &registry.Memory{} })
package registrytest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// checks are the sentences of the contract.
var checks = []struct {
	says  string
	check func(t *testing.T, s registry.Store)
}{
	{"a record is read as it was put, with the next revision", putGet},
	{"a revision that is not the last is CONFLICT and changes nothing", stale},
	{"of many that change one revision, one wins", race},
	{"records are listed by name, then by version as versions", list},
	{"what is not there is NOT_FOUND, whatever its name", missing},
	{"a package is read as it was put, and putting it twice is no error", packages},
	{"the first pin of a run wins, for good", pins},
	{"a finished run is kept, holds nothing and takes no pin", finish},
	{"what is returned belongs to the caller", owned},
}

// Run checks stores that open returns, each of them empty.
func Run(t *testing.T, open func(t *testing.T) registry.Store) {
	for _, c := range checks {
		t.Run(c.says, func(t *testing.T) { c.check(t, open(t)) })
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Fatalf("got %s\nwant %s", g, w)
	}
}

func code(t *testing.T, err error, want toolresult.ErrorCode) {
	t.Helper()
	if toolresult.Code(err) != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

var at = time.Date(2026, 4, 29, 2, 35, 0, 1000, time.UTC)

// Record returns a record with every field filled in.
func Record(name, version string) registry.Record {
	who, d := registry.Person{Issuer: "https://issuer.test", Subject: "alice"}, skill.DigestOf([]byte(name))
	return registry.Record{
		Name: name, Version: version, Owner: "sre", Status: registry.Draft, Artifact: d, Source: "commit 1", Scope: []string{"staging", "prod"},
		SideEffect: risk.ReadOnly, Sensitivity: risk.Sensitive, PreviousStable: "0.0.1", Changelog: "more \u00e9", Registrant: who,
		Dependencies: registry.Dependencies{ToolContract: "observability-v3", RuntimeProfile: "incident-reader-v2",
			Skills: map[string]skill.Digest{"other": d}, External: map[string]string{"kb": "2026-04"}},
		Validation: &registry.Evidence{Suite: "s", URI: "eval://x", Artifact: d, Context: d, Passed: true, At: at, By: who},
		Reviews:    []registry.Review{{Reviewer: who, Artifact: d, Approved: true, Note: "fine", At: at}},
		Signature:  &skill.Signature{Key: "k", Bytes: []byte{0, 255}},
	}
}

// Package returns a package of a skill; extra is more text of its SKILL.md, so
// that it has another digest.
func Package(t testing.TB, name, extra string) *skill.Package {
	t.Helper()
	text := "---\nname: " + name + "\ndescription: Does one thing. Use it for tests.\n---\n# Method\n\nRun [the check](scripts/check.sh).\n" + extra
	dir := t.TempDir()
	ok := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(os.WriteFile(dir+"/SKILL.md", []byte(text), 0o644))
	ok(os.Mkdir(dir+"/scripts", 0o755))
	ok(os.WriteFile(dir+"/scripts/check.sh", []byte("#!/bin/sh\n"), 0o755))
	root, err := os.OpenRoot(dir)
	ok(err)
	defer root.Close()
	p, err := skill.Open(root, nil)
	ok(err)
	return p
}

// describe shows what pointers point to.
func describe(r registry.Record) string {
	v, s := r.Validation, r.Signature
	r.Validation, r.Signature = nil, nil
	return fmt.Sprintf("%+v %+v %+v", r, *v, *s)
}

func putGet(t *testing.T, s registry.Store) {
	ctx := context.Background()
	rec := Record("a", "1.0.0-rc.1")
	for n := int64(1); n <= 12; n++ {
		ev := registry.Event{What: "move", Name: "a", Version: rec.Version, From: rec.Status, To: registry.Draft, By: rec.Registrant, Reason: "r", At: at}
		put := must[registry.Record](t)(s.Put(ctx, rec, ev))
		rec.Revision, ev.Revision = n, n
		equal(t, describe(put), describe(rec))
		equal(t, describe(must[registry.Record](t)(s.Get(ctx, "a", rec.Version))), describe(rec))
		history := must[[]registry.Event](t)(s.History(ctx, "a", rec.Version))
		equal(t, len(history), n)
		equal(t, history[n-1], ev)
	}
}

func stale(t *testing.T, s registry.Store) {
	ctx := context.Background()
	first := must[registry.Record](t)(s.Put(ctx, Record("a", "1.0.0"), registry.Event{}))
	for _, r := range []int64{0, 2, -1} {
		other := first
		other.Revision, other.Owner = r, "other"
		_, err := s.Put(ctx, other, registry.Event{})
		code(t, err, toolresult.Conflict)
	}
	equal(t, must[registry.Record](t)(s.Get(ctx, "a", "1.0.0")).Owner, "sre")
	equal(t, len(must[[]registry.Event](t)(s.History(ctx, "a", "1.0.0"))), 1)
}

func race(t *testing.T, s registry.Store) {
	ctx := context.Background()
	rec := must[registry.Record](t)(s.Put(ctx, Record("a", "1.0.0"), registry.Event{}))
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = s.Put(ctx, rec, registry.Event{Reason: fmt.Sprint(i)}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			code(t, err, toolresult.Conflict)
		}
	}
	equal(t, won, 1)
	equal(t, len(must[[]registry.Event](t)(s.History(ctx, "a", "1.0.0"))), 2)
}

func list(t *testing.T, s registry.Store) {
	ctx := context.Background()
	equal(t, len(must[[]registry.Record](t)(s.List(ctx, ""))), 0)
	for _, v := range [][2]string{{"a", "1.10.0"}, {"b", "1.0.0"}, {"a", "1.9.0"}, {"a-b", "1.0.0"}, {"a", "1.10.0-rc.2"}, {"a", "1.10.0-rc.10"}} {
		must[registry.Record](t)(s.Put(ctx, Record(v[0], v[1]), registry.Event{}))
	}
	names := func(recs []registry.Record) (out []string) {
		for _, r := range recs {
			out = append(out, r.Name+" "+r.Version)
		}
		return out
	}
	equal(t, names(must[[]registry.Record](t)(s.List(ctx, "a"))), []string{"a 1.9.0", "a 1.10.0-rc.2", "a 1.10.0-rc.10", "a 1.10.0"})
	equal(t, names(must[[]registry.Record](t)(s.List(ctx, ""))), []string{"a 1.9.0", "a 1.10.0-rc.2", "a 1.10.0-rc.10", "a 1.10.0", "a-b 1.0.0", "b 1.0.0"})
}

func missing(t *testing.T, s registry.Store) {
	ctx := context.Background()
	must[registry.Record](t)(s.Put(ctx, Record("a", "1.0.0"), registry.Event{}))
	for _, k := range [][2]string{{"a", "1.0.1"}, {"b", "1.0.0"}, {"", ""}, {"..", "1.0.0"}, {"a", ".."}, {"a", "../../records/a/1.0.0"}, {"a", "1.0.0/"}, {"A", "1.0.0"}, {"/", "\x00"}} {
		_, err := s.Get(ctx, k[0], k[1])
		code(t, err, toolresult.NotFound)
		equal(t, len(must[[]registry.Event](t)(s.History(ctx, k[0], k[1]))), 0)
	}
	for _, d := range []skill.Digest{"", "sha256:", "sha256:../../x", skill.DigestOf(nil)} {
		_, err := s.Package(ctx, d)
		code(t, err, toolresult.NotFound)
	}
	equal(t, len(must[[]registry.Record](t)(s.List(ctx, ".."))), 0)
	equal(t, len(must[[]registry.Pin](t)(s.PinsOf(ctx, "../records"))), 0)
	equal(t, len(must[[]registry.Pin](t)(s.Running(ctx, "a"))), 0)
}

func packages(t *testing.T, s registry.Store) {
	ctx := context.Background()
	p, q := Package(t, "a", ""), Package(t, "a", "more")
	for _, one := range []*skill.Package{p, q, p} {
		if err := s.PutPackage(ctx, one); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range []*skill.Package{p, q} {
		equal(t, must[*skill.Package](t)(s.Package(ctx, one.Digest())).Manifest(), one.Manifest())
	}
}

func pin(run, name, version string) registry.Pin {
	return registry.Pin{Run: run, Name: name, Version: version, Artifact: skill.DigestOf([]byte(version)), Scope: "prod", Revision: 3, At: at}
}

func pins(t *testing.T, s registry.Store) {
	ctx := context.Background()
	first := pin("run_1", "a", "1.0.0")
	equal(t, must[registry.Pin](t)(s.PutPin(ctx, first)), first)
	equal(t, must[registry.Pin](t)(s.PutPin(ctx, pin("run_1", "a", "2.0.0"))), first)
	must[registry.Pin](t)(s.PutPin(ctx, pin("run_1", "b", "1.0.0")))
	must[registry.Pin](t)(s.PutPin(ctx, pin("run_0", "a", "2.0.0")))
	equal(t, must[[]registry.Pin](t)(s.PinsOf(ctx, "run_1")), []registry.Pin{first, pin("run_1", "b", "1.0.0")})
	equal(t, must[[]registry.Pin](t)(s.Running(ctx, "a")), []registry.Pin{pin("run_0", "a", "2.0.0"), first})
}

func finish(t *testing.T, s registry.Store) {
	ctx := context.Background()
	must[registry.Pin](t)(s.PutPin(ctx, pin("run_1", "a", "1.0.0")))
	must[registry.Pin](t)(s.PutPin(ctx, pin("run_3", "finished", "1.0.0")))
	equal(t, len(must[[]registry.Pin](t)(s.Running(ctx, "finished"))), 1)
	for _, f := range []struct {
		run  string
		when time.Time
	}{{"run_1", at}, {"run_1", at.Add(time.Hour)}, {"run_2", at}} {
		if err := s.FinishRun(ctx, f.run, f.when); err != nil {
			t.Fatal(err)
		}
	}
	kept := pin("run_1", "a", "1.0.0")
	kept.Finished = at
	equal(t, must[[]registry.Pin](t)(s.PinsOf(ctx, "run_1")), []registry.Pin{kept})
	equal(t, len(must[[]registry.Pin](t)(s.Running(ctx, "a"))), 0)
	for _, run := range []string{"run_1", "run_2"} {
		_, err := s.PutPin(ctx, pin(run, "b", "1.0.0"))
		code(t, err, toolresult.Conflict)
	}
}

func owned(t *testing.T, s registry.Store) {
	ctx := context.Background()
	mine := Record("a", "1.0.0")
	got := must[registry.Record](t)(s.Put(ctx, mine, registry.Event{}))
	spoil := func(r registry.Record) {
		r.Scope[0], r.Reviews[0].Note, r.Validation.Suite, r.Signature.Bytes[0] = "x", "x", "x", 1
		r.Dependencies.Skills["other"], r.Dependencies.External["kb"] = "x", "x"
	}
	spoil(mine)
	spoil(got)
	spoil(must[registry.Record](t)(s.Get(ctx, "a", "1.0.0")))
	spoil(must[[]registry.Record](t)(s.List(ctx, ""))[0])
	want := Record("a", "1.0.0")
	want.Revision = 1
	equal(t, describe(must[registry.Record](t)(s.Get(ctx, "a", "1.0.0"))), describe(want))
}
