package bearer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer/bearertest"
)

func secret() bearer.ClientCredential {
	return bearer.ClientSecret(bearertest.Client, func(context.Context) ([]byte, error) { return []byte(bearertest.Secret), nil })
}

func asking(s *setup) { s.ask = &bearer.IntrospectionOptions{} }

// reads lets calls of one tool be let in by what is remembered.
func reads(s *setup) { s.opts.Cached = func(tool string) bool { return tool == "tickets.get" } }

// answered makes a token about which introspection says something.
func answered(change map[string]any) func(*world) string {
	return func(w *world) string { return w.as.Opaque(w.with(change)) }
}

func TestIntrospectionMatrix_A1(t *testing.T) {
	body := func(status int, text string) func(*world) string {
		return func(w *world) string {
			w.as.Serve(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status); fmt.Fprint(rw, text) }))
			return "opaque"
		}
	}
	rows := []row{
		{name: "active", token: answered(nil), status: 200},
		{name: "without iss, iat, jti and client", token: answered(map[string]any{"iss": nil, "iat": nil, "jti": nil, "client_id": nil}), status: 200},
		{name: "without an end", id: "H1-52", token: answered(map[string]any{"exp": nil}), status: 200},
		{name: "of type bearer", token: answered(map[string]any{"token_type": "bearer"}), status: 200},

		{name: "not known to the issuer", id: "H1-50", token: func(*world) string { return "nobody-knows" }, why: "not active"},
		{name: "inactive, with claims as zitadel sends them", id: "H1-50", token: answered(map[string]any{"active": false}), why: "not active"},
		{name: "active in a string", id: "H1-50", token: answered(map[string]any{"active": "true"}), status: 503, why: "does not say"},
		{name: "active as a number", id: "H1-50", token: answered(map[string]any{"active": 1}), status: 503, why: "does not say"},
		{name: "without active", id: "H1-50", token: body(200, `{"sub":"alice"}`), status: 503, why: "does not say"},
		{name: "active twice", id: "H1-50", token: body(200, `{"active":false,"active":true}`), status: 503, why: "does not say"},
		{name: "active in another case", id: "H1-50", token: body(200, `{"Active":true}`), status: 503, why: "does not say"},
		{name: "no JSON", id: "H1-50", token: body(200, `<html>`), status: 503, why: "does not say"},
		{name: "a list", id: "H1-50", token: body(200, `[]`), status: 503, why: "does not say"},
		{name: "nothing", id: "H1-50", token: body(200, ``), status: 503, why: "does not say"},
		{name: "another success", id: "H1-50", token: body(201, `{"active":true}`), status: 503, why: "did not answer"},
		{name: "our credential is refused", id: "H1-50", token: body(401, `{"active":false}`), status: 503, why: "did not answer"},
		{name: "forbidden", id: "H1-50", token: body(403, ``), status: 503, why: "did not answer"},
		{name: "broken", id: "H1-13", token: body(500, ``), status: 503, why: "did not answer"},
		{name: "a redirect", id: "H1-44", token: func(w *world) string {
			w.as.Serve(http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect))
			return "opaque"
		}, status: 503, why: "did not answer"},
		{name: "too long", id: "H1-44", token: body(200, `{"active":false,"x":"`+strings.Repeat("x", 65<<10)+`"}`), status: 503, why: "could not be asked"},

		{name: "another audience", id: "H1-51", token: answered(map[string]any{"aud": "https://other.test"}), why: "another resource"},
		{name: "no audience", id: "H1-51", token: answered(map[string]any{"aud": nil}), why: "another resource"},
		{name: "another issuer's name", id: "H1-25", token: answered(map[string]any{"iss": "https://other.test"}), why: "another issuer"},
		{name: "expired, and active", id: "H1-28", token: func(w *world) string { return answered(map[string]any{"exp": time.Now().Unix() - 31})(w) }, why: "expired"},
		{name: "not valid yet", id: "H1-28", token: func(w *world) string { return answered(map[string]any{"nbf": time.Now().Unix() + 31})(w) }, why: "not valid yet"},
		{name: "an end in a string", id: "H1-29", token: answered(map[string]any{"exp": "9999999999"}), why: "exp"},
		{name: "no subject", id: "H1-32", token: answered(map[string]any{"sub": nil}), why: "sub is missing"},
		{name: "bound to a key", id: "H1-61", token: answered(map[string]any{"cnf": map[string]any{"jkt": "x"}}), why: "another scheme"},
		{name: "of type DPoP, bound to nothing", id: "H1-61", token: answered(map[string]any{"token_type": "DPoP"}), why: "type that is not known"},
		{name: "a refresh token", id: "H1-50", token: answered(map[string]any{"token_use": "refresh_token"}), why: "another use"},

		// H1-54: one issuer, one way.
		{name: "a JWT of the issuer that knows it", id: "H1-54", token: func(w *world) string {
			token := w.as.Token(resource, "alice")
			w.as.Register(token, w.with(nil))
			return token
		}, status: 200},
		{name: "a JWT of the issuer, well signed, that does not know it", id: "H1-54", token: func(w *world) string { return w.as.Token(resource, "alice") }, why: "not active"},
	}
	for _, row := range rows {
		t.Run(row.id+" "+row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				token := row.token(w)
				got := w.post(token)
				want := row.status
				if want == 0 {
					want = 401
				}
				require.Equal(t, want, got.Status, w.log.String())
				require.Contains(t, w.log.String(), row.why)
				require.NotContains(t, w.log.String(), token)
				require.Equal(t, want == 503, got.Header.Get("Retry-After") != "")
				require.Equal(t, want == 401, strings.Contains(got.Challenge, "invalid_token"))
				require.Zero(t, w.as.Fetches(), "no key is fetched where the issuer is asked")
				require.Equal(t, 1, w.as.Asked())
			}, asking)
		})
	}
}

// H1-54: A token goes to its own issuer and to no other.
func TestTokensAreNotShownAround_H1_54(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		other := bearertest.New(t)
		other.Issuer = "https://other.test"
		v, err := bearer.NewJWT(other.Issuer, other.Keys(), bearer.OneTenant("globex"), &bearer.JWTOptions{Egress: other.Egress()})
		require.NoError(t, err)
		ask, err := bearer.NewIntrospection(w.as.Issuer, w.as.Introspection(), secret(), bearer.OneTenant("acme"), &bearer.IntrospectionOptions{Egress: w.as.Egress()})
		require.NoError(t, err)
		b, err := bearer.New(resource, []*bearer.Verifier{v, ask}, nil)
		require.NoError(t, err)
		get := func(token string) error {
			_, err := b.Principal(t.Context(), withToken(token))
			return err
		}
		require.NoError(t, get(other.Token(resource, "bob")))
		require.NoError(t, get(w.as.Opaque(w.as.Claims(resource, "alice"))))
		require.Equal(t, 1, w.as.Asked())
		stranger := other.Claims(resource, "bob")
		stranger["iss"] = "https://third.test"
		require.Error(t, get(other.Sign(stranger, nil)))
		require.Error(t, get(other.Sign(other.Claims("x", "bob"), nil)))
		require.Error(t, get(other.SignText(other.Signer(), `{"alg":"ES256","alg":"ES256"}`, `{}`)), "an ill-formed JWS is nobody's secret")
		require.Equal(t, 1, w.as.Asked())
	})
}

// H1-52: an answer is kept for as long as is said, and never past the end of the token.
func TestIntrospectionCache_H1_52(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		token := answered(nil)(w)
		for range 10 {
			require.Equal(t, 200, w.post(token).Status)
		}
		require.Equal(t, 1, w.as.Asked(), "lists are let in by what is remembered")
		w.as.Revoke(token)
		require.Equal(t, 200, w.send(token, call("tickets.get")).Status, "a call of a tool that only reads, too")
		require.Equal(t, 200, w.send(token, call("tickets.get"), modern("tools/call", "tickets.get")).Status)
		require.Equal(t, 1, w.as.Asked())
		require.Equal(t, 401, w.send(token, call("tickets.create")).Status, "a change is not")
		require.Equal(t, 401, w.send(token, call("tickets.get")).Status, "and now it is known")
		require.Equal(t, 2, w.as.Asked())

		token = answered(nil)(w)
		require.Equal(t, 200, w.post(token).Status)
		w.as.Revoke(token)
		time.Sleep(30*time.Second - 1)
		require.Equal(t, 200, w.post(token).Status)
		time.Sleep(time.Nanosecond)
		require.Equal(t, 401, w.post(token).Status, "half a minute, and no longer")

		token = w.as.Opaque(w.with(map[string]any{"exp": time.Now().Unix() + 10}))
		require.Equal(t, 200, w.post(token).Status)
		w.as.Revoke(token)
		time.Sleep(10*time.Second - 1)
		require.Equal(t, 200, w.post(token).Status)
		time.Sleep(time.Nanosecond)
		require.Equal(t, 401, w.post(token).Status, "never past exp")
	}, asking, reads)
}

// H1-52: without Options.Cached no call of a tool is let in by what is remembered.
func TestCallsAreAskedAbout_H1_52(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		token := answered(nil)(w)
		require.Equal(t, 200, w.post(token).Status)
		for i := range 3 {
			require.Equal(t, 200, w.send(token, call("tickets.get")).Status)
			require.Equal(t, 2+i, w.as.Asked())
		}
		require.Equal(t, 200, w.send(token, "no JSON").Status)
		require.Equal(t, 5, w.as.Asked(), "what cannot be read could be a call")
	}, asking)
}

// H1-53: an inactive token is asked about again after five seconds, and no sooner.
func TestInactiveIsRemembered_H1_53(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for range 20 {
			require.Equal(t, 401, w.post("bad").Status)
			require.Equal(t, 401, w.send("bad", call("tickets.create")).Status)
		}
		require.Equal(t, 1, w.as.Asked(), "what is not active does not become so")
		time.Sleep(5 * time.Second)
		w.post("bad")
		require.Equal(t, 2, w.as.Asked())
		for i := range 100 {
			w.post(fmt.Sprint("bad-", i))
		}
		w.post("bad")
		require.Equal(t, 103, w.as.Asked(), "and as many are remembered as may be")
	}, func(s *setup) { s.ask = &bearer.IntrospectionOptions{CacheTokens: 8} })
}

// H1-53: requests with one token ask once, at the same time; one of them hangs up and
// the others have their answer. A failure is shared too, and not remembered.
func TestConcurrentMisses_H1_53(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		token := answered(nil)(w)
		round := func(status int) {
			release := w.as.Hold()
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { w.post(token, func(r *http.Request) { *r = *r.WithContext(ctx) }) })
			<-w.as.Waiting()
			for range 20 {
				wg.Go(func() { require.Equal(t, status, w.post(token).Status) })
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			release()
			wg.Wait()
		}
		w.as.Fail(500)
		round(503)
		require.Equal(t, 1, w.as.Asked())
		w.as.Fail(0)
		round(200)
		require.Equal(t, 2, w.as.Asked())
	}, asking)
}

// H1-52: an answer to an early question does not undo what a later one brought.
func TestLateAnswer_H1_52(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		token := answered(nil)(w)
		release := make(chan struct{})
		first := true
		w.as.Serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if first {
				first = false
				<-release
				fmt.Fprintf(rw, `{"active":true,"sub":"alice","aud":%q}`, resource)
				return
			}
			fmt.Fprint(rw, `{"active":false}`)
		}))
		var wg sync.WaitGroup
		wg.Go(func() { w.post(token) })
		synctest.Wait()
		time.Sleep(time.Second)
		require.Equal(t, 401, w.send(token, call("tickets.create")).Status)
		close(release)
		wg.Wait()
		require.Equal(t, 401, w.post(token).Status)
	}, asking)
}

// H1-13: an issuer that is away costs five seconds and is 503, also for a token that
// was good before; one that is still remembered goes on.
func TestIssuerAway_H1_13(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		token := answered(nil)(w)
		require.Equal(t, 200, w.post(token).Status)
		release := w.as.Hold()
		defer release()
		require.Equal(t, 200, w.post(token).Status)
		began := time.Now()
		got := w.send(token, call("tickets.create"))
		require.Equal(t, 503, got.Status)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.Equal(t, "5", got.Header.Get("Retry-After"))
		require.Empty(t, got.Challenge)
	}, asking)
}

// H1-50: the server authenticates, by a secret that is asked for each time.
func TestClientSecret_H1_50(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		current, failing := []byte("wrong &ü"), error(nil)
		client := bearer.ClientSecret("id:with colon", func(context.Context) ([]byte, error) { return current, failing })
		v, err := bearer.NewIntrospection(w.as.Issuer, w.as.Introspection(), client, bearer.OneTenant("acme"), &bearer.IntrospectionOptions{Egress: w.as.Egress()})
		require.NoError(t, err)
		b, err := bearer.New(resource, []*bearer.Verifier{v}, nil)
		require.NoError(t, err)
		var got []string
		w.as.Serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			id, password, _ := r.BasicAuth()
			got = append(got, id+" "+password+" "+r.PostFormValue("token")+" "+r.PostFormValue("token_type_hint"))
			fmt.Fprint(rw, `{"active":false}`)
		}))
		ask := func(token string) { _, err = b.Principal(t.Context(), withToken(token)) }
		ask("one")
		current = []byte("right")
		ask("two")
		require.Equal(t, []string{"id%3Awith+colon wrong+%26%C3%BC one access_token", "id%3Awith+colon right two access_token"}, got)
		current = nil
		ask("three")
		require.ErrorContains(t, err, "POLICY_UNAVAILABLE")
		failing = errors.New("the vault is closed")
		ask("four")
		require.ErrorContains(t, err, "POLICY_UNAVAILABLE")
		require.Len(t, got, 2, "nothing is sent without a credential")
	})
}

// A principal of a token without an end has one.
func TestTokenWithoutEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		require.Equal(t, 200, w.post(answered(map[string]any{"exp": nil})(w)).Status)
		require.Equal(t, 5*time.Minute, time.Until(w.who.Expires()))
	}, asking)
}
