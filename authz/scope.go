package authz

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Scope is a set of resources. The zero Scope is empty. A Scope is immutable.
type Scope struct {
	entries []Resource
	whole   bool
}

// Only is the scope of the given resources and what they contain, at any time.
// Only() covers nothing.
func Only(ids ...ResourceID) Scope {
	entries := make([]Resource, len(ids))
	for i, id := range ids {
		entries[i].ResourceID = id
	}
	return Scope{entries: entries}
}

// OnlyDuring is the scope of the given resources and what they contain, each
// in its window. OnlyDuring() covers nothing.
func OnlyDuring(resources ...Resource) Scope {
	entries := slices.Clone(resources)
	for i := range entries {
		w := &entries[i].Window
		w.Start, w.End = utc(w.Start), utc(w.End)
	}
	return Scope{entries: entries}
}

// WholeConnection is the scope of everything that the caller's account
// reaches. The provider's own authorization is then the only limit.
func WholeConnection() Scope { return Scope{whole: true} }

// Whole reports whether s is the whole connection.
func (s Scope) Whole() bool { return s.whole }

// IsZero reports whether s covers nothing.
func (s Scope) IsZero() bool { return !s.whole && len(s.entries) == 0 }

// Resources returns the entries of s, in the order in which they were given;
// none for the whole connection. The caller owns the slice.
func (s Scope) Resources() []Resource { return slices.Clone(s.entries) }

// Covers reports whether every id is in the scope at any time: each by an
// entry without a window. Covers() of nothing is false.
func (s Scope) Covers(ids ...ResourceID) bool { return s.CoversDuring(toolresult.Interval{}, ids...) }

// CoversDuring reports whether every id is in the scope during w: each by one
// entry that has no window or whose window contains w. With a zero w it is
// Covers.
func (s Scope) CoversDuring(w toolresult.Interval, ids ...ResourceID) bool {
	for _, id := range ids {
		if !s.covers(id, w) {
			return false
		}
	}
	return len(ids) > 0
}

func (s Scope) covers(id ResourceID, w toolresult.Interval) bool {
	return s.whole || slices.ContainsFunc(s.entries, func(r Resource) bool { return r.ResourceID == id && r.covers(w) })
}

// coversSome reports whether id is in the scope at some time.
func (s Scope) coversSome(id ResourceID) bool {
	return s.whole || slices.ContainsFunc(s.entries, func(r Resource) bool {
		return r.ResourceID == id && (r.Window.IsZero() || proper(r.Window))
	})
}

// CoversTarget reports whether every object of t, or something that contains
// it, is in the scope, be it in a window: the request that is sent must then
// fit the window. A target of the whole connection is covered by every scope
// that covers anything: the call then reads no more than the scope.
func (s Scope) CoversTarget(t Target) bool {
	if t.whole {
		return !s.IsZero()
	}
	for _, o := range t.objects {
		if !s.coversSome(o.ResourceID) && !slices.ContainsFunc(o.Parents, s.coversSome) {
			return false
		}
	}
	return len(t.objects) > 0
}

// CoversScope reports whether s holds everything that other holds, entry by
// entry. Every scope covers the empty one.
func (s Scope) CoversScope(other Scope) bool {
	if s.whole || other.whole {
		return s.whole
	}
	return !slices.ContainsFunc(other.entries, func(r Resource) bool { return !s.covers(r.ResourceID, r.Window) })
}

// IDs returns the ids of one type, each once, for building a query that asks
// for no more than was granted. An id that is granted in a window only is
// among them. limited is false for a whole connection, and true with no ids
// when nothing of that type is granted.
func (s Scope) IDs(typ string) (ids []string, limited bool) {
	for _, r := range s.entries {
		if r.Type == typ && !slices.Contains(ids, r.ID) {
			ids = append(ids, r.ID)
		}
	}
	return ids, !s.whole
}

// Digest returns "sha256:..." over the entries and their windows. It does not
// depend on their order, on repeats or on time zones. It is what cursors,
// cache keys and audit records hold in place of the scope.
func (s Scope) Digest() string {
	entries := slices.Clone(s.entries)
	slices.SortFunc(entries, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Window.String(), b.Window.String()))
	})
	buf := []byte("scope 1 limited")
	if s.whole {
		buf = []byte("scope 1 whole")
	}
	for _, r := range slices.Compact(entries) {
		// each part after its length, so that no two lists read alike
		for _, part := range []string{r.Type, r.ID, r.Window.String()} {
			buf = append(binary.AppendUvarint(buf, uint64(len(part))), part...)
		}
	}
	sum := sha256.Sum256(buf)
	return "sha256:" + hex.EncodeToString(sum[:])
}
