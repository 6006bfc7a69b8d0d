package mutants

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// host wraps the parts of a host, as an operator's do. The clean one passes
// everything on.
type host struct{ *Switch }

func (h *host) wrap(to *check.Host) {
	to.Policy = &policy{h.Switch, to.Policy}
	h.hop(to)
	to.Accounts = &accounts{h.Switch, to.Accounts}
	to.Options.Credentials = &broker{Switch: h.Switch, next: to.Options.Credentials, sent: map[string]int{}, log: to.Options.Logger, dial: to.Options.Egress.Dial}
	to.Options.Approvals = &approvals{Switch: h.Switch, ApprovalStore: to.Options.Approvals}
	to.Options.Audit = &audit{h.Switch, to.Options.Audit}
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

	mu      sync.Mutex
	first   *credential.ResolveRequest
	sent    map[string]int // changes, by their key
	log     *slog.Logger
	dial    func(context.Context, netip.AddrPort) (net.Conn, error)
	used    map[authz.PrincipalKey]string // the header that somebody's credential was in
	zombies map[credential.Handle]string
	handles map[credential.Handle]authz.PrincipalKey
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
	began := time.Now()
	got, err := b.next.Resolve(ctx, r)
	if err == nil {
		got, err = b.stampede(ctx, r, began, got)
	}
	if _, known := errors.AsType[*toolresult.Error](err); err != nil && !known && ctx.Err() == nil && b.is("retrieveerror-wrapped") {
		return got, quoted(toolresult.ConnectionRequired, err.Error())
	}
	switch code := toolresult.Code(err); {
	case ctx.Err() != nil && b.is("refresh-background"):
		time.Sleep(time.Minute)
	case code == toolresult.ConnectionRequired && b.is("anonymous-fallback"):
		return credential.Resolved{Handle: shared, Connection: "everybody"}, nil
	case code == toolresult.ConnectionRequired && b.is("refresh-loop"):
		for range 5 {
			if got, err = b.next.Resolve(ctx, r); err == nil {
				break
			}
		}
	case code == toolresult.ConnectionRequired:
		if h, ok := b.zombie(r.Principal.Key()); ok {
			return credential.Resolved{Handle: h, Connection: "gone"}, nil
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.handles == nil {
		b.handles, b.used, b.zombies = map[credential.Handle]authz.PrincipalKey{}, map[authz.PrincipalKey]string{}, map[credential.Handle]string{}
	}
	b.handles[got.Handle] = r.Principal.Key()
	return got, err
}

// zombie returns a handle for a credential that was used before it was taken away.
func (b *broker) zombie(who authz.PrincipalKey) (credential.Handle, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	header, ok := b.used[who]
	if !ok || !b.is("zombie-token") {
		return credential.Handle{}, false
	}
	h := credential.NewHandle()
	b.zombies[h] = header
	return h, true
}

// shared is the account that everybody gets who has none.
var shared = credential.NewHandle()

// Apply implements [credential.Broker].
func (b *broker) Apply(ctx context.Context, h credential.Handle, origin string, r *http.Request) error {
	if h == shared {
		r.Header.Set("Authorization", "Bearer desk-token-acme-robot-tickets:read")
		return nil
	}
	b.mu.Lock()
	old, zombie := b.zombies[h]
	b.mu.Unlock()
	if zombie {
		r.Header.Set("Authorization", old)
		return nil
	}
	err := b.next.Apply(ctx, h, origin, r)
	b.rekey(r)
	b.expose(r)
	b.poll(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if who, ok := b.handles[h]; ok && err == nil {
		b.used[who] = r.Header.Get("Authorization")
	}
	return err
}

// Check implements [credential.Broker].
func (b *broker) Check(ctx context.Context, h credential.Handle) error {
	b.mu.Lock()
	_, zombie := b.zombies[h]
	b.mu.Unlock()
	if h == shared || zombie {
		return nil
	}
	return b.next.Check(ctx, h)
}

// audit is an operator's part in front of the sink.
type audit struct {
	*Switch
	next connector.Audit
}

// Record implements [connector.Audit].
func (a *audit) Record(ctx context.Context, e *connector.AuditEvent) error {
	last, copied := e.Result.CallID != "", *e
	switch {
	case last && e.Result.Code == "" && a.is("audit-missing"), last && e.Result.Code != "" && a.is("audit-success-only"):
		return nil
	case e.Actor != "" && a.is("audit-wrong-actor"):
		copied.Principal.Subject, copied.Actor = "service", ""
	case last && e.Result.Effect.Disposition == toolresult.EffectUnknown && a.is("audit-says-failed"):
		copied.Result.Effect.Disposition = toolresult.EffectNotApplied
	case e.Action.Capability == "desk.create" && a.is("audit-args"):
		copied.Reason = a.told()
	case last && e.Action.Capability == "desk.compare" && a.is("audit-leak"):
		copied.Reason = a.borne()
	case e.Run != "" && a.is("no-correlation"):
		copied.Result.CallID, copied.Run = "", ""
	}
	err := a.next.Record(ctx, &copied)
	if err != nil && a.is("audit-after") {
		return nil
	}
	return err
}

// approvals is an operator's part in front of the store of approvals.
type approvals struct {
	*Switch
	authz.ApprovalStore

	mu    sync.Mutex
	given []authz.Approval
}

// Approval implements [authz.ApprovalStore].
func (s *approvals) Approval(ctx context.Context, tenant, id string) (authz.Approval, error) {
	a, err := s.ApprovalStore.Approval(ctx, tenant, id)
	switch {
	case err != nil:
	case !a.Given() && s.is("approval-ignored"):
		a.Approver, a.Approved = authz.PrincipalKey{Tenant: tenant, Issuer: "https://issuer.test", Subject: check.Dave}, time.Now()
	case a.Given() && time.Now().After(a.Expires) && s.is("approval-immortal"):
		a.Expires = time.Now().Add(time.Hour)
	}
	return a, err
}

// PutApproval implements [authz.ApprovalStore].
func (s *approvals) PutApproval(ctx context.Context, a authz.Approval) (authz.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.given {
		was, is := old.Statement, a.Statement
		if !a.Given() && (was.Requester == is.Requester && was.Binding.Digest != is.Binding.Digest && s.is("approval-any") ||
			was.Requester != is.Requester && was.Binding.Digest == is.Binding.Digest && s.is("approval-anyone") ||
			was.Requester == is.Requester && was.Binding.Digest == is.Binding.Digest && s.is("approval-reusable")) {
			a.Approver, a.Approved = old.Approver, old.Approved
		}
	}
	if a.Given() {
		s.given = append(s.given, a)
	}
	return s.ApprovalStore.PutApproval(ctx, a)
}
