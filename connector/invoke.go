package connector

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/internal/evidence"
	"github.com/drawbridge-sdk/drawbridge/internal/schema"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Invoke performs one call and never fails silently: every failure is a
// result, and every result has passed Validate. It never returns nil. If ctx
// ends after a change was sent, the result is an unknown effect and the
// operation is recorded all the same.
func (v *Invoker) Invoke(ctx context.Context, req *InvokeRequest) *toolresult.Result {
	p := v.start(req)
	return p.finish(ctx, p.run)
}

// finish runs the body of a call, seals its result and records it. The host's
// own parts (broker, stores, policy) may panic: that ends this call, and not the
// process of everybody, and is an unknown effect if a change may have left.
func (p *path) finish(ctx context.Context, body func(context.Context) *toolresult.Result) (r *toolresult.Result) {
	defer func() {
		if x := recover(); x != nil {
			p.v.log(ctx, "a part of the host panicked", slog.String("call_id", p.req.CallID), slog.String("panic", fmt.Sprint(x)), slog.String("stack", string(debug.Stack())))
			r = toolresult.Failure(p.req.CallID, toolresult.NewError(toolresult.Internal, "the host failed"))
			if p.began != "" {
				r = toolresult.UnknownEffect(p.req.CallID, p.began)
			}
		}
	}()
	r = p.seal(body(ctx))
	p.audit(ctx, r)
	return r
}

// goodID reports whether a call's id can be in a result: one line of UTF-8, of
// at most 512 bytes. Another one is replaced: the call is worth more than it.
func goodID(id string) bool {
	return id != "" && len(id) <= 512 && utf8.ValidString(id) && !strings.ContainsFunc(id, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' })
}

// path is one request on its way through the steps of [Invoker.Invoke].
type path struct {
	v         *Invoker
	req       InvokeRequest
	cap       *registered
	args      json.RawMessage // canonical, with page_size and cursor taken out
	digest    string          // of the arguments
	pageSize  int
	cursor    string
	page      PageRequest
	resolved  credential.Resolved
	conn      Connection
	endpoint  *egress.Endpoint
	target    authz.Target
	grant     authz.Grant
	denied    *authz.Denied
	violation string
	notSent   string // why a request of the connector did not leave
	lastSeen  []seen
	lastErr   *failed // likewise: what the connector's code returned
	drafted   *draft  // what was rendered
	lookOnly  bool    // what is recorded may be looked up, and is not sent again
	began     string  // id of the operation, once the ledger works on it
	decoded   any     // the arguments as the typed handlers get them, read once
}

func (v *Invoker) start(req *InvokeRequest) *path {
	p := &path{v: v}
	if req != nil {
		p.req = *req
	}
	if !goodID(p.req.CallID) {
		p.req.CallID = "call_" + rand.Text()
	}
	return p
}

// run is the governed path. Read it top to bottom: every surface comes here,
// and nothing of it can be left out or put in another order.
func (p *path) run(ctx context.Context) *toolresult.Result {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, callKey{}, p), p.budget())
	defer cancel()
	for _, step := range steps {
		if err := step.do(p, ctx); err != nil {
			return p.refused(err)
		}
	}
	if p.cap.decl.Kind == KindWrite {
		return p.write(ctx)
	}
	return p.read(ctx)
}

// budget is how long the call may take, with everything around it.
func (p *path) budget() time.Duration {
	if c := p.v.caps[p.req.Capability]; c != nil {
		return c.limits.Timeout
	}
	return defaultTimeout
}

// steps come before a connector's own code (requirement A5). The table is never
// changed.
var steps = [...]struct {
	name string
	do   func(*path, context.Context) error
}{
	{"principal", (*path).principal},
	{"lookup", (*path).lookup},
	{"access", (*path).access},
	{"profile", (*path).profile},
	{"validate", (*path).validate},
	{"binding", (*path).binding},
	{"target", (*path).findTarget},
	{"authorize", (*path).authorize},
	{"cursor", (*path).openCursor},
}

// refused is the result of a call that ended before the connector's code ran.
func (p *path) refused(err error) *toolresult.Result {
	if e, ok := errors.AsType[*toolresult.Error](err); ok {
		if d, ok := errors.AsType[*authz.Denied](e.Cause()); ok {
			p.denied = d
		}
	}
	return toolresult.Failure(p.req.CallID, err)
}

func (p *path) principal(context.Context) error {
	if !vouched(p.v.trusted, p.req.Principal) {
		return errNotKnown()
	}
	return nil
}

func vouched(trusted []*authz.Authority, who authz.Principal) bool {
	return slices.ContainsFunc(trusted, func(a *authz.Authority) bool { return a.Vouches(who) })
}

// unknown is the one text for what is not there and what may not be seen.
func unknownCapability() error {
	return toolresult.NewError(toolresult.CapabilityUnknown, "there is no such capability, or none that may be seen")
}

// lookup finds the capability. The policy is asked about one that is not there
// as it is about the others, and its answer forgotten, so that neither the time
// that it takes nor its absence tells them from those that may not be seen.
func (p *path) lookup(ctx context.Context) error {
	if p.cap = p.v.caps[p.req.Capability]; p.cap != nil {
		return nil
	}
	_, err := authz.Authorize(ctx, p.v.policy, p.question(authz.Discover))
	if toolresult.Code(err) == toolresult.PolicyUnavailable {
		return err
	}
	return unknownCapability()
}

func (p *path) action() authz.Action {
	if p.cap == nil {
		return authz.Action{Capability: p.req.Capability}
	}
	return authz.Action{Connector: p.cap.info.ID, Capability: p.cap.decl.Name, Version: p.cap.info.Version, Class: p.cap.decl.Class}
}

func (p *path) question(purpose authz.Purpose) *authz.Request {
	q := &authz.Request{Principal: p.req.Principal, Action: p.action(), Purpose: purpose, Target: p.target, Account: p.conn.Account}
	if p.cap != nil {
		q.Types = p.cap.types
	}
	if p.req.Run != "" || p.req.Surface != "" || p.req.Profile != "" {
		q.Context = map[string]any{"run": p.req.Run, "surface": p.req.Surface, "profile": p.req.Profile}
	}
	return q
}

// access asks whether the capability may be seen at all. Not being allowed to
// see it and not being there are one answer.
func (p *path) access(ctx context.Context) error {
	_, err := authz.Authorize(ctx, p.v.policy, p.question(authz.Discover))
	if toolresult.Code(err) == toolresult.PermissionDenied {
		p.denied, _ = authz.Why(err)
		return unknownCapability()
	}
	return err
}

func (p *path) profile(ctx context.Context) error {
	if p.req.Profile == "" {
		return nil
	}
	pr, err := p.v.profileOf(ctx, p.req.Principal, p.req.Profile)
	if err != nil {
		return err
	}
	if !pr.Allows(p.cap.decl.Name, p.cap.info.Version) {
		return unknownCapability()
	}
	return nil
}

func (v *Invoker) profileOf(ctx context.Context, who authz.Principal, id string) (authz.Profile, error) {
	if v.opts.Profiles == nil {
		return authz.Profile{}, toolresult.NewError(toolresult.PermissionDenied, "not allowed")
	}
	pr, err := v.opts.Profiles.Profile(ctx, who, id)
	switch code := toolresult.Code(err); {
	case err == nil, code == toolresult.PermissionDenied:
		return pr, err
	default:
		return authz.Profile{}, toolresult.WrapError(toolresult.PolicyUnavailable, "the profile cannot be found out now", err)
	}
}

// maxArguments bounds arguments before anything reads them.
const maxArguments = 256 << 10

func (p *path) validate(context.Context) error {
	if len(p.req.Arguments) > maxArguments {
		return toolresult.NewError(toolresult.InvalidInput, "the arguments are over 256 KiB")
	}
	if err := p.checkKey(); err != nil {
		return err
	}
	args, err := p.cap.input.Prepare(p.req.Arguments)
	if err != nil {
		return err
	}
	if p.args = args; p.cap.decl.Kind == KindList {
		if err := p.takePage(); err != nil {
			return err
		}
	}
	p.digest = argumentsDigest(p.args)
	return nil
}

func (p *path) checkKey() error {
	key := p.req.Key
	if p.cap.decl.Kind != KindWrite {
		return nil
	}
	bad := func(r rune) bool { return r < '!' || r > '~' }
	switch {
	case key == "":
		return nil // write decides: an approval may carry one
	case len(key) > 255 || strings.ContainsFunc(key, bad):
		return toolresult.NewError(toolresult.InvalidInput, "the operation key is over 255 bytes, or holds something else than printable ASCII")
	case p.cap.keyCounts() && p.cap.decl.Idempotency.Field != "" && p.cap.decl.Idempotency.Answer == "" && len(key) < shortestKey:
		return toolresult.NewError(toolresult.InvalidInput, "the operation key is under 16 bytes, and would be found by accident when the operation is looked up")
	}
	return nil
}

// takePage takes the SDK's own parameters out of the arguments of a listing.
func (p *path) takePage() error {
	rest, size, cursor, err := schema.Listing(p.args)
	if err != nil {
		return err
	}
	if p.args, p.cursor, p.pageSize = rest, cursor, p.cap.limits.PageSize; size > 0 {
		p.pageSize = min(size, p.cap.limits.PageSize)
	}
	return nil
}

// binding chooses the account, before anything is resolved with it.
func (p *path) binding(ctx context.Context) error {
	if p.cap.info.Auth.Mode != AuthNone {
		r, err := p.v.opts.Credentials.Resolve(ctx, &credential.ResolveRequest{
			Principal: p.req.Principal, Connector: p.cap.info.ID, Capability: p.cap.decl.Name, Call: p.req.CallID, Run: p.req.Run,
			Mode: string(p.cap.info.Auth.Mode), Scopes: p.cap.decl.Scopes, Connection: p.req.Connection,
		})
		if err != nil {
			return err
		}
		if r.Handle.IsZero() {
			return toolresult.NewError(toolresult.ConnectionRequired, "there is no credential for this call")
		}
		p.resolved = r
	}
	p.conn = Connection{ID: p.resolved.Connection, Account: p.resolved.Account, Org: p.resolved.Org}
	name := p.cap.endpoint
	if name != "" && p.resolved.Endpoint != "" {
		name = p.resolved.Endpoint
	}
	if name == "" {
		return nil
	}
	if p.endpoint = p.v.ends[name]; p.endpoint == nil {
		return toolresult.NewError(toolresult.EgressDenied, "the account's endpoint is not one of the operator's")
	}
	p.conn.BaseURL = strings.TrimSuffix(p.endpoint.BaseURL(), "/")
	return nil
}

// findTarget asks the connector what the call touches.
func (p *path) findTarget(ctx context.Context) error {
	c, ok := p.cap.connector.(ConnectorWithTarget)
	if !ok {
		p.target = authz.OnConnection()
		return nil
	}
	s := p.state(ctx, metadata)
	target, err := guard(ctx, p.v, func() (authz.Target, error) { return c.Target(ctx, &TargetCall{&Call{s}}) })
	claim := evidence.Answered
	if err != nil {
		claim = evidence.Failed
	}
	seen := s.close()
	f := evidence.Judge(evidence.Case{Step: evidence.Read, Claim: claim, Code: codeOf(err), Exchanges: exchanges(seen), Local: true})
	switch {
	case f.Violation != "" && err == nil:
		p.violation = f.Violation
		return codeError(toolresult.ContractViolation)
	case f.Code == toolresult.NotFound, f.Code == toolresult.PermissionDenied:
		// An object that is not there and one that may not be seen are one answer.
		return toolresult.WrapError(toolresult.PermissionDenied, "not allowed", err)
	case err != nil:
		return p.failure(f.Code, err, seen)
	case target.IsZero():
		p.violation = "a target that names nothing"
		return codeError(toolresult.ContractViolation)
	}
	p.target = target
	return nil
}

func (p *path) authorize(ctx context.Context) (err error) {
	p.grant, err = authz.Authorize(ctx, p.v.policy, p.question(authz.Execute))
	return err
}

// openCursor comes after authorize, because a cursor is bound to what was
// granted.
func (p *path) openCursor(context.Context) error {
	if p.cap.decl.Kind != KindList {
		return nil
	}
	p.page = PageRequest{Size: p.pageSize, From: cursor.Start()}
	if p.cursor == "" {
		return nil
	}
	at, err := p.v.opts.Cursors.Open(p.cursorBinding(), p.cursor)
	p.page.From = at
	return err
}

func (p *path) cursorBinding() cursor.Binding {
	k := p.req.Principal.Key()
	return cursor.Binding{
		Tenant: k.Tenant, Issuer: k.Issuer, Subject: k.Subject,
		Connection: p.conn.ID, Generation: p.resolved.Generation,
		Capability: p.cap.decl.Name, Version: p.cap.info.Version,
		Query: p.digest, Scope: p.grant.Scope().Digest(), Revision: p.grant.Revision(),
	}
}

// state makes one run of a connector's code.
func (p *path) state(ctx context.Context, m mode) *state {
	return &state{v: p.v, cap: p.cap, path: p, mode: m, id: p.req.CallID, principal: p.req.Principal, grant: p.grant, conn: p.conn,
		handle: p.resolved.Handle, endpoint: p.endpoint, args: slices.Clone(p.args), page: p.page, progress: p.req.Progress, ctx: ctx, decoded: &p.decoded}
}

// guard runs a connector's code in a goroutine of its own. The code may panic,
// call Goexit or ignore its context: the call ends with the facts as they
// stand, and what the code does afterwards meets a closed client. The error is
// nil or a [*failed].
func guard[T any](ctx context.Context, v *Invoker, f func() (T, error)) (out T, err error) {
	type answer struct {
		out T
		err *failed
	}
	ch := make(chan answer, 1)
	go func() {
		a := answer{err: &failed{code: toolresult.Internal, cause: errors.New("the connector left without an answer")}}
		defer func() {
			if r := recover(); r != nil {
				a.err = &failed{code: toolresult.Internal, cause: errors.New(panicked(r))}
			}
			ch <- a
		}()
		out, err := f()
		a = answer{out, tame(err)}
	}()
	select {
	case a := <-ch:
		return a.out, a.err.orNil()
	case <-ctx.Done():
	}
	// Code that heeds its context is about to return.
	grace := time.NewTimer(gracePeriod)
	defer grace.Stop()
	select {
	case a := <-ch:
		return a.out, a.err.orNil()
	case <-grace.C:
	}
	v.abandoned.Add(1)
	v.log(ctx, "a connector's code ignores the end of its call, and was left behind")
	return out, tame(ctx.Err())
}

// gracePeriod is how long code has to notice that its context is over.
const gracePeriod = 100 * time.Millisecond

// claimOf names what a connector's code returned from a read.
func claimOf(r *toolresult.Result, err error) evidence.Claim {
	switch {
	case err != nil && r != nil:
		return evidence.Nothing // both: nobody knows which is meant
	case err != nil:
		return evidence.Failed
	case r == nil:
		return evidence.Nothing
	case r.Status == toolresult.StatusSuccess, r.Status == toolresult.StatusPartial && !namesFailure(r.Coverage.Missing):
		return evidence.Answered
	case r.Status == toolresult.StatusPartial:
		return evidence.Gapped
	}
	return evidence.Nothing
}

// namesFailure reports whether gaps say that something went wrong. Those that
// follow from paging and authorization say nothing of the kind.
func namesFailure(gaps []toolresult.Gap) bool {
	return slices.ContainsFunc(gaps, func(g toolresult.Gap) bool {
		return g != toolresult.GapVisibilityLimited && g != toolresult.GapRemainingPages && g != toolresult.GapRemainingRows
	})
}

// read runs a capability that changes nothing.
func (p *path) read(ctx context.Context) *toolresult.Result {
	s := p.state(ctx, reading)
	r, err := guard(ctx, p.v, func() (*toolresult.Result, error) { return p.cap.invoke(ctx, &Call{s}) })
	seen := s.close()
	if err == nil && r != nil && r.Status == toolresult.StatusError && r.Error != nil {
		err, r = tame(r.Error).orNil(), nil
	}
	f := evidence.Judge(evidence.Case{Step: evidence.Read, Claim: claimOf(r, err), Code: codeOf(err), Exchanges: exchanges(seen), Local: p.local()})
	if f.Code == "" && r.Effect.Disposition != toolresult.EffectNone {
		f.Code, f.Violation = toolresult.ContractViolation, "a read that claims an effect"
	}
	if p.violation = f.Violation; p.violation == "" {
		p.violation = s.breach
	}
	p.unsent(s)
	if f.Code != "" {
		return toolresult.Failure(p.req.CallID, p.failure(f.Code, err, seen))
	}
	if r, err = p.deliver(ctx, s, r, seen); err != nil {
		return toolresult.Failure(p.req.CallID, err)
	}
	return r
}

// unsent keeps why a request did not leave, for audit.
func (p *path) unsent(s *state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied != nil && p.notSent == "" {
		p.notSent = s.denied.Error()
	}
}

// local says that a capability declares no routes, and so makes no request.
func (p *path) local() bool { return len(p.cap.decl.Routes) == 0 }

// failure makes the error of a call from its code, what the connector said if
// it said the same, and what the transport saw. Steps that a person is to take
// are the SDK's to name, never a connector's.
func (p *path) failure(code toolresult.ErrorCode, err error, seen []seen) *toolresult.Error {
	f, _ := err.(*failed)
	if code == toolresult.ApprovalRequired || code == toolresult.ApprovalInvalid {
		if f != nil && !f.ours {
			p.violation, code = "a connector speaks about approvals", toolresult.ContractViolation
		}
	}
	e := codeError(code)
	if f != nil {
		e = f.error(code, e)
	}
	if f != nil && f.message != nil && f.code == code && p.local() && code != toolresult.NotFound && code != toolresult.PermissionDenied {
		// Nothing but the connector saw what the provider said.
		d := f.message.Diagnostics.Bounded()
		e = e.WithDiagnostics(toolresult.Diagnostics{Provider: p.cap.info.ID, ProviderCode: d.ProviderCode, ProviderText: d.ProviderText})
	}
	for _, x := range slices.Backward(seen) {
		if x.Phase == egress.PhaseAnswered && !x.Ruling.OK {
			if code == toolresult.NotFound || code == toolresult.PermissionDenied {
				// A status, a code or a text would tell an object that is not there
				// from one that may not be seen (E7).
				e = e.WithDiagnostics(toolresult.Diagnostics{Provider: p.cap.info.ID, RequestID: x.Ruling.RequestID})
				break
			}
			e = e.WithRetryAfter(x.Ruling.RetryAfter).WithDiagnostics(toolresult.Diagnostics{Provider: p.cap.info.ID, ProviderCode: x.Ruling.ProviderCode,
				RequestID: x.Ruling.RequestID, HTTPStatus: x.Status, ProviderText: x.Ruling.Text})
			break
		}
	}
	return e
}
