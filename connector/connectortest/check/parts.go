package check

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Policy is the policy of a session: everybody may do what they ask for, until a
// check says something else. It remembers what it was asked.
type Policy struct {
	mu     sync.Mutex
	asked  []authz.Request
	at     []int // how many requests had arrived when it was asked
	decide func(*authz.Request) (authz.Decision, error)
	count  func() int
	scopes map[string][]authz.ResourceID // of the samples that say so, by capability
}

func newPolicy(f *Fixture) *Policy {
	p := &Policy{scopes: map[string][]authz.ResourceID{}}
	for _, x := range f.Samples {
		if len(x.Scope) > 0 {
			p.scopes[x.Capability] = x.Scope
		}
	}
	return p
}

// Decide implements [authz.Policy].
func (p *Policy) Decide(_ context.Context, req *authz.Request) (authz.Decision, error) {
	p.mu.Lock()
	p.asked = append(p.asked, *req)
	if p.count != nil {
		p.at = append(p.at, p.count())
	}
	decide := p.decide
	p.mu.Unlock()
	if decide != nil {
		return decide(req)
	}
	if only := p.scopes[req.Action.Capability]; only != nil {
		return AllowOnly(only...)(req)
	}
	return AllowAsked(req), nil
}

// Set replaces what is decided; nil: everybody may do what they ask for.
func (p *Policy) Set(decide func(*authz.Request) (authz.Decision, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = decide
}

// Asked returns what it was asked for a purpose, in order.
func (p *Policy) Asked(purpose authz.Purpose) (out []authz.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.asked {
		if q.Purpose == purpose {
			out = append(out, q)
		}
	}
	return out
}

// AskedBefore reports whether it was asked for a purpose before exchange n
// arrived.
func (p *Policy) AskedBefore(purpose authz.Purpose, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, q := range p.asked {
		if q.Purpose == purpose && i < len(p.at) && p.at[i] < n {
			return true
		}
	}
	return false
}

// asks reports whether a change would need an approval by the policy alone.
func (p *Policy) asks(req *connector.InvokeRequest) bool {
	p.mu.Lock()
	decide := p.decide
	p.mu.Unlock()
	if decide == nil {
		return false
	}
	d, err := decide(&authz.Request{Principal: req.Principal, Action: authz.Action{Capability: req.Capability}, Purpose: authz.Execute, Target: authz.OnConnection()})
	return err == nil && d.Verdict == authz.AllowWithApproval
}

// Revision is the revision that the policy of a session names.
const Revision = "connectortest-1"

// AllowAsked allows exactly what is asked for.
func AllowAsked(req *authz.Request) authz.Decision {
	return authz.Decision{Verdict: authz.Allow, Scope: req.Target.Scope(), Revision: Revision}
}

// AllowOnly allows what is asked for, but a search no more than the given scope.
func AllowOnly(ids ...authz.ResourceID) func(*authz.Request) (authz.Decision, error) {
	return func(req *authz.Request) (authz.Decision, error) {
		d := AllowAsked(req)
		if _, whole := req.Target.Objects(); whole && req.Purpose != authz.Discover {
			d.Scope = authz.Only(ids...)
		}
		return d, nil
	}
}

// Broker gives each caller the double's credential for them.
type Broker struct {
	subject *Subject
	double  Double

	mu       sync.Mutex
	handles  map[credential.Handle]authz.PrincipalKey
	scopes   map[credential.Handle][]string
	gone     map[authz.PrincipalKey]bool
	gen      map[authz.PrincipalKey]int64
	resolve  func(context.Context, *credential.ResolveRequest) error
	narrow   func([]string) []string
	given    map[string]authz.PrincipalKey // credentials by whose they are
	expired  map[authz.PrincipalKey]time.Duration
	renewing map[authz.PrincipalKey]chan struct{}
	renewals int
	secret   func(string) // is told of each, so that no report shows it
}

func newBroker(subject *Subject, d Double) *Broker {
	return &Broker{subject: subject, double: d, handles: map[credential.Handle]authz.PrincipalKey{}, scopes: map[credential.Handle][]string{},
		gone: map[authz.PrincipalKey]bool{}, gen: map[authz.PrincipalKey]int64{}, given: map[string]authz.PrincipalKey{}}
}

// Resolve implements [credential.Broker].
func (b *Broker) Resolve(ctx context.Context, r *credential.ResolveRequest) (credential.Resolved, error) {
	b.mu.Lock()
	hook := b.resolve
	b.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, r); err != nil {
			return credential.Resolved{}, err
		}
	}
	key := r.Principal.Key()
	if err := b.renew(ctx, key); err != nil {
		return credential.Resolved{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone[key] || key.Tenant == "" {
		return credential.Resolved{}, toolresult.NewError(toolresult.ConnectionRequired, "connect an account first")
	}
	h := credential.NewHandle()
	scopes := slices.Clone(r.Scopes)
	if b.narrow != nil {
		scopes = b.narrow(scopes)
	}
	b.handles[h], b.scopes[h] = key, scopes
	out := credential.Resolved{Handle: h, Connection: "conn-" + key.Tenant + "-" + key.Subject, Account: key.Subject, Org: key.Tenant, Generation: b.gen[key]}
	if d, ok := b.double.(DoubleWithAccounts); ok {
		out.Account, out.Org = d.Account(key.Tenant, key.Subject)
	}
	return out, nil
}

// Apply implements [credential.Broker].
func (b *Broker) Apply(_ context.Context, h credential.Handle, origin string, r *http.Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, ok := b.handles[h]
	switch {
	case !ok || b.gone[key]:
		return toolresult.NewError(toolresult.ConnectionRequired, "connect an account first")
	case origin != egresstest.Base+":80":
		return toolresult.NewError(toolresult.EgressDenied, "the credential is for another origin")
	}
	token := b.token(h, key)
	b.secret(token)
	b.put(r, token)
	b.given[b.credential(r)] = key
	return nil
}

func (b *Broker) token(h credential.Handle, key authz.PrincipalKey) string {
	if d, ok := b.double.(DoubleWithScopes); ok {
		return d.TokenFor(key.Tenant, key.Subject, b.scopes[h])
	}
	return b.double.Token(key.Tenant, key.Subject)
}

// put puts a token where the manifest says that the credential goes.
func (b *Broker) put(r *http.Request, token string) {
	switch name, header := strings.CutPrefix(b.subject.Manifest.Auth.Scheme, "header:"); {
	case header:
		r.Header.Set(name, token)
	case b.subject.Manifest.Auth.Scheme == "basic":
		r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(token)))
	default:
		r.Header.Set("Authorization", "Bearer "+token)
	}
}

// credential returns what a request bears, as put wrote it.
func (b *Broker) credential(r *http.Request) string {
	if name, ok := strings.CutPrefix(b.subject.Manifest.Auth.Scheme, "header:"); ok {
		return r.Header.Get(name)
	}
	return r.Header.Get("Authorization")
}

// Bears reports whether an exchange bears a credential of a user.
func (b *Broker) Bears(x *Exchange, tenant, user string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, ok := b.given[x.Credential]
	return ok && key.Tenant == tenant && key.Subject == user
}

// Check implements [credential.Broker].
func (b *Broker) Check(_ context.Context, h credential.Handle) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key, ok := b.handles[h]; !ok || b.gone[key] {
		return toolresult.NewError(toolresult.ConnectionRequired, "the account was disconnected")
	}
	return nil
}

// Disconnect takes a user's account away.
func (b *Broker) Disconnect(tenant, user string) { b.set(tenant, user, true) }

// Connect gives it back, as another generation.
func (b *Broker) Connect(tenant, user string) { b.set(tenant, user, false) }

func (b *Broker) set(tenant, user string, gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := authz.PrincipalKey{Tenant: tenant, Issuer: issuer, Subject: user}
	b.gone[key] = gone
	if !gone {
		b.gen[key]++
	}
}

// Hook is asked before a credential is found, such as by a token endpoint that
// does not answer. Nil: nothing.
func (b *Broker) Hook(f func(context.Context, *credential.ResolveRequest) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resolve = f
}

// Narrow changes the scopes that credentials have from now on. Nil: as declared.
func (b *Broker) Narrow(f func([]string) []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.narrow = f
}

// Audit keeps the events of a session. The zero Audit is ready.
type Audit struct {
	mu     sync.Mutex
	events []connector.AuditEvent
	fails  bool
}

// Record implements [connector.Audit].
func (a *Audit) Record(_ context.Context, e *connector.AuditEvent) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fails {
		return errors.New("connectortest: the audit sink is full")
	}
	a.events = append(a.events, *e)
	return nil
}

// Fail makes the sink fail, or work again.
func (a *Audit) Fail(yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails = yes
}

// violation is what the last event of a call says that the connector did wrong.
func (a *Audit) violation(call string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.events) - 1; i >= 0; i-- {
		if e := &a.events[i]; e.Result.CallID == call {
			return cmp.Or(e.Violation, e.NotSent)
		}
	}
	return ""
}

// Events returns what was recorded.
func (a *Audit) Events() []connector.AuditEvent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}
