// Package world is what the gateway talks to, on loopback: the authorization
// server that knows its callers, a provider with an authorization server of its
// own, and the provider's systems, which are the doubles of examples/internal
// behind bearer tokens.
//
// Each account at the provider has a ticket system of its own, and what is read
// from it or from the runbooks bears the account's mark: an answer that reaches
// somebody else shows it. Of each change the world notes what was really done,
// by account and operation key, and it can be told to lose answers.
//
// It judges refreshes, too: how many access tokens were near their end when they
// were replaced, and how many requests were sent for that.
package world

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/providers"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// What the two authorization servers know of the gateway. A real gateway's
// secrets are nobody's constants.
const (
	Gateway      = "gateway"                          // its client id at both
	Secret       = "gateway-example-secret"           // at both
	Agent        = "agent"                            // the client of the callers
	AgentReturn  = "http://127.0.0.1/agent/callback"  // of the callers
	ReturnToHere = "http://127.0.0.1/connect/desk/cb" // of the gateway, at the provider
	Scope        = "desk"                             // of an account at the provider
)

// Trouble is what becomes of one change at the provider.
type Trouble uint8

// The troubles. The zero Trouble is none.
const (
	None       Trouble = iota
	DropBefore         // the connection ends, and nothing was done
	DropAfter          // it was done, and the connection ends
	BusyBefore         // 503, and nothing was done
	BusyAfter          // it was done, and 503
	Slow               // it was done, and the answer takes its time
	Twice              // a control: one request is done twice
	Never              // a control: it says that it was done
)

// Options are options of [Start]. Nil is a world without trouble.
type Options struct {
	// AccessFor is how long the provider's access tokens live. 0: 1 h.
	AccessFor time.Duration
	// Trouble says what becomes of a change. Nil: nothing happens.
	Trouble func() Trouble
	// Mistake is a control: whose data a read by an account gets. Nil: its own.
	Mistake func(account string) string
	// Repeat is a control: whether a refresh is counted as two.
	Repeat func() bool
}

// World runs until Close. It is safe for concurrent use.
type World struct {
	Identity, Desk           *authserver.Server
	IdentityURL, ProviderURL string

	opts    Options
	metrics http.Handler
	books   http.Handler
	servers []*http.Server
	serving sync.WaitGroup

	mu      sync.Mutex
	tickets map[string]*providers.Redmine // by account
	applied map[Change]int

	refreshes
}

// Change is one change, as its owner calls it.
type Change struct{ Account, Key string }

// Start starts a world. The caller closes it.
func Start(opts *Options) (_ *World, err error) {
	w := &World{tickets: map[string]*providers.Redmine{}, applied: map[Change]int{},
		metrics: providers.NewPrometheus(&providers.PrometheusOptions{V3: true}), books: providers.NewRunbooks(nil)}
	if opts != nil {
		w.opts = *opts
	}
	w.refreshes.init(w.opts.AccessFor)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	w.Identity = authserver.New(nil)
	if w.IdentityURL, err = w.serve(w.Identity); err != nil {
		return nil, err
	}
	w.Identity.Set(func(o *authserver.Options) { o.Issuer, o.AccessFor = w.IdentityURL, 12*time.Hour })
	w.Identity.AddClient(authserver.Client{ID: Gateway, Secret: Secret})
	w.Identity.AddClient(authserver.Client{ID: Agent, Redirects: []string{AgentReturn}})
	w.Desk = authserver.New(&authserver.Options{AccessFor: w.opts.AccessFor})
	if w.ProviderURL, err = w.serve(w.provider()); err != nil {
		return nil, err
	}
	w.Desk.Set(func(o *authserver.Options) { o.Issuer = w.ProviderURL })
	w.Desk.AddClient(authserver.Client{ID: Gateway, Secret: Secret, Redirects: []string{ReturnToHere}})
	return w, nil
}

// Close ends the servers and waits for them.
func (w *World) Close() error {
	var errs []error
	for _, s := range w.servers {
		errs = append(errs, s.Close())
	}
	w.serving.Wait()
	return errors.Join(errs...)
}

func (w *World) serve(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	w.servers = append(w.servers, s)
	w.serving.Go(func() { _ = s.Serve(l) }) // until Close
	return "http://" + l.Addr().String(), nil
}

// provider is one host: its authorization server and its systems.
func (w *World) provider() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", w.Desk)
	mux.HandleFunc("POST /token", w.token)
	mux.Handle("/prometheus/", http.StripPrefix("/prometheus", w.metrics)) // asks nobody who they are
	mux.Handle("/tickets/", http.StripPrefix("/tickets", w.signedIn(w.ticket)))
	mux.Handle("/runbooks/", http.StripPrefix("/runbooks", w.signedIn(w.runbook)))
	return mux
}

// signedIn lets requests through whose access token is good, as their account.
func (w *World) signedIn(next func(rw http.ResponseWriter, r *http.Request, account string)) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		t, ok := w.Desk.Bearer(r)
		if !ok {
			w.ended(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
			rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			http.Error(rw, "", http.StatusUnauthorized)
			return
		}
		r.Header.Del("Authorization")
		account := t.User.ID
		if w.opts.Mistake != nil && r.Method == http.MethodGet {
			account = w.opts.Mistake(account)
		}
		next(rw, r, account)
	})
}

// Mark is in what an account reads, and in nothing else.
func Mark(account string) string { return "mark-of-" + account + "." }

// runbook marks the titles.
func (w *World) runbook(rw http.ResponseWriter, r *http.Request, account string) {
	rec := record(w.books, r)
	body := strings.ReplaceAll(rec.body, `"title":"`, `"title":"`+Mark(account)+" ")
	rec.header.Del("Content-Length")
	rec.body = body
	rec.send(rw)
}

func (w *World) system(account string) *providers.Redmine {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tickets[account] == nil {
		w.tickets[account] = providers.NewRedmine(&providers.RedmineOptions{Key: alr.TicketKey})
	}
	return w.tickets[account]
}

// Applied is how often each change was made.
func (w *World) Applied() map[Change]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[Change]int, len(w.applied))
	for c, n := range w.applied {
		out[c] = n
	}
	return out
}
