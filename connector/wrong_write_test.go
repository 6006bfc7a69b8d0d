package connector_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

type (
	sendFunc = func(context.Context, *connector.WriteCall, CreateTicket) (*connector.Receipt[Ticket], error)
	lookFunc = func(context.Context, *connector.ReadCall, CreateTicket, operation.Operation) (*connector.Evidence[Ticket], error)
)

func post(ctx context.Context, c *connector.WriteCall, subject string) error {
	_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /issues.json", Body: map[string]any{"issue": map[string]any{
		"project_id": "inc", "subject": subject, "cf_1": c.Operation().UUID()}}})
	return err
}

func honest(ctx context.Context, c *connector.ReadCall, in CreateTicket, op operation.Operation) (*connector.Evidence[Ticket], error) {
	return (&creator{"cf_1"}).Reconcile(ctx, c, in, op)
}

// W3, W5, W6, K3: each of these write connectors compiles and is wrong. None of them makes two
// changes, and none gets a false answer through.
func TestWrongWriters_W3_W5_W6_K3(t *testing.T) {
	applied := func() *connector.Receipt[Ticket] { return connector.Applied(Ticket{ID: 1}, "1") }
	lose := func(rw http.ResponseWriter, apply func() int) { apply(); hijack(rw) }
	fail := func(rw http.ResponseWriter, apply func() int) { apply(); rw.WriteHeader(500) }
	readsPost := connector.Route{Pattern: "POST /issues.json", Effect: connector.Reads, Touches: []string{"project:{#/issue/project_id}"}}
	closing := connector.Route{Pattern: "GET /issues/{ticket}/close", Effect: connector.Changes, Touches: []string{"ticket:{ticket}"}}
	var runs atomic.Int64
	var kept *connector.WriteCall
	for _, row := range []struct {
		why     string
		spec    connector.WriteSpec
		send    sendFunc
		look    lookFunc
		create  func(http.ResponseWriter, func() int)
		new     string // New refuses, and says so
		code    toolresult.ErrorCode
		effect  toolresult.Disposition
		breach  string
		posts   int // requests that may have arrived
		lookups bool
	}{
		{why: "two posts", code: toolresult.OutcomeUnknown, effect: toolresult.EffectUnknown, breach: "second change", posts: 1,
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				_ = post(ctx, c, "one")
				_ = post(ctx, c, "one")
				return applied(), nil
			}},
		{why: "two different posts, seen before anything is sent", code: toolresult.ContractViolation, effect: toolresult.EffectNone, breach: "more than one change",
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				_ = post(ctx, c, "one")
				_ = post(ctx, c, "two")
				return applied(), nil
			}},
		{why: "a receipt after a 500", code: toolresult.OutcomeUnknown, effect: toolresult.EffectUnknown, breach: "did not confirm", create: fail, posts: 1,
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				_ = post(ctx, c, "one")
				return applied(), nil
			}, look: func(context.Context, *connector.ReadCall, CreateTicket, operation.Operation) (*connector.Evidence[Ticket], error) {
				return nil, nil
			}},
		{why: "a lost answer called not applied", code: toolresult.OutcomeUnknown, effect: toolresult.EffectUnknown, create: lose, posts: 1,
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				if post(ctx, c, "one") != nil {
					return nil, toolresult.NewError(toolresult.InvalidInput, "nothing was created")
				}
				return applied(), nil
			}, look: func(context.Context, *connector.ReadCall, CreateTicket, operation.Operation) (*connector.Evidence[Ticket], error) {
				return connector.DidNotHappen[Ticket](), nil
			}},
		// W6: to search first is no idempotency: what was found is not what was made.
		{why: "search before create, reported as success", code: toolresult.OutcomeUnknown, effect: toolresult.EffectUnknown, breach: "did not see",
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				_, err := c.Reader().Get(ctx, "/issues.json", connector.Params{"project_id": "inc", "cf_1": "x"}, nil)
				return applied(), err
			}},
		{why: "a write from Reconcile", code: toolresult.OutcomeUnknown, effect: toolresult.EffectUnknown, create: lose, posts: 1, lookups: true,
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				return nil, post(ctx, c, "one")
			}, look: func(ctx context.Context, c *connector.ReadCall, _ CreateTicket, op operation.Operation) (*connector.Evidence[Ticket], error) {
				_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /issues.json", Body: map[string]any{"issue": map[string]any{"project_id": "inc", "cf_1": op.UUID()}}})
				return connector.Happened(Ticket{ID: 1}, "1"), err
			}},
		{why: "a GET that writes, in a capability that has no other", new: "",
			spec: func() connector.WriteSpec {
				s := createSpec()
				s.Routes = []connector.Route{closing}
				s.Idempotency = connector.Idempotency{}
				return s
			}(),
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				_, err := c.Reader().Get(ctx, "/issues/{ticket}/close", connector.Params{"ticket": "1"}, nil)
				return applied(), err
			}, code: toolresult.ContractViolation, effect: toolresult.EffectNone, breach: "a read tried to change"},
		{why: "a write route declared as reading", new: "none of its routes changes anything",
			spec: func() connector.WriteSpec { s := createSpec(); s.Routes = []connector.Route{readsPost}; return s }()},
		{why: "a write through a route that is declared as reading, beside a real one", code: toolresult.OutcomeUnknown, effect: toolresult.EffectUnknown, breach: "did not see", posts: 1,
			spec: func() connector.WriteSpec {
				s := createSpec()
				s.Routes = []connector.Route{readsPost, closing}
				s.Idempotency = connector.Idempotency{}
				return s
			}(),
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				return applied(), post(ctx, c, "one")
			}},
		{why: "an operation kept and used later", code: toolresult.EgressDenied, effect: toolresult.EffectNone, posts: 1,
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				if runs.Add(1) <= 2 {
					kept = c
					err := post(ctx, c, "one")
					return applied(), err
				}
				return nil, post(ctx, kept, "late")
			}},
		{why: "another request in the second run", code: toolresult.ContractViolation, effect: toolresult.EffectNotApplied, breach: "its body",
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				if err := post(ctx, c, fmt.Sprint(runs.Add(1))); err != nil {
					return nil, err
				}
				return applied(), nil
			}},
		{why: "the key is not sent", code: toolresult.ContractViolation, effect: toolresult.EffectNone, breach: "does not carry the operation's key",
			send: func(ctx context.Context, c *connector.WriteCall, _ CreateTicket) (*connector.Receipt[Ticket], error) {
				_, err := c.Do(ctx, &connector.HTTPRequest{Route: "POST /issues.json", Body: map[string]any{"issue": map[string]any{"project_id": "inc"}}})
				return applied(), err
			}},
		{why: "neither a receipt nor an error", code: toolresult.ContractViolation, effect: toolresult.EffectNone, breach: "neither a receipt nor an error",
			send: func(context.Context, *connector.WriteCall, CreateTicket) (*connector.Receipt[Ticket], error) {
				return nil, nil
			}},
		{why: "its own client", code: toolresult.OutcomeUnknown, effect: toolresult.EffectUnknown, breach: "did not see",
			send: func(context.Context, *connector.WriteCall, CreateTicket) (*connector.Receipt[Ticket], error) {
				runs.Add(1)
				return applied(), nil
			}},
	} {
		t.Run(row.why, func(t *testing.T) {
			runs.Store(0)
			if row.look == nil {
				row.look = honest
			}
			if row.send == nil {
				row.send = (&creator{"cf_1"}).Send
			}
			s := row.spec
			if s.Name == "" {
				s = createSpec()
			}
			d := &desk{create: row.create, hidden: true}
			w, err := tryWorld(t, setup{handler: d.ServeHTTP, caps: []connector.Capability{connector.Write(s, connector.ByArgs(onProject), connector.Reconcilable(row.send, row.look))}})
			if row.new != "" {
				require.ErrorContains(t, err, row.new)
				return
			}
			require.NoError(t, err)
			r := w.keyed("tickets.create", key, args)
			if row.why == "an operation kept and used later" {
				require.NoError(t, r.Err())
				r = w.keyed("tickets.create", "another-key-0123456789", args)
			}
			if row.lookups {
				r = w.inv.Lookup(t.Context(), &connector.LookupRequest{Principal: w.alice, OperationID: r.Effect.OperationID})
			}
			require.Equal(t, toolresult.StatusError, r.Status, string(r.Data))
			require.Equal(t, row.code, r.Error.Code, w.violation())
			require.Equal(t, row.effect, r.Effect.Disposition)
			require.Contains(t, w.violation(), row.breach)
			require.Equal(t, row.posts, w.count("POST"), w.requests)
			require.LessOrEqual(t, runs.Load(), int64(3))
		})
	}
}
