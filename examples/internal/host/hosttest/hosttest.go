// Package hosttest gives the tests of connectors a host whose providers are in
// memory, so that nothing touches a socket and hours pass at once in a bubble of
// testing/synctest.
//
//	w := hosttest.Open(t, authztest.Allow(inc), []connector.Connector{c}, host.System{Endpoint: "tickets", Provider: redmine, ...})
//	r := w.Call("search_tickets", `{"project":"inc"}`)
//
// Every result that passes through a World is held against what must be true of
// all of them: it is valid, and nothing of the other tenant and no key is in it.
package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// World is a host, a caller and what is secret.
type World struct {
	*host.Host
	Alice authz.Principal

	t       testing.TB
	secrets []string

	mu     sync.Mutex
	events []connector.AuditEvent
}

// Open returns a host. It ends with the test. In a synctest bubble, call Open
// inside of it. A system with a URL is reached over the network.
func Open(t testing.TB, policy authz.Policy, connectors []connector.Connector, systems ...host.System) *World {
	t.Helper()
	w := &World{t: t, secrets: []string{alr.Canary, fmt.Sprintf("\"%v\"", alr.CanaryLatency)}}
	opts := &connector.Options{Forgetful: true, Audit: connector.AuditFunc(w.record)}
	embedded := map[string]http.Handler{}
	for i := range systems {
		s := &systems[i]
		if s.Key != "" {
			w.secrets = append(w.secrets, s.Key)
		}
		if s.Provider != nil {
			name := s.Endpoint + ".test"
			embedded[name], s.Provider, s.URL = s.Provider, nil, "http://"+name
		}
	}
	if len(embedded) > 0 {
		_, opts.Egress = egresstest.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			embedded[r.Host].ServeHTTP(rw, r)
		}))
	}
	var err error
	w.Host, err = host.Open(policy, connectors, systems, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	w.Alice, err = w.Principal("alice")
	require.NoError(t, err)
	return w
}

func (w *World) record(_ context.Context, e *connector.AuditEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, *e)
	return nil
}

// Violation is what the last call's connector did wrong.
func (w *World) Violation() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) == 0 {
		return ""
	}
	return w.events[len(w.events)-1].Violation
}

// Call makes a call of alice's.
func (w *World) Call(capability, args string) *toolresult.Result {
	w.t.Helper()
	return w.Write(capability, "", args)
}

// Write makes a change of alice's under an operation key.
func (w *World) Write(capability, key, args string) *toolresult.Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r := w.Invoker.Invoke(ctx, &connector.InvokeRequest{Principal: w.Alice, Capability: capability, Arguments: json.RawMessage(args), Key: key})
	w.check(r)
	return r
}

// Lookup asks what became of alice's operation.
func (w *World) Lookup(operation string) *toolresult.Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r := w.Invoker.Lookup(ctx, &connector.LookupRequest{Principal: w.Alice, OperationID: operation})
	w.check(r)
	return r
}

func (w *World) check(r *toolresult.Result) {
	w.t.Helper()
	require.NoError(w.t, r.Validate(nil))
	text, err := json.Marshal(r)
	require.NoError(w.t, err)
	for _, s := range w.secrets {
		require.NotContains(w.t, string(text), s)
		require.NotContains(w.t, r.Text(nil), s)
	}
	require.Empty(w.t, w.Violation())
}

// With returns args, a JSON object, with one more member, for the next page.
func With(t testing.TB, args, name string, value any) string {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(args), &m))
	m[name] = value
	out, err := json.Marshal(m)
	require.NoError(t, err)
	return string(out)
}

// Data decodes the answer of a result that has one.
func Data[T any](t testing.TB, r *toolresult.Result) (out T) {
	t.Helper()
	require.NoError(t, r.Err())
	require.NoError(t, json.Unmarshal(r.Data, &out))
	return out
}

// Pages follows the cursors of a listing to its end and returns what each page
// held. It gives up after a hundred pages.
func Pages[T any](t testing.TB, w *World, capability, args string) (pages [][]T, last *toolresult.Result) {
	t.Helper()
	for next := args; ; next = With(t, args, "cursor", last.NextCursor) {
		last = w.Call(capability, next)
		pages = append(pages, Data[[]T](t, last))
		if last.NextCursor == "" {
			return pages, last
		}
		require.Less(t, len(pages), 100, "the listing does not end")
	}
}
