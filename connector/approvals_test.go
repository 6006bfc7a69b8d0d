package connector_test

import (
	"crypto/rand"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// office is a world in which alice needs an approval for what boss may do
// plainly.
type office struct {
	*world
	desk *desk
	boss authz.Principal

	approvals authz.MemoryApprovals
	relax     bool // alice needs none
	strict    bool // everybody needs one
}

func newOffice(t *testing.T) *office {
	o := &office{desk: &desk{}}
	policy := authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		d, err := allowInc(r)
		if (r.Principal.Key().Subject != "boss" && !o.relax) || o.strict {
			d.Verdict = authz.AllowWithApproval
		}
		return d, err
	})
	o.world = newWorld(t, setup{handler: o.desk.ServeHTTP, policy: policy, caps: []connector.Capability{createTicket()},
		opts: connector.Options{Approvals: &o.approvals}})
	o.boss = authztest.Caller(t, o.host, "acme", "boss")
	return o
}

func (o *office) ask(args string) *toolresult.ApprovalStep {
	o.t.Helper()
	r := o.keyed("tickets.create", key, args)
	require.Equal(o.t, toolresult.ApprovalRequired, r.Error.Code)
	return r.Error.Approval
}

func (o *office) approve(who authz.Principal, step *toolresult.ApprovalStep) error {
	_, err := o.inv.Approve(o.t.Context(), &connector.ApproveRequest{Principal: who, ID: step.ID, Digest: step.Digest})
	return err
}

func (o *office) with(who authz.Principal, key, approval, args string) *toolresult.Result {
	return o.inv.Invoke(o.t.Context(), &connector.InvokeRequest{Principal: who, Capability: "tickets.create", Key: key, Approval: approval, Arguments: json.RawMessage(args)})
}

func TestApproved_W1(t *testing.T) {
	o := newOffice(t)
	step := o.ask(args)
	require.Contains(t, step.Rendering, "POST http://provider.test:80/issues.json\nas acme-account\nAccept: application/json\n")
	require.Equal(t, step, o.ask(args), "asking again asks the same")
	pending, err := o.inv.Approvals(t.Context(), o.boss, 10)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	mine, err := o.inv.Approvals(t.Context(), o.alice, 10)
	require.NoError(t, err)
	require.Empty(t, mine, "who needs an approval gives none")

	require.NoError(t, o.approve(o.boss, step))
	require.NoError(t, o.approve(o.boss, step), "twice is once")
	require.Zero(t, o.count("POST"), "approving sends nothing")
	r := o.keyed("tickets.create", key, args)
	require.Equal(t, toolresult.EffectApplied, r.Effect.Disposition, r.Err())
	rec, err := o.store.Get(t.Context(), "acme", r.Effect.OperationID)
	require.NoError(t, err)
	require.Equal(t, step.ID, rec.Approval, "the operation's record is the use of the approval")
	require.Equal(t, r.Effect, o.keyed("tickets.create", key, args).Effect)
	require.Equal(t, 1, o.desk.count())
}

// The first thousand are not passed for all of them.
func TestManyApprovals_W1(t *testing.T) {
	o := newOffice(t)
	a, err := o.approvals.Approval(t.Context(), "acme", o.ask(args).ID)
	require.NoError(t, err)
	add := func(n int) {
		for range n {
			a.ID, a.Rev = rand.Text(), 0
			_, err := o.approvals.PutApproval(t.Context(), a)
			require.NoError(t, err)
		}
	}
	add(999)
	all, err := o.inv.Approvals(t.Context(), o.boss, 2000)
	require.NoError(t, err)
	require.Len(t, all, 1000)
	add(1)
	all, err = o.inv.Approvals(t.Context(), o.boss, 2000)
	require.ErrorIs(t, err, toolresult.ResultTooLarge)
	require.Len(t, all, 1000, "what was found is there")
	all, err = o.inv.Approvals(t.Context(), o.boss, 10)
	require.NoError(t, err, "no more were asked for")
	require.Len(t, all, 10)
	_, err = o.inv.Approvals(t.Context(), o.alice, 10)
	require.ErrorIs(t, err, toolresult.ResultTooLarge, "nothing among the first is not nothing")
}

// Who may not approve learns nothing; what was not shown is not approved.
func TestWhoApproves_W1_E7(t *testing.T) {
	o := newOffice(t)
	step := o.ask(args)
	stranger := authztest.Caller(t, o.host, "other", "boss")
	foreign, _ := authztest.Principal(t, "acme", "boss")
	unknown := &toolresult.ApprovalStep{ID: "apr_nosuch", Digest: step.Digest}
	missing := o.approve(o.boss, unknown)
	require.ErrorIs(t, missing, toolresult.NotFound)
	require.Equal(t, missing.Error(), o.approve(o.alice, step).Error(), "the requester, who needs an approval")
	require.Equal(t, missing.Error(), o.approve(stranger, step).Error(), "another tenant's boss")
	require.ErrorIs(t, o.approve(foreign, step), toolresult.AuthenticationRequired, "a boss that another authority made")
	require.ErrorIs(t, o.approve(o.boss, &toolresult.ApprovalStep{ID: step.ID, Digest: "sha256:00"}), toolresult.ApprovalInvalid)
	o.ask(args)
	require.Zero(t, o.count("POST"))
}

// An approval is for one change: whatever is altered, it says what.
func TestApprovalIsForOneChange_W1(t *testing.T) {
	o := newOffice(t)
	step := o.ask(args)
	require.NoError(t, o.approve(o.boss, step))
	bob := authztest.Caller(t, o.host, "acme", "bob")
	for _, row := range []struct {
		why, key, args string
		who            authz.Principal
		says           []string
	}{
		{"one byte of the arguments", key, `{"project":"inc","subject":"slow!"}`, o.alice, []string{"arguments", "rendered request"}},
		{"another operation", "another-key-0123456789", args, o.alice, []string{"operation", "rendered request"}},
		{"another principal", key, args, bob, nil},
	} {
		r := o.with(row.who, row.key, step.ID, row.args)
		require.Equal(t, toolresult.ApprovalInvalid, r.Error.Code, row.why)
		require.Len(t, r.Error.Problems, len(row.says), row.why)
		for i, s := range row.says {
			require.Contains(t, r.Error.Problems[i].Text, s, row.why)
		}
	}
	require.Zero(t, o.count("POST"))
	require.Equal(t, toolresult.ApprovalRequired, o.keyed("tickets.create", key, `{"project":"inc","subject":"slow!"}`).Error.Code, "another change is another question")
}

// An approval of one account is none of another, and one of a tenant is not there
// for another, whose policy and rights are the same.
func TestApprovalOfAnother_W1(t *testing.T) {
	o := newOffice(t)
	step := o.ask(args)
	stranger, theirBoss := authztest.Caller(t, o.host, "other", "alice"), authztest.Caller(t, o.host, "other", "boss")
	require.ErrorIs(t, o.approve(theirBoss, step), toolresult.NotFound, "another tenant's boss")
	require.NoError(t, o.approve(o.boss, step))

	r := o.with(stranger, key, step.ID, args)
	require.Equal(t, toolresult.ApprovalInvalid, r.Error.Code, "another tenant, the same name")
	require.Empty(t, r.Error.Problems, "it says nothing of what is not there for it")

	r = o.inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: o.alice, Capability: "tickets.create", Key: key, Approval: step.ID,
		Connection: "conn-2", Arguments: json.RawMessage(args)})
	require.Equal(t, toolresult.ApprovalInvalid, r.Error.Code, "another account")
	require.Contains(t, r.Error.Problems[0].Text, "connection")
	require.Zero(t, o.desk.count())
	require.Equal(t, toolresult.EffectApplied, o.with(o.alice, key, step.ID, args).Effect.Disposition, "it is still good for what was approved")
}

// A host without a key repeats the call by the approval.
func TestApprovalCarriesTheKey_W1(t *testing.T) {
	o := newOffice(t)
	first := o.with(o.alice, "", "", args)
	require.Equal(t, toolresult.ApprovalRequired, first.Error.Code)
	require.NoError(t, o.approve(o.boss, first.Error.Approval))
	r := o.with(o.alice, "", first.Error.Approval.ID, args)
	require.Equal(t, toolresult.EffectApplied, r.Effect.Disposition, r.Err())
	again := o.with(o.alice, "", first.Error.Approval.ID, args)
	require.Equal(t, r.Effect, again.Effect, "one approval, one operation")
	require.Equal(t, 1, o.desk.count())
	o.relax = true
	require.Equal(t, toolresult.InvalidInput, o.with(o.alice, "", "", args).Error.Code, "where nobody is asked, a key is needed")
}

func TestApprovalEnds_W1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		step := o.ask(args)
		time.Sleep(2 * time.Hour)
		require.ErrorIs(t, o.approve(o.boss, step), toolresult.ApprovalInvalid, "the question is over")
		step = o.ask(args)
		require.NoError(t, o.approve(o.boss, step))
		time.Sleep(2 * time.Hour)
		late := o.keyed("tickets.create", key, args)
		require.Equal(t, toolresult.ApprovalInvalid, late.Error.Code)
		require.Contains(t, late.Error.Problems[0].Text, "expiry")
		require.NoError(t, o.approve(o.boss, late.Error.Approval), "it is asked anew at once")
		require.Equal(t, toolresult.EffectApplied, o.keyed("tickets.create", key, args).Effect.Disposition)
		require.Equal(t, 1, o.desk.count())
	})
}

// A stricter policy ends an approval; another revision that is as permissive
// does not.
func TestApprovalAndPolicy_W1(t *testing.T) {
	s := createSpec()
	s.Approval = connector.ApprovalAlways
	revision, verdict := "r1", authz.Allow
	policy := authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		d, err := allowInc(r)
		d.Revision = revision
		if r.Principal.Key().Subject != "boss" {
			d.Verdict = verdict
		}
		return d, err
	})
	for _, row := range []struct {
		why string
		set func()
		ok  bool
	}{
		{"another revision, as permissive", func() { revision = "r2" }, true},
		{"the policy now asks for approval itself", func() { verdict = authz.AllowWithApproval }, false},
		{"the policy now denies", func() { verdict = authz.Deny }, false},
	} {
		revision, verdict = "r1", authz.Allow
		d := &desk{}
		w := newWorld(t, setup{handler: d.ServeHTTP, policy: policy, opts: connector.Options{Approvals: &authz.MemoryApprovals{}},
			caps: []connector.Capability{connector.Write(s, connector.ByArgs(onProject), &creator{"cf_1"})}})
		step := w.keyed("tickets.create", key, args).Error.Approval
		boss := authztest.Caller(t, w.host, "acme", "boss")
		_, err := w.inv.Approve(t.Context(), &connector.ApproveRequest{Principal: boss, ID: step.ID, Digest: step.Digest})
		require.NoError(t, err, row.why)
		row.set()
		r := w.keyed("tickets.create", key, args)
		require.Equal(t, row.ok, r.Effect.Disposition == toolresult.EffectApplied, "%s: %v", row.why, r.Err())
		require.Equal(t, row.ok, d.count() == 1, row.why)
	}
}

func TestApprovalUsedAtOnce_W1(t *testing.T) {
	o := newOffice(t)
	require.NoError(t, o.approve(o.boss, o.ask(args)))
	var wg sync.WaitGroup
	results := make([]*toolresult.Result, 20)
	for i := range results {
		wg.Go(func() { results[i] = o.with(o.alice, key, "", args) })
	}
	wg.Wait()
	require.Equal(t, 1, o.desk.count())
	for _, r := range results {
		require.Contains(t, []toolresult.Disposition{toolresult.EffectApplied, toolresult.EffectUnknown}, r.Effect.Disposition, r.Err())
	}
}

// W1: no is an answer too: it lasts, nobody turns it round, and who may not say
// yes says no to the own question only.
func TestRefused_W1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		step := o.ask(args)
		refuse := func(who authz.Principal) error {
			_, err := o.inv.Refuse(t.Context(), &connector.ApproveRequest{Principal: who, ID: step.ID, Digest: step.Digest})
			return err
		}
		require.ErrorIs(t, refuse(authztest.Caller(t, o.host, "acme", "bob")), toolresult.NotFound, "somebody who may not approve")
		require.ErrorIs(t, refuse(authztest.Caller(t, o.host, "other", "boss")), toolresult.NotFound, "another tenant's boss")
		require.NoError(t, refuse(o.boss))
		require.NoError(t, refuse(o.boss), "twice is once")
		require.ErrorIs(t, o.approve(o.boss, step), toolresult.ApprovalInvalid, "nobody turns it round")
		pending, err := o.inv.Approvals(t.Context(), o.boss, 10)
		require.NoError(t, err)
		require.Empty(t, pending)
		for _, approval := range []string{"", step.ID} {
			r := o.with(o.alice, key, approval, args)
			require.Equal(t, toolresult.ApprovalInvalid, r.Error.Code)
			require.Contains(t, r.Error.Problems[0].Text, "no")
			require.Nil(t, r.Error.Approval, "it is not asked again")
		}
		require.Zero(t, o.count("POST"))
		time.Sleep(2 * time.Hour)
		require.NoError(t, o.approve(o.boss, o.ask(args)), "when the answer is over, it can be asked again")
		require.Equal(t, toolresult.EffectApplied, o.keyed("tickets.create", key, args).Effect.Disposition)
	})
}

// W1: what was approved and not used can be taken back, by who approved and by
// the requester.
func TestTakenBack_W1(t *testing.T) {
	for _, row := range []struct {
		why string
		who func(o *office) authz.Principal
	}{
		{"the approver", func(o *office) authz.Principal { return o.boss }},
		{"the requester", func(o *office) authz.Principal { return o.alice }},
	} {
		o := newOffice(t)
		step := o.ask(args)
		require.NoError(t, o.approve(o.boss, step), row.why)
		a, err := o.inv.Refuse(t.Context(), &connector.ApproveRequest{Principal: row.who(o), ID: step.ID, Digest: step.Digest})
		require.NoError(t, err, row.why)
		require.True(t, a.Refused)
		require.Equal(t, row.who(o).Key(), a.Approver, "it says who")
		require.Equal(t, toolresult.ApprovalInvalid, o.keyed("tickets.create", key, args).Error.Code, row.why)
		require.Zero(t, o.desk.count(), row.why)
	}
}

// W1, E7: a question is shown to its requester and to whoever may answer it, and
// for everybody else it is not there.
func TestApprovalIsShown_W1_E7(t *testing.T) {
	o := newOffice(t)
	step := o.ask(args)
	_, missing := o.inv.Approval(t.Context(), o.boss, "apr_nosuch")
	require.ErrorIs(t, missing, toolresult.NotFound)
	for _, row := range []struct {
		why string
		who authz.Principal
		ok  bool
	}{
		{"the requester", o.alice, true},
		{"who may answer it", o.boss, true},
		{"a colleague who may not", authztest.Caller(t, o.host, "acme", "bob"), false},
		{"another tenant's boss", authztest.Caller(t, o.host, "other", "boss"), false},
	} {
		a, err := o.inv.Approval(t.Context(), row.who, step.ID)
		if !row.ok {
			require.Equal(t, missing.Error(), err.Error(), row.why)
			continue
		}
		require.NoError(t, err, row.why)
		require.Equal(t, step.Digest, a.Statement.Digest())
	}
	foreign, _ := authztest.Principal(t, "acme", "boss")
	_, err := o.inv.Approval(t.Context(), foreign, step.ID)
	require.ErrorIs(t, err, toolresult.AuthenticationRequired)
}

// W1, E7: who may approve sees what a person is shown; for everybody else, and
// for the requester, it is not there.
func TestMayApprove_W1_E7(t *testing.T) {
	o := newOffice(t)
	step := o.ask(args)
	a, err := o.inv.MayApprove(t.Context(), o.boss, step.ID)
	require.NoError(t, err)
	require.Equal(t, step.Digest, a.Statement.Digest())
	require.Equal(t, step.Rendering, a.Rendering)
	theirBoss := authztest.Caller(t, o.host, "other", "boss")
	_, missing := o.inv.MayApprove(t.Context(), o.boss, "apr_none")
	require.ErrorIs(t, missing, toolresult.NotFound)
	for _, who := range []authz.Principal{o.alice, theirBoss} {
		_, err = o.inv.MayApprove(t.Context(), who, step.ID)
		require.Equal(t, missing.Error(), err.Error())
	}
	_, err = o.inv.MayApprove(t.Context(), authz.Principal{}, step.ID)
	require.ErrorIs(t, err, toolresult.AuthenticationRequired)
	require.Zero(t, o.desk.count())
}

// W1: where the endpoint begins is part of what is shown and approved: the same
// change below another path is another one.
func TestBaseIsApproved_W1(t *testing.T) {
	policy := authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		d, err := allowInc(r)
		d.Verdict = authz.AllowWithApproval
		return d, err
	})
	digests := map[string]string{}
	for _, base := range []string{"", "/tenant-a", "/tenant-b"} {
		d := &desk{}
		w := newWorld(t, setup{handler: d.ServeHTTP, base: base, policy: policy, caps: []connector.Capability{createTicket()}, opts: connector.Options{Approvals: &authz.MemoryApprovals{}}})
		r := w.keyed("tickets.create", key, args)
		require.Equal(t, toolresult.ApprovalRequired, r.Error.Code, "%v", r.Err())
		step := r.Error.Approval
		require.Contains(t, step.Rendering, "POST http://provider.test:80"+base+"/issues.json")
		require.NotContains(t, digests, step.Digest)
		digests[step.Digest] = base
	}
}
