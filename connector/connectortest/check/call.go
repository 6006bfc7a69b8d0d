package check

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const issuer = "https://issuer.test"

// A Call is one call of the connector. The zero fields are Alice's, without a
// cursor, and with a key and an approval that the session provides.
type Call struct {
	Sample     *Sample
	Capability string
	Args       string // JSON object
	Who        string // Alice, Bob or Carol; empty: Alice
	Cursor     string
	Size       int // page_size; 0: not said

	// Key is the key of a write. Empty: a new one for each call. Unapproved
	// makes no approval: APPROVAL_REQUIRED is the answer then.
	Key        string
	Unapproved bool
	Approval   string
}

// Kind returns the kind of the capability.
func (s *Session) Kind(c Call) connector.Kind {
	if d := s.Declaration(c.Capability); d != nil {
		return d.Kind
	}
	return ""
}

// Calls returns the ordinary call of each sample of the given kinds; of no kind,
// of all.
func (s *Session) Calls(kinds ...connector.Kind) (out []Call) {
	return s.With(func(x *Sample) string { return x.Args }, kinds...)
}

// Reads returns the ordinary calls that change nothing.
func (s *Session) Reads() []Call { return s.Calls(connector.KindRead, connector.KindList) }

// Lists returns the ordinary calls of listings, and Writes those of changes.
func (s *Session) Lists() []Call { return s.Calls(connector.KindList) }

// Writes returns the ordinary calls that change something.
func (s *Session) Writes() []Call { return s.Calls(connector.KindWrite) }

// With returns a call for each sample of the kinds for which args returns some.
func (s *Session) With(args func(*Sample) string, kinds ...connector.Kind) (out []Call) {
	for i := range s.Fixture.Samples {
		x := &s.Fixture.Samples[i]
		d := s.Declaration(x.Capability)
		if d == nil || len(kinds) > 0 && !slices.Contains(kinds, d.Kind) || d.Kind == connector.KindWrite && s.readsOnly() {
			continue
		}
		if text := args(x); text != "" {
			out = append(out, Call{Sample: x, Capability: x.Capability, Args: text})
		}
	}
	return out
}

// As returns the call as somebody else makes it: Bob's is the sample's for Bob.
func (c Call) As(who string) Call {
	c.Who = who
	if who == Bob && c.Sample != nil && c.Sample.Bob != "" {
		c.Args = c.Sample.Bob
	}
	return c
}

// WithArg returns the call with one argument replaced, or removed if v is nil.
func (c Call) WithArg(name string, v json.RawMessage) Call {
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(c.Args), &args) != nil || args == nil {
		args = map[string]json.RawMessage{}
	}
	if args[name] = v; v == nil {
		delete(args, name)
	}
	text, err := json.Marshal(args)
	if err == nil {
		c.Args = string(text)
	}
	return c
}

// Principal returns a caller.
func (s *Session) Principal(who string) authz.Principal {
	tenant := TenantA
	if who == Bob {
		tenant = TenantB
	}
	if who == "" {
		who = Alice
	}
	return s.PrincipalOf(tenant, who)
}

// PrincipalOf returns a caller of a tenant, whatever their name.
func (s *Session) PrincipalOf(tenant, user string) authz.Principal {
	p, err := s.authority.Principal(authz.Identity{Tenant: tenant, Issuer: issuer, Subject: user})
	if err != nil {
		s.run.breaks("a caller cannot be made: ", err)
	}
	return p
}

// Delegated returns a caller for whom somebody else acts.
func (s *Session) Delegated(who, actor string) authz.Principal {
	id := s.Principal(who).Identity()
	id.Delegation = &authz.Delegation{Actor: actor}
	p, err := s.authority.Principal(id)
	if err != nil {
		s.run.breaks("a caller cannot be made: ", err)
	}
	return p
}

// Request returns the call as the host receives it.
func (s *Session) Request(c Call) *connector.InvokeRequest {
	if c.Cursor != "" {
		c = c.WithArg("cursor", json.RawMessage(fmt.Sprintf("%q", c.Cursor)))
	}
	if c.Size > 0 {
		c = c.WithArg("page_size", json.RawMessage(fmt.Sprint(c.Size)))
	}
	id := fmt.Sprintf("call-%d", s.run.count(&s.run.calls))
	if c.Key == "" && s.Kind(c) == connector.KindWrite {
		c.Key = "connectortest-key-" + id
	}
	return &connector.InvokeRequest{CallID: id, Principal: s.Principal(c.Who), Capability: c.Capability, Arguments: json.RawMessage(c.Args),
		Key: c.Key, Approval: c.Approval, Surface: "connectortest"}
}

// Do makes a call, and gives it the approval of Dave if it needs one. It never
// returns nil: a surface that does is broken, and so is the check then.
func (s *Session) Do(ctx context.Context, c Call) *toolresult.Result {
	req := s.Request(c)
	r := s.invoke(ctx, req)
	if c.Unapproved || toolresult.Code(r.Err()) != toolresult.ApprovalRequired || r.Error.Approval == nil {
		return r
	}
	if err := s.Approve(ctx, r); err != nil {
		return r
	}
	again := *req
	again.Approval = r.Error.Approval.ID
	return s.invoke(ctx, &again)
}

// Prepare returns a call with a key, and with Dave's approval if it needs one:
// what is left to do is to send it.
func (s *Session) Prepare(ctx context.Context, c Call) Call {
	req := s.Request(c)
	c.Key = req.Key
	s.mu.Lock()
	plan, down := s.plan, s.down
	s.plan, s.down = nil, false
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.plan, s.down = plan, down
	}()
	need := s.Declaration(c.Capability)
	if need == nil || need.Kind != connector.KindWrite || need.Approval != connector.ApprovalAlways && need.Reconcilable && !s.Policy.asks(req) {
		return c
	}
	if r := s.invoke(ctx, req); toolresult.Code(r.Err()) == toolresult.ApprovalRequired && r.Error.Approval != nil && s.Approve(ctx, r) == nil {
		c.Approval = r.Error.Approval.ID
	}
	return c
}

func (s *Session) invoke(ctx context.Context, req *connector.InvokeRequest) (r *toolresult.Result) {
	if s.broken != nil {
		return toolresult.Failure(req.CallID, toolresult.WrapError(toolresult.Internal, "there is no host", s.broken))
	}
	if s.Brief && s.run.failed() {
		return toolresult.Failure(req.CallID, toolresult.NewError(toolresult.Cancelled, "the check has failed already"))
	}
	defer func() {
		if p := recover(); p != nil {
			s.Fail(fmt.Sprintf("a panic: %v", p), "a result, whatever happens")
			r = toolresult.Failure(req.CallID, toolresult.NewError(toolresult.Internal, "the surface panicked"))
		}
	}()
	if r = s.surface.Invoke(ctx, req); r == nil {
		s.Fail("no result at all", "a result, whatever happens")
		r = toolresult.Failure(req.CallID, toolresult.NewError(toolresult.Internal, "the surface gave no result"))
	}
	s.run.keep(r)
	return r
}

// Send makes a call as the surface would, without keys or approvals of the
// session's.
func (s *Session) Send(ctx context.Context, req *connector.InvokeRequest) *toolresult.Result {
	return s.invoke(ctx, req)
}

// Approve gives the approval that a result asks for, as the Dave of the tenant
// whose change it is.
func (s *Session) Approve(ctx context.Context, r *toolresult.Result) (err error) {
	step := r.Error.Approval
	for _, tenant := range []string{TenantA, TenantB} {
		if _, err = s.inv.Approve(ctx, &connector.ApproveRequest{Principal: s.PrincipalOf(tenant, Dave), ID: step.ID, Digest: step.Digest}); err == nil {
			return nil
		}
	}
	return err
}

// Violation is what the connector did wrong in the call of a result, as audit has
// it, or why a request of it did not leave; empty: nothing.
func (s *Session) Violation(r *toolresult.Result) string {
	return s.Audit.violation(r.CallID)
}

// Describe says what a result means in a few words.
func (s *Session) Describe(r *toolresult.Result) string {
	text := r.Meaning().String()
	if r.Error != nil {
		text = string(r.Error.Code)
	}
	if r.Effect.Disposition != toolresult.EffectNone {
		text += ", effect " + r.Effect.Disposition.String()
	}
	if v := s.Violation(r); v != "" {
		text += " (" + v + ")"
	}
	if v := s.Violation(r); v == "" && r.Error != nil && (r.Error.Code == toolresult.ContractViolation || r.Error.Code == toolresult.Internal) {
		text += ": " + string(r.Error.Message)
	}
	return text
}

// Expect states what must hold, and that it was looked at. What must hold is in
// want, what was seen in got.
func (s *Session) Expect(ok bool, got, want string) bool {
	s.run.count(&s.run.stated)
	if !ok {
		s.Fail(got, want)
	}
	return ok
}

// Fail says what was found.
func (s *Session) Fail(got, want string) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	f := Finding{Got: s.run.redact(got), Want: s.run.redact(want)}
	if len(s.run.findings) < 20 && !slices.Contains(s.run.findings, f) {
		s.run.findings = append(s.run.findings, f)
	}
}

// Inconclusive says why nothing can be concluded: what is missing and who can add it.
func (s *Session) Inconclusive(why string) {
	if s.run.inconclusive == "" {
		s.run.inconclusive = why
	}
}

// NotApplicable says that a probe found nothing to check.
func (s *Session) NotApplicable(why string) {
	if s.run.notApplicable == "" {
		s.run.notApplicable = why
	}
}

// WantCode expects that a call failed with one of the codes.
func (s *Session) WantCode(c Call, r *toolresult.Result, codes ...toolresult.ErrorCode) bool {
	return s.Expect(r.Error != nil && slices.Contains(codes, r.Error.Code), c.Capability+": "+s.Describe(r), c.Capability+": "+fmt.Sprint(codes))
}

// WantData expects that a call answered: completely, or with gaps that are named.
func (s *Session) WantData(c Call, r *toolresult.Result) bool {
	m := r.Meaning()
	return s.Expect(m == toolresult.MeaningComplete || m == toolresult.MeaningGaps || m == toolresult.MeaningPending, c.Capability+": "+s.Describe(r), c.Capability+": an answer with data")
}

// WantNone expects that no request arrived after the first n.
func (s *Session) WantNone(c Call, n int) bool {
	got := s.Requests() - n
	return s.Expect(got == 0, fmt.Sprintf("%s: %d requests at the provider", c.Capability, got), c.Capability+": none")
}
