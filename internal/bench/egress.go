package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// roundTrip compares a read through a session, with a credential put on and cut
// out, with the same through net/http, over a connection that is kept alive on
// loopback. The server runs until the program ends.
func roundTrip() (row, error) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"issues":[{"id":1,"subject":"the printer is on fire"}]}`)
	}))
	e, err := egress.New(egress.Profile{Name: "bench", BaseURL: srv.URL, Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, nil)
	if err != nil {
		return row{}, err
	}
	s := e.Open(context.Background(), &egress.Hooks{
		Allow: func(context.Context, *egress.Request) (egress.Effect, error) { return egress.Reads, nil },
		Authorize: func(_ context.Context, _ string, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer token-0123456789")
			return nil
		},
	})
	get := func(c *http.Client, own bool) func() {
		return func() {
			req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, srv.URL+"/issues.json?status=open", nil)
			if err != nil {
				panic(err)
			}
			if own {
				req.Header.Set("Authorization", "Bearer token-0123456789")
			}
			resp, err := c.Do(req)
			if err != nil {
				panic(err)
			}
			if _, err := io.ReadAll(resp.Body); err != nil {
				panic(err)
			}
			resp.Body.Close()
		}
	}
	return row{get(s.Client(), false), get(&http.Client{Transport: &http.Transport{}}, true)}, nil
}
