package providers

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Wire is what every provider has: counts of the requests that arrived and
// faults to inject. The zero value counts and injects nothing.
type Wire struct {
	mu     sync.Mutex
	counts map[string]int
	total  int
	delay  time.Duration
	lose   int
	next   []Answer
	hidden int
}

// An Answer is what [Wire.AnswerNext] sends in place of the provider's own.
type Answer struct {
	Status int
	Header http.Header // copied as it is; may be nil
	Body   string
}

// Requests returns how many requests have arrived, refused and lost ones
// included.
func (w *Wire) Requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// RequestsTo returns how many requests have arrived with this method and path
// (escaped as received, without the query).
func (w *Wire) RequestsTo(method, path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[method+" "+path]
}

// Delay makes every later answer wait for d. The request is not looked at
// before; a request whose client has gone by then has no effect.
func (w *Wire) Delay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// LoseReceipt makes the next request that is neither GET nor HEAD take effect
// and then drops its connection before the first byte of the answer. Each call
// adds one.
func (w *Wire) LoseReceipt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose++
}

// AnswerNext makes the next request get a instead of being looked at: it has no
// effect. Several calls queue up.
func (w *Wire) AnswerNext(a Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = append(w.next, a)
}

// Hide leaves the first n items out of every list from now on, as if they had
// been removed; fewer than before is as if others had been added.
func (w *Wire) Hide(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hidden = n
}

// visible returns what [Wire.Hide] leaves of a list.
func visible[T any](w *Wire, list []T) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return list[min(w.hidden, len(list)):]
}

// serve counts r, applies the faults and hands over to h.
func (w *Wire) serve(rw http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
	delay, instead, lost := w.arrive(r)
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	switch {
	case instead != nil:
		maps.Copy(rw.Header(), instead.Header)
		rw.WriteHeader(instead.Status)
		io.WriteString(rw, instead.Body)
	case lost:
		h(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	default:
		h(rw, r)
	}
}

func (w *Wire) arrive(r *http.Request) (delay time.Duration, instead *Answer, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.total++
	w.counts[r.Method+" "+r.URL.EscapedPath()]++
	if len(w.next) > 0 {
		instead, w.next = &w.next[0], w.next[1:]
		return w.delay, instead, false
	}
	if w.lose > 0 && r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.lose--
		lost = true
	}
	return w.delay, nil, lost
}

// send writes a whole answer.
func send(w http.ResponseWriter, status int, contentType, body string) {
	if contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// plain answers as http.Error does: text, with a line feed.
func plain(w http.ResponseWriter, status int, text string) { http.Error(w, text, status) }

// encode returns v as JSON without a final line feed. With html, the characters
// <, > and & are escaped as \u003e and so on.
func encode(v any, html bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if err := e.Encode(v); err != nil {
		panic("providers: " + err.Error()) // our own types only
	}
	return strings.TrimSuffix(b.String(), "\n")
}
