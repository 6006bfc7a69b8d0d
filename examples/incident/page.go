package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/examples/internal/report"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/internal/page"
	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

//go:embed evidence.html
var evidenceText string

// evidencePage is what the page of a run shows: what happened, by the audit log
// and the results, and not by what the agent says of it.
type evidencePage struct {
	facts
	Run        string
	Alert      string
	Ticket     string
	Plot       template.HTML // made of numbers alone
	Points     []point
	Calls      []report.Call
	Events     []event
	Report     *report.Report
	Draft      []report.Problem
	Unexpected []string
	Gaps       []gap
}

// gap is what is not known, once for all calls that lack it.
type gap struct {
	What, Why string
	Calls     []string
}

func gaps(r *report.Report) (out []gap) {
	for _, g := range r.Unknown {
		i := slices.IndexFunc(out, func(o gap) bool { return o.What == g.What && o.Why == g.Why })
		if i < 0 {
			i, out = len(out), append(out, gap{What: g.What, Why: g.Why})
		}
		if g.Call != "" {
			out[i].Calls = append(out[i].Calls, g.Call)
		}
	}
	return out
}

type point struct {
	At    time.Time
	Value float64
}

// evidencePage writes the page of the run into a file.
func (s *story) evidencePage(file string, draft []report.Problem, r *report.Report) error {
	events, err := s.w.state.audit.events()
	if err != nil {
		return err
	}
	explained, err := s.w.caps.trace.Explain(runID)
	if err != nil {
		return err
	}
	points := s.found.points()
	view := evidencePage{
		facts: s.facts, Run: runID, Alert: alr.AlertID, Ticket: s.ticket, Points: points, Plot: plot(points, alr.Deployed()),
		Calls: s.found.run.Calls(), Events: events, Report: r, Draft: draft, Unexpected: explained.Unexpected, Gaps: gaps(r),
	}
	view.Loaded = explained.Loaded
	t, err := page.New(evidenceText, template.FuncMap{
		"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
		"minute": func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"short":  short,
		"join":   func(all []string) string { return strings.Join(all, ", ") },
		"words":  func(s string) string { return strings.ReplaceAll(s, "_", " ") },
		"held": func(e sandbox.Enforcement) string {
			if e.Strength == sandbox.Enforced {
				return "held"
			}
			return e.Strength.String()
		},
	})
	if err != nil {
		return err
	}
	text, err := page.Render(t, alr.AlertID+": what was seen, what was not, and what was done", view)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// points is the P95 as the metrics connector answered it.
func (f *findings) points() (out []point) {
	var series []struct {
		Points []struct {
			At    time.Time `json:"at"`
			Value string    `json:"value"`
		} `json:"points"`
	}
	if json.Unmarshal(f.data["prometheus_query_range"], &series) != nil || len(series) == 0 {
		return nil
	}
	for _, p := range series[0].Points {
		if v, err := strconv.ParseFloat(p.Value, 64); err == nil {
			out = append(out, point{p.At, v})
		}
	}
	return out
}

// plot draws points, and an instant as a mark. It writes nothing but numbers and
// times.
func plot(points []point, mark time.Time) template.HTML {
	if len(points) < 2 {
		return "<p>Too few points to draw.</p>"
	}
	const w, h, left, right, top, bottom = 720.0, 260.0, 56.0, 34.0, 24.0, 34.0
	first, last, most := points[0].At, points[len(points)-1].At, 0.0
	for _, p := range points {
		most = max(most, p.Value)
	}
	x := func(t time.Time) float64 {
		return left + (w-left-right)*t.Sub(first).Seconds()/last.Sub(first).Seconds()
	}
	y := func(v float64) float64 { return h - bottom - (h-top-bottom)*v/max(most, 1e-9) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="P95 latency over time; the numbers are in the table below">`, w, h)
	for i := range 5 {
		v := most * float64(i) / 4
		fmt.Fprintf(&b, `<line class="axis" x1="%g" y1="%.1f" x2="%g" y2="%.1f"/><text class="label" x="4" y="%.1f">%.2g</text>`, left, y(v), w-right, y(v), y(v)+4, v)
	}
	for i := 0; i < len(points); i += max(1, len(points)/5) {
		fmt.Fprintf(&b, `<text class="label" text-anchor="middle" x="%.1f" y="%g">%s</text>`, x(points[i].At), h-8, points[i].At.UTC().Format("15:04"))
	}
	if !mark.Before(first) && !mark.After(last) {
		fmt.Fprintf(&b, `<line class="mark" x1="%.1f" y1="%g" x2="%.1f" y2="%g"/><text class="label wide" x="%.1f" y="%g">rollout complete</text>`, x(mark), top, x(mark), h-bottom, x(mark)+6, top+12)
	}
	b.WriteString(`<polyline class="plot" points="`)
	for _, p := range points {
		fmt.Fprintf(&b, "%.1f,%.1f ", x(p.At), y(p.Value))
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String())
}
