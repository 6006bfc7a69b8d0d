package mutants

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// host wraps the parts of a host, as an operator's do. The clean one passes
// everything on.
type host struct{ *Switch }

func (h *host) wrap(to *check.Host) {
	to.Policy = &policy{h.Switch, to.Policy}
	to.Options.Credentials = &broker{Switch: h.Switch, next: to.Options.Credentials}
	for i := range to.Options.Endpoints {
		l := &to.Options.Endpoints[i].Limits
		switch {
		case l.ResponseBytes != 0 && l.Ratio == 0 && h.is("unbounded-body"):
			l.ResponseBytes = 1 << 30
		case l.Ratio != 0 && h.is("limit-before-gunzip"):
			l.ResponseBytes, l.Ratio = 1<<30, 1<<20
		}
	}
}

// policy is an operator's part in front of the policy proper.
type policy struct {
	*Switch
	next authz.Policy
}

// Decide implements [authz.Policy].
func (p *policy) Decide(ctx context.Context, req *authz.Request) (authz.Decision, error) {
	if req.Purpose != authz.Discover && p.is("authz-after") {
		return check.AllowAsked(req), nil // and asks when there is time
	}
	d, err := p.next.Decide(ctx, req)
	switch {
	case err != nil && p.is("authz-fail-open"),
		err == nil && d.Verdict == authz.Deny && p.is("authz-advisory"):
		return check.AllowAsked(req), nil
	}
	return d, err
}

// broker is an operator's part in front of the store of credentials.
type broker struct {
	*Switch
	next credential.Broker

	mu    sync.Mutex
	first *credential.ResolveRequest
}

// Resolve implements [credential.Broker].
func (b *broker) Resolve(ctx context.Context, r *credential.ResolveRequest) (credential.Resolved, error) {
	b.mu.Lock()
	if b.first == nil {
		b.first = r
	}
	first := b.first
	b.mu.Unlock()
	if first.Principal.Key() != r.Principal.Key() && b.is("token-sticky") {
		again := *r
		again.Principal = first.Principal
		return b.next.Resolve(ctx, &again)
	}
	got, err := b.next.Resolve(ctx, r)
	switch code := toolresult.Code(err); {
	case ctx.Err() != nil && b.is("refresh-background"):
		time.Sleep(time.Minute)
	case code == toolresult.ConnectionRequired && b.is("anonymous-fallback"):
		return credential.Resolved{Handle: shared, Connection: "everybody"}, nil
	}
	return got, err
}

// shared is the account that everybody gets who has none.
var shared = credential.NewHandle()

// Apply implements [credential.Broker].
func (b *broker) Apply(ctx context.Context, h credential.Handle, origin string, r *http.Request) error {
	if h == shared {
		r.Header.Set("Authorization", "Bearer desk-token-acme-robot-tickets:read")
		return nil
	}
	return b.next.Apply(ctx, h, origin, r)
}

// Check implements [credential.Broker].
func (b *broker) Check(ctx context.Context, h credential.Handle) error {
	if h == shared {
		return nil
	}
	return b.next.Check(ctx, h)
}
