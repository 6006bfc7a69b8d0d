package world

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// refreshes watches the provider's token endpoint from outside of the server.
type refreshes struct {
	nearEnd time.Duration // the age at which an access token may be replaced

	rmu     sync.Mutex
	tokens  map[string]*given // by refresh token
	log     []Refresh
	secrets []string
	owners  map[string]string      // accounts by access token
	expired map[string][]time.Time // by account: when a token that had ended was shown
}

// given is a refresh token that was given out.
type given struct {
	account string
	since   time.Time
	used    int
}

// Refresh is one request for a new access token.
type Refresh struct {
	Account        string
	Began, Ended   time.Time
	Due, Good      bool // the access token was near its end; the answer was a new one
	Spent, Unknown bool // the refresh token had been used; had never been given out
}

func (f *refreshes) init(life time.Duration) {
	if life == 0 {
		life = time.Hour
	}
	// It is asked for a tenth of its life ahead; the rest is for a slow machine.
	f.nearEnd, f.tokens = life*3/4, map[string]*given{}
	f.owners, f.expired = map[string]string{}, map[string][]time.Time{}
}

// Refreshes returns all requests so far, in the order of their end.
func (w *World) Refreshes() []Refresh {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	return append([]Refresh(nil), w.log...)
}

// token serves POST /token of the provider, and notes what goes in and out.
func (w *World) token(rw http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(rw, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(rw, "", http.StatusBadRequest)
		return
	}
	one := w.asked(r)
	a := record(w.Desk, r)
	w.answered(one, a)
	a.send(rw)
}

// asked notes a request; nil if it is no refresh.
func (w *World) asked(r *http.Request) *Refresh {
	if r.PostForm.Get("grant_type") != "refresh_token" {
		return nil
	}
	w.rmu.Lock()
	defer w.rmu.Unlock()
	one := &Refresh{Began: time.Now()}
	t := w.tokens[r.PostForm.Get("refresh_token")]
	if t == nil {
		one.Unknown = true
		return one
	}
	one.Account, one.Spent, one.Due = t.account, t.used > 0, one.Began.Sub(t.since) >= w.nearEnd
	t.used++
	return one
}

// answered notes what was given, before anybody has it.
func (w *World) answered(one *Refresh, a *answer) {
	var out struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	good := json.Unmarshal([]byte(a.body), &out) == nil && out.Refresh != ""
	w.rmu.Lock()
	defer w.rmu.Unlock()
	if good {
		w.secrets = append(w.secrets, out.Access, out.Refresh)
		t, _ := w.Desk.Active(out.Access)
		w.owners[out.Access] = t.User.ID
		w.tokens[out.Refresh] = &given{account: t.User.ID, since: time.Now()}
	}
	if one == nil {
		return
	}
	one.Ended, one.Good = time.Now(), good
	w.log = append(w.log, *one)
	if w.opts.Repeat != nil && w.opts.Repeat() {
		again := *one
		again.Spent, again.Due = true, false
		w.log = append(w.log, again)
	}
}

// Secrets are all refresh tokens that were given out, and all access tokens.
func (w *World) Secrets() []string {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	return append([]string{Secret}, w.secrets...)
}

// ended notes that an access token came when it was over.
func (w *World) ended(access string) {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	if who := w.owners[access]; who != "" {
		w.expired[who] = append(w.expired[who], time.Now())
	}
}

// Expired reports whether an access token of an account has come too late since
// then.
func (w *World) Expired(account string, since time.Time) bool {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	times := w.expired[account]
	return len(times) > 0 && times[len(times)-1].After(since)
}
