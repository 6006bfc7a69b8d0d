package connection_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest/authserver"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func query(t testing.TB, d connection.Departure) url.Values {
	t.Helper()
	u, err := url.Parse(d.URL)
	require.NoError(t, err)
	return u.Query()
}

// H2-01 C1: S256 always, with a verifier that is new each time and kept sealed.
func TestChallengeIsNewAndSealed_H2_01(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		a, b := query(t, w.depart(connection.BeginRequest{})), query(t, w.depart(connection.BeginRequest{}))
		require.Equal(t, "S256", a.Get("code_challenge_method"))
		require.Len(t, a.Get("code_challenge"), 43, "SHA-256 of 32 bytes and more")
		require.NotEqual(t, a.Get("code_challenge"), b.Get("code_challenge"))
		id, _, _ := strings.Cut(a.Get("state"), ".")
		tx, err := w.store.Transaction(t.Context(), "acme", id)
		require.NoError(t, err)
		require.NotEmpty(t, tx.Verifier)
		require.True(t, !w.keys.Stale(tx.Verifier), "sealed under the current key")
		w.consent(w.depart(connection.BeginRequest{}), ann, nil)
	})
}

// H2-02 H2-90 H2-16 C1: what a profile must state, or nothing is built.
func TestProfileRefuses_H2_02_H2_16_H2_90(t *testing.T) {
	for _, row := range []struct {
		why  string
		edit func(*connection.Provider)
		says string
	}{
		{"PKCE is not stated", func(p *connection.Provider) { p.S256 = false }, "S256"},
		{"no issuer", func(p *connection.Provider) { p.Issuer = "" }, "Issuer"},
		{"nobody confirms the account", func(p *connection.Provider) { p.Confirm = nil }, "Confirm"},
		{"javascript:", func(p *connection.Provider) { p.AuthorizationEndpoint = "javascript:alert(1)" }, "AuthorizationEndpoint"},
		{"data:", func(p *connection.Provider) { p.AuthorizationEndpoint = "data:text/html,x" }, "AuthorizationEndpoint"},
		{"plain http", func(p *connection.Provider) { p.AuthorizationEndpoint = "http://as.example/authorize" }, "AuthorizationEndpoint"},
		{"a fragment", func(p *connection.Provider) { p.AuthorizationEndpoint = "https://as.example/authorize#x" }, "AuthorizationEndpoint"},
		{"a password in it", func(p *connection.Provider) { p.AuthorizationEndpoint = "https://u:CANARY@as.example/" }, "AuthorizationEndpoint"},
		{"a redirect URI of another scheme", func(p *connection.Provider) { p.RedirectURI = "app://callback" }, "RedirectURI"},
		{"a parameter that is ours", func(p *connection.Provider) { p.Params = map[string]string{"state": "x"} }, "state"},
		{"another PKCE method", func(p *connection.Provider) { p.Params = map[string]string{"code_challenge_method": "plain"} }, "code_challenge_method"},
		{"a token endpoint over http", func(p *connection.Provider) { p.Token.BaseURL = "http://as.example/token" }, "https"},
		{"redirects at the token endpoint", func(p *connection.Provider) { p.Token.Redirects = 1 }, "redirects"},
		{"no way to authenticate", func(p *connection.Provider) { p.ClientAuth = "" }, "authenticate"},
		{"a secret that nobody reads", func(p *connection.Provider) { p.Secret = nil }, "secret"},
		{"no connectors", func(p *connection.Provider) { p.Connectors = nil }, "connectors"},
		{"Always beyond Scopes", func(p *connection.Provider) { p.Always = []string{"root"} }, "Always"},
		{"no API", func(p *connection.Provider) { p.API.BaseURL = "" }, "API"},
		{"no grant", func(p *connection.Provider) { p.Grant = "" }, "grant"},
		{"a key for the query and a header", func(p *connection.Provider) { p.Placement.Query, p.Placement.Header = "key", "X-Key" }, "not both"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, setup{})
			row.edit(w.prov)
			_, err := connection.New(w.store, w.keys, []*connection.Provider{w.prov}, &w.opts)
			require.ErrorContains(t, err, row.says, row.why)
			require.NotContains(t, err.Error(), "CANARY")
		})
	}
}

// H2-90 H2-42 C2 C3: no store in the clear, and no lease that is shorter than
// the work.
func TestManagerRefuses_H2_90_H2_42(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		mem := &connection.Memory{}
		for _, row := range []struct {
			why  string
			make func() (*connection.Manager, error)
			says string
		}{
			{"no keys", func() (*connection.Manager, error) { return connection.New(mem, nil, nil, nil) }, "keyring"},
			{"no store", func() (*connection.Manager, error) { return connection.New(nil, w.keys, nil, nil) }, "store"},
			{"a lease shorter than a request", func() (*connection.Manager, error) {
				return connection.New(mem, w.keys, []*connection.Provider{w.prov}, &connection.Options{Lease: 12 * time.Second})
			}, "lease"},
			{"two of one name", func() (*connection.Manager, error) {
				return connection.New(mem, w.keys, []*connection.Provider{w.prov, w.prov}, nil)
			}, "two providers"},
			{"one redirect URI for two", func() (*connection.Manager, error) {
				other := *w.prov
				other.Name = "other"
				return connection.New(mem, w.keys, []*connection.Provider{w.prov, &other}, nil)
			}, "RedirectURI"},
			{"a link over http", func() (*connection.Manager, error) {
				return connection.New(mem, w.keys, nil, &connection.Options{ConnectURL: func(id string) string { return "http://host.example/" + id }})
			}, "ConnectURL"},
			{"a link without the id", func() (*connection.Manager, error) {
				return connection.New(mem, w.keys, nil, &connection.Options{ConnectURL: func(string) string { return "https://host.example/" }})
			}, "ConnectURL"},
		} {
			_, err := row.make()
			require.ErrorContains(t, err, row.says, row.why)
		}
	})
}

// H2-04 C1: state has 128 random bits and more, works once and for ten minutes;
// nothing is sent for a second answer, which is told what came of the first.
func TestStateIsTakenOnce_H2_04(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		d := w.depart(connection.BeginRequest{Scopes: []string{"read"}})
		_, state, _ := strings.Cut(query(t, d).Get("state"), ".")
		require.GreaterOrEqual(t, len(state), 26, "26 letters of base32 are 130 bits")
		q := w.consent(d, ann, nil)
		var wg sync.WaitGroup
		var mu sync.Mutex
		ids := map[string]int{}
		for range 8 {
			wg.Go(func() {
				out, err := w.m.Callback(context.Background(), w.alice, d.Browser, q)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					ids[string(code(err))]++
					return
				}
				ids[out.Connection.ID]++
			})
		}
		wg.Wait()
		require.Equal(t, 1, w.as.Count("token authorization_code"))
		require.Zero(t, w.as.Count("reuse"))
		again, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
		require.NoError(t, err, "what came of the first")
		require.Positive(t, ids[again.Connection.ID])
		require.Equal(t, 1, w.as.Count("token"))
	})
}

func TestStateIsOverAfterTenMinutes_H2_04(t *testing.T) {
	bubble(t, setup{as: &authserver.Options{CodeFor: time.Hour}}, func(t *testing.T, w *world) {
		d := w.depart(connection.BeginRequest{})
		q := w.consent(d, ann, nil)
		elapse(10 * time.Minute)
		_, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
		require.ErrorIs(t, err, toolresult.NotFound)
		require.Zero(t, w.as.Count("token"))
	})
}

// H2-05 H2-06 H2-12 C1: an answer counts in the browser, for the user and in the
// tenant that it was asked for in; the code is not redeemed otherwise.
func TestAnswerOfSomebodyElse_H2_05_H2_06(t *testing.T) {
	for _, row := range []struct {
		why  string
		send func(t *testing.T, w *world, d connection.Departure, q url.Values) error
	}{
		{"another user of the tenant", func(t *testing.T, w *world, d connection.Departure, q url.Values) error {
			_, err := w.m.Callback(t.Context(), authztest.Caller(t, w.host, "acme", "bob"), d.Browser, q)
			return err
		}},
		{"the same subject in another tenant", func(t *testing.T, w *world, d connection.Departure, q url.Values) error {
			_, err := w.m.Callback(t.Context(), authztest.Caller(t, w.host, "globex", "alice"), d.Browser, q)
			return err
		}},
		{"the same subject of another issuer", func(t *testing.T, w *world, d connection.Departure, q url.Values) error {
			p, err := w.host.Principal(authz.Identity{Tenant: "acme", Issuer: "https://other.test", Subject: "alice"})
			require.NoError(t, err)
			_, err = w.m.Callback(t.Context(), p, d.Browser, q)
			return err
		}},
		{"another browser", func(t *testing.T, w *world, d connection.Departure, q url.Values) error {
			other := w.depart(connection.BeginRequest{})
			_, err := w.m.Callback(t.Context(), w.alice, other.Browser, q)
			return err
		}},
		{"no cookie", func(t *testing.T, w *world, d connection.Departure, q url.Values) error {
			_, err := w.m.Callback(t.Context(), w.alice, "", q)
			return err
		}},
		{"a state that was made up", func(t *testing.T, w *world, d connection.Departure, q url.Values) error {
			q.Set("state", strings.Split(q.Get("state"), ".")[0]+".AAAAAAAAAAAAAAAAAAAAAAAAAA")
			_, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
			return err
		}},
		{"state of one departure, cookie and code of another", func(t *testing.T, w *world, d connection.Departure, q url.Values) error {
			other := w.depart(connection.BeginRequest{})
			q.Set("state", query(t, other).Get("state"))
			_, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
			return err
		}},
		{"state twice", func(t *testing.T, w *world, d connection.Departure, q url.Values) error {
			q.Add("state", q.Get("state"))
			_, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
			return err
		}},
		{"no state", func(t *testing.T, w *world, d connection.Departure, q url.Values) error {
			q.Del("state")
			_, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
			return err
		}},
		{"an earlier departure of the same link", func(t *testing.T, w *world, d connection.Departure, q url.Values) error {
			id, _, _ := strings.Cut(q.Get("state"), ".")
			_, err := w.m.Open(t.Context(), w.alice, id)
			require.NoError(t, err)
			_, err = w.m.Callback(t.Context(), w.alice, d.Browser, q)
			return err
		}},
	} {
		t.Run(row.why, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, w *world) {
				d := w.depart(connection.BeginRequest{})
				err := row.send(t, w, d, w.consent(d, ann, nil))
				require.ErrorIs(t, err, toolresult.NotFound)
				require.Zero(t, w.as.Count("token"), "the code is not sent")
			})
		})
	}
}

// H2-12 C1: another user's code in alice's answer fails at the provider, and
// connects nothing.
func TestInjectedCode_H2_12_H2_03(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		victim := w.consent(w.depart(connection.BeginRequest{}), authserver.User{ID: "victim"}, nil)
		d := w.depart(connection.BeginRequest{})
		q := w.consent(d, ann, nil)
		q.Set("code", victim.Get("code"))
		_, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
		require.Error(t, err)
		require.Equal(t, 1, w.as.Count("error invalid_grant"))
		_, err = w.resolve(w.m)
		require.ErrorIs(t, err, toolresult.ConnectionRequired)
	})
}

// H2-07 H2-08 C1: the table of issuers (RFC 9207), compared byte for byte, before
// anything else of the answer counts.
func TestIssuerTable_H2_07_H2_08(t *testing.T) {
	const right = "http://127.0.0.1"
	for _, row := range []struct {
		why       string
		announced bool
		alias     string
		iss       []string
		good      bool
	}{
		{"announced and absent", true, "", nil, false},
		{"announced and right", true, "", []string{right}, true},
		{"announced and another", true, "", []string{"https://attacker.test"}, false},
		{"not announced and absent", false, "", nil, true},
		{"not announced and right", false, "", []string{right}, true},
		{"not announced and another", false, "", []string{"https://attacker.test"}, false},
		{"a trailing slash", true, "", []string{right + "/"}, false},
		{"another case", true, "", []string{"HTTP://127.0.0.1"}, false},
		{"the default port", true, "", []string{right + ":80"}, false},
		{"percent-encoded", true, "", []string{"http://127.0.0%2e1"}, false},
		{"twice", true, "", []string{right, right}, false},
		{"empty", true, "", []string{""}, false},
		{"an alias that an administrator pinned", true, right + "/", []string{right + "/"}, true},
	} {
		for _, answer := range []string{"code", "error"} {
			t.Run(row.why+" with "+answer, func(t *testing.T) {
				bubble(t, setup{provider: func(p *connection.Provider) {
					if p.SendsIssuer = row.announced; row.alias != "" {
						p.IssuerAliases = []string{row.alias}
					}
				}}, func(t *testing.T, w *world) {
					d := w.depart(connection.BeginRequest{})
					q := w.consent(d, ann, nil)
					if q.Del("iss"); row.iss != nil {
						q["iss"] = row.iss
					}
					if answer == "error" {
						q.Del("code")
						q.Set("error", "access_denied")
					}
					_, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
					switch {
					case !row.good:
						require.ErrorContains(t, err, "does not come from the provider")
						require.Zero(t, w.as.Count("token"))
					case answer == "error":
						require.ErrorContains(t, err, "consent was not given")
					default:
						require.NoError(t, err)
					}
				})
			})
		}
	}
}

// H2-10 H2-19 C1: what is sent goes to the endpoint that was fixed when it began,
// or nowhere.
func TestProfileChangedMeanwhile_H2_10_H2_19(t *testing.T) {
	for _, row := range []struct {
		why  string
		edit func(*connection.Provider)
	}{
		{"another issuer", func(p *connection.Provider) { p.Issuer, p.SendsIssuer = "https://other.test", false }},
		{"another token endpoint", func(p *connection.Provider) { p.Token.BaseURL = "http://127.0.0.1/other" }},
		{"another client", func(p *connection.Provider) { p.ClientID = "other" }},
		{"another redirect URI", func(p *connection.Provider) { p.RedirectURI = "http://localhost/other" }},
		{"another resource", func(p *connection.Provider) { p.Resource = "https://other.test" }},
	} {
		t.Run(row.why, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, w *world) {
				c := w.connect()
				d := w.depart(connection.BeginRequest{})
				q := w.consent(d, ann, nil)
				sent := w.as.Count("token")
				row.edit(w.prov)
				m := w.manager()
				_, err := m.Callback(t.Context(), w.alice, d.Browser, q)
				require.Error(t, err)
				elapse(2 * time.Hour)
				if row.why != "another redirect URI" { // which a refresh does not send
					_, err = w.use(m)
					require.ErrorIs(t, err, toolresult.ProviderError)
					require.Equal(t, connection.Active, w.record(c.ID).State, "not dead: the operator's mistake")
				}
				require.Equal(t, sent, w.as.Count("token")-w.as.Count("token refresh_token"))
			})
		})
	}
}

// H2-11 C1: the redirect URI of the exchange is that of the transaction.
// H2-17: resource is sent with each request as it was written.
func TestRequestsAgree_H2_11_H2_17(t *testing.T) {
	const resource = "https://API.example/x%2Fy/?a=1&b=%20"
	bubble(t, setup{as: &authserver.Options{Resources: []string{resource}}, provider: func(p *connection.Provider) { p.Resource = resource }}, func(t *testing.T, w *world) {
		d := w.depart(connection.BeginRequest{})
		require.Equal(t, callback, query(t, d).Get("redirect_uri"))
		require.Equal(t, resource, query(t, d).Get("resource"))
		_, err := w.m.Callback(t.Context(), w.alice, d.Browser, w.consent(d, ann, nil))
		require.NoError(t, err, "the server compares both")
		elapse(2 * time.Hour)
		_, err = w.use(w.m)
		require.NoError(t, err, "and again when refreshing")
		require.Equal(t, 1, w.as.Count("issued refresh_token"))
	})
}

// H2-13 C1: a code that was refused, or whose answer was lost, is not sent again.
func TestCodeIsSentOnce_H2_13(t *testing.T) {
	for _, row := range []struct {
		why   string
		fault authserver.Fault
		says  string
	}{
		{"refused", authserver.Fault{Before: true, Status: 400, Body: `{"error":"invalid_grant"}`}, "did not connect"},
		{"lost before", authserver.Fault{Before: true, Status: 503}, "lost"},
		{"lost after", authserver.Fault{Status: 503}, "lost"},
		{"dropped after", authserver.Fault{Drop: true}, "lost"},
		{"no tokens in it", authserver.Fault{Status: 200, Body: `<html>`}, "lost"},
		{"a type that is no bearer token", authserver.Fault{Edit: func(m map[string]any) { m["token_type"] = "mac" }}, "did not connect"},
	} {
		t.Run(row.why, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, w *world) {
				row.fault.Endpoint = "token"
				w.as.Fail(row.fault)
				d := w.depart(connection.BeginRequest{})
				q := w.consent(d, ann, nil)
				for range 3 {
					_, err := w.m.Callback(t.Context(), w.alice, d.Browser, q)
					require.ErrorContains(t, err, row.says)
				}
				require.Equal(t, 1, w.as.Count("token"))
			})
		})
	}
}

// H2-14 C1: afterwards the user goes to a path of the host, and nowhere else.
func TestReturnTo_H2_14(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		for _, bad := range []string{"https://attacker.test", "//attacker.test", "/\\attacker.test", "javascript:x", "/a b", "/a\nb", "x", "/\x00", strings.Repeat("/", 1) + strings.Repeat("a", 3000)} {
			_, err := w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets", ReturnTo: bad})
			require.ErrorIs(t, err, toolresult.InvalidInput, "%.20q", bad)
		}
		d := w.depart(connection.BeginRequest{ReturnTo: "/settings?tab=accounts"})
		out, err := w.m.Callback(t.Context(), w.alice, d.Browser, w.consent(d, ann, nil))
		require.NoError(t, err)
		require.Equal(t, "/settings?tab=accounts", out.ReturnTo)
	})
}

// H2-74 C1: account and organization are what the provider says. Another than
// was expected is not stored, and its tokens are revoked.
func TestWrongAccount_H2_74(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		d := w.depart(connection.BeginRequest{Org: "org-1"})
		_, err := w.m.Callback(t.Context(), w.alice, d.Browser, w.consent(d, authserver.User{ID: "ann", Org: "org-2"}, nil))
		require.ErrorContains(t, err, "another organization")
		a, r := w.as.Live("ann")
		require.Zero(t, r, "revoked")
		require.LessOrEqual(t, a, 1)
		_, err = w.resolve(w.m)
		require.ErrorIs(t, err, toolresult.ConnectionRequired)

		c := w.connect("read")
		for _, u := range []authserver.User{{ID: "eve", Org: "org-1"}, {ID: "ann", Org: "org-2"}} {
			d = w.depart(connection.BeginRequest{Connection: c.ID, Scopes: []string{"write"}})
			_, err = w.m.Callback(t.Context(), w.alice, d.Browser, w.consent(d, u, nil))
			require.Error(t, err)
		}
		require.Equal(t, []string{"read"}, w.record(c.ID).Scopes)
		_, err = w.use(w.m)
		require.NoError(t, err, "the old grant goes on working")
	})
}

// H2-74: nobody can say whose account it is.
func TestNotConfirmed_H2_74(t *testing.T) {
	for _, fault := range []authserver.Fault{{Status: 500}, {Drop: true}, {Edit: func(m map[string]any) { delete(m, "sub") }}} {
		bubble(t, setup{}, func(t *testing.T, w *world) {
			fault.Endpoint = "userinfo"
			w.as.Fail(fault)
			d := w.depart(connection.BeginRequest{})
			_, err := w.m.Callback(t.Context(), w.alice, d.Browser, w.consent(d, ann, nil))
			require.ErrorContains(t, err, "whose account")
			_, r := w.as.Live("ann")
			require.Zero(t, r)
		})
	}
}

// H2-75 C1: the same account is one connection of one owner, and another of
// another tenant's.
func TestSameAccountTwice_H2_75(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		first := w.connect("read")
		again := w.connect("read")
		require.Equal(t, first.ID, again.ID)
		require.Greater(t, again.Generation, first.Generation, "a new consent is a new generation")
		_, r := w.as.Live("ann")
		require.Equal(t, 1, r, "what it replaced is revoked")

		other := w.alice
		w.alice = authztest.Caller(t, w.host, "globex", "alice")
		globex := w.connect("read")
		require.NotEqual(t, first.ID, globex.ID)
		_, err := w.use(w.m)
		require.NoError(t, err)
		_, err = w.m.Disconnect(t.Context(), w.alice, globex.ID)
		require.NoError(t, err)
		w.alice = other
		_, err = w.use(w.m)
		require.NoError(t, err, "one tenant's disconnect is not the other's")
	})
}

// H2-76 C5: an extension asks for what there is and what is missing; a no leaves
// the old grant working, a yes replaces it.
func TestExtension_H2_76(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		d := w.depart(connection.BeginRequest{Connection: c.ID, Scopes: []string{"write"}})
		require.Equal(t, "read write", query(t, d).Get("scope"))
		_, err := w.m.Callback(t.Context(), w.alice, d.Browser, w.consent(d, ann, &authserver.Consents{Deny: true}))
		require.ErrorContains(t, err, "consent was not given")
		_, err = w.use(w.m)
		require.NoError(t, err)

		old, err := w.resolve(w.m, "read")
		require.NoError(t, err)
		d = w.depart(connection.BeginRequest{Connection: c.ID, Scopes: []string{"write"}})
		out, err := w.m.Callback(t.Context(), w.alice, d.Browser, w.consent(d, ann, nil))
		require.NoError(t, err)
		require.Equal(t, c.ID, out.Connection.ID)
		require.Equal(t, []string{"read", "write"}, out.Connection.Scopes)
		_, err = w.apply(w.m, old.Handle)
		require.ErrorIs(t, err, toolresult.ConnectionRequired, "handles of before are over")
		_, err = w.resolve(w.m, "read", "write")
		require.NoError(t, err)
		_, r := w.as.Live("ann")
		require.Equal(t, 1, r, "the old refresh token is revoked: revocation is by token here")
	})
}

// H2-76: where revoking one token ends the whole grant, what was replaced is
// left alone.
func TestExtensionWhereRevocationIsByGrant_H2_76(t *testing.T) {
	bubble(t, setup{provider: func(p *connection.Provider) { p.RevokesGrant = true }}, func(t *testing.T, w *world) {
		c := w.connect("read")
		d := w.depart(connection.BeginRequest{Connection: c.ID, Scopes: []string{"write"}})
		_, err := w.m.Callback(t.Context(), w.alice, d.Browser, w.consent(d, ann, nil))
		require.NoError(t, err)
		require.Zero(t, w.as.Count("revoke"))
	})
}

// H2-76 C5: the administrator's limits hold for every link and every departure.
func TestAdministratorsLimits_H2_76_C5(t *testing.T) {
	allow := true
	bubble(t, setup{opts: func(o *connection.Options) {
		o.Permit = func(_ context.Context, _ authz.Principal, provider string, scopes []string) error {
			if !allow {
				return fmt.Errorf("no: %v", scopes)
			}
			return nil
		}
	}}, func(t *testing.T, w *world) {
		_, err := w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets", Scopes: []string{"root"}})
		require.ErrorIs(t, err, toolresult.PermissionDenied, "not one of the profile's")
		link, err := w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets", Scopes: []string{"read"}})
		require.NoError(t, err)
		allow = false
		_, err = w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets", Scopes: []string{"read"}})
		require.ErrorIs(t, err, toolresult.PermissionDenied)
		_, err = w.m.Open(t.Context(), w.alice, link.ID)
		require.ErrorIs(t, err, toolresult.PermissionDenied, "asked again when the link is followed")
		_, err = w.resolve(w.m, "read")
		require.ErrorIs(t, err, toolresult.ConnectionRequired)
		require.Nil(t, toolresult.AsError(err).Connect, "no link to what is not permitted")
	})
}

// H2-78 H2-79 C5: the link is ours, names nobody and lets nobody in; following it
// is not a connection.
func TestLink_H2_78_H2_79(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		_, err := w.resolve(w.m, "read")
		step := toolresult.AsError(err).Connect
		require.NotNil(t, step)
		require.True(t, strings.HasPrefix(step.URL, "https://host.test/connect/"))
		require.NotContains(t, step.URL, "alice")
		require.NotContains(t, step.URL, "acme")
		id := strings.TrimPrefix(step.URL, "https://host.test/connect/")
		bob := authztest.Caller(t, w.host, "acme", "bob")
		_, err = w.m.Open(t.Context(), bob, id)
		require.ErrorIs(t, err, toolresult.NotFound, "another user's link")
		_, err = w.m.Pending(t.Context(), bob, id)
		require.ErrorIs(t, err, toolresult.NotFound)
		_, err = w.m.Open(t.Context(), authz.Principal{}, id)
		require.ErrorIs(t, err, toolresult.AuthenticationRequired)
		p, err := w.m.Pending(t.Context(), w.alice, id)
		require.NoError(t, err)
		require.Equal(t, "Tickets", p.Title)
		require.Equal(t, []string{"read"}, p.New)
		_, err = w.m.Open(t.Context(), w.alice, id)
		require.NoError(t, err)
		_, err = w.resolve(w.m, "read")
		require.ErrorIs(t, err, toolresult.ConnectionRequired, "to follow a link connects nothing")
		require.NotEqual(t, step.URL, toolresult.AsError(err).Connect.URL, "one that was followed is not handed out again")

		elapse(time.Hour)
		link, err := w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets"})
		require.NoError(t, err)
		elapse(15 * time.Minute)
		_, err = w.m.Open(t.Context(), w.alice, link.ID)
		require.ErrorIs(t, err, toolresult.NotFound, "over")
	})
}

// A thousand refused calls leave one link.
func TestLinkIsReused_C5(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		var first string
		for range 1000 {
			_, err := w.resolve(w.m, "read")
			step := toolresult.AsError(err).Connect
			require.NotNil(t, step)
			if first == "" {
				first = step.URL
			}
			require.Equal(t, first, step.URL)
		}
		_, err := w.resolve(w.m, "read", "write")
		require.NotEqual(t, first, toolresult.AsError(err).Connect.URL, "another need is another link")
		elapse(10 * time.Minute)
		_, err = w.resolve(w.m, "read")
		require.NotEqual(t, first, toolresult.AsError(err).Connect.URL, "with half of its time gone there is a new one")
	})
}

// H2-99 C8: transactions die with the generation of the connection that they are
// about.
func TestTransactionDiesWithItsConnection_H2_99(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		c := w.connect("read")
		d := w.depart(connection.BeginRequest{Connection: c.ID, Scopes: []string{"write"}})
		link, err := w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets", Connection: c.ID})
		require.NoError(t, err)
		q := w.consent(d, ann, nil)
		_, err = w.m.Disconnect(t.Context(), w.alice, c.ID)
		require.NoError(t, err)
		_, err = w.m.Open(t.Context(), w.alice, link.ID)
		require.Error(t, err)
		_, err = w.m.Callback(t.Context(), w.alice, d.Browser, q)
		require.ErrorContains(t, err, "changed meanwhile")
		require.Equal(t, connection.Disconnected, w.record(c.ID).State, "not brought back")
		a, r := w.as.Live("ann")
		require.Zero(t, r, "and what was got is revoked")
		require.LessOrEqual(t, a, 1)
		_, err = w.m.Begin(t.Context(), w.alice, &connection.BeginRequest{Provider: "tickets", Connection: c.ID})
		require.Error(t, err)
		require.NotEqual(t, c.ID, w.connect("read").ID, "a new one can be made")
	})
}

// H2-25: the first answer without a refresh token is a connection that says so;
// a later one does not wipe the refresh token that there is.
func TestNoRefreshToken_H2_25(t *testing.T) {
	bubble(t, setup{as: &authserver.Options{NoRefresh: true}}, func(t *testing.T, w *world) {
		c := w.connect("read")
		require.True(t, c.NoRefresh)
		require.Equal(t, connection.Active, c.State)
		elapse(59 * time.Minute)
		_, err := w.use(w.m)
		require.NoError(t, err, "good to its end")
		elapse(time.Minute)
		_, err = w.use(w.m)
		require.ErrorIs(t, err, toolresult.ConnectionRequired)
		require.Equal(t, connection.ReasonNoRefresh, w.record(c.ID).Reason)

		w.as.Set(func(o *authserver.Options) { o.NoRefresh = false })
		c = w.connect("read")
		require.False(t, c.NoRefresh)
		refresh := w.record(c.ID).Refresh
		w.as.Set(func(o *authserver.Options) { o.NoRefresh = true })
		again := w.connect("read")
		require.Equal(t, refresh, w.record(again.ID).Refresh)
		require.False(t, again.NoRefresh)
	})
}

// H2-26: scopes that the answer names are those that were granted, even if fewer;
// without any, they are those that were asked for.
func TestGrantedScopes_H2_26(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, w *world) {
		d := w.depart(connection.BeginRequest{Scopes: []string{"read", "write"}})
		out, err := w.m.Callback(t.Context(), w.alice, d.Browser, w.consent(d, ann, &authserver.Consents{Scopes: []string{"read"}}))
		require.NoError(t, err)
		require.Equal(t, []string{"read"}, out.Connection.Scopes)
		sent := len(w.api)
		_, err = w.resolve(w.m, "read", "write")
		require.ErrorIs(t, err, toolresult.InsufficientScope)
		require.Equal(t, []string{"write"}, toolresult.AsError(err).Connect.Missing)
		require.Len(t, w.api, sent, "before anything is sent to the API")

		w.as.Fail(authserver.Fault{Endpoint: "token", Edit: func(m map[string]any) { delete(m, "scope") }})
		require.Equal(t, []string{"read", "write"}, w.connect("read", "write").Scopes)
	})
}
