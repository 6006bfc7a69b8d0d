package mcpadapter

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// HTTP returns the handler of the Streamable HTTP transport, for one URL and all
// revisions. It keeps no sessions unless [Options.SessionTimeout] says so, and
// with them, too, each request is authenticated, listed and authorized by
// itself. It refuses pages of other origins and, see [Options.Hosts], other
// hosts, bodies over [Options.MaxRequestBytes], and batches, before anything is
// read or asked. What it refuses is answered as JSON-RPC with the id of the
// request where that can be read, so that a client's other calls go on.
//
// A client that goes away cancels its call when it speaks 2026-07-28; for older
// revisions the protocol says otherwise: a session cancels by a notification,
// and otherwise a call ends by its own deadline.
func (a *Adapter) HTTP() http.Handler {
	sdk := mcp.NewStreamableHTTPHandler(a.serverFor, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		PropagateRequestCancellation: true,
		MaxRequestBodyBytes:          a.opts.MaxRequestBytes,
		DisableLocalhostProtection:   true, // hostAllowed, which knows Options.Hosts
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := a.sessions != nil && (r.Method == http.MethodGet || r.Method == http.MethodDelete) && r.Header.Get(sessionHeader) != ""
		switch {
		case !a.hostAllowed(r):
			refuse(w, nil, refusal{status: http.StatusForbidden, code: toolresult.PermissionDenied, message: "this host is not served"})
		case !a.originAllowed(r):
			refuse(w, nil, refusal{status: http.StatusForbidden, code: toolresult.PermissionDenied, message: "pages of this origin may not call"})
		case r.Method != http.MethodPost && !session:
			w.Header().Set("Allow", http.MethodPost)
			refuse(w, nil, refusal{status: http.StatusMethodNotAllowed, code: toolresult.Unsupported, message: "only POST is served"})
		case !a.work.begin():
			refuse(w, nil, refusal{status: http.StatusServiceUnavailable, code: toolresult.ProviderUnavailable, message: "the server is about to end"})
		default:
			defer a.work.end()
			ctx, cancel := a.work.context(r.Context())
			defer cancel()
			a.post(w, r.WithContext(ctx), sdk)
		}
	})
}

// post establishes who asks and what they see, and hands over to the SDK.
func (a *Adapter) post(w http.ResponseWriter, r *http.Request, sdk http.Handler) {
	bare := *r // with headers of its own: who may change what it gets
	bare.Header, bare.Body = r.Header.Clone(), http.NoBody
	who, identity := a.who(r.Context(), &bare)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.opts.MaxRequestBytes))
	switch tooLarge := (*http.MaxBytesError)(nil); {
	case identity != nil:
		refuse(w, body, a.refusal(r.Context(), identity))
		return
	case errors.As(err, &tooLarge):
		refuse(w, nil, refusal{status: http.StatusRequestEntityTooLarge, code: toolresult.InvalidInput, message: "the request is too large"})
		return
	case err != nil:
		refuse(w, nil, refusal{status: http.StatusBadRequest, code: toolresult.InvalidInput, message: "the request did not arrive whole"})
		return
	case isBatch(body):
		refuse(w, nil, refusal{status: http.StatusBadRequest, code: toolresult.InvalidInput, message: "batches are not served; send one request at a time"})
		return
	}
	if a.short(w, r, who, body) {
		return
	}
	state, rpc := &request{principal: who}, &rpcWriter{ResponseWriter: w, request: body}
	if a.sessions.wants(r, body) {
		defer rpc.end()
		a.sessions.serve(rpc, without(r, body, nobody(r.Context())), body, who)
		return
	}
	state.class, err = a.classOf(r.Context(), who)
	if refused := a.refusal(r.Context(), err); err != nil && (refused.status == http.StatusUnauthorized || !isCall(body)) {
		refuse(w, body, refused)
		return
	}
	r = without(r, body, context.WithValue(r.Context(), requestKey{}, state))
	decodeName(r.Header)
	defer rpc.end()
	sdk.ServeHTTP(rpc, r)
}

// without returns the request for the SDK, which hands headers on to everything
// behind it: without what the caller is known by, and what only this package
// says.
func without(r *http.Request, body []byte, ctx context.Context) *http.Request {
	r = r.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "Dpop", callHeader} {
		r.Header.Del(name)
	}
	return r
}

// serverFor is asked by the SDK, more than once for a request.
func (a *Adapter) serverFor(r *http.Request) *mcp.Server {
	state, _ := r.Context().Value(requestKey{}).(*request)
	if state == nil || state.class == nil {
		return a.front
	}
	return a.serverOf(state.class)
}

// isCall reports whether a request calls a tool, whose failures are results.
func isCall(body []byte) bool {
	var m struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(body, &m) == nil && m.Method == "tools/call"
}

// decodeName undoes the encoding of Mcp-Name for names that are not plain text,
// which this version of the SDK compares as it is.
func decodeName(h http.Header) {
	if name, ok := decoded(h.Get("Mcp-Name")); ok {
		h.Set("Mcp-Name", name)
	}
}

func decoded(name string) (string, bool) {
	name, ok := strings.CutPrefix(name, "=?base64?")
	if name, ok = cutSuffix(name, "?=", ok); !ok {
		return "", false
	}
	text, err := base64.StdEncoding.DecodeString(name)
	return string(text), err == nil
}

func cutSuffix(s, suffix string, ok bool) (string, bool) {
	if !ok {
		return s, false
	}
	return strings.CutSuffix(s, suffix)
}

func isBatch(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && body[0] == '['
}

// originAllowed guards against pages of other origins. The standard library lets
// them GET, which here would open a stream.
func (a *Adapter) originAllowed(r *http.Request) bool {
	post := *r
	post.Method = http.MethodPost
	return a.origins.Check(&post) == nil
}

// hostAllowed guards against names that somebody else lets point here.
func (a *Adapter) hostAllowed(r *http.Request) bool {
	name := hostname(r.Host)
	if a.opts.Hosts != nil {
		return slices.ContainsFunc(a.opts.Hosts, func(h string) bool { return strings.EqualFold(h, r.Host) || strings.EqualFold(h, name) })
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return !ok || !loopback(hostname(local.String())) || loopback(name)
}

func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// trust makes the check of Origin and Sec-Fetch-Site.
func trust(origins []string) (*http.CrossOriginProtection, error) {
	c := http.NewCrossOriginProtection()
	for _, o := range origins {
		if err := c.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("mcpadapter: Options.Origins: %q is not a scheme and a host, as in https://app.example.com", o)
		}
	}
	return c, nil
}

// A refusal is an answer to a request that is not served. Its text is constant.
type refusal struct {
	status  int
	code    toolresult.ErrorCode
	message string

	challenge string // for 401 and 403; "" is the bare one
}

// refusal chooses the answer for a failure before there is a call. The text of
// err is the operator's.
func (a *Adapter) refusal(ctx context.Context, err error) refusal {
	if err == nil {
		return refusal{}
	}
	attrs := []slog.Attr{slog.String("error", err.Error())}
	if e, ok := errors.AsType[*toolresult.Error](err); ok && e.Cause() != nil {
		attrs = append(attrs, slog.String("cause", e.Cause().Error()))
	}
	a.log(ctx, "a request was refused", attrs...)
	switch code := toolresult.Code(err); code {
	case toolresult.PermissionDenied, toolresult.InsufficientScope:
		return refusal{http.StatusForbidden, code, "not allowed", challengeOf(err)}
	case toolresult.PolicyUnavailable, toolresult.ProviderUnavailable, toolresult.RateLimited, toolresult.Timeout, toolresult.Cancelled:
		return refusal{status: http.StatusServiceUnavailable, code: code, message: "it cannot be found out now whether this is allowed"}
	case toolresult.ContractViolation:
		return refusal{status: http.StatusInternalServerError, code: toolresult.Internal, message: "internal error"}
	default:
		return refusal{http.StatusUnauthorized, toolresult.AuthenticationRequired, "the caller is not known", cmp.Or(challengeOf(err), "Bearer")}
	}
}

// challengeOf returns the value of WWW-Authenticate that a [PrincipalFunc]'s
// error or its cause brings; "" if it brings none.
func challengeOf(err error) string {
	if e, ok := errors.AsType[*toolresult.Error](err); ok && e.Cause() != nil {
		err = e.Cause()
	}
	if c, ok := errors.AsType[interface {
		error
		Challenge() string
	}](err); ok {
		return c.Challenge()
	}
	return ""
}

// rpc returns the refusal as a JSON-RPC error. Its code is the HTTP status,
// which is outside of what JSON-RPC and MCP keep for themselves.
func (r refusal) rpc() *jsonrpc.Error {
	return &jsonrpc.Error{Code: int64(r.status), Message: r.message, Data: json.RawMessage(`{"code":"` + string(r.code) + `"}`)}
}

// refuse writes a refusal, with the id of the request if it can be read.
func refuse(w http.ResponseWriter, body []byte, r refusal) {
	answer := struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", idOf(body), r.rpc()}
	text, err := json.Marshal(answer)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if r.challenge != "" {
		w.Header().Set("WWW-Authenticate", r.challenge)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(r.status)
	_, _ = w.Write(text)
}

// idOf returns the id of a JSON-RPC request, or null.
func idOf(body []byte) json.RawMessage {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(body, &m) != nil || len(m.ID) == 0 || len(m.ID) > 512 || !strings.ContainsRune(`"-0123456789`, rune(m.ID[0])) {
		return json.RawMessage("null")
	}
	return m.ID
}
