package sqlstore_test

import (
	"bytes"
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

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact/artifacttest"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/operation/operationtest"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
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
	"Inbox_P5":                  testInbox_P5,
	"Index_P6":                  testIndex_P6,
	"Generations_P4":            testGenerations_P4,
	"InboxCommits_P5":           testInboxCommits_P5,
	"Approvals_W1":              testApprovals_W1,
	"ApprovalIsUsedOnce_W1":     testApprovalIsUsedOnce_W1,
	"Sealed_R10":                testSealed_R10,
	"KeysRotate_C2":             testKeysRotate_C2,
	"History_W2":                testHistory_W2,
	"Chunks_R8":                 testChunks_R8,
	"Schema":                    testSchema,
	"ServerThatDoesNotFlush":    testServerThatDoesNotFlush,
	"WaitingEndsWithTheContext": testWaitingEndsWithTheContext,
	"Operations_W2_W3_W4":       testOperations_W2_W3_W4,
	"Artifacts_R8":              testArtifacts_R8,
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

func newSQLite(t testing.TB) place {
	return place{sqlstore.SQLite, "sqlite", sqlstore.SQLiteDSN(filepath.Join(inMemory(t), "a file #1?.db"))}
}

// inMemory returns a directory for a file that is flushed thousands of times
// and only has to outlive its handles. Benchmarks want the disk.
func inMemory(t testing.TB) string {
	if _, bench := t.(*testing.B); bench {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "sqlstore")
	if err != nil { // no such file system
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
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
	db.SetMaxIdleConns(8) // as many as rivals in a race
	t.Cleanup(func() { db.Close() })
	return db
}

func (p place) open(t testing.TB, opts *sqlstore.Options) *sqlstore.Store {
	t.Helper()
	if opts == nil {
		opts = &sqlstore.Options{Seal: keyring(t, "a", "a")}
	}
	s, err := sqlstore.Open(t.Context(), p.db(t), p.dialect, opts)
	require.NoError(t, err)
	return s
}

// exec changes the tables behind the store's back.
func (p place) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	_, err := p.db(t).Exec(statement, args...)
	require.NoError(t, err)
}

// keyring has a key for each id.
func keyring(t testing.TB, current string, ids ...string) *credential.Keyring {
	t.Helper()
	keys := map[string][]byte{}
	for _, id := range ids {
		keys[id] = bytes.Repeat([]byte(id), 32)
	}
	k, err := credential.NewKeyring(current, keys)
	require.NoError(t, err)
	return k
}

func testOperations_W2_W3_W4(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	operationtest.Run(t, func(t testing.TB) operation.Store { return p.open(t, nil) }, &operationtest.Options{
		Corrupt: func(t testing.TB, tenant, id, word string) {
			p.exec(t, "UPDATE drawbridge_operations SET state = $1 WHERE tenant = $2 AND id = $3", word, tenant, id)
		},
	})
}

func testArtifacts_R8(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	artifacttest.Run(t, p.open(t, nil).Artifacts(), &artifacttest.Options{Pass: func(d time.Duration) {
		// an hour passes when everything was stored an hour earlier
		p.exec(t, "UPDATE drawbridge_artifacts SET expires = expires - $1", int64(d))
	}})
}
