package connector

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	r := p.run(ctx)
	r = p.seal(r)
	p.audit(ctx, r)
	return r
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
	lastSeen  []seen
	decoded   any // the arguments as the typed handlers get them, read once
}

func (v *Invoker) start(req *InvokeRequest) *path {
	p := &path{v: v}
	if req != nil {
		p.req = *req
	}
	if p.req.CallID == "" {
		p.req.CallID = "call_" + rand.Text()
	}
	return p
}

// run is the governed path. Read it top to bottom: every surface comes here,
// and nothing of it can be left out or put in another order.
func (p *path) run(ctx context.Context) *toolresult.Result {
	ctx, cancel := context.WithTimeout(ctx, p.budget())
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
		return toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known, or its identity is over")
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

func (p *path) lookup(context.Context) error {
	if p.cap = p.v.caps[p.req.Capability]; p.cap == nil {
		return unknownCapability()
	}
	return nil
}

func (p *path) action() authz.Action {
	if p.cap == nil {
		return authz.Action{Capability: p.req.Capability}
	}
	return authz.Action{Connector: p.cap.info.ID, Capability: p.cap.decl.Name, Version: p.cap.info.Version, Class: p.cap.decl.Class}
}

func (p *path) question(purpose authz.Purpose) *authz.Request {
	q := &authz.Request{Principal: p.req.Principal, Action: p.action(), Purpose: purpose, Target: p.target,
		Account: p.conn.Account, Types: p.cap.types}
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
	case p.cap.decl.Idempotency.Field != "" && p.cap.decl.Idempotency.Answer == "" && len(key) < shortestKey:
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
	run := guard[authz.Target]
	if !p.cap.asks {
		run = inline
	}
	target, err := run(ctx, p.v, func() (authz.Target, error) { return c.Target(ctx, &TargetCall{&Call{s}}) })
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
	return &state{v: p.v, cap: p.cap, mode: m, id: p.req.CallID, principal: p.req.Principal, grant: p.grant, conn: p.conn,
		handle: p.resolved.Handle, endpoint: p.endpoint, args: p.args, page: p.page, progress: p.req.Progress, ctx: ctx, decoded: &p.decoded}
}

// guard runs a connector's code in a goroutine of its own. The code may panic,
// call Goexit or ignore its context: the call ends with the facts as they
// stand, and what the code does afterwards meets a closed client.
func guard[T any](ctx context.Context, v *Invoker, f func() (T, error)) (out T, err error) {
	type answer struct {
		out T
		err error
	}
	ch := make(chan answer, 1)
	go func() {
		a := answer{err: toolresult.NewError(toolresult.Internal, "the connector left without an answer")}
		defer func() {
			if r := recover(); r != nil {
				a.err = panicked(r)
			}
			ch <- a
		}()
		a.out, a.err = f()
	}()
	select {
	case a := <-ch:
		return a.out, a.err
	case <-ctx.Done():
	}
	select { // it ended at the same moment: what it says is worth more
	case a := <-ch:
		return a.out, a.err
	default:
	}
	v.abandoned.Add(1)
	v.log(ctx, "a connector's code ignores the end of its call, and was left behind")
	return out, ctx.Err()
}

// inline runs a connector's code that has nobody to wait for in the goroutine
// of the call: a goroutine of its own costs more than all such code does.
func inline[T any](_ context.Context, _ *Invoker, f func() (T, error)) (out T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
		}
	}()
	return f()
}

func panicked(r any) error {
	return toolresult.WrapError(toolresult.Internal, "the connector panicked", fmt.Errorf("panic: %v", r))
}

// claimOf names what a connector's code returned from a read.
func claimOf(r *toolresult.Result, err error) evidence.Claim {
	switch {
	case err != nil:
		return evidence.Failed
	case r == nil:
		return evidence.Nothing
	case r.Status == toolresult.StatusSuccess:
		return evidence.Answered
	case r.Status == toolresult.StatusPartial:
		return evidence.Gapped
	case r.Status == toolresult.StatusError && r.Error != nil:
		return evidence.Failed
	}
	return evidence.Nothing
}

// read runs a capability that changes nothing.
func (p *path) read(ctx context.Context) *toolresult.Result {
	s := p.state(ctx, reading)
	r, err := guard(ctx, p.v, func() (*toolresult.Result, error) { return p.cap.invoke(ctx, &Call{s}) })
	seen := s.close()
	if err == nil && r != nil && r.Status == toolresult.StatusError {
		err = r.Err()
	}
	f := evidence.Judge(evidence.Case{Step: evidence.Read, Claim: claimOf(r, err), Code: codeOf(err), Exchanges: exchanges(seen), Local: p.local()})
	if f.Code == "" && r.Effect.Disposition != toolresult.EffectNone {
		f.Code, f.Violation = toolresult.ContractViolation, "a read that claims an effect"
	}
	if p.violation = f.Violation; p.violation == "" {
		p.violation = s.breach
	}
	if f.Code != "" {
		return toolresult.Failure(p.req.CallID, p.failure(f.Code, err, seen))
	}
	if r, err = p.deliver(ctx, s, r, seen); err != nil {
		return toolresult.Failure(p.req.CallID, err)
	}
	return r
}

// local says that a capability declares no routes, and so makes no request.
func (p *path) local() bool { return len(p.cap.decl.Routes) == 0 }

// codeOf is the code of an error that the SDK or the connector made, and empty
// for a library's: that is classified by what the transport saw.
func codeOf(err error) toolresult.ErrorCode {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*toolresult.Error](err); ok && e != nil {
		return e.Code
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return toolresult.Code(err)
	}
	if e, ok := errors.AsType[*egress.Error](err); ok {
		if cause, ok := errors.AsType[*toolresult.Error](e.Cause()); ok && cause != nil { // a hook of ours said no, and why
			return cause.Code
		}
	}
	if errors.Is(err, toolresult.EgressDenied) { // by the client of another call, perhaps
		return toolresult.EgressDenied
	}
	return ""
}

// failure makes the error of a call from its code, what the connector said if
// it said the same, and what the transport saw.
func (p *path) failure(code toolresult.ErrorCode, err error, seen []seen) *toolresult.Error {
	e, ok := errors.AsType[*toolresult.Error](err)
	if !ok || e == nil || e.Code != code {
		e = codeError(code)
		if err != nil {
			e = toolresult.WrapError(code, e.Message, err)
		}
	} else {
		c := *e
		e = &c
	}
	e.Retryable = code.Info().Retryable
	for _, x := range slices.Backward(seen) {
		if x.Phase == egress.PhaseAnswered && !x.Ruling.OK {
			e.RetryAfter = x.Ruling.RetryAfter
			e.Diagnostics = toolresult.Diagnostics{Provider: p.cap.info.ID, ProviderCode: x.Ruling.ProviderCode, RequestID: x.Ruling.RequestID,
				HTTPStatus: x.Status, ProviderText: x.Ruling.Text}
			break
		}
	}
	return e
}

// deliver completes an answer that is believed, and withholds it if what made
// it is no longer so.
func (p *path) deliver(ctx context.Context, s *state, r *toolresult.Result, seen []seen) (*toolresult.Result, error) {
	if err := p.current(ctx); err != nil {
		return nil, err
	}
	out := *r
	r = &out
	if err := p.nextPage(s, r, seen); err != nil {
		return nil, err
	}
	if _, whole := p.target.Objects(); whole && !p.grant.Scope().Whole() && !p.local() {
		addGap(r, toolresult.GapVisibilityLimited)
	}
	p.provenance(r, seen)
	return r, p.filter(ctx, r)
}

// current asks again whether what was granted still holds.
func (p *path) current(ctx context.Context) error {
	if !vouched(p.v.trusted, p.req.Principal) && !(p.v.opts.Recovery != nil && p.v.opts.Recovery.Vouches(p.req.Principal)) {
		return toolresult.NewError(toolresult.AuthenticationRequired, "the caller's identity is over")
	}
	if !p.resolved.Handle.IsZero() {
		if err := p.v.opts.Credentials.Check(ctx, p.resolved.Handle); err != nil {
			return err
		}
	}
	return p.grant.Check(ctx)
}

func addGap(r *toolresult.Result, gap toolresult.Gap) {
	if slices.Contains(r.Coverage.Missing, gap) {
		return
	}
	r.Status = toolresult.StatusPartial
	r.Coverage = toolresult.Coverage{Missing: append(slices.Clone(r.Coverage.Missing), gap)}
}

// nextPage compares what a page says comes next with what the provider said,
// and seals the way there.
func (p *path) nextPage(s *state, r *toolresult.Result, seen []seen) error {
	if p.cap.decl.Kind != KindList {
		r.NextCursor = ""
		return nil
	}
	next, before := s.said.next, s.said.offset
	if next.IsZero() { // made by hand: the result says it
		if next, before = cursor.End(), -1; r.NextCursor != "" {
			next = cursor.At(r.NextCursor)
		} else if !r.Coverage.Complete {
			next = cursor.Cut()
		}
	}
	if next.AtEnd() && p.more(seen, before) {
		p.violation = "a page says that it is the last, and the provider says that there is more"
		return codeError(toolresult.ContractViolation)
	}
	r.NextCursor = ""
	if _, more := next.Token(); !more {
		return nil
	}
	sealed, err := p.v.opts.Cursors.Seal(p.cursorBinding(), next)
	if err != nil {
		return toolresult.WrapError(toolresult.Internal, "the cursor cannot be sealed", err)
	}
	r.NextCursor = sealed
	addGap(r, toolresult.GapRemainingPages)
	return nil
}

// more reports whether the last answer says that the listing goes on.
func (p *path) more(seen []seen, before int) bool {
	for _, x := range slices.Backward(seen) {
		if x.answer != nil && x.Ruling.OK {
			more, known := p.cap.decl.More.From(before).More(x.answer)
			return more && known
		}
	}
	return false
}

func (p *path) provenance(r *toolresult.Result, seen []seen) {
	o := &r.Provenance
	o.Service, o.Trust = p.cap.info.ID, p.v.opts.Trust[p.cap.info.ID]
	for _, x := range slices.Backward(seen) {
		if x.Phase == egress.PhaseAnswered && x.Ruling.OK {
			o.FetchedAt, o.RequestID = x.at.UTC().Truncate(time.Millisecond), x.Ruling.RequestID
			break
		}
	}
	for i := range o.Sources {
		o.Trust = min(o.Trust, o.Sources[i].Trust)
	}
}

// filter applies the output policy and the limits.
func (p *path) filter(ctx context.Context, r *toolresult.Result) (err error) {
	if r.Data, err = exclude(r.Data, p.cap.info.Exclude); err != nil {
		return err
	}
	if p.cap.output != nil && string(r.Data) != "null" && r.DataRef == "" {
		if err := p.cap.output.Check(r.Data); err != nil {
			p.violation = "an answer that does not fit the declared output"
			return toolresult.WrapError(toolresult.ContractViolation, "the answer does not have the declared form", err)
		}
	}
	if r.DataRef != "" {
		p.violation = "a connector names an artifact of its own"
		return codeError(toolresult.ContractViolation)
	}
	if int64(len(r.Data)) > p.cap.limits.Bytes {
		return p.keep(ctx, r)
	}
	return nil
}

// seal makes the result of a call one that Validate accepts, whatever happened.
func (p *path) seal(r *toolresult.Result) *toolresult.Result {
	r.CallID = p.req.CallID
	if r.Error != nil {
		r.Error.Retryable = r.Error.Code.Info().Retryable && r.Effect.Disposition != toolresult.EffectUnknown
	}
	err := r.Validate(&toolresult.ValidateOptions{ReadOnly: p.cap != nil && p.cap.decl.Kind != KindWrite})
	if err == nil {
		return r
	}
	p.violation = strings.TrimSpace(p.violation + " the result contradicts itself")
	switch op := r.Effect.OperationID; r.Effect.Disposition {
	case toolresult.EffectNone, toolresult.EffectNotApplied:
		return toolresult.Failure(p.req.CallID, toolresult.WrapError(toolresult.ContractViolation, "the connector's result contradicts itself", err))
	case toolresult.EffectApplied:
		return withheld(p.req.CallID, op)
	default:
		return toolresult.UnknownEffect(p.req.CallID, op)
	}
}
