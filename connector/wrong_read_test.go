package connector_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func runtimeGoexit() { runtime.Goexit() }

type page = connector.Page[Ticket]

// Each of these read connectors compiles and is wrong. The row says who refuses
// it: New, before it is a connector, or the wire, while it runs. (What the
// compiler refuses is in internal/house.)
func TestWrongReaders_K3_P1_A6_E5(t *testing.T) {
	onInc := connector.ByArgs(func(GetTicket) authz.ResourceID { return inc })
	var kept *http.Client
	fetch := func(c *http.Client, target string) error {
		resp, err := c.Get(target)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	type nested struct {
		Scope struct {
			TenantID string `json:"tenant_id"`
		} `json:"scope"`
	}
	for _, row := range []struct {
		why       string
		cap       connector.Capability
		refusedBy string // "New" with what it says, or "wire" with the code
		says      string
		code      toolresult.ErrorCode
		args      string
		forbidden string // prefix of requests that must not have arrived
		handler   http.HandlerFunc
	}{
		{why: "page one as everything", refusedBy: "wire", code: toolresult.ContractViolation, says: "there is more",
			cap: connector.List(connector.ListSpec{Spec: spec("t.x", listIssues), More: provider.LinkNext()}, connector.OnConnection,
				func(ctx context.Context, c *connector.ReadCall, _ GetTicket, _ connector.PageRequest) (*page, error) {
					var body struct{ Issues []Ticket }
					_, err := c.Get(ctx, "/issues.json", connector.Params{"project_id": "inc"}, &body)
					return connector.NewPage(body.Issues, cursor.End()), err
				})},
		{why: "a page that says nothing about the next", refusedBy: "wire", code: toolresult.ContractViolation,
			cap: connector.List(connector.ListSpec{Spec: spec("t.x", listIssues), More: provider.LinkNext()}, connector.OnConnection,
				func(ctx context.Context, c *connector.ReadCall, _ GetTicket, _ connector.PageRequest) (*page, error) {
					_, err := c.Get(ctx, "/issues.json", connector.Params{"project_id": "inc"}, nil)
					return &page{}, err
				})},
		{why: "401 as an empty answer", refusedBy: "wire", code: toolresult.ConnectionRequired,
			handler: func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(401) },
			cap: connector.Read(spec("t.x", getIssue), onInc, func(ctx context.Context, c *connector.ReadCall, _ GetTicket) (*connector.Answer[Ticket], error) {
				_, _ = c.Get(ctx, "/issues/{ticket}.json", connector.Params{"ticket": "1"}, nil)
				return connector.NoMatch[Ticket](), nil
			})},
		{why: "a failure as an empty answer", refusedBy: "wire", code: toolresult.ContractViolation, says: "names no gap",
			handler: func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) },
			cap: connector.Read(spec("t.x", getIssue), onInc, func(ctx context.Context, c *connector.ReadCall, _ GetTicket) (*connector.Answer[Ticket], error) {
				_, _ = c.Get(ctx, "/issues/{ticket}.json", connector.Params{"ticket": "1"}, nil)
				return connector.NoMatch[Ticket](), nil
			})},
		{why: "a write through a read's client", refusedBy: "wire", code: toolresult.EgressDenied, forbidden: "POST",
			cap: connector.Read(spec("t.x", getIssue), onInc, func(_ context.Context, c *connector.ReadCall, _ GetTicket) (*connector.Answer[Ticket], error) {
				_, err := c.HTTPClient().Post(c.Connection().BaseURL+"/issues.json", "application/json", strings.NewReader(`{}`))
				return connector.Found(Ticket{}), err
			})},
		{why: "a route that changes something in a read", refusedBy: "New", says: "a route that changes something",
			cap: connector.Read(spec("t.x", createIssue), onInc, getTicket)},
		{why: "its own client", refusedBy: "wire", code: toolresult.ContractViolation, says: "without one governed request",
			cap: connector.Read(spec("t.x", getIssue), onInc, func(context.Context, *connector.ReadCall, GetTicket) (*connector.Answer[Ticket], error) {
				return connector.Found(Ticket{ID: 1}), nil // from http.DefaultClient, or from memory
			})},
		{why: "a tenant as a parameter, nested", refusedBy: "New", says: "tenant",
			cap: connector.Read(spec("t.x", getIssue), connector.OnConnection, func(context.Context, *connector.ReadCall, nested) (*connector.Answer[Ticket], error) { return nil, nil })},
		{why: "another tenant's object", refusedBy: "wire", code: toolresult.EgressDenied, forbidden: "GET /issues.json?project_id=secret",
			cap: connector.Read(spec("t.x", listIssues), onInc, func(ctx context.Context, c *connector.ReadCall, _ GetTicket) (*connector.Answer[Ticket], error) {
				_, err := c.Get(ctx, "/issues.json", connector.Params{"project_id": "secret"}, nil)
				return connector.Found(Ticket{}), err
			})},
		{why: "a client kept from another call", refusedBy: "wire", code: toolresult.EgressDenied, args: "twice",
			cap: connector.Read(spec("t.x", getIssue), onInc, func(_ context.Context, c *connector.ReadCall, _ GetTicket) (*connector.Answer[Ticket], error) {
				if kept == nil {
					kept = c.HTTPClient()
				}
				return connector.Found(Ticket{}), fetch(kept, c.Connection().BaseURL+"/issues/1.json")
			})},
		{why: "a cursor kept in memory", refusedBy: "wire", code: toolresult.ContractViolation, says: "", args: "cursor",
			cap: connector.List(connector.ListSpec{Spec: spec("t.x", listIssues), More: provider.LinkNext()}, connector.OnConnection,
				func(ctx context.Context, c *connector.ReadCall, _ GetTicket, _ connector.PageRequest) (*page, error) {
					_, err := c.Get(ctx, "/issues.json", connector.Params{"project_id": "inc"}, nil)
					return connector.NewPage([]Ticket{{ID: 1}}, cursor.At("next")), err // where that is, only this process knows
				})},
		{why: "a repeated parameter", refusedBy: "wire", code: toolresult.EgressDenied, forbidden: "GET /issues.json",
			cap: connector.Read(spec("t.x", listIssues), onInc, func(_ context.Context, c *connector.ReadCall, _ GetTicket) (*connector.Answer[Ticket], error) {
				return connector.Found(Ticket{}), fetch(c.HTTPClient(), c.Connection().BaseURL+"/issues.json?project_id=inc&project_id=secret")
			})},
		{why: "%2e%2e in an argument", refusedBy: "wire", code: toolresult.InvalidInput, args: `{"ticket":"%2e%2e"}`, forbidden: "GET",
			cap: connector.Read(spec("t.x", getIssue), onInc, getTicket)},
		{why: "a path put together from an argument", refusedBy: "wire", code: toolresult.EgressDenied, args: `{"ticket":"../users/current"}`, forbidden: "GET",
			cap: connector.Read(spec("t.x", getIssue), onInc, func(_ context.Context, c *connector.ReadCall, in GetTicket) (*connector.Answer[Ticket], error) {
				return connector.Found(Ticket{}), fetch(c.HTTPClient(), c.Connection().BaseURL+"/issues/"+in.Ticket+".json")
			})},
	} {
		t.Run(row.why, func(t *testing.T) {
			kept = nil
			s := setup{handler: tickets, caps: []connector.Capability{row.cap}, policy: authztest.Policy(everyTicketOfInc)}
			if row.handler != nil {
				s.handler = row.handler
			}
			w, err := tryWorld(t, s)
			if row.refusedBy == "New" {
				require.ErrorContains(t, err, row.says)
				return
			}
			require.NoError(t, err)
			args := row.args
			switch args {
			case "", "twice", "cursor":
				args = `{"ticket":"1"}`
			}
			r := w.call("t.x", args)
			switch row.args {
			case "twice":
				require.NoError(t, r.Err())
				r = w.call("t.x", args)
			case "cursor":
				require.NoError(t, r.Err())
				r = w.call("t.x", `{"ticket":"1","cursor":"`+r.NextCursor+`"}`)
			}
			require.Equal(t, toolresult.StatusError, r.Status)
			require.Equal(t, row.code, r.Error.Code)
			require.Nil(t, r.Data)
			if row.code == toolresult.ContractViolation && row.says != "" {
				require.Contains(t, w.violation(), row.says)
			}
			if row.forbidden != "" {
				require.Zero(t, w.count(row.forbidden), w.requests)
			}
		})
	}
}

// everyTicketOfInc also permits the tickets of the project, so that only what
// the row is about is refused.
func everyTicketOfInc(r *authz.Request) (authz.Decision, error) {
	return authz.Decision{Verdict: authz.Allow, Scope: authz.Only(inc, authz.ResourceID{Type: "ticket", ID: "1"}), Revision: "r1"}, nil
}

// The control: the same world lets a right connector through.
func TestRightReader(t *testing.T) {
	w := newWorld(t, setup{handler: tickets, policy: authztest.Policy(everyTicketOfInc), caps: []connector.Capability{readTicket()}})
	require.NoError(t, w.call("tickets.get", `{"ticket":"1"}`).Err())
}
