package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// trip is one request on its way through a session. It belongs to one
// goroutine; what the one that writes a body touches is atomic.
type trip struct {
	s     *Session
	req   http.Request // a copy of the handler's, who cannot change what was checked
	url   url.URL      // of req
	start time.Time

	life        context.Context // without values: ends with session, request and limit
	hook        hookContext     // life, with the values of the session's context
	cancel      context.CancelFunc
	forget      context.CancelCauseFunc // nil, as the next, if only the session
	fromRequest func() bool             // is to be watched

	r      *Request // what hooks see
	path   string   // escaped, with the profile's prefix
	query  string
	header http.Header // of the wire, as Authorize gets it
	head   []byte      // what is sent before the body, with the credential

	x       Exchange
	secrets *secrets
	wire    exchange
	touched atomic.Bool // a byte of the request may have left
	sent    atomic.Int64
	length  int64  // what the answer announced
	status  string // of its first line
}

func (s *Session) newTrip(req *http.Request) *trip {
	t := &trip{s: s, req: *req, start: time.Now(), r: &Request{}}
	if req.URL != nil {
		t.url = *req.URL
		t.req.URL = &t.url
	}
	t.x = Exchange{Profile: s.e.profile.Name, Phase: PhaseNotSent}
	t.begin(req.Context())
	return t
}

// begin makes the context that everything of this trip ends with.
func (t *trip) begin(request context.Context) {
	parent := t.s.life
	if done := request.Done(); done != nil && done != t.s.ctx.Done() {
		parent, t.forget = context.WithCancelCause(parent)
		t.fromRequest = context.AfterFunc(request, func() { t.forget(request.Err()) })
	}
	t.life, t.cancel = context.WithTimeout(parent, t.s.e.profile.Limits.Total)
	t.hook = hookContext{t.life, t.s.ctx}
}

// stop ends what the trip's contexts hold.
func (t *trip) stop() {
	t.cancel()
	if t.forget != nil {
		t.fromRequest()
		t.forget(nil)
	}
}

// hookContext lives as long as the trip and has the values of the session's
// context.
type hookContext struct {
	context.Context
	values context.Context
}

// Value returns the session's value.
func (c *hookContext) Value(key any) any { return c.values.Value(key) }

// AfterFunc spares package context a goroutine for each derived context.
func (c *hookContext) AfterFunc(f func()) func() bool { return context.AfterFunc(c.Context, f) }

// run is the order of the house.
func (t *trip) run() (*Response, *Error) {
	for _, step := range []func() *Error{t.alive, t.locate, t.readBody, t.allow, t.authorize, t.commit} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return t.send()
}

// fail ends the trip before anything was sent.
func (t *trip) fail(r Reason, cause error) *Error {
	t.x.Reason = r
	return &Error{Phase: t.x.Phase, Reason: r, Profile: t.x.Profile, cause: t.safe(cause)}
}

// safe is err, or its text without the secrets if it holds one.
func (t *trip) safe(err error) error {
	if err == nil {
		return nil
	}
	if clean := t.secrets.text(err.Error()); clean != err.Error() {
		return errors.New(clean)
	}
	return err
}

// alive refuses what comes after the end.
func (t *trip) alive() *Error {
	if checkMethod(t.method()) == nil {
		t.r.Method, t.x.Method = t.method(), t.method()
	}
	if err := t.s.over(); err != nil {
		return t.fail(ReasonOver, err)
	}
	return t.lasting()
}

// lasting fails when the time of the request is up.
func (t *trip) lasting() *Error {
	if err := t.req.Context().Err(); err != nil { // before AfterFunc noticed
		return t.fail(reasonOf(err), err)
	}
	if t.life.Err() != nil {
		return t.fail(endReason(t.life), context.Cause(t.life))
	}
	return nil
}

func (t *trip) method() string {
	if t.req.Method == "" {
		return http.MethodGet
	}
	return t.req.Method
}

// locate checks method, destination and headers.
func (t *trip) locate() *Error {
	if err := checkMethod(t.method()); err != nil {
		return t.fail(ReasonDestination, err)
	}
	path, query, err := t.s.e.base.locate(&t.req)
	if err == nil {
		err = t.s.e.checkHops(&t.req)
	}
	if err != nil {
		return t.fail(ReasonDestination, err)
	}
	if len(t.req.Trailer) > 0 || len(t.req.TransferEncoding) > 0 {
		return t.fail(ReasonDestination, errors.New("a trailer or a transfer encoding"))
	}
	header, err := ownHeaders(t.req.Header)
	if err != nil {
		return t.fail(ReasonDestination, err)
	}
	t.r.Path, t.r.Query, t.r.Header, t.x.Path = path, query, header, path
	t.path, t.query = t.req.URL.EscapedPath(), query
	return nil
}

// readBody takes the body into memory, so that hooks may read it and nobody can
// change it after they did.
func (t *trip) readBody() *Error {
	body, err := t.drain()
	switch {
	case errors.Is(err, errTooLarge):
		return t.fail(ReasonTooLarge, errors.New("the request's body is over the limit"))
	case err != nil && t.life.Err() != nil:
		return t.fail(endReason(t.life), context.Cause(t.life))
	case err != nil:
		return t.fail(ReasonBroken, err)
	case t.req.ContentLength > 0 && t.req.ContentLength != int64(len(body)):
		return t.fail(ReasonDestination, errors.New("the request's body is not as long as its ContentLength"))
	}
	if err := takeLength(t.r.Header, len(body)); err != nil {
		return t.fail(ReasonDestination, err)
	}
	t.r.Body = body
	return nil
}

func (t *trip) drain() ([]byte, error) {
	b := t.req.Body
	if b == nil || b == http.NoBody {
		return nil, nil
	}
	stop := context.AfterFunc(t.life, func() { _ = b.Close() }) // frees a read of a pipe
	defer stop()
	body, err := readAll(b, t.req.ContentLength, t.s.e.profile.Limits.RequestBytes)
	if len(body) == 0 {
		body = nil
	}
	return body, err
}

// allow asks the hook, and builds the headers of the wire from what it leaves.
func (t *trip) allow() *Error {
	t.x.Effect = Changes
	if m := t.r.Method; m == http.MethodGet || m == http.MethodHead {
		t.x.Effect = Reads
	}
	if allow := t.s.hooks.Allow; allow != nil {
		effect, err := allow(&t.hook, t.r)
		if err != nil {
			return t.refused(err)
		}
		t.x.Effect = Changes
		if effect == Reads {
			t.x.Effect = Reads
		}
	}
	header, err := ownHeaders(t.r.Header)
	if err != nil {
		return t.fail(ReasonDestination, err)
	}
	if len(header["Accept-Encoding"]) == 0 && len(header["Range"]) == 0 && t.r.Method != http.MethodHead {
		header["Accept-Encoding"] = []string{"gzip"}
	}
	t.header = header
	return nil
}

// refused is a hook's no.
func (t *trip) refused(err error) *Error {
	reason := ReasonRefused
	if e, ok := errors.AsType[*Error](err); ok && e != nil && e.Reason.refuses() {
		reason = e.Reason
	}
	if t.life.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		reason = endReason(t.life)
	}
	return t.fail(reason, err)
}

// authorize lets the hook put the credential on a copy, takes over headers and
// query alone, and writes the head of the request. What the hook does with its
// copy afterwards changes nothing.
func (t *trip) authorize() *Error {
	if authorize := t.s.hooks.Authorize; authorize != nil {
		private := t.private()
		if err := authorize(&t.hook, t.s.e.origin, private); err != nil {
			return t.refused(err)
		}
		if err := t.takeOver(private); err != nil {
			return t.fail(ReasonRefused, err)
		}
	} else {
		t.secrets = t.s.known()
		if err := t.writeHead(t.header, foreign); err != nil {
			return t.fail(ReasonDestination, err)
		}
	}
	if int64(len(t.head)) > t.s.e.profile.Limits.HeaderBytes {
		return t.fail(ReasonTooLarge, errors.New("the request's headers are over the limit"))
	}
	return nil
}

// private builds the request that is to bear the credential from what was
// checked, and from nothing else: no context values, no GetBody, no header map
// of the handler's.
func (t *trip) private() *http.Request {
	b := t.s.e.base
	out := &http.Request{
		Method: t.method(),
		URL: &url.URL{Scheme: b.scheme, Host: b.host,
			Path: t.req.URL.Path, RawPath: t.req.URL.RawPath, RawQuery: t.query},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Host:   b.host,
		Header: t.header,
	}
	if len(t.r.Body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(t.r.Body))
		out.ContentLength = int64(len(t.r.Body))
	}
	return out.WithContext(&t.hook)
}

// takeOver refuses a copy of which more than headers and query changed.
func (t *trip) takeOver(private *http.Request) error {
	b, u := t.s.e.base, private.URL
	if u == nil || private.Method != t.method() || private.Host != b.host || u.Scheme != b.scheme || u.Host != b.host ||
		u.Path != t.req.URL.Path || u.RawPath != t.req.URL.RawPath || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return errors.New("the credential changed more than headers and query")
	}
	if err := checkQuery(u.RawQuery); err != nil {
		return err
	}
	t.secrets = t.s.remember(t.r.Header, private.Header, t.query, u.RawQuery)
	t.query = u.RawQuery
	return t.writeHead(private.Header, func(name string) bool { return foreign(name) && !ofCredentials[name] })
}

// writeHead writes the head of the request with the headers h.
func (t *trip) writeHead(h http.Header, foreign func(name string) bool) error {
	line := requestLine{method: t.method(), path: t.path, query: t.query, host: t.s.e.base.host,
		length: len(t.r.Body), close: t.x.Effect != Reads}
	head, err := appendHead(make([]byte, 0, 512), &line, h, foreign)
	t.head = head
	return err
}

// commit records a change, if there is still time to send it.
func (t *trip) commit() *Error {
	if err := t.lasting(); err != nil {
		return err
	}
	if commit := t.s.hooks.Commit; commit != nil && t.x.Effect == Changes {
		if err := commit(&t.hook, t.r); err != nil {
			return t.refused(err)
		}
	}
	return nil
}

// send sends the request and reads the answer: a change on a connection of its
// own, a read on one that was used before, if there is one.
func (t *trip) send() (*Response, *Error) {
	if t.x.Effect != Reads {
		return t.dial(nil)
	}
	pooled := &t.s.e.idle
	c := pooled.get()
	if c == nil {
		return t.dial(pooled)
	}
	answer, failed, dead := t.exchange(c, pooled)
	if !dead {
		return answer, failed
	}
	// The only place where a request is sent again: a read, on a connection
	// that had been used and ended without a word.
	t.x.Reason = ""
	return t.dial(pooled)
}

// dial sends the request on a new connection.
func (t *trip) dial(pooled *pool) (*Response, *Error) {
	raw, err := t.s.e.dialer.open(t.life)
	if err != nil {
		return nil, t.unanswered(err)
	}
	answer, failed, _ := t.exchange(newConn(raw), pooled)
	return answer, failed
}

// exchange sends the request on c. dead says that c was used before and gave no
// sign of life.
func (t *trip) exchange(c *conn, pooled *pool) (answer *Response, failed *Error, dead bool) {
	t.sent.Store(0) // it may be sent again
	x := &t.wire
	*x = exchange{t: t, c: c}
	resp, err := x.begin()
	if err != nil {
		dead = c.used && !x.heard && !x.late && t.life.Err() == nil
		return nil, t.unanswered(err), dead
	}
	answer, failed = t.receive(resp)
	x.finish(pooled, failed == nil && !resp.Close)
	return answer, failed, false
}

// unanswered ends the trip without an answer.
func (t *trip) unanswered(err error) *Error {
	if t.touched.Load() {
		t.x.Phase = PhaseUnanswered
	}
	return t.fail(sendReason(t.life, err), err)
}

func (t *trip) receive(resp *http.Response) (*Response, *Error) {
	t.x.Phase, t.x.Status = PhaseAnswered, resp.StatusCode
	t.length, t.status = resp.ContentLength, resp.Status
	body, received, err := readAnswer(resp, t.s.e.profile.Limits)
	t.x.Received = received
	t.secrets = t.s.known() // a request beside this one may have added some
	t.secrets.header(resp.Header)
	answer := &Response{Status: resp.StatusCode, Header: resp.Header}
	if err != nil {
		return answer, t.fail(answerReason(t.life, err), err)
	}
	answer.Body = t.secrets.scrub(body)
	return answer, nil
}

// observe tells about the trip, whatever came of it.
func (t *trip) observe(answer *Response) {
	if t.x.Phase != PhaseNotSent {
		t.x.Sent = t.sent.Load()
	}
	t.x.Duration = since(t.start)
	if t.r.Header == nil {
		t.r.Header = http.Header{}
	}
	if observe := t.s.hooks.Observe; observe != nil {
		observe(&t.hook, t.r, answer, t.x)
	}
}

// endReason says how a context ended.
func endReason(ctx context.Context) Reason { return reasonOf(context.Cause(ctx)) }

func reasonOf(err error) Reason {
	if errors.Is(err, context.DeadlineExceeded) {
		return ReasonTimeout
	}
	return ReasonCancelled
}

// sendReason says why there is no answer.
func sendReason(life context.Context, err error) Reason {
	f, dialled := errors.AsType[*failure](err)
	switch {
	case dialled && f.reason == ReasonAddress:
		return ReasonAddress
	case life.Err() != nil:
		return endReason(life)
	case dialled:
		return f.reason
	case errors.Is(err, errLate):
		return ReasonTimeout
	case errors.Is(err, errHeaders):
		return ReasonTooLarge
	}
	return ReasonBroken
}
