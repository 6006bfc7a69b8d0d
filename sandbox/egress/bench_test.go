package egress_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

// What the checks cost, beside net/http's own transport. Pipes are no sockets,
// so that ours makes a connection for each request there.
func BenchmarkRoundTrip(b *testing.B) {
	p, opts := egresstest.Serve(b, http.HandlerFunc(issues))
	hooks := &egress.Hooks{
		Allow: func(context.Context, *egress.Request) (egress.Effect, error) { return egress.Reads, nil },
		Authorize: func(_ context.Context, _ string, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer token-0123456789")
			return nil
		},
		Observe: func(context.Context, *egress.Request, *egress.Response, egress.Exchange) {},
	}
	bare := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return opts.Dial(ctx, netip.AddrPort{})
	}}
	b.Cleanup(bare.CloseIdleConnections)
	srv := httptest.NewServer(http.HandlerFunc(issues))
	b.Cleanup(srv.Close)
	loopback := p
	loopback.BaseURL, loopback.Private = srv.URL, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	base := p.BaseURL
	run := func(rt http.RoundTripper, method string) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := rt.RoundTrip(request(b, method, base+"/issues.json?status=open", ""))
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}
	}
	b.Run("pipe/bare", run(bare, "GET"))
	b.Run("pipe/read", run(session(b, p, opts, hooks), "GET"))
	changes := *hooks
	changes.Allow = nil
	b.Run("pipe/change", run(session(b, p, opts, &changes), "POST"))
	base = srv.URL
	kept := &http.Transport{}
	b.Cleanup(kept.CloseIdleConnections)
	b.Run("loopback/bare", run(kept, "GET"))
	b.Run("loopback/read", run(session(b, loopback, nil, hooks), "GET"))
	b.Run("loopback/session", func(b *testing.B) { // each read in a session of its own, as calls have
		e, err := egress.New(loopback, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(e.CloseIdleConnections)
		b.ReportAllocs()
		for b.Loop() {
			s := e.Open(b.Context(), hooks)
			resp, err := s.RoundTrip(request(b, "GET", base+"/issues.json?status=open", ""))
			if err != nil {
				b.Fatal(err)
			}
			_ = resp.Body.Close()
			s.Close()
		}
	})
	b.Run("loopback/change", run(session(b, loopback, nil, &changes), "POST"))
}

func issues(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `{"issues":[{"id":1,"subject":"the printer is on fire"}]}`)
}

// What looking for the credential in a large answer costs.
func BenchmarkLargeAnswer(b *testing.B) {
	page := make([]byte, 4<<20)
	for i := range page {
		page[i] = "the quick brown fox jumps over the lazy dog "[i%44]
	}
	p, opts := egresstest.Serve(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }))
	s := session(b, p, opts, &egress.Hooks{Authorize: func(_ context.Context, _ string, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer token-0123456789")
		return nil
	}})
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		resp, err := s.RoundTrip(request(b, "GET", p.BaseURL+"/", ""))
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}
