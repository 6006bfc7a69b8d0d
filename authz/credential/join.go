package credential

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Joined is a [Broker] made of others; see [Join].
type Joined struct {
	brokers []Broker

	mu   sync.Mutex
	uses map[Handle]Broker
}

// Join returns a broker that asks several.
//
// Statics are asked first: if more than one has a key for the call, the host
// must choose the connection (CONFLICT). Then the others, in order; one that
// answers CONNECTION_REQUIRED leaves the call to the next, and any other answer
// is final. A handle is only ever used with the broker that made it. Join of
// nothing refuses everything.
func Join(brokers ...Broker) *Joined {
	j := &Joined{uses: map[Handle]Broker{}}
	for _, b := range brokers {
		if b != nil {
			j.brokers = append(j.brokers, b)
		}
	}
	return j
}

// Resolve implements [Broker].
func (j *Joined) Resolve(ctx context.Context, req *ResolveRequest) (Resolved, error) {
	if req == nil || req.Principal.IsZero() {
		return Resolved{}, toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known")
	}
	var statics, others []Broker
	for _, b := range j.brokers {
		s, ok := b.(*Static)
		switch {
		case !ok:
			others = append(others, b)
		case s.serves(req):
			statics = append(statics, b)
		}
	}
	if len(statics) > 1 {
		return Resolved{}, toolresult.NewError(toolresult.Conflict, "several accounts fit this call: choose one")
	}
	missing := errNoAccount()
	for _, b := range append(statics, others...) {
		r, err := b.Resolve(ctx, req)
		if err == nil {
			j.keep(ctx, r, b)
			return r, nil
		}
		if !errors.Is(err, toolresult.ConnectionRequired) {
			return Resolved{}, err
		}
		if toolresult.AsError(missing).Connect == nil {
			missing = err // it may say how to connect
		}
	}
	return Resolved{}, missing
}

// keep remembers who made the handle until it is over.
func (j *Joined) keep(ctx context.Context, r Resolved, b Broker) {
	cancel := func() {}
	if !r.Expires.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, r.Expires)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.uses[r.Handle] = b
	context.AfterFunc(ctx, func() {
		cancel()
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.uses, r.Handle)
	})
}

func (j *Joined) broker(h Handle) (Broker, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b, ok := j.uses[h]; ok && !h.IsZero() {
		return b, nil
	}
	return nil, errOver()
}

// Apply implements [Broker].
func (j *Joined) Apply(ctx context.Context, h Handle, origin string, req *http.Request) error {
	b, err := j.broker(h)
	if err != nil {
		return err
	}
	return b.Apply(ctx, h, origin, req)
}

// Check implements [Broker].
func (j *Joined) Check(ctx context.Context, h Handle) error {
	b, err := j.broker(h)
	if err != nil {
		return err
	}
	return b.Check(ctx, h)
}

// Rejected implements [BrokerWithRejection] for those that it is made of.
func (j *Joined) Rejected(ctx context.Context, h Handle) (another bool, err error) {
	b, err := j.broker(h)
	if err != nil {
		return false, err
	}
	return Reject(ctx, b, h)
}
