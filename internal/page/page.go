// Package page renders the pages that people look at: without scripts, without
// anything from elsewhere, in light and dark, from a phone to a desktop.
//
// A page is a layout and a body. The body is a template of html/template that
// defines "body":
//
//	body, err := page.New(`{{define "body"}}<p>{{.}}</p>{{end}}`, nil)
//	page.Write(w, http.StatusOK, body, "Connect", "data")
//
// Every page is kept out of caches, of frames, of referrers and of search
// engines, and its policy lets it load nothing and send its forms to its own
// origin only. The stylesheet is inline and known to the policy by its hash.
//
// # What it does not do
//
// It does not know who is looking, and does not protect forms: handlers use
// net/http.CrossOriginProtection.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
)

//go:embed style.css
var style string

const layout = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex, nofollow">
{{with .Policy}}<meta http-equiv="Content-Security-Policy" content="{{.}}">
{{end}}<title>{{.Title}}</title>
<style>{{.Style}}</style>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
{{template "body" .Data}}
</main>
</body>
</html>
`

// Template is a body in the layout.
type Template struct{ t *template.Template }

// New parses a template that defines "body". funcs may be nil.
func New(text string, funcs template.FuncMap) (*Template, error) {
	t, err := template.New("page").Funcs(funcs).Parse(layout)
	if err != nil {
		return nil, err
	}
	if t, err = t.Parse(text); err != nil {
		return nil, err
	}
	return &Template{t}, nil
}

// Policy returns the Content-Security-Policy of every page. forms are the
// origins besides the page's own that a form may lead to by a redirect, such as
// an authorization server's.
func Policy(forms ...string) string {
	sum := sha256.Sum256([]byte(style))
	action := strings.Join(append([]string{"'self'"}, forms...), " ")
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action " + action + "; base-uri 'none'; frame-ancestors 'none'"
}

// Headers sets what every answer of a page's handler says, whatever its body.
func Headers(h http.Header, forms ...string) {
	h.Set("Content-Security-Policy", Policy(forms...))
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

// Render returns a page as a file of its own. It says its policy itself, as far as
// a document can.
func Render(t *Template, title string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := t.t.Execute(&b, struct {
		Title, Policy string
		Style         template.CSS
		Data          any
	}{title, "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'", template.CSS(style), data})
	return b.Bytes(), err
}

// Write renders a page as the whole answer. Nothing of it is sent if it cannot
// be rendered: the answer is then 500 without a word of why. forms are those of
// Policy.
func Write(w http.ResponseWriter, status int, t *Template, title string, data any, forms ...string) {
	Headers(w.Header(), forms...)
	var b bytes.Buffer
	err := t.t.Execute(&b, struct {
		Title, Policy string
		Style         template.CSS
		Data          any
	}{title, "", template.CSS(style), data}) // the policy is a header
	if err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // whoever went away does not read it
}

// Prefetch reports whether a browser loads the page before anybody asked for it.
// Nothing may be used up then; the answer is 204.
func Prefetch(r *http.Request) bool {
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		for _, v := range r.Header.Values(name) {
			v = strings.ToLower(v)
			if strings.Contains(v, "prefetch") || strings.Contains(v, "prerender") || strings.Contains(v, "preview") {
				return true
			}
		}
	}
	return false
}
