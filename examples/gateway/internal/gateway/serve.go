package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// ErrCut says that calls were cut off at the end.
var ErrCut = errors.New("gateway: calls were under way when the time to drain was over, and were cut off; their changes are in the ledger")

// Serve serves until ctx ends, and then drains. public is for callers, admin for
// operators: GET /livez, /readyz and /metrics. reviewed says that somebody has
// looked at what differs from the releases that are served.
func (r *Replica) Serve(ctx context.Context, public, admin net.Listener, reviewed bool) (err error) {
	var ready atomic.Bool
	front := &http.Server{Handler: r.handler(), ReadHeaderTimeout: 10 * time.Second}
	back := &http.Server{Handler: r.operators(&ready), ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer front.Close()
	defer back.Close()
	serving.Go(func() { _ = back.Serve(admin) })
	if err := r.gate.enter(ctx, reviewed); err != nil {
		public.Close()
		return err
	}
	defer func() { err = errors.Join(err, r.gate.leave(ctx)) }()
	failed := make(chan error, 1)
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	background := r.background(work, failed)
	serving.Go(func() {
		if err := front.Serve(public); !errors.Is(err, http.ErrServerClosed) {
			note(failed, err)
		}
	})
	ready.Store(true)
	r.log.InfoContext(ctx, "ready", "public", public.Addr().String(), "admin", admin.Addr().String())
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	ready.Store(false)
	stop()
	return errors.Join(err, r.drain(context.WithoutCancel(ctx), front, background, err == nil))
}

func note(failed chan<- error, err error) {
	select {
	case failed <- err:
	default: // one is enough to end
	}
}

// background starts what goes on beside calls; what it returns is closed when
// all of it has ended.
func (r *Replica) background(ctx context.Context, failed chan<- error) <-chan struct{} {
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.runner.Run(ctx); err != nil {
			note(failed, fmt.Errorf("gateway: background work: %w", err))
		}
	})
	wg.Go(func() {
		r.gate.stay(ctx, func(err error) {
			r.log.WarnContext(ctx, "the replica could not be renewed among the others", "error", err.Error())
		})
	})
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	return ended
}

// drain ends in order: first nobody sends anything any more, then calls end, then
// what they use.
func (r *Replica) drain(ctx context.Context, front *http.Server, background <-chan struct{}, grace bool) error {
	if grace {
		r.log.InfoContext(ctx, "not ready any more", "grace", r.cfg.Grace.or(3*time.Second).String())
		t := time.NewTimer(r.cfg.Grace.or(3 * time.Second))
		<-t.C
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Drain.or(30*time.Second))
	defer cancel()
	var errs []error
	if err := r.adapter.Shutdown(ctx); err != nil {
		errs = append(errs, ErrCut)
	}
	errs = append(errs, front.Shutdown(ctx))
	select {
	case <-background:
	case <-ctx.Done():
		errs = append(errs, errors.New("gateway: the background work has not ended in time"))
	}
	errs = append(errs, r.manager.Close(ctx)) // renewals that run are ended: their answers are worth a consent
	r.log.InfoContext(ctx, "drained")
	return errors.Join(errs...)
}

// operators is what only operators reach.
func (r *Replica) operators(ready *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), 2*time.Second)
		defer cancel()
		if !ready.Load() || r.db.PingContext(ctx) != nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /metrics", r.tel.Metrics())
	return mux
}
