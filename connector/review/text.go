package review

import (
	"html/template"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/internal/defuse"
)

// question is what the page of one question shows.
type question struct {
	Approval authz.Approval
	Digest   string
	Own, May bool
	Now      time.Time
	Others   []other
}

// Over reports whether the time for an answer, or of an answer, has passed.
func (q question) Over() bool { return !q.Approval.Expires.After(q.Now) }

// other is another question about the same matter.
type other struct {
	ID    string
	Asked time.Time
	Lines []line
}

// line is one line of a difference. Mark is "-", "+" or "".
type line struct{ Mark, Text string }

func funcs() template.FuncMap { return template.FuncMap{"instant": instant, "plain": plain} }

func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// plain makes visible what an eye would miss. What a person approves must be what
// a person can see.
func plain(s string) string { return defuse.Spell(s) }

const maxDiff = 2000 // lines of either text

// diff compares two texts line by line: the longest common subsequence. Beyond
// maxDiff lines it says only that they differ.
func diff(was, now string) []line {
	a, b := strings.Split(was, "\n"), strings.Split(now, "\n")
	if len(a) > maxDiff || len(b) > maxDiff {
		return []line{{"", "(too long to be compared here)"}}
	}
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []line
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, line{"", a[i]})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			out = append(out, line{"-", a[i]})
			i++
		default:
			out = append(out, line{"+", b[j]})
			j++
		}
	}
	return out
}

const listText = `{{define "body"}}
{{if .All}}<p>Each is a change that an agent wants to make for somebody. Nothing is sent before you answer.</p>
<div class="scroll"><table><caption>Oldest first</caption>
<thead><tr><th scope="col">Change</th><th scope="col">For</th><th scope="col">Where</th><th scope="col">Ends</th></tr></thead>
<tbody>{{range .All}}<tr><td><a href="{{.ID}}">{{plain .Statement.Capability}}</a></td><td>{{plain .Statement.Requester.Subject}}</td>
<td>{{range .Targets}}{{plain .Type}} {{plain .ID}} {{else}}the whole account{{end}}</td><td>{{instant .Expires}}</td></tr>{{end}}</tbody></table></div>
{{if .More}}<p class="note">There are more than can be shown here.</p>{{end}}
{{else if .More}}<p class="note">More questions wait than could be looked through; none of those that were is for you.</p>
{{else}}<p>Nothing waits for you.</p>{{end}}
{{end}}`

const oneText = `{{define "body"}}{{with .Approval}}
<dl>
<dt>Change</dt><dd>{{plain .Statement.Capability}} (version {{plain .Statement.Version}})</dd>
<dt>For</dt><dd>{{plain .Statement.Requester.Subject}}, {{plain .Statement.Requester.Issuer}}</dd>
<dt>Where</dt><dd>{{range .Targets}}{{plain .Type}} <code>{{plain .ID}}</code> {{else}}the whole account{{end}}</dd>
{{if .Statement.Connection}}<dt>Account</dt><dd><code>{{plain .Statement.Connection}}</code></dd>{{end}}
<dt>Asked</dt><dd>{{instant .Asked}}</dd>
<dt>Ends</dt><dd>{{instant .Expires}}</dd>
<dt>Operation</dt><dd><code>{{plain .Statement.Operation}}</code></dd>
</dl>
<h2>Exactly this would be sent</h2>
<pre class="whole" tabindex="0" aria-label="The request that would be sent">{{plain .Rendering}}</pre>
<p class="note">Characters that cannot be seen are written as \u{…}. Digest: <code>{{$.Digest}}</code></p>
{{end}}
{{range .Others}}<h2>Another wording waits too</h2>
<p>The same person asked for the same objects at {{instant .Asked}} (<a href="{{.ID}}">open it</a>). This is how the change on this page differs from it:</p>
<pre class="whole" tabindex="0" aria-label="Difference">{{range .Lines}}{{if eq .Mark "-"}}<del>{{plain .Text}}</del>
{{else if eq .Mark "+"}}<ins>{{plain .Text}}</ins>
{{else}}  {{plain .Text}}
{{end}}{{end}}</pre>{{end}}
{{if .Approval.Answered}}<p class="{{if .Approval.Refused}}bad{{else}}good{{end}}">{{if .Approval.Refused}}Refused{{else}}Approved{{end}} by {{plain .Approval.Approver.Subject}} at {{instant .Approval.Approved}}{{if .Over}}; that is over{{end}}.</p>
{{else if .Over}}<p class="bad">The time for an answer has passed. If the change is still wanted, it will be asked for again.</p>{{end}}
{{if not .Over}}{{if or .May .Own .Approval.Given}}{{if not .Approval.Refused}}
<form method="post">
<input type="hidden" name="digest" value="{{.Digest}}">
{{if and .May (not .Approval.Answered)}}<button class="act" name="answer" value="approve">Approve this change</button>{{end}}
<button name="answer" value="refuse">{{if .Approval.Given}}Take the approval back{{else if and .Own (not .May)}}Withdraw the question{{else}}Refuse{{end}}</button>
</form>{{end}}{{end}}{{end}}
<p><a href="./">All that waits for you</a></p>
{{end}}`

const saidText = `{{define "body"}}<p>{{.}}</p><p><a href="./">All that waits for you</a></p>{{end}}`
