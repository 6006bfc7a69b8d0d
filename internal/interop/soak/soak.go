package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"
)

type config struct {
	Clients int
	Span    time.Duration
	Seed    uint64
}

// report is what came of it.
type report struct {
	Name             string  `json:"name"`
	Clients          int     `json:"clients"`
	Seconds          float64 `json:"seconds"`
	Requests         int64   `json:"requests"`
	Answers          int64   `json:"answers"`
	Refused          int64   `json:"refused"`
	Cancelled        int64   `json:"cancelled"`
	HungUp           int64   `json:"hung_up"`
	Malformed        int64   `json:"malformed"`
	CrossPrincipal   int64   `json:"cross_principal"`
	Wrong            int64   `json:"wrong"`
	First            string  `json:"first_wrong,omitempty"`
	GoroutinesBefore int     `json:"goroutines_before"`
	GoroutinesAfter  int     `json:"goroutines_after"`
	HeapBefore       int64   `json:"heap_before"`
	HeapAfter        int64   `json:"heap_after"`
	Abandoned        int64   `json:"abandoned"` // calls that did not notice their end in time; on a machine that is busy, they get no turn
}

// allowed is how much more memory there may be afterwards, in bytes: less than
// one byte for each request of a minute would be a leak that shows.
const allowed = 4 << 20

// wrong says what is wrong, if anything is.
func (r *report) wrong() error {
	switch {
	case r.CrossPrincipal > 0 || r.Wrong > 0:
		return fmt.Errorf("%d answers with something of somebody else, %d others that should not be; the first: %s", r.CrossPrincipal, r.Wrong, r.First)
	case r.GoroutinesAfter > r.GoroutinesBefore:
		return fmt.Errorf("%d goroutines, and %d before", r.GoroutinesAfter, r.GoroutinesBefore)
	case r.HeapAfter > r.HeapBefore+allowed:
		return fmt.Errorf("%d bytes, and %d before", r.HeapAfter, r.HeapBefore)
	case r.Answers == 0 || r.Refused == 0 || r.Cancelled == 0 || r.HungUp == 0 || r.Malformed == 0:
		return errors.New("not everything happened; let it run longer")
	}
	return nil
}

// soak runs the clients against a server of its own.
func soak(ctx context.Context, c config) (*report, error) {
	h, err := newHost(c.Clients)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: h.h, ReadTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		_ = srv.Close()
		<-served
	}()
	tr := &http.Transport{MaxIdleConnsPerHost: c.Clients, DisableCompression: true}
	defer tr.CloseIdleConnections()
	all := &counts{}
	clients := make([]*client, c.Clients)
	for n := range clients {
		clients[n] = &client{n: n, url: "http://" + l.Addr().String() + "/mcp", addr: l.Addr().String(), http: &http.Client{Transport: tr},
			random: rand.New(rand.NewPCG(c.Seed, uint64(n))), all: all}
	}
	for _, cl := range clients { // what is remembered of each caller is there before
		cl.list(ctx, true)
		cl.list(ctx, false)
		cl.call(ctx, "who.am_i", true, 0, true)
	}
	r := &report{Name: "soak", Clients: c.Clients, GoroutinesBefore: quiet(tr, 0)}
	r.HeapBefore = heap()
	started := time.Now()
	during, stop := context.WithTimeout(ctx, c.Span)
	defer stop()
	var wg sync.WaitGroup
	for _, cl := range clients {
		wg.Go(func() { cl.run(during) })
	}
	wg.Wait()
	r.Seconds = time.Since(started).Round(time.Millisecond).Seconds()
	r.GoroutinesAfter = quiet(tr, r.GoroutinesBefore)
	r.HeapAfter = heap()
	r.Abandoned = h.inv.Abandoned()
	runtime.KeepAlive(clients)
	return all.into(r), ctx.Err()
}

func (c *counts) into(r *report) *report {
	r.Requests, r.Answers, r.Refused, r.Cancelled = c.Requests.Load(), c.Answers.Load(), c.Refused.Load(), c.Cancelled.Load()
	r.HungUp, r.Malformed, r.CrossPrincipal, r.Wrong = c.HungUp.Load(), c.Malformed.Load(), c.Crossed.Load(), c.Wrong.Load()
	if first := c.first.Load(); first != nil {
		r.First = *first
	}
	return r
}

// quiet waits until nobody does anything any more, for at most 15 s, and returns
// how many goroutines are left: at most as many as want, if that is not 0.
func quiet(tr *http.Transport, want int) int {
	n, same := runtime.NumGoroutine(), 0
	for range 300 {
		tr.CloseIdleConnections()
		time.Sleep(50 * time.Millisecond)
		now := runtime.NumGoroutine()
		if same++; now != n {
			same = 0
		}
		if n = now; same >= 10 && (want == 0 || n <= want) {
			break
		}
	}
	return n
}

// heap is what is in use.
func heap() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
