package operate_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	bookings "github.com/drawbridge-sdk/drawbridge/examples/guides/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/connector/double"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/operate"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/replicas"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const book = `{"room":"r-12","title":"review","start":"2026-12-01T09:00:00Z","end":"2026-12-01T10:00:00Z"}`

// desk is a host with one provider, and the people of the test.
type desk struct {
	*replicas.Replica
	rooms       *double.Rooms
	away        atomic.Bool // the provider answers no question
	account     connection.Connection
	alice, dave authz.Principal
	audit       bytes.Buffer
	full        atomic.Bool // the disk of the audit
}

// Write implements [io.Writer] for the audit.
func (d *desk) Write(p []byte) (int, error) {
	if d.full.Load() {
		return 0, errors.New("no space left")
	}
	return d.audit.Write(p)
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.away.Load() && r.Method == http.MethodGet {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	d.rooms.ServeHTTP(w, r)
}

func open(t *testing.T) *desk {
	t.Helper()
	d := &desk{rooms: double.New()}
	profile, eg := egresstest.Serve(t, d)
	profile.Name = "rooms"
	c, err := bookings.New("rooms")
	require.NoError(t, err)
	var host *authz.Authority
	d.alice, host = authztest.Principal(t, "acme", "alice")
	d.dave = authztest.Caller(t, host, "acme", "dave")
	key := func(id string) replicas.Keys {
		return replicas.Keys{Current: id, Keys: map[string][]byte{id: bytes.Repeat([]byte(id[:1]), 32)}}
	}
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(t.TempDir(), "host.db")))
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	d.Replica, err = replicas.Open(t.Context(), db, &replicas.Config{
		Dialect: sqlstore.SQLite, AtRest: key("rest-1"), Cursors: key("cursors-1"), State: key("state-1"),
		Policy: authztest.AllowAsked(), Trusted: host, Connectors: []connector.Connector{c}, Audit: operate.Lines(d),
		Who:       func(context.Context, *http.Request) (authz.Principal, error) { return d.alice, nil },
		Endpoints: []egress.Profile{profile}, Egress: eg,
		Providers: []*connection.Provider{{Name: "rooms", Title: "Rooms", Grant: connection.APIKey, Connectors: []string{"bookings"}, API: profile, Egress: eg}},
	})
	require.NoError(t, err)
	d.account, err = d.Accounts.Install(t.Context(), &connection.InstallRequest{Provider: "rooms", Owner: authz.PrincipalKey{Tenant: "acme"}, Account: "agents",
		Key: []byte(d.rooms.Token("acme", "agents"))})
	require.NoError(t, err)
	return d
}

func (d *desk) call(t *testing.T, capability, key, args string) *toolresult.Result {
	t.Helper()
	return d.Invoker.Invoke(t.Context(), &connector.InvokeRequest{Principal: d.alice, Capability: capability, Key: key, Run: "run-17", Arguments: json.RawMessage(args)})
}

// W3 W4: an operation that nobody asks for is settled by the sweep.
func TestUnknownIsLookedUp_W3_W4(t *testing.T) {
	d := open(t)
	d.rooms.Lose(1)
	r := d.call(t, "book_room", "task-17/book", book)
	require.Equal(t, toolresult.MeaningUnknownEffect, r.Meaning(), r.Text(nil))
	lines, err := operate.Unknown(t.Context(), d.Store, 100)
	require.NoError(t, err)
	require.Equal(t, []string{r.Effect.OperationID + ` book_room of acme/alice on room:r-12: unknown, sent 1 times, key "task-17/book"`}, lines)

	n, err := d.Invoker.Recover(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	lines, err = operate.Unknown(t.Context(), d.Store, 100)
	require.NoError(t, err)
	require.Empty(t, lines)
	story, err := operate.Story(t.Context(), d.Store, "acme", r.Effect.OperationID)
	require.NoError(t, err)
	require.Equal(t, []string{"1 prepared", "2 dispatched", "3 unknown", "4 unknown", "5 applied by lookup"}, story, "the fourth is the look-up at work")
}

// W3: what cannot be looked up is settled by a person who is not its owner, and
// blocks its class until then.
func TestUnknownIsSettled_W3(t *testing.T) {
	d := open(t)
	d.rooms.Lose(1)
	id := d.call(t, "book_room", "task-17/book", book).Effect.OperationID
	d.away.Store(true)
	other := d.call(t, "book_room", "task-18/book", strings.Replace(book, "review", "retro", 1))
	require.Equal(t, toolresult.Conflict, other.Error.Code, "one open change of a class")
	require.ErrorIs(t, operate.Told(t.Context(), d.Invoker, d.alice, id, true), toolresult.Conflict, "not by its owner")
	require.NoError(t, operate.Told(t.Context(), d.Invoker, d.dave, id, true))
	story, err := operate.Story(t.Context(), d.Store, "acme", id)
	require.NoError(t, err)
	require.Equal(t, "4 resolved by person:dave", story[len(story)-1])
	r := d.call(t, "book_room", "task-18/book", strings.Replace(book, "review", "retro", 1))
	require.Equal(t, toolresult.EffectApplied, r.Effect.Disposition, r.Text(nil))
}

// S4: nothing gets the credential while a hold stands.
func TestLeak_S4(t *testing.T) {
	d := open(t)
	require.NoError(t, d.call(t, "list_bookings", "", `{"room":"r-12"}`).Err())
	hold, err := operate.Leak(t.Context(), d.Accounts, "acme", d.account.ID, "run-17", "the key was in a log of run-17")
	require.NoError(t, err)
	r := d.call(t, "list_bookings", "", `{"room":"r-12"}`)
	require.Equal(t, toolresult.PermissionDenied, r.Error.Code)
	require.ErrorIs(t, operate.Over(t.Context(), d.Accounts, hold, ""), toolresult.Conflict, "this provider confirms nothing")
	require.NoError(t, operate.Over(t.Context(), d.Accounts, hold, "dave"))
	require.Equal(t, toolresult.ConnectionRequired, d.call(t, "list_bookings", "", `{"room":"r-12"}`).Error.Code, "a new key has to be installed")
}

// C8: whoever leaves has nothing connected any more.
func TestLeaver_C8(t *testing.T) {
	d := open(t)
	gone, err := operate.Leaver(t.Context(), d.Accounts, authz.PrincipalKey{Tenant: "acme"})
	require.NoError(t, err)
	require.Len(t, gone, 1)
	require.Equal(t, connection.Disconnected, gone[0].State)
	require.Equal(t, toolresult.ConnectionRequired, d.call(t, "list_bookings", "", `{"room":"r-12"}`).Error.Code)
}

// A9 R10: what happened is in the audit, without content; without an audit
// nothing is changed.
func TestAudit_A9_R10(t *testing.T) {
	d := open(t)
	require.NoError(t, d.call(t, "book_room", "task-17/book", book).Err())
	lines := strings.Split(strings.TrimSpace(d.audit.String()), "\n")
	require.Len(t, lines, 2, "before it is sent, and after")
	require.NotContains(t, d.audit.String(), "review")
	require.NotContains(t, d.audit.String(), "key-of-acme")
	require.Contains(t, lines[1], `"key":"task-17/book"`)
	require.Contains(t, lines[1], `"disposition":"applied"`)
	d.full.Store(true)
	before := d.rooms.Count("acme")
	require.Error(t, d.call(t, "book_room", "task-18/book", book).Err())
	require.Equal(t, before, d.rooms.Count("acme"), "a sink that fails closes writes")
}
