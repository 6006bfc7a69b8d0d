//go:build linux

package sandboxtest

import (
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// Report is what a suite found. Its JSON is for machines, WriteHTML for people.
type Report struct {
	Executor *sandbox.Report `json:"executor"` // of the last case; claims depend on the rules
	Outcomes []Outcome       `json:"outcomes"`
}

// OK reports whether nothing failed, and something was tried.
func (r *Report) OK() bool { return len(r.Outcomes) > 0 && len(r.Failures()) == 0 }

// Failures returns the outcomes that fail a test.
func (r *Report) Failures() (out []Outcome) {
	for _, o := range r.Outcomes {
		if !o.Verdict.ok() {
			out = append(out, o)
		}
	}
	return out
}

// Holes names each claim that was breached with the cases that show it, one a
// line.
func (r *Report) Holes() string {
	holes := map[sandbox.Claim][]string{}
	for _, o := range r.Failures() {
		holes[o.Claim] = append(holes[o.Claim], string(o.Verdict)+" "+o.ID)
	}
	var b strings.Builder
	for _, c := range slices.Sorted(maps.Keys(holes)) {
		fmt.Fprintf(&b, "%s: %s\n", c, strings.Join(holes[c], ", "))
	}
	return b.String()
}

// Counts returns how many cases had each verdict.
func (r *Report) Counts() map[Verdict]int {
	out := map[Verdict]int{}
	for _, o := range r.Outcomes {
		out[o.Verdict]++
	}
	return out
}

// WriteHTML writes a page without scripts and without anything from elsewhere.
func (r *Report) WriteHTML(w io.Writer) error { return page.Execute(w, r) }

var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Sandbox report</title>
<style>
body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%;margin:1rem 0}
th,td{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid #8884}
td{overflow-wrap:anywhere}
.held{color:#176b35}.gap,.absent{color:#7a5a00}
.bad{color:#fff;background:#a11;padding:0 .4rem;border-radius:.2rem}
@media (prefers-color-scheme:dark){.held{color:#7fd89b}.gap,.absent{color:#e2c26a}}
</style></head><body>
<h1>Sandbox report: {{if .OK}}held{{else}}did not hold{{end}}</h1>
{{with .Executor}}<p>Executor {{.Backend}}, level {{.Level}}{{range $k, $v := .Host}}; {{$k}}: {{$v}}{{end}}</p>{{end}}
<p>{{range $v, $n := .Counts}}{{$n}} {{$v}}. {{end}}Each attempt was made without a sandbox first.</p>
{{with .Failures}}<h2>What failed</h2><ul>{{range .}}<li><span class="bad">{{.Verdict}}</span> <code>{{.ID}}</code> ({{.Claim}}): {{.Says}} {{.Detail}}</li>{{end}}</ul>{{end}}
<h2>All cases</h2>
<table><thead><tr><th scope="col">Case</th><th scope="col">No.</th><th scope="col">Claim</th><th scope="col">Verdict</th><th scope="col">Contract</th><th scope="col">Seen</th></tr></thead><tbody>
{{range .Outcomes}}<tr><td><code>{{.ID}}</code></td><td>{{if .Number}}{{.Number}}{{end}}</td><td>{{.Claim}}<br>{{.Strength}}</td><td class="{{.Verdict}}">{{.Verdict}}</td><td>{{.Says}}</td><td>{{.Detail}}</td></tr>
{{end}}</tbody></table>
{{with .Executor}}<h2>What the executor claims</h2>
<table><thead><tr><th scope="col">Claim</th><th scope="col">Strength</th><th scope="col">By</th><th scope="col">Gap</th></tr></thead><tbody>
{{range .Claims}}<tr><td>{{.Claim}}</td><td>{{.Strength}}</td><td>{{range $i, $b := .By}}{{if $i}}, {{end}}{{$b}}{{end}}</td><td>{{.Gap}}</td></tr>
{{end}}</tbody></table>
{{with .Limits}}<h2>Not enforceable at this level</h2><ul>{{range .}}<li>Case {{.Number}}: {{.Text}}</li>{{end}}</ul>{{end}}{{end}}
</body></html>
`))
