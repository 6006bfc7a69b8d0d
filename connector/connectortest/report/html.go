package report

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/internal/page"
)

//go:embed report.html
var body string

// areas says what the checks of an area are about, in the order in which a
// reader asks.
var areas = [...][2]string{
	{"manifest", "What it declares"}, {"schema", "What goes in and comes out"}, {"result", "What an answer means"}, {"errors", "How it fails"},
	{"identity", "Whose credential it uses"}, {"authz", "Who may do what"}, {"cursor", "Lists"}, {"write", "Changes"}, {"approval", "Approvals"},
	{"ratelimit", "Rate limits"}, {"cache", "Caches"}, {"leak", "Secrets"}, {"cancel", "Giving up"}, {"deadline", "Time limits"},
	{"concurrency", "Many callers at once"}, {"size", "Too much of something"}, {"audit", "What is recorded"}, {"revoke", "Lost access"}, {"webhook", "Webhooks"},
}

type view struct {
	*File
	Yes, Partial bool
	Summary      string
	Trust        string // how far the double can be believed
	Differences  []string
	Problems     []entryView
	Areas        []areaView
}

type areaView struct {
	Title, Tally string
	Good         bool
	Entries      []entryView
}

type entryView struct {
	check.Result
	Word, Class, Evidence, Transcript string
	First, Rest                       []check.Finding
	Same                              []check.Result // further problems with the same reason
}

// HTML returns report.html: a page without scripts that needs nothing else.
func HTML(r *check.Report, now time.Time) ([]byte, error) {
	t, err := page.New(body, nil)
	if err != nil {
		return nil, err
	}
	v := view{File: New(r, now), Summary: summary(r), Trust: double(r, now)}
	v.Yes, v.Partial = v.Conformant == "yes", v.Conformant == "partial"
	if v.Trust != "" && r.Double != nil {
		v.Differences = r.Double.Differences
	}
	for _, x := range r.Results {
		e := entry(&x)
		if !x.Verdict.Green() {
			v.Problems = gather(v.Problems, e)
		}
		v.Areas = place(v.Areas, &x, e)
	}
	slices.SortStableFunc(v.Problems, func(a, b entryView) int { return weight(&a.Result) - weight(&b.Result) })
	for i := range v.Areas {
		v.Areas[i].tally()
	}
	return page.Render(t, r.Connector+" "+r.Version+": contract report", v)
}

// gather adds a problem to a list. One that was not looked at for the same reason
// as another one stands with that: a reader has one thing to mend.
func gather(list []entryView, e entryView) []entryView {
	i := slices.IndexFunc(list, func(x entryView) bool {
		return e.Reason != "" && len(e.Findings)+len(x.Findings) == 0 && x.Reason == e.Reason && x.Verdict == e.Verdict && x.Scored == e.Scored
	})
	if i < 0 {
		return append(list, e)
	}
	list[i].Same = append(list[i].Same, e.Result)
	return list
}

// weight orders problems: what fails first, what is not scored last.
func weight(r *check.Result) int {
	n := slices.Index([]check.Verdict{check.Fail, check.Broken, check.Unknown, check.Inconclusive, check.Waived}, r.Verdict)
	if r.Level != check.Core {
		n += 10
	}
	if !r.Scored {
		n += 100
	}
	return n
}

func summary(r *check.Report) string {
	n := len(r.Results) - r.Count(check.NotApplicable)
	text := fmt.Sprintf("%d of %d promises that apply are kept", r.Count(check.Pass), n)
	if c := r.Count(check.Fail); c > 0 {
		text += fmt.Sprintf(", %d broken", c)
	}
	if c := r.Count(check.Inconclusive) + r.Count(check.Broken) + r.Count(check.Unknown); c > 0 {
		text += fmt.Sprintf(", %d could not be judged", c)
	}
	if c := r.Count(check.Waived); c > 0 {
		text += fmt.Sprintf(", %d waived for the time being", c)
	}
	return text + "."
}

// double says how far the double can be trusted; empty: there was none.
func double(r *check.Report, now time.Time) string {
	if r.Mode != check.InDouble {
		return ""
	}
	return r.Double.Trust(now)
}

func entry(r *check.Result) entryView {
	e := entryView{Result: *r, Word: strings.ReplaceAll(r.Verdict.String(), "_", " "), Class: "bad"}
	e.First = r.Findings[:min(2, len(r.Findings))]
	e.Rest = r.Findings[len(e.First):]
	switch r.Verdict {
	case check.Pass:
		e.Class = "good"
	case check.NotApplicable, check.Waived:
		e.Class = "soft"
	}
	parts := []string{r.Level.String()}
	if !r.Scored {
		parts = append(parts, "not scored yet")
	}
	parts = append(parts, "in mode "+r.Mode.String())
	if r.Requests > 0 {
		parts = append(parts, count(r.Requests, "request"))
	}
	if r.Faults > 0 {
		parts = append(parts, count(r.Faults, "fault"))
	}
	if r.Virtual >= time.Second {
		parts = append(parts, r.Virtual.Round(time.Second).String()+" of virtual time")
	}
	if r.Seed != 0 {
		parts = append(parts, fmt.Sprintf("seed %d", r.Seed))
	}
	e.Evidence = strings.Join(parts, " · ")
	if shown(r) {
		e.Transcript = r.Transcript
	}
	return e
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// place puts a result where its area is, or at the end under its own name.
func place(list []areaView, r *check.Result, e entryView) []areaView {
	area, _, _ := strings.Cut(r.Check, "/")
	title := area
	if i := slices.IndexFunc(areas[:], func(a [2]string) bool { return a[0] == area }); i >= 0 {
		title = areas[i][1]
	}
	i := slices.IndexFunc(list, func(a areaView) bool { return a.Title == title })
	if i < 0 {
		list, i = append(list, areaView{Title: title}), len(list)
	}
	list[i].Entries = append(list[i].Entries, e)
	return list
}

func (a *areaView) tally() {
	kept, apply := 0, 0
	for _, e := range a.Entries {
		if e.Verdict == check.Pass {
			kept++
		}
		if e.Verdict != check.NotApplicable {
			apply++
		}
	}
	a.Good = kept == apply
	a.Tally = fmt.Sprintf("%d of %d kept", kept, apply)
	if apply == 0 {
		a.Tally = "does not apply"
	}
}
