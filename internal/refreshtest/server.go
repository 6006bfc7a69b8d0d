package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
)

const (
	clientID  = "host"
	secret    = "refreshtest-secret"
	redirect  = "http://localhost/callback"
	accessFor = 3 * time.Second
	// nearEnd is the age at which a token may be replaced. It is asked for a
	// tenth of its life ahead; the rest is for a slow machine.
	nearEnd = accessFor * 3 / 4
)

// judge watches the token endpoint from outside of the server.
type judge struct {
	as   *authserver.Server
	slow bool // requests take a moment, so that workers die while they run

	mu       sync.Mutex
	codes    map[string]string  // user of a code
	tokens   map[string]*spoken // by refresh token
	requests map[string]int     // by user: refreshes that were sent
	issued   map[string]int     // by user: access tokens
	expiries int
}

// spoken is a refresh token that was given out.
type spoken struct {
	user  string
	since time.Time
	used  bool
}

// truth is what the server knows in the end.
type truth struct {
	Expiries, Requests, InvalidGrants int
	Issued                            map[string]int
}

// serve is the server's process. It says its two addresses on the standard
// output, and ends with the standard input.
func serve() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fatal(err)
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fatal(err)
	}
	base := "http://" + l.Addr().String()
	j := &judge{as: authserver.New(&authserver.Options{Issuer: base, AccessFor: accessFor}), slow: os.Getenv("SLOW") == "true",
		codes: map[string]string{}, tokens: map[string]*spoken{}, requests: map[string]int{}, issued: map[string]int{}}
	j.as.AddClient(authserver.Client{ID: clientID, Secret: secret, Redirects: []string{redirect}})
	go func() { fatal(http.Serve(l, j)) }()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /consent", j.consent)
	mux.HandleFunc("GET /truth", j.truth)
	go func() { fatal(http.Serve(control, mux)) }()
	fmt.Println(base, "http://"+control.Addr().String())
	_, _ = os.Stdin.Read(make([]byte, 1)) // nobody writes: it ends with the parent
}

// consent is what a user's browser brings back.
func (j *judge) consent(w http.ResponseWriter, r *http.Request) {
	user := r.FormValue("user")
	q, err := j.as.Consent(r.FormValue("url"), authserver.User{ID: user, Org: "org"}, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	j.mu.Lock()
	j.codes[q.Get("code")] = user
	j.mu.Unlock()
	fmt.Fprint(w, q.Encode())
}

func (j *judge) truth(w http.ResponseWriter, _ *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := truth{Expiries: j.expiries, InvalidGrants: j.as.Count("error invalid_grant"), Issued: j.issued}
	for _, n := range j.requests {
		t.Requests += n
	}
	_ = json.NewEncoder(w).Encode(t)
}

// ServeHTTP serves the server, and notes what goes in and out of /token.
func (j *judge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/token" || r.ParseForm() != nil {
		j.as.ServeHTTP(w, r)
		return
	}
	arrived := time.Now()
	user := j.asked(r, arrived)
	j.pause()
	rec := httptest.NewRecorder()
	j.as.ServeHTTP(rec, r)
	var answer struct {
		Refresh string `json:"refresh_token"`
	}
	if json.Unmarshal(rec.Body.Bytes(), &answer) == nil && answer.Refresh != "" {
		j.mu.Lock()
		j.tokens[answer.Refresh] = &spoken{user: user, since: arrived}
		j.issued[user]++
		j.mu.Unlock()
	}
	j.pause()
	for name, v := range rec.Header() {
		w.Header()[name] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

func (j *judge) pause() {
	if j.slow {
		time.Sleep(rand.N(10 * time.Millisecond))
	}
}

// asked notes a request and says whose it is.
func (j *judge) asked(r *http.Request, now time.Time) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.PostForm.Get("grant_type") != "refresh_token" {
		return j.codes[r.PostForm.Get("code")]
	}
	t := j.tokens[r.PostForm.Get("refresh_token")]
	if t == nil {
		j.requests["nobody"]++
		return "nobody"
	}
	j.requests[t.user]++
	if !t.used && now.Sub(t.since) >= nearEnd {
		j.expiries++
	}
	t.used = true
	return t.user
}
