// Package fault disturbs the exchanges of an HTTP provider, exactly where it
// hurts: before the provider sees a request, after it has applied one, between
// the headers and the body, at a byte of the body.
//
//	h := fault.Handler(double, fault.Once(1, fault.Fault{DropAfter: true}))
//
// [Handler] stands in front of a provider that is served by net/http, so that
// the client under test is the real one. [Transport] needs no server and no
// goroutine: it calls the provider in the caller's own.
//
// Faults are combined in one [Fault], and their order by a [Plan]. Everything
// that takes time uses package time, and so passes at once in a bubble of
// testing/synctest.
//
// # What it does not do
//
// It does not disturb TLS, HTTP/2 or name resolution, and it loses no packets:
// what a client sees of those is a connection that fails (Refuse, DropBefore).
package fault

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Fault is what happens to one exchange. The zero Fault does nothing. Fields can
// be combined; those of the request come before those of the answer.
type Fault struct {
	// Hang never answers: until the client gives up, or for Delay if that is set.
	Hang bool

	// Delay is how long the provider takes to begin.
	Delay time.Duration

	// DropBefore closes the connection before the provider sees the request.
	DropBefore bool

	// Status answers with this, Header and Body, and the provider does not see
	// the request. 0: the provider is asked.
	Status int
	Header http.Header
	Body   string

	// Redirect answers 307 to this URL. The provider does not see the request.
	Redirect string

	// Duplicate delivers the same bytes to the provider so many times more.
	Duplicate int

	// DropAfter closes the connection after the provider has acted and before a
	// byte of its answer.
	DropAfter bool

	// Rewrite replaces the body of the provider's answer. Nil: it stays.
	Rewrite func(body []byte) []byte

	// Gzip compresses the body, whatever the client accepts.
	Gzip bool

	// Huge puts so many bytes of white space in front of the body, but of a refusal
	// of the provider's own (400 and above). A negative
	// number never ends.
	Huge int64

	// Cut ends the connection after so many bytes of the body, which is less than
	// Content-Length says. CutHeaders ends it after the headers. Both 0: no cut.
	Cut        int
	CutHeaders bool

	// Pace is the time between two bytes of the body.
	Pace time.Duration
}

// IsZero reports whether f does nothing.
func (f Fault) IsZero() bool {
	return !f.Hang && f.Delay == 0 && !f.DropBefore && f.Status == 0 && f.Redirect == "" && f.Duplicate == 0 && !f.DropAfter &&
		f.Rewrite == nil && !f.Gzip && f.Huge == 0 && f.Cut == 0 && !f.CutHeaders && f.Pace == 0 && f.Header == nil
}

// Reaches reports whether the provider sees the request.
func (f Fault) Reaches() bool {
	return !f.Hang && !f.DropBefore && f.Status == 0 && f.Redirect == ""
}

// String names the fault in a few words, for transcripts.
func (f Fault) String() string {
	switch {
	case f.IsZero():
		return ""
	case f.Hang:
		return "no answer"
	case f.DropBefore:
		return "lost before the provider saw it"
	case f.Status != 0:
		return fmt.Sprintf("answered %d in place of the provider", f.Status)
	case f.Redirect != "":
		return "redirected"
	case f.Duplicate > 0:
		return fmt.Sprintf("delivered %d times", f.Duplicate+1)
	case f.DropAfter:
		return "answer lost after the provider acted"
	case f.Cut > 0, f.CutHeaders:
		return fmt.Sprintf("answer cut after %d bytes", f.Cut)
	case f.Pace > 0, f.Delay > 0:
		return "slow"
	case f.Huge != 0:
		return "answer too large"
	}
	return "answer changed"
}

// Plan decides the fault of each exchange; n counts from 1. A nil Plan disturbs
// nothing. It is called by many goroutines, one at a time.
type Plan func(n int, r *http.Request) Fault

// Always gives every exchange the same fault.
func Always(f Fault) Plan { return func(int, *http.Request) Fault { return f } }

// Once gives f to exchange n and nothing to the others.
func Once(n int, f Fault) Plan {
	return func(i int, _ *http.Request) Fault {
		if i == n {
			return f
		}
		return Fault{}
	}
}

// From gives f to exchange n and all that follow.
func From(n int, f Fault) Plan {
	return func(i int, _ *http.Request) Fault {
		if i >= n {
			return f
		}
		return Fault{}
	}
}

// Seq gives its faults in order, and then nothing.
func Seq(fs ...Fault) Plan {
	return func(i int, _ *http.Request) Fault {
		if i <= len(fs) {
			return fs[i-1]
		}
		return Fault{}
	}
}

// On applies the plan to the requests that match, and counts only those.
func On(match func(*http.Request) bool, p Plan) Plan {
	n := 0
	return func(_ int, r *http.Request) Fault {
		if r == nil || !match(r) {
			return Fault{}
		}
		n++
		return p(n, r)
	}
}

// Methods matches requests by method, for On.
func Methods(methods ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		for _, m := range methods {
			if r.Method == m {
				return true
			}
		}
		return false
	}
}

// counter numbers exchanges and asks the plan, one at a time.
type counter struct {
	mu   sync.Mutex
	n    int
	plan Plan
}

func (c *counter) next(r *http.Request) Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.plan == nil {
		return Fault{}
	}
	return c.plan(c.n, r)
}
