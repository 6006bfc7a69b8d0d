package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/job"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

type newNote struct {
	Desk string `json:"desk"`
	Text string `json:"text"`
}

type note struct {
	ID int `json:"id"`
}

// writer leaves notes at a provider that knows no idempotency.
type writer struct{}

func (writer) Send(ctx context.Context, c *connector.WriteCall, in newNote) (*connector.Receipt[note], error) {
	var out note
	_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /notes", Out: &out, Body: map[string]any{"desk": in.Desk, "text": in.Text, "ref": c.Operation().UUID()}})
	if err != nil {
		return nil, err
	}
	return connector.Applied(out, strconv.Itoa(out.ID)), nil
}

func (writer) Reconcile(ctx context.Context, c *connector.ReadCall, in newNote, op operation.Operation) (*connector.Evidence[note], error) {
	var out struct{ Notes []note }
	if _, err := c.Get(ctx, "/notes", connector.Params{"desk": in.Desk, "ref": op.UUID()}, &out); err != nil {
		return nil, err
	}
	if len(out.Notes) != 1 {
		return nil, nil
	}
	return connector.Happened(out.Notes[0], strconv.Itoa(out.Notes[0].ID)), nil
}

// desk is the provider. What happens once it has applied a change is the test's.
type desk struct {
	mu    sync.Mutex
	notes []string // their refs
	then  func()
}

func (d *desk) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Method == "POST" {
		var in struct{ Ref string }
		b, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(b, &in)
		d.notes = append(d.notes, in.Ref)
		d.then()
		rw.WriteHeader(http.StatusCreated)
		fmt.Fprintf(rw, `{"id":%d}`, len(d.notes))
		return
	}
	for i, ref := range d.notes {
		if ref == r.URL.Query().Get("ref") {
			fmt.Fprintf(rw, `{"notes":[{"id":%d,"ref":%q}]}`, i+1, ref)
			return
		}
	}
	fmt.Fprint(rw, `{"notes":[]}`)
}

// mortal is the store of a process that dies: from then on nothing is stored.
// What it held it holds no longer.
type mortal struct {
	*sqlstore.Store
	dead atomic.Bool
}

func (m *mortal) CompareAndSwap(ctx context.Context, rec operation.Record) (operation.Record, error) {
	if m.dead.Load() {
		return operation.Record{}, errors.New("this process is dead")
	}
	rec.Until = time.Now()
	return m.Store.CompareAndSwap(ctx, rec)
}

func allowAll(*authz.Request) (authz.Decision, error) {
	return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "r1"}, nil
}

func invoker(t *testing.T, host *authz.Authority, profile egress.Profile, eg *egress.Options, store operation.Store) *connector.Invoker {
	t.Helper()
	c, err := connector.New(
		connector.Info{ID: "desk", Version: "1.0.0", Owner: "team", Endpoint: "test", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Write(connector.WriteSpec{
			Spec: connector.Spec{Name: "notes.add", Description: "A note.", Sensitivity: risk.Internal, Routes: []connector.Route{
				{Pattern: "POST /notes", Effect: connector.Changes, Touches: []string{"desk:{#/desk}"}},
				{Pattern: "GET /notes", Effect: connector.Reads, Touches: []string{"desk:{?desk}"}, Params: []string{"ref"}},
			}},
			SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy, Settle: time.Second,
			Idempotency: connector.Idempotency{Field: "/ref", Answer: "/notes/0/ref"},
		}, connector.ByArgs(func(in newNote) authz.ResourceID { return authz.ResourceID{Type: "desk", ID: in.Desk} }), writer{}))
	require.NoError(t, err)
	inv, err := connector.NewInvoker(authztest.Policy(allowAll), []*authz.Authority{host}, []connector.Connector{c}, &connector.Options{
		Endpoints: []egress.Profile{profile}, Egress: eg, Operations: store, Recovery: authz.NewAuthority("recovery"),
		Audit: connector.AuditFunc(func(context.Context, *connector.AuditEvent) error { return nil }),
	})
	require.NoError(t, err)
	return inv
}

// recovered has a process die after the provider applied the change and before
// it stored anything of the answer.
func recovered(t *testing.T, p place) {
	store, err := sqlstore.Open(t.Context(), p.db(t), p.dialect, &sqlstore.Options{Plaintext: true})
	require.NoError(t, err)
	dying := &mortal{Store: store}
	d := &desk{then: func() { dying.dead.Store(true) }}
	profile, eg := egresstest.Serve(t, d)
	alice, host := authztest.Principal(t, "acme", "alice")
	r := invoker(t, host, profile, eg, dying).Invoke(t.Context(), &connector.InvokeRequest{Principal: alice, Capability: "notes.add",
		Arguments: json.RawMessage(`{"desk":"front","text":"call back"}`), Key: "note-of-the-dead-process"})
	require.Equal(t, toolresult.EffectUnknown, r.Effect.Disposition, r.Err())
	left, err := store.Get(t.Context(), "acme", r.Effect.OperationID)
	require.NoError(t, err)
	require.Equal(t, operation.Dispatched, left.State)

	sweep := job.Recover(invoker(t, host, profile, eg, store), 10)
	sweep.Every = time.Second
	p.start(t, nil, sweep)
	eventually(t, func() bool {
		rec, err := store.Get(t.Context(), "acme", left.ID)
		return err == nil && rec.State == operation.Applied
	}, "it is settled")
	d.mu.Lock()
	defer d.mu.Unlock()
	require.Len(t, d.notes, 1, "recovery never sends")
}
