package replicas_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/release"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	bookings "github.com/drawbridge-sdk/drawbridge/examples/guides/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/connector/double"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/replicas"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keys(id, fill string) replicas.Keys {
	return replicas.Keys{Current: id, Keys: map[string][]byte{id: bytes.Repeat([]byte(fill), 32)}}
}

// host is what two replicas share, but for their connections to the database.
func host(t *testing.T, dialect sqlstore.Dialect, rooms http.Handler) (*replicas.Config, authz.Principal) {
	t.Helper()
	profile, eg := egresstest.Serve(t, rooms)
	profile.Name = "rooms"
	c, err := bookings.New("rooms")
	require.NoError(t, err)
	static, err := credential.NewStatic("acme", egresstest.Base, func(context.Context) ([]byte, error) { return []byte("key-of-acme-agents"), nil },
		&credential.StaticOptions{Connector: "bookings"})
	require.NoError(t, err)
	alice, authority := authztest.Principal(t, "acme", "alice")
	return &replicas.Config{
		Dialect: dialect, AtRest: keys("rest-1", "r"), Cursors: keys("cur-1", "c"), State: keys("state-1", "s"),
		Policy: authztest.AllowAsked(), Trusted: authority, Connectors: []connector.Connector{c},
		Who:       func(context.Context, *http.Request) (authz.Principal, error) { return alice, nil },
		Audit:     connector.AuditFunc(func(context.Context, *connector.AuditEvent) error { return nil }),
		Endpoints: []egress.Profile{profile}, Egress: eg, Static: static,
	}, alice
}

func open(t *testing.T, driver, dsn string, c *replicas.Config) *replicas.Replica {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	r, err := replicas.Open(t.Context(), db, c)
	require.NoError(t, err)
	return r
}

const book = `{"room":"r-12","title":"review","start":"2026-12-01T09:00:00Z","end":"2026-12-01T10:00:00Z"}`

// What one replica began, another goes on with: a listing, and a change whose
// answer was lost. P1 W3 W4.
func TestTwoReplicas_P1_W3_W4(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		two(t, sqlstore.SQLite, "sqlite", sqlstore.SQLiteDSN(filepath.Join(t.TempDir(), "host.db")))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		two(t, sqlstore.PostgreSQL, "pgx", peers.PostgreSQL(t))
	})
}

func two(t *testing.T, dialect sqlstore.Dialect, driver, dsn string) {
	rooms := double.New()
	config, alice := host(t, dialect, rooms)
	a, b := open(t, driver, dsn, config), open(t, driver, dsn, config)
	ask := func(r *replicas.Replica, capability, key, args string) *toolresult.Result {
		return r.Invoker.Invoke(t.Context(), &connector.InvokeRequest{Principal: alice, Capability: capability, Key: key, Arguments: json.RawMessage(args)})
	}

	// A listing that begins here and goes on there.
	first := ask(a, "list_bookings", "", `{"room":"r-12","page_size":4}`)
	require.Equal(t, toolresult.MeaningGaps, first.Meaning(), first.Text(nil))
	rest := ask(b, "list_bookings", "", `{"room":"r-12","page_size":4,"cursor":"`+first.NextCursor+`"}`)
	require.Equal(t, toolresult.MeaningComplete, rest.Meaning(), rest.Text(nil))

	// A booking whose answer was lost here is found there, and made once.
	rooms.Lose(1)
	before := rooms.Count("acme")
	lost := ask(a, "book_room", "task-17/book-a-room", book)
	require.Equal(t, toolresult.MeaningUnknownEffect, lost.Meaning(), lost.Text(nil))
	found := b.Invoker.Lookup(t.Context(), &connector.LookupRequest{Principal: alice, OperationID: lost.Effect.OperationID})
	require.Equal(t, toolresult.MeaningComplete, found.Meaning(), found.Text(nil))
	again := ask(b, "book_room", "task-17/book-a-room", book)
	require.Equal(t, lost.Effect.OperationID, again.Effect.OperationID)
	require.Equal(t, before+1, rooms.Count("acme"))

	// One goes, the other stays.
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- a.Work(ctx) }()
	stop()
	require.NoError(t, <-worked)
	require.NoError(t, a.Drain(t.Context()))
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader("{}"))
	a.HTTP().ServeHTTP(w, r)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, toolresult.MeaningNoMatch, ask(b, "list_bookings", "", `{"room":"r-14"}`).Meaning())
	require.NoError(t, b.Drain(t.Context()))
}

// M7: what breaks those who rely on a release does not go out as a small one.
func TestGate_M7(t *testing.T) {
	released, err := os.ReadFile("testdata/release.json")
	require.NoError(t, err)
	same, err := bookings.New("rooms")
	require.NoError(t, err)
	report, err := replicas.Gate(released, same)
	require.NoError(t, err, "the connector of the guide is as it was released")
	require.Empty(t, report.Changes)

	renamed, err := connector.New(connector.Info{ID: "bookings", Version: "1.1.0", Owner: "facilities", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Read(connector.Spec{Name: "bookings", Sensitivity: risk.Internal}, connector.OnConnection[bookings.Search],
			func(context.Context, *connector.ReadCall, bookings.Search) (*connector.Answer[string], error) {
				return connector.NoMatch[string](), nil
			}))
	require.NoError(t, err)
	report, err = replicas.Gate(released, renamed)
	require.ErrorIs(t, err, release.ErrBreaking)
	require.Contains(t, report.String(), "list_bookings: name: the capability is gone")
}
