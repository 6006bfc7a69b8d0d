package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/world"
)

// A1 A3 A4 C5 C6: who comes with which token, and what they get.
func TestCallers_A1_A3_A4_C5_C6(t *testing.T) {
	s := newSite(t, nil)
	r := s.serve("a", Current)
	r.ready()
	alice := s.token("alice", s.cfg.Public)
	for _, row := range []struct {
		why, token, tool string
		status           int
		code, holds      string
	}{
		{"a caller with an account reads with it", alice, "search_runbooks", 200, "", world.Mark("alice")},
		{"somebody without an account is told where to connect one", s.token("bob", s.cfg.Public), "search_runbooks", 200, "CONNECTION_REQUIRED", s.cfg.ConnectPage},
		{"who is in no group sees no tool, and finds none", s.token("carol", s.cfg.Public), "search_runbooks", 200, "", "-32602"},
		{"whom the directory does not know has no tenant", s.token("mallory", s.cfg.Public), "search_runbooks", 401, "", "resource_metadata"},
		{"a token for another resource is not for here", s.token("alice", "http://elsewhere.test/mcp"), "search_runbooks", 401, "", ""},
		{"a token for no resource is not for here either", s.token("alice", ""), "search_runbooks", 401, "", ""},
		{"an empty token is no request", "", "search_runbooks", 400, "", ""},
		{"the gateway's own secret is no token", world.Secret, "search_runbooks", 401, "", ""},
	} {
		a := r.call(row.token, row.tool, "", books)
		require.Equal(t, row.status, a.status, "%s: %s", row.why, a.text)
		require.Equal(t, row.code, a.code, "%s: %s", row.why, a.text)
		if row.status == 200 {
			require.Contains(t, a.text, row.holds, row.why)
		}
	}
	require.Equal(t, 200, status(r.admin+"/livez"))
	require.Equal(t, 404, status("http://"+hostOf(r.public)+"/metrics"), "metrics are for operators")
	require.Equal(t, 200, status("http://"+hostOf(r.public)+"/.well-known/oauth-protected-resource/mcp"))
	_, inbound := s.world.Desk.Active(alice)
	require.False(t, inbound)
}

func hostOf(url string) string {
	req, _ := http.NewRequest(http.MethodGet, url, nil)
	return req.URL.Host
}

// gated is a provider whose changes wait to be let through.
func gated() (entered chan struct{}, through chan struct{}, o *world.Options) {
	entered, through = make(chan struct{}, 10), make(chan struct{})
	return entered, through, &world.Options{Trouble: func() world.Trouble {
		entered <- struct{}{}
		<-through
		return world.None
	}}
}

// W2 W4: a replica that is to end is not ready at once, refuses new calls, lets
// the running change end, and then ends itself.
func TestDrain_W2_W4(t *testing.T) {
	entered, through, o := gated()
	s := newSite(t, o)
	s.cfg.Grace = Duration(50 * time.Millisecond)
	r := s.serve("a", Current)
	r.ready()
	alice := s.token("alice", s.cfg.Public)
	running := make(chan answer, 1)
	go func() { running <- r.call(alice, "create_incident_ticket", "key-1", ticket) }()
	<-entered
	r.end()
	r.until("it is not ready", func() bool { return status(r.admin+"/readyz") == http.StatusServiceUnavailable })
	require.Equal(t, 200, status(r.admin+"/livez"), "it lives while it drains")
	r.until("new calls are refused", func() bool {
		return r.call(alice, "search_runbooks", "", books).status == http.StatusServiceUnavailable
	})
	close(through)
	require.Equal(t, "applied", (<-running).effect)
	require.NoError(t, <-r.ended)
}

// W3 W4: a call that is still under way when the time to drain is over is cut off,
// the replica says so, and the next one knows of the change and does not repeat it.
func TestCutOff_W3_W4(t *testing.T) {
	entered, through, o := gated()
	s := newSite(t, o)
	s.cfg.Drain = Duration(50 * time.Millisecond)
	s.cfg.WriteTimeout, s.cfg.Settle = Duration(time.Second), Duration(time.Second)
	r := s.serve("a", Current)
	r.ready()
	alice := s.token("alice", s.cfg.Public)
	running := make(chan answer, 1)
	go func() { running <- r.call(alice, "create_incident_ticket", "key-1", ticket) }()
	<-entered
	r.end()
	require.ErrorIs(t, <-r.ended, ErrCut)
	require.NotEqual(t, "not_applied", (<-running).effect)
	close(through) // what was sent arrives after all
	again := s.serve("b", Next)
	again.ready()
	again.until("it is found by its key", func() bool { return again.call(alice, "create_incident_ticket", "key-1", ticket).effect == "applied" })
	require.Equal(t, map[world.Change]int{{Account: "alice", Key: "key-1"}: 1}, s.world.Applied())
}

// M7: what a replica promises is held against those that are served.
func TestGate_M7(t *testing.T) {
	s := newSite(t, nil)
	db, err := OpenDB(t.Context(), s.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	open := func(id, release string) *gate {
		c, err := s.cfg.connectors(release)
		require.NoError(t, err)
		g, err := openGate(t.Context(), db, true, id, release, c)
		require.NoError(t, err)
		return g
	}
	ctx := t.Context()
	require.NoError(t, open("a", Current).enter(ctx, false))
	require.Error(t, open("a", Current).enter(ctx, false), "two replicas of one name")
	require.NoError(t, open("b", Next).enter(ctx, false), "more is promised")

	err = open("c", Breaking).enter(ctx, true)
	require.ErrorIs(t, err, ErrGate, "what breaks is refused, reviewed or not")
	require.ErrorContains(t, err, "desk.write is needed now")

	text := open("d", Current)
	text.promises[0].Capabilities[0].Description = "another text"
	err = text.enter(ctx, false)
	require.ErrorIs(t, err, ErrGate)
	require.ErrorContains(t, err, "-reviewed")

	fewer := open("e", Next)
	fewer.promises = fewer.promises[1:]
	require.ErrorIs(t, fewer.enter(ctx, true), ErrGate, "a connector is gone")

	var rows int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM gateway_replicas").Scan(&rows))
	require.Equal(t, 2, rows, "who was refused leaves nothing behind")

	_, err = db.ExecContext(ctx, "UPDATE gateway_replicas SET promises = '{'")
	require.NoError(t, err)
	require.ErrorIs(t, open("f", Current).enter(ctx, true), ErrGate, "what cannot be read is not taken for agreement")
	_, err = db.ExecContext(ctx, "UPDATE gateway_replicas SET seen = ?", time.Now().Add(-alive-time.Second).UnixMilli())
	require.NoError(t, err)
	require.NoError(t, open("g", Breaking).enter(ctx, false), "who was killed long ago counts no more")
}

// M7: the way back is held against the rules too, and a replica that is refused
// was never ready.
func TestWayBack_M7(t *testing.T) {
	s := newSite(t, nil)
	r := s.serve("a", Next)
	r.ready()
	back := s.serve("b", Current)
	require.ErrorIs(t, <-back.ended, ErrGate)
	require.Equal(t, 0, status(back.public))
	require.Equal(t, 200, status(r.admin+"/readyz"))
}

// A configuration that is wrong says what, and shows nothing of what it holds.
func TestConfig(t *testing.T) {
	s := newSite(t, nil)
	good, err := json.Marshal(s.cfg)
	require.NoError(t, err)
	load := func(change func(map[string]any)) error {
		m := map[string]any{}
		require.NoError(t, json.Unmarshal(good, &m))
		change(m)
		text, err := json.Marshal(m)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "gateway.json")
		require.NoError(t, os.WriteFile(file, text, 0o600))
		_, err = Load(file)
		return err
	}
	require.NoError(t, load(func(map[string]any) {}))
	for want, change := range map[string]func(map[string]any){
		"needs Public":              func(m map[string]any) { delete(m, "Public") },
		"needs ClientSecret":        func(m map[string]any) { m["ClientSecret"] = "" },
		"a key of 32 bytes":         func(m map[string]any) { m["Key"] = "2" },
		"has no tenant":             func(m map[string]any) { m["People"] = map[string]any{"eve": map[string]any{}} },
		"is not JSON of the fields": func(m map[string]any) { m["Ketchup"] = 1 },
		"is not JSON of the field":  func(m map[string]any) { m["Drain"] = "-1s" },
		"is not JSON":               func(m map[string]any) { m["Grace"] = 5 },
	} {
		err := load(change)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), world.Secret)
	}
	_, err = Load(filepath.Join(t.TempDir(), "nowhere"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A replica that cannot be what it is told to be does not start.
func TestOpenRefuses(t *testing.T) {
	s := newSite(t, nil)
	_, err := Open(t.Context(), s.cfg, "a", "9.9.9", nil)
	require.ErrorContains(t, err, `no release "9.9.9"`)
	other := *s.cfg
	other.DSN = "host=127.0.0.1 port=1 user=nobody dbname=none sslmode=disable connect_timeout=5"
	_, err = Open(t.Context(), &other, "a", Current, nil)
	require.ErrorContains(t, err, "the database does not answer")
}

// A replica whose listener dies ends, and says so.
func TestListenerDies(t *testing.T) {
	s := newSite(t, nil)
	r, err := Open(t.Context(), s.cfg, "a", Current, nil)
	require.NoError(t, err)
	public, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, public.Close())
	err = r.Serve(t.Context(), public, admin, false)
	require.ErrorIs(t, err, net.ErrClosed)
	require.False(t, errors.Is(err, ErrCut))
	require.NoError(t, r.Close(context.Background()))
}
