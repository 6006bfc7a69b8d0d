package mcpadapter

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	sessionHeader = "Mcp-Session-Id"

	// callHeader says, from this package to itself, which HTTP request a message
	// of a session came in. It is taken off what arrives.
	callHeader = "X-Drawbridge-Call"

	// maxSessions bounds sessions of older clients. Each has a server of the
	// SDK without tools, some kilobytes.
	maxSessions = 4096

	// maxOwned bounds those of one caller, so that none keeps the others out.
	maxOwned = maxSessions / 16
)

// sessions serves clients of revisions before 2026-07-28 that want to be asked
// something while their call runs. A session is where answers go and nothing
// else: who makes a request is asked with each, and one that comes with somebody
// else's session is told that there is none.
type sessions struct {
	a    *Adapter
	key  []byte // of the codes in session ids
	http http.Handler

	mu      sync.Mutex
	servers map[*mcp.Server]authz.PrincipalKey // who opened it
	calls   map[string]*request                // by callHeader
}

func newSessions(a *Adapter, timeout time.Duration) *sessions {
	s := &sessions{a: a, key: make([]byte, 32), servers: map[*mcp.Server]authz.PrincipalKey{}, calls: map[string]*request{}}
	_, _ = rand.Read(s.key) // it never fails
	s.http = mcp.NewStreamableHTTPHandler(s.serverFor, &mcp.StreamableHTTPOptions{
		SessionTimeout:             timeout,
		MaxRequestBodyBytes:        a.opts.MaxRequestBytes,
		DisableLocalhostProtection: true,
	})
	return s
}

// wants reports whether a request belongs to a session: it names one, or opens
// one.
func (s *sessions) wants(r *http.Request, body []byte) bool {
	if s == nil || r.Header.Get("Mcp-Protocol-Version") >= modernVersion || r.Header.Get("Mcp-Method") != "" {
		return false
	}
	return r.Header.Get(sessionHeader) != "" || methodOf(body) == "initialize"
}

func methodOf(body []byte) string {
	var m struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(body, &m) != nil {
		return ""
	}
	return m.Method
}

// serve serves one request of whoever makes it.
func (s *sessions) serve(w http.ResponseWriter, r *http.Request, body []byte, who authz.Principal) {
	if id := r.Header.Get(sessionHeader); id != "" && !s.owns(id, who.Key()) {
		refuse(w, body, refusal{status: http.StatusNotFound, code: toolresult.NotFound, message: "there is no such session"})
		return
	} else if id == "" && !s.room(who.Key()) {
		refuse(w, body, refusal{status: http.StatusServiceUnavailable, code: toolresult.RateLimited, message: "there are too many sessions"})
		return
	}
	call := rand.Text()
	s.mu.Lock()
	s.calls[call] = &request{principal: who}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.calls, call)
		s.mu.Unlock()
	}()
	r.Header.Set(callHeader, call)
	s.http.ServeHTTP(w, r)
}

// nobody is who makes a message of a session whose request is not known.
func nobody(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{})
}

// call returns ctx for a message that came in a request of its own: what is
// known about the caller is that request's, and never the session's.
func (s *sessions) call(ctx context.Context, req mcp.Request) context.Context {
	if s == nil || req.GetExtra() == nil {
		return ctx
	}
	id := req.GetExtra().Header.Get(callHeader)
	if id == "" {
		return ctx
	}
	s.mu.Lock()
	r := s.calls[id]
	s.mu.Unlock()
	if r == nil {
		return nobody(ctx)
	}
	return context.WithValue(ctx, requestKey{}, r)
}

// serverFor makes the server of a new session. Its ids are the caller's.
func (s *sessions) serverFor(r *http.Request) *mcp.Server {
	if r.Header.Get(sessionHeader) != "" {
		return s.a.front
	}
	s.mu.Lock()
	call := s.calls[r.Header.Get(callHeader)]
	s.mu.Unlock()
	if call == nil {
		return nil
	}
	who := call.principal.Key()
	server := s.a.server(func() string { return s.id(rand.Text(), who) })
	s.mu.Lock()
	s.servers[server] = who
	s.mu.Unlock()
	return server
}

// id binds a session's id to who opened it.
func (s *sessions) id(random string, who authz.PrincipalKey) string {
	mac := hmac.New(sha256.New, s.key)
	for _, t := range []string{random, who.Tenant, who.Issuer, who.Subject} {
		mac.Write(append(strconv.AppendInt(nil, int64(len(t)), 10), ':'))
		mac.Write([]byte(t))
	}
	return random + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (s *sessions) owns(id string, who authz.PrincipalKey) bool {
	random, _, ok := strings.Cut(id, ".")
	return ok && hmac.Equal([]byte(id), []byte(s.id(random, who)))
}

// room reports whether a caller may open a further session. Those that have ended
// are forgotten here.
func (s *sessions) room(who authz.PrincipalKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has(who) {
		return true
	}
	s.sweep()
	return s.has(who)
}

// has is room without looking which have ended.
func (s *sessions) has(who authz.PrincipalKey) bool {
	own := 0
	for _, k := range s.servers {
		if k == who {
			own++
		}
	}
	return len(s.servers) < maxSessions && own < maxOwned
}

func (s *sessions) sweep() {
	for server := range s.servers {
		alive := false
		for range server.Sessions() {
			alive = true
			break
		}
		if !alive {
			delete(s.servers, server)
		}
	}
}

// close ends all sessions.
func (s *sessions) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	servers := s.servers
	s.servers = map[*mcp.Server]authz.PrincipalKey{}
	s.mu.Unlock()
	for server := range servers {
		for session := range server.Sessions() {
			_ = session.Close()
		}
	}
}
