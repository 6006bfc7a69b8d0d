// Package ingesttest checks that an ingest.Index keeps its contract.
//
//	func TestIndex(t *testing.T) {
//		ingesttest.Run(t, func(t testing.TB) ingest.Index { return open(t, file) })
//	}
//
// Every clause of the contract is a subtest whose name is the sentence. The rules
// for what becomes of a record are ingest.Record's, and have their own tests; here
// a random history is applied to the index and to ingest.Memory, and both have to
// hold the same.
package ingesttest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/ingest"
)

// Run checks an index that is empty. Each call of open returns a handle on the
// same data, as another process would have it; an index of one process may return
// the same one every time.
func Run(t *testing.T, open func(t testing.TB) ingest.Index) {
	t.Helper()
	a, b := open(t), open(t)
	for i, c := range []struct {
		why   string
		check func(t *testing.T, f ingest.Feed, a, b ingest.Index)
	}{
		{"items and checkpoint come back, to every handle", stored},
		{"P-17: a batch with another version of the checkpoint changes nothing", version},
		{"of many that move a checkpoint, one does", race},
		{"readers and all of the words decide what is found", found},
		{"what is deleted is erased and not found", deleted},
		{"what a walk has not met is absent, but not most of it", absent},
		{"feeds never meet", apart},
		{"disconnecting removes everything of the connection, and of no other, C8", purged},
		{"any history ends as it does in memory", history},
	} {
		t.Run(c.why, func(t *testing.T) {
			c.check(t, ingest.Feed{Tenant: fmt.Sprint("tenant ", i), Connection: "c1", Name: "wiki"}, a, b)
		})
	}
}

var began = time.Unix(1e9, 5).UTC()

func id(s string) authz.ResourceID { return authz.ResourceID{Type: "page", ID: s} }

func item(object string, version int64, text string, readers ...string) ingest.Item {
	return ingest.Item{Object: id(object), Version: version, Title: "Title of " + object, Text: text, Access: &ingest.Access{Readers: readers}}
}

func apply(t testing.TB, x ingest.Index, f ingest.Feed, items ...ingest.Item) []authz.ResourceID {
	t.Helper()
	changed, err := x.Apply(t.Context(), f, &ingest.Batch{Items: items, At: began})
	require.NoError(t, err)
	return changed
}

func find(t testing.TB, x ingest.Index, f ingest.Feed, text string, readers ...string) []string {
	t.Helper()
	list, err := x.Find(t.Context(), &ingest.Query{Feed: f, Words: ingest.Words(text), Readers: readers, Limit: 100})
	require.NoError(t, err)
	out := []string{}
	for _, r := range list {
		require.Equal(t, ingest.Live, r.State)
		out = append(out, r.Object.ID)
	}
	return out
}

func stored(t *testing.T, f ingest.Feed, a, b ingest.Index) {
	cp, err := a.Checkpoint(t.Context(), f)
	require.NoError(t, err)
	require.Zero(t, cp)
	next := ingest.Checkpoint{Watermark: began, End: began.Add(time.Hour), Cursor: "c\x00\xff", Walk: began.Add(1), WalkCursor: "w", Walked: began.Add(2)}
	odd := item("odd \x00\xff \\", 1, "text \x00 \xff", "r\xff", "r")
	changed, err := a.Apply(t.Context(), f, &ingest.Batch{Items: []ingest.Item{odd, item("2", 1, "", "r")}, At: began, Next: &next})
	require.NoError(t, err)
	require.Len(t, changed, 2)
	cp, err = b.Checkpoint(t.Context(), f)
	require.NoError(t, err)
	next.Rev = 1
	require.Equal(t, next, cp)
	list, err := b.Find(t.Context(), &ingest.Query{Feed: f, Readers: []string{"r\xff"}, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []ingest.Record{{Object: odd.Object, State: ingest.Live, Version: 1, Title: odd.Title, Text: odd.Text, Readers: []string{"r", "r\xff"}, AccessVersion: 1, Applied: began}}, list)
	require.Empty(t, apply(t, a, f, odd), "the same once more changes nothing")
}

func version(t *testing.T, f ingest.Feed, a, b ingest.Index) {
	_, err := a.Apply(t.Context(), f, &ingest.Batch{At: began, Next: &ingest.Checkpoint{Cursor: "1"}})
	require.NoError(t, err)
	for _, rev := range []int64{0, 2, -1} {
		_, err = b.Apply(t.Context(), f, &ingest.Batch{Items: []ingest.Item{item("1", 1, "x", "r")}, At: began, Next: &ingest.Checkpoint{Rev: rev, Cursor: "2"}})
		require.ErrorIs(t, err, ingest.ErrVersion)
	}
	require.Empty(t, find(t, a, f, "", "r"))
	cp, err := a.Checkpoint(t.Context(), f)
	require.NoError(t, err)
	require.Equal(t, "1", cp.Cursor)
}

func race(t *testing.T, f ingest.Feed, a, b ingest.Index) {
	for n := range int64(10) {
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = []ingest.Index{a, b}[i%2].Apply(t.Context(), f, &ingest.Batch{Items: []ingest.Item{item(fmt.Sprint(i), n+1, "x", "r")}, At: began, Next: &ingest.Checkpoint{Rev: n}})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			require.ErrorIs(t, err, ingest.ErrVersion)
		}
		require.Equal(t, 1, won)
	}
}

func found(t *testing.T, f ingest.Feed, a, b ingest.Index) {
	apply(t, a, f, item("1", 1, "The quick brown fox", "alice", "staff"), item("2", 1, "a QUICK answer; 故障", "bob"), item("3", 1, "nobody's quick secret"))
	require.ElementsMatch(t, []string{"1"}, find(t, b, f, "quick", "alice"))
	require.ElementsMatch(t, []string{"1", "2"}, find(t, b, f, "Quick", "staff", "bob"))
	require.Empty(t, find(t, b, f, "quick missing", "staff", "bob"))
	require.ElementsMatch(t, []string{"2"}, find(t, b, f, "障", "bob"))
	require.ElementsMatch(t, []string{"2"}, find(t, b, f, "title answer", "bob"))
	require.Empty(t, find(t, b, f, "quick"), "for no reader nothing")
	require.Empty(t, find(t, b, f, "", ""))
	require.Empty(t, find(t, b, f, "quic", "bob"), "whole words")
	apply(t, a, f, item("1", 2, "another text", "carol"))
	require.Empty(t, find(t, b, f, "quick", "alice", "staff", "carol"), "words and readers that are gone")
	require.ElementsMatch(t, []string{"1"}, find(t, b, f, "another", "carol"))
	list, err := b.Find(t.Context(), &ingest.Query{Feed: f, Readers: []string{"carol", "bob"}, Limit: 1, Offset: 1})
	require.NoError(t, err)
	require.Len(t, list, 1)
	for _, limit := range []int{0, -1} {
		list, err = b.Find(t.Context(), &ingest.Query{Feed: f, Readers: []string{"bob"}, Limit: limit})
		require.NoError(t, err)
		require.Empty(t, list)
	}
}

func deleted(t *testing.T, f ingest.Feed, a, b ingest.Index) {
	apply(t, a, f, item("1", 5, "secret", "r"))
	gone := ingest.Item{Object: id("1"), Version: 3, Deleted: true}
	require.Equal(t, []authz.ResourceID{id("1")}, apply(t, b, f, gone), "H5: a batch of deletions only says what changed")
	require.Empty(t, find(t, a, f, "", "r"))
	require.Empty(t, apply(t, a, f, item("1", 5, "secret", "r")), "H4: an older state that comes late")
	require.Empty(t, find(t, a, f, "secret", "r"))
	apply(t, a, f, item("1", 6, "restored", "r"))
	require.Equal(t, []string{"1"}, find(t, b, f, "restored", "r"))
	require.Equal(t, []authz.ResourceID{id("2")}, apply(t, b, f, ingest.Item{Object: id("2"), Version: 1, Deleted: true}), "of one that was never seen")
	require.Empty(t, apply(t, b, f, item("2", 1, "late", "r")))
}

func absent(t *testing.T, f ingest.Feed, a, b ingest.Index) {
	var all []ingest.Item
	for i := range 30 {
		all = append(all, item(fmt.Sprintf("%02d", i), 1, "x", "r"))
	}
	apply(t, a, f, all...)
	walk := began.Add(time.Hour)
	late := item("late", 1, "came while it went", "r")
	_, err := a.Apply(t.Context(), f, &ingest.Batch{Items: []ingest.Item{late}, At: walk.Add(time.Second)})
	require.NoError(t, err)
	finish := func(met []ingest.Item, max float64) ([]authz.ResourceID, error) {
		return b.Apply(t.Context(), f, &ingest.Batch{Items: met, At: walk.Add(time.Minute), Walk: walk, Absent: true, MaxAbsent: max})
	}
	_, err = finish(all[:10], 0.5)
	require.ErrorIs(t, err, ingest.ErrTooManyAbsent)
	require.Len(t, find(t, a, f, "", "r"), 31)
	changed, err := finish(all[:20], 0.5)
	require.NoError(t, err)
	require.Len(t, changed, 10)
	require.Len(t, find(t, a, f, "", "r"), 21)
	require.Contains(t, find(t, a, f, "", "r"), "late")
	require.NotEmpty(t, apply(t, a, f, item("29", 1, "x", "r")), "seen again")
	require.Contains(t, find(t, a, f, "", "r"), "29")
}

func apart(t *testing.T, f ingest.Feed, a, b ingest.Index) {
	other := f
	other.Name = "files"
	apply(t, a, f, item("1", 1, "mine", "r"))
	apply(t, a, other, item("1", 9, "other", "r"))
	require.Equal(t, []string{"1"}, find(t, b, f, "mine", "r"))
	require.Empty(t, find(t, b, f, "other", "r"))
	apply(t, a, other, ingest.Item{Object: id("1"), Version: 10, Deleted: true})
	require.Equal(t, []string{"1"}, find(t, b, f, "mine", "r"))
}

func purged(t *testing.T, f ingest.Feed, a, b ingest.Index) {
	other := f
	other.Connection = "c2"
	for _, g := range []ingest.Feed{f, other} {
		_, err := a.Apply(t.Context(), g, &ingest.Batch{Items: []ingest.Item{item("1", 1, "x", "r")}, At: began, Next: &ingest.Checkpoint{Watermark: began}})
		require.NoError(t, err)
	}
	require.NoError(t, b.Purge(t.Context(), f.Tenant, f.Connection))
	require.NoError(t, b.Purge(t.Context(), f.Tenant, f.Connection), "again")
	require.Empty(t, find(t, a, f, "", "r"))
	cp, err := a.Checkpoint(t.Context(), f)
	require.NoError(t, err)
	require.Zero(t, cp)
	require.Equal(t, []string{"1"}, find(t, a, other, "", "r"))
	require.NotEmpty(t, apply(t, a, f, item("1", 1, "x", "r")))
}

// history applies the same random batches to an index and to a Memory.
func history(t *testing.T, f ingest.Feed, a, b ingest.Index) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var m ingest.Memory
	words := []string{"red", "green", "blue"}
	at := began
	for n := range 150 {
		at = at.Add(time.Duration(rnd.IntN(3600)) * time.Second)
		batch := ingest.Batch{At: at}
		if rnd.IntN(4) == 0 {
			batch.Walk, batch.Absent, batch.MaxAbsent = at.Add(-time.Duration(rnd.IntN(7200))*time.Second), rnd.IntN(2) == 0, 1
		}
		for range rnd.IntN(4) {
			it := ingest.Item{Object: id(fmt.Sprint(rnd.IntN(6))), Version: 1 + rnd.Int64N(int64(n)/10+3), Text: words[rnd.IntN(3)], Deleted: rnd.IntN(6) == 0, AccessOnly: rnd.IntN(6) == 0}
			if rnd.IntN(2) == 0 {
				it.Access = &ingest.Access{Version: rnd.Int64N(20), Readers: words[:rnd.IntN(4)]}
			}
			batch.Items = append(batch.Items, it)
		}
		want, err := m.Apply(t.Context(), f, &batch)
		require.NoError(t, err)
		got, err := []ingest.Index{a, b}[n%2].Apply(t.Context(), f, &batch)
		require.NoError(t, err)
		require.ElementsMatch(t, want, got)
		q := &ingest.Query{Feed: f, Readers: words[:1+rnd.IntN(3)], Words: slices.Repeat([]string{words[rnd.IntN(3)]}, rnd.IntN(2)), Limit: 100}
		wanted, err := m.Find(t.Context(), q)
		require.NoError(t, err)
		there, err := []ingest.Index{b, a}[n%2].Find(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, there, len(wanted))
		for i := range wanted {
			require.Equal(t, wanted[i], there[i])
		}
	}
}
