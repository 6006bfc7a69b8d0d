package bearer_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/authz/bearer/bearertest"
)

// bubble runs a test in a bubble, with one world.
func bubble(t *testing.T, f func(t *testing.T, w *world), change ...func(*setup)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, change...)) })
}

func fresh(w *world) string { return w.as.Token(resource, "alice") }

// H1-40: a token under a new key is verified at once, by one fetch.
func TestNewKeyWorksAtOnce_H1_40(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		require.Zero(t, w.as.Fetches(), "nothing is fetched before it is needed")
		require.Equal(t, 200, w.post(fresh(w)).Status)
		time.Sleep(time.Second)
		w.as.Rotate("ES256")
		require.Equal(t, 200, w.post(fresh(w)).Status, "golang-jwt with keyfunc and jwx refuse it")
		require.Equal(t, 2, w.as.Fetches())
		w.as.Rotate("EdDSA")
		for range 3 {
			got := w.post(fresh(w))
			require.Equal(t, 503, got.Status, "a second rotation at once is not believed, and not called invalid")
			require.Equal(t, "30", got.Header.Get("Retry-After"))
			require.Empty(t, got.Challenge)
		}
		require.Equal(t, 2, w.as.Fetches())
		time.Sleep(30 * time.Second)
		require.Equal(t, 200, w.post(fresh(w)).Status, "it is when the caller was told to come back")
	})
}

// H1-41: tokens that name keys that are not there cost one fetch in half a minute
// (go-oidc: one each), and do not keep the scheduled ones away.
func TestUnknownKeys_H1_41(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		require.Equal(t, 200, w.post(fresh(w)).Status)
		time.Sleep(time.Minute)
		good := fresh(w)
		bogus := func(age int64) string {
			return w.as.Sign(w.with(map[string]any{"iat": time.Now().Unix() - age}), map[string]any{"kid": rand.Text()})
		}
		require.Equal(t, 401, w.post(bogus(0)).Status, "the fetch that it caused brought no such key")
		require.Equal(t, 2, w.as.Fetches())
		for range 50 {
			require.Equal(t, 503, w.post(bogus(0)).Status, "it could be there by now")
			require.Equal(t, 401, w.post(bogus(60)).Status, "one that was there when the keys were fetched would be known")
		}
		require.Equal(t, 2, w.as.Fetches())

		var wg sync.WaitGroup
		time.Sleep(time.Minute)
		for range 50 {
			wg.Go(func() { w.post(bogus(0)) })
		}
		wg.Wait()
		require.Equal(t, 3, w.as.Fetches(), "at the same time")
		require.Equal(t, 200, w.post(good).Status)

		// Under fire: a withdrawn key stops at its time all the same.
		old := w.as.Signer()
		keep := w.as.Sign(w.with(map[string]any{"exp": 9999999999}), nil)
		w.as.Rotate("ES256")
		w.as.Withdraw(old)
		before := w.as.Fetches()
		for range 600 {
			w.post(bogus(0))
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, w.as.Fetches()-before, 21)
		require.NotEqual(t, 200, w.post(keep).Status)
	})
}

// H1-42: known keys verify while their source is away, for as long as is said.
func TestKeysAway_H1_42(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		long := w.as.Sign(w.with(map[string]any{"exp": 9999999999}), nil)
		require.Equal(t, 200, w.post(long).Status)
		w.as.Fail(500)
		for range 23 {
			time.Sleep(time.Hour)
			require.Equal(t, 200, w.post(long).Status, "known keys go on")
		}
		got := w.post(w.as.Sign(w.with(nil), map[string]any{"kid": "new"}))
		require.Equal(t, 503, got.Status, "an unknown one cannot be found out about")
		require.Equal(t, 401, w.post(w.as.Sign(w.with(map[string]any{"exp": 1}), nil)).Status, "what needs no key is still refused")
		time.Sleep(time.Hour)
		got = w.post(long)
		require.Equal(t, 503, got.Status, "they are too old")
		require.Empty(t, got.Challenge, "and the token is not called invalid (H1-13)")
		require.Equal(t, "POLICY_UNAVAILABLE", got.Error.Data["code"])
		w.as.Fail(0)
		require.Equal(t, 503, w.post(long).Status, "not asked for again yet")
		wait, err := strconv.Atoi(got.Header.Get("Retry-After"))
		require.NoError(t, err)
		time.Sleep(time.Duration(wait) * time.Second)
		require.Equal(t, 200, w.post(long).Status)
	})
}

// H1-13, H1-42: without keys from the start it is 503, and no token is called bad.
func TestColdStartWithoutKeys_H1_13_H1_42(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.as.Fail(500)
		for range 20 {
			got := w.post(fresh(w))
			require.Equal(t, 503, got.Status)
			require.Equal(t, "5", got.Header.Get("Retry-After"))
			require.Equal(t, 7.0, got.ID)
			require.NotContains(t, got.Text, "500")
		}
		require.Equal(t, 1, w.as.Fetches(), "one fetch, whoever comes")
		require.Contains(t, w.log.String(), "status 500", "the operator knows why")
		w.as.Fail(0)
		time.Sleep(5 * time.Second)
		require.Equal(t, 200, w.post(fresh(w)).Status)
	})
}

// H1-43: a key that was withdrawn verifies nothing after the next fetch.
func TestWithdrawnKey_H1_43(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		old := w.as.Signer()
		token := w.as.Sign(w.with(map[string]any{"exp": 9999999999}), nil)
		require.Equal(t, 200, w.post(token).Status)
		w.as.Rotate("ES256")
		w.as.Withdraw(old)
		time.Sleep(10*time.Minute - time.Second)
		require.Equal(t, 200, w.post(token).Status, "known until the next refresh")
		time.Sleep(time.Second)
		require.Equal(t, 401, w.post(token).Status, "go-oidc keeps it until an unknown one comes")
		require.Equal(t, 2, w.as.Fetches())
	})
}

// H1-41: while one request fetches, those whose keys are there go on; those that need
// the answer wait for it. Who hangs up does not stop it.
func TestOneFetchAtATime_H1_41(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		token := fresh(w)
		release := w.as.Hold()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		status := make(chan int, 20)
		wg.Go(func() { status <- w.post(token, func(r *http.Request) { *r = *r.WithContext(ctx) }).Status })
		<-w.as.Waiting()
		for range 19 {
			wg.Go(func() { status <- w.post(token).Status })
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		release()
		wg.Wait()
		close(status)
		good := 0
		for s := range status {
			if s == 200 {
				good++
			}
		}
		require.GreaterOrEqual(t, good, 19)
		require.Equal(t, 1, w.as.Fetches())

		time.Sleep(10 * time.Minute)
		release = w.as.Hold()
		token = fresh(w)
		wg.Go(func() { w.post(token) })
		<-w.as.Waiting()
		require.Equal(t, 200, w.post(token).Status, "with the keys that there are")
		release()
		wg.Wait()
	})
}

// H1-44: an issuer that hangs costs five seconds.
func TestFetchEnds_H1_44(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		release := w.as.Hold()
		defer release()
		began := time.Now()
		require.Equal(t, 503, w.post(fresh(w)).Status)
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

// H1-44: which keys of a set are taken, and where a set may come from.
func TestKeySetRules_H1_44(t *testing.T) {
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	rows := []struct {
		name   string
		answer func(w *world) http.HandlerFunc
		status int
	}{
		{"control", func(w *world) http.HandlerFunc { return body(string(w.as.KeySet())) }, 200},
		{"keys of kinds that are not known are left out", func(w *world) http.HandlerFunc {
			return body(strings.Replace(string(w.as.KeySet()), `"keys":[`, `"keys":[{"kty":"quantum","kid":"q"},{"kty":"oct","kid":"o","k":"AAAA"},{"kid":7},{},`, 1))
		}, 200},
		{"a key for encryption verifies nothing", func(w *world) http.HandlerFunc {
			return body(strings.Replace(string(w.as.KeySet()), `"sig"`, `"enc"`, 1))
		}, 401},
		{"nor does one whose operations are others", func(w *world) http.HandlerFunc {
			return body(strings.Replace(string(w.as.KeySet()), `"use":"sig"`, `"key_ops":["encrypt"]`, 1))
		}, 401},
		{"one that may verify does", func(w *world) http.HandlerFunc {
			return body(strings.Replace(string(w.as.KeySet()), `"use":"sig"`, `"key_ops":["verify"]`, 1))
		}, 200},
		{"nor does one without an id", func(w *world) http.HandlerFunc {
			return body(strings.Replace(string(w.as.KeySet()), `"kid"`, `"kid2"`, 1))
		}, 401},
		{"an empty set is a set", func(*world) http.HandlerFunc { return body(`{"keys":[]}`) }, 401},
		{"no set", func(*world) http.HandlerFunc { return body(`{}`) }, 503},
		{"no JSON", func(*world) http.HandlerFunc { return body(`<html>`) }, 503},
		{"a set with two lists", func(w *world) http.HandlerFunc {
			return body(strings.Replace(string(w.as.KeySet()), `"keys"`, `"keys":[],"keys"`, 1))
		}, 503},
		{"too many keys", func(w *world) http.HandlerFunc { return body(`{"keys":[` + strings.Repeat(`{},`, 200) + `{}]}`) }, 503},
		{"too long", func(w *world) http.HandlerFunc {
			return body(strings.Repeat(" ", 2<<20) + string(w.as.KeySet()))
		}, 503},
		{"a redirect, even to itself", func(w *world) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery == "" {
					http.Redirect(rw, r, "/keys?again", http.StatusFound)
					return
				}
				_, _ = rw.Write(w.as.KeySet())
			}
		}, 503},
		{"another success", func(w *world) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(203); _, _ = rw.Write(w.as.KeySet()) }
		}, 503},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.as.Serve(row.answer(w))
				require.Equal(t, row.status, w.post(fresh(w)).Status, w.log.String())
				require.LessOrEqual(t, w.as.Fetches(), 2, "keys are fetched again for an unknown one at most")
			})
		})
	}
}

// H1-44: A weak key verifies nothing, however good the signature.
func TestWeakKey_H1_44(t *testing.T) {
	for bits, status := range map[int]int{1024: 401, 2047: 401, 2048: 200} {
		private, err := rsa.GenerateKey(rand.Reader, bits)
		require.NoError(t, err)
		w := newWorld(t)
		k := bearertest.KeyOf("weak", "RS256", private)
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{k.Public()}})
		require.NoError(t, err)
		w.as.Serve(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(text) }))
		payload, err := json.Marshal(w.with(nil))
		require.NoError(t, err)
		got := w.post(w.as.SignText(k, `{"alg":"RS256","kid":"weak","typ":"at+jwt"}`, string(payload)))
		require.Equal(t, status, got.Status, bits)
	}
}

// A token that was verified before is verified again by what may have changed:
// the time, the keys, and what the issuer says of them.
func TestRememberedSignature_A8(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		old := w.as.Signer()
		long := w.as.Sign(w.with(map[string]any{"exp": time.Now().Unix() + 3600}), nil)
		for range 3 {
			require.Equal(t, 200, w.post(long).Status)
		}
		forged := long[:len(long)-8] + "AAAAAAAA"
		require.Equal(t, 401, w.post(forged).Status, "another signature is another token")
		time.Sleep(10 * time.Minute)
		require.Equal(t, 200, w.post(long).Status, "with the same key, fetched again")

		// Another key takes the id.
		taken := *w.as.Make("ES256")
		taken.ID = old.ID
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{taken.Public()}})
		require.NoError(t, err)
		w.as.Serve(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(text) }))
		time.Sleep(10 * time.Minute)
		require.Equal(t, 401, w.post(long).Status)
		w.as.Serve(nil)
		time.Sleep(10 * time.Minute)
		require.Equal(t, 200, w.post(long).Status)
		w.as.Fail(500)
		time.Sleep(30 * time.Minute)
		require.Equal(t, 200, w.post(long).Status, "the keys are away, and bounded time is not over")
		time.Sleep(time.Minute)
		require.Equal(t, 401, w.post(long).Status, "it is over")
	})
}

func TestConfigurationIsChecked(t *testing.T) {
	w := newWorld(t)
	keys, tenant := w.as.Keys(), bearer.OneTenant("acme")
	jwt := func(o bearer.JWTOptions) error {
		_, err := bearer.NewJWT("https://i.test", keys, tenant, &o)
		return err
	}
	issuer := func(iss string) error {
		_, err := bearer.NewJWT(iss, keys, tenant, nil)
		return err
	}
	profile := func(url string, redirects int, limit time.Duration) error {
		p := keys
		p.BaseURL, p.Redirects, p.Limits.Total = url, redirects, limit
		_, err := bearer.NewJWT("https://i.test", p, tenant, nil)
		return err
	}
	ask := func(client bearer.ClientCredential, o bearer.IntrospectionOptions) error {
		_, err := bearer.NewIntrospection("https://i.test", w.as.Introspection(), client, tenant, &o)
		return err
	}
	v := func(iss string) *bearer.Verifier {
		v, err := bearer.NewJWT(iss, keys, tenant, nil)
		require.NoError(t, err)
		return v
	}
	opaque := func(iss string) *bearer.Verifier {
		v, err := bearer.NewIntrospection(iss, w.as.Introspection(), secret(), tenant, nil)
		require.NoError(t, err)
		return v
	}
	one := []*bearer.Verifier{v("https://i.test")}
	fresh := func(res string, vs []*bearer.Verifier, o bearer.Options) error {
		_, err := bearer.New(res, vs, &o)
		return err
	}
	_, noTenant := bearer.NewJWT("https://i.test", keys, nil, nil)
	for name, row := range map[string]struct {
		err  error
		says string
	}{
		"none is no algorithm":       {jwt(bearer.JWTOptions{Algorithms: []string{"none"}}), `"none" is not accepted`},
		"nor is a MAC":               {jwt(bearer.JWTOptions{Algorithms: []string{"RS256", "HS256"}}), `"HS256" is not accepted`},
		"no algorithm":               {jwt(bearer.JWTOptions{Algorithms: []string{}}), "empty"},
		"a long leeway (H1-28)":      {jwt(bearer.JWTOptions{Leeway: 3 * time.Minute}), "leeway"},
		"a negative leeway":          {jwt(bearer.JWTOptions{Leeway: -1}), "leeway"},
		"an empty alias":             {jwt(bearer.JWTOptions{Aliases: []string{""}}), "alias"},
		"a short refresh":            {jwt(bearer.JWTOptions{Refresh: time.Second}), "Refresh"},
		"stale before refresh":       {jwt(bearer.JWTOptions{Refresh: time.Hour, MaxStale: time.Minute}), "MaxStale"},
		"no tenant":                  {noTenant, "TenantFunc"},
		"an issuer in clear":         {issuer("http://issuer.test"), "https"},
		"an issuer with a query":     {issuer("https://issuer.test?x=1"), "query"},
		"an issuer with a fragment":  {issuer("https://issuer.test#x"), "fragment"},
		"an issuer with a user":      {issuer("https://u@issuer.test"), "user"},
		"an issuer that is a name":   {issuer("issuer.test"), "URL"},
		"no issuer":                  {issuer(""), "URL"},
		"keys in clear (H1-44)":      {profile("http://issuer.test/keys", 0, 0), "loopback"},
		"keys with redirects":        {profile("https://issuer.test/keys", 1, 0), "redirects"},
		"keys that take long":        {profile("https://issuer.test/keys", 0, time.Minute), "limits"},
		"no client (H1-50)":          {ask(nil, bearer.IntrospectionOptions{}), "ClientCredential"},
		"a long cache (H1-52)":       {ask(secret(), bearer.IntrospectionOptions{CacheFor: time.Hour}), "CacheFor"},
		"no verifier":                {fresh(resource, nil, bearer.Options{}), "verifier is needed"},
		"an empty verifier":          {fresh(resource, []*bearer.Verifier{{}}, bearer.Options{}), "empty"},
		"one issuer in two ways":     {fresh(resource, []*bearer.Verifier{one[0], opaque("https://i.test")}, bearer.Options{}), "two verifiers"},
		"two that ask":               {fresh(resource, []*bearer.Verifier{opaque("https://i.test"), opaque("https://j.test")}, bearer.Options{}), "wrong one"},
		"a resource in clear":        {fresh("http://mcp.test/mcp", one, bearer.Options{}), "https"},
		"a resource with a query":    {fresh("https://mcp.test/mcp?x", one, bearer.Options{}), "query"},
		"a resource with escapes":    {fresh("https://mcp.test/m%2Fcp", one, bearer.Options{}), "plain"},
		"a resource with dots":       {fresh("https://mcp.test/a/../mcp", one, bearer.Options{}), "plain"},
		"offline_access (H1-03)":     {fresh(resource, one, bearer.Options{Scopes: []string{"offline_access"}}), "offline_access"},
		"the same in the metadata":   {fresh(resource, one, bearer.Options{ScopesSupported: []string{"offline_access"}}), "offline_access"},
		"a scope with a quote":       {fresh(resource, one, bearer.Options{Scopes: []string{`a"`}}), "no scope"},
		"an included scope likewise": {fresh(resource, one, bearer.Options{Implies: map[string][]string{"a": {"b c"}}}), "no scope"},
		"a negative limit":           {fresh(resource, one, bearer.Options{MaxRequestBytes: -1}), "negative"},
	} {
		require.ErrorContains(t, row.err, row.says, name)
	}
}
