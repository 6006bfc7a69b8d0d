package sqlconnection_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/connectiontest"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/sqlconnection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a database of its own that can be opened several times.
type place struct {
	dialect     sqlstore.Dialect
	driver, dsn string
}

// everywhere holds on every database. One server serves all; each test has a
// schema of its own in it.
var everywhere = map[string]func(t *testing.T, fresh func(t testing.TB) place){
	"Store_H2_41_H2_75": testStore,
	"Damaged":           testDamaged,
	"NotText":           testNotText,
	"Rival_H2_43":       testRival,
}

func TestSQLite(t *testing.T) {
	for name, test := range everywhere {
		t.Run(name, func(t *testing.T) { test(t, newSQLite) })
	}
}

func TestPostgreSQL(t *testing.T) {
	server := peers.PostgreSQL(t)
	for name, test := range everywhere {
		t.Run(name, func(t *testing.T) { test(t, func(t testing.TB) place { return newSchema(t, server) }) })
	}
}

// newSQLite lies in memory where it can: it only has to outlive its handles.
func newSQLite(t testing.TB) place {
	dir, err := os.MkdirTemp("/dev/shm", "sqlconnection")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return place{sqlstore.SQLite, "sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "connections.db"))}
}

func newSchema(t testing.TB, server string) place {
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	var n int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM pg_namespace").Scan(&n))
	name := fmt.Sprint("test", n)
	_, err = db.Exec("CREATE SCHEMA " + name)
	require.NoError(t, err)
	return place{sqlstore.PostgreSQL, "pgx", server + " search_path=" + name}
}

// db connects as a process of its own would.
func (p place) db(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(p.driver, p.dsn)
	require.NoError(t, err)
	db.SetMaxIdleConns(8)
	t.Cleanup(func() { db.Close() })
	return db
}

func (p place) open(t testing.TB) *sqlconnection.Store {
	t.Helper()
	s, err := sqlconnection.Open(t.Context(), p.db(t), p.dialect)
	require.NoError(t, err)
	return s
}

// exec changes the tables behind the store's back.
func (p place) exec(t testing.TB, statement string) {
	t.Helper()
	done, err := p.db(t).Exec(statement)
	require.NoError(t, err)
	n, err := done.RowsAffected()
	require.NoError(t, err)
	require.Positive(t, n, "it changes something")
}

func testStore(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	connectiontest.Run(t, func(t testing.TB) connection.Store { return p.open(t) })
}

func record(id, account string) connection.Record {
	return connection.Record{Connection: connection.Connection{ID: id, Owner: authz.PrincipalKey{Tenant: "acme", Issuer: "i", Subject: "alice"},
		Provider: "tickets", Account: account, State: connection.Active, Created: time.Unix(1, 0), Updated: time.Unix(1, 0)}}
}

// What was changed in the tables by other hands is noticed, and its text is not
// repeated.
func testDamaged(t *testing.T, fresh func(t testing.TB) place) {
	ctx := context.Background()
	for _, row := range []struct{ name, damage string }{
		{"a record is another's", "UPDATE drawbridge_connections SET record = (SELECT record FROM drawbridge_connections WHERE id = 'b') WHERE id = 'a'"},
		{"a record is cut", "UPDATE drawbridge_connections SET record = substr(record, 1, 20) WHERE id = 'a'"},
		{"a record has a field that there is not", `UPDATE drawbridge_connections SET record = '{"Trusted":true,' || substr(record, 2) WHERE id = 'a'`},
		{"a version was set back", "UPDATE drawbridge_connections SET version = 0 WHERE id = 'a'"},
		{"a state was changed in the column alone", "UPDATE drawbridge_connections SET state = 'refreshing' WHERE id = 'a'"},
		{"a row was moved to another tenant", "UPDATE drawbridge_connections SET tenant = 'other' WHERE id = 'a'"},
	} {
		p := fresh(t)
		s := p.open(t)
		for _, id := range []string{"a", "b"} {
			_, err := s.Create(ctx, record(id, "account-"+id))
			require.NoError(t, err, row.name)
		}
		p.exec(t, row.damage)
		_, err := s.List(ctx, &connection.Query{All: true, Limit: 10})
		require.ErrorIs(t, err, sqlconnection.ErrDamaged, row.name)
		require.NotContains(t, err.Error(), "account-", row.name)
	}
	p := fresh(t)
	s := p.open(t)
	for _, id := range []string{"a", "b"} {
		_, err := s.AddTransaction(ctx, connection.Transaction{ID: id, Owner: authz.PrincipalKey{Tenant: "acme"}})
		require.NoError(t, err)
		require.NoError(t, s.AddHold(ctx, connection.Hold{Tenant: "acme", ID: id}))
	}
	p.exec(t, "UPDATE drawbridge_connection_transactions SET transaction_json = (SELECT transaction_json FROM drawbridge_connection_transactions WHERE id = 'b') WHERE id = 'a'")
	p.exec(t, "UPDATE drawbridge_connection_holds SET hold = '{}' WHERE id = 'a'")
	_, err := s.Transaction(ctx, "acme", "a")
	require.ErrorIs(t, err, sqlconnection.ErrDamaged)
	_, err = s.Holds(ctx, "acme")
	require.ErrorIs(t, err, sqlconnection.ErrDamaged, "a hold that cannot be read holds: nobody goes on without it")
}

// What no database can hold as it is was never stored, and is not stored in
// another spelling.
func testNotText(t *testing.T, fresh func(t testing.TB) place) {
	ctx := context.Background()
	s := fresh(t).open(t)
	for _, bad := range []string{"a\x00b", "\xff"} {
		_, err := s.Create(ctx, record(bad, "x"))
		require.ErrorIs(t, err, toolresult.InvalidInput)
		_, err = s.Create(ctx, record("x", bad))
		require.ErrorIs(t, err, toolresult.InvalidInput)
		_, err = s.Get(ctx, "acme", bad)
		require.ErrorIs(t, err, toolresult.NotFound)
		_, err = s.Get(ctx, bad, "x")
		require.ErrorIs(t, err, toolresult.NotFound)
		_, err = s.CompareAndSwap(ctx, record(bad, "x"))
		require.ErrorIs(t, err, connection.ErrVersion)
		_, err = s.List(ctx, &connection.Query{Tenant: bad, Limit: 1})
		require.ErrorIs(t, err, toolresult.InvalidInput)
		_, err = s.Transaction(ctx, "acme", bad)
		require.ErrorIs(t, err, toolresult.NotFound)
		_, err = s.AddTransaction(ctx, connection.Transaction{ID: bad})
		require.ErrorIs(t, err, toolresult.InvalidInput)
		require.ErrorIs(t, s.AddHold(ctx, connection.Hold{Tenant: "acme", ID: bad}), toolresult.InvalidInput)
	}
	_, err := s.List(ctx, &connection.Query{Tenant: "acme' OR '1'='1", Limit: 1})
	require.NoError(t, err)
}

// H2-43: who is late is told so before it is told anything else, and a swap into
// a taken account changes nothing.
func testRival(t *testing.T, fresh func(t testing.TB) place) {
	ctx := context.Background()
	s := fresh(t).open(t)
	_, err := s.Create(ctx, record("a", "one"))
	require.NoError(t, err)
	b, err := s.Create(ctx, record("b", "two"))
	require.NoError(t, err)
	taken := b.Clone()
	taken.Account = "one"
	_, err = s.CompareAndSwap(ctx, taken)
	require.ErrorIs(t, err, connection.ErrAccountTaken)
	taken.Version = 9
	_, err = s.CompareAndSwap(ctx, taken)
	require.ErrorIs(t, err, connection.ErrVersion)
	now, err := s.Get(ctx, "acme", "b")
	require.NoError(t, err)
	require.Equal(t, "two", now.Account)
	require.EqualValues(t, 1, now.Version)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.CompareAndSwap(canceled, b)
	require.Error(t, err)
	_, err = s.Get(canceled, "acme", "b")
	require.Error(t, err)
}

// H2-90: what lies on the disk shows no token, also in the log that goes before
// it.
func TestFileShowsNothing_H2_90(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "c.db")))
	require.NoError(t, err)
	defer db.Close()
	s, err := sqlconnection.Open(ctx, db, sqlstore.SQLite)
	require.NoError(t, err)
	keys, err := credential.NewKeyring("k1", map[string][]byte{"k1": bytes.Repeat([]byte{7}, 32)})
	require.NoError(t, err)
	rec := record("a", "VISIBLE-account")
	rec.Access, err = keys.Seal(credential.Place{Tenant: "acme", Record: "a", Field: "access"}, []byte("CANARY-access-token"))
	require.NoError(t, err)
	_, err = s.Create(ctx, rec)
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	var all []byte
	for _, name := range found {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		all = append(all, text...)
	}
	require.NotContains(t, string(all), "CANARY")
	require.Contains(t, string(all), "VISIBLE-account", "control: the files are those of the record")
}

func TestOptions(t *testing.T) {
	_, err := sqlconnection.Open(t.Context(), nil, sqlstore.SQLite)
	require.ErrorIs(t, err, sqlconnection.ErrOptions)
	db := newSQLite(t).db(t)
	_, err = sqlconnection.Open(t.Context(), db, 0)
	require.ErrorIs(t, err, sqlconnection.ErrOptions)
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(filepath.Join(dir, "connections.db"))) // import _ "modernc.org/sqlite"
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	store, err := sqlconnection.Open(ctx, db, sqlstore.SQLite) // goes to connection.New
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = store.Get(ctx, "acme", "conn-1")
	fmt.Println(toolresult.Code(err))
	// Output: NOT_FOUND
}
