package writes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var needsWrite = check.All(check.NeedsKind(connector.KindWrite), check.NeedsRoutes)

func audits() []check.Check {
	return []check.Check{
		{
			ID: "audit/one-event-per-call", Since: frozen, Kills: []string{"audit-missing"},
			Promise: "Each call leaves one final event.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Calls() {
					r := s.Do(ctx, c)
					got := len(final(s, r.CallID))
					want := 1
					if s.Kind(c) == connector.KindWrite {
						want = max(got, 1) // a call that asked for an approval, and its repetition with one id
					}
					s.Expect(got == want && got <= 2, fmt.Sprintf("%s: %d events", c.Capability, got), "one")
				}
			},
		},
		{
			ID: "audit/failures-too", Since: frozen, Kills: []string{"audit-success-only"},
			Promise: "Refusals and failures are recorded as well.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Calls() {
					bad := c.WithArg("no_such_argument", json.RawMessage(`1`))
					r := s.Do(ctx, bad)
					s.Expect(len(final(s, r.CallID)) == 1, c.Capability+": a refused call without an event", "one")
				}
				for _, c := range asking(s) {
					s.Faults(fault.Always(fault.Fault{Status: 503}))
					r := s.Do(ctx, c)
					events := final(s, r.CallID)
					s.Expect(len(events) == 1 && events[0].Result.Code != "", c.Capability+": a failed call without an event that says so", "one")
				}
			},
		},
		{
			ID: "audit/actor", Since: frozen, Kills: []string{"audit-wrong-actor"},
			Promise: "An event names the caller, the tenant, and who acted for the caller.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Calls() {
					for _, who := range []string{check.Alice, check.Bob} {
						req := s.Request(c.As(who))
						req.Principal = s.Delegated(who, "agent-7")
						r := s.Send(ctx, req)
						for _, e := range final(s, r.CallID) {
							s.Expect(e.Principal == s.Principal(who).Key() && e.Actor == "agent-7", fmt.Sprintf("%s by %s for %s is recorded as %v by %q", c.Capability, "agent-7", who, e.Principal, e.Actor), "caller and actor")
						}
					}
				}
			},
		},
		{
			ID: "audit/outcome-true", Since: frozen, Needs: needsWrite, Kills: []string{"audit-says-failed"},
			Promise: "An effect that is unknown is recorded as unknown, under the operation that it can be looked up by.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Writes() {
					c = s.Prepare(ctx, c)
					var sent atomic.Bool
					s.Faults(func(n int, r *http.Request) fault.Fault {
						switch {
						case check.Changes(r):
							sent.Store(true)
							return fault.Fault{DropAfter: true}
						case sent.Load(): // and nothing can be looked up
							return fault.Fault{Status: 503}
						}
						return fault.Fault{}
					})
					r := s.Do(ctx, c)
					if !s.Expect(r.Effect.Disposition == toolresult.EffectUnknown, c.Capability+": "+s.Describe(r), "an unknown effect") {
						continue
					}
					events := final(s, r.CallID)
					if s.Expect(len(events) > 0, c.Capability+": no event", "one") {
						e := events[len(events)-1]
						s.Expect(e.Result.Effect == r.Effect, fmt.Sprintf("%s: recorded as %v of %q", c.Capability, e.Result.Effect.Disposition, e.Result.Effect.OperationID), "unknown, with the operation")
					}
					s.Faults(nil)
				}
			},
		},
		{
			ID: "audit/intent-before-write", Since: frozen, Needs: needsWrite, Kills: []string{"audit-after"},
			Promise: "A change is recorded before it is sent; when it cannot be recorded, it is not sent.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Writes() {
					c = s.Prepare(ctx, c)
					before := s.Snapshot()
					sent := len(check.Changed(s.Seen()))
					s.Audit.Fail(true)
					r := s.Do(ctx, c)
					s.Audit.Fail(false)
					s.Expect(r.Effect.Disposition != toolresult.EffectApplied && r.Effect.Disposition != toolresult.EffectPending, c.Capability+", without audit: "+s.Describe(r), "no effect")
					s.Expect(len(check.Changed(s.Seen())) == sent && s.Snapshot() == before, c.Capability+": a change was sent that was not recorded", "nothing")
				}
			},
		},
		{
			ID: "audit/args-as-digest", Since: frozen, Kills: []string{"audit-args"},
			Promise: "Arguments are recorded as a digest: what they say is not in the log.",
			Run:     runDigest,
		},
		{
			ID: "audit/correlated", Since: frozen, Level: check.Extended, Kills: []string{"no-correlation"},
			Promise: "The caller's ids of the call and of the task reach the event.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range s.Calls() {
					req := s.Request(c)
					req.Run, req.Surface = "run-"+req.CallID, "connectortest"
					s.Send(ctx, req)
					ok := slices.ContainsFunc(s.Audit.Events(), func(e connector.AuditEvent) bool {
						return e.Result.CallID == req.CallID && e.Run == req.Run && e.Surface == req.Surface
					})
					s.Expect(ok, c.Capability+": no event with the ids of the call", "one")
				}
			},
		},
	}
}

// final returns the events at the end of a call.
func final(s *check.Session, callID string) (out []connector.AuditEvent) {
	for _, e := range s.Audit.Events() {
		if e.Result.CallID == callID {
			out = append(out, e)
		}
	}
	return out
}

const secretText = "what-only-the-caller-may-know-4711"

func runDigest(ctx context.Context, s *check.Session) {
	for _, c := range s.Calls() {
		var args map[string]any
		if json.Unmarshal([]byte(c.Args), &args) != nil {
			continue
		}
		for name, v := range args {
			if _, text := v.(string); !text {
				continue
			}
			quoted, err := json.Marshal(secretText)
			if err != nil {
				continue
			}
			s.Do(ctx, c.WithArg(name, quoted))
		}
		s.Do(ctx, c)
	}
	for _, e := range s.Audit.Events() {
		named := slices.ContainsFunc(e.Target, func(id authz.ResourceID) bool { return strings.Contains(id.ID, secretText) })
		text, err := json.Marshal(e)
		s.Expect(err == nil && (named || !strings.Contains(string(text)+fmt.Sprintf("%+v", e), secretText)), "an event of "+e.Action.Capability+" quotes an argument", "a digest")
		s.Expect(e.Arguments == "" || strings.HasPrefix(e.Arguments, "sha256:"), "an event of "+e.Action.Capability+" has the arguments "+e.Arguments[:min(len(e.Arguments), 40)], "a digest")
	}
}
