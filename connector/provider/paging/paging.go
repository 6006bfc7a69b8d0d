// Package paging turns what a page says into what comes after it, one type for
// each way in which providers page:
//
//	Tokens   a token in the answer
//	Links    the address of the next page, in a Link header or in the answer
//	Offsets  a number of items to pass over
//	Numbers  the number of a page
//	Windows  times, where a provider has no pages at all
//
// A handler opens the place that it was asked for, makes its request, and closes
// the page with what it received:
//
//	at, err := paging.Tokens{}.Open(page.From)
//	...
//	turn, err := at.Close(ids, body.Next != nil, next)
//	...
//	out := connector.NewPage(items[turn.Skip:turn.Keep], turn.Next)
//	out.Missing = turn.Missing
//
// # What it looks for
//
// A listing ends only where the provider says so. A short page is no end: servers
// give less than was asked for without a word. A token that comes back, also after
// a circle of any length, and a page with the same items as the one before are
// PROVIDER_ERROR and no end. A next page at another origin, on another path or with
// another filter is never asked for. If items may have been passed over because
// something was added or removed in between, the page says [Drift].
//
// # What it does not do
//
// It sends nothing, and keeps nothing between calls: what it has to know of the
// pages before is in the position, which the SDK seals. It cannot see an item
// that the provider moves from a later page to an earlier one while another goes
// the other way: offsets need an order that does not change.
package paging

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Drift says that the listing changed between two pages, or may have, so that
// items may be missing or be there twice.
const Drift toolresult.Gap = "listing_changed"

// MostPages is how many pages a listing has at most. The page after is
// PROVIDER_ERROR, and never a quiet end.
const MostPages = 10_000

// Turn is what comes after a page, and what of its items counts.
type Turn struct {
	// Next is for connector.NewPage.
	Next cursor.Position

	// Missing is for Page.Missing.
	Missing []toolresult.Gap

	// Skip and Keep are the items that belong to this page: items[Skip:Keep].
	// The others were asked for to see whether anything changed or follows.
	Skip, Keep int
}

// trail is what has to be known of the pages before: how many there were, one
// place to see whether a circle has closed (Brent's way: moved on at every
// power of two, it finds a circle of any length), the items of the last page, and
// whether the listing drifted.
type trail struct {
	pages int
	mark  string // digest of a place
	items string // digest of the last page's items
	last  string // digest of the last item
	drift bool
}

const sep = "~" // between a place and the trail; in no digest

func stalled(what string) error {
	return toolresult.WrapError(toolresult.ProviderError, "the provider's listing does not advance", errors.New(what))
}

func lost() error { return toolresult.NewError(toolresult.CursorInvalid, "start the listing again") }

// place reads a position: what at made, or the start.
func place(from cursor.Position) (token string, t trail, err error) {
	text, at := from.Token()
	if !at {
		if from != cursor.Start() {
			return "", t, lost()
		}
		return "", t, nil
	}
	parts := strings.Split(text, sep)
	n := len(parts) - 5
	if n < 1 {
		return "", t, lost()
	}
	tail := parts[n:]
	t.pages, err = strconv.Atoi(tail[0])
	if err != nil || t.pages < 1 || t.pages > MostPages || tail[4] != "" && tail[4] != "d" {
		return "", trail{}, lost()
	}
	t.mark, t.items, t.last, t.drift = tail[1], tail[2], tail[3], tail[4] == "d"
	return strings.Join(parts[:n], sep), t, nil
}

// at returns the position of a token with the trail that leads to it.
func (t trail) at(token string) cursor.Position {
	drift := ""
	if t.drift {
		drift = "d"
	}
	return cursor.At(strings.Join([]string{token, strconv.Itoa(t.pages), t.mark, t.items, t.last, drift}, sep))
}

// step goes on to a token behind a page with these items. A strict listing does
// not come to a place twice, and no two pages in a row have the same items.
func (t trail) step(token string, ids []string, strict bool) (cursor.Position, error) {
	if t.pages++; t.pages > MostPages {
		return cursor.Position{}, stalled("it has more than " + strconv.Itoa(MostPages) + " pages")
	}
	here, items := digest(token), ""
	if len(ids) > 0 {
		items = digest(ids...)
	}
	switch {
	case !strict:
	case t.pages > 1 && here == t.mark:
		return cursor.Position{}, stalled("a place comes back")
	case t.pages > 1 && items != "" && items == t.items:
		return cursor.Position{}, stalled("a page comes back")
	}
	if t.pages&(t.pages-1) == 0 {
		t.mark = here
	}
	t.items = items
	return t.at(token), nil
}

func (t trail) missing() []toolresult.Gap {
	if t.drift {
		return []toolresult.Gap{Drift}
	}
	return nil
}

// digest is short, so that a position stays so: it stands against accidents, and
// nobody but the provider could make two alike.
func digest(texts ...string) string {
	h := sha256.New()
	for _, s := range texts {
		h.Write([]byte(strconv.Itoa(len(s)) + ":" + s))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:9])
}
