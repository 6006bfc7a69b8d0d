package connector_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
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

type closeTicket struct {
	Ticket string `json:"ticket"`
}

type closed struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// closing is the update of an object that has an id: there is no room for a key.
func closing(idem connector.Idempotency) connector.Capability {
	s := connector.WriteSpec{SideEffect: risk.ReversibleWrite, Approval: connector.ApprovalByPolicy, Idempotency: idem, Settle: time.Second,
		Spec: spec("tickets.close", getIssue, connector.Route{Pattern: "PUT /issues/{ticket}.json", Effect: connector.Changes, Touches: []string{"ticket:{ticket}"}})}
	send := func(ctx context.Context, c *connector.WriteCall, in closeTicket) (*connector.Receipt[closed], error) {
		var out closed
		if _, err := c.Do(ctx, &connector.HTTPRequest{Route: "PUT /issues/{ticket}.json", Params: connector.Params{"ticket": in.Ticket},
			Body: map[string]string{"status": "closed"}, Out: &out}); err != nil {
			return nil, err
		}
		return connector.Applied(out, out.ID), nil
	}
	look := func(ctx context.Context, c *connector.ReadCall, in closeTicket, _ operation.Operation) (*connector.Evidence[closed], error) {
		var out closed
		if _, err := c.Get(ctx, "/issues/{ticket}.json", connector.Params{"ticket": in.Ticket}, &out); err != nil {
			return nil, err
		}
		if out.Status != "closed" {
			return connector.DidNotHappen[closed](), nil
		}
		return connector.Happened(out, out.ID), nil
	}
	onTicket := func(in closeTicket) authz.ResourceID { return authz.ResourceID{Type: "ticket", ID: in.Ticket} }
	return connector.Write(s, connector.ByArgs(onTicket), connector.Reconcilable(send, look))
}

// W3: a change that sets a value has no key at the provider. Its lost answer is
// found by the state that was asked for, in an answer about the very object.
func TestLookupOfANaturalChange_W3(t *testing.T) {
	natural := connector.Idempotency{Natural: true, Answer: "/id"}
	for _, row := range []struct {
		why    string
		idem   connector.Idempotency
		lose   bool   // before the provider has acted
		answer string // to the look-up; empty: what is so
		effect toolresult.Disposition
		breach string
	}{
		{why: "the state is the one that was asked for", idem: natural, effect: toolresult.EffectApplied},
		{why: "the state is as before", idem: natural, lose: true, effect: toolresult.EffectNotApplied},
		{why: "an answer about another object", idem: natural, answer: `{"id":"2","status":"closed"}`, effect: toolresult.EffectUnknown, breach: "Idempotency.Answer"},
		{why: "an answer without the object's id", idem: natural, answer: `{"status":"closed"}`, effect: toolresult.EffectUnknown, breach: "Idempotency.Answer"},
		{why: "no place is declared", idem: connector.Idempotency{Natural: true}, effect: toolresult.EffectUnknown, breach: "Idempotency.Answer"},
		{why: "a change that is not natural", idem: connector.Idempotency{Answer: "/id"}, effect: toolresult.EffectUnknown, breach: "Idempotency.Answer"},
	} {
		t.Run(row.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status := "open"
				w := newWorld(t, setup{caps: []connector.Capability{closing(row.idem)}, handler: func(rw http.ResponseWriter, r *http.Request) {
					if r.Method == "PUT" {
						if !row.lose {
							status = "closed"
						}
						hijack(rw)
						return
					}
					answer := row.answer
					if answer == "" {
						answer = `{"id":"1","status":"` + status + `"}`
					}
					_, _ = io.WriteString(rw, answer)
				}})
				r := w.keyed("tickets.close", key, `{"ticket":"1"}`)
				require.Equal(t, toolresult.EffectUnknown, r.Effect.Disposition)
				time.Sleep(time.Hour)
				r = w.inv.Lookup(t.Context(), &connector.LookupRequest{Principal: w.alice, OperationID: r.Effect.OperationID})
				require.Equal(t, row.effect, r.Effect.Disposition, w.violation())
				require.Contains(t, w.violation(), row.breach)
				require.Equal(t, 1, w.count("PUT"), "a look-up sends nothing again")
			})
		})
	}
}

// E3: what a connector says about a change that was refused reaches the caller,
// as it does for a read.
func TestRefusedChangeKeepsItsWords_E3(t *testing.T) {
	send := func(ctx context.Context, c *connector.WriteCall, in CreateTicket) (*connector.Receipt[Ticket], error) {
		if err := post(ctx, c, in.Subject); err != nil {
			return nil, toolresult.WrapError(toolresult.InvalidInput, "the project takes no such subject", err).With("/subject", "choose another")
		}
		return connector.Applied(Ticket{ID: 1}, "1"), nil
	}
	w := newWorld(t, setup{caps: []connector.Capability{connector.Write(createSpec(), connector.ByArgs(onProject), connector.Reconcilable(send, honest))},
		handler: func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(422) }})
	r := w.keyed("tickets.create", key, args)
	require.Equal(t, toolresult.EffectNotApplied, r.Effect.Disposition)
	require.Equal(t, toolresult.InvalidInput, r.Error.Code)
	require.EqualValues(t, "the project takes no such subject", r.Error.Message)
	require.Equal(t, "/subject", r.Error.Problems[0].Pointer)
}

// loud is a value that cannot be printed.
type loud struct{}

func (loud) String() string { panic("louder") }

// What went wrong in a connector's code is behind the error, for whoever
// wrote it, and nowhere in the result.
func TestCauseIsForOperators(t *testing.T) {
	read := func(f func(context.Context, *connector.ReadCall) error) connector.Capability {
		return connector.Read(spec("tickets.get", getIssue), connector.OnConnection, func(ctx context.Context, c *connector.ReadCall, _ GetTicket) (*connector.Answer[Ticket], error) {
			return nil, f(ctx, c)
		})
	}
	for _, row := range []struct {
		why   string
		f     func(context.Context, *connector.ReadCall) error
		code  toolresult.ErrorCode
		cause string
	}{
		{"an error of the function's own", func(context.Context, *connector.ReadCall) error { return errors.New("boom-7") }, toolresult.Internal, "boom-7"},
		{"a panic, and where", func(context.Context, *connector.ReadCall) error { panic("boom-8") }, toolresult.Internal, "panicked: boom-8 ("},
		{"a panic has its place", func(context.Context, *connector.ReadCall) error { panic("boom-9") }, toolresult.Internal, "author_test.go:"},
		{"a panic with a value that panics", func(context.Context, *connector.ReadCall) error { panic(loud{}) }, toolresult.Internal, "author_test.go:"},
		{"a panic with nil", func(context.Context, *connector.ReadCall) error { panic(nil) }, toolresult.Internal, "nil"},
		{"what was wrapped", func(context.Context, *connector.ReadCall) error {
			return toolresult.WrapError(toolresult.Conflict, "somebody was faster", errors.New("boom-10"))
		}, toolresult.Conflict, "boom-10"},
		{"text without end, and no text", func(context.Context, *connector.ReadCall) error {
			return toolresult.WrapError(toolresult.Conflict, "somebody was faster", errors.New(strings.Repeat("\xff\x00", 1<<20)))
		}, toolresult.Conflict, "somebody was faster"},
		{"what does not decode", func(ctx context.Context, c *connector.ReadCall) error {
			var out struct{ ID []int }
			_, err := c.Get(ctx, "/issues/{ticket}.json", connector.Params{"ticket": "1"}, &out)
			return err
		}, toolresult.ProviderError, "cannot unmarshal"},
	} {
		t.Run(row.why, func(t *testing.T) {
			w := newWorld(t, setup{caps: []connector.Capability{read(row.f)}, policy: authztest.AllowAsked(),
				handler: func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, `{"ID":"one"}`) }})
			r := w.call("tickets.get", `{"ticket":"1"}`)
			require.Equal(t, row.code, r.Error.Code)
			require.ErrorContains(t, r.Error.Cause(), row.cause)
			require.Less(t, len(r.Error.Cause().Error()), 8<<10)
			text, err := r.MarshalJSON()
			require.NoError(t, err)
			for _, secret := range []string{"boom", "panicked", ".go:", "unmarshal"} {
				require.NotContains(t, string(text), secret)
			}
		})
	}
}
