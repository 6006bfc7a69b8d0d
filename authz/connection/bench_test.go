package connection_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
)

// BenchmarkCall is what the broker adds to one call: a handle, the credential on
// one request, and the check before delivery, over the store in memory.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b, setup{})
	d := w.depart(connection.BeginRequest{Scopes: []string{"read"}})
	_, err := w.m.Callback(b.Context(), w.alice, d.Browser, w.consent(d, ann, nil))
	require.NoError(b, err)
	req, err := http.NewRequest(http.MethodGet, "http://provider.test/x", nil)
	require.NoError(b, err)
	ask := w.ask("read")
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		r, err := w.m.Resolve(ctx, ask)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.m.Apply(ctx, r.Handle, origin, req); err != nil {
			b.Fatal(err)
		}
		if err := w.m.Check(ctx, r.Handle); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
}
