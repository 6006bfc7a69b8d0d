package connector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const key = "alert-ALR-1-incident"

// desk is a ticket provider that knows no idempotency. How it answers a create
// is a test's choice; what it has applied is the truth.
type desk struct {
	mu      sync.Mutex
	applied []string // keys, in order
	hidden  bool     // look-ups do not see what was created
	create  func(rw http.ResponseWriter, apply func() int)
}

func (d *desk) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method == "POST" {
		var in struct {
			Issue struct {
				Key string `json:"cf_1"`
			}
		}
		_ = json.Unmarshal(body, &in)
		apply := func() int {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.applied = append(d.applied, in.Issue.Key)
			return 4820 + len(d.applied)
		}
		if d.create != nil {
			d.create(rw, apply)
			return
		}
		rw.WriteHeader(201)
		fmt.Fprintf(rw, `{"issue":{"id":%d,"subject":"x","cf_1":%q}}`, apply(), in.Issue.Key)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for i, k := range d.applied {
		if k == r.URL.Query().Get("cf_1") && !d.hidden {
			found = append(found, fmt.Sprintf(`{"id":%d,"subject":"x","cf_1":%q}`, 4821+i, k))
		}
	}
	fmt.Fprintf(rw, `{"issues":[%s]}`, strings.Join(found, ","))
}

func (d *desk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.applied)
}

func createSpec() connector.WriteSpec {
	return connector.WriteSpec{Spec: spec("tickets.create", createIssue, findIssue), SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy,
		Idempotency: connector.Idempotency{Field: "/issue/cf_1", Answer: "/issues/0/cf_1"}, Settle: 5 * time.Second}
}

func onProject(in CreateTicket) authz.ResourceID {
	return authz.ResourceID{Type: "project", ID: in.Project}
}

func createTicket() connector.Capability {
	return connector.Write(createSpec(), connector.ByArgs(onProject), &creator{"cf_1"})
}

const args = `{"project":"inc","subject":"slow"}`

func writing(t testing.TB, d *desk, caps ...connector.Capability) *world {
	if caps == nil {
		caps = []connector.Capability{createTicket()}
	}
	return newWorld(t, setup{handler: d.ServeHTTP, caps: caps})
}

// hijack ends the connection without an answer.
func hijack(rw http.ResponseWriter) {
	conn, _, err := rw.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

func TestCreateOnce_W2_W5(t *testing.T) {
	d := &desk{}
	w := writing(t, d)
	r := w.keyed("tickets.create", key, args)
	require.Equal(t, toolresult.MeaningComplete, r.Meaning(), r.Err())
	require.Equal(t, toolresult.EffectApplied, r.Effect.Disposition)
	require.JSONEq(t, `{"id":4821,"subject":"x","updated_on":""}`, string(r.Data))
	require.Len(t, d.applied, 1)

	again := w.keyed("tickets.create", key, args)
	require.Equal(t, r.Effect, again.Effect, "a repeat returns the stored receipt")
	require.JSONEq(t, string(r.Data), string(again.Data))
	require.Equal(t, 1, w.count("POST"), "and sends nothing")

	other := w.keyed("tickets.create", key, `{"project":"inc","subject":"something else"}`)
	require.Equal(t, toolresult.Conflict, other.Error.Code, "the same key with another payload")
	require.Equal(t, 1, w.count("POST"))

	require.Equal(t, toolresult.InvalidInput, w.keyed("tickets.create", "", args).Error.Code, "a write without a key")
	require.Equal(t, toolresult.InvalidInput, w.keyed("tickets.create", "a b", args).Error.Code, "a key that is no key")
	require.Equal(t, toolresult.PermissionDenied, w.keyed("tickets.create", "k2-k2-k2-k2-k2-k2", `{"project":"secret","subject":"x"}`).Error.Code)
	require.Equal(t, 1, w.count("POST"))
}

// The audit log knows of a change before it leaves, and what came of it.
func TestAuditIntent_A5(t *testing.T) {
	d := &desk{}
	w := writing(t, d)
	w.keyed("tickets.create", key, args)
	require.Len(t, w.events, 2)
	require.NotEmpty(t, w.events[0].Request)
	require.Equal(t, toolresult.Record{}, w.events[0].Result)
	require.Equal(t, toolresult.EffectApplied, w.events[1].Result.Effect.Disposition)

	failing := newWorld(t, setup{handler: d.ServeHTTP, caps: []connector.Capability{createTicket()},
		opts: connector.Options{Audit: connector.AuditFunc(func(context.Context, *connector.AuditEvent) error { return errors.New("disk full") })}})
	r := failing.keyed("tickets.create", "another-key-0123456789", args)
	require.Equal(t, toolresult.StatusError, r.Status)
	require.Equal(t, toolresult.EffectNotApplied, r.Effect.Disposition)
	require.Equal(t, 1, d.count(), "an audit sink that fails closes writes")
}

func TestApprovalIsRefusedWithItsRendering_W1(t *testing.T) {
	d := &desk{}
	s := createSpec()
	s.Approval = connector.ApprovalAlways
	w := writing(t, d, connector.Write(s, connector.ByArgs(onProject), &creator{"cf_1"}))
	r := w.keyed("tickets.create", key, args)
	require.Equal(t, toolresult.ApprovalRequired, r.Error.Code)
	require.Equal(t, toolresult.EffectNone, r.Effect.Disposition)
	require.Contains(t, r.Error.Approval.Rendering, "POST http://provider.test:80/issues.json")
	require.Contains(t, r.Error.Approval.Rendering, `"subject":"slow"`)
	require.NotContains(t, r.Error.Approval.Rendering, canary)
	require.Equal(t, r.Error.Approval.Digest, w.keyed("tickets.create", key, args).Error.Approval.Digest, "the same change has the same digest")
	require.NotEqual(t, r.Error.Approval.Digest, w.keyed("tickets.create", key, `{"project":"inc","subject":"fast"}`).Error.Approval.Digest)
	require.Zero(t, w.count("POST"))

	byPolicy := newWorld(t, setup{handler: d.ServeHTTP, caps: []connector.Capability{createTicket()}, policy: authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		dec, err := allowInc(r)
		dec.Verdict = authz.AllowWithApproval
		return dec, err
	})})
	require.Equal(t, toolresult.ApprovalRequired, byPolicy.keyed("tickets.create", key, args).Error.Code)
	require.Zero(t, d.count())
}

// R4, W3: the receipt is lost: the effect is unknown, a repeat sends nothing, a reworded
// one is refused, and the look-up finds out.
func TestLostReceipt_W3_R4(t *testing.T) {
	d := &desk{hidden: true, create: func(rw http.ResponseWriter, apply func() int) { apply(); hijack(rw) }}
	w := writing(t, d)
	r := w.keyed("tickets.create", key, args)
	require.Equal(t, toolresult.MeaningUnknownEffect, r.Meaning())
	require.Equal(t, toolresult.OutcomeUnknown, r.Error.Code)
	require.NotEmpty(t, r.Effect.OperationID)
	require.False(t, r.Error.Retryable)
	require.Equal(t, 1, d.count())

	again := w.keyed("tickets.create", key, args)
	require.Equal(t, r.Effect, again.Effect)
	require.Equal(t, 1, w.count("POST"), "a repeat looks, and does not send")

	reworded := w.keyed("tickets.create", "another-key-0123456789", `{"project":"inc","subject":"really slow"}`)
	require.Equal(t, toolresult.Conflict, reworded.Error.Code, "a new key for the same class")
	require.Equal(t, 1, w.count("POST"))

	bob := authztest.Caller(t, w.host, "acme", "bob")
	foreign := w.inv.Lookup(t.Context(), &connector.LookupRequest{Principal: bob, OperationID: r.Effect.OperationID})
	require.Equal(t, toolresult.NotFound, foreign.Error.Code, "somebody else's operation")

	d.hidden = false
	found := w.inv.Lookup(t.Context(), &connector.LookupRequest{Principal: w.alice, OperationID: r.Effect.OperationID})
	require.Equal(t, toolresult.EffectApplied, found.Effect.Disposition, found.Err())
	require.Contains(t, string(found.Data), "4821")
	require.Equal(t, 1, w.count("POST"))

	d.create = nil
	next := w.keyed("tickets.create", "another-key-0123456789", `{"project":"inc","subject":"really slow"}`)
	require.Equal(t, toolresult.EffectApplied, next.Effect.Disposition, "once it is settled, a deliberate second change is possible")
	require.Equal(t, 2, d.count())
}

// Absence is believed after deadline and settle time, and not before.
func TestAbsence_W3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{create: func(rw http.ResponseWriter, _ func() int) { hijack(rw) }}
		w := writing(t, d)
		r := w.keyed("tickets.create", key, args)
		require.Equal(t, toolresult.EffectUnknown, r.Effect.Disposition)
		look := func() *toolresult.Result {
			return w.inv.Lookup(t.Context(), &connector.LookupRequest{Principal: w.alice, OperationID: r.Effect.OperationID})
		}
		require.Equal(t, toolresult.EffectUnknown, look().Effect.Disposition, "it may still be under way")
		time.Sleep(36 * time.Second)
		gone := look()
		require.Equal(t, toolresult.EffectNotApplied, gone.Effect.Disposition)
		require.Equal(t, toolresult.StatusError, gone.Status)
		require.Zero(t, d.count())
	})
}

// An operation that nobody can look up blocks its class until somebody other
// than its owner settles it.
func TestSettle_W3(t *testing.T) {
	d := &desk{create: func(rw http.ResponseWriter, apply func() int) { apply(); hijack(rw) }}
	s := createSpec()
	s.Approval = connector.ApprovalByPolicy
	w := writing(t, d)
	d.hidden = true
	r := w.keyed("tickets.create", key, args)
	require.Equal(t, toolresult.EffectUnknown, r.Effect.Disposition)
	settle := func(who authz.Principal) *toolresult.Result {
		return w.inv.Settle(t.Context(), &connector.SettleRequest{Principal: who, OperationID: r.Effect.OperationID, Applied: true})
	}
	require.Equal(t, toolresult.Conflict, settle(w.alice).Error.Code, "the owner does not settle it")
	stranger := authztest.Caller(t, w.host, "other", "eve")
	require.Equal(t, toolresult.NotFound, settle(stranger).Error.Code, "another tenant does not see it")
	bob := authztest.Caller(t, w.host, "acme", "bob")
	settled := settle(bob)
	require.Equal(t, toolresult.EffectApplied, settled.Effect.Disposition, settled.Err())
	rec, err := w.store.Get(t.Context(), "acme", r.Effect.OperationID)
	require.NoError(t, err)
	require.Equal(t, operation.Resolved, rec.State)
	require.Equal(t, "person:bob", rec.SettledBy)
	require.Equal(t, toolresult.EffectApplied, w.keyed("tickets.create", key, args).Effect.Disposition)
	require.Equal(t, 1, w.count("POST"))
}

func TestRecover_W4(t *testing.T) {
	d := &desk{hidden: true, create: func(rw http.ResponseWriter, apply func() int) { apply(); hijack(rw) }}
	recovery := authz.NewAuthority("recovery")
	w := newWorld(t, setup{handler: d.ServeHTTP, caps: []connector.Capability{createTicket()}, opts: connector.Options{Recovery: recovery}})
	r := w.keyed("tickets.create", key, args)
	require.Equal(t, toolresult.EffectUnknown, r.Effect.Disposition)
	n, err := w.inv.Recover(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n, "nothing is found yet")
	d.hidden = false
	n, err = w.inv.Recover(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, 1, w.count("POST"), "recovery never sends")
	rec, err := w.store.Get(t.Context(), "acme", r.Effect.OperationID)
	require.NoError(t, err)
	require.Equal(t, operation.Applied, rec.State)
}

// unreadable has records of which nothing is known any more, older than all others.
type unreadable struct {
	operation.Memory
	old int
}

func (u *unreadable) Unsettled(ctx context.Context, at time.Time, limit int) ([]operation.Record, error) {
	found, err := u.Memory.Unsettled(ctx, at, max(0, limit-u.old))
	return found, errors.Join(err, errors.New("three records cannot be opened"))
}

// Records that cannot be read do not keep recovery from the others, not even
// when there are more of them than it looks at.
func TestRecoverBesideUnreadable_W4(t *testing.T) {
	store := &unreadable{old: 3}
	d := &desk{hidden: true, create: func(rw http.ResponseWriter, apply func() int) { apply(); hijack(rw) }}
	w := newWorld(t, setup{handler: d.ServeHTTP, caps: []connector.Capability{createTicket()},
		opts: connector.Options{Recovery: authz.NewAuthority("recovery"), Operations: store}})
	require.Equal(t, toolresult.EffectUnknown, w.keyed("tickets.create", key, args).Effect.Disposition)
	d.hidden = false
	settled := 0
	for range 3 {
		n, err := w.inv.Recover(t.Context(), 2)
		require.ErrorContains(t, err, "three records cannot be opened")
		settled += n
	}
	require.Equal(t, 1, settled)
	require.Equal(t, 1, w.count("POST"), "recovery never sends")
}

// A receipt whose output may not be shown is applied all the same.
func TestAppliedButWithheld_R5(t *testing.T) {
	d := &desk{}
	var w *world
	d.create = func(rw http.ResponseWriter, apply func() int) {
		id := apply()
		w.broker.disconnect()
		rw.WriteHeader(201)
		fmt.Fprintf(rw, `{"issue":{"id":%d}}`, id)
	}
	w = writing(t, d)
	r := w.keyed("tickets.create", key, args)
	require.Equal(t, toolresult.StatusPartial, r.Status)
	require.Equal(t, toolresult.EffectApplied, r.Effect.Disposition)
	require.Equal(t, []toolresult.Gap{toolresult.GapOutputWithheld}, r.Coverage.Missing)
	require.Nil(t, r.Data)
	require.Nil(t, r.Error)
}

// Writes need a ledger that lasts and an audit log, or the word.
func TestForgetfulIsSaidAloud_W2(t *testing.T) {
	c, err := connector.New(connector.Info{ID: "t", Version: "1", Owner: "o", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Write(connector.WriteSpec{Spec: spec("t.w"), SideEffect: risk.CompensableWrite}, connector.OnConnection, connector.Irreconcilable(send)))
	require.NoError(t, err)
	_, host := authztest.Principal(t, "acme", "alice")
	_, err = connector.NewInvoker(authz.DenyAll{}, []*authz.Authority{host}, []connector.Connector{c}, nil)
	require.ErrorContains(t, err, "Options.Operations")
	require.ErrorContains(t, err, "Options.Audit")
	_, err = connector.NewInvoker(authz.DenyAll{}, []*authz.Authority{host}, []connector.Connector{c}, &connector.Options{Operations: &operation.Memory{}})
	require.ErrorContains(t, err, "Options.Operations", "a memory store is not durable")
	_, err = connector.NewInvoker(authz.DenyAll{}, []*authz.Authority{host}, []connector.Connector{c}, &connector.Options{Forgetful: true})
	require.NoError(t, err)
	_, err = connector.NewInvoker(authz.DenyAll{}, nil, []connector.Connector{c}, &connector.Options{Forgetful: true})
	require.ErrorContains(t, err, "authorities")
}

// Two people of one account use one key: neither is told that the other's
// change is their own.
func TestOneKeyTwoPeople_A8_W5(t *testing.T) {
	d := &desk{}
	w := writing(t, d)
	require.Equal(t, toolresult.EffectApplied, w.keyed("tickets.create", key, args).Effect.Disposition)
	d.create = func(rw http.ResponseWriter, _ func() int) { rw.WriteHeader(500) } // and creates nothing
	carol := authztest.Caller(t, w.host, "acme", "carol")
	r := w.inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: carol, Capability: "tickets.create", Key: key, Arguments: json.RawMessage(args)})
	require.Equal(t, toolresult.EffectUnknown, r.Effect.Disposition, "her ticket is not there, and alice's is not hers")

	byKey := func(ctx context.Context, c *connector.WriteCall, in CreateTicket) (*connector.Receipt[Ticket], error) {
		_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /issues.json", Body: map[string]any{"issue": map[string]any{
			"project_id": in.Project, "subject": in.Subject, "cf_1": c.Operation().Key}}})
		return connector.Applied(Ticket{}, "1"), err
	}
	for _, unique := range []bool{false, true} {
		d := &desk{}
		s := createSpec()
		s.Idempotency.KeyIsUnique = unique
		w := writing(t, d, connector.Write(s, connector.ByArgs(onProject), connector.Reconcilable(byKey, honest)))
		r := w.keyed("tickets.create", key, args)
		require.Equal(t, unique, r.Effect.Disposition == toolresult.EffectApplied, "a key names an operation where nobody else uses it: %v", r.Err())
		require.Equal(t, unique, d.count() == 1)
	}
}

// When it turns out that nothing was changed, the failure that the sending
// ended in is named.
func TestAbsenceNamesTheFailure_E3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{create: func(rw http.ResponseWriter, _ func() int) { rw.WriteHeader(502) }}
		w := writing(t, d)
		r := w.keyed("tickets.create", key, args)
		require.Equal(t, toolresult.EffectUnknown, r.Effect.Disposition)
		reworded := w.keyed("tickets.create", "another-key-0123456789", `{"project":"inc","subject":"again"}`)
		require.Equal(t, toolresult.Conflict, reworded.Error.Code)
		require.Contains(t, reworded.Error.Problems[0].Text, "look that operation up")
		time.Sleep(time.Minute)
		gone := w.inv.Lookup(t.Context(), &connector.LookupRequest{Principal: w.alice, OperationID: r.Effect.OperationID})
		require.Equal(t, toolresult.EffectNotApplied, gone.Effect.Disposition)
		require.Equal(t, toolresult.ProviderUnavailable, gone.Error.Code)
	})
}

// What an author has to know about a refused request is said to operators.
func TestNotSentIsSaid_A9(t *testing.T) {
	var denied *connector.Denied
	read := func(ctx context.Context, c *connector.ReadCall, in GetTicket) (*connector.Answer[Ticket], error) {
		_, err := c.Do(ctx, &connector.HTTPRequest{Route: "GET /issues/{ticket}.json", Params: connector.Params{"ticket": in.Ticket}, Header: http.Header{"X-From": {"a"}}})
		denied, _ = connector.WhyDenied(err)
		return nil, err
	}
	d := &desk{}
	w := newWorld(t, setup{handler: d.ServeHTTP, policy: authztest.Policy(everyTicketOfInc), caps: []connector.Capability{connector.Read(spec("t.x", getIssue), connector.OnConnection, read)}})
	require.Equal(t, toolresult.EgressDenied, w.call("t.x", `{"ticket":"1"}`).Error.Code)
	require.Contains(t, denied.Error(), "the header X-From is not declared")
	require.Contains(t, w.events[0].NotSent, "the header X-From is not declared")
}
