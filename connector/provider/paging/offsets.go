package paging

import (
	"strconv"

	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// End is how a provider that counts says that a listing is over.
type End struct {
	kind  byte
	total int
	more  bool
}

// OfTotal is the end at a number of all items, which may change from page to
// page. An estimate is none.
func OfTotal(n int) End { return End{kind: 't', total: n} }

// More is for a provider that says whether there is more.
func More(more bool) End { return End{kind: 'm', more: more} }

// AtEmpty is for a provider that says nothing: only a page with no items is the
// end, at the price of one more request.
func AtEmpty() End { return End{kind: 'e'} }

// Offsets is for a provider that passes over a number of items. From the second
// page on the request begins one item earlier than it would have to: if that item
// is not the last one of the page before, the listing has changed, and this page
// and all after it say [Drift].
type Offsets struct {
	// Max is the largest page that the provider is known to give. 0: unknown.
	Max int
}

// OffsetPage is a page of [Offsets].
type OffsetPage struct {
	Offset int // to ask for
	Limit  int // to ask for; at least 1

	overlap int // 1 if the first item should be the last one of the page before
	size    int
	alone   bool // pages of one item: there is no room for an overlap
	trail   trail
}

// Open reads where a page is, and how much to ask for so that size items are in
// it. A position of another kind is CURSOR_INVALID.
func (s Offsets) Open(from cursor.Position, size int) (*OffsetPage, error) {
	token, t, err := place(from)
	if err != nil {
		return nil, err
	}
	p := &OffsetPage{Limit: max(size, 1), size: max(size, 1), trail: t, alone: s.Max == 1}
	if t.pages > 0 {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || strconv.Itoa(n) != token {
			return nil, lost()
		}
		p.Offset = n
		if p.alone {
			p.trail.drift = true
		} else {
			p.overlap, p.Limit = 1, p.Limit+1
		}
	}
	if s.Max > 0 {
		p.Limit = min(p.Limit, s.Max)
	}
	return p, nil
}

// Close says what comes after a page with the items of these ids, in the
// provider's order. The next page begins behind what was received, however much was
// asked for. A page without anything new before the end is PROVIDER_ERROR: the
// listing would not advance.
func (p *OffsetPage) Close(ids []string, end End) (Turn, error) {
	t, skip := p.trail, 0
	if p.overlap == 1 {
		if len(ids) > 0 && digest(ids[0]) == t.last {
			skip = 1
		} else {
			t.drift = true // what is there now was not there before: nothing is passed over
		}
	}
	keep := min(len(ids), skip+p.size)
	turn := Turn{Skip: skip, Keep: keep, Next: cursor.End(), Missing: t.missing()}
	next := p.Offset + keep
	if end.over(next, keep-skip, len(ids) > keep, t.drift) {
		return turn, nil
	}
	if keep == skip {
		if t.drift && !p.trail.drift { // the listing became shorter than the place: all that can be said is said
			return turn, nil
		}
		return Turn{}, stalled("an empty page before the end")
	}
	t.last = digest(ids[keep-1])
	if !p.alone {
		next-- // the position holds what will be asked for, so that it can be compared with a total
	}
	var err error
	turn.Next, err = t.step(strconv.Itoa(next), ids[skip:keep], true)
	return turn, err
}

// over reports whether a listing ends behind a page.
func (e End) over(next, got int, left, drift bool) bool {
	switch {
	case left: // more came than belongs to the page
		return false
	case e.kind == 't':
		return next >= e.total
	case e.kind == 'm':
		return !e.more
	}
	return got == 0
}

// Numbers is for a provider that numbers its pages from 1. Nothing can be asked
// for twice to see whether it is still there, so every page but the first says
// [Drift], unless the provider pages over a snapshot.
type Numbers struct {
	// Snapshot says that the provider's pages are of one moment, or of items that
	// never change their place.
	Snapshot bool
}

// NumberPage is a page of [Numbers].
type NumberPage struct {
	Number int // to ask for; the first is 1

	style Numbers
	trail trail
}

// Open reads where a page is. A position of another kind is CURSOR_INVALID.
func (s Numbers) Open(from cursor.Position) (*NumberPage, error) {
	token, t, err := place(from)
	if err != nil {
		return nil, err
	}
	p := &NumberPage{1, s, t}
	if t.pages == 0 {
		return p, nil
	}
	if p.Number, err = strconv.Atoi(token); err != nil || p.Number != t.pages+1 {
		return nil, lost()
	}
	p.trail.drift = !s.Snapshot
	return p, nil
}

// Close says what comes after a page with the items of these ids; more is what
// the provider says of it. The page size must not change within a listing.
func (p *NumberPage) Close(ids []string, more bool) (Turn, error) {
	turn := Turn{Keep: len(ids), Next: cursor.End(), Missing: p.trail.missing()}
	if !more {
		return turn, nil
	}
	if len(ids) == 0 {
		return Turn{}, stalled("an empty page before the end")
	}
	var err error
	turn.Next, err = p.trail.step(strconv.Itoa(p.Number+1), ids, true)
	return turn, err
}

// Cut is the turn behind a page of a provider that has more and offers no way
// to it.
func Cut(items int) Turn {
	return Turn{Keep: items, Next: cursor.Cut(), Missing: []toolresult.Gap{toolresult.GapRemainingRows}}
}
