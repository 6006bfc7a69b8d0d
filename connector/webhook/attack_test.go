package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
)

// A wild body names nothing that a store could choke on, and costs little.
func TestAttackNames_P5(t *testing.T) {
	v := must(webhook.Stripe([]string{secret}, nil))
	for _, body := range []string{
		`{"id":"` + strings.Repeat("x", 300) + `"}`, `{"id":{"a":1}}`, `{"id":null}`, `{"id":"a\u0000b"}`, `{"id":""}`, `{"id":"a\nb"}`,
		`{"id":"a","id":"b"}`, `{"ID":"a","id":"b"}`, strings.Repeat("[", 10000), "", "\xff",
	} {
		d, err := v.Verify(stripe("1700000000", body), someTime)
		require.NoError(t, err, "it is signed")
		require.True(t, strings.HasPrefix(d.ID, "sha256:"), "%.40q is named by its bytes, not %q", body, d.ID)
	}
	d, err := v.Verify(stripe("1700000000", `{"id":725653563933458432}`), someTime)
	require.NoError(t, err)
	require.Equal(t, "725653563933458432", d.ID, "T-10: a number keeps its digits")
}

// A Describe that panics stores nothing and thanks for nothing: the provider
// comes back when it is mended.
func TestAttackDescribePanics_P5(t *testing.T) {
	var m webhook.Memory
	e, err := webhook.NewEndpoint(must(webhook.GitHub([]string{secret}, nil)), &m, place, &webhook.EndpointOptions{Describe: func(*webhook.Delivery) webhook.Subject { panic("x") }})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	require.Panics(t, func() { e.ServeHTTP(w, delivery("a", "{}")) })
	_, err = m.Event(t.Context(), place.Tenant, place.Source, "a")
	require.Error(t, err)
}

// The same delivery a hundred times at once is one event, and everybody is
// thanked.
func TestAttackAtOnce_P5(t *testing.T) {
	var m webhook.Memory
	e, err := webhook.NewEndpoint(must(webhook.GitHub([]string{secret}, nil)), &m, place, nil)
	require.NoError(t, err)
	var wg sync.WaitGroup
	codes := make([]int, 100)
	for i := range codes {
		wg.Go(func() { codes[i] = serve(e, delivery(fmt.Sprint("id ", i%3), "{}")).Code })
	}
	wg.Wait()
	for _, c := range codes {
		require.Equal(t, http.StatusOK, c)
	}
	list, err := m.Claim(t.Context(), time.Now(), time.Now(), 200)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

// A handler that returns an error of a context that is not its own's end is a
// failure that counts: it would be tried for ever.
func TestAttackForeignContext_P5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m webhook.Memory
		n := 0
		p := process(t, &m, func(context.Context, *webhook.Event) error { n++; return context.Canceled }, webhook.ProcessorOptions{Attempts: 3})
		bring(t, &m, "1", webhook.Subject{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, p.Run(ctx))
		require.Equal(t, 3, n)
	})
}

// A process that is killed in every attempt does not try for ever.
type mortal struct{ webhook.Memory }

func (*mortal) Settle(context.Context, webhook.Event, webhook.Outcome) error {
	return errors.New("killed before it settled")
}

func TestAttackPoison_P5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m mortal
		n := 0
		p := process(t, &m, func(context.Context, *webhook.Event) error { n++; return nil }, webhook.ProcessorOptions{Attempts: 3, Lease: time.Minute})
		bring(t, &m, "1", webhook.Subject{})
		for range 20 {
			_ = p.Drain(t.Context())
			time.Sleep(time.Minute)
		}
		require.LessOrEqual(t, n, 3, "an event that kills its process is given up after as many attempts as one that fails")
	})
}
