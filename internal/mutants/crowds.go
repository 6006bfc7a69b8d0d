package mutants

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
)

// crowdMutants are wrong when several things happen at once, or afterwards.
var crowdMutants = []Mutant{
	{"field-per-call", "what belongs to a call in a field of the connector: right for one caller at a time"},
	{"refresh-stampede", "every waiting call renews the token: with rotating refresh tokens, all but one are reuse, and the account is gone"},
	{"close-deadlock", "a Close that waits for calls that wait for Close"},
	{"key-lost-after-429", "a key that is dropped with the request that was refused for its rate, so that the next change goes out under another"},
	{"poller-survives", "a background job with its own copy of the token, that nobody ends"},
}

// note keeps the id of the call that came last, and noted returns it.
func (d *desk) note(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept["call"] = id
}

func (d *desk) noted() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept["call"]
}

// Close implements [io.Closer].
func (h whole) Close() error {
	if h.is("close-deadlock") {
		<-make(chan struct{})
	}
	return nil
}

// stampede renews once more what has just been renewed.
func (b *broker) stampede(ctx context.Context, r *credential.ResolveRequest, began time.Time, got credential.Resolved) (credential.Resolved, error) {
	next, ok := b.next.(*check.Broker)
	if !ok || time.Since(began) == 0 || !b.is("refresh-stampede") {
		return got, nil
	}
	key := r.Principal.Key()
	next.Expire(key.Tenant, key.Subject, time.Second)
	return next.Resolve(ctx, r)
}

// poll asks the provider at intervals, whoever still wants to know.
func (b *broker) poll(r *http.Request) {
	if r.URL.Path != "/search" || !b.is("poller-survives") {
		return
	}
	header := r.Header.Get("Authorization")
	go func() {
		for range 3 {
			time.Sleep(5 * time.Hour)
			c, err := b.dial(context.Background(), netip.AddrPort{})
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(c, "GET /search HTTP/1.1\r\nHost: provider.test\r\nConnection: close\r\nAuthorization: %s\r\n\r\n", header)
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
}
