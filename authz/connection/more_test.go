package connection_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// H2-13: a browser that goes away does not tear up the exchange.
func TestBrowserGoesAway_H2_13(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		d := w.depart(connection.BeginRequest{Scopes: []string{"read"}})
		q := w.consent(d, ann, nil)
		w.as.Fail(authserver.Fault{Endpoint: "token", Delay: 2 * time.Second})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := w.m.Callback(ctx, w.alice, d.Browser, q)
		require.NoError(t, err)
		_, err = w.use(w.m)
		require.NoError(t, err)
	})
}

// H2-99: a link is over when the connection that it is about was consented to
// anew.
func TestLinkOfAnotherGeneration_H2_99(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		link, err := w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets", Connection: c.ID, Scopes: []string{"write"}})
		require.NoError(t, err)
		w.connect("read")
		_, err = w.m.Open(t.Context(), w.alice, link.ID)
		require.ErrorIs(t, err, toolresult.NotFound)
	})
}

// A store that is down stops everything with a code, and nothing is sent.
func TestStoreDown_C3(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		w.connect("read")
		r, err := w.resolve(w.m)
		require.NoError(t, err)
		w.store.Store = downStore{w.store.Store}
		_, err = w.resolve(w.m)
		require.ErrorIs(t, err, toolresult.ProviderUnavailable)
		_, err = w.apply(w.m, r.Handle)
		require.ErrorIs(t, err, toolresult.ProviderUnavailable)
		require.ErrorIs(t, w.m.Check(t.Context(), r.Handle), toolresult.ProviderUnavailable)
		_, err = w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets"})
		require.ErrorIs(t, err, toolresult.ProviderUnavailable)
		require.NotContains(t, err.Error(), "dsn")
	})
}

type downStore struct{ connection.Store }

var errDSN = errors.New("dsn=postgres://user:CANARY@db")

func (downStore) Get(context.Context, string, string) (connection.Record, error) {
	return connection.Record{}, errDSN
}
func (downStore) List(context.Context, *connection.Query) ([]connection.Record, error) {
	return nil, errDSN
}
func (downStore) Holds(context.Context, string) ([]connection.Hold, error) { return nil, errDSN }
func (downStore) AddTransaction(context.Context, connection.Transaction) (connection.Transaction, error) {
	return connection.Transaction{}, errDSN
}

// C8: what is over is not listed, and is removed in the end.
func TestSweep_C8(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		list, err := w.m.Connections(t.Context(), w.alice)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, c.ID, list[0].ID)
		_, err = w.m.Connections(t.Context(), authz.Principal{})
		require.ErrorIs(t, err, toolresult.AuthenticationRequired)
		_, err = w.m.Disconnect(t.Context(), w.alice, c.ID)
		require.NoError(t, err)
		list, err = w.m.Connections(t.Context(), w.alice)
		require.NoError(t, err)
		require.Empty(t, list)
		elapse(48 * time.Hour)
		n, err := w.m.Sweep(t.Context(), 72*time.Hour)
		require.NoError(t, err)
		require.Equal(t, 1, n, "the transaction")
		elapse(48 * time.Hour)
		n, err = w.m.Sweep(t.Context(), 72*time.Hour)
		require.NoError(t, err)
		require.Equal(t, 1, n, "the connection")
	})
}

// An operator's account and the caller's own both fit: nobody guesses.
func TestInstalledAndOwn_C5(t *testing.T) {
	bubble(t, setup{provider: clientCredentials}, func(t *testing.T, w *world) {
		install(t, w, connection.InstallRequest{Account: "robot"})
		mine := install(t, w, connection.InstallRequest{Account: "mine", Owner: w.alice.Key()})
		_, err := w.resolve(w.m)
		require.ErrorIs(t, err, toolresult.Conflict)
		require.Zero(t, w.as.Count("token"))
		req := w.ask()
		req.Connection = mine.ID
		_, err = w.m.Resolve(t.Context(), req)
		require.NoError(t, err)
		w.alice = authztest.Caller(t, w.host, "acme", "bob")
		_, err = w.m.Resolve(t.Context(), w.ask())
		require.NoError(t, err)
		req.Principal = w.alice
		_, err = w.m.Resolve(t.Context(), req)
		require.ErrorIs(t, err, toolresult.ConnectionRequired, "alice's is not bob's")
	})
}
