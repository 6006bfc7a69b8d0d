package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/client"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/client/vendor"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/connector/double"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const times = `,"start":"2026-12-01T09:00:00Z","end":"2026-12-01T10:00:00Z"}`

// The connector over the vendor's client keeps the contract. T1.
func TestContract_T1(t *testing.T) {
	connectortest.Test(t, connectortest.Fixture{
		New:    func() (connector.Connector, error) { return client.New("rooms") },
		Double: func(testing.TB) connectortest.Double { return double.New() },
		Samples: []connectortest.Sample{
			{Capability: "list_bookings", Args: `{"room":"r-12"}`, Empty: `{"room":"r-14"}`, Missing: `{"room":"r-404"}`, Denied: `{"room":"r-99"}`, Items: 6},
			{Capability: "book_room", Args: `{"room":"r-12","title":"review"` + times, Other: `{"room":"r-14","title":"retro"` + times,
				Missing: `{"room":"r-404","title":"review"` + times, Denied: `{"room":"r-99","title":"review"` + times},
		},
	})
}

// call makes one call of alice's against the double.
func call(t *testing.T, rooms http.Handler, c connector.Connector, capability, key, args string) (*toolresult.Result, connector.AuditEvent) {
	t.Helper()
	profile, eg := egresstest.Serve(t, rooms)
	profile.Name = "rooms"
	keys, err := credential.NewStatic("acme", egresstest.Base, func(context.Context) ([]byte, error) { return []byte("key-of-acme-agents"), nil }, nil)
	require.NoError(t, err)
	alice, host := authztest.Principal(t, "acme", "alice")
	var last connector.AuditEvent
	inv, err := connector.NewInvoker(authztest.AllowAsked(), []*authz.Authority{host}, []connector.Connector{c}, &connector.Options{
		Endpoints: []egress.Profile{profile}, Egress: eg, Credentials: keys, Forgetful: true,
		Audit: connector.AuditFunc(func(_ context.Context, e *connector.AuditEvent) error { last = *e; return nil })})
	require.NoError(t, err)
	return inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: alice, Capability: capability, Key: key, Arguments: json.RawMessage(args)}), last
}

// W3: with its retries left on, the vendor's client tries a change again when the
// answer is lost. One gets out all the same; the result says that nobody knows,
// and names the operation.
func TestASecondAttemptDoesNotLeave_W3(t *testing.T) {
	rooms := double.New()
	rooms.Lose(1)
	before := rooms.Count("acme")
	hasty := connector.Write(connector.WriteSpec{
		Spec: connector.Spec{Name: "book_hastily", Sensitivity: risk.Internal,
			Routes: []connector.Route{{Pattern: "POST /bookings", Effect: connector.Changes, Touches: []string{"room:{#/room}"}}}},
		SideEffect: risk.CompensableWrite, Approval: connector.ApprovalByPolicy, Idempotency: connector.Idempotency{Field: "/reference"},
	}, connector.ByArgs(func(in client.Book) authz.ResourceID { return authz.ResourceID{Type: "room", ID: in.Room} }),
		connector.Reconcilable(func(ctx context.Context, c *connector.WriteCall, in client.Book) (*connector.Receipt[vendor.Booking], error) {
			hub := &vendor.Client{Base: c.Reader().Connection().BaseURL, HTTP: c.HTTPClient()} // three tries
			made, err := hub.Book(ctx, vendor.Booking{Room: in.Room, Title: in.Title, Start: in.Start, End: in.End, Reference: c.Operation().UUID()})
			if err != nil {
				return nil, err
			}
			return connector.Applied(*made, "1"), nil
		}, func(context.Context, *connector.ReadCall, client.Book, operation.Operation) (*connector.Evidence[vendor.Booking], error) {
			return nil, nil
		}))
	r, _ := call(t, rooms, one(t, hasty), "book_hastily", "task-17/book", `{"room":"r-12","title":"review"`+times)
	require.Equal(t, toolresult.MeaningUnknownEffect, r.Meaning())
	require.NotEmpty(t, r.Effect.OperationID)
	require.Equal(t, before+1, rooms.Count("acme"), "booked once")
}

// one is a connector of one capability.
func one(t *testing.T, c connector.Capability) connector.Connector {
	t.Helper()
	out, err := connector.New(connector.Info{ID: "one", Version: "1.0.0", Owner: "nobody", Endpoint: "rooms", Auth: connector.Auth{Mode: connector.AuthAPIKey}}, c)
	require.NoError(t, err)
	return out
}

// T2: data that did not come through the call's client is no answer.
func TestAnotherClientIsRefused_T2(t *testing.T) {
	elsewhere := &http.Client{Transport: answers(`{"bookings":[{"id":1,"room":"r-12","title":"from elsewhere"}],"total":1}`)}
	around := connector.Read(connector.Spec{Name: "around", Sensitivity: risk.Internal, Routes: []connector.Route{{Pattern: "GET /bookings", Effect: connector.Reads, WholeConnection: true}}}, connector.OnConnection[client.Search],
		func(ctx context.Context, c *connector.ReadCall, in client.Search) (*connector.Answer[*vendor.Page], error) {
			got, err := (&vendor.Client{Base: "http://elsewhere.test", HTTP: elsewhere}).Bookings(ctx, in.Room, "", 10, 0)
			return connector.Found(got), err
		})
	r, event := call(t, double.New(), one(t, around), "around", "", `{"room":"r-12"}`)
	require.Equal(t, toolresult.MeaningFailed, r.Meaning(), r.Text(nil))
	require.Equal(t, toolresult.ContractViolation, r.Error.Code)
	require.NotContains(t, r.Text(nil), "from elsewhere")
	require.NotEmpty(t, event.Violation)
}

// answers is a transport that brings its own answers.
type answers string

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}
