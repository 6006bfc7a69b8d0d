package bearertest_test

import (
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer/bearertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A token of each algorithm works, until it is over.
func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const resource = "https://mcp.test/mcp"
		as := bearertest.New(t)
		v, err := bearer.NewJWT(as.Issuer, as.Keys(), bearer.OneTenant("acme"), &bearer.JWTOptions{Egress: as.Egress()})
		require.NoError(t, err)
		b, err := bearer.New(resource, []*bearer.Verifier{v}, nil)
		require.NoError(t, err)
		ask := func(token string) error {
			_, err := b.Principal(t.Context(), &http.Request{URL: &url.URL{Path: "/mcp"}, Header: http.Header{"Authorization": {"Bearer " + token}}})
			return err
		}
		for _, algorithm := range []string{"ES256", "RS256", "PS256", "EdDSA"} {
			as.Rotate(algorithm)
			time.Sleep(time.Minute)
			token := as.Token(resource, "alice", "a")
			require.NoError(t, ask(token), algorithm)
			time.Sleep(6 * time.Minute)
			require.Error(t, ask(token))
		}
		before := as.Fetches()
		as.Fail(500)
		time.Sleep(time.Hour)
		require.NoError(t, ask(as.Token(resource, "alice")))
		require.Equal(t, before+1, as.Fetches())
	})
}
