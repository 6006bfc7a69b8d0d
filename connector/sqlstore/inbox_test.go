package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
	"github.com/drawbridge-sdk/drawbridge/connector/webhook/webhooktest"
)

func testInbox_P5(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	webhooktest.Run(t, func(t testing.TB) webhook.Inbox { return p.open(t, nil).Inbox() })
}

// What a handler writes in the transaction that settles its event is there once,
// whoever was overtaken; and bodies lie sealed. P5, R10
func testInboxCommits_P5(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	inbox, other := p.open(t, nil).Inbox(), p.open(t, nil).Inbox()
	p.exec(t, "CREATE TABLE effects (id TEXT NOT NULL)")
	effects := func() (n int) {
		require.NoError(t, p.db(t).QueryRow("SELECT count(*) FROM effects").Scan(&n))
		return n
	}
	began := time.Now().UTC()
	e := webhook.Event{Place: webhook.Place{Tenant: "t", Source: "s"}, ID: "1", Received: began, Body: []byte(canary)}
	stored, err := inbox.Put(t.Context(), e)
	require.NoError(t, err)
	require.True(t, stored)
	var b []byte
	require.NoError(t, p.db(t).QueryRow("SELECT body FROM drawbridge_inbox").Scan(&b))
	require.NotContains(t, string(b), canary)

	claim := func(i *sqlstore.Inbox, at time.Time) *webhook.Event {
		list, err := i.Claim(t.Context(), at, at.Add(time.Minute), 1)
		require.NoError(t, err)
		require.Len(t, list, 1)
		return &list[0]
	}
	effect := func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (id) VALUES ('1')")
		return err
	}
	first, second := claim(inbox, began), claim(other, began.Add(time.Minute))
	require.Equal(t, canary, string(second.Body))
	require.ErrorIs(t, inbox.Commit(t.Context(), first, effect), webhook.ErrClaim)
	require.Zero(t, effects())

	broken := errors.New("broken")
	require.ErrorIs(t, other.Commit(t.Context(), second, func(ctx context.Context, tx sqlstore.Tx) error {
		require.NoError(t, effect(ctx, tx))
		return broken
	}), broken)
	require.Zero(t, effects(), "what failed is undone")
	require.ErrorContains(t, other.Commit(t.Context(), second, func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO nowhere VALUES (1)")
		return err
	}), "nowhere")

	require.NoError(t, other.Commit(t.Context(), second, effect))
	require.Equal(t, 1, effects())
	require.ErrorIs(t, other.Commit(t.Context(), second, effect), webhook.ErrClaim, "once")
	require.NoError(t, other.Settle(t.Context(), *second, webhook.Outcome{State: webhook.Done, At: began}), "as a Processor does after its handler")
	require.Equal(t, 1, effects())
}

// Writers that share a transaction fail alone, and a context that ends takes
// nobody else's with it.
func TestGroupsFailAlone_P5(t *testing.T) {
	p := newSQLite(t)
	inbox := p.open(t, nil).Inbox()
	p.exec(t, "CREATE TABLE effects (id TEXT NOT NULL)")
	at := time.Now().UTC()
	const n = 120
	for i := range n {
		_, err := inbox.Put(t.Context(), webhook.Event{Place: webhook.Place{Tenant: "t", Source: "s"}, ID: fmt.Sprint(i), Received: at})
		require.NoError(t, err)
	}
	list, err := inbox.Claim(t.Context(), at, at.Add(time.Hour), n)
	require.NoError(t, err)
	require.Len(t, list, n)
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range list {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			errs[i] = inbox.Commit(ctx, &list[i], func(ctx context.Context, tx sqlstore.Tx) error {
				if _, err := tx.ExecContext(ctx, "INSERT INTO effects (id) VALUES (?)", list[i].ID); err != nil {
					return err
				}
				switch i % 4 {
				case 1:
					return errors.New("broken")
				case 2:
					cancel()
				case 3:
					panic("handler")
				}
				return nil
			})
		})
	}
	wg.Wait()
	for i, err := range errs {
		switch i % 4 {
		case 0:
			require.NoError(t, err)
		case 1, 3:
			require.Error(t, err)
		}
		e, gerr := inbox.Event(t.Context(), "t", "s", list[i].ID)
		require.NoError(t, gerr)
		var k int
		require.NoError(t, p.db(t).QueryRow("SELECT count(*) FROM effects WHERE id = ?", list[i].ID).Scan(&k))
		require.Equal(t, e.State == webhook.Done, k == 1, "the effect and the end of the event are one")
		require.Equal(t, i%4 == 1 || i%4 == 3, e.State == webhook.Held)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = inbox.Put(ctx, webhook.Event{Place: webhook.Place{Tenant: "t", Source: "s"}, ID: "over", Received: at})
	require.ErrorIs(t, err, context.Canceled)
}

// An event that cannot be opened, because somebody moved it or a key is missing,
// is told and does not keep the others from being handled. P5, R10
func TestUnreadableEventHidesNoOther_P5(t *testing.T) {
	p := newSQLite(t)
	inbox := p.open(t, nil).Inbox()
	at := time.Now().UTC()
	for _, id := range []string{"1", "2", "3"} {
		_, err := inbox.Put(t.Context(), webhook.Event{Place: webhook.Place{Tenant: "t", Source: "s"}, ID: id, Received: at, Body: []byte(id)})
		require.NoError(t, err)
	}
	p.exec(t, "UPDATE drawbridge_inbox SET body = (SELECT body FROM drawbridge_inbox WHERE id = '1') WHERE id = '2'")
	var handled []string
	processor, err := webhook.NewProcessor(inbox, func(_ context.Context, e *webhook.Event) error {
		handled = append(handled, string(e.Body))
		return nil
	}, &webhook.ProcessorOptions{Workers: 1})
	require.NoError(t, err)
	for range 4 {
		_ = processor.Drain(t.Context())
	}
	require.ElementsMatch(t, []string{"1", "3"}, handled)
	_, err = inbox.Event(t.Context(), "t", "s", "2")
	require.Error(t, err)
}
