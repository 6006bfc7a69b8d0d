package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector/ingest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var feed = ingest.Feed{Tenant: "acme", Connection: "c1", Name: "wiki"}

func page(id string) authz.ResourceID { return authz.ResourceID{Type: "page", ID: id} }

// wiki is a provider: objects with the time of their last change.
type wiki struct {
	objects map[string]ingest.Item
	changed map[string]time.Time // as the provider says
	size    int                  // of a page
	asked   []toolresult.Interval
	fail    func(n int) error // of the n-th request
	n       int
	quiet   bool // it tells no deletions
	next    string
}

func newWiki() *wiki {
	return &wiki{objects: map[string]ingest.Item{}, changed: map[string]time.Time{}, size: 3}
}

func (w *wiki) put(id, text string) {
	now := time.Now()
	w.objects[id] = ingest.Item{Object: page(id), Version: now.UnixNano(), Text: text, Access: &ingest.Access{Readers: []string{"staff"}}}
	w.changed[id] = now
}

func (w *wiki) remove(id string) {
	it := w.objects[id]
	w.objects[id] = ingest.Item{Object: it.Object, Version: it.Version, Deleted: true}
	w.changed[id] = time.Now()
}

func (w *wiki) request() error {
	w.n++
	if w.fail != nil {
		return w.fail(w.n)
	}
	return nil
}

// list returns a page of what a filter lets pass, by time and then by id.
func (w *wiki) list(cursor string, pass func(id string) bool) (ingest.Page, error) {
	if err := w.request(); err != nil {
		return ingest.Page{}, err
	}
	var ids []string
	for id := range w.objects {
		if pass(id) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		if c := w.changed[a].Compare(w.changed[b]); c != 0 {
			return c
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	from := 0
	if cursor != "" {
		from, _ = strconv.Atoi(cursor)
	}
	to := min(from+w.size, len(ids))
	var p ingest.Page
	for _, id := range ids[min(from, to):to] {
		p.Items = append(p.Items, w.objects[id])
	}
	if p.More = to < len(ids); p.More {
		p.Next = strconv.Itoa(to)
		if w.next != "" {
			p.Next = w.next
		}
	}
	return p, nil
}

func (w *wiki) Changes(_ context.Context, in toolresult.Interval, cursor string) (ingest.Page, error) {
	w.asked = append(w.asked, in)
	return w.list(cursor, func(id string) bool {
		at := w.changed[id]
		return !at.Before(in.Start) && at.Before(in.End) && !(w.quiet && w.objects[id].Deleted)
	})
}

func (w *wiki) All(_ context.Context, cursor string) (ingest.Page, error) {
	return w.list(cursor, func(id string) bool { return !w.objects[id].Deleted })
}

func syncer(t testing.TB, x ingest.Index, w ingest.Source, o ingest.Options) *ingest.Syncer {
	t.Helper()
	s, err := ingest.New(x, feed, w, &o)
	require.NoError(t, err)
	return s
}

func sync(t testing.TB, s *ingest.Syncer) ingest.Progress {
	t.Helper()
	p, err := s.Sync(t.Context())
	require.NoError(t, err)
	return p
}

// has returns the ids that are live.
func has(t testing.TB, x ingest.Index) []string {
	t.Helper()
	list, err := x.Find(t.Context(), &ingest.Query{Feed: feed, Readers: []string{"staff"}, Limit: 1000})
	require.NoError(t, err)
	out := []string{}
	for _, r := range list {
		out = append(out, r.Object.ID)
	}
	slices.Sort(out)
	return out
}

// P6, C10: one clock that is wrong does not make the watermark pass over the
// others.
func TestWatermarkNeverPassesTheWindow_P6_C10(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ingest.Memory
		w := newWiki()
		w.put("1", "one")
		s := syncer(t, &m, w, ingest.Options{})
		require.True(t, sync(t, s).Done)
		time.Sleep(time.Hour)
		w.put("2", "two")
		skewed := w.objects["2"]
		skewed.Object, skewed.Version = page("skewed"), time.Now().Add(10000*time.Hour).UnixNano()
		w.objects["skewed"], w.changed["skewed"] = skewed, time.Now() // the list has it now, with a time of the far future
		time.Sleep(10 * time.Minute)
		sync(t, s)
		require.Equal(t, []string{"1", "2", "skewed"}, has(t, &m))
		cp, err := m.Checkpoint(t.Context(), feed)
		require.NoError(t, err)
		require.Equal(t, time.Now().Add(-time.Minute).UTC(), cp.Watermark, "the window's end, a minute behind the present")
		w.put("3", "three")
		time.Sleep(10 * time.Minute)
		sync(t, s)
		require.Contains(t, has(t, &m), "3")
		for i, in := range w.asked {
			require.False(t, in.End.After(time.Now()))
			if i > 0 {
				require.False(t, in.Start.After(w.asked[i-1].End), "no gap between windows")
			}
		}
	})
}

// P6, C9: no gap when a page is as large as what a window has, and none between
// windows of a week that nobody asked about.
func TestNoGaps_P6_C9(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ingest.Memory
		w := newWiki()
		s := syncer(t, &m, w, ingest.Options{Window: 6 * time.Hour})
		sync(t, s)
		for i := range 60 {
			w.put(fmt.Sprintf("%02d", i), "x")
			time.Sleep(time.Duration(i%7) * time.Hour)
		}
		time.Sleep(time.Hour)
		require.True(t, sync(t, s).Done)
		require.Len(t, has(t, &m), 60)
	})
}

// P6, P-17, C15: what was read before a failure stays, and the next run goes on
// after it.
func TestGoesOnAfterAFailure_P6_P17_C15(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ingest.Memory
		w := newWiki()
		s := syncer(t, &m, w, ingest.Options{})
		sync(t, s)
		time.Sleep(time.Hour)
		for i := range 10 {
			w.put(fmt.Sprint(i), "x")
		}
		time.Sleep(time.Hour)
		w.n, w.fail = 0, func(n int) error {
			if n == 3 {
				return toolresult.NewError(toolresult.QuotaExceeded, "come back tomorrow")
			}
			return nil
		}
		p, err := s.Sync(t.Context())
		require.ErrorIs(t, err, toolresult.QuotaExceeded)
		require.Equal(t, 2, p.Pages)
		require.False(t, p.Done)
		require.Len(t, has(t, &m), 6, "two pages")
		other := syncer(t, &m, w, ingest.Options{}) // another process
		p = sync(t, other)
		require.True(t, p.Done)
		require.Equal(t, 2, p.Pages, "only what was missing")
		require.Len(t, has(t, &m), 10)
	})
}

// P6: a budget stops a run, and the next one goes on.
func TestBudget_P6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ingest.Memory
		w := newWiki()
		for i := range 20 {
			w.put(fmt.Sprintf("%02d", i), "x")
		}
		s := syncer(t, &m, w, ingest.Options{Pages: 2})
		for i, want := range []int{6, 12, 18, 20} {
			p, err := s.Reconcile(t.Context())
			require.NoError(t, err)
			require.Equal(t, i == 3, p.Done)
			require.Len(t, has(t, &m), want)
			time.Sleep(time.Minute)
		}
		delete(w.objects, "07")
		for done := false; !done; {
			p, err := s.Reconcile(t.Context())
			require.NoError(t, err)
			done = p.Done
		}
		require.Len(t, has(t, &m), 19, "what the walk has not met is absent")
		w.put("07", "back")
		time.Sleep(time.Hour)
		for done := false; !done; {
			done = sync(t, s).Done
		}
		require.Len(t, has(t, &m), 20)
	})
}

// P6, H4: a deletion that a webhook tells before any list shows it, or that no
// list ever shows, holds; a list that is behind does not bring the object back.
func TestDeletedBeforeItIsListed_P6_H4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ingest.Memory
		w := newWiki()
		w.quiet = true
		w.put("1", "one")
		w.put("2", "two")
		s := syncer(t, &m, w, ingest.Options{})
		sync(t, s)
		time.Sleep(time.Minute)
		require.NoError(t, s.Event(t.Context(), ingest.Item{Object: page("1"), Version: w.objects["1"].Version, Deleted: true}))
		require.Equal(t, []string{"2"}, has(t, &m))
		time.Sleep(2 * time.Minute)
		sync(t, s)
		_, err := s.Reconcile(t.Context()) // and still lists it
		require.NoError(t, err)
		require.Equal(t, []string{"2"}, has(t, &m))
		time.Sleep(2 * time.Hour)
		_, err = s.Reconcile(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2"}, has(t, &m), "two hours later it is no delay any more: it is there")
		require.ErrorIs(t, s.Event(t.Context(), ingest.Item{Object: page("1")}), ingest.ErrItem)
	})
}

// P6, H5: a run that brings nothing but deletions tells what changed; so does one
// that brings nothing but access.
func TestOnlyDeletionsAreTold_P6_H5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ingest.Memory
		var told []authz.ResourceID
		w := newWiki()
		w.put("1", "one")
		w.put("2", "two")
		broken := error(nil)
		s := syncer(t, &m, w, ingest.Options{Changed: func(_ context.Context, ids []authz.ResourceID) error {
			told = append(told, ids...)
			return broken
		}})
		sync(t, s)
		told = nil
		time.Sleep(time.Hour)
		w.remove("1")
		time.Sleep(time.Hour)
		sync(t, s)
		require.Equal(t, []authz.ResourceID{page("1")}, told)
		told = nil
		require.NoError(t, s.Event(t.Context(), ingest.Item{Object: page("2"), Version: time.Now().UnixNano(), AccessOnly: true, Access: &ingest.Access{Readers: []string{"board"}}}))
		require.Equal(t, []authz.ResourceID{page("2")}, told)
		require.Empty(t, has(t, &m), "staff has lost it")
		broken = errors.New("the cache is away")
		require.ErrorIs(t, s.Event(t.Context(), ingest.Item{Object: page("3"), Version: 1, Text: "x"}), broken)
	})
}

// P6, E5: an account that lost its rights sees an empty wiki, and that empties
// nothing.
func TestLostRightsAreNoDeletions_P6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ingest.Memory
		w := newWiki()
		for i := range 40 {
			w.put(fmt.Sprint(i), "x")
		}
		s := syncer(t, &m, w, ingest.Options{})
		sync(t, s)
		time.Sleep(time.Hour)
		all := w.objects
		w.objects = map[string]ingest.Item{}
		_, err := s.Reconcile(t.Context())
		require.ErrorIs(t, err, ingest.ErrTooManyAbsent)
		require.Len(t, has(t, &m), 40)
		w.fail = func(int) error { return toolresult.NewError(toolresult.AuthenticationRequired, "log in") }
		time.Sleep(time.Hour)
		_, err = s.Reconcile(t.Context())
		require.ErrorIs(t, err, toolresult.AuthenticationRequired)
		require.Len(t, has(t, &m), 40)
		w.objects, w.fail = all, nil
		p, err := s.Reconcile(t.Context())
		require.NoError(t, err)
		require.True(t, p.Done)
	})
}

// P-01, P-02: pages that lead nowhere are an error and no end; the next run
// begins anew.
func TestPagesInACircle_P6_P01(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ingest.Memory
		w := newWiki()
		s := syncer(t, &m, w, ingest.Options{})
		sync(t, s)
		time.Sleep(time.Hour)
		for i := range 10 {
			w.put(fmt.Sprint(i), "x")
		}
		time.Sleep(time.Hour)
		w.next = "3"
		for range 2 {
			_, err := s.Sync(t.Context())
			require.ErrorIs(t, err, ingest.ErrStalled)
			_, err = s.Reconcile(t.Context())
			require.ErrorIs(t, err, ingest.ErrStalled)
		}
		cp, err := m.Checkpoint(t.Context(), feed)
		require.NoError(t, err)
		require.Zero(t, cp.Cursor+cp.WalkCursor)
		w.next = ""
		require.True(t, sync(t, s).Done)
		require.Len(t, has(t, &m), 10)
		two := syncer(t, &m, circle{}, ingest.Options{Pages: 1000})
		_, err = two.Reconcile(t.Context())
		require.ErrorIs(t, err, ingest.ErrStalled, "A, B, A")
	})
}

// circle gives A and B for ever.
type circle struct{}

func (circle) Changes(context.Context, toolresult.Interval, string) (ingest.Page, error) {
	return ingest.Page{}, nil
}

func (circle) All(_ context.Context, cursor string) (ingest.Page, error) {
	return ingest.Page{More: true, Next: map[string]string{"": "A", "A": "B", "B": "A"}[cursor]}, nil
}

// A position that the provider does not know any more begins the window anew.
func TestPositionIsForgotten_P6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ingest.Memory
		w := newWiki()
		s := syncer(t, &m, w, ingest.Options{Pages: 1})
		for i := range 10 {
			w.put(fmt.Sprint(i), "x")
		}
		_, err := s.Reconcile(t.Context())
		require.NoError(t, err)
		w.fail = func(int) error { return toolresult.NewError(toolresult.CursorInvalid, "what page?") }
		_, err = s.Reconcile(t.Context())
		require.ErrorIs(t, err, toolresult.CursorInvalid)
		cp, err := m.Checkpoint(t.Context(), feed)
		require.NoError(t, err)
		require.Zero(t, cp.WalkCursor)
		require.True(t, cp.Walk.IsZero())
	})
}

// P6: whatever happens at the provider, and whenever a run stops, the index ends
// where the provider is.
func TestEndsWhereTheProviderIs_P6(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		quiet := rapid.Bool().Draw(r, "quiet")
		size := rapid.IntRange(1, 4).Draw(r, "page size")
		steps := rapid.SliceOfN(rapid.IntRange(0, 99), 1, 40).Draw(r, "steps")
		synctest.Test(t, func(t *testing.T) {
			var m ingest.Memory
			w := newWiki()
			w.quiet, w.size = quiet, size
			s := syncer(t, &m, w, ingest.Options{Pages: 2, MaxAbsent: 1})
			for i, n := range steps {
				id := fmt.Sprint(n % 8)
				switch n / 10 {
				case 0, 1, 2, 3:
					w.put(id, fmt.Sprint("text ", i))
				case 4, 5:
					if _, ok := w.objects[id]; ok && !w.objects[id].Deleted {
						w.remove(id)
					}
				case 6, 7:
					_, _ = s.Sync(t.Context())
				case 8:
					_, _ = s.Reconcile(t.Context())
				}
				time.Sleep(time.Duration(n) * time.Minute)
			}
			time.Sleep(3 * time.Hour)
			for range 2 { // the walk that is under way, and one more
				for p := (ingest.Progress{}); !p.Done; {
					p = sync(t, s)
				}
				for p := (ingest.Progress{}); !p.Done; {
					var err error
					p, err = s.Reconcile(t.Context())
					require.NoError(t, err)
				}
				time.Sleep(time.Hour)
			}
			want := []string{}
			for id, it := range w.objects {
				if !it.Deleted {
					want = append(want, id)
				}
			}
			slices.Sort(want)
			require.Equal(t, want, has(t, &m))
			list, err := m.Find(t.Context(), &ingest.Query{Feed: feed, Readers: []string{"staff"}, Limit: 100})
			require.NoError(t, err)
			for _, r := range list {
				require.Equal(t, w.objects[r.Object.ID].Text, r.Text)
			}
		})
	})
}

func TestNewRefuses(t *testing.T) {
	var m ingest.Memory
	for why, make := range map[string]func() (*ingest.Syncer, error){
		"no index":  func() (*ingest.Syncer, error) { return ingest.New(nil, feed, newWiki(), nil) },
		"no source": func() (*ingest.Syncer, error) { return ingest.New(&m, feed, nil, nil) },
		"no tenant": func() (*ingest.Syncer, error) {
			return ingest.New(&m, ingest.Feed{Connection: "c", Name: "n"}, newWiki(), nil)
		},
		"no connection": func() (*ingest.Syncer, error) {
			return ingest.New(&m, ingest.Feed{Tenant: "t", Name: "n"}, newWiki(), nil)
		},
		"under 0": func() (*ingest.Syncer, error) { return ingest.New(&m, feed, newWiki(), &ingest.Options{Overlap: -1}) },
		"over 1": func() (*ingest.Syncer, error) {
			return ingest.New(&m, feed, newWiki(), &ingest.Options{MaxAbsent: 1.1})
		},
	} {
		_, err := make()
		require.ErrorIs(t, err, ingest.ErrOptions, why)
	}
}

// rights is a policy: which pages a subject may read.
type rights map[string][]string

func (p rights) Decide(_ context.Context, r *authz.Request) (authz.Decision, error) {
	var ids []authz.ResourceID
	for _, id := range p[r.Principal.Key().Subject] {
		ids = append(ids, page(id))
	}
	return authz.Decision{Verdict: authz.Allow, Scope: authz.Only(ids...), Revision: "1"}, nil
}

type call struct{ g authz.Grant }

func (c call) Principal() authz.Principal { return c.g.Principal() }
func (c call) Grant() authz.Grant         { return c.g }

func caller(t testing.TB, p authz.Policy, tenant, subject string) call {
	t.Helper()
	who, err := authz.NewAuthority("test").Principal(authz.Identity{Tenant: tenant, Issuer: "https://id.example", Subject: subject})
	require.NoError(t, err)
	g, err := authz.Authorize(t.Context(), p, &authz.Request{Principal: who, Action: authz.Action{Connector: "wiki", Capability: "wiki.search", Version: "1", Class: risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Internal}}, Target: authz.OnConnection()})
	require.NoError(t, err)
	return call{g}
}

// P6: the index authorizes nobody. What is delivered passed the grant and a live
// check; if that cannot be made, nothing is.
func TestSearchChecksNow_P6(t *testing.T) {
	var m ingest.Memory
	var items []ingest.Item
	for i := range 6 {
		items = append(items, ingest.Item{Object: page(fmt.Sprint(i)), Version: 1, Text: "the plan", Access: &ingest.Access{Readers: []string{"staff"}}})
	}
	_, err := m.Apply(t.Context(), feed, &ingest.Batch{Items: items, At: time.Now()})
	require.NoError(t, err)
	may := map[string]bool{"0": true, "1": true, "2": true, "4": true}
	var asked [][]authz.ResourceID
	live := func(_ context.Context, ids []authz.ResourceID) ([]bool, error) {
		asked = append(asked, ids)
		out := make([]bool, len(ids))
		for i, id := range ids {
			out[i] = may[id.ID]
		}
		return out, nil
	}
	policy := rights{"alice": {"0", "1", "3"}}
	alice := caller(t, policy, "acme", "alice")
	search := func(c ingest.Call, r ingest.SearchRequest) ([]string, error) {
		f, err := ingest.Search(t.Context(), &m, c, &r)
		out := []string{}
		for _, h := range f.Hits {
			out = append(out, h.Object.ID)
		}
		slices.Sort(out)
		return out, err
	}
	base := ingest.SearchRequest{Feed: feed, Text: "Plan", Readers: []string{"staff"}, Check: live}
	got, err := search(alice, base)
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1"}, got, "granted and readable now; 3 is readable no more, 2 and 4 were never granted")
	for _, ids := range asked {
		require.NotContains(t, ids, page("2"), "what is not granted is not even asked about")
	}
	delete(may, "1") // the index does not know
	got, err = search(alice, base)
	require.NoError(t, err)
	require.Equal(t, []string{"0"}, got)

	r := base
	r.Check = func(context.Context, []authz.ResourceID) ([]bool, error) {
		return nil, toolresult.NewError(toolresult.ProviderUnavailable, "away")
	}
	got, err = search(alice, r)
	require.ErrorIs(t, err, toolresult.ProviderUnavailable, "E5: no empty success")
	require.Empty(t, got)
	r.Check = func(context.Context, []authz.ResourceID) ([]bool, error) { return []bool{true}, nil }
	_, err = search(caller(t, rights{"alice": {"0", "1"}}, "acme", "alice"), r)
	require.ErrorIs(t, err, toolresult.ContractViolation, "an answer for fewer")
	r.Check = nil
	_, err = search(alice, r)
	require.ErrorIs(t, err, toolresult.ContractViolation)
	_, err = search(call{}, base)
	require.ErrorIs(t, err, toolresult.ContractViolation)
	_, err = search(caller(t, policy, "globex", "alice"), base)
	require.ErrorIs(t, err, toolresult.NotFound, "A8: another tenant's feed")
	r = base
	r.Readers = nil
	got, err = search(alice, r)
	require.NoError(t, err)
	require.Empty(t, got, "nobody in particular reads nothing")
	r = base
	r.Text = "?!"
	got, err = search(alice, r)
	require.NoError(t, err)
	require.Empty(t, got, "a text without a word is not everything")
	require.NoError(t, m.Purge(t.Context(), "acme", "c1"))
	got, err = search(alice, base)
	require.NoError(t, err)
	require.Empty(t, got, "C8")
}

// A page of hits is filled although much of what matches may not be delivered.
func TestSearchGoesOn_P6(t *testing.T) {
	var m ingest.Memory
	var items []ingest.Item
	var granted []string
	for i := range 60 {
		id := fmt.Sprintf("%02d", i)
		items = append(items, ingest.Item{Object: page(id), Version: 1, Text: "x", Access: &ingest.Access{Readers: []string{"staff"}}})
		granted = append(granted, id)
	}
	_, err := m.Apply(t.Context(), feed, &ingest.Batch{Items: items, At: time.Now()})
	require.NoError(t, err)
	alice := caller(t, rights{"alice": granted}, "acme", "alice")
	even := func(_ context.Context, ids []authz.ResourceID) ([]bool, error) {
		out := make([]bool, len(ids))
		for i, id := range ids {
			n, _ := strconv.Atoi(id.ID)
			out[i] = n%4 == 0
		}
		return out, nil
	}
	f, err := ingest.Search(t.Context(), &m, alice, &ingest.SearchRequest{Feed: feed, Readers: []string{"staff"}, Limit: 10, Check: even})
	require.NoError(t, err)
	require.Len(t, f.Hits, 10)
	require.True(t, f.More)
	f, err = ingest.Search(t.Context(), &m, alice, &ingest.SearchRequest{Feed: feed, Readers: []string{"staff"}, Limit: 200, Check: even})
	require.NoError(t, err)
	require.Len(t, f.Hits, 15)
	require.False(t, f.More)
}

func TestWords(t *testing.T) {
	require.Equal(t, []string{"the", "plan", "b", "für", "2026"}, ingest.Words("The plan, the PLAN-B für 2026!"))
	require.Equal(t, []string{"a", "故", "障", "b"}, ingest.Words("a故障b"))
	require.Empty(t, ingest.Words(" ...\xff"))
}

func FuzzWords(f *testing.F) {
	f.Add("The plan, the PLAN-B für 2026 故障\xff\x00")
	f.Fuzz(func(t *testing.T, text string) {
		words := ingest.Words(text)
		require.LessOrEqual(t, len(words), 2000)
		seen := map[string]bool{}
		for _, w := range words {
			require.NotEmpty(t, w)
			require.LessOrEqual(t, len(w), 64)
			require.False(t, seen[w])
			seen[w] = true
		}
	})
}

// P6: changes of access come by themselves and out of order; the newest counts,
// and an object whose readers nobody told has none.
func TestAccessDeltas_P6(t *testing.T) {
	access := func(v int64, readers ...string) ingest.Item {
		return ingest.Item{Object: page("1"), Version: v, AccessOnly: true, Access: &ingest.Access{Version: v, Readers: readers}}
	}
	text := func(v int64, s string) ingest.Item { return ingest.Item{Object: page("1"), Version: v, Text: s} }
	for _, row := range []struct {
		why   string
		items []ingest.Item
		state ingest.State
		text  string
		read  []string
	}{
		{"nobody told", []ingest.Item{text(1, "a")}, ingest.Live, "a", nil},
		{"access before the object", []ingest.Item{access(1, "r"), text(1, "a")}, ingest.Live, "a", []string{"r"}},
		{"access of nothing is nothing", []ingest.Item{access(1, "r")}, ingest.Absent, "", []string{"r"}},
		{"the text stays when access changes", []ingest.Item{text(5, "a"), access(1, "r")}, ingest.Live, "a", []string{"r"}},
		{"a grant that comes after its revocation", []ingest.Item{text(1, "a"), access(3), access(2, "r")}, ingest.Live, "a", nil},
		{"an older text that comes late", []ingest.Item{text(2, "new"), text(1, "old")}, ingest.Live, "new", nil},
		{"access of what is deleted", []ingest.Item{text(1, "a"), {Object: page("1"), Version: 1, Deleted: true}, access(1, "r")}, ingest.Deleted, "", nil},
		{"and newer than the deletion", []ingest.Item{text(1, "a"), {Object: page("1"), Version: 1, Deleted: true}, access(9, "r")}, ingest.Deleted, "", nil},
	} {
		var r ingest.Record
		for i := range row.items {
			r, _ = r.Merge(&row.items[i], time.Unix(int64(i+1), 0), time.Time{})
		}
		require.Equal(t, row.state, r.State, row.why)
		require.Equal(t, row.text, r.Text, row.why)
		require.ElementsMatch(t, row.read, r.Readers, row.why)
	}
}
