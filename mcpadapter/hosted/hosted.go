package hosted

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/remote"
	"github.com/drawbridge-sdk/drawbridge/skill/profile"
)

// A Place says where the vendor finds a server. Either URL or ConnectorID is
// needed.
type Place struct {
	// Label is the server's name in the conversation: a letter, then letters,
	// digits, '-' and '_', at most 64.
	Label string

	// URL is the server's address: https, a public host, no user, query or
	// fragment.
	URL string

	// ConnectorID names a connector that the vendor keeps ("connector_gmail").
	// Only OpenAI has them.
	ConnectorID string

	// Description tells the model what the server is for, in one line of at most
	// 1024 bytes. Empty: nothing is said.
	Description string

	// Defer lets the model look for the tools when it needs them.
	Defer bool
}

// An Entry is what a vendor is told about one server. It is immutable and holds no
// secret. Only this package makes one; the zero Entry is refused.
type Entry struct {
	place  Place
	tools  []tool // by name
	secret bool
}

type tool struct {
	name  string
	reads bool
}

// NeedsCredential reports whether the server wants one. It is the request's
// (OpenAI's authorization, Anthropic's authorization_token) and for one caller.
func (e *Entry) NeedsCredential() bool { return e.secret }

// FromProfile makes the entry of one connector of a capability profile, which a
// server of package mcpadapter offers: its tools but for what is prohibited. The
// names are those of the capabilities. The server needs a credential.
func FromProfile(p *profile.Profile, connectorID string, at Place) (*Entry, error) {
	if p == nil {
		return nil, errors.New("hosted: a profile is needed")
	}
	e := &Entry{place: at, secret: true}
	for _, t := range p.Tools() {
		if t.Connector != connectorID || slices.Contains(p.Prohibited(), t.Name) {
			continue
		}
		if !t.SideEffect.Known() {
			return nil, fmt.Errorf("hosted: nobody said what %q may change; resolve the profile anew", t.Name)
		}
		e.tools = append(e.tools, tool{t.Name, t.SideEffect == risk.ReadOnly})
	}
	if len(e.tools) == 0 {
		return nil, fmt.Errorf("hosted: the profile %q has no tool of the connector %q", p.ID(), connectorID)
	}
	return e.checked()
}

// FromRemote makes the entry of a remote server as the operator describes it, for
// a vendor that calls it directly. The names are the server's own. What the
// operator says that a vendor cannot be told is an error. label is as in [Place].
func FromRemote(s remote.Server, label string) (*Entry, error) {
	if s.Launch != nil {
		return nil, errors.New("hosted: a local server has no address that a vendor could call")
	}
	if s.Profile.Plaintext || len(s.Profile.Private) > 0 || len(s.Profile.CA) > 0 {
		return nil, errors.New("hosted: the server's profile is one of a private network, which a vendor does not reach")
	}
	e := &Entry{secret: s.Auth.Mode != connector.AuthNone}
	e.place = Place{Label: label, URL: strings.TrimSuffix(s.Profile.BaseURL, "/") + s.Path, Defer: s.Defer}
	for _, t := range s.Tools {
		if err := sayable(t); err != nil {
			return nil, err
		}
		e.tools = append(e.tools, tool{t.Name, t.Class.SideEffect == risk.ReadOnly})
	}
	return e.checked()
}

// sayable refuses what governs a tool here and would not govern it there.
func sayable(t remote.Tool) error {
	var what string
	switch {
	case !t.Class.SideEffect.Known():
		return fmt.Errorf("hosted: nobody said what %q may change; set its Class", t.Name)
	case len(t.Fixed) > 0:
		what = "arguments that are fixed"
	case len(t.Touches) > 0:
		what = "objects that a grant is held to"
	case t.Description != "":
		what = "a description in place of the server's"
	default:
		return nil
	}
	return fmt.Errorf("hosted: %q has %s, which no vendor can be told; call it through package remote", t.Name, what)
}

const (
	maxTools       = 256
	maxName        = 128
	maxLabel       = 64
	maxDescription = 1024
)

// checked refuses what is wrong with an entry, and sorts its tools.
func (e *Entry) checked() (*Entry, error) {
	at := e.place
	switch {
	case !isName(at.Label, maxLabel, "-_") || !unicode.IsLetter(rune(at.Label[0])):
		return nil, errors.New("hosted: want a label of at most 64 letters, digits, '-' and '_' that begins with a letter")
	case (at.URL == "") == (at.ConnectorID == ""):
		return nil, errors.New("hosted: want either an address or the id of a vendor's connector")
	case at.ConnectorID != "" && (!isName(at.ConnectorID, maxLabel, "_") || !strings.HasPrefix(at.ConnectorID, "connector_")):
		return nil, errors.New("hosted: the id of a vendor's connector begins with connector_")
	case len(at.Description) > maxDescription || strings.ContainsFunc(at.Description, func(r rune) bool { return !unicode.IsPrint(r) }):
		return nil, errors.New("hosted: want a description of one line and at most 1024 bytes")
	case len(e.tools) == 0 || len(e.tools) > maxTools:
		return nil, fmt.Errorf("hosted: want 1 to %d tools: vendors take no list for all tools", maxTools)
	}
	if at.URL != "" {
		if err := address(at.URL); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(e.tools, func(a, b tool) int { return strings.Compare(a.name, b.name) })
	for i, t := range e.tools {
		if !isName(t.name, maxName, "-_.") {
			return nil, fmt.Errorf("hosted: %.140q is no name of a tool", t.name)
		}
		if i > 0 && e.tools[i-1].name == t.name {
			return nil, fmt.Errorf("hosted: the tool %q is there twice", t.name)
		}
	}
	return e, nil
}

func isName(s string, most int, signs string) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') && !strings.ContainsRune(signs, r)
	})
}

// address refuses an address that could carry a secret, or that leads somewhere
// that only this machine knows. The error quotes nothing of it.
func address(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("hosted: the address is no URL")
	case u.Scheme != "https":
		return errors.New("hosted: the address is not https")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(s, "#"):
		return errors.New("hosted: the address has a user, a query or a fragment, where secrets are; the credential goes with the request")
	case u.Hostname() == "" || u.Opaque != "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("hosted: the address has no host, or characters that are not ASCII")
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || !strings.Contains(host, ".") ||
		slices.ContainsFunc([]string{".localhost", ".local", ".internal"}, func(end string) bool { return strings.HasSuffix(host, end) }) {
		return errors.New("hosted: the address has no public name; give private servers a tunnel with one")
	}
	return nil
}

// names returns the tools that need no approval, or those that need one.
func (e *Entry) names(reads bool) []string {
	out := []string{}
	for _, t := range e.tools {
		if t.reads == reads {
			out = append(out, t.name)
		}
	}
	return out
}

// OpenAI returns the entry as a member of tools in a request to the Responses API
// (2026-07, https://platform.openai.com/docs/guides/tools-connectors-mcp).
func (e *Entry) OpenAI() (json.RawMessage, error) {
	if err := e.made(); err != nil {
		return nil, err
	}
	all := make([]string, len(e.tools))
	for i, t := range e.tools {
		all[i] = t.name
	}
	return json.Marshal(openAI{Type: "mcp", Label: e.place.Label, URL: e.place.URL, Connector: e.place.ConnectorID, Description: e.place.Description,
		Allowed: all, Approval: e.approval(), Defer: e.place.Defer})
}

type openAI struct {
	Type        string   `json:"type"`
	Label       string   `json:"server_label"`
	URL         string   `json:"server_url,omitempty"`
	Connector   string   `json:"connector_id,omitempty"`
	Description string   `json:"server_description,omitempty"`
	Allowed     []string `json:"allowed_tools"`
	Approval    any      `json:"require_approval"`
	Defer       bool     `json:"defer_loading,omitempty"`
}

type filter struct {
	Names []string `json:"tool_names"`
}

// approval names only reads under never. A word for all tools would also be one
// for tools that are allowed later.
func (e *Entry) approval() any {
	never, always := e.names(true), e.names(false)
	switch {
	case len(never) == 0:
		return "always"
	case len(always) == 0:
		return map[string]filter{"never": {never}}
	}
	return map[string]filter{"never": {never}, "always": {always}}
}

// Anthropic returns the entry as a member of mcp_servers and one of tools in a
// request to the Messages API (beta mcp-client-2025-11-20,
// https://docs.claude.com/en/docs/agents-and-tools/mcp-connector). It has no word
// for an approval, so that an entry with a change is refused, and none for a
// vendor's connector.
func (e *Entry) Anthropic() (server, toolset json.RawMessage, err error) {
	if err := e.made(); err != nil {
		return nil, nil, err
	}
	if changes := e.names(false); len(changes) > 0 {
		return nil, nil, fmt.Errorf("hosted: %q may change something, and Anthropic's entry cannot ask for an approval; leave it out, or offer it through this SDK", changes[0])
	}
	if e.place.ConnectorID != "" {
		return nil, nil, errors.New("hosted: Anthropic has no connectors of its own; give an address")
	}
	configs := map[string]config{}
	for _, t := range e.tools {
		configs[t.name] = config{Enabled: true, Defer: e.place.Defer}
	}
	if server, err = json.Marshal(map[string]string{"type": "url", "name": e.place.Label, "url": e.place.URL}); err != nil {
		return nil, nil, err
	}
	toolset, err = json.Marshal(struct {
		Type    string            `json:"type"`
		Server  string            `json:"mcp_server_name"`
		Default config            `json:"default_config"`
		Configs map[string]config `json:"configs"`
	}{"mcp_toolset", e.place.Label, config{}, configs})
	return server, toolset, err
}

type config struct {
	Enabled bool `json:"enabled"`
	Defer   bool `json:"defer_loading,omitempty"`
}

func (e *Entry) made() error {
	if e == nil || len(e.tools) == 0 {
		return errors.New("hosted: the entry is empty; make one with FromProfile or FromRemote")
	}
	return nil
}
