package remote

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/mcpwire"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Review asks a server for its tools as one principal, for a person to look at.
// It calls no tool. The server needs ID, Party, and where it is. With an Auth
// other than AuthNone, Options.Credentials gives the credential.
func Review(ctx context.Context, s Server, who authz.Principal, opts *Options) (*Listing, error) {
	if errs := s.check(); errs != nil {
		return nil, errors.Join(errs...)
	}
	c := &Connector{server: s, opts: opts.complete(s.Launch != nil)}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	l, done, err := c.reviewing(ctx, who)
	if err != nil {
		return nil, err
	}
	defer done()
	out, err := c.review(ctx, l)
	if err != nil {
		return nil, c.reviewFailed(ctx, who, err)
	}
	return out, nil
}

func (c *Connector) review(ctx context.Context, l *link) (*Listing, error) {
	probe := time.Duration(0)
	if l.stream != nil {
		probe = c.opts.Probe
	}
	p, err := mcpwire.Negotiate(ctx, l, c.introduction(), probe)
	if err != nil {
		return nil, err
	}
	tools, unusable, err := mcpwire.List(ctx, func(ctx context.Context, m *mcpwire.Message) (*mcpwire.Answer, error) {
		a, _, err := l.Send(ctx, p, m)
		return a, err
	}, mcpwire.ListLimits{Pages: c.opts.Pages, Tools: c.opts.ToolsListed})
	if err != nil {
		return nil, err
	}
	out := &Listing{Server: c.server.ID, Peer: peerOf(p)}
	for _, d := range tools {
		out.Tools = append(out.Tools, Definition(d))
	}
	for _, u := range unusable {
		out.Unusable = append(out.Unusable, Unusable{shown(u.Name, 128), u.Why})
	}
	return out, nil
}

// reviewing opens a way to the server that is no call's.
func (c *Connector) reviewing(ctx context.Context, who authz.Principal) (*link, func(), error) {
	if c.server.Launch != nil {
		rwc, err := c.server.Launch(ctx, who)
		if err != nil {
			return nil, nil, toolresult.WrapError(toolresult.ProviderUnavailable, "the local server cannot be started", err)
		}
		s := mcpwire.NewStream(rwc, c.introduction(), c.opts.Frame)
		return &link{stream: s}, func() { _ = s.Close() }, nil
	}
	e, err := egress.New(c.server.Profile, c.opts.Egress)
	if err != nil {
		return nil, nil, err
	}
	hooks := &egress.Hooks{Allow: func(context.Context, *egress.Request) (egress.Effect, error) { return egress.Reads, nil }}
	if c.server.Auth.Mode != connector.AuthNone {
		if c.opts.Credentials == nil {
			return nil, nil, errors.New("remote: the server asks for a credential, and Options.Credentials is nil")
		}
		r, err := c.opts.Credentials.Resolve(ctx, &credential.ResolveRequest{Principal: who, Connector: c.server.ID, Call: "review", Mode: string(c.server.Auth.Mode)})
		if err != nil {
			return nil, nil, err
		}
		hooks.Authorize = func(ctx context.Context, origin string, req *http.Request) error {
			return c.opts.Credentials.Apply(ctx, r.Handle, origin, req)
		}
	}
	s := e.Open(ctx, hooks)
	h := &mcpwire.HTTP{URL: strings.TrimSuffix(e.BaseURL(), "/") + c.server.Path, Client: c.introduction(), Frame: c.opts.Frame}
	return &link{http: h, client: s.Client()}, s.Close, nil
}

// reviewFailed passes a refusal on to a broker that can act on it.
func (c *Connector) reviewFailed(ctx context.Context, who authz.Principal, err error) error {
	if s, ok := errors.AsType[*mcpwire.Status](err); ok {
		c.challenge(ctx, who, strings.TrimSuffix(c.server.Profile.BaseURL, "/")+c.server.Path, s)
		return statusError(s)
	}
	if f, ok := errors.AsType[mcpwire.Fault](err); ok {
		return faultError(f)
	}
	if e, ok := errors.AsType[*mcpwire.Error](err); ok {
		return serverError(e)
	}
	if u, ok := errors.AsType[*url.Error](err); ok { // it prints the address
		return u.Err
	}
	return err
}

// methodOf is the method of JSON-RPC that a route is for.
func methodOf(route string) string {
	_, rest, _ := strings.Cut(route, " #/method=")
	text, _, _ := strings.Cut(rest, " ")
	method, err := url.PathUnescape(text)
	if err != nil {
		return ""
	}
	return method
}
