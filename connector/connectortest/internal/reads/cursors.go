package reads

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func cursors() []check.Check {
	return []check.Check{
		{
			ID: "cursor/complete", Since: frozen, Modes: check.InDouble | check.InSandbox, Needs: needsList, Kills: []string{"cursor-skips"},
			Promise: "A walk through a listing gives every item, however small its pages are.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Lists() {
					whole, _ := walk(ctx, s, c, 0, nil)
					for _, size := range []int{1, 2, 3} {
						got, ended := walk(ctx, s, c, size, nil)
						s.Expect(!ended || len(missing(whole, got)) == 0 && len(missing(got, whole)) == 0, fmt.Sprintf("%s in pages of %d lacks %v", c.Capability, size, clip(fmt.Sprint(missing(whole, got)))), "the same items as in large pages")
					}
					want := c.Sample.Items
					s.Expect(want == 0 || len(distinct(whole)) == want, fmt.Sprintf("%s has %d items", c.Capability, len(distinct(whole))), fmt.Sprint(want))
				}
			},
		},
		{
			ID: "cursor/no-duplicates", Since: frozen, Modes: check.InDouble | check.InSandbox, Needs: needsList, Kills: []string{"cursor-repeats"},
			Promise: "No item comes twice in a walk through a listing that does not change.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Lists() {
					for _, size := range []int{2, 3} {
						got, ended := walk(ctx, s, c, size, nil)
						s.Expect(!ended || len(distinct(got)) == len(got), fmt.Sprintf("%s in pages of %d gives %d items, of which %d are different", c.Capability, size, len(got), len(distinct(got))), "each once")
					}
				}
			},
		},
		{
			ID: "cursor/terminates", Since: frozen, Modes: check.InDouble | check.InSandbox, Needs: needsList, Kills: []string{"cursor-loops", "cursor-never-ends"},
			Promise: "A walk through a listing ends, and says that it did.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Lists() {
					got, ended := walk(ctx, s, c, 2, nil)
					s.Expect(ended, fmt.Sprintf("%s: no end after %d items", c.Capability, len(got)), "an end")
				}
			},
		},
		{
			ID: "cursor/forged-refused", Since: frozen, Needs: needsList, Kills: []string{"cursor-plain"},
			Promise: "A cursor that was changed, cut or made up is refused, and nothing is sent.",
			Run: onCursor(func(ctx context.Context, s *check.Session, c check.Call, next string) {
				for _, bad := range []string{"2", next[:len(next)-1], next + "A", "!!", "k1." + next, strings.ToUpper(next), flip(next)} {
					refused(ctx, s, c, bad)
				}
			}),
		},
		{
			ID: "cursor/bound-to-principal", Since: frozen, Needs: needsList, Kills: []string{"cursor-unbound"},
			Promise: "A cursor is good for the caller who got it, and for nobody else.",
			Run: onCursor(func(ctx context.Context, s *check.Session, c check.Call, next string) {
				other := c
				other.Who = check.Carol
				refused(ctx, s, other, next)
				refused(ctx, s, c.As(check.Bob), next)
			}),
		},
		{
			ID: "cursor/bound-to-query", Since: frozen, Needs: needsList, Kills: []string{"cursor-any-query"},
			Promise: "A cursor is good for the question that it belongs to: not for other arguments, and not for another capability.",
			Run: onCursor(func(ctx context.Context, s *check.Session, c check.Call, next string) {
				if len(s.Lists()) == 1 && c.Sample.Other == "" && c.Sample.Empty == "" {
					noOther(s, c)
				}
				other := c
				if other.Args = c.Sample.Other; other.Args == "" {
					other.Args = c.Sample.Empty
				}
				if other.Args != "" && other.Args != c.Args {
					refused(ctx, s, other, next)
				}
				for _, d := range s.Lists() {
					if d.Capability != c.Capability {
						refused(ctx, s, d, next)
					}
				}
			}),
		},
		{
			ID: "cursor/expires", Since: frozen, Level: check.Extended, Needs: needsList, Kills: []string{"cursor-immortal"},
			Promise: "A cursor that is over is refused, so that the caller knows to start again.",
			Run: onCursor(func(ctx context.Context, s *check.Session, c check.Call, next string) {
				s.Wait(8 * 24 * time.Hour)
				refused(ctx, s, c, next)
			}),
		},
		{
			ID: "cursor/survives-restart", Since: frozen, Level: check.Extended, Needs: needsList, Kills: []string{"cursor-in-memory"},
			Promise: "A walk can go on at another instance of the connector.",
			Run: onCursor(func(ctx context.Context, s *check.Session, c check.Call, next string) {
				whole, _ := walk(ctx, s, c, 0, nil)
				first := items(s.Do(ctx, sized(c, 2)))
				s.Restart()
				on := sized(c, 2)
				on.Cursor = next
				r := s.Do(ctx, on)
				s.Expect(r.Error == nil && len(missing(items(r), whole)) == 0 && len(missing(items(r), first)) == len(items(r)), c.Capability+" after a restart: "+s.Describe(r)+" "+clip(string(r.Data)), "the second page")
			}),
		},
		{
			ID: "cursor/changing-list", Since: frozen, Level: check.Extended, Needs: needsList, Kills: []string{"offset-drift"},
			Promise: "A walk through a listing that changes meanwhile ends all the same.",
			Run:     runChanging,
		},
	}
}

func sized(c check.Call, n int) check.Call {
	c.Size = n
	return c
}

// mostPages bounds a walk that does not end.
const mostPages = 40

// walk goes through a listing. It reports whether it came to an end; between two
// pages it calls between, which may be nil.
func walk(ctx context.Context, s *check.Session, c check.Call, size int, between func()) (all []string, ended bool) {
	c.Size = size
	for range mostPages {
		r := s.Do(ctx, c)
		if r.Error != nil {
			s.Expect(false, c.Capability+": "+s.Describe(r), "a page")
			return all, true
		}
		all = append(all, items(r)...)
		if r.NextCursor == "" {
			return all, true
		}
		c.Cursor = r.NextCursor
		if between != nil {
			between()
		}
	}
	return all, false
}

func distinct(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// missing lists what is in a and not in b.
func missing(a, b []string) []string {
	return slices.DeleteFunc(distinct(a), func(x string) bool { return slices.Contains(b, x) })
}

// onCursor runs f with a cursor of each listing that has more than one page.
func onCursor(f func(ctx context.Context, s *check.Session, c check.Call, next string)) func(context.Context, *check.Session) {
	return func(ctx context.Context, s *check.Session) {
		tried := 0
		for _, c := range s.Lists() {
			r := s.Do(ctx, sized(c, 2))
			if r.Error != nil {
				s.Expect(false, c.Capability+": "+s.Describe(r), "a page of two")
				continue
			}
			if r.NextCursor != "" {
				tried++
				f(ctx, s, c, r.NextCursor)
			}
		}
		if tried == 0 {
			s.Inconclusive("no listing has more than two items: let the double have at least five")
		}
	}
}

// noOther says why there is no second question to the only listing.
func noOther(s *check.Session, c check.Call) {
	if asksNothing(s.Declaration(c.Capability)) {
		s.NotApplicable("the only listing has no arguments, and so no other question")
		return
	}
	s.Inconclusive("no other question to compare with: set Sample.Other or Sample.Empty of " + c.Capability)
}

// asksNothing reports whether a listing has no arguments of its own.
func asksNothing(d *connector.Declaration) bool {
	var in struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(d.Input, &in) != nil {
		return false
	}
	delete(in.Properties, "page_size")
	delete(in.Properties, "cursor")
	return len(in.Properties) == 0
}

func refused(ctx context.Context, s *check.Session, c check.Call, cursor string) {
	c.Cursor, c.Size = cursor, 2
	n := s.Requests()
	s.WantCode(c, s.Do(ctx, c), toolresult.CursorInvalid, toolresult.InvalidInput)
	s.WantNone(c, n)
}

func flip(text string) string {
	b := []byte(text)
	if i := len(b) / 2; b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

func runChanging(ctx context.Context, s *check.Session) {
	if _, ok := s.Double.(check.DoubleWithChanges); !ok {
		s.Inconclusive("the double cannot change its items behind the connector's back: let it implement DoubleWithChanges")
		return
	}
	for _, c := range s.Lists() {
		for _, f := range []func(check.DoubleWithChanges){
			func(d check.DoubleWithChanges) { d.Remove(check.TenantA) },
			func(d check.DoubleWithChanges) {
				for range 6 {
					d.Remove(check.TenantA)
				}
			},
			func(d check.DoubleWithChanges) { d.Insert(check.TenantA); d.Remove(check.TenantA) },
		} {
			t := s.Fresh()
			d, ok := t.Double.(check.DoubleWithChanges)
			if !ok {
				continue
			}
			got, ended := walk(ctx, t, c, 2, func() { f(d) })
			t.Expect(ended, fmt.Sprintf("%s: no end after %d items", c.Capability, len(got)), "an end")
		}
	}
}
