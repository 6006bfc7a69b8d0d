package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/sqlconnection"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a world with a configuration for it: alice of acme and bob of globex
// are on call, and carol of acme is not. Only alice has an account.
type site struct {
	t     *testing.T
	world *world.World
	cfg   *Config
}

func newSite(t *testing.T, opts *world.Options) *site {
	t.Helper()
	w, err := world.Start(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	s := &site{t, w, &Config{Public: "https://gateway.test/mcp", Dir: t.TempDir(), Key: "1", Keys: map[string][]byte{"1": bytes.Repeat([]byte{7}, 32)},
		Issuer: w.IdentityURL, Provider: w.ProviderURL, ProviderIssuer: w.ProviderURL, Client: world.Gateway, ClientSecret: world.Secret, Return: world.ReturnToHere,
		ConnectPage: "http://127.0.0.1/connect/", Grace: 1, People: map[string]Person{
			"alice": {"acme", []string{"on-call"}}, "bob": {"globex", []string{"on-call"}}, "carol": {"acme", nil}}}}
	s.connect("alice", "acme")
	return s
}

func (s *site) connect(name, tenant string) {
	ctx := s.t.Context()
	db, err := OpenDB(ctx, s.cfg)
	require.NoError(s.t, err)
	defer db.Close()
	store, err := sqlconnection.Open(ctx, db, sqlstore.SQLite)
	require.NoError(s.t, err)
	m, err := Accounts(s.cfg, store, slog.New(slog.DiscardHandler))
	require.NoError(s.t, err)
	defer m.Close(ctx)
	p, err := authz.NewAuthority("test").Principal(authz.Identity{Tenant: tenant, Issuer: s.cfg.Issuer, Subject: name})
	require.NoError(s.t, err)
	link, err := m.Begin(ctx, p, &connection.BeginRequest{Provider: Desk})
	require.NoError(s.t, err)
	d, err := m.Open(ctx, p, link.ID)
	require.NoError(s.t, err)
	back, err := s.world.Consent(name, d.URL)
	require.NoError(s.t, err)
	_, err = m.Callback(ctx, p, d.Browser, back)
	require.NoError(s.t, err)
}

// running is a replica that serves.
type running struct {
	s             *site
	public, admin string
	end           context.CancelFunc
	ended         chan error
}

// serve starts a replica, which is ended with the test if it has not been before.
func (s *site) serve(id, release string) *running {
	s.t.Helper()
	r, err := Open(s.t.Context(), s.cfg, id, release, nil)
	require.NoError(s.t, err)
	public, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	ctx, end := context.WithCancel(s.t.Context())
	run := &running{s, "http://" + public.Addr().String() + "/mcp", "http://" + admin.Addr().String(), end, make(chan error, 1)}
	go func() {
		err := r.Serve(ctx, public, admin, false)
		if cerr := r.Close(context.Background()); err == nil {
			err = cerr
		}
		run.ended <- err
		close(run.ended)
	}()
	s.t.Cleanup(func() { end(); <-run.ended })
	return run
}

// status is that of a GET, or 0.
func status(url string) int {
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// until polls for what must become true.
func (r *running) until(what string, f func() bool) {
	r.s.t.Helper()
	require.Eventually(r.s.t, f, time.Minute, 5*time.Millisecond, what)
}

func (r *running) ready() {
	r.s.t.Helper()
	r.until("it is ready", func() bool { return status(r.admin+"/readyz") == http.StatusOK })
}

// answer is what a call got.
type answer struct {
	status int
	text   string
	effect string
	code   string
}

// call calls a tool with a token.
func (r *running) call(token, tool, key string, args map[string]any) answer {
	params := map[string]any{"name": tool, "arguments": args}
	if key != "" {
		params["_meta"] = map[string]any{"drawbridge.dev/operation": key}
	}
	return r.rpc(token, "tools/call", params)
}

func (r *running) rpc(token, method string, params map[string]any) answer {
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	req, err := http.NewRequest(http.MethodPost, r.public, bytes.NewReader(body))
	if err != nil {
		return answer{text: err.Error()}
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Authorization": "Bearer " + token, "Mcp-Protocol-Version": "2025-11-25"} {
		req.Header.Set(name, value)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // what came is looked at
	a := answer{status: resp.StatusCode, text: string(text)}
	_, last, _ := strings.Cut(a.text, "data: ")
	var m struct {
		Result struct {
			StructuredContent struct {
				Effect struct{ Disposition string }
				Error  *struct{ Code string }
			}
		}
	}
	if json.Unmarshal([]byte(last), &m) == nil {
		a.effect = m.Result.StructuredContent.Effect.Disposition
		if e := m.Result.StructuredContent.Error; e != nil {
			a.code = e.Code
		}
	}
	return a
}

func (s *site) token(name, resource string) string {
	s.t.Helper()
	token, err := s.world.Token(name, resource)
	require.NoError(s.t, err)
	return token
}

var (
	ticket = map[string]any{"project": "inc", "subject": "hello"}
	books  = map[string]any{"namespace": "prod", "service": "order-service"}
)
