package incidents_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/incidents"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/incidents/double"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// W3, W5: a host that has lost its ledger opens the same incident again, under the
// same key. PagerDuty refuses it, and that refusal is no proof that nothing was
// made: the operation is looked up, and found.
func TestRefusedDuplicateIsLookedUp_W3_W5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := double.New()
		posts := 0
		profile, opts := egresstest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				posts++
			}
			provider.ServeHTTP(w, r)
		}))
		c, err := incidents.New(profile.Name)
		require.NoError(t, err)
		_, key, _ := strings.Cut(provider.Token("acme", "alice"), "Token token=")
		keys, err := credential.NewStatic("acme", egresstest.Base, func(context.Context) ([]byte, error) { return []byte(key), nil },
			&credential.StaticOptions{Header: "Authorization", Prefix: "Token token=", Account: "alice@acme.example"})
		require.NoError(t, err)
		alice, authority := authztest.Principal(t, "acme", "alice")
		host := func() *connector.Invoker {
			inv, err := connector.NewInvoker(authztest.AllowAsked(), []*authz.Authority{authority}, []connector.Connector{c}, &connector.Options{
				Endpoints: []egress.Profile{profile}, Egress: opts, Credentials: keys, Operations: &operation.Memory{}, Forgetful: true})
			require.NoError(t, err)
			return inv
		}
		open := &connector.InvokeRequest{Principal: alice, Capability: "create_incident", Key: "alert-17", Arguments: json.RawMessage(`{"service":"PSVCA","title":"disk full"}`)}
		first := host().Invoke(t.Context(), open)
		require.Equal(t, toolresult.EffectApplied, first.Effect.Disposition, first.Err())

		forgetful := host()
		again := forgetful.Invoke(t.Context(), open)
		require.NotEqual(t, toolresult.EffectNotApplied, again.Effect.Disposition, "the incident is there")
		require.Equal(t, first.Effect.OperationID, again.Effect.OperationID)
		time.Sleep(time.Hour)
		found := forgetful.Lookup(t.Context(), &connector.LookupRequest{Principal: alice, OperationID: again.Effect.OperationID})
		require.Equal(t, toolresult.EffectApplied, found.Effect.Disposition, found.Err())
		require.JSONEq(t, string(first.Data), string(found.Data))
		require.Equal(t, 2, posts)
	})
}
