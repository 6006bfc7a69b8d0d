package connection_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

type getTicket struct {
	Ticket string `json:"ticket" jsonschema:"number of the ticket"`
}

type ticket struct {
	ID   string `json:"id"`
	Seen string `json:"seen"`
}

// invoker puts a connector over the world's API behind the governed path.
func (w *world) invoker() *connector.Invoker {
	w.t.Helper()
	read := connector.Read(
		connector.Spec{Name: "tickets.get", Description: "One ticket by its number.", Sensitivity: risk.Internal, Scopes: []string{"read"},
			Routes: []connector.Route{{Pattern: "GET /tickets/{ticket}", Effect: connector.Reads, Touches: []string{"ticket:{ticket}"}}}},
		connector.ByArgs(func(in getTicket) authz.ResourceID { return authz.ResourceID{Type: "ticket", ID: in.Ticket} }),
		func(ctx context.Context, c *connector.ReadCall, in getTicket) (*connector.Answer[ticket], error) {
			var out ticket
			if _, err := c.Get(ctx, "/tickets/{ticket}", connector.Params{"ticket": in.Ticket}, &out); err != nil {
				return nil, err
			}
			return connector.Found(out), nil
		})
	c, err := connector.New(connector.Info{ID: "tickets", Version: "1.0.0", Owner: "team", Endpoint: "test", Auth: connector.Auth{Mode: connector.AuthDelegatedOAuth}}, read)
	require.NoError(w.t, err)
	inv, err := connector.NewInvoker(authztest.AllowAsked(), []*authz.Authority{w.host}, []connector.Connector{c},
		&connector.Options{Endpoints: []egress.Profile{egresstest.Profile()}, Egress: w.eg, Credentials: w.m, Forgetful: true,
			Audit: connector.AuditFunc(func(context.Context, *connector.AuditEvent) error { return nil })})
	require.NoError(w.t, err)
	return inv
}

func (w *world) call(inv *connector.Invoker) *toolresult.Result {
	w.t.Helper()
	return inv.Invoke(w.t.Context(), &connector.InvokeRequest{Principal: w.alice, Capability: "tickets.get", Arguments: json.RawMessage(`{"ticket":"7"}`)})
}

// The whole second hop through the governed path: no account, consent, a call,
// renewal, an extension, disconnect, refused afterwards.
// C1 C3 C5 C8: one path from "connect an account" to "disconnected".
func TestSecondHop_C1_C3_C5_C8(t *testing.T) {
	var w *world
	api := func(rw http.ResponseWriter, r *http.Request) {
		tok, ok := w.as.Bearer(r)
		if !ok {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		json.NewEncoder(rw).Encode(ticket{ID: strings.TrimPrefix(r.URL.Path, "/tickets/"), Seen: tok.User.ID})
	}
	bubble(t, setup{api: api, as: &authserver.Options{AccessFor: time.Minute}}, func(t *testing.T, in *world) {
		w = in
		inv := w.invoker()
		r := w.call(inv)
		require.NotNil(t, r.Error)
		require.Equal(t, toolresult.ConnectionRequired, r.Error.Code)
		require.NotNil(t, r.Error.Connect, "the way to connect")
		require.Equal(t, []string{"read"}, r.Error.Connect.Missing)
		link := strings.TrimPrefix(r.Error.Connect.URL, "https://host.test/connect/")

		d, err := w.m.Open(t.Context(), w.alice, link)
		require.NoError(t, err)
		out, err := w.m.Callback(t.Context(), w.alice, d.Browser, w.consent(d, ann, nil))
		require.NoError(t, err)
		require.Equal(t, "ann", out.Connection.Account)

		r = w.call(inv)
		require.Nil(t, r.Error, "%v", r.Error)
		require.JSONEq(t, `{"id":"7","seen":"ann"}`, string(r.Data))

		elapse(2 * time.Minute)
		require.Nil(t, w.call(inv).Error)
		require.Equal(t, 1, w.as.Count("issued refresh_token"))

		c, err := w.m.Disconnect(t.Context(), w.alice, out.Connection.ID)
		require.NoError(t, err)
		require.Equal(t, "disconnected", string(c.State))
		r = w.call(inv)
		require.Equal(t, toolresult.ConnectionRequired, r.Error.Code)
		access, refresh := w.as.Live("ann")
		require.Zero(t, access+refresh, "nothing is good at the provider")
	})
}

// H2-53: a 401 through the governed path renews the token, and what reads is sent
// once more. A 403 renews nothing (O-09).
func TestUnauthorizedRenews_H2_53_O_09(t *testing.T) {
	var w *world
	status := http.StatusUnauthorized
	api := func(rw http.ResponseWriter, r *http.Request) {
		if _, ok := w.as.Bearer(r); !ok {
			rw.WriteHeader(status)
			return
		}
		json.NewEncoder(rw).Encode(ticket{ID: "7"})
	}
	bubble(t, setup{api: api}, func(t *testing.T, in *world) {
		w = in
		w.connect("read")
		inv := w.invoker()
		require.Nil(t, w.call(inv).Error)
		w.as.EndAccess("ann")
		status = http.StatusForbidden
		require.Equal(t, toolresult.PermissionDenied, w.call(inv).Error.Code)
		require.Equal(t, toolresult.PermissionDenied, w.call(inv).Error.Code)
		require.Zero(t, w.as.Count(refreshes))
		status = http.StatusUnauthorized
		require.Nil(t, w.call(inv).Error)
		require.Equal(t, 1, w.as.Count(refreshes))
		w.as.EndAccess("ann")
		require.Equal(t, toolresult.ConnectionRequired, w.call(inv).Error.Code, "not twice in five minutes")
		require.Equal(t, 1, w.as.Count(refreshes))
		elapse(6 * time.Minute)
		require.Nil(t, w.call(inv).Error)
		require.Equal(t, 2, w.as.Count(refreshes))
	})
}

// C6: nothing of the first hop is in any byte that goes to the API or to the
// issuer: a principal holds no token, and neither do the values of a context
// travel.
func TestInboundTokenStays_C6(t *testing.T) {
	api := func(rw http.ResponseWriter, r *http.Request) { json.NewEncoder(rw).Encode(ticket{ID: "7"}) }
	bubble(t, setup{api: api}, func(t *testing.T, w *world) {
		const inbound = "CANARY-inbound-token"
		type key struct{}
		w.connect("read")
		elapse(2 * time.Hour)
		ctx := context.WithValue(t.Context(), key{}, inbound)
		r := w.invoker().Invoke(ctx, &connector.InvokeRequest{Principal: w.alice, Capability: "tickets.get", Arguments: json.RawMessage(`{"ticket":"7"}`)})
		require.Nil(t, r.Error)
		for _, host := range []string{"127.0.0.1", "provider.test"} {
			require.NotEmpty(t, w.sent(host))
			require.NotContains(t, w.sent(host), inbound)
		}
		require.NotContains(t, w.sent("provider.test"), "refresh-", "the refresh token goes to the issuer alone")
		require.NotContains(t, w.sent("provider.test"), clientSecret)
	})
}
