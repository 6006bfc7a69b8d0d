package bearer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer/bearertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	resource    = "https://mcp.test/public/mcp"
	metadataURL = "https://mcp.test/.well-known/oauth-protected-resource/public/mcp"
	list        = `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}`
)

// world is one guarded server and one issuer.
type world struct {
	as  *bearertest.Server
	b   *bearer.Bearer
	h   http.Handler
	log *bytes.Buffer

	mu   sync.Mutex
	seen *http.Request // by the guarded handler
	body string
	who  authz.Principal
	runs int
}

// setup is what a test changes.
type setup struct {
	opts   bearer.Options
	jwt    bearer.JWTOptions
	ask    *bearer.IntrospectionOptions // introspection instead of JWT
	more   []*bearer.Verifier
	as     *bearertest.Server
	tenant bearer.TenantFunc
}

func newWorld(t testing.TB, change ...func(*setup)) *world {
	t.Helper()
	s := &setup{tenant: bearer.OneTenant("acme")}
	s.as = bearertest.New(t)
	for _, f := range change {
		f(s)
	}
	w := &world{as: s.as, log: &bytes.Buffer{}}
	s.opts.Logger = slog.New(slog.NewTextHandler(&syncWriter{w: w.log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.jwt.Egress = s.as.Egress()
	var v *bearer.Verifier
	var err error
	if s.ask != nil {
		s.ask.Egress = s.as.Egress()
		v, err = bearer.NewIntrospection(s.as.Issuer, s.as.Introspection(), secret(), s.tenant, s.ask)
	} else {
		v, err = bearer.NewJWT(s.as.Issuer, s.as.Keys(), s.tenant, &s.jwt)
	}
	require.NoError(t, err)
	w.b, err = bearer.New(resource, append([]*bearer.Verifier{v}, s.more...), &s.opts)
	require.NoError(t, err)
	w.h = w.b.Handler(http.HandlerFunc(w.serve))
	return w
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	who, err := w.b.Principal(r.Context(), r)
	same, ok := bearer.PrincipalFrom(r.Context())
	if err != nil || !ok || who.Key() != same.Key() {
		rw.WriteHeader(599)
		return
	}
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen, w.body, w.who = r, string(body), who
	w.runs++
	fmt.Fprint(rw, "served")
}

// reply is what came back.
type reply struct {
	Status    int
	Challenge string
	Header    http.Header
	Text      string
	ID        any
	Error     struct {
		Code    int
		Message string
		Data    map[string]string
	}
}

// post sends a list with a token, or none.
func (w *world) post(token string, change ...func(*http.Request)) reply {
	return w.send(token, list, change...)
}

func (w *world) send(token, body string, change ...func(*http.Request)) reply {
	r := httptest.NewRequest("POST", resource, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, f := range change {
		f(r)
	}
	rw := httptest.NewRecorder()
	w.h.ServeHTTP(rw, r)
	out := reply{Status: rw.Code, Header: rw.Header(), Text: rw.Body.String(), Challenge: rw.Header().Get("WWW-Authenticate")}
	_ = json.Unmarshal(rw.Body.Bytes(), &out)
	return out
}

func set(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

// call is a request that calls a tool.
func call(tool string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
}

// modern makes a request one of 2026-07-28.
func modern(method, tool string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", method)
		if tool != "" {
			r.Header.Set("Mcp-Name", tool)
		}
	}
}

// with returns good claims with some replaced; nil takes one out.
func (w *world) with(change map[string]any) map[string]any {
	c := w.as.Claims(resource, "alice", "tickets.read")
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
