package connection_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// connectAs connects another account of the provider.
func (w *world) connectAs(u authserver.User, scopes ...string) connection.Connection {
	w.t.Helper()
	d := w.depart(connection.BeginRequest{Scopes: scopes})
	out, err := w.m.Callback(w.t.Context(), w.alice, d.Browser, w.consent(d, u, nil))
	require.NoError(w.t, err)
	return out.Connection
}

// C5: several accounts and none chosen is an error of its own, with nothing sent
// to anybody.
func TestSeveralAccounts_C5(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		a := w.connect("read")
		b := w.connectAs(authserver.User{ID: "ann2", Org: "org-1"}, "read")
		elapse(2 * time.Hour)
		token, api := w.as.Count("token"), len(w.api)
		_, err := w.resolve(w.m, "read")
		require.ErrorIs(t, err, toolresult.Conflict)
		require.ErrorContains(t, err, "choose one")
		require.Equal(t, token, w.as.Count("token"))
		require.Len(t, w.api, api)
		for _, c := range []connection.Connection{a, b} {
			req := w.ask("read")
			req.Connection = c.ID
			r, err := w.m.Resolve(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, c.Account, r.Account)
		}
		w.as.End("ann2")
		req := w.ask("read")
		elapse(2 * time.Hour)
		req.Connection = b.ID
		_, err = w.m.Resolve(t.Context(), req)
		require.ErrorIs(t, err, toolresult.ConnectionRequired)
		r, err := w.resolve(w.m, "read")
		require.NoError(t, err, "one of the two is left")
		require.Equal(t, a.ID, r.Connection)
	})
}

// H2-73 C1: an account of somebody else, and one that does not exist, are one
// answer.
func TestSomebodyElsesAccount_H2_73(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		answer := func(p authz.Principal, id string) string {
			req := w.ask("read")
			req.Principal, req.Connection = p, id
			_, err := w.m.Resolve(t.Context(), req)
			require.ErrorIs(t, err, toolresult.ConnectionRequired)
			_, err2 := w.m.Disconnect(t.Context(), p, id)
			require.ErrorIs(t, err2, toolresult.ConnectionRequired)
			_, err3 := w.m.Begin(t.Context(), p, &connection.BeginRequest{Provider: "tickets", Connection: id})
			require.ErrorIs(t, err3, toolresult.ConnectionRequired)
			return err.Error() + err2.Error() + err3.Error()
		}
		bob := authztest.Caller(t, w.host, "acme", "bob")
		want := answer(bob, "conn-nobody")
		require.Equal(t, want, answer(bob, c.ID))
		require.Equal(t, want, answer(authztest.Caller(t, w.host, "globex", "alice"), c.ID))
		require.Equal(t, connection.Active, w.record(c.ID).State)
	})
}

// H2-71 (cases O-15, P-11): the credential goes to the exact origin and to no
// other, whatever the request says.
func TestOtherOrigins_H2_71_O_15(t *testing.T) {
	bubble(t, setup{provider: func(p *connection.Provider) { p.Origins = []string{"https://uploads.example.com"} }}, func(t *testing.T, w *world) {
		w.connect("read")
		r, err := w.resolve(w.m)
		require.NoError(t, err)
		for _, row := range []struct {
			origin, url, host string
			good              bool
		}{
			{origin, "http://provider.test/x", "", true},
			{"https://uploads.example.com:443", "https://uploads.example.com/x", "", true},
			{"https://provider.test:443", "https://provider.test/x", "", false},
			{origin, "http://other.test/x", "", false},
			{"http://other.test:80", "http://other.test/x", "", false},
			{origin, "http://provider.test:8080/x", "", false},
			{origin, "http://provider.test/x", "other.test", false},
			{origin, "http://provider.test.attacker.test/x", "", false},
			{origin, "http://provider.test@attacker.test/x", "", false},
			{"", "http://provider.test/x", "", false},
		} {
			req, err := http.NewRequest(http.MethodGet, row.url, nil)
			require.NoError(t, err)
			if row.host != "" {
				req.Host = row.host
			}
			err = w.m.Apply(t.Context(), r.Handle, row.origin, req)
			if row.good {
				require.NoError(t, err, row.url)
				continue
			}
			require.ErrorIs(t, err, toolresult.EgressDenied, row.url)
			require.Empty(t, req.Header)
		}
	})
}

// C2: a handle ends with its call, with its caller's identity, and is no other's.
func TestHandleEnds_C2(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		w.connect("read")
		ctx, cancel := context.WithCancel(context.Background())
		r, err := w.m.Resolve(ctx, w.ask())
		require.NoError(t, err)
		require.NoError(t, w.m.Check(context.Background(), r.Handle))
		cancel()
		require.ErrorIs(t, w.m.Check(context.Background(), r.Handle), toolresult.ConnectionRequired)
		_, err = w.apply(w.m, r.Handle)
		require.ErrorIs(t, err, toolresult.ConnectionRequired)

		end := time.Now().Add(time.Minute)
		w.alice, err = w.host.Principal(authz.Identity{Tenant: "acme", Issuer: authztest.Issuer, Subject: "alice", Expires: end})
		require.NoError(t, err)
		r, err = w.resolve(w.m)
		require.NoError(t, err)
		require.Equal(t, end, r.Expires)
		elapse(time.Minute)
		require.Error(t, w.m.Check(context.Background(), r.Handle))
		_, err = w.resolve(w.m)
		require.ErrorIs(t, err, toolresult.AuthenticationRequired)
		for _, h := range []credential.Handle{{}, credential.NewHandle()} {
			_, err = w.apply(w.m, h)
			require.ErrorIs(t, err, toolresult.ConnectionRequired)
			require.ErrorIs(t, w.m.Check(context.Background(), h), toolresult.ConnectionRequired)
		}
		require.ErrorIs(t, w.manager().Check(context.Background(), r.Handle), toolresult.ConnectionRequired, "another process's handle")
	})
}

// H2-80 H2-99 C8: a disconnect in any process ends the handle of a call that
// runs: its result is withheld.
func TestCheckAfterDisconnect_H2_80_H2_99(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		r, err := w.resolve(w.m)
		require.NoError(t, err)
		_, err = w.manager().Disconnect(t.Context(), w.alice, c.ID)
		require.NoError(t, err)
		require.ErrorIs(t, w.m.Check(t.Context(), r.Handle), toolresult.ConnectionRequired)
		_, err = w.apply(w.m, r.Handle)
		require.ErrorIs(t, err, toolresult.ConnectionRequired)
		w.connect("read")
		require.ErrorIs(t, w.m.Check(t.Context(), r.Handle), toolresult.ConnectionRequired, "a new connection does not bring it back")
	})
}

// H2-77 C5: what a caller is told names the provider, the missing scopes and the
// link, and nothing of the account.
func TestConnectionRequired_H2_77(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		_, err := w.resolve(w.m, "read", "write")
		e := toolresult.AsError(err)
		require.Equal(t, toolresult.InsufficientScope, e.Code)
		require.Equal(t, "tickets", e.Connect.Provider)
		require.Equal(t, []string{"write"}, e.Connect.Missing)
		text, jsonErr := e.MarshalJSON()
		require.NoError(t, jsonErr)
		for _, private := range []string{"ann", "org-1", "alice", "acme", c.ID, "access-", "refresh-"} {
			require.NotContains(t, string(text), private)
		}
		d, err := w.m.Open(t.Context(), w.alice, strings.TrimPrefix(e.Connect.URL, "https://host.test/connect/"))
		require.NoError(t, err)
		require.Equal(t, "read write", query(t, d).Get("scope"), "never less than there is")
	})
}

// No connector, mode or provider fits: no account, and no link to one.
func TestNothingServes_C5(t *testing.T) {
	bubble(t, setup{provider: func(p *connection.Provider) { p.Modes = []string{"delegated_oauth"} }}, func(t *testing.T, w *world) {
		for _, edit := range []func(*credential.ResolveRequest){
			func(r *credential.ResolveRequest) { r.Mode = "api_key" },
			func(r *credential.ResolveRequest) { r.Mode, r.Connector = "delegated_oauth", "other" },
		} {
			req := w.ask("read")
			edit(req)
			_, err := w.m.Resolve(t.Context(), req)
			require.ErrorIs(t, err, toolresult.ConnectionRequired)
			require.Nil(t, toolresult.AsError(err).Connect)
		}
		_, err := w.m.Resolve(t.Context(), nil)
		require.ErrorIs(t, err, toolresult.AuthenticationRequired)
		_, err = w.m.Resolve(t.Context(), &credential.ResolveRequest{})
		require.ErrorIs(t, err, toolresult.AuthenticationRequired)
	})
}
