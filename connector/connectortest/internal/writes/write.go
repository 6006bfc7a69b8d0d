package writes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/fault"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func changing() []check.Check {
	return []check.Check{
		{
			ID: "write/reads-are-safe", Since: frozen, Modes: check.InDouble | check.InSandbox, Needs: needsRead, Kills: []string{"read-mutates"},
			Promise: "What is declared as a read changes nothing at the provider.",
			Run: func(ctx context.Context, s *check.Session) {
				for _, c := range asking(s) {
					before := s.Snapshot()
					s.WantData(c, s.Do(ctx, c))
					s.Expect(s.Snapshot() == before, c.Capability+": the provider's state is another than before", "the same")
				}
			},
		},
		{
			ID: "write/lost-response-is-unknown", Since: frozen, Needs: needsWrite, Kills: []string{"drop-is-not-applied", "drop-is-success"},
			Promise: "A change whose answer was lost, and that cannot be looked up, is unknown: neither made nor not made.",
			Run: eachWrite(func(ctx context.Context, s *check.Session, c check.Call) {
				before := s.Snapshot()
				r := blind(ctx, s, c, fault.Fault{DropAfter: true})
				s.Expect(s.Snapshot() != before, c.Capability+": the provider did not make the change", "a change whose answer is lost")
				wantUnknown(s, c, r)
			}),
		},
		{
			ID: "write/not-sent-is-not-applied", Since: frozen, Needs: needsWrite, Kills: []string{"all-unknown"},
			Promise: "A change that never left is not made, and is said to be so.",
			Run: eachWrite(func(ctx context.Context, s *check.Session, c check.Call) {
				c = s.Prepare(ctx, c)
				before := s.Snapshot()
				s.Down(true)
				wantNotApplied(s, c, s.Do(ctx, c))
				s.Down(false)
				s.Expect(s.Snapshot() == before, c.Capability+": a change was made all the same", "none")
			}),
		},
		{
			ID: "write/cancel-is-unknown", Since: frozen, Needs: needsWrite, Kills: []string{"cancel-is-not-applied"},
			Promise: "A caller who leaves after a change was sent gets an unknown effect; one who has left before, none.",
			Run:     eachWrite(runLeaving),
		},
		{
			ID: "write/5xx-is-unknown", Since: frozen, Needs: needsWrite, Kills: []string{"502-is-not-applied"},
			Promise: "A change that is answered with 500, 502 or 504 may have been made; one that is answered with 400 or 422 was not.",
			Run:     eachWrite(runStatuses),
		},
		{
			ID: "write/same-key-applies-once", Since: frozen, Needs: needsWrite, Kills: []string{"idem-dropped"},
			Promise: "The same key again, after whatever happened, makes one change and gives one result.",
			Run:     eachWrite(runOnce),
		},
		{
			ID: "write/one-key-per-call", Since: frozen, Needs: check.All(needsWrite, needsKey), Kills: []string{"retry-new-key"},
			Promise: "However often one change is tried, the provider is given the same key for it.",
			Run:     eachWrite(runOneKey),
		},
		{
			ID: "write/no-hidden-replay", Since: frozen, Needs: needsWrite, Kills: []string{"getbody-set"},
			Promise: "A change whose connection was lost is not sent again by itself: the provider sees it once.",
			Run: eachWrite(func(ctx context.Context, s *check.Session, c check.Call) {
				for _, read := range asking(s) {
					s.Do(ctx, read) // so that there are connections that were used before
				}
				c = s.Prepare(ctx, c)
				n := len(check.Changed(s.Seen()))
				s.Faults(fault.On(check.Changes, fault.Once(1, fault.Fault{DropAfter: true})))
				s.Do(ctx, c)
				sent := len(check.Changed(s.Seen())) - n
				s.Expect(sent == 1, fmt.Sprintf("%s: the change arrived %d times", c.Capability, sent), "once")
			}),
		},
		{
			ID: "write/key-needs-same-args", Since: frozen, Needs: needsWrite, Kills: []string{"key-ignores-args"},
			Promise: "A key that was used for one change is refused for another.",
			Run:     eachWrite(runOtherArgs),
		},
		{
			ID: "write/key-per-principal", Since: frozen, Needs: needsWrite, Kills: []string{"key-global"},
			Promise: "Two callers may use the same key: each gets a change of their own.",
			Run:     eachWrite(runTwoCallers),
		},
		{
			ID: "write/no-key-no-retry", Since: frozen, Needs: needsWrite, Kills: []string{"retry-without-key"},
			Promise: "A change that the caller gave no key for is sent at most once.",
			Run:     eachWrite(runKeyless),
		},
		{
			ID: "write/duplicate-delivery", Since: frozen, Level: check.Extended, Needs: check.All(needsWrite, needsEnforced), Kills: []string{"no-dedupe"},
			Promise: "A change that the network delivers twice is made once, where the provider enforces a key.",
			Run:     eachWrite(runTwice),
		},
		{
			ID: "write/reconcile-tells", Since: frozen, Needs: check.All(needsWrite, needsLookup), Kills: []string{"reconcile-guesses"},
			Promise: "After an unknown effect a look-up says whether the change was made, and changes nothing itself.",
			Run:     eachWrite(runReconcile),
		},
		{
			ID: "write/preview-is-safe", Since: frozen, Level: check.Extended, Needs: needsWrite, Kills: []string{"preview-writes"},
			Promise: "Asking what a change would be changes nothing, and gives the same answer each time.",
			Run:     onWrites(runPreview),
		},
	}
}

// eachWrite runs f for each write, each on a session of its own.
func eachWrite(f func(ctx context.Context, s *check.Session, c check.Call)) func(context.Context, *check.Session) {
	return func(ctx context.Context, s *check.Session) {
		for i, c := range s.Writes() {
			if i > 0 {
				s = s.Fresh()
			}
			f(ctx, s, c)
		}
	}
}

func needsKey(s *check.Subject) string {
	for _, d := range s.Manifest.Capabilities {
		if d.Idempotency.Header != "" || d.Idempotency.Field != "" {
			return ""
		}
	}
	return "no change bears a key at the provider"
}

func needsEnforced(s *check.Subject) string {
	for _, d := range s.Manifest.Capabilities {
		if d.Idempotency.Header != "" || d.Idempotency.Natural {
			return ""
		}
	}
	return "the provider enforces no key"
}

func needsLookup(s *check.Subject) string {
	for _, d := range s.Manifest.Capabilities {
		if d.Reconcilable {
			return ""
		}
	}
	return "no change can be looked up"
}

// noAnswers gives a fault to the changes, and makes every read after the first of
// them fail, so that nothing can be looked up. What a connector has to read before
// it changes something, it can.
func noAnswers(f fault.Fault) fault.Plan {
	sent := false
	return func(_ int, r *http.Request) fault.Fault {
		switch {
		case check.Changes(r):
			sent = true
			return f
		case sent:
			return fault.Fault{Status: 503}
		}
		return fault.Fault{}
	}
}

// blind makes a change under a fault, while nothing can be looked up.
func blind(ctx context.Context, s *check.Session, c check.Call, f fault.Fault) *toolresult.Result {
	c = s.Prepare(ctx, c)
	n := len(check.Changed(s.Seen()))
	s.Faults(noAnswers(f))
	defer s.Faults(nil)
	r := s.Do(ctx, c)
	s.Expect(len(check.Changed(s.Seen())) > n, c.Capability+": no change was sent: "+s.Describe(r), "one")
	return r
}

func wantUnknown(s *check.Session, c check.Call, r *toolresult.Result) {
	s.Expect(r.Effect.Disposition == toolresult.EffectUnknown && r.Effect.OperationID != "", c.Capability+": "+s.Describe(r), "an unknown effect, with the operation to look it up by")
}

func wantNotApplied(s *check.Session, c check.Call, r *toolresult.Result) {
	d := r.Effect.Disposition
	s.Expect(r.Error != nil && (d == toolresult.EffectNotApplied || d == toolresult.EffectNone), c.Capability+": "+s.Describe(r), "a failure that says that nothing was changed")
}

func runLeaving(ctx context.Context, s *check.Session, c check.Call) {
	c = s.Prepare(ctx, c)
	gone, leave := context.WithCancel(ctx)
	leave()
	n := len(check.Changed(s.Seen()))
	wantNotApplied(s, c, s.Do(gone, c))
	s.Expect(len(check.Changed(s.Seen())) == n, c.Capability+": a change was sent for a caller who had left", "none")
	s.Faults(noAnswers(fault.Fault{Hang: true}))
	leaving, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r := s.Do(leaving, c)
	if s.Expect(len(check.Changed(s.Seen())) > n, c.Capability+": no change was sent: "+s.Describe(r), "one") {
		wantUnknown(s, c, r)
	}
}

func runStatuses(ctx context.Context, s *check.Session, c check.Call) {
	for _, status := range []int{400, 422} {
		r := blind(ctx, s, c, fault.Fault{Status: status})
		wantNotApplied(s, c, r)
	}
	for _, status := range []int{500, 502, 504} {
		s = s.Fresh()
		wantUnknown(s, c, blind(ctx, s, c, fault.Fault{Status: status}))
	}
}

// runOnce repeats one change under one key, after each fault, and counts how
// often the provider's state changed.
func runOnce(ctx context.Context, s *check.Session, c check.Call) {
	faults := []fault.Fault{{}, {DropAfter: true}, {DropBefore: true}, {Status: 503}, {CutHeaders: true}, {Status: 429}}
	for i, f := range faults {
		if i > 0 {
			s = s.Fresh()
		}
		last := s.Snapshot()
		changed := 0
		count := func() {
			if now := s.Snapshot(); now != last {
				changed, last = changed+1, now
			}
		}
		c := s.Prepare(ctx, c)
		if !f.IsZero() {
			s.Faults(fault.On(check.Changes, fault.Once(1, f)))
		}
		results := []*toolresult.Result{}
		for range 3 {
			results = append(results, s.Do(ctx, c))
			count()
			s.Wait(2 * s.Declaration(c.Capability).Settle)
		}
		what := c.Capability + " three times"
		if !f.IsZero() {
			what += ", the first " + f.String()
		}
		s.Expect(changed <= 1, fmt.Sprintf("%s: %d changes", what, changed), "one")
		a, b := results[1], results[2]
		s.Expect(changed == 1 || b.Error != nil, what+": a receipt without a change: "+s.Describe(b), "one change, or an error")
		if a.Error == nil && b.Error == nil && a.Effect.Disposition == b.Effect.Disposition {
			s.Expect(string(a.Data) == string(b.Data), fmt.Sprintf("%s: first %s, then %s", what, a.Data, b.Data), "the same result")
		}
		s.Expect(!f.IsZero() || b.Error == nil, what+": "+s.Describe(b), "a receipt each time")
	}
}

// keyOf returns the key that an exchange bears where the declaration says.
func keyOf(d *connector.Declaration, x *check.Exchange) string {
	if d.Idempotency.Header != "" {
		return x.Header.Get(d.Idempotency.Header)
	}
	var v any
	if json.Unmarshal(x.Body, &v) != nil {
		return ""
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(d.Idempotency.Field, "/"), "/") {
		switch m := v.(type) {
		case map[string]any:
			v = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(m) {
				return ""
			}
			v = m[i]
		default:
			return ""
		}
	}
	text, _ := v.(string)
	return text
}

func runOneKey(ctx context.Context, s *check.Session, c check.Call) {
	d := s.Declaration(c.Capability)
	if d.Idempotency.Header == "" && d.Idempotency.Field == "" {
		return
	}
	c = s.Prepare(ctx, c)
	s.Faults(noAnswers(fault.Fault{DropBefore: true}))
	for range 3 {
		s.Do(ctx, c)
		s.Wait(time.Minute)
	}
	sent := check.Changed(s.Seen())
	s.Expect(len(sent) > 0, c.Capability+": no change was sent", "one")
	for _, x := range sent {
		key := keyOf(d, x)
		s.Expect(key != "" && key == keyOf(d, sent[0]), fmt.Sprintf("%s: one change with the keys %q and %q", c.Capability, keyOf(d, sent[0]), key), "one key")
	}
}

func runOtherArgs(ctx context.Context, s *check.Session, c check.Call) {
	other := c
	if other.Args = c.Sample.Other; other.Args == "" || other.Args == c.Args {
		s.Inconclusive("no second change to compare with: set Sample.Other of " + c.Capability)
		return
	}
	c = s.Prepare(ctx, c)
	s.WantData(c, s.Do(ctx, c))
	before, n := s.Snapshot(), len(check.Changed(s.Seen()))
	other.Key = c.Key
	r := s.Do(ctx, other)
	s.WantCode(other, r, toolresult.Conflict, toolresult.ApprovalInvalid)
	s.Expect(s.Snapshot() == before && len(check.Changed(s.Seen())) == n, c.Capability+": another change was made under a key that was used", "none")
}

func runTwoCallers(ctx context.Context, s *check.Session, c check.Call) {
	c.Key = "one-key-for-two-callers-" + c.Capability
	mine := s.Do(ctx, c)
	s.WantData(c, mine)
	before, n := s.Snapshot(), len(check.Changed(s.Seen()))
	his := c.As(check.Bob)
	r := s.Do(ctx, his)
	s.WantData(his, r)
	s.Expect(len(check.Changed(s.Seen())) == n+1 && s.Snapshot() != before, c.Capability+": no change was made for bob, who used a key that alice had used", "one of his own")
	s.Expect(r.Effect.OperationID != mine.Effect.OperationID, c.Capability+": two callers share an operation", "one for each")
}

func runKeyless(ctx context.Context, s *check.Session, c check.Call) {
	for i, f := range []fault.Fault{{DropAfter: true}, {Status: 503}, {Status: 429}} {
		if i > 0 {
			s = s.Fresh()
		}
		req := s.Request(c)
		req.Key = ""
		r := s.Send(ctx, req)
		n := len(check.Changed(s.Seen()))
		s.Expect(n == 0, fmt.Sprintf("%s without a key: %d changes were sent", c.Capability, n), "none")
		if !s.Expect(r.Error != nil, c.Capability+" without a key: "+s.Describe(r), "a refusal, or a question to a person") || r.Error.Approval == nil {
			continue
		}
		if err := s.Approve(ctx, r); err != nil {
			s.Inconclusive(c.Capability + ": the question cannot be answered: " + err.Error())
			return
		}
		req.Approval = r.Error.Approval.ID
		s.Faults(fault.On(check.Changes, fault.Once(1, f)))
		s.Send(ctx, req)
		sent := len(check.Changed(s.Seen()))
		s.Expect(sent == 1, fmt.Sprintf("%s without a key, %s: the change was sent %d times", c.Capability, f, sent), "once")
	}
}

func runTwice(ctx context.Context, s *check.Session, c check.Call) {
	if d := s.Declaration(c.Capability); d.Idempotency.Header == "" && !d.Idempotency.Natural {
		return
	}
	// A twin that is delivered once says what one change looks like.
	once := s.Fresh()
	c.Key = "delivered-twice-key-" + c.Capability
	once.WantData(c, once.Do(ctx, c))
	c = s.Prepare(ctx, c)
	s.Faults(fault.On(check.Changes, fault.Once(1, fault.Fault{Duplicate: 1})))
	r := s.Do(ctx, c)
	unknown := r.Effect.Disposition == toolresult.EffectUnknown
	s.Expect(unknown || s.Snapshot() == once.Snapshot(), c.Capability+", delivered twice: "+s.Describe(r)+", and the provider's state is not what one change makes", "one change, or an unknown effect")
}

func runReconcile(ctx context.Context, s *check.Session, c check.Call) {
	if !s.Declaration(c.Capability).Reconcilable {
		return
	}
	for i, f := range []fault.Fault{{DropAfter: true}, {DropBefore: true}} {
		if i > 0 {
			s = s.Fresh()
		}
		start := s.Snapshot()
		r := blind(ctx, s, c, f)
		if r.Effect.Disposition != toolresult.EffectUnknown || r.Effect.OperationID == "" {
			wantUnknown(s, c, r)
			continue
		}
		made := s.Snapshot() != start
		s.Wait(2*s.Declaration(c.Capability).Settle + time.Hour)
		before, n := s.Snapshot(), len(check.Changed(s.Seen()))
		found := s.Invoker().Lookup(ctx, &connector.LookupRequest{Principal: s.Principal(c.Who), OperationID: r.Effect.OperationID})
		want := toolresult.EffectNotApplied
		if made {
			want = toolresult.EffectApplied
		}
		s.Expect(found.Effect.Disposition == want, fmt.Sprintf("%s, %s: the look-up says %s", c.Capability, f, s.Describe(found)), want.String())
		s.Expect(s.Snapshot() == before && len(check.Changed(s.Seen())) == n, c.Capability+": the look-up changed something", "nothing")
	}
}

func runPreview(ctx context.Context, s *check.Session, c check.Call) {
	c.Unapproved, c.Key = true, "preview-key-of-"+c.Capability
	before := s.Snapshot()
	var shown []string
	for range 2 {
		r := s.Do(ctx, c)
		if !s.Expect(r.Error != nil && r.Error.Approval != nil, c.Capability+": "+s.Describe(r), "a question with what would be sent") {
			return
		}
		shown = append(shown, r.Error.Approval.Rendering)
	}
	s.Expect(shown[0] == shown[1] && shown[0] != "", c.Capability+": asked twice, it would send different things", "the same each time")
	s.Expect(s.Snapshot() == before && len(check.Changed(s.Seen())) == 0, c.Capability+": something was changed before anybody said yes", "nothing")
}
