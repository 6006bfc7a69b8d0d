package egresstest_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

// An hour at the provider passes at once.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, opts := egresstest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			fmt.Fprint(w, r.Method, " ", r.Host, r.URL)
		}))
		p.Limits = egress.Limits{Headers: 2 * time.Hour, Total: 2 * time.Hour}
		e, err := egress.New(p, opts)
		require.NoError(t, err)
		s := e.Open(t.Context(), nil)
		start := time.Now()
		for _, c := range []*http.Client{s.Client(), s.Client()} {
			resp, err := c.Get(egresstest.Base + "/x?y=z")
			require.NoError(t, err)
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "GET provider.test/x?y=z", string(b))
		}
		require.Equal(t, 2*time.Hour, time.Since(start))
		s.Close()
	})
}
