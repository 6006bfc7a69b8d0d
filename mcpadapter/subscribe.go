package mcpadapter

import (
	"context"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
)

// streams are the sessions that want to hear of changes. Who they belong to is
// asked again before anything is said.
type streams struct {
	mu    sync.Mutex
	by    map[*mcp.ServerSession]*listener
	ended bool
}

// A listener is one session: a stream of subscriptions/listen, or a connection
// of an older revision.
type listener struct {
	who    authz.Principal
	server *mcp.Server
	uris   map[string]bool
	end    context.CancelFunc // nil for a connection
}

// add lets a session hear of resources. It reports whether there is a service, and
// room.
func (s *streams) add(session *mcp.ServerSession, l *listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[*mcp.ServerSession]*listener{}
	}
	if known := s.by[session]; known != nil && l.end == nil {
		for uri := range l.uris {
			if !known.uris[uri] && len(known.uris) >= maxSubscriptions {
				return false
			}
			known.uris[uri] = true
		}
		known.who = l.who
		return !s.ended
	}
	s.sweep()
	s.by[session] = l
	return !s.ended
}

// sweep forgets connections that have ended. Streams forget themselves.
func (s *streams) sweep() {
	for session, l := range s.by {
		if l.end == nil && !slices.Contains(slices.Collect(l.server.Sessions()), session) {
			delete(s.by, session)
		}
	}
}

func (s *streams) remove(session *mcp.ServerSession, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.by[session]
	if l == nil {
		return
	}
	if delete(l.uris, uri); uri == "" || len(l.uris) == 0 {
		delete(s.by, session)
	}
}

// whose returns who a session belongs to, if it wants to hear of a resource.
func (s *streams) whose(session *mcp.ServerSession, uri string) (authz.Principal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.by[session]
	if l == nil || !l.uris[uri] {
		return authz.Principal{}, false
	}
	return l.who, true
}

// servers returns the servers that have a session that wants to hear of a
// resource.
func (s *streams) servers(uri string) map[*mcp.Server]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[*mcp.Server]bool{}
	for _, l := range s.by {
		if l.uris[uri] {
			out[l.server] = true
		}
	}
	return out
}

// close ends all streams.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, l := range s.by {
		if l.end != nil {
			l.end()
		}
	}
}

// ResourceUpdated tells those who have subscribed to a resource that it has
// changed, and who may read it now. What has changed they find out by reading
// it. It waits until it is sent, and for no client longer than ten seconds.
func (a *Adapter) ResourceUpdated(ctx context.Context, uri string) {
	for server := range a.streams.servers(uri) {
		_ = server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri}) // it has no errors
	}
}

// mayHear asks whether a caller may see what is behind a URI now.
func (a *Adapter) mayHear(ctx context.Context, who authz.Principal, uri string) (bool, error) {
	list, err := a.heard(ctx, who, []string{uri})
	return len(list) > 0, err
}

// heard are those of the URIs that a caller may hear of, each once. The policy is
// asked once, and no more of them are looked at than one stream may have. An error
// is for the caller: a policy that does not answer has not said no.
func (a *Adapter) heard(ctx context.Context, who authz.Principal, uris []string) (out []string, err error) {
	var seen map[string]connector.Declaration
	for _, uri := range uris[:min(len(uris), maxSubscriptions)] {
		r, _ := a.find(uri)
		if r == nil || slices.Contains(out, uri) {
			continue
		}
		if seen == nil {
			if seen, err = a.seen(ctx, who); err != nil {
				return nil, err
			}
		}
		if _, ok := seen[r.Capability]; ok {
			out = append(out, uri)
		}
	}
	return out, nil
}

// send lets a notification out to those who may have it.
func (a *Adapter) send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		n, ok := req.GetParams().(*mcp.ResourceUpdatedNotificationParams)
		if !ok {
			return next(ctx, method, req)
		}
		session, _ := req.GetSession().(*mcp.ServerSession)
		who, ok := a.streams.whose(session, n.URI)
		if !ok {
			return nil, nil // the SDK does not look at the answer to a notification
		}
		if may, err := a.mayHear(ctx, who, n.URI); err != nil || !may {
			return nil, nil
		}
		return next(ctx, method, req)
	}
}

// listen serves subscriptions/listen: what the caller may see of what it asks
// for, until it goes away or its identity ends.
func (a *Adapter) listen(ctx context.Context, s *mcp.Server, req *mcp.SubscriptionsListenRequest, next func(context.Context) (mcp.Result, error)) (mcp.Result, error) {
	who, err := a.identify(ctx)
	if err != nil {
		return nil, err
	}
	if req.Params == nil || req.Params.Notifications == nil {
		return next(ctx) // says what is wrong
	}
	l := &listener{who: who, server: s, uris: map[string]bool{}}
	uris, err := a.heard(ctx, who, req.Params.Notifications.ResourceSubscriptions)
	if err != nil {
		return nil, err
	}
	for _, uri := range uris {
		l.uris[uri] = true
	}
	req.Params.Notifications.ResourceSubscriptions = uris
	if end := who.Identity().Expires; !end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	ctx, l.end = context.WithCancel(ctx)
	defer l.end()
	if len(uris) > 0 {
		defer a.streams.remove(req.Session, "")
		if !a.streams.add(req.Session, l) {
			return nil, unknownMethod()
		}
	}
	return next(ctx)
}

// maxSubscriptions bounds what one stream wants to hear of; what it names beyond
// that is not looked at.
const maxSubscriptions = 1000

// subscribe serves resources/subscribe, for connections that stay.
func (a *Adapter) subscribe(ctx context.Context, s *mcp.Server, req *mcp.SubscribeRequest, next func(context.Context) (mcp.Result, error)) (mcp.Result, error) {
	who, err := a.identify(ctx)
	if err != nil {
		return nil, err
	}
	if req.Params == nil {
		return nil, noResource(uriOf(req.Params))
	}
	if may, err := a.mayHear(ctx, who, req.Params.URI); err != nil {
		return nil, err
	} else if !may {
		return nil, noResource(uriOf(req.Params))
	}
	if !a.streams.add(req.Session, &listener{who: who, server: s, uris: map[string]bool{req.Params.URI: true}}) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no room for a further subscription"}
	}
	return next(ctx)
}

func uriOf(p *mcp.SubscribeParams) string {
	if p == nil {
		return ""
	}
	return p.URI
}
