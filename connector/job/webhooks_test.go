package job_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/job"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
)

// P5: events are handled by the job engine, and those that come while it runs
// are, too.
func TestWebhooks_P5(t *testing.T) {
	p := newSQLite(t)
	db := p.db(t)
	s, err := sqlstore.Open(t.Context(), db, p.dialect, &sqlstore.Options{Plaintext: true})
	require.NoError(t, err)
	handled := make(chan string, 10)
	processor, err := webhook.NewProcessor(s.Inbox(), func(_ context.Context, e *webhook.Event) error {
		handled <- e.ID
		return nil
	}, nil)
	require.NoError(t, err)
	put := func(id string) {
		_, err := s.Inbox().Put(t.Context(), webhook.Event{Place: webhook.Place{Tenant: "t", Source: "s"}, ID: id, Received: time.Now()})
		require.NoError(t, err)
	}
	put("before")
	p.start(t, nil, job.Webhooks(processor))
	require.Equal(t, "before", <-handled)
	put("while it runs")
	require.Equal(t, "while it runs", <-handled)
	_, err = job.Open(t.Context(), db, p.dialect, []job.Sweep{job.Webhooks(nil)}, nil)
	require.ErrorIs(t, err, job.ErrOptions)
}
