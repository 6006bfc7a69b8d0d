package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// long says that every combination is wanted, and not a sample that has every
// fault at every step: half a minute over memory, minutes over the databases.
var long = os.Getenv("DRAWBRIDGE_LONG") != ""

// fault is what happens to a process.
type fault struct {
	kind string
	at   int // step
}

func upTo(last int) []fault {
	faults := []fault{{"none", 0}}
	for at := 1; at <= last; at++ {
		faults = append(faults, fault{"kill", at}, fault{"fail", at}, fault{"lost ack", at})
	}
	return faults
}

func arm(p *process, f fault) *process {
	switch f.kind {
	case "kill":
		p.dieAt = f.at
	case "fail":
		p.failAt = f.at
	case "lost ack":
		p.failAt, p.after = f.at, true
	}
	return p
}

// row is one run of the table.
type row struct {
	name   string
	terms  Terms
	behave string
	f1, f2 fault
	wait   time.Duration
}

// rows lists every stride-th combination of what the capability declares, what
// the provider does, what happens to a first process and what to a second.
func rows(stride int) (out []row) {
	n := 0
	for _, t := range []struct {
		name  string
		terms Terms
	}{{"look-up", plain}, {"keyed", keyed}, {"blind", blind}} {
		for _, behave := range []string{"201", "400", "503", "503 applied", "refused"} {
			for _, f1 := range upTo(11) { // a first process takes eleven steps at most
				for _, f2 := range upTo(16) { // and a second sixteen
					for _, wait := range []time.Duration{0, 2 * time.Minute} {
						if n++; n%stride == 0 {
							out = append(out, row{fmt.Sprintf("%s/%s/%v/%v/%v", t.name, behave, f1, f2, wait), t.terms, behave, f1, f2, wait})
						}
					}
				}
			}
		}
	}
	return out
}

// run kills the first process, or fails what it talks to; then does the same to
// the second; then lets healthy ones finish.
func (w *world) run(t *testing.T, r row, pass func(time.Duration)) {
	w.honours, w.behave = r.terms.Replay > 0, r.behave
	if out, err, alive := arm(w.process(), r.f1).do(want, r.terms); alive {
		w.truth(t, r.name+" first", out, err)
	}
	pass(r.wait)
	if out, err, alive := arm(w.process(), r.f2).do(want, r.terms); alive {
		w.truth(t, r.name+" second", out, err)
	}
	if r.behave == "refused" || r.behave == "503" {
		w.behave = "201" // the outage ends
	}
	var out Outcome
	var err error
	for range 3 {
		pass(5 * time.Minute)
		out, err, _ = w.process().do(want, r.terms)
		w.truth(t, r.name+" later", out, err)
	}
	if s := out.Record.State; !s.Settled() && !r.terms.Blind {
		t.Fatalf("%s: ends as %s, %v", r.name, s, err)
	}
	before := w.effects
	if _, err, _ := w.process().do(intent("k1", "d2", "i1", "a1"), r.terms); !errors.Is(err, toolresult.Conflict) {
		t.Fatalf("%s: another payload: %v", r.name, err)
	}
	if _, err, _ := w.process().do(intent("k2", "d1", "i2", "a1"), r.terms); !errors.Is(err, toolresult.ApprovalInvalid) {
		t.Fatalf("%s: an approval twice: %v", r.name, err)
	}
	if w.effects != before {
		t.Fatalf("%s: a refused call had an effect", r.name)
	}
}

// A sample is of use only if everything that can happen is in it.
func TestSampleHasEveryFault(t *testing.T) {
	for stride, all := range map[int]bool{29: true, 809: false} {
		first, second, kinds := map[fault]bool{}, map[fault]bool{}, map[string]bool{}
		for _, r := range rows(stride) {
			first[r.f1], second[r.f2], kinds[r.f1.kind+" then "+r.f2.kind+" "+r.behave] = true, true, true
		}
		require.Len(t, first, 34, "every fault of a first process")
		require.Len(t, second, 49, "every fault of a second")
		if all {
			require.GreaterOrEqual(t, len(kinds), 9*5, "every pair of faults with every answer")
		}
	}
}

func TestEveryFailurePoint_W2_W3_W4(t *testing.T) {
	stride := 29
	if long {
		stride = 1
	}
	synctest.Test(t, func(t *testing.T) {
		for _, r := range rows(stride) {
			newWorld(r.behave).run(t, r, time.Sleep)
		}
	})
}

// The same over the databases, where each process has a handle of its own.
func TestEveryFailurePointOnDisk_W4(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		onDisk(t, sqlstore.SQLite, "sqlite", sqlstore.SQLiteDSN(filepath.Join(inMemory(t), "operations.db")))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		onDisk(t, sqlstore.PostgreSQL, "pgx", peers.PostgreSQL(t))
	})
}

// inMemory returns a directory for files that are flushed thousands of times and
// only have to outlive what is called a process here.
func inMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "ledger")
	if err != nil { // no such file system
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func onDisk(t *testing.T, dialect sqlstore.Dialect, driver, dsn string) {
	stride := 809
	if long {
		stride = 7
	}
	open := func() (*sql.DB, operation.Store) {
		db, err := sql.Open(driver, dsn)
		require.NoError(t, err)
		t.Cleanup(func() { db.Close() })
		s, err := sqlstore.Open(t.Context(), db, dialect, &sqlstore.Options{Plaintext: true})
		require.NoError(t, err)
		return db, s
	}
	db, one := open()
	_, two := open()
	for i, r := range rows(stride) {
		w := newWorld(r.behave)
		w.store, w.others, w.tenant = one, []operation.Store{one, two}, fmt.Sprint("tenant", i)
		w.run(t, r, func(d time.Duration) { w.age(t, db, d) })
	}
}

// age lets time pass for a world on disk: everything in it was written earlier.
func (w *world) age(t *testing.T, db *sql.DB, d time.Duration) {
	t.Helper()
	set := ""
	for i, column := range []string{"prepared_at", "first_sent", "sent_at", "held_until", "approval_ends"} {
		if i > 0 {
			set += ", "
		}
		set += fmt.Sprintf("%[1]s = CASE WHEN %[1]s < 0 THEN %[1]s ELSE %[1]s - %[2]d END", column, d.Nanoseconds()) // below zero is no time
	}
	_, err := db.Exec("UPDATE drawbridge_operations SET "+set+" WHERE tenant = $1", w.tenant)
	require.NoError(t, err)
}
