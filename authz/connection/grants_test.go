package connection_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func install(t testing.TB, w *world, req connection.InstallRequest) connection.Connection {
	t.Helper()
	req.Provider = "tickets"
	if req.Owner == (authz.PrincipalKey{}) {
		req.Owner = authz.PrincipalKey{Tenant: "acme"}
	}
	c, err := w.m.Install(t.Context(), &req)
	require.NoError(t, err)
	return c
}

func clientCredentials(p *connection.Provider) {
	p.Grant, p.Confirm = connection.ClientCredentials, nil
}

// H2-60 C4: client credentials: the token is kept in the store for all processes
// of one tenant, no refresh token is kept even if one comes, and a lost answer
// costs nothing.
func TestClientCredentials_H2_60_C4(t *testing.T) {
	bubble(t, setup{provider: clientCredentials}, func(t *testing.T, w *world) {
		c := install(t, w, connection.InstallRequest{Account: "robot", Org: "org-1", Scopes: []string{"read"}})
		w.as.Fail(authserver.Fault{Endpoint: "token", Edit: func(m map[string]any) { m["refresh_token"] = "refresh-CANARY" }})
		ms := []*connection.Manager{w.m, w.manager(), w.manager()}
		for _, err := range w.many(ms, 60) {
			require.NoError(t, err)
		}
		require.Equal(t, 1, w.as.Count("token"))
		require.Empty(t, w.record(c.ID).Refresh)
		w.alice = authztest.Caller(t, w.host, "acme", "bob")
		_, err := w.use(ms[0])
		require.NoError(t, err, "everybody of the tenant")
		w.alice = authztest.Caller(t, w.host, "globex", "alice")
		_, err = w.use(ms[0])
		require.ErrorIs(t, err, toolresult.ConnectionRequired, "and nobody of another")
		require.Nil(t, toolresult.AsError(err).Connect)

		w.alice = authztest.Caller(t, w.host, "acme", "alice")
		elapse(2 * time.Hour)
		w.as.Fail(authserver.Fault{Endpoint: "token", Drop: true})
		_, err = w.use(w.m)
		require.ErrorIs(t, err, toolresult.ProviderUnavailable)
		elapse(2 * time.Second)
		_, err = w.use(w.m)
		require.NoError(t, err)
		require.Equal(t, connection.Active, w.record(c.ID).State)
		_, err = w.resolve(w.m, "write")
		require.ErrorIs(t, err, toolresult.InsufficientScope)
		require.Nil(t, toolresult.AsError(err).Connect, "no user can consent to that")
		_, err = w.m.Disconnect(t.Context(), w.alice, c.ID)
		require.ErrorIs(t, err, toolresult.ConnectionRequired, "nor disconnect it")
		list, err := w.m.DisconnectFor(t.Context(), authz.PrincipalKey{Tenant: "acme"}, "")
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, connection.Disconnected, list[0].State)
	})
}

// H2-30: client id and secret are form-encoded inside of Basic.
func TestBasicIsEncoded_H2_30(t *testing.T) {
	const id, secret = "host:%+ ü", "s:%+& ☃\"="
	bubble(t, setup{provider: func(p *connection.Provider) {
		clientCredentials(p)
		p.ClientID = id
		p.Secret = func(context.Context) ([]byte, error) { return []byte(secret), nil }
	}}, func(t *testing.T, w *world) {
		w.as.AddClient(authserver.Client{ID: id, Secret: secret})
		install(t, w, connection.InstallRequest{Account: "robot"})
		_, err := w.use(w.m)
		require.NoError(t, err)
	})
}

// H2-29: each way to authenticate, and only the one that is stated.
func TestClientAuthentication_H2_29_O_18(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for _, row := range []struct {
		auth   string
		client authserver.Client
		good   bool
	}{
		{connection.SecretBasic, authserver.Client{ID: "host", Secret: clientSecret}, true},
		{connection.SecretPost, authserver.Client{ID: "host", Secret: clientSecret, Post: true}, true},
		{connection.PrivateKeyJWT, authserver.Client{ID: "host", Key: key.Public()}, true},
		{connection.SecretBasic, authserver.Client{ID: "host", Secret: clientSecret, Post: true}, false},
		{connection.SecretPost, authserver.Client{ID: "host", Secret: clientSecret}, false},
	} {
		bubble(t, setup{provider: func(p *connection.Provider) {
			clientCredentials(p)
			p.ClientAuth, p.Key = row.auth, key
		}}, func(t *testing.T, w *world) {
			w.as.AddClient(row.client)
			install(t, w, connection.InstallRequest{Account: "robot"})
			_, err := w.use(w.m)
			if row.good {
				require.NoError(t, err, row.auth)
			} else {
				require.ErrorIs(t, err, toolresult.ProviderError, row.auth)
			}
			require.Equal(t, 1, w.as.Count("token"), "one request, and no second try in another way")
		})
	}
}

// H2-62 C4: a service account signs an assertion of its own for each request; the
// server checks audience, life and jti.
func TestServiceAccount_H2_62_C4(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for _, key := range []crypto.Signer{ec, ed, rs} {
		bubble(t, setup{provider: func(p *connection.Provider) {
			p.Grant, p.Confirm, p.Secret, p.ClientAuth, p.Key, p.Assert = connection.ServiceAccount, nil, nil, connection.PublicClient, key, "robot@acme"
		}}, func(t *testing.T, w *world) {
			w.as.AddClient(authserver.Client{ID: "host", Key: key.Public()})
			install(t, w, connection.InstallRequest{Account: "robot", Scopes: []string{"read"}})
			for range 3 {
				token, err := w.use(w.m)
				require.NoError(t, err)
				got, ok := w.as.Active(token)
				require.True(t, ok)
				require.Equal(t, []string{"read"}, got.Scopes)
				require.Equal(t, "robot@acme", got.User.ID)
				elapse(2 * time.Hour)
			}
			w.as.Fail(authserver.Fault{Endpoint: "token", Before: true, Status: 400, Body: `{"error":"invalid_grant"}`})
			_, err := w.use(w.m)
			require.ErrorIs(t, err, toolresult.ProviderError, "our assertion was refused: nobody can consent to that")
		})
	}
}

func exchange(subject string, end *time.Time) func(*connection.Provider) {
	return func(p *connection.Provider) {
		p.Grant, p.Confirm, p.Resource = connection.TokenExchange, nil, "https://api.example"
		p.Subject = func(_ context.Context, a authz.Principal) (connection.Subject, error) {
			s := connection.Subject{Token: func() string { return subject + a.Key().Subject }}
			if end != nil {
				s.Expires = *end
			}
			return s, nil
		}
	}
}

// H2-61 C4 C6: a token exchange says for whom the token is, takes only the type
// that it asked for, and what it gets ends with what it was given.
func TestTokenExchange_H2_61_C4_C6(t *testing.T) {
	var end time.Time
	bubble(t, setup{provider: exchange("inbound-", &end)}, func(t *testing.T, w *world) {
		w.as.AddSubject("inbound-alice", authserver.User{ID: "alice"})
		w.as.AddSubject("inbound-bob", authserver.User{ID: "bob"})
		end = time.Now().Add(10 * time.Minute)
		r, err := w.resolve(w.m, "read")
		require.NoError(t, err)
		require.Equal(t, end, w.record(r.Connection).Expires, "not longer than what was exchanged")
		token, err := w.apply(w.m, r.Handle)
		require.NoError(t, err)
		require.NotContains(t, token, "inbound-")
		require.Contains(t, w.sent("127.0.0.1"), "inbound-alice")
		require.NotContains(t, w.sent("provider.test"), "inbound-", "it goes to the exchange and nowhere else")
		got, _ := w.as.Active(token)
		require.Equal(t, "alice", got.User.ID)
		require.Equal(t, "https://api.example", got.Resource)
		_, err = w.resolve(w.m, "read", "write")
		require.NoError(t, err, "nobody has to consent to more")
		require.Equal(t, 2, w.as.Count("token"))

		alice := w.alice
		w.alice = authztest.Caller(t, w.host, "acme", "bob")
		bobs, err := w.use(w.m)
		require.NoError(t, err)
		got, _ = w.as.Active(bobs)
		require.Equal(t, "bob", got.User.ID, "each caller has a token of their own")
		w.alice = alice
		elapse(10 * time.Minute)
		_, err = w.use(w.m)
		require.ErrorIs(t, err, toolresult.AuthenticationRequired)
	})
	for why, edit := range map[string]func(map[string]any){
		"another type":  func(m map[string]any) { m["issued_token_type"] = "urn:ietf:params:oauth:token-type:refresh_token" },
		"no type":       func(m map[string]any) { delete(m, "issued_token_type") },
		"N_A is no use": func(m map[string]any) { m["token_type"] = "N_A" },
	} {
		bubble(t, setup{provider: exchange("inbound-", nil)}, func(t *testing.T, w *world) {
			w.as.AddSubject("inbound-alice", authserver.User{ID: "alice"})
			w.as.Fail(authserver.Fault{Endpoint: "token", Edit: edit})
			_, err := w.use(w.m)
			require.ErrorIs(t, err, toolresult.ProviderError, why)
		})
	}
}

// H2-63 C4: an API key goes where the profile says, belongs to whom it was
// installed for, and is replaced as a whole.
func TestAPIKey_H2_63_C4(t *testing.T) {
	apiKey := func(p *connection.Provider) {
		p.Grant, p.Confirm, p.Secret, p.ClientAuth, p.ClientID = connection.APIKey, nil, nil, "", ""
		p.Token.BaseURL, p.Revocation.BaseURL = "", ""
		p.Placement.Query = "api_key"
	}
	bubble(t, setup{provider: apiKey}, func(t *testing.T, w *world) {
		c := install(t, w, connection.InstallRequest{Account: "robot", Owner: w.alice.Key(), Key: []byte("key/1&x=\n")})
		r, err := w.resolve(w.m, "read")
		require.NoError(t, err, "keys of this provider have no scopes")
		send := func() string {
			req, err := http.NewRequest(http.MethodGet, "http://provider.test/x?b=2&a=1", nil)
			require.NoError(t, err)
			require.NoError(t, w.m.Apply(t.Context(), r.Handle, origin, req))
			require.Equal(t, "2", req.URL.Query().Get("b"))
			return req.URL.Query().Get("api_key")
		}
		require.Equal(t, "key/1&x=", send())
		w.alice = authztest.Caller(t, w.host, "acme", "bob")
		_, err = w.resolve(w.m)
		require.ErrorIs(t, err, toolresult.ConnectionRequired, "alice's own key")
		w.alice = authztest.Caller(t, w.host, "acme", "alice")
		again := install(t, w, connection.InstallRequest{Account: "robot", Owner: w.alice.Key(), Key: []byte("key-2")})
		require.Equal(t, c.ID, again.ID)
		require.ErrorIs(t, w.m.Check(t.Context(), r.Handle), toolresult.ConnectionRequired, "handles of the old key are over")
		r, err = w.resolve(w.m)
		require.NoError(t, err)
		require.Equal(t, "key-2", send())
		another, err := w.m.Rejected(t.Context(), r.Handle)
		require.NoError(t, err)
		require.False(t, another, "there is nothing to renew it with")
		require.Equal(t, "key-2", send())
		got, err := w.m.Disconnect(t.Context(), w.alice, c.ID)
		require.NoError(t, err)
		require.Equal(t, connection.StepUnsupported, got.Disconnection.Remote, "not called revoked")
		require.Empty(t, w.record(c.ID).Access)
	})
}

// Bad installations are refused with what is wrong, and store nothing.
func TestInstallRefuses_C4(t *testing.T) {
	bubble(t, setup{provider: clientCredentials}, func(t *testing.T, w *world) {
		tenant := authz.PrincipalKey{Tenant: "acme"}
		for why, req := range map[string]*connection.InstallRequest{
			"nil": nil, "no provider": {Owner: tenant, Account: "a"}, "no tenant": {Provider: "tickets", Account: "a"},
			"half an owner": {Provider: "tickets", Owner: authz.PrincipalKey{Tenant: "acme", Subject: "x"}, Account: "a"},
			"no account":    {Provider: "tickets", Owner: tenant}, "a key": {Provider: "tickets", Owner: tenant, Account: "a", Key: []byte("CANARY")},
			"a scope that is not permitted": {Provider: "tickets", Owner: tenant, Account: "a", Scopes: []string{"root"}},
		} {
			_, err := w.m.Install(t.Context(), req)
			require.ErrorIs(t, err, toolresult.InvalidInput, why)
			require.NotContains(t, err.Error(), "CANARY")
		}
		_, err := w.resolve(w.m)
		require.ErrorIs(t, err, toolresult.ConnectionRequired)
		_, err = w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets"})
		require.ErrorIs(t, err, toolresult.Unsupported)
	})
	bubble(t, setup{}, func(t *testing.T, w *world) {
		_, err := w.m.Install(t.Context(), &connection.InstallRequest{Provider: "tickets", Owner: authz.PrincipalKey{Tenant: "acme"}, Account: "ann"})
		require.ErrorIs(t, err, toolresult.InvalidInput, "an account of a user is what the provider says, never what was typed")
	})
}

// H2-61 C6: what was exchanged for one client's token, or for somebody who acts for
// the user, serves no other: the issuer has limited it to what that one may do.
func TestExchangedForOneClient_H2_61_C6(t *testing.T) {
	bubble(t, setup{provider: func(p *connection.Provider) {
		exchange("", nil)(p)
		p.Subject = func(_ context.Context, a authz.Principal) (connection.Subject, error) {
			id := a.Identity()
			name := "inbound-" + id.Client
			if id.Delegation != nil {
				name += "-" + id.Delegation.Actor
			}
			return connection.Subject{Token: func() string { return name }}, nil
		}
	}}, func(t *testing.T, w *world) {
		id := w.alice.Identity()
		callers := map[string]authz.Principal{}
		for name, change := range map[string]func(){
			"desk":       func() { id.Client = "desk" },
			"cli":        func() { id.Client = "cli" },
			"desk-agent": func() { id.Client, id.Delegation = "desk", &authz.Delegation{Actor: "agent", Scopes: id.Scopes} },
		} {
			id = w.alice.Identity()
			change()
			p, err := w.host.Principal(id)
			require.NoError(t, err)
			callers[name] = p
			w.as.AddSubject("inbound-"+name, authserver.User{ID: name})
		}
		use := func(name string) string {
			w.alice = callers[name]
			token, err := w.use(w.m)
			require.NoError(t, err)
			got, ok := w.as.Active(token)
			require.True(t, ok)
			return got.User.ID
		}
		for _, name := range []string{"desk", "desk-agent", "cli", "desk"} {
			require.Equal(t, name, use(name))
		}
		before := w.as.Count("token")
		require.Equal(t, "desk", use("desk"))
		require.Equal(t, before, w.as.Count("token"), "the control: for the same one it is kept")

		w.alice = callers["desk"]
		r, err := w.resolve(w.m, "read")
		require.NoError(t, err)
		require.Equal(t, "desk-agent", use("desk-agent"), "while a call of the other runs")
		token, err := w.apply(w.m, r.Handle)
		require.NoError(t, err)
		got, _ := w.as.Active(token)
		require.Equal(t, "desk", got.User.ID)

		w.as.Fail(authserver.Fault{Endpoint: "token", Before: true, Status: 400, Body: `{"error":"invalid_grant"}`})
		w.alice = callers["cli"]
		_, err = w.use(w.m)
		require.Error(t, err, "never the other's token instead")
		w.as.Recover()
		require.Equal(t, "desk", use("desk"), "and the other is not kept waiting")
	})
}
