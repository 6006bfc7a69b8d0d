// Package balance is a small load balancer in front of the replicas of the
// gateway, as a stand-in for the operator's own.
//
// It sends each request to one replica that says it is ready, in turn. It repeats
// nothing: a request whose replica is gone is 502, and whoever made it decides. A
// change can be repeated with its operation key, whatever became of the first.
package balance

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// every is how often a replica is asked whether it is ready.
const every = 100 * time.Millisecond

// Balancer is a handler. It is safe for concurrent use. The zero Balancer knows
// no replica.
type Balancer struct {
	mu   sync.Mutex
	list []*Backend
	next int
}

// Backend is one replica.
type Backend struct {
	admin  string
	proxy  *httputil.ReverseProxy
	ready  atomic.Bool
	served atomic.Int64
}

// Served is how many requests were sent to it.
func (b *Backend) Served() int64 { return b.served.Load() }

// Ready is whether it was ready when it was last asked.
func (b *Backend) Ready() bool { return b.ready.Load() }

// Add sends requests to a replica, as soon as and as long as it is ready and ctx
// has not ended. Both arguments are base URLs. The caller waits for done before it
// forgets the balancer.
func (b *Balancer) Add(ctx context.Context, public, admin string) (backend *Backend, done <-chan struct{}, err error) {
	u, err := url.Parse(public)
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	r := &Backend{admin: admin, proxy: &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(u); p.Out.Host = p.In.Host },
		Transport:     transport,
		FlushInterval: -1, // streams
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { http.Error(w, "", http.StatusBadGateway) },
	}}
	b.mu.Lock()
	b.list = append(b.list, r)
	b.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer transport.CloseIdleConnections()
		r.watch(ctx)
		b.remove(r)
	}()
	return r, ended, nil
}

func (b *Balancer) remove(gone *Backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, r := range b.list {
		if r == gone {
			b.list = append(b.list[:i:i], b.list[i+1:]...)
			return
		}
	}
}

func (r *Backend) watch(ctx context.Context) {
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	defer r.ready.Store(false)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		r.ready.Store(probe(ctx, client, r.admin+"/readyz"))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func probe(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// ServeHTTP implements [http.Handler].
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := b.pick()
	if one == nil {
		http.Error(w, "", http.StatusServiceUnavailable)
		return
	}
	one.served.Add(1)
	one.proxy.ServeHTTP(w, r)
}

func (b *Balancer) pick() *Backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.list {
		b.next = (b.next + 1) % len(b.list)
		if r := b.list[b.next]; r.ready.Load() {
			return r
		}
	}
	return nil
}
