package providers

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWireAnswersOnceInstead(t *testing.T) {
	b := NewRunbooks(nil)
	b.AnswerNext(Answer{Status: 503, Header: http.Header{"Retry-After": {"7"}}, Body: "later"})
	b.AnswerNext(Answer{Status: 429})
	first := ask(t, b, "GET", "/runbooks", "")
	require.Equal(t, 503, first.Code)
	require.Equal(t, "7", first.Header().Get("Retry-After"))
	require.Equal(t, "later", first.Body.String())
	require.Equal(t, 429, ask(t, b, "GET", "/runbooks", "").Code)
	require.Equal(t, 200, ask(t, b, "GET", "/runbooks", "").Code)
	require.Equal(t, 3, b.RequestsTo("GET", "/runbooks"), "answers put in place of others count, too")
	require.Zero(t, b.RequestsTo("GET", "/runbooks/RB-101"))
}

func TestWireDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewRunbooks(nil)
		b.Delay(time.Minute)
		start := time.Now()
		require.Equal(t, 200, ask(t, b, "GET", "/runbooks", "").Code)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// A client that has gone before the delay is over has had no effect.
func TestWireDelayedRequestOfAGoneClient(t *testing.T) {
	r := NewRedmine(nil)
	r.Delay(time.Hour)
	req := httptest.NewRequest("POST", "/issues.json", http.NoBody)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { r.ServeHTTP(httptest.NewRecorder(), req.WithContext(ctx)) })
	require.Zero(t, r.Issues())
}

func TestWireLosesReceiptsOfChangesOnly(t *testing.T) {
	p := NewPrometheus(nil)
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.LoseReceipt()
	resp, err := s.Client().Get(s.URL + "/-/ready")
	require.NoError(t, err)
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	_, err = s.Client().Post(s.URL+"/api/v1/query", "application/x-www-form-urlencoded", http.NoBody)
	require.ErrorIs(t, err, io.EOF)
}
