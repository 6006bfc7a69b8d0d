// Package connectpage serves the pages on which people connect accounts, look at
// what they have connected, and disconnect it.
//
// A call without an account ends with CONNECTION_REQUIRED and a link. The link
// leads here: the person for whom it was made sees which provider it is, which
// organization, and in plain words what is asked for, and goes on to the provider
// or not.
//
//	pages, err := connectpage.New(m, func(r *http.Request) (authz.Principal, error) {
//		return session(r) // whoever is signed in here; never the agent's token
//	}, nil)
//	mux.Handle("/connect/", http.StripPrefix("/connect", pages))
//	mux.Handle("/callback/tickets", pages.Callback("tickets"))
//
// Links are those of connection.Options.ConnectURL, and callbacks those of
// Provider.RedirectURI: each provider has a path of its own, and an answer at
// another provider's path is refused before anything is sent.
//
// The list of the viewer's accounts is at /, one account at /accounts/{id}.
//
// # What protects the flow
//
// A link works for the user it was made for. Everybody else is told that there is
// no such link; nothing is begun, and no cookie is set. Going on is a POST from
// the page's own origin, so that nobody is sent to a provider by a picture in a
// mail. It sets a cookie of this browser alone (__Host-, HttpOnly, Secure,
// SameSite=Lax); the answer is acted on in that browser, once. A browser that
// loads a page ahead, and a program that asks with HEAD what is behind a link,
// use up nothing.
//
// Answers are kept out of caches and referrers, and of frames. Pages work without
// scripts, and allow none. What the provider's answer says in words is never
// shown: it may be anybody's.
//
// # What it does not do
//
// It signs nobody in. It takes answers in the query of a GET only
// (response_mode=query). It writes no log: codes and states stand in the query of
// the callback's address, which the host's own log of requests must leave out.
package connectpage

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/internal/page"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const maxForm = 4 << 10 // bytes of an answer

// Options are options of [New]. The zero value is ready.
type Options struct {
	// Base is where the pages are mounted, a path ("/connect") or an absolute
	// URL. Empty: "/connect". Callbacks link to it.
	Base string

	// SignIn is where somebody is sent who is not signed in. Empty: they are
	// answered 401. It is a path or a URL of the integrator's, never of a request.
	SignIn string

	// Words says in plain words what a scope of a provider permits ("read your
	// tickets"). Where it is nil or returns "", the provider's own name for the
	// scope is shown, as such.
	Words func(provider, scope string) string
}

// Handler serves the pages. It is safe for concurrent use.
type Handler struct {
	m    *connection.Manager
	who  func(*http.Request) (authz.Principal, error)
	opts Options
	mux  http.Handler

	ask, leave, list, one, said *page.Template
}

var _ http.Handler = (*Handler)(nil)

// New returns the pages of a manager's connections. who says who is looking, from
// the integrator's own session: an error that is AUTHENTICATION_REQUIRED is not
// signed in, any other one is 503. opts may be nil.
func New(m *connection.Manager, who func(*http.Request) (authz.Principal, error), opts *Options) (*Handler, error) {
	if m == nil || who == nil {
		return nil, errors.New("connectpage: want a manager, and who is looking")
	}
	h := &Handler{m: m, who: who}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.Base == "" {
		h.opts.Base = "/connect"
	}
	h.opts.Base = strings.TrimSuffix(h.opts.Base, "/")
	var errs [5]error
	h.ask, errs[0] = page.New(askText, h.funcs())
	h.leave, errs[1] = page.New(leaveText, h.funcs())
	h.list, errs[2] = page.New(listText, h.funcs())
	h.one, errs[3] = page.New(oneText, h.funcs())
	h.said, errs[4] = page.New(saidText, h.funcs())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.serve(h.showList))
	mux.HandleFunc("GET /{id}", h.serve(h.showAsk))
	mux.HandleFunc("POST /{id}", h.serve(h.depart))
	mux.HandleFunc("GET /accounts/{id}", h.serve(h.showOne))
	mux.HandleFunc("POST /accounts/{id}", h.serve(h.change))
	h.mux = http.NewCrossOriginProtection().Handler(mux)
	return h, errors.Join(errs[:]...)
}

// ServeHTTP implements [http.Handler]. It is mounted so that the list is at "/".
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page.Headers(w.Header()) // also on what the mux answers itself
	if page.Prefetch(r) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// Callback returns the handler of a provider's RedirectURI.
func (h *Handler) Callback(provider string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page.Headers(w.Header())
		switch {
		case page.Prefetch(r):
			w.WriteHeader(http.StatusNoContent)
		case r.Method != http.MethodGet: // HEAD too: who only looks uses up nothing
			w.Header().Set("Allow", http.MethodGet)
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			h.serve(func(w http.ResponseWriter, r *http.Request, who authz.Principal) { h.arrive(w, r, who, provider) })(w, r)
		}
	})
}

// serve finds out who is looking.
func (h *Handler) serve(next func(http.ResponseWriter, *http.Request, authz.Principal)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := h.who(r)
		switch {
		case err == nil && !who.IsZero():
			next(w, r, who)
		case err != nil && toolresult.Code(err) != toolresult.AuthenticationRequired:
			h.say(w, http.StatusServiceUnavailable, "Not now", "Who you are cannot be found out at the moment. Nothing has changed.")
		case h.opts.SignIn != "" && r.Method == http.MethodGet:
			http.Redirect(w, r, h.opts.SignIn, http.StatusSeeOther)
		default:
			h.say(w, http.StatusUnauthorized, "Sign in first", "You are not signed in. Nothing has changed.")
		}
	}
}

func (h *Handler) say(w http.ResponseWriter, status int, title, text string) {
	page.Write(w, status, h.said, title, said{text, h.opts.Base + "/"})
}

// fail shows an error: its message is a constant of this module.
func (h *Handler) fail(w http.ResponseWriter, err error) {
	e := toolresult.AsError(err)
	status, title := http.StatusServiceUnavailable, "Not now"
	switch e.Code {
	case toolresult.NotFound:
		status, title = http.StatusNotFound, "No such link"
	case toolresult.ConnectionRequired:
		h.say(w, http.StatusNotFound, "No such account", "There is no such account, or it is not yours, or it is over. Nothing has changed.")
		return
	case toolresult.AuthenticationRequired:
		status, title = http.StatusUnauthorized, "Sign in first"
	case toolresult.PermissionDenied:
		status, title = http.StatusForbidden, "Not connected"
	case toolresult.Conflict:
		status, title = http.StatusConflict, "Not now"
	case toolresult.ProviderError:
		status, title = http.StatusBadGateway, "Not connected"
	}
	text := "It cannot be read or written at the moment."
	if e.Message != "" {
		text = sentence(string(e.Message))
	}
	h.say(w, status, title, text)
}

// form reads a small form.
func (h *Handler) form(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil || len(r.PostForm["do"]) != 1 {
		h.say(w, http.StatusBadRequest, "Not understood", "The answer could not be read. Nothing has changed.")
		return false
	}
	return true
}

func (h *Handler) showAsk(w http.ResponseWriter, r *http.Request, who authz.Principal) {
	p, err := h.m.Pending(r.Context(), who, r.PathValue("id"))
	switch {
	case err != nil:
		h.fail(w, err)
	case p.Stage != connection.Begun && p.Stage != connection.Opened, !time.Now().Before(p.Expires):
		h.say(w, http.StatusGone, "This link is over", "It was used, or its time has passed. Ask for what you wanted once more, and a new one is made.")
	default:
		page.Write(w, http.StatusOK, h.ask, "Connect "+plain(p.Title)+"?", pending{p, r.PathValue("id"), who.Key()})
	}
}

// depart sends the browser to the provider. It is a page that goes on by itself
// and not a redirect: a policy for forms would apply to all the places to which
// the provider redirects in turn.
func (h *Handler) depart(w http.ResponseWriter, r *http.Request, who authz.Principal) {
	if !h.form(w, r) {
		return
	}
	if r.PostForm.Get("do") != "connect" {
		h.say(w, http.StatusOK, "Not connected", "Nothing was sent to the provider, and nothing has changed. The link works until its time has passed.")
		return
	}
	id := r.PathValue("id")
	p, err := h.m.Pending(r.Context(), who, id)
	var d connection.Departure
	if err == nil {
		d, err = h.m.Open(r.Context(), who, id)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	http.SetCookie(w, cookie(id, d.Browser, int(time.Until(d.Expires).Seconds())))
	w.Header().Set("Refresh", "0; url="+d.URL)
	page.Write(w, http.StatusOK, h.leave, "On to "+plain(p.Title), departure{d.URL, plain(p.Title)})
}

// cookie holds the browser's secret of one transaction, so that two links that
// are open side by side do not disturb each other.
func cookie(id, value string, seconds int) *http.Cookie {
	if value == "" {
		seconds = -1
	}
	return &http.Cookie{Name: cookieName(id), Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// cookieName makes a name of whatever stands in an address.
func cookieName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "__Host-drawbridge-connect-" + hex.EncodeToString(sum[:8])
}

// arrive acts on a provider's answer.
func (h *Handler) arrive(w http.ResponseWriter, r *http.Request, who authz.Principal, provider string) {
	q := r.URL.Query()
	id, _, _ := strings.Cut(q.Get("state"), ".")
	p, err := h.m.Pending(r.Context(), who, id)
	if err == nil && p.Provider != provider {
		err = toolresult.NewError(toolresult.PermissionDenied, "the answer came to the address of another provider: nothing was connected")
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	secret := ""
	if c, err := r.Cookie(cookieName(id)); err == nil {
		secret = c.Value
	}
	out, err := h.m.Callback(r.Context(), who, secret, q)
	switch {
	case err != nil:
		h.fail(w, err)
	case out.ReturnTo != "": // checked when the link was made
		http.Redirect(w, r, out.ReturnTo, http.StatusSeeOther)
	default:
		page.Write(w, http.StatusOK, h.one, plain(p.Title)+" is connected", h.view(out.Connection, true))
	}
}

func (h *Handler) showList(w http.ResponseWriter, r *http.Request, who authz.Principal) {
	all, err := h.m.Connections(r.Context(), who)
	if err != nil {
		h.fail(w, err)
		return
	}
	var views []account
	for _, c := range all {
		views = append(views, h.view(c, false))
	}
	page.Write(w, http.StatusOK, h.list, "Your connected accounts", views)
}

// mine returns a connection of the viewer.
func (h *Handler) mine(r *http.Request, who authz.Principal) (connection.Connection, error) {
	all, err := h.m.Connections(r.Context(), who)
	if err != nil {
		return connection.Connection{}, err
	}
	for _, c := range all {
		if c.ID == r.PathValue("id") {
			return c, nil
		}
	}
	return connection.Connection{}, toolresult.NewError(toolresult.ConnectionRequired, "there is no such account")
}

func (h *Handler) showOne(w http.ResponseWriter, r *http.Request, who authz.Principal) {
	c, err := h.mine(r, who)
	if err != nil {
		h.fail(w, err)
		return
	}
	page.Write(w, http.StatusOK, h.one, "Your account at "+plain(c.Provider), h.view(c, false))
}

// change disconnects an account, or begins to connect it once more.
func (h *Handler) change(w http.ResponseWriter, r *http.Request, who authz.Principal) {
	if !h.form(w, r) {
		return
	}
	c, err := h.mine(r, who)
	if err != nil {
		h.fail(w, err)
		return
	}
	switch r.PostForm.Get("do") {
	case "disconnect":
		c, err = h.m.Disconnect(r.Context(), who, c.ID)
		if err != nil {
			h.fail(w, err)
			return
		}
		page.Write(w, http.StatusOK, h.one, "Disconnected from "+plain(c.Provider), h.view(c, false))
	case "again":
		link, err := h.m.Begin(r.Context(), who, &connection.BeginRequest{Provider: c.Provider, Connection: c.ID})
		if err != nil {
			h.fail(w, err)
			return
		}
		http.Redirect(w, r, h.opts.Base+"/"+link.ID, http.StatusSeeOther)
	default:
		h.say(w, http.StatusBadRequest, "Not understood", "An answer is one of disconnect and again. Nothing has changed.")
	}
}
