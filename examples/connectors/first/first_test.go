package first_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/connectors/first"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const readme = "../../../README.md"

// The README shows the file that is compiled and run here, without its header.
func TestReadmeShowsThisConnector(t *testing.T) {
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	source, err := os.ReadFile("first.go")
	require.NoError(t, err)
	_, code, ok := strings.Cut(string(source), "\n)\n\n") // behind the imports
	require.True(t, ok)
	require.Contains(t, string(text), "```go\n"+code+"```")
	lines := strings.Count(string(source), "\n")
	require.Less(t, lines, 80, "a first connector is short")
}

func TestFirst(t *testing.T) {
	profile, opts := egresstest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Redmine-API-Key") != "k-123456" {
			w.WriteHeader(401)
			return
		}
		_, _ = w.Write([]byte(`{"issue":{"id":5,"subject":"slow","private":"no"}}`))
	}))
	c, err := first.New(profile.Name)
	require.NoError(t, err)
	keys, err := credential.NewStatic("acme", egresstest.Base, func(context.Context) ([]byte, error) { return []byte("k-123456"), nil },
		&credential.StaticOptions{Header: "X-Redmine-API-Key"})
	require.NoError(t, err)
	alice, host := authztest.Principal(t, "acme", "alice")
	inv, err := connector.NewInvoker(authztest.Allow(authz.ResourceID{Type: "ticket", ID: "5"}), []*authz.Authority{host}, []connector.Connector{c},
		&connector.Options{Endpoints: []egress.Profile{profile}, Egress: opts, Credentials: keys})
	require.NoError(t, err)
	ask := func(ticket string) *toolresult.Result {
		return inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: alice, Capability: "get_ticket", Arguments: json.RawMessage(`{"ticket":"` + ticket + `"}`)})
	}
	r := ask("5")
	require.NoError(t, r.Err())
	require.JSONEq(t, `{"id":5,"subject":"slow"}`, string(r.Data))
	require.Equal(t, toolresult.PermissionDenied, ask("6").Error.Code)
}
