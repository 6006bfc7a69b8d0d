package authz_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// A4: an empty set is nothing, and never everything.
func TestEmptyIsNothing_A4(t *testing.T) {
	for why, s := range map[string]authz.Scope{"zero": {}, "Only()": authz.Only(), "OnlyDuring()": authz.OnlyDuring(), "no target": authz.Target{}.Scope()} {
		require.True(t, s.IsZero() && !s.Whole() && !s.Covers(inc) && !s.Covers() && !s.CoversTarget(authz.OnConnection()) && !s.CoversTarget(authz.On(authz.Object{ResourceID: inc})), why)
		ids, limited := s.IDs("project")
		require.True(t, limited && len(ids) == 0, why)
		require.Equal(t, authz.Scope{}.Digest(), s.Digest(), why)
		require.True(t, authz.Only(inc).CoversScope(s) && !s.CoversScope(authz.Only(inc)) && !s.CoversScope(authz.WholeConnection()), why)
	}
	whole := authz.WholeConnection()
	require.True(t, whole.Covers(inc, secret) && !whole.Covers() && whole.Whole() && whole.CoversScope(whole) && whole.CoversScope(authz.Only(inc)) && !authz.Only(inc).CoversScope(whole))
	require.False(t, whole.CoversTarget(authz.Target{}), "no target is not covered")
	_, limited := whole.IDs("project")
	require.False(t, limited)
	require.NotEqual(t, whole.Digest(), authz.Scope{}.Digest())
	require.Equal(t, whole, authz.OnConnection().Scope())
	require.Equal(t, authz.Only(inc), authz.On(authz.Object{ResourceID: inc}).Scope())
}

func TestImproperWindowsCoverNothing(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var text toolresult.Interval
	require.NoError(t, text.UnmarshalText([]byte("last week")))
	for why, w := range map[string]toolresult.Interval{"no end": {Start: at}, "no start": {End: at}, "backwards": {Start: at, End: at.Add(-1)}, "a text": text} {
		s := authz.OnlyDuring(authz.Resource{ResourceID: inc, Window: w})
		require.False(t, s.Covers(inc) || s.CoversDuring(w, inc) || s.CoversDuring(toolresult.Interval{Start: at, End: at}, inc) || s.CoversTarget(authz.On(authz.Object{ResourceID: inc})), why)
	}
}

func resources(t *rapid.T) []authz.Resource {
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) authz.Resource {
		r := authz.Resource{ResourceID: authz.ResourceID{Type: rapid.SampledFrom([]string{"a", "ab", ""}).Draw(t, "type"), ID: rapid.SampledFrom([]string{"b", "", "bc", "c"}).Draw(t, "id")}}
		if rapid.Bool().Draw(t, "window") {
			r.Window.Start = base.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "start")) * time.Hour)
			r.Window.End = r.Window.Start.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "length")) * time.Hour)
		}
		return r
	}), 0, 5).Draw(t, "resources")
}

// The digest is that of the set: the order, repeats and time zones are not in
// it, everything else is.
func TestDigest_A8_A9(t *testing.T) {
	key := func(rs []authz.Resource) map[authz.Resource]bool {
		set := map[authz.Resource]bool{}
		for _, r := range rs {
			set[r] = true
		}
		return set
	}
	zone := time.FixedZone("x", 5400)
	rapid.Check(t, func(t *rapid.T) {
		a, b := resources(t), resources(t)
		shuffled := rapid.Permutation(append(slices.Clone(a), a...)).Draw(t, "shuffled")
		for i := range shuffled {
			if w := &shuffled[i].Window; !w.IsZero() && i%2 == 0 {
				w.Start, w.End = w.Start.In(zone), w.End.In(zone)
			}
		}
		s := authz.OnlyDuring(a...)
		require.Equal(t, s.Digest(), authz.OnlyDuring(shuffled...).Digest())
		same := len(key(a)) == len(key(b))
		for r := range key(a) {
			same = same && key(b)[r]
		}
		require.Equal(t, same, s.Digest() == authz.OnlyDuring(b...).Digest(), "%v %v", a, b)
		require.True(t, s.CoversScope(authz.OnlyDuring(shuffled...)))
		// what covers a set covers whatever the set covers
		if other := authz.OnlyDuring(b...); s.CoversScope(other) {
			for _, r := range a {
				require.True(t, !other.CoversDuring(r.Window, r.ResourceID) || s.CoversDuring(r.Window, r.ResourceID))
			}
		}
	})
}

func TestIDs(t *testing.T) {
	w := toolresult.Interval{Start: time.Unix(1, 0), End: time.Unix(2, 0)}
	s := authz.OnlyDuring(authz.Resource{ResourceID: inc}, authz.Resource{ResourceID: five}, authz.Resource{ResourceID: inc, Window: w}, authz.Resource{ResourceID: secret, Window: w})
	ids, limited := s.IDs("project")
	require.Equal(t, []string{"inc", "secret"}, ids)
	require.True(t, limited)
	require.Len(t, s.Resources(), 4)
}
