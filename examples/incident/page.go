package main

import (
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/report"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/internal/page"
)

// evidencePage is what the page of a run shows: what happened, by the audit log
// and the results, and not by what the agent says of it.
type evidencePage struct {
	Ticket  string
	Plot    template.HTML // made of numbers alone
	Points  []point
	Calls   []report.Call
	Events  []connector.AuditEvent
	Report  *report.Report
	Refused []report.Problem
}

type point struct {
	At    time.Time
	Value float64
}

// evidence writes the page of the run into a file.
func (s *story) evidencePage(file string, refused []report.Problem, r *report.Report) error {
	points := s.found.points()
	view := evidencePage{
		Points: points, Plot: plot(points, alr.Deployed()), Calls: s.found.run.Calls(), Events: s.w.state.audit.all(),
		Report: r, Refused: refused,
	}
	for _, e := range r.Effects {
		view.Ticket = e.Object
	}
	t, err := page.New(evidenceText, template.FuncMap{
		"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
		"minute": func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"targets": func(e connector.AuditEvent) string {
			var all []string
			for _, id := range e.Target {
				all = append(all, id.Type+" "+id.ID)
			}
			return strings.Join(all, ", ")
		},
		"verdict": func(v authz.Verdict) string {
			return map[authz.Verdict]string{authz.Allow: "allow", authz.AllowWithApproval: "allow with an approval", authz.Deny: "deny", authz.Prohibit: "prohibit"}[v]
		},
		"short":   func(s string) string { return s[:min(len(s), 19)] },
		"written": func(e connector.AuditEvent) bool { return e.Result.CallID == "" },
	})
	if err != nil {
		return err
	}
	text, err := page.Render(t, alr.AlertID+": what was seen, and what was not", view)
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
	const w, h, left, right, top, bottom = 720.0, 240.0, 48.0, 26.0, 16.0, 28.0
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
		fmt.Fprintf(&b, `<line class="axis" x1="%g" y1="%.1f" x2="%g" y2="%.1f"/><text class="label" x="4" y="%.1f">%.2g s</text>`, left, y(v), w-right, y(v), y(v)+4, v)
	}
	for i := 0; i < len(points); i += max(1, len(points)/5) {
		fmt.Fprintf(&b, `<text class="label" text-anchor="middle" x="%.1f" y="%g">%s</text>`, x(points[i].At), h-8, points[i].At.UTC().Format("15:04"))
	}
	if !mark.Before(first) && !mark.After(last) {
		fmt.Fprintf(&b, `<line class="mark" x1="%.1f" y1="%g" x2="%.1f" y2="%g"/><text class="label" x="%.1f" y="%g">rollout complete</text>`, x(mark), top, x(mark), h-bottom, x(mark)+6, top+12)
	}
	b.WriteString(`<polyline class="plot" points="`)
	for _, p := range points {
		fmt.Fprintf(&b, "%.1f,%.1f ", x(p.At), y(p.Value))
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String())
}

const evidenceText = `{{define "body"}}
{{if .Ticket}}<p class="good"><strong>{{.Ticket}}</strong> was created once. It is reported because the ticket system's own answer to this operation, or its record of it, was read.</p>{{else}}<p class="bad">No ticket is confirmed.</p>{{end}}
<h2>P95 latency of order-service</h2>
{{.Plot}}
<details><summary>The numbers</summary><div class="scroll"><table><caption>As the metrics connector answered them</caption><thead><tr><th scope="col">UTC</th><th scope="col">Seconds</th></tr></thead><tbody>
{{range .Points}}<tr><td>{{minute .At}}</td><td>{{printf "%.3g" .Value}}</td></tr>{{end}}</tbody></table></div></details>
<p class="note">That the rollout came first is the order of time. It is not a cause.</p>

<h2>What is said, and on what</h2>
{{range .Report.Conclusion}}<p><strong>{{.Kind}}.</strong> {{.Text}}{{if .Test}} It is wrong if: {{.Test}}.{{end}}</p><ul>{{range .Cites}}<li><code>{{.}}</code></li>{{end}}</ul>{{end}}
{{range .Report.Evidence}}<p><strong>{{.Kind}}.</strong> {{.Text}}</p><ul>{{range .Cites}}<li><code>{{.}}</code></li>{{end}}</ul>{{end}}
<p>Confidence: {{.Report.Confidence}}.</p>

<h2>What is not known</h2>
<ul>{{range .Report.Unknown}}<li><strong>{{.What}}</strong>{{if .Call}} of <code>{{.Call}}</code>{{end}}: {{.Why}}</li>{{end}}</ul>

<h2>A draft that was refused</h2>
<p>The same run, told with a cause. The check refuses it:</p>
<ul>{{range .Refused}}<li class="bad">{{.Rule}} ({{.Where}}): {{.What}}</li>{{end}}</ul>

<h2>Calls of the agent</h2>
<div class="scroll"><table><caption>In their order</caption><thead><tr><th scope="col">Tool</th><th scope="col">Meaning</th><th scope="col">Read</th><th scope="col">Missing</th><th scope="col">Version</th></tr></thead><tbody>
{{range .Calls}}<tr><td>{{.Tool}}<br><code>{{.ID}}</code></td><td>{{.Record.Meaning}}{{with .Record.Code}}<br>{{.}}{{end}}</td><td>{{.Record.Provenance.Window}}</td><td>{{range .Record.Coverage.Missing}}{{.}} {{else}}{{if .Record.Coverage.Complete}}nothing{{end}}{{end}}</td><td>{{.Version}}</td></tr>{{end}}
</tbody></table></div>

<h2>Decisions</h2>
<div class="scroll"><table><caption>The audit log of everybody in the run: who asked, what the policy said, what came of it</caption><thead><tr><th scope="col">UTC</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">Verdict</th><th scope="col">Touches</th><th scope="col">Effect</th></tr></thead><tbody>
{{range .Events}}<tr><td>{{clock .Time}}</td><td>{{.Principal.Subject}}{{with .Actor}} by {{.}}{{end}}</td><td>{{.Action.Capability}}<br>{{.Action.Class.SideEffect}}{{if written .}} (recorded before it was sent){{end}}</td><td>{{verdict .Verdict}}{{with .Reason}}: {{.}}{{end}}{{with .Revision}}<br><code>{{short .}}</code>{{end}}</td><td>{{targets .}}</td><td>{{if not (written .)}}{{.Result.Effect.Disposition}}{{with .Result.Code}} {{.}}{{end}}{{end}}</td></tr>{{end}}
</tbody></table></div>
{{end}}`
