package connector

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Audit is told what happened.
type Audit interface {
	// Record keeps one event, durably when it returns nil. It is called
	// before a write is sent, where an error keeps it from being sent, and
	// after every call; a sink that fails therefore closes writes until it
	// works again. It MUST be safe for concurrent use and MUST NOT change e.
	Record(ctx context.Context, e *AuditEvent) error
}

// AuditFunc is an [Audit] that is a function.
type AuditFunc func(ctx context.Context, e *AuditEvent) error

// Record implements [Audit].
func (f AuditFunc) Record(ctx context.Context, e *AuditEvent) error { return f(ctx, e) }

// AuditEvent is one decision and what came of it. It holds no token, no
// arguments and no content.
type AuditEvent struct {
	Time       time.Time
	Principal  authz.PrincipalKey
	Actor      string // who acts for the principal, if anybody
	Action     authz.Action
	Target     []authz.ResourceID
	Verdict    authz.Verdict
	Revision   string // of the policy; empty if it was not asked or did not allow
	Reason     string // of the policy, for a denial
	Violation  string // what the connector did wrong; empty: nothing
	NotSent    string // why a request of the connector did not leave; empty: all left
	Arguments  string // "sha256:..." of the arguments in canonical form
	Request    string // "sha256:..." of the change that goes out, before a write is sent
	Connection string
	Key        string // the runtime's idempotency key of a write
	Run        string
	Surface    string
	Result     toolresult.Record // zero before a write is sent
}

var verdicts = [...]string{"deny", "allow", "allow_with_approval", "prohibit"}

// MarshalJSON writes the event in words, for a log of one line an event.
// Members that say nothing are left out; an event before a write is sent has no
// result.
func (e AuditEvent) MarshalJSON() ([]byte, error) {
	type principal struct {
		Tenant  string `json:"tenant"`
		Issuer  string `json:"issuer"`
		Subject string `json:"subject"`
	}
	target := make([]string, len(e.Target))
	for i, t := range e.Target {
		target[i] = t.Type + ":" + t.ID
	}
	verdict := "unknown"
	if int(e.Verdict) < len(verdicts) {
		verdict = verdicts[e.Verdict]
	}
	var result *toolresult.Record
	if e.Result.CallID != "" {
		result = &e.Result
	}
	return json.Marshal(struct {
		Time        time.Time          `json:"time"`
		Principal   principal          `json:"principal"`
		Actor       string             `json:"actor,omitempty"`
		Connector   string             `json:"connector,omitempty"`
		Capability  string             `json:"capability"`
		Version     string             `json:"version,omitempty"`
		SideEffect  string             `json:"side_effect"`
		Sensitivity string             `json:"sensitivity"`
		Target      []string           `json:"target,omitempty"`
		Verdict     string             `json:"verdict"`
		Revision    string             `json:"revision,omitempty"`
		Reason      string             `json:"reason,omitempty"`
		Violation   string             `json:"violation,omitempty"`
		NotSent     string             `json:"not_sent,omitempty"`
		Arguments   string             `json:"arguments,omitempty"`
		Request     string             `json:"request,omitempty"`
		Connection  string             `json:"connection,omitempty"`
		Key         string             `json:"key,omitempty"`
		Run         string             `json:"run,omitempty"`
		Surface     string             `json:"surface,omitempty"`
		Result      *toolresult.Record `json:"result,omitempty"`
	}{
		e.Time.UTC(), principal(e.Principal), e.Actor, e.Action.Connector, e.Action.Capability, e.Action.Version,
		e.Action.Class.SideEffect.String(), e.Action.Class.Sensitivity.String(), target, verdict, e.Revision, e.Reason, e.Violation, e.NotSent,
		e.Arguments, e.Request, e.Connection, e.Key, e.Run, e.Surface, result,
	})
}

// event starts the event of a path.
func (p *path) event() *AuditEvent {
	id := p.req.Principal.Identity()
	e := &AuditEvent{
		Time: time.Now(), Principal: p.req.Principal.Key(), Action: p.action(), Revision: p.grant.Revision(),
		Arguments: p.digest, Connection: p.conn.ID, Key: p.req.Key, Run: p.req.Run, Surface: p.req.Surface, Violation: p.violation, NotSent: p.notSent,
	}
	if id.Delegation != nil {
		e.Actor = id.Delegation.Actor
	}
	objects, _ := p.target.Objects()
	for _, o := range objects {
		e.Target = append(e.Target, o.ResourceID)
	}
	switch {
	case p.denied != nil:
		e.Verdict, e.Reason = p.denied.Decision.Verdict, p.denied.Decision.Reason
	case p.grant.IsZero():
	case p.grant.NeedsApproval():
		e.Verdict = authz.AllowWithApproval
	default:
		e.Verdict = authz.Allow
	}
	return e
}

// audit records the end of a call. A call is over when it fails: what it read
// is delivered, and what it changed is in the ledger.
func (p *path) audit(ctx context.Context, r *toolresult.Result) {
	if p.violation != "" {
		p.v.log(ctx, "a connector broke its contract", slog.String("capability", p.req.Capability),
			slog.String("call_id", p.req.CallID), slog.String("violation", p.violation))
	}
	if p.v.opts.Audit == nil {
		return
	}
	e := p.event()
	e.Result = r.Record()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditLimit)
	defer cancel()
	if err := p.v.opts.Audit.Record(ctx, e); err != nil {
		p.v.log(ctx, "the audit sink failed", slog.String("call_id", p.req.CallID))
	}
}

// auditLimit is how long a call waits for the audit sink after its end.
const auditLimit = 10 * time.Second

// argumentsDigest is what audit keeps of arguments, before they were checked.
func argumentsDigest(args []byte) string { return strictjson.Digest(string(args)) }
