package bearer

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// admitted is what a request carries on.
type admitted struct {
	by  *Bearer
	who authz.Principal
}

type admittedKey struct{}

// PrincipalFrom returns the principal that a [Bearer.Handler] put into the
// context of a request, and false if there is none.
func PrincipalFrom(ctx context.Context) (authz.Principal, bool) {
	a, ok := ctx.Value(admittedKey{}).(admitted)
	return a.who, ok
}

// Handler lets requests with a valid token through to next, with their
// principal in the context and without their header Authorization, and answers
// the others itself:
//
//	400  invalid_request: more than one token, or one elsewhere than in the
//	     header; without an error code: no single JSON-RPC message in the body
//	401  no token; or invalid_token
//	403  insufficient_scope, with every scope that is needed
//	413  a body over the limit
//	503  it cannot be found out now; with Retry-After
//	500  a defect of this server
//
// 400, 401 and 403 carry a challenge with the URL of the metadata. The texts are
// constant. The body is a JSON-RPC error with the id of the request, where that
// can be read: a client that cannot match it gives up its other calls too.
//
// Every request is verified by itself; nothing is kept for a connection. Which
// tool is called is taken from the headers Mcp-Method and Mcp-Name of a request
// of revision 2026-07-28, which next must hold against the body (package
// mcpadapter does), and from the body otherwise. A body that has to be read is
// read whole, replaced for next, and refused unless every reader of JSON would
// see the same in it.
//
// An answer 401 of next itself, for an identity that ended on the way, gets the
// challenge that it lacks.
func (b *Bearer) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := &inbound{r: r, w: w, max: b.opts.MaxRequestBytes}
		who, f := b.admit(in)
		if f != nil {
			b.log(r.Context(), f)
			b.refuse(w, in, f)
			return
		}
		next.ServeHTTP(&challenger{ResponseWriter: w, b: b, in: in}, in.forward(admitted{b, who}))
	})
}

// Principal says who makes a request, and is the PrincipalFunc of a server
// behind [Bearer.Handler]: it returns the principal that the Handler let in.
//
// A request that did not come through it is verified by its header alone. That
// does for servers without scopes per tool; with [Options.ToolScopes] it is a
// CONTRACT_VIOLATION, because the scopes would not be held against anything.
// Without a request nobody is known: a local host gets its identity from its
// environment and not from a token.
//
// The error is a [toolresult.Error] with the code AUTHENTICATION_REQUIRED,
// INVALID_INPUT, INSUFFICIENT_SCOPE, POLICY_UNAVAILABLE or CONTRACT_VIOLATION.
// Its cause has a method Challenge with the value of WWW-Authenticate for the
// answer, which package mcpadapter uses.
func (b *Bearer) Principal(ctx context.Context, req *http.Request) (authz.Principal, error) {
	if req == nil {
		return authz.Principal{}, (&failure{kind: noToken, why: "no request"}).public()
	}
	if a, ok := ctx.Value(admittedKey{}).(admitted); ok && a.by == b {
		return a.who, nil
	}
	if b.opts.ToolScopes != nil {
		return authz.Principal{}, (&failure{kind: broken, why: "ToolScopes is set, and the request did not come through Handler"}).public()
	}
	in := &inbound{r: req, read: true, failed: &failure{kind: broken, why: "the body is not known"}}
	who, f := b.authenticate(ctx, in)
	if f == nil && !covers(who, b.opts.Scopes) {
		f = &failure{kind: insufficient, why: "too few scopes"}
	}
	if f != nil {
		return authz.Principal{}, b.challenged(f).public()
	}
	return who, nil
}

// challenged adds the challenge to a failure that has one; the scopes are those
// of every request. The failure is its caller's own.
func (b *Bearer) challenged(f *failure) *failure {
	switch f.kind {
	case noToken, malformed, invalid, insufficient:
		own := *f
		_, oauth := f.kind.status()
		own.challenge = b.challengeOf(f, oauth, b.opts.Scopes)
		return &own
	}
	return f
}

// A challenger completes answers of the guarded handler.
type challenger struct {
	http.ResponseWriter
	b     *Bearer
	in    *inbound
	begun bool
}

// WriteHeader implements [http.ResponseWriter].
func (c *challenger) WriteHeader(status int) {
	if status == http.StatusUnauthorized && !c.begun && !strings.Contains(c.Header().Get("WWW-Authenticate"), "resource_metadata=") {
		a, _ := c.in.attempt(c.b.opts.ToolScopes != nil)
		need, _ := c.b.needs(c.in.r.Context(), authz.Principal{}, a)
		c.Header().Set("WWW-Authenticate", c.b.challengeFor("invalid_token", need))
	}
	c.begun = c.begun || status >= http.StatusOK
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (c *challenger) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Flush implements [http.Flusher].
func (c *challenger) Flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

// admit decides about a request.
func (b *Bearer) admit(in *inbound) (authz.Principal, *failure) {
	ctx := in.r.Context()
	who, f := b.authenticate(ctx, in)
	if f != nil {
		if f.kind == noToken || f.kind == invalid {
			// What to ask for. A request that cannot be read needs the scopes
			// of every request.
			a, _ := in.attempt(b.opts.ToolScopes != nil)
			f.need, _ = b.needs(ctx, authz.Principal{}, a)
		}
		return authz.Principal{}, f
	}
	a, f := in.attempt(b.opts.ToolScopes != nil)
	if f != nil {
		return authz.Principal{}, f
	}
	need, f := b.needs(ctx, who, a)
	switch {
	case f != nil:
		return authz.Principal{}, f
	case !covers(who, need):
		return authz.Principal{}, &failure{kind: insufficient, why: "too few scopes", need: need}
	}
	return who, nil
}

// authenticate verifies the token of a request.
func (b *Bearer) authenticate(ctx context.Context, in *inbound) (authz.Principal, *failure) {
	if b.authority == nil {
		return authz.Principal{}, &failure{kind: broken, why: "the Bearer was not made by New"}
	}
	scheme, token, f := presented(in.r, b.opts.Confirm["jkt"] != nil)
	if (f == nil || f.kind == noToken) && in.formToken() {
		f = &failure{kind: malformed, why: "a token in the body"}
	}
	if f != nil {
		return authz.Principal{}, f
	}
	return b.verify(ctx, in, scheme, token, b.asks != nil && b.fresh(in))
}

// fresh reports whether the issuer must be asked now.
func (b *Bearer) fresh(in *inbound) bool {
	a, f := in.attempt(true)
	return f != nil || a.call && (b.opts.Cached == nil || !b.opts.Cached(a.tool))
}

// An attempt is what a request is about.
type attempt struct {
	call bool   // tools/call
	tool string // its tool
}

// inbound is a request and what was read of it.
type inbound struct {
	r   *http.Request
	w   http.ResponseWriter
	max int64

	read   bool // body holds all of it, or failed says why not
	body   []byte
	failed *failure

	parsed  bool // tried, or unclear, is what the body is about
	tried   attempt
	unclear *failure
}

// bare is the request for functions of the host: without body and token.
func (in *inbound) bare() *http.Request {
	r := in.r.Clone(in.r.Context())
	r.Header.Del("Authorization")
	r.Body = http.NoBody
	return r
}

// forward is the request for the guarded handler: with its principal and its
// body, without its token.
func (in *inbound) forward(a admitted) *http.Request {
	r := in.r.WithContext(context.WithValue(in.r.Context(), admittedKey{}, a))
	r.Header = in.r.Header.Clone()
	r.Header.Del("Authorization")
	r.Header.Del("Dpop")
	if in.read {
		r.Body = io.NopCloser(bytes.NewReader(in.body))
	}
	return r
}

// load reads the body, once.
func (in *inbound) load() *failure {
	if in.read || in.r.Body == nil {
		return in.failed
	}
	body, err := io.ReadAll(http.MaxBytesReader(in.w, in.r.Body, in.max))
	in.read, in.body = true, body
	switch tooMuch := (*http.MaxBytesError)(nil); {
	case errors.As(err, &tooMuch):
		in.body, in.failed = nil, &failure{kind: tooLarge, why: "the body is over the limit"}
	case err != nil:
		in.body, in.failed = nil, &failure{kind: notRPC, why: "the body did not arrive whole"}
	}
	return in.failed
}

// formToken reports whether a form in the body brings a token (RFC 6750, section
// 2.2, which is not served).
func (in *inbound) formToken() bool {
	kind, _, err := mime.ParseMediaType(in.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return false
	}
	return in.load() == nil && inQuery(string(in.body))
}

// attempt says what the request is about. needed says whether it matters; if it
// does not, no body is read for it, and one that says nothing is let be.
func (in *inbound) attempt(needed bool) (attempt, *failure) {
	if !needed || in.r.Method != http.MethodPost {
		return attempt{}, in.failed
	}
	if a, ok := fromHeaders(in.r.Header); ok {
		return a, in.failed
	}
	if f := in.load(); f != nil {
		return attempt{}, f
	}
	if !in.parsed {
		var ok bool
		if in.tried, ok = fromBody(in.body); !ok {
			in.unclear = &failure{kind: notRPC, why: "the body is not one JSON-RPC message that every reader reads alike"}
		}
		in.parsed = true
	}
	return in.tried, in.unclear
}

// modern is the revision whose headers must agree with the body.
const modern = "2026-07-28"

// fromHeaders reads what a request is about from its headers, if its revision
// is one in which they are what the body says.
func fromHeaders(h http.Header) (attempt, bool) {
	version, ok := one(h, "Mcp-Protocol-Version")
	method, ok2 := one(h, "Mcp-Method")
	if !ok || !ok2 || version != modern {
		return attempt{}, false
	}
	if method != callMethod {
		return attempt{}, true
	}
	name, ok := one(h, "Mcp-Name")
	if encoded, is := strings.CutPrefix(name, "=?base64?"); is {
		encoded, is = strings.CutSuffix(encoded, "?=")
		text, err := base64.StdEncoding.DecodeString(encoded)
		name, ok = string(text), ok && is && err == nil
	}
	return attempt{call: true, tool: name}, ok && name != ""
}

const callMethod = "tools/call"

func one(h http.Header, name string) (string, bool) {
	values := h[http.CanonicalHeaderKey(name)]
	if len(values) != 1 {
		return "", false
	}
	return values[0], values[0] != ""
}

// fromBody reads what a JSON-RPC message is about. Members are found in any
// case, because some reader might do so; no message has one twice.
func fromBody(body []byte) (attempt, bool) {
	v, err := strictjson.Parse(body)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return attempt{}, false
	}
	if method, _ := folded(m, "method").(string); method != callMethod {
		return attempt{}, true
	}
	params, _ := folded(m, "params").(map[string]any)
	name, _ := folded(params, "name").(string)
	return attempt{call: true, tool: name}, true
}

func folded(m map[string]any, name string) any {
	for k, v := range m {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return nil
}

// refuse answers a request that is not let in.
func (b *Bearer) refuse(w http.ResponseWriter, in *inbound, f *failure) {
	status, oauth := f.kind.status()
	shown := f.public()
	switch f.kind {
	case noToken, malformed, invalid, insufficient:
		w.Header().Set("WWW-Authenticate", b.challengeOf(f, oauth, f.need))
		if f.proof != nil {
			f.proof.tellNonce(w.Header())
		}
	case unavailable:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(min(f.retry, time.Hour).Seconds()))))
	}
	var id json.RawMessage
	if in.r.Method == http.MethodPost && in.load() == nil {
		id = idOf(in.body)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	code := shown.Code
	if code == toolresult.ContractViolation {
		code = toolresult.Internal
	}
	_, _ = w.Write(rpcError(id, status, string(shown.Message), string(code)))
}

func (b *Bearer) challengeOf(f *failure, oauth string, scopes []string) string {
	if f.proof != nil {
		return b.dpopChallenge(f.proof, scopes)
	}
	return b.challengeFor(oauth, scopes)
}

// challengeFor is the challenge of RFC 6750, section 3, with the parameter of
// RFC 9728, section 5.1. None of its values holds a quote or a backslash.
func (b *Bearer) challengeFor(oauth string, scopes []string) string {
	c := `Bearer resource_metadata="` + b.challenge + `"`
	if oauth != "" {
		c = `Bearer error="` + oauth + `", resource_metadata="` + b.challenge + `"`
	}
	if len(scopes) > 0 {
		c += `, scope="` + strings.Join(scopes, " ") + `"`
	}
	return c
}

// rpcError is a JSON-RPC error. Its code is the HTTP status, which is outside of
// what JSON-RPC and MCP keep for themselves.
func rpcError(id json.RawMessage, status int, message, code string) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	type data struct {
		Code string `json:"code"`
	}
	type rpc struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    data   `json:"data"`
	}
	text, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpc             `json:"error"`
	}{"2.0", id, rpc{status, message, data{code}}})
	if err != nil {
		return nil
	}
	return text
}

// maxID is how long an id may be that is sent back, in bytes.
const maxID = 512

// idOf returns the id of a JSON-RPC request, or nil.
func idOf(body []byte) json.RawMessage {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(body, &m) != nil || len(m.ID) == 0 || len(m.ID) > maxID || m.ID[0] == '{' || m.ID[0] == '[' {
		return nil
	}
	return m.ID
}
