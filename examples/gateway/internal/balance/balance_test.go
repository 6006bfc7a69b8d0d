package balance

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Requests go to who is ready, once each, and nobody else.
func TestBalancer(t *testing.T) {
	var ready atomic.Bool
	var posts atomic.Int64
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz" && !ready.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/die":
			posts.Add(1)
			panic(http.ErrAbortHandler)
		}
	}))
	defer replica.Close()
	b := &Balancer{}
	ask := func(path string) int {
		rec := httptest.NewRecorder()
		b.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}")))
		return rec.Code
	}
	require.Equal(t, http.StatusServiceUnavailable, ask("/mcp"), "there is nobody")
	ctx, end := context.WithCancel(t.Context())
	one, done, err := b.Add(ctx, replica.URL, replica.URL)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, ask("/mcp"), "it is not ready")
	ready.Store(true)
	require.Eventually(t, one.Ready, time.Minute, time.Millisecond)
	require.Equal(t, http.StatusOK, ask("/mcp"))
	require.Equal(t, http.StatusBadGateway, ask("/die"))
	require.EqualValues(t, 1, posts.Load(), "what may have happened is not repeated")
	require.EqualValues(t, 2, one.Served())
	ready.Store(false)
	require.Eventually(t, func() bool { return !one.Ready() }, time.Minute, time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, ask("/mcp"), "it is ready no more")
	end()
	<-done
	require.Equal(t, http.StatusServiceUnavailable, ask("/mcp"))
	_, _, err = b.Add(t.Context(), "http://[", replica.URL)
	require.Error(t, err)
}
