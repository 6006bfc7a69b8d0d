package job_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/ingest"
	"github.com/drawbridge-sdk/drawbridge/connector/job"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// one is a source with one page and no changes.
type one struct{}

func (one) Changes(context.Context, toolresult.Interval, string) (ingest.Page, error) {
	return ingest.Page{}, nil
}

func (one) All(context.Context, string) (ingest.Page, error) {
	return ingest.Page{Items: []ingest.Item{{Object: authz.ResourceID{Type: "page", ID: "1"}, Version: 1, Text: "x", Access: &ingest.Access{Readers: []string{"r"}}}}}, nil
}

// P6: a feed is kept up to date by the job engine; both sweeps begin at once, and
// one of them may find itself overtaken.
func TestIngest_P6(t *testing.T) {
	p := newSQLite(t)
	db := p.db(t)
	s, err := sqlstore.Open(t.Context(), db, p.dialect, &sqlstore.Options{Plaintext: true})
	require.NoError(t, err)
	feed := ingest.Feed{Tenant: "t", Connection: "c", Name: "wiki"}
	syncer, err := ingest.New(s.Index(), feed, one{}, nil)
	require.NoError(t, err)
	p.start(t, nil, job.Ingest("wiki", time.Second, syncer)...)
	require.Eventually(t, func() bool {
		list, err := s.Index().Find(context.Background(), &ingest.Query{Feed: feed, Readers: []string{"r"}, Limit: 1})
		return err == nil && len(list) == 1
	}, 2*time.Minute, 20*time.Millisecond)
	_, err = job.Open(t.Context(), db, p.dialect, job.Ingest("wiki", time.Second, nil), nil)
	require.ErrorIs(t, err, job.ErrOptions)
}
