package connector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/internal/defuse"
	"github.com/drawbridge-sdk/drawbridge/internal/evidence"
	"github.com/drawbridge-sdk/drawbridge/internal/route"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Denied is why a request of a connector did not leave. It is the cause of the
// client's error (see [WhyDenied]), for operators: it names what was touched. It
// is logged, and its rule is in the audit event.
type Denied struct {
	Route     string             // pattern; empty if no route matches
	Rule      string             // what the request broke
	Resources []authz.ResourceID // what it would have touched
}

// WhyDenied returns the Denied behind an error of a call's client, for
// operators: package egress keeps causes out of the chain of its errors.
func WhyDenied(err error) (*Denied, bool) {
	if d, ok := errors.AsType[*Denied](err); ok {
		return d, true
	}
	if e, ok := errors.AsType[*egress.Error](err); ok && e != nil {
		return errors.AsType[*Denied](e.Cause())
	}
	return nil, false
}

// Error returns one line without the resources.
func (d *Denied) Error() string {
	if d.Route == "" {
		return "connector: the request is refused: " + d.Rule
	}
	return fmt.Sprintf("connector: %q is refused: %s", d.Route, d.Rule)
}

// Is matches toolresult.EgressDenied.
func (d *Denied) Is(target error) bool { return target == toolresult.EgressDenied }

// closedClient is a client that refuses everything.
func closedClient() *http.Client { return &http.Client{Transport: closed{}} }

type closed struct{}

func (closed) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &Denied{Rule: "the call is over, or reaches no provider"}
}

// client returns the call's client, or its view that changes nothing.
func (s *state) client(reads bool) *http.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.endpoint == nil {
		return closedClient()
	}
	at := &s.full
	if reads {
		at = &s.reads
	}
	if *at == nil {
		*at = s.endpoint.Open(s.ctx, s.hooks(reads))
	}
	c := (*at).Client()
	c.Transport = marked{s.path, c.Transport}
	if reads || s.gate == nil {
		c.Transport = renewing{s, c.Transport}
	}
	return c
}

// marked is the transport of a call. It refuses the context of another call: a
// client that was kept must not serve somebody else while its own call lives.
type marked struct {
	path *path
	next http.RoundTripper
}

type callKey struct{}

// RoundTrip implements [http.RoundTripper].
func (m marked) RoundTrip(r *http.Request) (*http.Response, error) {
	if of, ok := r.Context().Value(callKey{}).(*path); ok && of != m.path {
		return nil, &Denied{Rule: "the request belongs to another call than the client"}
	}
	return m.next.RoundTrip(r)
}

// renewing is the transport of a call that changes nothing. It sends a request
// once more that was refused with 401, if there is another credential by then:
// a token may end before its time.
type renewing struct {
	s    *state
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !t.s.renewal() {
		return resp, err
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return resp, nil
		}
	} else if r.Body != nil && r.Body != http.NoBody {
		return resp, nil
	}
	resp.Body.Close()
	second, err := t.next.RoundTrip(again)
	if err == nil {
		t.s.forget()
	}
	return second, err
}

// renewal takes one of the renewals that observe found worth a request.
func (s *state) renewal() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewed == 0 || s.requests >= s.cap.limits.Requests {
		return false
	}
	s.renewed--
	return true
}

// forget takes back a 401 when another request was answered in its place: nothing
// was learned from it but that the credential was old. Without that answer it is
// still the last that the provider said.
func (s *state) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := func(x seen) bool { return x.Status == http.StatusUnauthorized && x.renewable }
	if i := slices.IndexFunc(s.seen, old); i >= 0 {
		s.seen = slices.Delete(s.seen, i, i+1)
	}
}

func (s *state) hooks(reads bool) *egress.Hooks {
	h := &egress.Hooks{
		Allow: func(_ context.Context, r *egress.Request) (egress.Effect, error) { return s.allow(r, reads) },
		Observe: func(ctx context.Context, r *egress.Request, resp *egress.Response, x egress.Exchange) {
			s.observe(r, resp, x, x.Status == http.StatusUnauthorized && s.rejected(ctx))
		},
	}
	if !s.handle.IsZero() {
		h.Authorize = func(ctx context.Context, origin string, r *http.Request) error {
			return s.v.opts.Credentials.Apply(ctx, s.handle, origin, r)
		}
	}
	if s.gate != nil && !reads {
		h.Commit = func(ctx context.Context, r *egress.Request) error { return s.gate.commit(ctx, s.draft(r)) }
	}
	return h
}

// allow ties a request to a declared route and to the grant.
func (s *state) allow(r *egress.Request, reads bool) (egress.Effect, error) {
	m, err := s.match(r)
	if err != nil {
		return egress.Changes, s.refuse(&Denied{Rule: err.Error()})
	}
	d := &Denied{Route: m.Route.Pattern}
	for _, o := range m.Objects {
		d.Resources = append(d.Resources, authz.ResourceID{Type: o.Type, ID: o.ID})
	}
	changes := m.Route.Effect != route.Reads
	switch {
	case s.spent():
		d.Rule = "the call has made all its requests"
	case s.mode == metadata && !m.Route.Metadata:
		d.Rule = "before there is a grant, only metadata can be read"
	case s.mode != metadata && !s.permits(m, d.Resources):
		d.Rule = "outside the grant"
	case s.header(m, r.Header) != "":
		d.Rule = "the header " + s.header(m, r.Header) + " is not declared"
	case changes && (reads || s.gate == nil):
		s.breached("a read tried to change something")
		d.Rule = "a read changes nothing"
	case changes:
		if err := s.mark(r); err != nil {
			s.breached("the change does not carry the operation's key where the declaration says")
			d.Rule = err.Error()
		}
	}
	if d.Rule != "" {
		return egress.Changes, s.refuse(d)
	}
	if changes {
		return egress.Changes, nil
	}
	return egress.Reads, nil
}

// refuse notes why a request did not leave, for operators: the caller is not
// told, and the author has to be.
func (s *state) refuse(d *Denied) *Denied {
	s.mu.Lock()
	if s.denied == nil {
		s.denied = d
	}
	s.mu.Unlock()
	s.v.log(s.ctx, "a connector's request did not leave", slog.String("capability", s.cap.decl.Name), slog.String("call_id", s.id),
		slog.String("route", d.Route), slog.String("rule", d.Rule))
	return d
}

func (s *state) match(r *egress.Request) (*route.Match, error) {
	return s.cap.routes.Match(&route.Request{Method: r.Method, Path: r.Path, Query: r.Query, Header: r.Header, Body: r.Body},
		map[string]string{"account": s.conn.Account, "org": s.conn.Org})
}

// spent counts a request, and reports whether there was one too many.
func (s *state) spent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	return s.requests > s.cap.limits.Requests
}

func (s *state) permits(m *route.Match, touched []authz.ResourceID) bool {
	switch {
	case m.Route.Unscoped != "":
		return !s.grant.IsZero()
	case m.Route.WholeConnection:
		return s.grant.Scope().Whole()
	}
	return s.grant.PermitsDuring(toolresult.Interval{Start: m.Window.Start, End: m.Window.End}, touched...)
}

// free are the headers that every request may bear. Others can make a provider
// read another request than the one that was checked, or act for somebody else,
// and are declared by the route.
var free = map[string]bool{
	"Accept": true, "Accept-Charset": true, "Accept-Encoding": true, "Accept-Language": true, "Content-Type": true, "Content-Length": true,
	"If-Match": true, "If-None-Match": true, "If-Modified-Since": true, "If-Unmodified-Since": true, "Range": true, "User-Agent": true,
}

// header returns a header that is neither free nor declared.
func (s *state) header(m *route.Match, h http.Header) string {
	for name := range h {
		if free[name] || s.cap.decl.Idempotency.Header != "" && name == http.CanonicalHeaderKey(s.cap.decl.Idempotency.Header) {
			continue
		}
		named := func(declared string) bool { return http.CanonicalHeaderKey(declared) == name }
		touched := func(touch string) bool {
			return strings.Contains(strings.ToLower(touch), "{^"+strings.ToLower(name)+"}")
		}
		if !slices.ContainsFunc(s.cap.headers[m.Route.Pattern], named) && !slices.ContainsFunc(m.Route.Touches, touched) {
			return name
		}
	}
	return ""
}

func (s *state) breached(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.breach == "" {
		s.breach = what
	}
}

// keyCounts reports whether an operation's key names it within the account.
func (r *registered) keyCounts() bool {
	mode := r.info.Auth.Mode
	return r.decl.Idempotency.KeyIsUnique || mode == AuthDelegatedOAuth || mode == AuthTokenExchange
}

// mark puts the idempotency key on a change, and checks that it is where the
// declaration says: a key that is not sent protects nothing.
func (s *state) mark(r *egress.Request) error {
	idem := s.cap.decl.Idempotency
	good := func(v string) bool { return v == s.op.UUID() || s.cap.keyCounts() && v == s.op.Key }
	if idem.Header != "" {
		switch vs := r.Header.Values(idem.Header); {
		case len(vs) == 0:
			r.Header.Set(idem.Header, s.op.UUID())
		case len(vs) > 1 || !good(vs[0]):
			return errors.New("the idempotency header holds another key than the operation's")
		}
	}
	if idem.Field != "" {
		body, err := strictjson.Parse(r.Body)
		v, _ := strictjson.Lookup(body, idem.Field)
		if text, ok := v.(string); err != nil || !ok || !good(text) {
			return errors.New("the body does not hold the operation's UUID at " + idem.Field)
		}
	}
	return nil
}

// observe notes an exchange and what the provider's rules say about it.
func (s *state) observe(r *egress.Request, resp *egress.Response, x egress.Exchange, renewable bool) {
	e := seen{at: time.Now(), renewable: renewable && x.Effect == egress.Reads, Exchange: evidence.Exchange{
		Changes: x.Effect != egress.Reads, Phase: x.Phase, Reason: x.Reason, Status: x.Status}}
	if x.Phase == egress.PhaseAnswered {
		e.answer = &provider.Response{Method: r.Method, Status: x.Status, Header: http.Header{}}
		if m, err := s.match(r); err == nil {
			e.answer.Route = m.Route.Pattern
		}
		if resp != nil {
			e.answer.Header, e.answer.Body = resp.Header, resp.Body
		}
		if e.Ruling = s.ruling(e.answer, x.Effect == egress.Reads); x.Reason != "" {
			// The body broke off or was over a limit: rules would judge a text that
			// nobody sent. What went wrong says more than they could.
			e.Ruling = provider.Classify(nil, e.answer)
		}
		e.HasKey = s.holdsKey(e.answer)
	}
	s.mu.Lock()
	flood := e.Phase == egress.PhaseNotSent && len(s.seen) > 4*s.cap.limits.Requests
	if !s.over && !flood {
		s.seen = append(s.seen, e)
		if e.renewable {
			s.renewed++
		}
	}
	s.mu.Unlock()
	if s.gate != nil && !flood {
		s.gate.saw(e.Exchange)
	}
}

// rejected tells the broker that its credential was refused, and reports whether
// there will be another.
func (s *state) rejected(ctx context.Context) bool {
	another, err := credential.Reject(ctx, s.v.opts.Credentials, s.handle)
	if err != nil {
		s.v.log(s.ctx, "a refused credential could not be noted", slog.String("call_id", s.id), slog.String("code", string(toolresult.Code(err))))
	}
	return another && err == nil
}

// ruling says what an answer means. A 202 to a request that reads is the
// promise of an answer, and not one, unless the provider's rules know better.
func (s *state) ruling(r *provider.Response, reads bool) provider.Ruling {
	v := provider.Classify(s.cap.info.Rules, r)
	if !v.OK || !reads || r.Status != http.StatusAccepted {
		return v
	}
	if s.cap.info.Rules != nil {
		if own, ok := s.cap.info.Rules(r); ok && own.OK {
			return v
		}
	}
	v.OK, v.Code = false, toolresult.ProviderUnavailable
	return v
}

// reads reports whether the route of a pattern only reads.
func (r *registered) reads(pattern string) bool {
	return slices.ContainsFunc(r.decl.Routes, func(x Route) bool { return x.Pattern == pattern && x.Effect == Reads })
}

// shortestKey is how long a key must be to be looked for anywhere in an answer:
// a shorter one would be found by accident.
const shortestKey = 16

// holdsKey reports whether an answer names the operation: where the declaration
// says, or else as a whole value anywhere.
func (s *state) holdsKey(r *provider.Response) bool {
	if s.op.ID == "" {
		return false
	}
	body, err := strictjson.Parse(r.Body)
	if err != nil {
		return false
	}
	if p := s.cap.decl.Idempotency.Answer; p != "" {
		v, _ := strictjson.Lookup(body, p)
		text := fmt.Sprint(v)
		return v != nil && (text == s.op.UUID() || s.cap.keyCounts() && text == s.op.Key || s.op.ProviderID != "" && text == s.op.ProviderID || s.sets(text))
	}
	wanted := []string{s.op.UUID()}
	for _, k := range []string{s.op.Key, s.op.ProviderID} {
		if len(k) >= shortestKey && (k != s.op.Key || s.cap.keyCounts()) {
			wanted = append(wanted, k)
		}
	}
	return contains(body, wanted)
}

// sets reports whether an id is that of an object whose value the change sets.
// Where the same change twice is the same as once, the state that was asked for
// is all that there is to find.
func (s *state) sets(id string) bool {
	if !s.cap.decl.Idempotency.Natural {
		return false
	}
	objects, _ := s.path.target.Objects()
	return slices.ContainsFunc(objects, func(o authz.Object) bool { return o.ID == id })
}

func contains(v any, wanted []string) bool {
	switch v := v.(type) {
	case string:
		return slices.Contains(wanted, v)
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return contains(e, wanted) })
	case map[string]any:
		for _, e := range v {
			if contains(e, wanted) {
				return true
			}
		}
	}
	return false
}

// draft is a change as it would go out, without the credential.
type draft struct {
	origin, account     string // origin with the endpoint's base path
	method, path, query string
	header              http.Header
	body                []byte
	varies              []string // headers that were left out
}

// basePath is what stands before every path of the endpoint: a person who
// approves a change sees all of where it goes.
func (s *state) basePath() string {
	u, err := url.Parse(s.conn.BaseURL)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

func (s *state) draft(r *egress.Request) draft {
	d := draft{s.endpoint.Origin() + s.basePath(), s.conn.Account, r.Method, r.Path, r.Query, r.Header.Clone(), slices.Clone(r.Body), nil}
	if m, err := s.match(r); err == nil {
		for _, name := range s.cap.varies[m.Route.Pattern] {
			if d.header.Get(name) != "" {
				d.header.Del(name)
				d.varies = append(d.varies, name)
			}
		}
	}
	return d
}

// digest covers where it goes, as whom, and every byte that the connector
// decides about. Header names are sorted, because net/http writes them so.
func (d draft) digest() string {
	parts := []string{d.origin, d.account, d.method, d.path, d.query, string(d.body)}
	for _, k := range d.names() {
		parts = append(parts, k, strings.Join(d.header[k], "\x00"))
	}
	return strictjson.Digest(parts...)
}

// differs names the parts in which two drafts differ.
func (d draft) differs(o draft) string {
	var parts []string
	for _, p := range []struct {
		name string
		same bool
	}{
		{"address", d.origin == o.origin && d.account == o.account}, {"method", d.method == o.method}, {"path", d.path == o.path},
		{"query", d.query == o.query}, {"headers", maps.EqualFunc(d.header, o.header, slices.Equal)}, {"body", bytes.Equal(d.body, o.body)},
	} {
		if !p.same {
			parts = append(parts, p.name)
		}
	}
	return strings.Join(parts, ", ")
}

func (d draft) names() []string { return slices.Sorted(maps.Keys(d.header)) }

// longestRendering bounds what a person is asked about, in bytes. What is longer
// nobody reads, and nobody can be asked about it.
const longestRendering = 256 << 10

// String is what a person approves: all of it, unless it is longer than
// longestRendering. What cannot be seen is written out.
func (d draft) String() string {
	var b strings.Builder
	if b.WriteString(d.method + " " + d.origin + d.path); d.query != "" {
		b.WriteString("?" + d.query)
	}
	if d.account != "" {
		b.WriteString("\nas " + strings.ReplaceAll(d.account, "\n", `\u{a}`)) // a line of its own would be somebody else's words
	}
	for _, k := range d.names() {
		b.WriteString("\n" + k + ": " + strings.Join(d.header[k], ", "))
	}
	for _, k := range d.varies {
		b.WriteString("\n" + k + ": (whatever it is then; not a part of what is approved)")
	}
	if len(d.body) > 0 {
		b.WriteString("\n\n")
		b.Write(d.body[:min(len(d.body), longestRendering+1)]) // one more is too long already
	}
	return defuse.Spell(b.String())
}
