package job_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/job"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
)

// What is over is removed though nobody stores or reads any more.
func TestExpire_R8(t *testing.T) {
	p := newSQLite(t)
	db := p.db(t)
	s, err := sqlstore.Open(t.Context(), db, p.dialect, &sqlstore.Options{Plaintext: true})
	require.NoError(t, err)
	for _, life := range []time.Duration{time.Hour, time.Second} { // the short one last: Put sweeps, too
		m := &artifact.Meta{Ref: artifact.Ref{Run: "run", Name: "name"}, Tenant: "acme", Scope: authz.WholeConnection(), Expires: time.Now().Add(life)}
		require.NoError(t, s.Artifacts().Put(t.Context(), m, strings.NewReader("text"), 100))
	}
	sweep := job.Expire(s.Artifacts())
	sweep.Every = time.Second // not to wait an hour
	p.start(t, nil, sweep)
	for _, table := range []string{"drawbridge_artifacts", "drawbridge_artifact_chunks"} {
		require.Eventually(t, func() bool {
			var n int
			return db.QueryRowContext(context.Background(), "SELECT count(*) FROM "+table).Scan(&n) == nil && n == 1
		}, 2*time.Minute, 20*time.Millisecond, table)
	}

	_, err = job.Open(t.Context(), db, p.dialect, []job.Sweep{job.Expire(nil)}, nil)
	require.ErrorIs(t, err, job.ErrOptions)
}
