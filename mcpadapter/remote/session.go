package remote

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/mcpwire"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// sessionKey keeps callers apart, and the accounts of one caller. So are those who
// act for a caller: what a session was opened with, such as a local program with a
// credential, may reach more than they may.
type sessionKey struct {
	who        authz.PrincipalKey
	standing   string
	connection string
}

// session is what was agreed with the server for one caller. turn is held while
// something of it is found out; then the rest is read by everybody.
type session struct {
	turn   chan struct{}
	busy   int       // calls that use it; of sessions.mu
	used   time.Time // likewise
	stream *mcpwire.Stream

	peer    *mcpwire.Peer
	listed  time.Time
	offered map[string]string // digests by name
}

// sessions is bounded: a server that many callers use costs no more than that.
type sessions struct {
	mu   sync.Mutex
	open map[sessionKey]*session
	most int
	over bool
}

// take returns the session of a caller, which release gives back, and one that
// had to give way, which is to be ended, or nil.
func (s *sessions) take(k sessionKey) (x, old *session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x = s.open[k]
	switch {
	case x != nil:
	case s.over:
		return nil, nil, toolresult.NewError(toolresult.ProviderUnavailable, "the connector is closed")
	default:
		if len(s.open) >= s.most {
			if old = s.evict(); old == nil {
				return nil, nil, toolresult.NewError(toolresult.ProviderUnavailable, "all sessions with the server are in use")
			}
		}
		x = &session{turn: make(chan struct{}, 1)}
		s.open[k] = x
	}
	x.busy++
	x.used = time.Now()
	return x, old, nil
}

func (s *sessions) release(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.busy--
	x.used = time.Now()
}

// evict takes out the idle session that was used longest ago. s.mu is held.
func (s *sessions) evict() (found *session) {
	var oldest sessionKey
	for k, x := range s.open {
		if x.busy == 0 && (found == nil || x.used.Before(found.used)) {
			oldest, found = k, x
		}
	}
	if found != nil {
		delete(s.open, oldest)
	}
	return found
}

// drop forgets a session that is of no use any more: the next call begins anew.
func (s *sessions) drop(k sessionKey, x *session) {
	s.mu.Lock()
	mine := s.open[k] == x
	if mine {
		delete(s.open, k)
	}
	s.mu.Unlock()
	if mine {
		x.end()
	}
}

func (s *sessions) close() error {
	s.mu.Lock()
	all := s.open
	s.open, s.over = map[sessionKey]*session{}, true
	s.mu.Unlock()
	for _, x := range all {
		x.end()
	}
	return nil
}

func (x *session) end() {
	x.turn <- struct{}{} // nobody is setting it up
	defer func() { <-x.turn }()
	if x.stream != nil {
		_ = x.stream.Close()
	}
}

// link is one call's way to the server: over the call's client, or over the
// session's stream.
type link struct {
	http   *mcpwire.HTTP
	client *http.Client
	stream *mcpwire.Stream
}

// Send implements mcpwire.Link.
func (l *link) Send(ctx context.Context, p *mcpwire.Peer, m *mcpwire.Message) (*mcpwire.Answer, http.Header, error) {
	if l.stream != nil {
		return l.stream.Send(ctx, p, m)
	}
	return l.http.Do(ctx, l.client, p, m)
}

func (c *Connector) introduction() mcpwire.Client {
	return mcpwire.Client{Name: c.opts.Name, Version: c.opts.Version}
}

// ready returns a way to the server on which everything is agreed, and the tool
// was seen to be what was approved. x is held by the caller.
func (c *Connector) ready(ctx context.Context, call *connector.Call, x *session, t *tool) (*link, *mcpwire.Peer, error) {
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	defer func() { <-x.turn }()
	l, err := c.link(ctx, call, x)
	if err != nil {
		return nil, nil, err
	}
	known := x.peer != nil
	if !known {
		if err := c.negotiate(ctx, l, x); err != nil {
			return nil, nil, err
		}
	}
	if x.offered == nil || time.Since(x.listed) >= c.opts.Recheck {
		err := c.compare(ctx, l, x)
		if known && forgotten(x.peer, err) {
			if err = c.negotiate(ctx, l, x); err == nil {
				err = c.compare(ctx, l, x)
			}
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return l, x.peer, c.usable(x, t)
}

func (c *Connector) negotiate(ctx context.Context, l *link, x *session) (err error) {
	probe := time.Duration(0)
	if l.stream != nil {
		probe = c.opts.Probe
	}
	x.peer, err = mcpwire.Negotiate(ctx, l, c.introduction(), probe)
	return err
}

// forgotten reports whether a server that has sessions does not know this one any
// more: another is begun then, as the protocol says (2025-11-25, transports, session
// management). Nothing but the list was asked for until then.
func forgotten(p *mcpwire.Peer, err error) bool {
	s, ok := errors.AsType[*mcpwire.Status](err)
	return ok && s.Code == http.StatusNotFound && p != nil && p.Session != ""
}

func (c *Connector) link(ctx context.Context, call *connector.Call, x *session) (*link, error) {
	if c.server.Launch == nil {
		h := &mcpwire.HTTP{URL: call.Connection().BaseURL + c.server.Path, Client: c.introduction(), Frame: c.opts.Frame}
		return &link{http: h, client: call.HTTPClient()}, nil
	}
	if x.stream != nil && x.stream.Err() != nil { // it ended meanwhile
		_ = x.stream.Close()
		x.stream, x.peer, x.offered = nil, nil, nil
	}
	if x.stream == nil {
		rwc, err := c.server.Launch(context.WithoutCancel(ctx), call.Principal())
		if err != nil || rwc == nil {
			return nil, toolresult.WrapError(toolresult.ProviderUnavailable, "the local server cannot be started", errors.Join(err, errNoServer))
		}
		x.stream = mcpwire.NewStream(rwc, c.introduction(), c.opts.Frame)
	}
	return &link{stream: x.stream}, nil
}

// compare reads the list and holds it against the pins. What has changed is
// suspended for everybody.
func (c *Connector) compare(ctx context.Context, l *link, x *session) error {
	exchange := func(ctx context.Context, m *mcpwire.Message) (*mcpwire.Answer, error) {
		a, _, err := l.Send(ctx, x.peer, m)
		return a, err
	}
	tools, unusable, err := mcpwire.List(ctx, exchange, mcpwire.ListLimits{Pages: c.opts.Pages, Tools: c.opts.ToolsListed})
	if err != nil {
		return err
	}
	x.offered, x.listed = map[string]string{}, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range tools {
		x.offered[d.Name] = d.Digest()
		c.judge(Definition(d))
	}
	for _, u := range unusable { // approved once, and now of no form
		for _, t := range c.tools {
			if t.Name == u.Name {
				c.suspended[u.Name] = "the tool " + u.Why + "\n"
			}
		}
	}
	return nil
}

// mostFresh bounds what is kept of the names that a server makes up.
const mostFresh = 1000

// judge compares one definition with its pin. c.mu is held.
func (c *Connector) judge(d Definition) {
	approved := false
	for _, t := range c.tools {
		if t.Name != d.Name {
			continue
		}
		approved = true
		if _, already := c.suspended[d.Name]; !already {
			if diff := Diff(t.pin.Definition, d); diff != "" {
				c.suspended[d.Name] = diff
			}
		}
	}
	if !approved && len(c.fresh) < mostFresh {
		c.fresh[d.Name] = true
	}
}

func (c *Connector) usable(x *session, t *tool) error {
	c.mu.Lock()
	_, suspended := c.suspended[t.Name]
	c.mu.Unlock()
	switch {
	case suspended:
		return toolresult.NewError(toolresult.PermissionDenied, "the tool is suspended: its server has changed its definition since it was approved; an administrator has to look at it")
	case x.offered[t.Name] == "":
		return toolresult.NewError(toolresult.Unsupported, "the server does not offer this tool to this caller any more")
	}
	return nil
}

// Peers lists what was agreed with the server, for each session that is open:
// whether a server can be reached is another matter. It is for operators.
func (c *Connector) Peers() []Peer {
	c.sessions.mu.Lock()
	var open []*session
	for _, x := range c.sessions.open {
		open = append(open, x)
	}
	c.sessions.mu.Unlock()
	var out []Peer
	for _, x := range open {
		select {
		case x.turn <- struct{}{}:
			if x.peer != nil {
				out = append(out, peerOf(x.peer))
			}
			<-x.turn
		default: // nothing is agreed yet
		}
	}
	slices.SortFunc(out, func(a, b Peer) int { return strings.Compare(b.Version, a.Version) })
	return out
}
