package paging_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/connector/provider/paging"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func ids(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

// walk follows tokens that a provider gives for the number of a page.
func walk(s paging.Tokens, token func(page int) string, items func(page int) []string) (pages int, err error) {
	for from := cursor.Start(); ; pages++ {
		at, err := s.Open(from)
		if err != nil {
			return pages, err
		}
		turn, err := at.Close(items(pages), true, token(pages))
		if err != nil {
			return pages, err
		}
		from = turn.Next
	}
}

// P-01, P-02, P-03, P-15, C6, C7: listings that do not end. All of them end in an
// error, and none in a quiet end.
func TestTokensThatLeadNowhere_P2(t *testing.T) {
	fresh := func(p int) []string { return ids(p*3, p*3+3) }
	for _, row := range []struct {
		why   string
		style paging.Tokens
		token func(int) string
		items func(int) []string
		most  int // pages until it is seen
	}{
		{"P-01: the same token and the same items", paging.Tokens{}, func(int) string { return "c1" }, func(int) []string { return ids(0, 3) }, 1},
		{"P-01: the same token and no items", paging.Tokens{}, func(int) string { return "c1" }, func(int) []string { return nil }, 1},
		{"P-01, C6: the same token and other items", paging.Tokens{}, func(int) string { return "c1" }, fresh, 1},
		{"P-02: A, B, A, B", paging.Tokens{}, func(p int) string { return "AB"[p%2 : p%2+1] }, fresh, 4},
		{"P-02: a circle of seven behind a tail of five", paging.Tokens{}, func(p int) string { return strconv.Itoa(min(p, 5+(p-5)%7)) }, fresh, 32},
		{"P-15: pages that come back under new tokens", paging.Tokens{}, strconv.Itoa, func(int) []string { return ids(0, 3) }, 1},
		{"P-03: an opaque token may come back; only the number of pages ends it", paging.Tokens{Opaque: true}, func(int) string { return "continue" }, fresh, paging.MostPages},
		{"empty pages without end", paging.Tokens{}, strconv.Itoa, func(int) []string { return nil }, paging.MostPages},
	} {
		pages, err := walk(row.style, row.token, row.items)
		require.ErrorIs(t, err, toolresult.ProviderError, row.why)
		require.LessOrEqual(t, pages, row.most, row.why)
	}
}

// P-03, C7: null ends a listing, and an empty token does not, where the provider
// says so.
func TestEmptyToken_P2(t *testing.T) {
	at, err := paging.Tokens{Opaque: true}.Open(cursor.Start())
	require.NoError(t, err)
	require.False(t, at.Later)
	turn, err := at.Close(ids(0, 2), true, "")
	require.NoError(t, err)
	at, err = paging.Tokens{Opaque: true}.Open(turn.Next)
	require.NoError(t, err)
	require.True(t, at.Later, "an empty token is a place")
	require.Empty(t, at.Token)
	turn, err = at.Close(ids(2, 4), false, "")
	require.NoError(t, err)
	require.True(t, turn.Next.AtEnd())
}

// P-10, P-11, P-13: an address of the next page is taken apart, and one that leads
// elsewhere is refused.
func TestLinks_P2(t *testing.T) {
	const asked = "https://api.example/wiki/rest/content?label=a&limit=25"
	for _, row := range []struct {
		why, next string
		cursor    string // "": refused
	}{
		{"absolute", "https://api.example/wiki/rest/content?label=a&limit=25&cursor=abc", "abc"},
		{"P-10: relative", "/wiki/rest/content?cursor=abc&limit=25&label=a", "abc"},
		{"only a query", "?cursor=abc&limit=25&label=a", "abc"},
		{"the default port and capitals", "HTTPS://API.example:443/wiki/rest/content?label=a&limit=25&cursor=a%20b", "a b"},
		{"P-11: another host", "https://evil.example/wiki/rest/content?label=a&limit=25&cursor=abc", ""},
		{"P-11: without a scheme", "//evil.example/wiki/rest/content?label=a&limit=25&cursor=abc", ""},
		{"P-11: a user", "https://api.example@evil.example/wiki/rest/content?label=a&limit=25&cursor=abc", ""},
		{"P-11: a user at the right host", "https://u:p@api.example/wiki/rest/content?label=a&limit=25&cursor=abc", ""},
		{"P-11: a longer name", "https://api.example.evil.example/wiki/rest/content?label=a&limit=25&cursor=abc", ""},
		{"P-11: backslashes", `\\evil.example/wiki/rest/content?label=a&limit=25&cursor=abc`, ""},
		{"P-11: a dot at the end", "https://api.example./wiki/rest/content?label=a&limit=25&cursor=abc", ""},
		{"P-11: letters that look alike", "https://аpi.example/wiki/rest/content?label=a&limit=25&cursor=abc", ""},
		{"link_scheme_downgrade: in clear", "http://api.example/wiki/rest/content?label=a&limit=25&cursor=abc", ""},
		{"another port", "https://api.example:8443/wiki/rest/content?label=a&limit=25&cursor=abc", ""},
		{"another path", "/wiki/rest/admin?label=a&limit=25&cursor=abc", ""},
		{"a path that climbs", "/wiki/rest/content/../admin?label=a&limit=25&cursor=abc", ""},
		{"another filter", "?label=secret&limit=25&cursor=abc", ""},
		{"a filter less", "?limit=25&cursor=abc", ""},
		{"a filter more", "?label=a&limit=25&cursor=abc&all=true", ""},
		{"two places", "?label=a&limit=25&cursor=abc&cursor=def", ""},
		{"no place", "?label=a&limit=25", ""},
		{"not an address", "https://[::1", ""},
		{"a line break", "/wiki/rest/content?label=a&limit=25&cursor=abc\r\n", ""},
		{"another language", "javascript:alert(1)", ""},
	} {
		style := paging.Links{Place: []string{"cursor"}}
		at, err := style.Open(cursor.Start())
		require.NoError(t, err)
		turn, err := at.Close(ids(0, 2), asked, row.next)
		if row.cursor == "" {
			require.ErrorIs(t, err, toolresult.ProviderError, row.why)
			require.NotContains(t, err.Error(), "evil", row.why)
			continue
		}
		require.NoError(t, err, row.why)
		at, err = style.Open(turn.Next)
		require.NoError(t, err, row.why)
		require.Equal(t, map[string]string{"cursor": row.cursor}, at.Params, row.why)
		_, err = at.Close(ids(2, 4), asked, row.next)
		require.ErrorIs(t, err, toolresult.ProviderError, "%s: the same again", row.why)
	}
	at, err := paging.Links{Place: []string{"page"}}.Open(cursor.Start())
	require.NoError(t, err)
	turn, err := at.Close(ids(0, 2), asked, "")
	require.NoError(t, err)
	require.True(t, turn.Next.AtEnd())
	_, err = at.Close(nil, "/relative", "?page=2")
	require.ErrorIs(t, err, toolresult.ContractViolation)
}

// list is a provider that counts, holds to a largest page and can change.
type list struct {
	items []string
	clamp int
}

func (l *list) page(offset, limit int) []string {
	offset = min(offset, len(l.items))
	return l.items[offset:min(len(l.items), offset+min(limit, l.clamp))]
}

// all walks through a listing; between changes it after each page.
func (l *list) all(t testing.TB, s paging.Offsets, size int, end func(offset, got int) paging.End, between func(page int)) (got []string, missing []toolresult.Gap, err error) {
	from := cursor.Start()
	for page := 0; ; page++ {
		require.Less(t, page, 1000)
		at, err := s.Open(from, size)
		require.NoError(t, err)
		items := l.page(at.Offset, at.Limit)
		turn, err := at.Close(items, end(at.Offset, len(items)))
		if err != nil {
			return got, missing, err
		}
		got, missing = append(got, items[turn.Skip:turn.Keep]...), append(missing, turn.Missing...)
		if turn.Next.AtEnd() {
			return got, missing, nil
		}
		from = turn.Next
		if between != nil {
			between(page)
		}
	}
}

// P-05, P-06, P-07, C1, C9: offsets.
func TestOffsets_P2(t *testing.T) {
	l := &list{}
	total := func(int, int) paging.End { return paging.OfTotal(len(l.items)) }
	empty := func(int, int) paging.End { return paging.AtEmpty() }
	more := func(offset, got int) paging.End { return paging.More(offset+got < len(l.items)) }
	for _, row := range []struct {
		why     string
		n       int
		clamp   int
		size    int
		max     int
		end     func(int, int) paging.End
		between func(page int)
		drift   bool
	}{
		{"a total", 10, 100, 3, 0, total, nil, false},
		{"P-05: a page that is smaller than asked for", 1500, 500, 1000, 0, total, nil, false},
		{"P-05: and nothing that says how many there are", 25, 5, 10, 0, empty, nil, false},
		{"C1: exactly as many as the page", 10, 100, 10, 0, total, nil, false},
		{"exactly, at an empty page", 10, 100, 5, 0, empty, nil, false},
		{"has_more", 10, 4, 100, 0, more, nil, false},
		{"a known largest page", 23, 5, 100, 5, total, nil, false},
		{"pages of one", 4, 1, 1, 1, total, nil, true},
		{"nothing", 0, 10, 3, 0, empty, nil, false},
		{"P-06: one is added at the top", 9, 100, 3, 0, total, func(p int) {
			if p == 0 {
				l.items = slices.Insert(l.items, 0, "new")
			}
		}, true},
		{"P-06: one of the first page goes", 9, 100, 3, 0, total, func(p int) {
			if p == 0 {
				l.items = slices.Delete(l.items, 1, 2)
			}
		}, true},
		{"P-06: one goes and one comes at the end: the total stays", 9, 100, 3, 0, total, func(p int) {
			if p == 0 {
				l.items = append(slices.Delete(l.items, 1, 2), "new")
			}
		}, true},
		{"P-07: what comes behind changes only the total", 9, 100, 3, 0, total, func(p int) {
			if p == 0 {
				l.items = append(l.items, "new")
			}
		}, false},
		{"P-07: nearly everything goes", 9, 100, 3, 0, total, func(p int) { l.items = l.items[:1] }, true},
	} {
		*l = list{ids(0, row.n), row.clamp}
		got, missing, err := l.all(t, paging.Offsets{Max: row.max}, row.size, row.end, row.between)
		require.NoError(t, err, row.why)
		require.Equal(t, row.drift, slices.Contains(missing, paging.Drift), row.why)
		if !row.drift {
			require.Equal(t, l.items, got, row.why)
		}
	}
	// P-15: the parameter is ignored.
	from := cursor.Start()
	for page := 0; ; page++ {
		at, err := paging.Offsets{}.Open(from, 3)
		require.NoError(t, err)
		turn, err := at.Close(ids(0, 3), paging.OfTotal(1<<60))
		if err != nil {
			require.ErrorIs(t, err, toolresult.ProviderError)
			require.LessOrEqual(t, page, 1)
			break
		}
		from = turn.Next
	}
}

// P-06: pages that are numbered say that they may have moved, unless they are a
// snapshot.
func TestNumbers_P2(t *testing.T) {
	for _, s := range []paging.Numbers{{}, {Snapshot: true}} {
		at, err := s.Open(cursor.Start())
		require.NoError(t, err)
		turn, err := at.Close(ids(0, 3), true)
		require.NoError(t, err)
		require.Empty(t, turn.Missing)
		at, err = s.Open(turn.Next)
		require.NoError(t, err)
		require.Equal(t, 2, at.Number)
		_, err = at.Close(ids(0, 3), true)
		require.ErrorIs(t, err, toolresult.ProviderError, "P-15: the page comes back")
		_, err = at.Close(nil, true)
		require.ErrorIs(t, err, toolresult.ProviderError, "an empty page before the end")
		turn, err = at.Close(ids(3, 5), false)
		require.NoError(t, err)
		require.True(t, turn.Next.AtEnd())
		require.Equal(t, !s.Snapshot, slices.Contains(turn.Missing, paging.Drift))
	}
}

func at(seconds ...int) (out []time.Time) {
	for _, s := range seconds {
		out = append(out, time.Unix(int64(s), 0).UTC())
	}
	return out
}

// C9, C10: windows, with ends that belong to them and ends that do not.
func TestWindows_P2(t *testing.T) {
	for _, row := range []struct {
		why   string
		style paging.Windows
		items []int
		size  int
		got   []int
		gap   bool
	}{
		{"all on one page", paging.Windows{Tick: time.Second}, []int{0, 1, 2}, 5, []int{0, 1, 2}, false},
		{"exactly the page", paging.Windows{Tick: time.Second}, []int{0, 1, 2}, 3, []int{0, 1, 2}, false},
		{"several", paging.Windows{Tick: time.Second}, []int{0, 1, 2, 3, 4, 5, 6}, 2, []int{0, 1, 2, 3, 4, 5, 6}, false},
		{"several at one time, at the cut", paging.Windows{Tick: time.Second}, []int{0, 1, 2, 2, 2, 3, 4}, 3, []int{0, 1, 2, 2, 2, 3, 4}, false},
		{"more at one time than a page", paging.Windows{Tick: time.Second}, []int{0, 2, 2, 2, 2, 2, 2, 3}, 2, []int{0, 2, 2, 2, 3}, true},
		{"an end that does not belong", paging.Windows{Tick: time.Second}, []int{8, 9, 10}, 5, []int{8, 9}, false},
		{"an end that belongs", paging.Windows{Tick: time.Second, Closed: true}, []int{8, 9, 10}, 5, []int{8, 9, 10}, false},
		{"too many at the end", paging.Windows{Tick: time.Second, Closed: true}, []int{10, 10, 10, 10}, 2, []int{10, 10, 10}, true},
		{"none", paging.Windows{Tick: time.Second}, nil, 5, nil, false},
	} {
		var got []time.Time
		gap := false
		for from, page := cursor.Start(), 0; ; page++ {
			require.Less(t, page, 50, row.why)
			p, err := row.style.Open(from, time.Unix(0, 0).UTC(), time.Unix(10, 0).UTC(), row.size)
			require.NoError(t, err, row.why)
			var items []time.Time
			for _, x := range at(row.items...) {
				in := !x.Before(p.From) && (x.Before(p.To) || row.style.Closed && x.Equal(p.To))
				if in && len(items) < p.Limit {
					items = append(items, x)
				}
			}
			turn, err := p.Close(items, 0)
			require.NoError(t, err, row.why)
			got, gap = append(got, items[turn.Skip:turn.Keep]...), gap || len(turn.Missing) > 0
			if _, more := turn.Next.Token(); !more {
				break
			}
			from = turn.Next
		}
		require.Equal(t, at(row.got...), got, row.why)
		require.Equal(t, row.gap, gap, row.why)
	}
	p, err := paging.Windows{Tick: 1}.Open(cursor.Start(), time.Unix(0, 0), time.Unix(10, 0), 2)
	require.NoError(t, err)
	for _, times := range [][]time.Time{at(2, 1), at(11), at(10), {time.Unix(-1, 0)}} {
		_, err := p.Close(times, 0)
		require.ErrorIs(t, err, toolresult.ProviderError, "out of order, or out of the window (C10)")
	}
	_, err = paging.Windows{}.Open(cursor.Start(), time.Unix(0, 0), time.Unix(1, 0), 1)
	require.ErrorIs(t, err, toolresult.ContractViolation)
	_, err = paging.Windows{Tick: 1}.Open(cursor.Start(), time.Unix(1, 0), time.Unix(1, 0), 1)
	require.ErrorIs(t, err, toolresult.InvalidInput)
	_, err = paging.Windows{Tick: 1}.Open(cursor.At("99~1~~~~"), time.Unix(1, 0), time.Unix(2, 0), 1)
	require.ErrorIs(t, err, toolresult.CursorInvalid, "before the window")
}

// C9: parts of a window have no gap and no overlap.
func TestSteps(t *testing.T) {
	start, end := time.Unix(0, 0).UTC(), time.Unix(10, 0).UTC()
	open, err := paging.Windows{Tick: time.Second}.Steps(start, end, 4*time.Second)
	require.NoError(t, err)
	require.Equal(t, [][2]time.Time{{at(0)[0], at(4)[0]}, {at(4)[0], at(8)[0]}, {at(8)[0], end}}, open)
	closed, err := paging.Windows{Tick: time.Second, Closed: true}.Steps(start, end, 4*time.Second)
	require.NoError(t, err)
	require.Equal(t, [][2]time.Time{{at(0)[0], at(3)[0]}, {at(4)[0], at(7)[0]}, {at(8)[0], end}}, closed)
	_, err = paging.Windows{Tick: time.Second}.Steps(start, time.Unix(1<<40, 0), time.Second)
	require.ErrorIs(t, err, toolresult.InvalidInput)
	_, err = paging.Windows{Tick: time.Second}.Steps(start, end, 0)
	require.ErrorIs(t, err, toolresult.ContractViolation)
}

// P1: positions that nobody made, of another style or of an end, are
// CURSOR_INVALID in every style.
func TestForeignPositions_P1(t *testing.T) {
	for _, from := range []cursor.Position{{}, cursor.End(), cursor.Cut(), cursor.At(""), cursor.At("40"), cursor.At("x~0~~~~"), cursor.At("x~1~~~~x"),
		cursor.At("x~99999~~~~"), cursor.At("~~~~~"), cursor.At(strings.Repeat("~", 4000))} {
		_, err := paging.Tokens{}.Open(from)
		require.ErrorIs(t, err, toolresult.CursorInvalid, fmt.Sprint(from))
		_, err = paging.Links{Place: []string{"page"}}.Open(from)
		require.ErrorIs(t, err, toolresult.CursorInvalid, fmt.Sprint(from))
		_, err = paging.Offsets{}.Open(from, 3)
		require.ErrorIs(t, err, toolresult.CursorInvalid, fmt.Sprint(from))
		_, err = paging.Numbers{}.Open(from)
		require.ErrorIs(t, err, toolresult.CursorInvalid, fmt.Sprint(from))
	}
	_, err := paging.Links{Place: []string{"page"}}.Open(cursor.At("label=secret~1~~~~"))
	require.ErrorIs(t, err, toolresult.CursorInvalid, "a parameter that is no place")
}

func FuzzPositions(f *testing.F) {
	f.Add("40~1~a~b~c~d", 3)
	f.Add("page=2~1~~~~", 1)
	f.Add("~1~~~~", 0)
	f.Fuzz(func(t *testing.T, text string, size int) {
		from := cursor.At(text)
		if p, err := (paging.Tokens{}).Open(from); err == nil {
			turn, err := p.Close([]string{"a"}, true, "next~1~~~~")
			if err == nil {
				p, err = paging.Tokens{}.Open(turn.Next)
				require.NoError(t, err)
				require.Equal(t, "next~1~~~~", p.Token, "a token may hold anything")
			}
		}
		if p, err := (paging.Links{Place: []string{"page"}}).Open(from); err == nil {
			require.Len(t, p.Params, 1)
		}
		if p, err := (paging.Offsets{}).Open(from, size); err == nil {
			require.GreaterOrEqual(t, p.Limit, 1)
			require.GreaterOrEqual(t, p.Offset, 0)
			_, _ = p.Close([]string{"a", "b"}, paging.AtEmpty())
		}
		if p, err := (paging.Numbers{}).Open(from); err == nil {
			require.GreaterOrEqual(t, p.Number, 2)
		}
		start, end := time.Unix(0, 0), time.Unix(100, 0)
		if p, err := (paging.Windows{Tick: 1}).Open(from, start, end, size); err == nil {
			require.False(t, p.From.Before(start) || !p.From.Before(end))
		}
	})
}

func FuzzLinks(f *testing.F) {
	f.Add("https://api.example/items?page=2&q=a")
	f.Add(`//evil.example/items?page=2&q=a`)
	f.Add("?page=2&q=a")
	f.Add("https://api.example:443/items?q=a&page=%0a")
	f.Fuzz(func(t *testing.T, next string) {
		at, err := paging.Links{Place: []string{"page"}}.Open(cursor.Start())
		require.NoError(t, err)
		turn, err := at.Close(nil, "https://api.example/items?q=a", next)
		if err != nil || next == "" {
			return
		}
		at, err = paging.Links{Place: []string{"page"}}.Open(turn.Next)
		require.NoError(t, err)
		require.Len(t, at.Params, 1)
		// What a client of net/http would ask for is the same origin and path.
		r, err := http.NewRequest("GET", "https://api.example/items?q=a", nil)
		require.NoError(t, err)
		u, err := r.URL.Parse(next)
		require.NoError(t, err)
		require.Equal(t, "api.example", strings.ToLower(u.Hostname()))
		require.Equal(t, "/items", u.Path)
	})
}

// A Link header, taken apart and asked for by its number.
func ExampleLinks() {
	style := paging.Links{Place: []string{"page"}}
	at, _ := style.Open(cursor.Start())
	h := http.Header{"Link": {`<https://api.example/issues?state=open&page=2>; rel="next"`}}
	turn, _ := at.Close([]string{"7", "8"}, "https://api.example/issues?state=open", provider.LinkTarget(h, "next"))
	at, _ = style.Open(turn.Next)
	fmt.Println(at.Params)

	_, err := at.Close([]string{"9"}, "https://api.example/issues?state=open&page=2", "https://evil.example/issues?state=open&page=3")
	fmt.Println(err)
	// Output:
	// map[page:2]
	// PROVIDER_ERROR: the provider's link to the next page leads elsewhere
}
