package upgrade_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/connector/release"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	bookings "github.com/drawbridge-sdk/drawbridge/examples/guides/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/connector/double"
	"github.com/drawbridge-sdk/drawbridge/examples/guides/upgrade"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const times = `,"start":"2026-12-01T09:00:00Z","end":"2026-12-01T10:00:00Z"}`

// T1 M7: the contract of the connector, by the set that it was written for, and
// against what was released.
func TestContract_T1_M7(t *testing.T) {
	released, err := os.ReadFile("../replicas/testdata/release.json")
	require.NoError(t, err)
	connectortest.Test(t, connectortest.Fixture{
		New:          func() (connector.Connector, error) { return bookings.New("rooms") },
		Double:       func(testing.TB) connectortest.Double { return double.New() },
		Requirements: "2026.12",
		Released:     released,
		Samples: []connectortest.Sample{
			{Capability: "list_bookings", Args: `{"room":"r-12"}`, Empty: `{"room":"r-14"}`, Missing: `{"room":"r-404"}`, Denied: `{"room":"r-99"}`, Items: 6},
			{Capability: "book_room", Args: `{"room":"r-12","title":"review"` + times, Other: `{"room":"r-14","title":"retro"` + times,
				Missing: `{"room":"r-404","title":"review"` + times, Denied: `{"room":"r-99","title":"review"` + times},
		},
	})
}

func ring(t *testing.T) *credential.Keyring {
	k, err := credential.NewKeyring("k", map[string][]byte{"k": bytes.Repeat([]byte("k"), 32)})
	require.NoError(t, err)
	return k
}

// A database is brought up to date once, and an older program does not touch one
// that a newer has been at. E5: it fails, and says what to do.
func TestMigrate_E5(t *testing.T) {
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(t.TempDir(), "host.db")))
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, upgrade.Migrate(t.Context(), db, sqlstore.SQLite, ring(t)))
	require.NoError(t, upgrade.Migrate(t.Context(), db, sqlstore.SQLite, ring(t)), "again, and nothing is done")
	_, err = db.Exec("INSERT INTO drawbridge_migrations (number, name, digest, applied) SELECT max(number) + 1, '9999_future.sql', 'x', 0 FROM drawbridge_migrations")
	require.NoError(t, err)
	err = upgrade.Migrate(t.Context(), db, sqlstore.SQLite, ring(t))
	require.ErrorIs(t, err, sqlstore.ErrNewer)
	require.ErrorContains(t, err, "put the backup back")
}

type query struct {
	Text  string `json:"text"`
	Limit int    `json:"limit"`
}

// notes is a connector of which there are several versions.
func notes(version, input string, scopes ...string) (connector.Connector, error) {
	list := func(_ context.Context, _ *connector.ReadCall, _ query, page connector.PageRequest) (*connector.Page[string], error) {
		if _, later := page.From.Token(); later {
			return connector.NewPage([]string{"second"}, cursor.End()), nil
		}
		return connector.NewPage([]string{"first"}, cursor.At("2")), nil
	}
	return connector.New(connector.Info{ID: "notes", Version: version, Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.List(connector.ListSpec{More: provider.NoSignal("nothing is asked"), Spec: connector.Spec{Name: "list_notes", Sensitivity: risk.Internal,
			Scopes: scopes, Input: json.RawMessage(input)}}, connector.OnConnection[query], list))
}

// What a release changes, said before it is out. M7.
func Example() {
	v1, err := notes("1.4.0", `{"properties":{"limit":{"default":10}}}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := upgrade.Write(v1) // testdata/release.json
	if err != nil {
		fmt.Println(err)
		return
	}
	v2, err := notes("1.5.0", `{"properties":{"limit":{"default":50},"text":{"maxLength":20}}}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	changes, err := upgrade.Changes(file, v2)
	for _, c := range changes {
		fmt.Println(c)
	}
	fmt.Println(errors.Is(err, release.ErrBreaking))
	// Output:
	// breaking   list_notes: input/properties/limit/default: a call that leaves it out means something else: was 10, is 50
	// breaking   list_notes: input/properties/text/maxLength: is narrower: was 4096, is 20
	// true
}

// The same changes under a new major version are said, and go out.
func TestMajorVersion_M7(t *testing.T) {
	v1, err := notes("1.4.0", `{"properties":{"limit":{"default":10}}}`)
	require.NoError(t, err)
	file, err := upgrade.Write(v1)
	require.NoError(t, err)
	small, err := notes("1.5.0", `{"properties":{"limit":{"default":50}}}`)
	require.NoError(t, err)
	_, err = upgrade.Changes(file, small)
	require.ErrorIs(t, err, release.ErrBreaking)
	big, err := notes("2.0.0", `{"properties":{"limit":{"default":50}}}`)
	require.NoError(t, err)
	changes, err := upgrade.Changes(file, big)
	require.NoError(t, err)
	require.NotEmpty(t, changes)
	_, err = upgrade.Changes([]byte(`{"format":"another"}`), big)
	require.Error(t, err, "a file that is no contract lets nothing through")
}

// P1: a cursor of one version is no cursor of the next.
func TestCursorEndsWithItsVersion_P1(t *testing.T) {
	alice, host := authztest.Principal(t, "acme", "alice")
	ring, err := cursor.NewKeyring("c", map[string][]byte{"c": bytes.Repeat([]byte("c"), 32)}, nil)
	require.NoError(t, err)
	ask := func(version, more string) *toolresult.Result {
		c, err := notes(version, `{}`)
		require.NoError(t, err)
		inv, err := connector.NewInvoker(authztest.AllowAsked(), []*authz.Authority{host}, []connector.Connector{c}, &connector.Options{Cursors: ring})
		require.NoError(t, err)
		return inv.Invoke(t.Context(), &connector.InvokeRequest{Principal: alice, Capability: "list_notes", Arguments: json.RawMessage(`{"text":"x","limit":1` + more + `}`)})
	}
	first := ask("1.4.0", "")
	require.NotEmpty(t, first.NextCursor, first.Text(nil))
	require.Equal(t, toolresult.MeaningComplete, ask("1.4.0", `,"cursor":"`+first.NextCursor+`"`).Meaning())
	require.Equal(t, toolresult.CursorInvalid, ask("1.5.0", `,"cursor":"`+first.NextCursor+`"`).Error.Code)
}
