package mcpadapter

import (
	"context"
	"sync"
)

// work counts what is under way over HTTP.
type work struct {
	ctx context.Context // ends when what is left is cut off
	cut context.CancelFunc

	mu    sync.Mutex
	ended bool // nothing begins any more
	n     int
	once  sync.Once
	idle  chan struct{} // closed when ended and n is 0
}

func newWork() *work {
	w := &work{idle: make(chan struct{})}
	w.ctx, w.cut = context.WithCancel(context.Background())
	return w
}

// begin reports whether a request may begin; each that may has to end.
func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.n++
	}
	return !w.ended
}

func (w *work) end() { w.count(func() { w.n-- }) }

func (w *work) count(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if change(); w.ended && w.n == 0 {
		w.once.Do(func() { close(w.idle) })
	}
}

// context ends with ctx, or when everything is cut off.
func (w *work) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(w.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// Shutdown ends the service over HTTP in an orderly way: new requests are
// refused with 503, streams of changes end, and calls that are under way have
// until ctx ends. Then they are cut off as if their clients had gone, and
// Shutdown returns ctx's error; what becomes of a change that had been sent is
// in the ledger, as always. It closes no listener: call it before
// [http.Server.Shutdown]. Stdio and Connect end with their own connection.
func (a *Adapter) Shutdown(ctx context.Context) error {
	w := a.work
	w.count(func() { w.ended = true })
	a.streams.close()
	defer a.sessions.close()
	select {
	case <-w.idle:
		return nil
	case <-ctx.Done():
		w.cut()
		return ctx.Err()
	}
}
