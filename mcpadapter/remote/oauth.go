package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/mcpwire"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// BrokerWithChallenge is a [credential.Broker] that can act on a server's
// refusal, such as one that asks a person for a consent there and then.
type BrokerWithChallenge interface {
	credential.Broker

	// Challenge is told of a 401 or a 403 to a request of the principal's. It may
	// take as long as ctx allows. The call that met it fails all the same, with
	// CONNECTION_REQUIRED or INSUFFICIENT_SCOPE: whether to try again is the
	// runtime's to say.
	Challenge(ctx context.Context, who authz.Principal, c *Challenge) error
}

// Challenge is a refusal of a server.
type Challenge struct {
	URL    string // of the server
	Status int    // 401 or 403
	Header http.Header
}

// insufficient reports whether a refusal says that a scope is missing.
func insufficient(h http.Header) bool {
	for _, v := range h.Values("WWW-Authenticate") {
		if strings.Contains(v, `error="insufficient_scope"`) || strings.Contains(v, "error=insufficient_scope") {
			return true
		}
	}
	return false
}

func (c *Connector) challenged(ctx context.Context, call *connector.Call, s *mcpwire.Status) {
	c.challenge(ctx, call.Principal(), call.Connection().BaseURL+c.server.Path, s)
}

func (c *Connector) challenge(ctx context.Context, who authz.Principal, url string, s *mcpwire.Status) {
	b, ok := c.opts.Credentials.(BrokerWithChallenge)
	if ok && (s.Code == http.StatusUnauthorized || s.Code == http.StatusForbidden) {
		_ = b.Challenge(ctx, who, &Challenge{url, s.Code, s.Header}) // its outcome is the next call's
	}
}

// OAuth is a broker on the MCP SDK's own client of OAuth, for programs of one
// person at a terminal, and for tests: it discovers the authorization server,
// registers, and asks for consent when a server refuses. A host with users has
// connections instead, whose accounts were confirmed before.
//
// Its tokens are kept in memory, one handler for each principal, and put on
// requests to one origin only. It is safe for concurrent use.
type OAuth struct {
	origin string
	make   func(authz.Principal) (auth.OAuthHandler, error)

	mu       sync.Mutex
	handlers map[authz.PrincipalKey]auth.OAuthHandler
	handles  map[credential.Handle]lease
}

type lease struct {
	h    auth.OAuthHandler
	ends time.Time
}

// NewOAuth makes a broker for the server at an origin ("https://host:port").
// handler is called once for each principal.
func NewOAuth(origin string, handler func(authz.Principal) (auth.OAuthHandler, error)) *OAuth {
	return &OAuth{origin: origin, make: handler, handlers: map[authz.PrincipalKey]auth.OAuthHandler{}, handles: map[credential.Handle]lease{}}
}

var _ BrokerWithChallenge = (*OAuth)(nil)

func (o *OAuth) handler(who authz.Principal) (auth.OAuthHandler, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.handlers[who.Key()]; h != nil {
		return h, nil
	}
	h, err := o.make(who)
	if err != nil || h == nil {
		return nil, toolresult.WrapError(toolresult.ConnectionRequired, "there is no way to connect the account", err)
	}
	o.handlers[who.Key()] = h
	return h, nil
}

// leaseLife is how long a handle lasts, at most.
const leaseLife = 10 * time.Minute

// Resolve implements [credential.Broker]. A principal without a token gets a
// handle too: the server's refusal says what is to be asked for.
func (o *OAuth) Resolve(ctx context.Context, req *credential.ResolveRequest) (credential.Resolved, error) {
	if req == nil || req.Principal.IsZero() {
		return credential.Resolved{}, toolresult.NewError(toolresult.ConnectionRequired, "there is no account for nobody")
	}
	h, err := o.handler(req.Principal)
	if err != nil {
		return credential.Resolved{}, err
	}
	handle, now := credential.NewHandle(), time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, l := range o.handles {
		if l.ends.Before(now) {
			delete(o.handles, k)
		}
	}
	o.handles[handle] = lease{h, now.Add(leaseLife)}
	context.AfterFunc(ctx, func() { o.forget(handle) })
	return credential.Resolved{Handle: handle, Connection: req.Principal.Key().Subject, Expires: now.Add(leaseLife)}, nil
}

func (o *OAuth) forget(h credential.Handle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.handles, h)
}

func (o *OAuth) lease(h credential.Handle) (auth.OAuthHandler, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l, ok := o.handles[h]
	if !ok || !l.ends.After(time.Now()) {
		return nil, toolresult.NewError(toolresult.ConnectionRequired, "the handle is over")
	}
	return l.h, nil
}

// Apply implements [credential.Broker].
func (o *OAuth) Apply(ctx context.Context, handle credential.Handle, origin string, req *http.Request) error {
	h, err := o.lease(handle)
	if err != nil {
		return err
	}
	if origin != o.origin {
		return toolresult.NewError(toolresult.EgressDenied, "the credential is for another origin")
	}
	ts, err := h.TokenSource(ctx)
	switch {
	case err != nil:
		return notRenewed(err)
	case ts == nil:
		return nil // without a token the server says what it wants
	}
	token, err := ts.Token()
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == "invalid_grant":
		return nil // it is over: the server says what it wants
	case err != nil:
		return notRenewed(err)
	case token == nil || token.AccessToken == "":
		return nil
	}
	req.Header.Set("Authorization", "Bearer "+token.AccessToken)
	return nil
}

// notRenewed keeps a request at home whose account has a credential that cannot be
// had now: sent without, it would be answered as nobody's.
func notRenewed(err error) error {
	return toolresult.WrapError(toolresult.ProviderUnavailable, "the account's credential cannot be renewed now", err)
}

// Check implements [credential.Broker].
func (o *OAuth) Check(_ context.Context, handle credential.Handle) error {
	_, err := o.lease(handle)
	return err
}

// Challenge implements [BrokerWithChallenge]: it begins the flow of the MCP
// SDK's client, which ends in a token or not.
func (o *OAuth) Challenge(ctx context.Context, who authz.Principal, c *Challenge) error {
	h, err := o.handler(who)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, nil)
	if err != nil {
		return errors.New("remote: a server without an address")
	}
	return h.Authorize(ctx, req, &http.Response{StatusCode: c.Status, Header: c.Header, Request: req, Body: io.NopCloser(bytes.NewReader(nil))})
}
