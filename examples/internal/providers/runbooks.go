package providers

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

// Runbooks is a small document store of our own making:
//
//	GET /runbooks?namespace=N&service=S&q=WORDS&limit=L&cursor=C
//	    {"runbooks":[{...}],"next":"C"}   by id; next is missing on the last page
//	GET /runbooks/ID
//	    {..., "body":"..."}               ETag is the version
//
// All parameters are optional; q admits a document that holds every word in its
// title or body, whatever their case; limit is 1 to 50, 20 if missing. The owner
// is null where nobody owns the document. The body is data: one of the documents
// holds a sentence that gives orders. Errors are those of [AlertHistory].
type Runbooks struct {
	Wire
	opts RunbooksOptions
}

// RunbooksOptions configures [NewRunbooks]; nil is the incident.
type RunbooksOptions struct {
	// Authorization is the header's value that every request needs; empty: none.
	Authorization string
}

// NewRunbooks returns the store of the incident.
func NewRunbooks(opts *RunbooksOptions) *Runbooks {
	r := &Runbooks{}
	if opts != nil {
		r.opts = *opts
	}
	return r
}

type runbook struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	Namespace string    `json:"namespace"`
	Service   string    `json:"service"`
	Owner     *string   `json:"owner"`
	Version   string    `json:"version"`
	Updated   time.Time `json:"updated_at"`
	Body      string    `json:"body,omitempty"`
}

func newRunbook(in alr.Runbook, withBody bool) runbook {
	out := runbook{in.ID, in.Title, in.Namespace, in.Service, nil, in.Version, in.Updated, ""}
	if in.Owner != "" {
		out.Owner = &in.Owner
	}
	if withBody {
		out.Body = in.Body
	}
	return out
}

// ServeHTTP answers one request.
func (b *Runbooks) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.serve(w, r, b.answer) }

func (b *Runbooks) answer(w http.ResponseWriter, r *http.Request) {
	id, isOne := strings.CutPrefix(r.URL.Path, "/runbooks/")
	switch {
	case b.opts.Authorization != "" && r.Header.Get("Authorization") != b.opts.Authorization:
		ownError(w, http.StatusUnauthorized, "unauthorized", "the header Authorization is missing or wrong")
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET")
		ownError(w, http.StatusMethodNotAllowed, "method_not_allowed", "this store can only be read")
	case isOne:
		b.one(w, id)
	case r.URL.Path == "/runbooks":
		b.search(w, r)
	default:
		ownError(w, http.StatusNotFound, "not_found", "no such path")
	}
}

func (b *Runbooks) one(w http.ResponseWriter, id string) {
	for _, x := range alr.Runbooks() {
		if x.ID == id {
			w.Header().Set("ETag", `"`+x.Version+`"`)
			send(w, http.StatusOK, "application/json", encode(newRunbook(x, true), false))
			return
		}
	}
	ownError(w, http.StatusNotFound, "not_found", "no such runbook")
}

func (b *Runbooks) search(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	filters := q.Get("namespace") + "|" + q.Get("service") + "|" + q.Get("q")
	limit, after, problem := ownPage(q.Get("limit"), q.Get("cursor"), filters)
	if problem != "" {
		ownError(w, http.StatusBadRequest, "bad_request", problem)
		return
	}
	words := strings.Fields(strings.ToLower(q.Get("q")))
	found := slices.DeleteFunc(alr.Runbooks(), func(x alr.Runbook) bool {
		text := strings.ToLower(x.Title + " " + x.Body)
		return q.Get("namespace") != "" && q.Get("namespace") != x.Namespace || q.Get("service") != "" && q.Get("service") != x.Service ||
			slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
	found = visible(&b.Wire, found)
	page := struct {
		Runbooks []runbook `json:"runbooks"`
		Next     string    `json:"next,omitempty"`
	}{Runbooks: []runbook{}}
	for _, x := range found[min(after, len(found)):min(after+limit, len(found))] {
		page.Runbooks = append(page.Runbooks, newRunbook(x, false))
	}
	if after+limit < len(found) {
		page.Next = ownCursor(after+limit, filters)
	}
	send(w, http.StatusOK, "application/json", encode(page, false))
}
