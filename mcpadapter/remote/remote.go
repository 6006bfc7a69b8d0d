package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/defuse"
	"github.com/drawbridge-sdk/drawbridge/internal/mcpwire"
	"github.com/drawbridge-sdk/drawbridge/internal/schema"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// Connector is a remote MCP server behind the governed path. It is safe for
// concurrent use. Close ends its sessions.
type Connector struct {
	server   Server
	opts     Options
	manifest connector.Manifest
	tools    map[string]*tool // by capability
	search   string           // name of the capability, if there is one
	bound    atomic.Pointer[connector.Invoker]
	sessions sessions
	count    atomic.Int64 // of calls, for their ids: a runtime's own may occur twice

	mu        sync.Mutex
	suspended map[string]string // difference by the server's name of the tool
	fresh     map[string]bool   // what the server offers besides, as last seen
}

// tool is an approved tool with everything that was made of its definition.
type tool struct {
	Tool
	pin    Pin
	plan   mcpwire.HeaderPlan
	output *schema.Schema // nil: it declares none, or one that cannot be checked here
	notes  []string
	writes bool
}

var _ connector.Connector = (*Connector)(nil)

// New makes a connector of what was approved. It does not contact the server.
// The error lists all that is wrong, with each tool that cannot be used and why.
// opts may be nil.
func New(s Server, pins Pins, opts *Options) (*Connector, error) {
	c := &Connector{server: s, opts: opts.complete(s.Launch != nil), tools: map[string]*tool{}, suspended: map[string]string{}, fresh: map[string]bool{}}
	c.sessions.open, c.sessions.most = map[sessionKey]*session{}, c.opts.Sessions
	errs := s.check()
	if pins.Server != s.ID {
		errs = append(errs, fmt.Errorf("remote: the pins are of the server %q, and not of %q", pins.Server, s.ID))
	}
	if len(s.Tools) == 0 {
		errs = append(errs, fmt.Errorf("remote: %q has no tool that may be used", s.ID))
	}
	c.manifest.Info = connector.Info{ID: s.ID, Version: s.Version, Owner: s.Owner, Auth: s.Auth, ProviderAPIVersion: "MCP"}
	if s.Launch == nil {
		c.manifest.Endpoint, c.manifest.Rules = s.Profile.Name, rules
	}
	for i := range s.Tools {
		if err := c.add(s.Tools[i], &pins); err != nil {
			errs = append(errs, fmt.Errorf("remote: the tool %q of %q %w", s.Tools[i].Name, s.ID, err))
		}
	}
	if s.Defer {
		c.addSearch()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Connector) add(t Tool, pins *Pins) error {
	pin, err := pins.find(t.Name)
	if err != nil {
		return err
	}
	v, err := strictjson.Parse(pin.Definition.Input)
	if err != nil {
		return errors.New("has a pin that cannot be read")
	}
	made := &tool{Tool: t, pin: *pin, writes: t.Class.SideEffect != risk.ReadOnly}
	if made.plan, err = mcpwire.PlanHeaders(v); err != nil {
		return err
	}
	d, err := c.declare(made)
	if err != nil {
		return err
	}
	if pin.Definition.Output != nil {
		if made.output, err = schema.Parse(pin.Definition.Output, false); err != nil {
			made.notes = append(made.notes, "its answers are not checked against its outputSchema: "+err.Error())
		}
	}
	if c.tools[d.Name] != nil {
		return fmt.Errorf("has the same name %q as another; set As", d.Name)
	}
	c.tools[d.Name] = made
	c.manifest.Capabilities = append(c.manifest.Capabilities, *d)
	return nil
}

// declare makes the declaration of a tool.
func (c *Connector) declare(t *tool) (*connector.Declaration, error) {
	def := &t.pin.Definition
	input, notes, err := adapt(def, &t.Tool)
	if err != nil {
		return nil, err
	}
	t.notes = notes
	if err := c.mayBe(t); err != nil {
		return nil, err
	}
	d := &connector.Declaration{
		Kind: connector.KindRead, Name: c.server.capability(&t.Tool), Title: shown(def.Title, 100), Description: t.Description,
		Class: t.Class, Scopes: slices.Clone(t.Scopes), Input: input, Output: answerSchema, Limits: t.Limits, Deferred: c.server.Defer,
	}
	if d.Description == "" {
		d.Description = shown(def.Description, 4<<10)
	}
	if d.Limits.Requests == 0 {
		d.Limits.Requests = 64
	}
	if t.writes {
		d.Kind, d.Approval = connector.KindWrite, connector.ApprovalAlways
	}
	if c.server.Launch == nil {
		d.Routes = c.routes(t)
	} else if len(t.Touches) > 0 {
		return nil, errors.New("is local and says what it touches; nothing can hold a local server to that")
	}
	return d, nil
}

// mayBe refuses what the operator says and cannot be kept.
func (c *Connector) mayBe(t *tool) error {
	s := &c.server
	switch {
	case t.Trust > 0 && s.Party != PartyOwn:
		return errors.New("is said to be trusted, and its server is not the operator's own")
	case t.writes && s.Approval == ApprovalNever,
		t.writes && s.Approval == ApprovalByTool && t.Approval != connector.ApprovalAlways:
		return errors.New("changes something without an approval; what became of a change to a remote server cannot be looked up, so each needs one")
	}
	return nil
}

// shown is a stranger's text before a model.
func shown(s string, limit int) string {
	s, _ = defuse.Policy{}.Text(s)
	return cut(s, limit)
}

// sessionMethods are the requests of a session besides calls. They tell what the
// server is and offers, and touch nobody's objects.
var sessionMethods = []string{"server/discover", "initialize", "notifications/initialized", "tools/list"}

func (c *Connector) routes(t *tool) []connector.Route {
	headers := []string{mcpwire.HeaderVersion, mcpwire.HeaderMethod, mcpwire.HeaderName}
	var out []connector.Route
	for _, m := range sessionMethods {
		out = append(out, connector.Route{Pattern: "POST " + c.server.Path + " #/method=" + url.PathEscape(m), Effect: connector.Reads,
			Unscoped: "what the server is, and its list of tools", Headers: headers, Varies: []string{mcpwire.HeaderSession}})
	}
	call := connector.Route{Pattern: "POST " + c.server.Path + " #/method=tools%2Fcall #/params/name=" + url.PathEscape(t.Name), Effect: connector.Reads,
		Touches: slices.Clone(t.Touches), WholeConnection: len(t.Touches) == 0, Headers: append(slices.Clone(headers), t.plan.Names()...), Varies: []string{mcpwire.HeaderSession}}
	if t.writes {
		call.Effect = connector.Changes
	}
	return append(out, call)
}

// Manifest implements [connector.Connector].
func (c *Connector) Manifest() connector.Manifest {
	return c.manifest.Clone()
}

// Close ends all sessions, and with them what a Launcher started. Calls that are
// under way fail.
func (c *Connector) Close() error { return c.sessions.close() }

// State says what became of a tool.
type State string

const (
	Open      State = "open"      // approved, and as it was
	Suspended State = "suspended" // its definition has changed
	Closed    State = "closed"    // offered by the server and approved by nobody
)

// ToolState is a tool as an operator sees it.
type ToolState struct {
	Name       string // the server's
	Capability string // empty for a closed one
	State      State
	Diff       string   // what has changed, in lines
	Notes      []string // what its declaration does not say, or says otherwise than the server
}

// Tools lists the approved tools and those that the server has added, as far as
// the sessions have seen, sorted by name. It contacts nobody.
func (c *Connector) Tools() []ToolState {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]ToolState{}
	for name, t := range c.tools {
		s := ToolState{Name: t.Name, Capability: name, State: Open, Notes: slices.Clone(t.notes)}
		if diff, ok := c.suspended[t.Name]; ok {
			s.State, s.Diff = Suspended, diff
		}
		out[t.Name+"\x00"+name] = s
	}
	for name := range c.fresh {
		out[name] = ToolState{Name: shown(name, 128), State: Closed} // a stranger's text
	}
	var list []ToolState
	for _, k := range slices.Sorted(maps.Keys(out)) {
		list = append(list, out[k])
	}
	return list
}

// Resume lets a suspended tool be used again, if and when its server offers it as
// it was approved.
func (c *Connector) Resume(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.suspended, name)
}

// answerSchema is the form of every answer.
var answerSchema = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["content","changed"],"properties":{
"content":{"type":"array","description":"blocks of the server's answer, in its order","items":{"type":"object","additionalProperties":false,"required":["type"],"properties":{
"type":{"type":"string","enum":["text","image","audio","resource","link","unknown"]},
"text":{"type":"string"},"uri":{"type":"string"},"name":{"type":"string"},"description":{"type":"string"},"mime_type":{"type":"string"},
"bytes":{"type":"integer","description":"length of a binary part, which is only in the original"},"sha256":{"type":"string"}}}},
"structured":{"description":"the same answer as data, in the server's own form"},
"changed":{"type":"integer","description":"how many texts are not as the server sent them: what cannot be seen was removed, markup and addresses were made harmless"},
"original":{"type":"string","description":"artifact that holds the answer as it was sent"}}}`)
