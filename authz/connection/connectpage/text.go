package connectpage

import (
	"html/template"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/internal/defuse"
)

// pending is what the page of a link shows.
type pending struct {
	connection.Pending
	ID  string
	Who authz.PrincipalKey
}

// Had are the scopes that the connection has already.
func (p pending) Had() (out []string) {
	lacks := map[string]bool{}
	for _, s := range p.New {
		lacks[s] = true
	}
	for _, s := range p.Scopes {
		if !lacks[s] {
			out = append(out, s)
		}
	}
	return out
}

type departure struct{ URL, Title string }

type said struct{ Text, Base string }

// account is what is shown of a connection.
type account struct {
	connection.Connection
	Fresh bool // it was connected just now
	Base  string
}

func (h *Handler) view(c connection.Connection, fresh bool) account {
	return account{c, fresh, h.opts.Base}
}

// Name is what people know the account by.
func (a account) Name() string {
	if a.Label != "" {
		return a.Label
	}
	return a.Account
}

// Says is the state in words.
func (a account) Says() string {
	switch {
	case a.State == connection.Reauthorize && a.Reason == connection.ReasonUnknown:
		return "Unusable: an answer of the provider was lost, and it takes the old credential no longer. Connect it again."
	case a.State == connection.Reauthorize:
		return "Unusable: the provider does not accept it any more. Connect it again."
	case a.State == connection.Disconnecting:
		return "Disconnected here; the rest goes on."
	case a.State == connection.Disconnected:
		return "Disconnected."
	case a.State.Usable():
		return "In use."
	}
	return "Unusable."
}

// Again reports whether the user can connect it once more.
func (a account) Again() bool { return a.State == connection.Reauthorize }

// Ending reports whether the account is being taken apart, or was.
func (a account) Ending() bool {
	return a.State == connection.Disconnecting || a.State == connection.Disconnected
}

// Steps say how far a disconnect is, and nothing that is not known.
func (a account) Steps() []string {
	d := a.Disconnection
	return []string{
		step(d.Local, "No more calls are made with this account.", "Calls may still be made with this account.", ""),
		step(d.Remote, "The provider has confirmed that the access is revoked.",
			"The provider has not confirmed yet that the access is revoked. It is asked again.",
			"The provider cannot be told. Remove the access in its own settings, too."),
		step(d.Content, "What was stored because of this account is removed.", "What was stored because of this account is not all removed yet. That goes on.",
			"Nothing is removed that was stored because of this account."),
	}
}

func step(s connection.Step, done, not, unsupported string) string {
	switch s {
	case connection.StepDone:
		return done
	case connection.StepUnsupported:
		return unsupported
	}
	return not
}

func (h *Handler) funcs() template.FuncMap {
	return template.FuncMap{"instant": instant, "plain": plain, "words": h.words}
}

// words are what a scope permits; "" if nobody said.
func (h *Handler) words(provider, scope string) string {
	if h.opts.Words == nil {
		return ""
	}
	return plain(h.opts.Words(provider, scope))
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// sentence makes one of an error's message.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// plain makes visible what an eye would miss: labels and organizations are the
// provider's text.
func plain(s string) string { return defuse.Spell(s) }

const askText = `{{define "body"}}
<p>You are signed in as <strong>{{plain .Who.Subject}}</strong>. An agent that works for you needs an account of yours at <strong>{{plain .Title}}</strong>.</p>
{{if .Org}}<p>The account must belong to <strong>{{plain .Org}}</strong>. One of another organization is not connected.</p>{{end}}
{{if .New}}<h2>It would be allowed to</h2>
<ul>{{range .New}}<li>{{with words $.Provider .}}{{.}}{{else}}<code>{{plain .}}</code> (the provider's name for it){{end}}</li>{{end}}</ul>{{end}}
{{with .Had}}<h2>It already is allowed to</h2>
<ul>{{range .}}<li>{{with words $.Provider .}}{{.}}{{else}}<code>{{plain .}}</code> (the provider's name for it){{end}}</li>{{end}}</ul>{{end}}
<p>You are asked once more at {{plain .Title}} itself, where you sign in. Your password is not seen here. You can disconnect the account at any time.</p>
<form method="post">
<button class="act" name="do" value="connect">Go on to {{plain .Title}}</button>
<button name="do" value="no">Do not connect</button>
</form>
<p class="note">If you did not ask for this, do not go on. The link ends at {{instant .Expires}}.</p>
{{end}}`

const leaveText = `{{define "body"}}<p>You are being sent to {{.Title}}. If nothing happens: <a href="{{.URL}}" rel="noreferrer">go on to {{.Title}}</a>.</p>{{end}}`

const listText = `{{define "body"}}{{if .}}
<div class="scroll"><table><caption>What agents that work for you can use</caption>
<thead><tr><th scope="col">Account</th><th scope="col">Provider</th><th scope="col">State</th></tr></thead>
<tbody>{{range .}}<tr><td><a href="{{.Base}}/accounts/{{.ID}}">{{plain .Name}}</a></td><td>{{plain .Provider}}</td><td>{{.Says}}</td></tr>{{end}}</tbody></table></div>
{{else}}<p>You have connected no accounts.</p>{{end}}{{end}}`

const oneText = `{{define "body"}}
{{if .Fresh}}<p class="good">The account is connected. You can close this page: what was asked for works when it is called for again.</p>{{end}}
<dl>
<dt>Account</dt><dd>{{plain .Name}}</dd>
{{if .Org}}<dt>Organization</dt><dd>{{plain .Org}}</dd>{{end}}
<dt>State</dt><dd>{{.Says}}</dd>
<dt>Since</dt><dd>{{instant .Created}}</dd>
</dl>
{{if .Ending}}<h2>How far it is</h2><ul>{{range .Steps}}<li>{{.}}</li>{{end}}</ul>
{{else}}{{if .Scopes}}<h2>Agents that work for you may</h2>
<ul>{{range .Scopes}}<li>{{with words $.Provider .}}{{.}}{{else}}<code>{{plain .}}</code> (the provider's name for it){{end}}</li>{{end}}</ul>{{end}}{{end}}
{{if not .Fresh}}{{if not .Ending}}<form method="post">
{{if .Again}}<button class="act" name="do" value="again">Connect it again</button>{{end}}
<button name="do" value="disconnect">Disconnect this account</button>
</form>
<p class="note">Disconnecting stops all calls at once, also those of tasks that run now.</p>{{end}}{{end}}
<p><a href="{{.Base}}/">Your connected accounts</a></p>
{{end}}`

const saidText = `{{define "body"}}<p>{{.Text}}</p><p><a href="{{.Base}}">Your connected accounts</a></p>{{end}}`
