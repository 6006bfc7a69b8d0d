package provider

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinkTarget_P2(t *testing.T) {
	for _, row := range []struct {
		why   string
		lines []string
		want  string
	}{
		{"one link", []string{`<https://x/?page=2>; rel="next"`}, "https://x/?page=2"},
		{"commas and semicolons in the target", []string{`<https://x/issues?labels=a,b;c&page=2>; rel=next`}, "https://x/issues?labels=a,b;c&page=2"},
		{"several links", []string{`<https://x/?page=1>; rel="prev", <https://x/?page=3>; rel="next", <https://x/?page=9>; rel="last"`}, "https://x/?page=3"},
		{"several headers", []string{`<https://x/?page=1>; rel="prev"`, `<https://x/?page=3>; rel="next"`}, "https://x/?page=3"},
		{"several relations", []string{`<https://x/?page=9>; rel="last next"`}, "https://x/?page=9"},
		{"several relations and spaces", []string{"<https://x/?page=9>;rel=\"last\t  next \""}, "https://x/?page=9"},
		{"in capitals", []string{`<https://x/?page=2>; REL="NeXt"`}, "https://x/?page=2"},
		{"spaces everywhere", []string{" ,, <https://x/?page=2> ; rel = next ,"}, "https://x/?page=2"},
		{"other parameters", []string{`<https://x/?page=2>; title="a, b; rel=\"prev\" <c>"; rel="next"; results=true`}, "https://x/?page=2"},
		{"a title that names another link", []string{`<https://x/1>; title=", <https://evil/>; rel=next,"; rel=prev, <https://x/2>; rel=next`}, "https://x/2"},
		{"a parameter without a value", []string{`<https://x/?page=2>; crossorigin; rel="next"`}, "https://x/?page=2"},
		{"only the first rel counts", []string{`<https://x/1>; rel="prev"; rel="next"`}, ""},
		{"a longer word", []string{`<https://x/?page=2>; rel="nextish"`}, ""},
		{"a relation that is a URL", []string{`<https://x/?page=2>; rel="https://x/next"`}, ""},
		{"about another document", []string{`<https://x/?page=2>; rel="next"; anchor="https://y/"`}, ""},
		{"no target", []string{`<>; rel="next"`}, ""},
		{"no brackets", []string{`https://x/?page=2; rel="next"`}, ""},
		{"a bracket that does not end", []string{`<https://x/?page=2; rel="next"`}, ""},
		{"a quote that does not end", []string{`<https://x/?page=2>; rel="next`}, ""},
		{"something between", []string{`<https://x/?page=2> x; rel="next"`}, ""},
		{"an empty header", []string{"Link: "}, ""},
		{"no header", nil, ""},
	} {
		h := http.Header{}
		for _, l := range row.lines {
			h.Add("Link", l)
		}
		require.Equal(t, row.want, LinkTarget(h, "next"), row.why)
	}
}

func TestMore_P2(t *testing.T) {
	const items = `"items":[1,2,3]`
	for _, row := range []struct {
		why         string
		signal      Signal
		link, body  string
		more, known bool
	}{
		{"a link", LinkNext(), `<https://x/?labels=a,b&page=2>; rel="next"`, "", true, true},
		{"a link to something else", LinkNext(), `<https://x/?page=1>; rel="prev"`, "", false, true},
		{"no link at all", LinkNext(), "", "", false, true},
		{"a link that nobody can read", LinkNext(), `https://x; rel=next`, "", false, false},
		{"one that can be read before one that cannot", LinkNext(), `<https://x/2>; rel=next, <oops`, "", true, true},

		{"a token", Pointer("/meta/next"), "", `{"meta":{"next":"abc"}}`, true, true},
		{"an empty token", Pointer("/meta/next"), "", `{"meta":{"next":""}}`, false, true},
		{"a null token", Pointer("/meta/next"), "", `{"meta":{"next":null}}`, false, true},
		{"no token", Pointer("/meta/next"), "", `{"meta":{}}`, false, true},
		{"a page number", Pointer("/next_page"), "", `{"next_page":3}`, true, true},
		{"has_more", Pointer("/has_more"), "", `{"has_more":true}`, true, true},
		{"not has_more", Pointer("/has_more"), "", `{"has_more":false}`, false, true},
		{"a link object", Pointer("/_links/next"), "", `{"_links":{"next":{"href":"/2"}}}`, true, true},
		{"not JSON", Pointer("/next"), "", `<html>`, false, false},
		{"JSON with two answers", Pointer("/next"), "", `{"next":"","Next":"x"}`, false, false},

		{"more in total than so far", Total("/total", "/items").From(3), "", `{"total":7,` + items + `}`, true, true},
		{"as many in total as so far", Total("/total", "/items").From(4), "", `{"total":7,` + items + `}`, false, true},
		{"fewer than before", Total("/total", "/items").From(9), "", `{"total":7,` + items + `}`, false, true},
		{"the first page", Total("/total", "/items").From(0), "", `{"total":4,` + items + `}`, true, true},
		{"an empty page in the middle", Total("/total", "/items").From(3), "", `{"total":4,"items":[]}`, true, true},
		{"nobody knows where the page is", Total("/total", "/items").From(-1), "", `{"total":7,` + items + `}`, false, false},
		{"nobody asked where the page is", Total("/total", "/items"), "", `{"total":7,` + items + `}`, false, false},
		{"all of it, wherever it is", Total("/total", "/items"), "", `{"total":3,` + items + `}`, false, true},
		{"nothing at all", Total("/total", "/items").From(0), "", `{"total":0}`, false, true},
		{"a total without items", Total("/total", "/items").From(0), "", `{"total":7}`, false, false},
		{"no total", Total("/total", "/items").From(0), "", `{` + items + `}`, false, false},
		{"a total in a string", Total("/total", "/items").From(0), "", `{"total":"7",` + items + `}`, false, false},
		{"a negative total", Total("/total", "/items").From(0), "", `{"total":-1,` + items + `}`, false, false},
		{"a total with a fraction", Total("/total", "/items").From(0), "", `{"total":7.5,` + items + `}`, false, false},
		{"an offset beyond numbers", Total("/total", "/items").From(int(^uint(0) >> 1)), "", `{"total":7,` + items + `}`, false, false},

		{"no signal", NoSignal("returns everything"), "", `{}`, false, false},
		{"the zero signal", Signal{}, "", `{}`, false, false},
	} {
		h := http.Header{}
		if row.link != "" {
			h.Set("Link", row.link)
		}
		more, known := row.signal.More(&Response{Header: h, Body: []byte(row.body)})
		require.Equal(t, row.more, more, row.why)
		require.Equal(t, row.known, known, row.why)
	}
}

func FuzzLinkTarget(f *testing.F) {
	f.Add(`<https://x/?labels=a,b&page=2>; rel="next"`, "next")
	f.Add(`<a>; title="\"`, "next")
	f.Add(`<a>;;;rel=next,<b>;rel="x y"`, "y")
	f.Fuzz(func(t *testing.T, field, rel string) {
		h := http.Header{"Link": {field}}
		target := LinkTarget(h, rel)
		if target == "" {
			return
		}
		require.Contains(t, field, target)
		require.NotContains(t, target, ">", "a target is what is between brackets")
		if strings.IndexFunc(rel, func(r rune) bool { return r > 0x7e }) < 0 {
			require.Equal(t, target, LinkTarget(h, strings.ToUpper(rel)))
		}
		require.Equal(t, target, LinkTarget(http.Header{"Link": {field, "<other>; rel=" + rel}}, rel))
	})
}

func FuzzMore(f *testing.F) {
	f.Add([]byte(`{"total":7,"items":[1]}`), 3)
	f.Fuzz(func(t *testing.T, body []byte, before int) {
		r := &Response{Header: http.Header{}, Body: body}
		for _, s := range []Signal{Pointer("/total"), Total("/total", "/items"), Total("/total", "/items").From(before)} {
			more, known := s.More(r)
			require.True(t, known || !more, "more is never said without being known")
		}
	})
}
