// Package review serves the pages on which people approve changes.
//
// A change that needs a person ends with APPROVAL_REQUIRED and an id. The person
// opens the page of that id, sees who wants what, exactly what would be sent, and
// says yes or no:
//
//	pages, err := review.New(inv, func(r *http.Request) (authz.Principal, error) {
//		return session(r) // whoever is signed in here; never the agent's token
//	}, nil)
//	mux.Handle("/approvals/", http.StripPrefix("/approvals", pages))
//
// The list at / holds what waits for an answer that the viewer may give. The page
// of one question shows the rendering byte for byte, says when it ends, and, where
// another question for the same objects by the same requester waits (the oldest
// five of them), what differs between the two. The answer carries the digest of what was shown, so that
// nobody approves what they have not seen.
//
// Pages work without scripts. Answers are taken from the page's own origin only,
// and a browser that loads a page ahead gets nothing.
//
// # What it does not do
//
// It signs nobody in, and sends nothing: the change is made when its owner repeats
// the call. It tells nobody that a question waits; see [Handler.Link] for what to
// put into a message.
package review

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/page"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	mostShown  = 100     // questions in the list
	mostOthers = 5       // wordings that are compared on one page
	maxForm    = 4 << 10 // bytes of an answer
)

// Options are options of New. The zero value is ready.
type Options struct {
	// Base is the absolute URL under which the pages are reached
	// ("https://agent.example.com/approvals"), for Link. Empty: Link returns a
	// path.
	Base string

	// SignIn is where somebody is sent who is not signed in. Empty: they are
	// answered 401. It is a path or a URL of the integrator's, never of a request.
	SignIn string
}

// Handler serves the pages. It is safe for concurrent use.
type Handler struct {
	inv  *connector.Invoker
	who  func(*http.Request) (authz.Principal, error)
	opts Options
	mux  http.Handler

	list, one, said *page.Template
}

var _ http.Handler = (*Handler)(nil)

// New returns the pages of an invoker's approvals. who says who is looking, from
// the integrator's own session: an error that is AUTHENTICATION_REQUIRED is not
// signed in, any other one is 503. opts may be nil.
func New(inv *connector.Invoker, who func(*http.Request) (authz.Principal, error), opts *Options) (*Handler, error) {
	if inv == nil || who == nil {
		return nil, errors.New("review: want an invoker, and who is looking")
	}
	h := &Handler{inv: inv, who: who}
	if opts != nil {
		h.opts = *opts
	}
	var errs [3]error
	h.list, errs[0] = page.New(listText, funcs())
	h.one, errs[1] = page.New(oneText, funcs())
	h.said, errs[2] = page.New(saidText, funcs())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.serve(h.showList))
	mux.HandleFunc("GET /{id}", h.serve(h.showOne))
	mux.HandleFunc("POST /{id}", h.serve(h.take))
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

// Link returns where a person answers the question. The link grants nothing.
func (h *Handler) Link(id string) string { return strings.TrimSuffix(h.opts.Base, "/") + "/" + id }

// serve finds out who is looking.
func (h *Handler) serve(next func(http.ResponseWriter, *http.Request, authz.Principal)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := h.who(r)
		switch {
		case err == nil:
			next(w, r, who)
		case toolresult.Code(err) != toolresult.AuthenticationRequired:
			h.say(w, http.StatusServiceUnavailable, "Not now", "Who you are cannot be found out at the moment. Nothing has changed.")
		case h.opts.SignIn != "" && r.Method == http.MethodGet:
			http.Redirect(w, r, h.opts.SignIn, http.StatusSeeOther)
		default:
			h.say(w, http.StatusUnauthorized, "Sign in first", "You are not signed in. Nothing has changed.")
		}
	}
}

func (h *Handler) say(w http.ResponseWriter, status int, title, text string) {
	page.Write(w, status, h.said, title, text)
}

// fail shows an error without its cause.
func (h *Handler) fail(w http.ResponseWriter, err error) {
	switch toolresult.Code(err) {
	case toolresult.NotFound:
		h.say(w, http.StatusNotFound, "No such question", "There is no such question, or none that you may answer.")
	case toolresult.AuthenticationRequired:
		h.say(w, http.StatusUnauthorized, "Sign in first", "You are not signed in. Nothing has changed.")
	case toolresult.ApprovalInvalid:
		h.say(w, http.StatusConflict, "Too late", "The question is over, was answered otherwise, or is not the one that you were shown. Nothing has changed; open it again.")
	case toolresult.Conflict:
		h.say(w, http.StatusConflict, "Somebody was faster", "The question was answered in the meantime. Open it again.")
	default:
		h.say(w, http.StatusServiceUnavailable, "Not now", "Approvals cannot be read or written at the moment. Nothing has changed.")
	}
}

func (h *Handler) showList(w http.ResponseWriter, r *http.Request, who authz.Principal) {
	all, err := h.inv.Approvals(r.Context(), who, mostShown)
	if err != nil && toolresult.Code(err) != toolresult.ResultTooLarge {
		h.fail(w, err)
		return
	}
	page.Write(w, http.StatusOK, h.list, "Changes that wait for you", struct {
		All  []authz.Approval
		More bool
	}{all, err != nil || len(all) == mostShown})
}

func (h *Handler) showOne(w http.ResponseWriter, r *http.Request, who authz.Principal) {
	a, err := h.inv.Approval(r.Context(), who, r.PathValue("id"))
	if err != nil {
		h.fail(w, err)
		return
	}
	view := question{Approval: a, Digest: a.Statement.Digest(), Own: a.Statement.Requester == who.Key(), Now: time.Now()}
	_, err = h.inv.MayApprove(r.Context(), who, a.ID)
	if err != nil && toolresult.Code(err) != toolresult.NotFound {
		h.fail(w, err)
		return
	}
	view.May = err == nil // who may answer, and is not only its requester
	waiting, err := h.inv.Approvals(r.Context(), who, mostShown)
	if err != nil && toolresult.Code(err) != toolresult.ResultTooLarge {
		h.fail(w, err)
		return
	}
	for _, b := range waiting {
		if len(view.Others) < mostOthers && b.ID != a.ID && sameMatter(a, b) {
			view.Others = append(view.Others, other{b.ID, b.Asked, diff(b.Rendering, a.Rendering)})
		}
	}
	page.Write(w, http.StatusOK, h.one, "Approve this change?", view)
}

// sameMatter reports whether two questions are about one thing in two wordings.
func sameMatter(a, b authz.Approval) bool {
	return a.Statement.Requester == b.Statement.Requester && a.Statement.Capability == b.Statement.Capability && a.Statement.Binding.Targets == b.Statement.Binding.Targets
}

// take takes an answer.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, who authz.Principal) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		h.say(w, http.StatusBadRequest, "Not understood", "The answer could not be read. Nothing has changed.")
		return
	}
	req := &connector.ApproveRequest{Principal: who, ID: r.PathValue("id"), Digest: r.PostForm.Get("digest")}
	answer := map[string]func() (authz.Approval, error){
		"approve": func() (authz.Approval, error) { return h.inv.Approve(r.Context(), req) },
		"refuse":  func() (authz.Approval, error) { return h.inv.Refuse(r.Context(), req) },
	}[r.PostForm.Get("answer")]
	if answer == nil || len(r.PostForm["answer"]) != 1 || len(r.PostForm["digest"]) != 1 {
		h.say(w, http.StatusBadRequest, "Not understood", "An answer is one of approve and refuse, with the digest of what was shown. Nothing has changed.")
		return
	}
	a, err := answer()
	switch {
	case err != nil:
		h.fail(w, err)
	case a.Refused:
		h.say(w, http.StatusOK, "Refused", "This change will not be made. The same one is not asked about again until "+instant(a.Expires)+".")
	default:
		h.say(w, http.StatusOK, "Approved", "Exactly this change may be made once, until "+instant(a.Expires)+". It is made when it is called for again.")
	}
}
