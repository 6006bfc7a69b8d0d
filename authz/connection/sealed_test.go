package connection_test

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// H2-90 C2: nothing that is stored or logged holds a token, a verifier, a code or
// the client's secret.
func TestNothingInTheClear_H2_90_H2_93_C2(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		d := w.depart(connection.BeginRequest{Scopes: []string{"read"}})
		q := w.consent(d, ann, nil)
		out, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
		require.NoError(t, err)
		first, err := w.use(w.m)
		require.NoError(t, err)
		echo := authserver.Fault{Endpoint: "token", Before: true, Status: 400, Body: `{"error":"%s","error_description":"%s","error_uri":"%s"}`}
		elapse(2 * time.Hour)
		w.as.Fail(echo)
		_, err = w.use(w.m)
		require.Error(t, err)
		text, jsonErr := json.Marshal(w.record(out.Connection.ID))
		require.NoError(t, jsonErr)
		tx, err2 := w.store.Transaction(t.Context(), "acme", q.Get("state")[:26])
		require.NoError(t, err2)
		require.Empty(t, tx.Verifier, "gone when it was used")
		stored, jsonErr := json.Marshal(tx)
		require.NoError(t, jsonErr)
		all := append(append(text, stored...), w.logs.Bytes()...)
		for _, secret := range []string{first, q.Get("code"), q.Get("state"), d.Browser, clientSecret, "access-", "refresh-"} {
			require.False(t, bytes.Contains(all, []byte(secret)), "%.8s...", secret)
			require.NotContains(t, err.Error(), secret)
		}
	})
}

// H2-91 C2: what is sealed opens in its own place only; an unknown key stops the
// call and costs nothing.
func TestSealedTokens_H2_91_C2(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		other := w.connectAs(authserver.User{ID: "ann2"}, "read")
		good := w.record(c.ID)
		for why, edit := range map[string]func(*connection.Record){
			"another connection's token": func(r *connection.Record) { r.Access = w.record(other.ID).Access },
			"another field's token":      func(r *connection.Record) { r.Access = r.Refresh },
			"a token in the clear":       func(r *connection.Record) { r.Access = []byte("access-in-the-clear") },
			"a byte that was changed":    func(r *connection.Record) { r.Access[len(r.Access)-1] ^= 1 },
		} {
			r := w.record(c.ID)
			edit(&r)
			_, err := w.store.CompareAndSwap(t.Context(), r)
			require.NoError(t, err)
			req := w.ask("read")
			req.Connection = c.ID
			_, err = w.m.Resolve(t.Context(), req)
			require.ErrorIs(t, err, toolresult.Internal, why)
			r = w.record(c.ID)
			require.Equal(t, connection.Active, r.State, why)
			r.Access = good.Access
			_, err = w.store.CompareAndSwap(t.Context(), r)
			require.NoError(t, err)
		}
		req := w.ask("read")
		req.Connection = c.ID
		_, err := w.m.Resolve(t.Context(), req)
		require.NoError(t, err)

		keys := w.keys
		w.keys = ring(t, "k2")
		blind := w.manager()
		_, err = blind.Resolve(t.Context(), req)
		require.ErrorIs(t, err, toolresult.Internal)
		require.ErrorContains(t, err, "key that this process does not have")
		elapse(2 * time.Hour)
		_, err = blind.Resolve(t.Context(), req)
		require.ErrorIs(t, err, toolresult.Internal)
		require.Zero(t, w.as.Count("token refresh_token"), "nothing is sent with what cannot be read")
		got, err := blind.Disconnect(t.Context(), w.alice, other.ID)
		require.NoError(t, err)
		require.Equal(t, connection.StepFailed, got.Disconnection.Remote, "not called revoked")
		w.keys = keys
		_, err = w.m.Resolve(t.Context(), req)
		require.NoError(t, err, "the connection is as good as before")
	})
}

// H2-92: what is written is under the new key, the old one reads until everything
// is sealed again, and that clobbers no refresh.
func TestRewrap_H2_92(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		w.connectAs(authserver.User{ID: "ann2"}, "read")
		w.keys = ring(t, "k2", "k1")
		m := w.manager()
		elapse(2 * time.Hour)
		w.as.Fail(refreshFault(authserver.Fault{Delay: 3 * time.Second}))
		var wg sync.WaitGroup
		req := w.ask("read")
		req.Connection = c.ID
		wg.Go(func() {
			_, err := m.Resolve(t.Context(), req)
			require.NoError(t, err)
		})
		elapse(time.Second)
		changed, skipped, err := m.Rewrap(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, changed)
		require.Zero(t, skipped)
		wg.Wait()
		r := w.record(c.ID)
		require.EqualValues(t, 2, r.Tokens, "the refresh was stored on top")
		require.False(t, w.keys.Stale(r.Access) || w.keys.Stale(r.Refresh))
		w.keys = ring(t, "k2")
		last := w.manager()
		_, err = last.Resolve(t.Context(), req)
		require.NoError(t, err, "the old key is not needed any more")
		changed, skipped, err = last.Rewrap(t.Context())
		require.NoError(t, err)
		require.Zero(t, changed+skipped)
	})
}
