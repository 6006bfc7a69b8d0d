package connector_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/connector/provider/paging"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// shelf is a provider with a collection that changes. It clamps page sizes
// without a word.
type shelf struct {
	items []int // in the provider's order; each once
	clamp int
	keys  []string // credential of each request
	link  string   // instead of the right next link
}

func (s *shelf) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.keys = append(s.keys, r.Header.Get("X-Api-Key"))
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	limit = min(cmp.Or(limit, s.clamp), s.clamp)
	offset, _ := strconv.Atoi(q.Get("offset"))
	if r.URL.Path == "/numbered" {
		page, _ := strconv.Atoi(q.Get("page"))
		offset = (max(page, 1) - 1) * limit
	}
	if after := q.Get("after"); after != "" { // a key: the items are in ascending order
		last, _ := strconv.Atoi(after)
		offset = len(s.items)
		if i := slices.IndexFunc(s.items, func(x int) bool { return x > last }); i >= 0 {
			offset = i
		}
	}
	offset = min(offset, len(s.items))
	page := s.items[offset:min(len(s.items), offset+limit)]
	body := map[string]any{"items": append([]int{}, page...), "total": len(s.items), "next": nil}
	if offset+len(page) < len(s.items) && len(page) > 0 {
		body["next"] = strconv.Itoa(page[len(page)-1])
		if r.URL.Path == "/numbered" {
			n := offset/limit + 2
			rw.Header().Set("Link", cmp.Or(s.link, fmt.Sprintf(`</numbered?limit=%s&page=%d>; rel="next"`, q.Get("limit"), n)))
		}
	}
	text, _ := json.Marshal(body)
	rw.Header().Set("Content-Type", "application/json")
	rw.Write(text)
}

type shelfPage struct {
	Items []int
	Total int
	Next  *string
}

func names(items []int) []string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = strconv.Itoa(x)
	}
	return out
}

func turned(items []int, turn paging.Turn) *connector.Page[int] {
	out := connector.NewPage(items[turn.Skip:turn.Keep], turn.Next)
	out.Missing = turn.Missing
	return out
}

func byOffset(ctx context.Context, c *connector.ReadCall, _ struct{}, page connector.PageRequest) (*connector.Page[int], error) {
	at, err := paging.Offsets{}.Open(page.From, page.Size)
	if err != nil {
		return nil, err
	}
	var body shelfPage
	if _, err := c.Get(ctx, "/counted", connector.Params{"limit": strconv.Itoa(at.Limit), "offset": strconv.Itoa(at.Offset)}, &body); err != nil {
		return nil, err
	}
	turn, err := at.Close(names(body.Items), paging.OfTotal(body.Total))
	if err != nil {
		return nil, err
	}
	return turned(body.Items, turn), nil
}

func byKey(ctx context.Context, c *connector.ReadCall, _ struct{}, page connector.PageRequest) (*connector.Page[int], error) {
	at, err := paging.Tokens{}.Open(page.From)
	if err != nil {
		return nil, err
	}
	p := connector.Params{"limit": strconv.Itoa(page.Size)}
	if at.Later {
		p["after"] = at.Token
	}
	var body shelfPage
	if _, err := c.Get(ctx, "/keyed", p, &body); err != nil {
		return nil, err
	}
	token := ""
	if body.Next != nil {
		token = *body.Next
	}
	turn, err := at.Close(names(body.Items), body.Next != nil, token)
	if err != nil {
		return nil, err
	}
	return turned(body.Items, turn), nil
}

func byLink(ctx context.Context, c *connector.ReadCall, _ struct{}, page connector.PageRequest) (*connector.Page[int], error) {
	at, err := paging.Links{Place: []string{"page"}, Numbered: true}.Open(page.From)
	if err != nil {
		return nil, err
	}
	p := connector.Params{"limit": strconv.Itoa(page.Size)}
	asked := c.Connection().BaseURL + "/numbered?limit=" + p["limit"]
	for k, v := range at.Params {
		p[k] = v
	}
	var body shelfPage
	meta, err := c.Get(ctx, "/numbered", p, &body)
	if err != nil {
		return nil, err
	}
	turn, err := at.Close(names(body.Items), asked, meta.Next)
	if err != nil {
		return nil, err
	}
	return turned(body.Items, turn), nil
}

func shelfWorld(t testing.TB, s *shelf) *world {
	list := func(name, path string, more provider.Signal, f connector.ListFunc[struct{}, int], params ...string) connector.Capability {
		return connector.List(connector.ListSpec{More: more, Spec: spec(name, connector.Route{Pattern: "GET " + path, Effect: connector.Reads,
			WholeConnection: true, Params: append(params, "limit")})}, connector.OnConnection, f)
	}
	return newWorld(t, setup{handler: s.ServeHTTP,
		policy: authztest.Policy(func(*authz.Request) (authz.Decision, error) {
			return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "r"}, nil
		}),
		caps: []connector.Capability{
			list("shelf.counted", "/counted", provider.Total("/total", "/items"), byOffset, "offset"),
			list("shelf.keyed", "/keyed", provider.Pointer("/next"), byKey, "after"),
			list("shelf.numbered", "/numbered", provider.LinkNext(), byLink, "page"),
		}})
}

// P1, P2, R5, acceptance 3: whatever the collection, the page sizes, the server's
// own limit, and what is added and removed between two pages: each item that was
// there all the time was returned, or the listing said that something may be
// missing; and one that was returned twice was not hidden either.
func TestListingIsTheTruth_P1_P2_R5(t *testing.T) {
	s := &shelf{}
	w := shelfWorld(t, s)
	rapid.Check(t, func(t *rapid.T) {
		capability := rapid.SampledFrom([]string{"shelf.counted", "shelf.keyed", "shelf.numbered"}).Draw(t, "capability")
		fresh := 0
		for range rapid.IntRange(0, 30).Draw(t, "items") {
			fresh += 1 + rapid.IntRange(0, 5).Draw(t, "space")
			s.items = append(s.items, fresh)
		}
		s.clamp = rapid.IntRange(2, 12).Draw(t, "clamp")
		size := rapid.IntRange(1, 12).Draw(t, "size")
		before := slices.Clone(s.items)
		stayed := map[int]bool{}
		for _, x := range before {
			stayed[x] = true
		}
		got, said, next, changed := map[int]int{}, false, "", false
		for page := 0; ; page++ {
			require.Less(t, page, 100, "it ends")
			args := fmt.Sprintf(`{"page_size":%d}`, size)
			if next != "" {
				args = fmt.Sprintf(`{"page_size":%d,"cursor":%q}`, size, next)
			}
			r := w.inv.Invoke(context.Background(), &connector.InvokeRequest{Principal: w.alice, Capability: capability, Arguments: json.RawMessage(args)})
			require.NoError(t, r.Validate(nil))
			if r.Err() != nil {
				require.True(t, changed, "%s: a quiet collection is read to its end: %v %s", capability, r.Err(), w.violation())
				require.Equal(t, toolresult.ProviderError, r.Error.Code)
				said = true
				break
			}
			var items []int
			require.NoError(t, json.Unmarshal(r.Data, &items))
			require.LessOrEqual(t, len(items), size)
			for _, x := range items {
				got[x]++
			}
			said = said || slices.Contains(r.Coverage.Missing, paging.Drift)
			require.Equal(t, r.NextCursor != "", slices.Contains(r.Coverage.Missing, toolresult.GapRemainingPages))
			if next = r.NextCursor; next == "" {
				break
			}
			for range rapid.IntRange(0, 2).Draw(t, "changes") {
				changed = true
				if i := rapid.IntRange(0, len(s.items)).Draw(t, "where"); rapid.Bool().Draw(t, "remove") && i < len(s.items) {
					delete(stayed, s.items[i])
					s.items = slices.Delete(s.items, i, i+1)
				} else if x := s.between(i); x > 0 {
					s.items = slices.Insert(s.items, i, x)
				}
			}
		}
		if said {
			require.True(t, changed || capability == "shelf.numbered", "nothing changed, and the listing says that it did")
		} else {
			for x := range stayed {
				require.Positive(t, got[x], "%s: %d was there all the time", capability, x)
			}
			for x, n := range got {
				require.Equal(t, 1, n, "%s: %d was returned twice", capability, x)
			}
		}
		s.items = nil
	})
}

// between returns an item that fits between two others, or 0.
func (s *shelf) between(i int) int {
	low, high := 0, 1<<30
	if i > 0 {
		low = s.items[i-1]
	}
	if i < len(s.items) {
		high = s.items[i]
	}
	if high-low < 2 {
		return 0
	}
	return low + 1
}

// P-05, P-09, P-11, P-13: cases that need a whole call.
func TestPagingCases_P1_P2(t *testing.T) {
	t.Run("P-13: each page has the credential", func(t *testing.T) {
		s := &shelf{items: []int{1, 2, 3, 4, 5}, clamp: 2}
		w := shelfWorld(t, s)
		next := ""
		for range 3 {
			r := w.call("shelf.numbered", `{"page_size":2`+next+`}`)
			require.NoError(t, r.Err())
			next = `,"cursor":"` + r.NextCursor + `"`
		}
		require.Equal(t, []string{canary, canary, canary}, s.keys)
	})
	t.Run("P-05: 1000 asked for, and 2 given", func(t *testing.T) {
		w := shelfWorld(t, &shelf{items: []int{1, 2, 3}, clamp: 2})
		r := w.call("shelf.counted", `{"page_size":50}`)
		require.JSONEq(t, `[1,2]`, string(r.Data))
		r = w.call("shelf.counted", `{"page_size":50,"cursor":"`+r.NextCursor+`"}`)
		require.JSONEq(t, `[3]`, string(r.Data))
		require.Equal(t, toolresult.StatusSuccess, r.Status)
	})
	t.Run("P-09: a cursor of another question", func(t *testing.T) {
		w := shelfWorld(t, &shelf{items: []int{1, 2, 3}, clamp: 2})
		r := w.call("shelf.counted", `{"page_size":2}`)
		n := w.count("")
		require.Equal(t, toolresult.CursorInvalid, w.call("shelf.keyed", `{"page_size":2,"cursor":"`+r.NextCursor+`"}`).Error.Code)
		require.Equal(t, n, w.count(""), "nothing was sent")
	})
	for _, link := range []string{`<https://evil.example/numbered?limit=2&page=2>; rel="next"`, `<//evil.example/numbered?limit=2&page=2>; rel="next"`,
		`<https://provider.test/numbered?limit=2&page=2>; rel="next"`, `</other?limit=2&page=2>; rel="next"`} {
		t.Run("P-11: "+link, func(t *testing.T) {
			w := shelfWorld(t, &shelf{items: []int{1, 2, 3}, clamp: 2, link: link})
			r := w.call("shelf.numbered", `{"page_size":2}`)
			require.Equal(t, toolresult.ProviderError, r.Error.Code)
			require.Equal(t, 1, w.count(""))
			text, _ := json.Marshal(r)
			require.False(t, strings.Contains(string(text), "evil"))
		})
	}
}
