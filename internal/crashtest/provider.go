package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// trouble is what a provider does with the next change of a thing.
type trouble struct {
	Do  string // a key of troubles; "" answers
	PID int    // of the worker, for those that kill
}

// What a provider can do. The words are for plans and for the log.
const (
	dropBefore = "drop before applying"
	dropAfter  = "apply and drop the answer"
	killBefore = "kill the worker before applying"
	killAfter  = "kill the worker between commit and answer"
	busyBefore = "503 without effect"
	busyAfter  = "503 with effect"
	applyLate  = "drop the connection and apply later"
	answerLate = "apply and answer late"
)

// provider counts what it applied: that is the truth.
type provider struct {
	mu      sync.Mutex
	plans   map[string][]trouble
	applied map[string][]string // keys of the changes of a thing
	seen    map[string]bool     // idempotency keys
	forget  bool
}

// provide is the provider's process. It says its two addresses on the standard
// output, and ends with the standard input.
func provide() {
	p := &provider{plans: map[string][]trouble{}, applied: map[string][]string{}, seen: map[string]bool{}, forget: os.Getenv("FORGET") == "true"}
	api := http.NewServeMux()
	api.HandleFunc("POST /{kind}/{thing}", p.change)
	api.HandleFunc("GET /{kind}/{thing}", p.list)
	control := http.NewServeMux()
	control.HandleFunc("PUT /plan/{thing}", p.plan)
	control.HandleFunc("GET /truth/{thing}", p.truth)
	var bases []string
	for _, h := range []http.Handler{api, control} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fatal(err)
		}
		bases = append(bases, "http://"+l.Addr().String())
		go func() { fatal(http.Serve(l, h)) }()
	}
	fmt.Println(strings.Join(bases, " "))
	_, _ = os.Stdin.Read(make([]byte, 1)) // nobody writes: it ends with the parent
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "crashtest:", err)
	os.Exit(2)
}

func (p *provider) plan(w http.ResponseWriter, r *http.Request) {
	var t trouble
	if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans[r.PathValue("thing")] = []trouble{t}
}

func (p *provider) truth(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprint(w, len(p.applied[r.PathValue("thing")]))
}

func (p *provider) next(thing string) trouble {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.plans[thing]
	if len(list) == 0 {
		return trouble{}
	}
	p.plans[thing] = list[1:]
	return list[0]
}

// apply makes the change, unless the provider recognises it.
func (p *provider) apply(thing, key, idempotency string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if idempotency != "" && p.seen[idempotency] && !p.forget {
		return
	}
	p.seen[idempotency] = true
	p.applied[thing] = append(p.applied[thing], key)
}

func (p *provider) change(w http.ResponseWriter, r *http.Request) {
	var body struct{ Key string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	thing, idempotency := r.PathValue("thing"), r.Header.Get("Idempotency-Key")
	apply := func() { p.apply(thing, body.Key, idempotency) }
	t := p.next(thing)
	switch t.Do {
	case dropAfter, killAfter, busyAfter, answerLate, "":
		apply()
	}
	switch t.Do {
	case killBefore, killAfter:
		_ = syscall.Kill(t.PID, syscall.SIGKILL) // it may be dead already
		hangUp(w)
	case dropBefore, dropAfter:
		hangUp(w)
	case applyLate:
		hangUp(w)
		time.Sleep(1500 * time.Millisecond) // of the 4 s for which nothing is concluded from its absence
		apply()
	case busyBefore, busyAfter:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		if t.Do == answerLate {
			time.Sleep(100 * time.Millisecond)
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%q,"key":%q}`, thing, body.Key)
	}
}

func hangUp(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		conn.Close()
	}
}

func (p *provider) list(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	items := []map[string]string{}
	for _, key := range p.applied[r.PathValue("thing")] {
		items = append(items, map[string]string{"id": r.PathValue("thing"), "key": key})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
}
