package sqlstore_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

// A governed write is three writes to the ledger: prepared, dispatched, applied.
// By hand it would be one INSERT and two UPDATEs, each with its row of history in
// one transaction, in the fewest columns that do: that is what the store is
// compared with, in the same run.

var serial atomic.Int64

func benchRecord() operation.Record {
	r := record(fmt.Sprint("op_", serial.Add(1)))
	r.Approval = "approval of " + r.ID
	return r
}

func throughStore(ctx context.Context, s operation.Store) error {
	r, err := s.Create(ctx, benchRecord())
	if err != nil {
		return err
	}
	r.State, r.SentAt = operation.Dispatched, time.Now()
	if r, err = s.CompareAndSwap(ctx, r); err != nil {
		return err
	}
	r.State, r.Output, r.SettledAt, r.SettledBy = operation.Applied, json.RawMessage(`{"id":4821}`), time.Now(), "answer"
	_, err = s.CompareAndSwap(ctx, r)
	return err
}

var byHand = []string{
	"CREATE TABLE hand (tenant TEXT NOT NULL, id TEXT NOT NULL, rev BIGINT NOT NULL, state TEXT NOT NULL, intent TEXT NOT NULL, approval TEXT NOT NULL, digest TEXT NOT NULL, arguments TEXT, output TEXT, prepared_at BIGINT, sent_at BIGINT, settled_at BIGINT, settled_by TEXT, PRIMARY KEY (tenant, id))",
	"CREATE UNIQUE INDEX hand_approval ON hand (tenant, approval) WHERE approval <> ''",
	"CREATE UNIQUE INDEX hand_intent ON hand (tenant, intent) WHERE state IN ('dispatched', 'unknown')",
	"CREATE TABLE hand_history (tenant TEXT NOT NULL, id TEXT NOT NULL, rev BIGINT NOT NULL, at BIGINT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (tenant, id, rev))",
}

func throughHand(ctx context.Context, db *sql.DB) error {
	r := benchRecord()
	tenant := r.Binding.Requester.Tenant
	at := time.Now().UnixNano()
	for i, step := range []struct {
		text  string
		args  []any
		state string
	}{
		{"INSERT INTO hand (tenant, id, rev, state, intent, approval, digest, arguments, prepared_at) VALUES ($1, $2, 1, 'prepared', $3, $4, $5, $6, $7)",
			[]any{tenant, r.ID, r.Intent, r.Approval, r.Binding.Digest, string(r.Arguments), at}, "prepared"},
		{"UPDATE hand SET rev = 2, state = 'dispatched', sent_at = $1 WHERE tenant = $2 AND id = $3 AND rev = 1", []any{at, tenant, r.ID}, "dispatched"},
		{"UPDATE hand SET rev = 3, state = 'applied', output = $1, settled_at = $2, settled_by = 'answer' WHERE tenant = $3 AND id = $4 AND rev = 2", []any{`{"id":4821}`, at, tenant, r.ID}, "applied"},
	} {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, step.text, step.args...); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO hand_history (tenant, id, rev, at, state) VALUES ($1, $2, $3, $4, $5)", tenant, r.ID, i+1, at, step.state); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// fixture has a store and a bare database for each process, with connections of
// its own.
func fixture(b *testing.B, p place, procs int) (stores []operation.Store, dbs []*sql.DB) {
	for range procs {
		stores = append(stores, p.open(b, &sqlstore.Options{Seal: keyring(b, "a", "a")}))
		dbs = append(dbs, p.db(b))
	}
	for _, text := range byHand {
		_, err := dbs[0].Exec(text)
		require.NoError(b, err)
	}
	return stores, dbs
}

// inTurn does one write each way, again and again, so that both have the same
// disk and the same neighbours. of-hand is the store's rate as part of the other.
func inTurn(b *testing.B, p place) {
	stores, dbs := fixture(b, p, 1)
	b.Run("in-turn", func(b *testing.B) {
		var store, hand time.Duration
		for b.Loop() {
			t0 := time.Now()
			require.NoError(b, throughStore(b.Context(), stores[0]))
			t1 := time.Now()
			require.NoError(b, throughHand(b.Context(), dbs[0]))
			store, hand = store+t1.Sub(t0), hand+time.Since(t1)
		}
		b.ReportMetric(float64(b.N)/store.Seconds(), "store-writes/s")
		b.ReportMetric(float64(b.N)/hand.Seconds(), "hand-writes/s")
		b.ReportMetric(hand.Seconds()/store.Seconds(), "of-hand")
	})
}

// compare measures how each grows with processes.
func compare(b *testing.B, p place, procs int) {
	stores, dbs := fixture(b, p, procs)
	for name, write := range map[string]func(i int) error{
		"store": func(i int) error { return throughStore(b.Context(), stores[i]) },
		"hand":  func(i int) error { return throughHand(b.Context(), dbs[i]) },
	} {
		b.Run(fmt.Sprintf("%s-%d", name, procs), func(b *testing.B) {
			var left atomic.Int64
			left.Store(int64(b.N))
			errs := make([]error, procs)
			var wg sync.WaitGroup
			for i := range procs {
				wg.Go(func() {
					for left.Add(-1) >= 0 && errs[i] == nil {
						errs[i] = write(i)
					}
				})
			}
			wg.Wait()
			for _, err := range errs {
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}

func BenchmarkGovernedWriteSQLite(b *testing.B) {
	inTurn(b, newSQLite(b))
}

func BenchmarkGovernedWritePostgreSQL(b *testing.B) {
	server := peers.PostgreSQL(b)
	inTurn(b, newSchema(b, server))
	for _, procs := range []int{1, 2, 4} {
		compare(b, newSchema(b, server), procs)
	}
}
