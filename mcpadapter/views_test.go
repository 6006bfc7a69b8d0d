package mcpadapter_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

// revised is the world's policy, with a revision that says when it changed.
type revised struct {
	w *world

	mu       sync.Mutex
	revision string
	err      error
	expires  time.Time
	asked    int
}

func (p *revised) Decide(_ context.Context, r *authz.Request) (authz.Decision, error) {
	p.mu.Lock()
	p.asked++
	expires := p.expires
	p.mu.Unlock()
	d, err := p.w.decide(r)
	d.Expires = expires
	return d, err
}

func (p *revised) Revision(_ context.Context, tenant string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision, p.err
}

func (p *revised) set(revision string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revision, p.err = revision, err
}

// questions is how many questions about tools a list takes.
func (p *revised) questions(t *testing.T, h http.Handler, token string) (int, string) {
	p.mu.Lock()
	p.asked = 0
	p.mu.Unlock()
	status, _, text := plainWire(token, "tools/list", "", "").send(h)
	require.Equal(t, 200, status, text)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, text
}

// Lists are kept for a caller and a revision of the policy, and for nobody and
// nothing else; what is taken away is gone with the next request.
func TestListsAreKept_A4_A8_M4(t *testing.T) {
	for name, way := range map[string]func(*mcpadapter.Adapter) *mcpadapter.Adapter{
		"short": func(a *mcpadapter.Adapter) *mcpadapter.Adapter { return a }, "long": mcpadapter.Long,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := &revised{w: w, revision: "1"}
			w.inv = w.invoker(t, p)
			h := way(w.adapter(t, w.byToken, nil)).HTTP()
			ask := func(token string) (int, string) { return p.questions(t, h, token) }

			n, alice := ask("alice")
			require.Equal(t, 3, n, "control: one for each tool")
			n, again := ask("alice")
			require.Zero(t, n)
			require.Equal(t, alice, again)
			n, bob := ask("bob")
			require.Equal(t, 3, n, "what was asked for somebody else counts for nothing")
			require.NotContains(t, bob, "tickets.get")

			w.hide("alice", "tickets.get", true)
			p.set("2", nil)
			n, less := ask("alice")
			require.Equal(t, 3, n)
			require.NotContains(t, less, "tickets.get")
			w.hide("alice", "tickets.get", false)
			p.set("1", nil)
			_, again = ask("alice")
			require.Equal(t, alice, again, "an old revision that is back is as it was")

			// A policy that forgets to say that it changed shows an old list, and
			// lets nobody call.
			w.hide("alice", "tickets.get", true)
			_, stale := ask("alice")
			require.Equal(t, alice, stale)
			_, _, text := plainWire("alice", "tools/call", "tickets.get", `"name":"tickets.get","arguments":{"id":"1"}`).send(h)
			require.Contains(t, text, "unknown tool")
			require.Zero(t, w.count(""))

			p.set("", nil)
			for range 2 {
				n, less = ask("alice")
				require.Equal(t, 3, n, "a policy that cannot say is asked each time")
				require.NotContains(t, less, "tickets.get")
			}
			p.set("1", errors.New(canaryText))
			status, _, text := plainWire("alice", "tools/list", "", "").send(h)
			require.Equal(t, 503, status)
			require.Contains(t, text, "POLICY_UNAVAILABLE", "what is kept is not served when nobody knows whether it holds")
			require.NotContains(t, text, "canary")

			p.set("3", nil)
			p.mu.Lock()
			p.expires = time.Now().Add(-time.Second)
			p.mu.Unlock()
			n, none := ask("alice")
			require.Equal(t, 3, n)
			require.NotContains(t, none, "tickets.")
			n, _ = ask("alice")
			require.Equal(t, 3, n, "an answer that is over is not kept")
		})
	}
}

// Callers who see the same share one list; those who see something else never
// do, also when they come at once.
func TestListsOfManyCallers_A8(t *testing.T) {
	w := newWorld(t)
	p := &revised{w: w, revision: "1"}
	w.inv = w.invoker(t, p)
	h := w.adapter(t, w.byToken, nil).HTTP()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			token := []string{"alice", "bob"}[i%2]
			if i%8 == 7 {
				p.set([]string{"1", "2"}[i/8%2], nil)
			}
			_, _, text := plainWire(token, "tools/list", "", "").send(h)
			if strings.Contains(text, `"tickets.get"`) != (token == "alice") {
				t.Error(token, text)
			}
		})
	}
	wg.Wait()
}
