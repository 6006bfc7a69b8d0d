package connection_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func revokeFault(f authserver.Fault) authserver.Fault {
	f.Endpoint = "revoke"
	return f
}

// H2-95 H2-96 C8: local, remote and content are stated apart. What the provider
// does not confirm is not called revoked.
func TestDisconnectSteps_H2_95_H2_96_C8(t *testing.T) {
	type D = connection.Disconnection
	const done, failed, none = connection.StepDone, connection.StepFailed, connection.StepUnsupported
	for _, row := range []struct {
		why   string
		fault *authserver.Fault
		edit  func(*connection.Provider)
		hook  error
		want  D
		state connection.State
	}{
		{"all is well", nil, nil, nil, D{done, done, done}, connection.Disconnected},
		{"the provider is down", &authserver.Fault{Before: true, Status: 503}, nil, nil, D{done, failed, done}, connection.Disconnecting},
		{"its answer is lost", &authserver.Fault{Drop: true}, nil, nil, D{done, failed, done}, connection.Disconnecting},
		{"it refuses", &authserver.Fault{Before: true, Status: 401, Body: `{"error":"invalid_client"}`}, nil, nil, D{done, failed, done}, connection.Disconnecting},
		{"it redirects", &authserver.Fault{Before: true, Status: 307, Header: map[string]string{"Location": "http://attacker.test/"}}, nil, nil, D{done, failed, done}, connection.Disconnecting},
		{"it has no endpoint", nil, func(p *connection.Provider) { p.Revocation.BaseURL = "" }, nil, D{done, none, done}, connection.Disconnected},
		{"clean-up fails", nil, nil, errors.New("cache is down"), D{done, done, failed}, connection.Disconnecting},
	} {
		t.Run(row.why, func(t *testing.T) {
			hook := row.hook
			cleaned := 0
			bubble(t, setup{provider: row.edit, opts: func(o *connection.Options) {
				o.Cleanup = append(o.Cleanup, func(_ context.Context, c connection.Connection) error {
					cleaned++
					require.Equal(t, connection.Disconnecting, c.State, "never while calls are possible")
					return hook
				})
			}}, func(t *testing.T, w *world) {
				c := w.connect("read")
				if row.fault != nil {
					w.as.Fail(revokeFault(*row.fault))
				}
				got, err := w.m.Disconnect(t.Context(), w.alice, c.ID)
				require.NoError(t, err)
				require.Equal(t, row.want, got.Disconnection)
				require.Equal(t, row.state, got.State)
				require.Equal(t, connection.ReasonUser, got.Reason)
				_, err = w.resolve(w.m)
				require.ErrorIs(t, err, toolresult.ConnectionRequired, "H2-97: refused at once")

				hook = nil
				n, err := w.m.Resume(t.Context(), 10)
				require.NoError(t, err)
				require.Zero(t, n, "not before its time")
				elapse(time.Minute)
				_, err = w.manager().Resume(t.Context(), 10)
				require.NoError(t, err)
				r := w.record(c.ID)
				require.Equal(t, connection.Disconnected, r.State)
				require.Empty(t, r.Access)
				require.Empty(t, r.Refresh)
				require.Positive(t, cleaned)
				if row.edit == nil {
					a, f := w.as.Live("ann")
					require.Zero(t, a+f)
				}
			})
		})
	}
}

// H2-95 H2-98: the refresh token first, and never the access token alone.
func TestRefreshTokenFirst_H2_95_H2_98(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		w.as.Fail(revokeFault(authserver.Fault{Before: true, Status: 503}))
		_, err := w.m.Disconnect(t.Context(), w.alice, c.ID)
		require.NoError(t, err)
		require.Equal(t, 1, w.as.Count("revoke"), "the access token is not tried when the refresh token failed")
		a, f := w.as.Live("ann")
		require.Equal(t, [2]int{1, 1}, [2]int{a, f})
	})
}

// H2-96: a token that the server does not know is revoked; an access token of
// which it keeps no record is no failure.
func TestRevocationAnswers_H2_96(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		w.as.End("ann")
		got, err := w.m.Disconnect(t.Context(), w.alice, c.ID)
		require.NoError(t, err)
		require.Equal(t, connection.StepDone, got.Disconnection.Remote)
	})
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		w.as.Fail(revokeFault(authserver.Fault{})) // the refresh token is taken
		w.as.Fail(revokeFault(authserver.Fault{Before: true, Status: 400, Body: `{"error":"unsupported_token_type"}`}))
		got, err := w.m.Disconnect(t.Context(), w.alice, c.ID)
		require.NoError(t, err)
		require.Equal(t, connection.StepDone, got.Disconnection.Remote)
	})
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		w.as.Fail(revokeFault(authserver.Fault{Before: true, Status: 503, Header: map[string]string{"Retry-After": "600"}}))
		_, err := w.m.Disconnect(t.Context(), w.alice, c.ID)
		require.NoError(t, err)
		elapse(5 * time.Minute)
		_, err = w.m.Resume(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 1, w.as.Count("revoke"), "not before the provider said")
		elapse(6 * time.Minute)
		n, err := w.m.Resume(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

// H2-97 C8: a refresh that is under way when its connection is disconnected
// brings nothing back, and what it got is revoked.
func TestNoResurrection_H2_97(t *testing.T) {
	for _, revocable := range []bool{true, false} {
		bubble(t, setup{}, func(t *testing.T, w *world) {
			c := w.connect("read")
			spent := w.record(c.ID).Refresh
			elapse(2 * time.Hour)
			w.as.Fail(refreshFault(authserver.Fault{Delay: 5 * time.Second}))
			if !revocable {
				w.as.Fail(revokeFault(authserver.Fault{Before: true, Status: 503, Times: 1}))
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := w.use(w.m)
				require.ErrorIs(t, err, toolresult.ConnectionRequired)
			})
			elapse(time.Second)
			got, err := w.m.Disconnect(t.Context(), w.alice, c.ID)
			require.NoError(t, err)
			require.Equal(t, connection.StepDone, got.Disconnection.Local)
			require.NotEqual(t, connection.StepDone, got.Disconnection.Remote, "what is under way has to be revoked too")
			wg.Wait()
			require.Equal(t, connection.Disconnecting, w.record(c.ID).State)
			require.Equal(t, revocable, bytes.Equal(spent, w.record(c.ID).Refresh), "what could not be revoked is kept, only to be revoked")
			elapse(time.Minute)
			_, err = w.m.Resume(t.Context(), 10)
			require.NoError(t, err)
			require.Equal(t, connection.Disconnected, w.record(c.ID).State)
			a, f := w.as.Live("ann")
			require.Zero(t, a+f, "nothing is good at the provider")
		})
	}
}

// H2-99: an administrator ends all connections of a user, and no others.
func TestDisconnectFor_H2_99(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		w.connect("read")
		w.connectAs(authserver.User{ID: "ann2"}, "read")
		alice := w.alice
		w.alice = authztest.Caller(t, w.host, "acme", "bob")
		bobs := w.connectAs(authserver.User{ID: "bob"}, "read")
		w.alice = alice
		list, err := w.m.DisconnectFor(t.Context(), alice.Key(), "")
		require.NoError(t, err)
		require.Len(t, list, 2)
		for _, c := range list {
			require.Equal(t, connection.Disconnected, c.State)
			require.Equal(t, connection.ReasonAdmin, c.Reason)
		}
		require.Equal(t, connection.Active, w.record(bobs.ID).State)
		_, err = w.m.DisconnectFor(t.Context(), alice.Key(), bobs.ID)
		require.ErrorIs(t, err, toolresult.ConnectionRequired, "not alice's")
		_, err = w.m.DisconnectFor(t.Context(), authz.PrincipalKey{}, "")
		require.ErrorIs(t, err, toolresult.InvalidInput)
	})
}

// Disconnecting twice is the same as once, also by many at once.
func TestDisconnectTwice_C8(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		ms := []*connection.Manager{w.m, w.manager(), w.manager()}
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				got, err := ms[i%3].Disconnect(context.Background(), w.alice, c.ID)
				require.NoError(t, err)
				require.Equal(t, connection.StepDone, got.Disconnection.Local)
			})
		}
		wg.Wait()
		require.Equal(t, connection.Disconnected, w.record(c.ID).State)
		require.Equal(t, 2, w.as.Count("revoke"), "one refresh token, one access token")
		require.EqualValues(t, 2, w.record(c.ID).Generation)
	})
}

// What was set up at the provider is taken down while there is a credential, and
// revocation does not wait for it.
func TestFarewell_C8(t *testing.T) {
	var paths []string
	bubble(t, setup{
		api: func(rw http.ResponseWriter, r *http.Request) {
			paths = append(paths, r.Method+" "+r.URL.Path)
			rw.WriteHeader(http.StatusInternalServerError)
		},
		provider: func(p *connection.Provider) {
			p.Farewell = func(ctx context.Context, c *http.Client, base string) error {
				req, err := http.NewRequestWithContext(ctx, http.MethodDelete, base+"/hooks/1", nil)
				if err != nil {
					return err
				}
				resp, err := c.Do(req)
				if err != nil {
					return err
				}
				resp.Body.Close()
				return errors.New("the hook is still there")
			}
		},
	}, func(t *testing.T, w *world) {
		c := w.connect("read")
		got, err := w.m.Disconnect(t.Context(), w.alice, c.ID)
		require.NoError(t, err)
		require.Equal(t, []string{"DELETE /hooks/1"}, paths)
		require.Equal(t, connection.Disconnected, got.State)
	})
}

// S4: a suspected leak stops the run, the capability and the connection in every
// process at once, and the account cannot be connected again before its
// revocation is confirmed.
func TestContain_S4(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		other := w.manager()
		running, err := w.resolve(other, "read")
		require.NoError(t, err)
		w.as.Fail(revokeFault(authserver.Fault{Before: true, Status: 503}))
		h, err := w.m.Contain(t.Context(), connection.Incident{Tenant: "acme", Run: "r1", Capability: "tickets.get", Connection: c.ID, Note: "a key in a log"})
		require.NoError(t, err)

		_, err = w.apply(other, running.Handle)
		require.ErrorIs(t, err, toolresult.PermissionDenied, "the call that runs")
		require.ErrorIs(t, other.Check(t.Context(), running.Handle), toolresult.PermissionDenied)
		_, err = w.resolve(other, "read")
		require.ErrorIs(t, err, toolresult.PermissionDenied, "the run")
		req := w.ask("read")
		req.Run = "r2"
		_, err = w.m.Resolve(t.Context(), req)
		require.ErrorIs(t, err, toolresult.PermissionDenied, "the capability, in any run")
		req.Capability = "tickets.search"
		_, err = w.m.Resolve(t.Context(), req)
		require.ErrorIs(t, err, toolresult.ConnectionRequired, "the account")
		require.Nil(t, toolresult.AsError(err).Connect, "which cannot be connected again yet")
		_, err = w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets"})
		require.ErrorIs(t, err, toolresult.PermissionDenied)
		require.ErrorIs(t, w.m.Release(t.Context(), "acme", h.ID, ""), toolresult.Conflict)

		elapse(time.Hour)
		n, err := w.m.Resume(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		_, err = w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets"})
		require.NoError(t, err, "confirmed: the account can come back")
		_, err = w.resolve(w.m, "read")
		require.ErrorIs(t, err, toolresult.PermissionDenied, "run and capability wait for the operator")
		require.NoError(t, w.m.Release(t.Context(), "acme", h.ID, ""))
		w.connect("read")
		_, err = w.resolve(w.m, "read")
		require.NoError(t, err)
		_, err = w.m.Contain(t.Context(), connection.Incident{Tenant: "acme"})
		require.ErrorIs(t, err, toolresult.InvalidInput)
		_, err = w.m.Contain(t.Context(), connection.Incident{Run: "r1"})
		require.ErrorIs(t, err, toolresult.InvalidInput)
	})
}

// S4: a provider that revokes nothing: only a person can say that it is done.
func TestContainWithoutRevocation_S4(t *testing.T) {
	bubble(t, setup{provider: func(p *connection.Provider) { p.Revocation.BaseURL = "" }}, func(t *testing.T, w *world) {
		c := w.connect("read")
		h, err := w.m.Contain(t.Context(), connection.Incident{Tenant: "acme", Connection: c.ID})
		require.NoError(t, err)
		require.Equal(t, connection.StepUnsupported, w.record(c.ID).Disconnection.Remote)
		_, err = w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets"})
		require.ErrorIs(t, err, toolresult.PermissionDenied)
		require.ErrorIs(t, w.m.Release(t.Context(), "acme", h.ID, ""), toolresult.Conflict)
		require.NoError(t, w.m.Release(t.Context(), "acme", h.ID, "carol"))
		_, err = w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets"})
		require.NoError(t, err)
	})
}
