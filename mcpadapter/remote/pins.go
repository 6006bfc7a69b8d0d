package remote

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/defuse"
	"github.com/drawbridge-sdk/drawbridge/internal/mcpwire"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// Definition is a tool as its server describes it, in canonical form. Every word
// is a stranger's.
type Definition struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input"`
	Output      json.RawMessage `json:"output,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
}

// Digest returns "sha256:..." over every field. The order of names in the
// schemas does not count; everything else does.
func (d *Definition) Digest() string { w := mcpwire.Definition(*d); return w.Digest() }

// Pin is a definition that somebody approved.
type Pin struct {
	Definition Definition `json:"definition"`
	Digest     string     `json:"digest"`
}

// Pins are the approved definitions of one server. They are JSON, to be kept
// where a change is reviewed.
type Pins struct {
	Server string `json:"server"` // ID
	Tools  []Pin  `json:"tools"`
}

// find returns the pin of a tool, and refuses one that was edited afterwards.
func (p *Pins) find(name string) (*Pin, error) {
	i := slices.IndexFunc(p.Tools, func(t Pin) bool { return t.Definition.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("is not pinned: review the server and approve the tool")
	}
	t := p.Tools[i]
	if t.Digest != t.Definition.Digest() {
		return nil, fmt.Errorf("has a pin whose digest is not that of its definition")
	}
	return &t, nil
}

// Listing is what a server offered to one caller. Every word in it is the
// server's.
type Listing struct {
	Server   string // ID
	Peer     Peer
	Tools    []Definition // sorted by name
	Unusable []Unusable
}

// Unusable is a tool that the server lists and that cannot be used.
type Unusable struct{ Name, Why string }

// Peer is what was agreed with a server about the protocol. That a server can be
// reached says nothing about it.
type Peer struct {
	Version       string // of the protocol
	Sessions      bool   // the revision has sessions
	Name, Release string // what the server calls itself, cleaned
	Capabilities  []string
}

func peerOf(p *mcpwire.Peer) Peer {
	if p == nil {
		return Peer{}
	}
	clean := func(s string) string { s, _ = defuse.Clean(s); return cut(s, 200) }
	out := Peer{Version: p.Version, Sessions: !p.Modern(), Name: clean(p.Server.Name), Release: clean(p.Server.Version)}
	for _, name := range slices.Sorted(maps.Keys(p.Capabilities)) {
		if len(out.Capabilities) < 64 {
			out.Capabilities = append(out.Capabilities, clean(name))
		}
	}
	return out
}

// Pin approves tools of the listing by their names. It is for a person who has
// read their definitions: see [Definition.Suspicious].
func (l *Listing) Pin(names ...string) (Pins, error) {
	out := Pins{Server: l.Server}
	for _, name := range names {
		i := slices.IndexFunc(l.Tools, func(d Definition) bool { return d.Name == name })
		if i < 0 {
			return Pins{}, fmt.Errorf("remote: the server offers no usable tool %q", name)
		}
		out.Tools = append(out.Tools, Pin{l.Tools[i], l.Tools[i].Digest()})
	}
	return out, nil
}

// Suspicious lists what a reader of the definition would not see, and a model
// would: hidden characters, addresses, tags and text that looks like somebody
// else's.
func (d *Definition) Suspicious() (out []string) {
	texts := map[string]any{"title": d.Title, "description": d.Description}
	for name, raw := range map[string]json.RawMessage{"input": d.Input, "output": d.Output, "annotations": d.Annotations} {
		if v, err := strictjson.Parse(raw); err == nil {
			texts[name] = v
		}
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		hidden := defuse.Policy{Markup: true}
		if _, n := hidden.Value(texts[name]); n > 0 {
			out = append(out, name+" holds characters that cannot be seen")
		}
		if _, n := (defuse.Policy{}).Value(texts[name]); n > 0 {
			out = append(out, name+" holds markup or addresses")
		}
	}
	return out
}

// Diff says in lines what of a definition is different now. Texts are quoted, so
// that nothing hides. It is empty if and only if the digests are equal.
func Diff(pinned, now Definition) string {
	if pinned.Digest() == now.Digest() {
		return ""
	}
	var b strings.Builder
	line := func(at, was, is string) {
		was, is = around(was, is)
		fmt.Fprintf(&b, "%s: was %s, is %s\n", at, quoted(was), quoted(is))
	}
	for _, f := range []struct{ at, was, is string }{
		{"name", pinned.Name, now.Name}, {"title", pinned.Title, now.Title}, {"description", pinned.Description, now.Description},
	} {
		if f.was != f.is {
			line(f.at, f.was, f.is)
		}
	}
	for _, f := range []struct {
		at      string
		was, is json.RawMessage
	}{{"input", pinned.Input, now.Input}, {"output", pinned.Output, now.Output}, {"annotations", pinned.Annotations, now.Annotations}} {
		was, _ := strictjson.Parse(f.was)
		is, _ := strictjson.Parse(f.is)
		differ(f.at, was, is, line)
	}
	return b.String()
}

// mostShown is how much of a text a line of a difference shows, in bytes.
const mostShown = 400

// around leaves of two texts that differ what stands around the first place where
// they do, if they are too long to be shown whole: the end of a description is
// where somebody would hide something.
func around(was, is string) (string, string) {
	if len(was) <= mostShown && len(is) <= mostShown || was == "" || is == "" {
		return was, is
	}
	at := 0
	for at < min(len(was), len(is)) && was[at] == is[at] {
		at++
	}
	if at -= mostShown / 4; at <= 0 {
		return was, is
	}
	part := func(s string) string { return "…" + strings.ToValidUTF8(s[at:], "") }
	return part(was), part(is)
}

// quoted shows a text, or that there is none. One that is cut says how long it is.
func quoted(s string) string {
	if s == "" {
		return "absent"
	}
	if len(s) > mostShown {
		return fmt.Sprintf("%+q (%d bytes more)", cut(s, mostShown), len(s)-mostShown)
	}
	return fmt.Sprintf("%+q", s)
}

// differ goes down to the smallest parts that differ.
func differ(at string, was, is any, line func(at, was, is string)) {
	a, isMap := was.(map[string]any)
	b, both := is.(map[string]any)
	if !isMap || !both {
		if x, y := compact(was), compact(is); x != y {
			line(at, x, y)
		}
		return
	}
	names := map[string]bool{}
	for k := range a {
		names[k] = true
	}
	for k := range b {
		names[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(names)) {
		differ(at+"/"+strictjson.Escape(cut(k, 100)), a[k], b[k], line)
	}
}

func compact(v any) string {
	if v == nil {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// cut bounds a text in bytes and leaves its characters whole.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
