package host_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/tickets"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpen(t *testing.T) {
	c, err := tickets.New("tickets", nil)
	require.NoError(t, err)
	policy := authztest.Allow(authz.ResourceID{Type: "project", ID: "inc"})
	s := host.System{Endpoint: "tickets", Connector: "tickets", Provider: providers.NewRedmine(nil), Header: "X-Redmine-API-Key", Key: alr.TicketKey}
	h, err := host.Open(policy, []connector.Connector{c}, []host.System{s}, nil)
	require.NoError(t, err)
	alice, err := h.Principal("alice")
	require.NoError(t, err)
	r := h.Invoker.Invoke(t.Context(), &connector.InvokeRequest{Principal: alice, Capability: "search_tickets", Arguments: json.RawMessage(`{"project":"inc"}`)})
	require.Equal(t, toolresult.MeaningNoMatch, r.Meaning(), r.Err())
	require.NoError(t, h.Close())
	require.NoError(t, h.Close())
}

func TestOpenRefuses(t *testing.T) {
	c, err := tickets.New("tickets", nil)
	require.NoError(t, err)
	for why, row := range map[string]struct {
		s    host.System
		says string
	}{
		"no way to the system":        {host.System{Endpoint: "tickets"}, "one of Provider and URL"},
		"two ways":                    {host.System{Endpoint: "tickets", URL: "http://127.0.0.1:1", Provider: providers.NewRedmine(nil)}, "one of Provider and URL"},
		"a user in the URL":           {host.System{Endpoint: "tickets", URL: "http://user@192.0.2.1/"}, "must not hold a user"},
		"the connector's is not here": {host.System{Endpoint: "elsewhere", Provider: providers.NewRedmine(nil)}, `needs the endpoint "tickets"`},
	} {
		_, err := host.Open(authztest.AllowAsked(), []connector.Connector{c}, []host.System{row.s}, nil)
		require.ErrorContains(t, err, row.says, why)
	}
}
