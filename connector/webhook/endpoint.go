package webhook

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// MaxBody is how many bytes of a body an Endpoint reads, unless EndpointOptions
// says otherwise.
const MaxBody = 1 << 20

// EndpointOptions are options of an Endpoint.
type EndpointOptions struct {
	// MaxBody is how many bytes a body may have. A longer one is answered with
	// 413 before anything is computed over it. 0: the constant MaxBody.
	// GitHub's go up to 25 MB.
	MaxBody int64

	// Describe says what a delivery is about. It is called after the delivery
	// was believed, must not block, and must not trust what it reads. Nil:
	// events have no order.
	Describe func(d *Delivery) Subject

	// Logger gets deliveries that were refused, with the reason and nothing of
	// the request, and failures of the inbox. Nil: nothing is logged.
	Logger *slog.Logger
}

// Endpoint is a http.Handler that a provider delivers to. It is safe for
// concurrent use, and starts nothing.
//
// It answers 200 once the event is durable, and to one that is known; 401 to
// what is not believed, whatever the reason; 405 to other methods than POST; 413
// and 415 to bodies that are too long or encoded; 500 if the raw body is not to
// be had; 503 if the inbox did not store it. A provider tries again after all but
// the first. No answer says why.
type Endpoint struct {
	v     *Verifier
	inbox Inbox
	place Place
	opts  EndpointOptions
}

var _ http.Handler = (*Endpoint)(nil)

// NewEndpoint returns an Endpoint for one place. It fails with ErrOptions.
func NewEndpoint(v *Verifier, inbox Inbox, place Place, opts *EndpointOptions) (*Endpoint, error) {
	e := &Endpoint{v: v, inbox: inbox, place: place}
	if opts != nil {
		e.opts = *opts
	}
	if e.opts.Logger == nil {
		e.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if e.opts.MaxBody == 0 {
		e.opts.MaxBody = MaxBody
	}
	why := ""
	switch {
	case v == nil || v.check == nil:
		why = "no verifier; without one everybody is believed"
	case inbox == nil:
		why = "no inbox"
	case !isName(place.Tenant) || !isName(place.Source):
		why = "want a tenant and a source, each one line of at most 256 bytes"
	case e.opts.MaxBody < 0:
		why = "want a MaxBody that is not under 0"
	default:
		return e, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrOptions, why)
}

// ServeHTTP implements [http.Handler].
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		e.refuse(w, r, http.StatusMethodNotAllowed, nil)
		return
	}
	body, status, err := e.read(w, r)
	if err != nil {
		e.refuse(w, r, status, err)
		return
	}
	d, err := e.v.Verify(&Request{Method: r.Method, RawQuery: r.URL.RawQuery, Header: r.Header, Body: body}, at)
	switch {
	case errors.Is(err, ErrRawBody):
		e.refuse(w, r, http.StatusInternalServerError, err)
	case err != nil:
		e.refuse(w, r, http.StatusUnauthorized, err)
	case d.Challenge != "":
		answer(w, d.Challenge)
	default:
		e.store(w, r, &d, at)
	}
}

var errEncoded = errors.New("webhook: the body has a Content-Encoding, and what is signed is what lies under it or not: nobody knows")

// read returns the body as it was sent, or why there is none.
func (e *Endpoint) read(w http.ResponseWriter, r *http.Request) (body []byte, status int, err error) {
	switch enc := r.Header.Get("Content-Encoding"); {
	case enc != "" && enc != "identity":
		return nil, http.StatusUnsupportedMediaType, errEncoded
	case r.Form != nil || r.PostForm != nil || r.MultipartForm != nil:
		return nil, http.StatusInternalServerError, fmt.Errorf("%w: a handler before this one has parsed it as a form", ErrRawBody)
	case r.ContentLength > e.opts.MaxBody: // without reading it
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	case r.Body == nil:
		return nil, http.StatusInternalServerError, fmt.Errorf("%w: there is none", ErrRawBody)
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, e.opts.MaxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, http.StatusRequestEntityTooLarge, errTooLarge
	case err != nil:
		return nil, http.StatusBadRequest, err
	case r.ContentLength >= 0 && int64(len(body)) != r.ContentLength:
		return nil, http.StatusInternalServerError, fmt.Errorf("%w: a handler before this one has read or changed it: %d bytes were sent, %d are here", ErrRawBody, r.ContentLength, len(body))
	}
	return body, 0, nil
}

var errTooLarge = errors.New("webhook: the body is too long: see EndpointOptions.MaxBody")

func (e *Endpoint) store(w http.ResponseWriter, r *http.Request, d *Delivery, at time.Time) {
	ev := Event{Place: e.place, ID: d.ID, Digest: d.Digest, Scheme: d.Scheme, Type: d.Type, SignedAt: d.SignedAt, Received: at.UTC(), Body: d.Body}
	if e.opts.Describe != nil {
		ev.Subject = e.opts.Describe(d)
	}
	if _, err := e.inbox.Put(r.Context(), ev); err != nil {
		e.opts.Logger.LogAttrs(r.Context(), slog.LevelError, "a webhook was not stored", slog.String("source", e.place.Source), slog.Any("error", err))
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	answer(w, e.v.ack)
}

// answer says thank you, in a text that no browser takes for a page.
func answer(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, text) // a provider that is gone comes back
}

func (e *Endpoint) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	e.opts.Logger.LogAttrs(r.Context(), slog.LevelWarn, "a webhook was refused", slog.String("source", e.place.Source), slog.Int("status", status), slog.Any("error", err))
	w.WriteHeader(status)
}
