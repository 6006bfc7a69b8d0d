package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func unixNow() string { return fmt.Sprint(time.Now().Unix()) }

// bring stores an event, received now.
func bring(t testing.TB, in webhook.Inbox, id string, s webhook.Subject) bool {
	t.Helper()
	stored, err := in.Put(context.Background(), webhook.Event{Place: place, Subject: s, ID: id, Received: time.Now().UTC(), Body: []byte("{}")})
	require.NoError(t, err)
	return stored
}

type record struct {
	mu      sync.Mutex
	handled []string
	reports []string
}

func (r *record) handle(_ context.Context, e *webhook.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handled = append(r.handled, e.ID)
	return nil
}

func (r *record) observe(_ context.Context, p *webhook.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, p.Event.ID+" "+p.Outcome.State.String())
}

func process(t testing.TB, in webhook.Inbox, h webhook.Handler, o webhook.ProcessorOptions) *webhook.Processor {
	t.Helper()
	p, err := webhook.NewProcessor(in, h, &o)
	require.NoError(t, err)
	return p
}

// W-19: what comes out of order is handled in order, or not at all.
func TestOrder_W19(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m webhook.Memory
		var r record
		p := process(t, &m, r.handle, webhook.ProcessorOptions{Observe: r.observe})
		v := func(n int64) webhook.Subject { return webhook.Subject{Object: "issue/1", Version: n} }
		bring(t, &m, "updated", v(2))
		bring(t, &m, "created", v(1))
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, []string{"created", "updated"}, r.handled, "both were there")
		bring(t, &m, "closed", v(4))
		require.NoError(t, p.Drain(t.Context()))
		bring(t, &m, "edited, late", v(3))
		bring(t, &m, "closed as well, in the same second", v(4))
		require.NoError(t, p.Drain(t.Context()))
		gone := v(4)
		gone.Deleted = true
		bring(t, &m, "deleted", gone)
		require.NoError(t, p.Drain(t.Context()))
		bring(t, &m, "edited, after it was deleted", v(5))
		require.NoError(t, p.Drain(t.Context()))
		require.Equal(t, []string{"created", "updated", "closed", "closed as well, in the same second", "deleted"}, r.handled)
		require.Contains(t, r.reports, "edited, late stale")
		require.Contains(t, r.reports, "edited, after it was deleted stale", "H4: a deletion is final")
	})
}

// W-17: a provider that gives each emission a new id is told by another key.
func TestSecondKey_W17(t *testing.T) {
	var m webhook.Memory
	s := webhook.Subject{Key: "invoice/1 paid 7"}
	require.True(t, bring(t, &m, "uuid 1", s))
	require.False(t, bring(t, &m, "uuid 2", s))
	require.True(t, bring(t, &m, "uuid 3", webhook.Subject{Key: "invoice/1 paid 8"}))
}

// W-18: a redelivery twenty hours later has a new time and is known.
func TestRedelivery_W18(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m webhook.Memory
		var r record
		e, err := webhook.NewEndpoint(must(webhook.StandardWebhooks([]string{standardSecret}, nil)), &m, place, nil)
		require.NoError(t, err)
		p := process(t, &m, r.handle, webhook.ProcessorOptions{})
		for range 30 {
			at := unixNow()
			q := delivery("", "x")
			q.Header.Set("webhook-id", "msg_1")
			q.Header.Set("webhook-timestamp", at)
			q.Header.Set("webhook-signature", "v1,"+b64MAC(standardKey, "msg_1."+at+".x"))
			require.Equal(t, 200, serve(e, q).Code)
			require.NoError(t, p.Sweep(t.Context()))
			time.Sleep(20 * time.Hour)
		}
		require.Equal(t, []string{"msg_1"}, r.handled)
	})
}

// An event whose handler fails is tried again, later and later, and then given
// up for a person.
func TestFailures_P5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m webhook.Memory
		var at []time.Duration
		began := time.Now()
		p := process(t, &m, func(context.Context, *webhook.Event) error {
			at = append(at, time.Since(began))
			if len(at) == 2 {
				panic("handler")
			}
			return toolresult.NewError(toolresult.RateLimited, "slow down")
		}, webhook.ProcessorOptions{Attempts: 5})
		bring(t, &m, "1", webhook.Subject{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, p.Run(ctx))
		require.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}, at)
		e, err := m.Event(t.Context(), place.Tenant, place.Source, "1")
		require.NoError(t, err)
		require.Equal(t, webhook.Failed, e.State)
		require.Equal(t, toolresult.RateLimited, e.Code)
		require.Equal(t, "{}", string(e.Body))
		require.NoError(t, m.Revive(t.Context(), place.Tenant, place.Source, "1", time.Now()))
		require.NoError(t, p.Drain(t.Context()))
		require.Len(t, at, 6)
	})
}

// A process that ends in order gives its events back; one that hangs loses them.
func TestLeases_P5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m webhook.Memory
		var r record
		bring(t, &m, "1", webhook.Subject{})
		ctx, cancel := context.WithCancel(t.Context())
		p := process(t, &m, func(ctx context.Context, _ *webhook.Event) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}, webhook.ProcessorOptions{})
		require.NoError(t, p.Run(ctx))
		e, err := m.Event(t.Context(), place.Tenant, place.Source, "1")
		require.NoError(t, err)
		require.Equal(t, webhook.Waiting, e.State)
		require.Zero(t, e.Attempts)

		hanging := make(chan bool)
		stuck := process(t, &m, func(ctx context.Context, _ *webhook.Event) error {
			<-ctx.Done()
			hanging <- true
			<-hanging
			return nil
		}, webhook.ProcessorOptions{})
		var wg sync.WaitGroup
		wg.Go(func() { _ = stuck.Drain(t.Context()) })
		<-hanging
		require.Equal(t, 54*time.Second, time.Since(e.Received), "its context ended before its lease")
		good := process(t, &m, r.handle, webhook.ProcessorOptions{})
		require.NoError(t, good.Drain(t.Context()))
		require.Empty(t, r.handled, "the lease is not over")
		time.Sleep(6 * time.Second)
		require.NoError(t, good.Drain(t.Context()))
		require.Equal(t, []string{"1"}, r.handled)
		hanging <- true
		wg.Wait()
	})
}

// sick is an inbox that fails.
type sick struct{ webhook.Memory }

func (*sick) Claim(context.Context, time.Time, time.Time, int) ([]webhook.Event, error) {
	return nil, errors.New("sick")
}

func TestRunGoesOn_P5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := process(t, &sick{}, func(context.Context, *webhook.Event) error { return nil }, webhook.ProcessorOptions{})
		require.ErrorContains(t, p.Drain(t.Context()), "sick")
		require.Error(t, p.Sweep(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, p.Run(ctx))
	})
}

// P5, W-19: whatever comes, how often and in which order, each object ends at
// its newest version, no handler goes back, and none is called twice.
func TestAnyOrder_P5(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m webhook.Memory
		ctx := context.Background()
		state, top, seen := map[string]int64{}, map[string]int64{}, map[string]int{}
		var running atomic.Int64
		var mu sync.Mutex
		p, err := webhook.NewProcessor(&m, func(_ context.Context, e *webhook.Event) error {
			mu.Lock()
			defer mu.Unlock()
			running.Add(1)
			seen[e.ID]++
			if seen[e.ID] > 1 || e.Version < state[e.Object] {
				return fmt.Errorf("back to %d from %d, time %d", e.Version, state[e.Object], seen[e.ID])
			}
			state[e.Object] = e.Version
			return nil
		}, &webhook.ProcessorOptions{Workers: 3, Observe: func(_ context.Context, r *webhook.Report) {
			if r.Err != nil {
				panic(r.Err)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 40).Draw(t, "deliveries") {
			object := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "object")
			version := rapid.Int64Range(1, 9).Draw(t, "version")
			_, err := m.Put(ctx, webhook.Event{Place: place, ID: fmt.Sprint(object, version), Received: time.Unix(rapid.Int64Range(0, 9).Draw(t, "at"), 0), Subject: webhook.Subject{Object: object, Version: version}})
			if err != nil {
				t.Fatal(err)
			}
			top[object] = max(top[object], version)
			if rapid.Bool().Draw(t, "drain") {
				if err := p.Drain(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := p.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		for o, v := range top {
			if state[o] != v {
				t.Fatalf("%s ended at %d, want %d", o, state[o], v)
			}
		}
	})
}
