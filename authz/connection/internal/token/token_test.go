package token

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "CANARY-7d1f00aa"

func config(t testing.TB, h http.HandlerFunc) Config {
	t.Helper()
	_, eg := egresstest.Serve(t, h)
	return Config{Endpoint: egress.Profile{Name: "as", BaseURL: "http://127.0.0.1/token", Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Egress: eg, ClientID: "host", Method: Basic, Secret: func(context.Context) ([]byte, error) { return []byte(canary + "-secret"), nil }}
}

func newClient(t testing.TB, c Config) *Client {
	t.Helper()
	client, err := New(c)
	require.NoError(t, err)
	return client
}

// answering returns what a server's answer is read as.
func answering(t testing.TB, status int, typ, body string, edit func(*Config)) (*Answer, *Failure) {
	t.Helper()
	c := config(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typ)
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
	if edit != nil {
		edit(&c)
	}
	a, err := newClient(t, c).Post(t.Context(), url.Values{"refresh_token": {canary}})
	var f *Failure
	errors.As(err, &f)
	return a, f
}

const jsonType = "application/json"

// H2-21 O-07: no expires_in fails an answer, and none is for ever.
func TestExpiresIn_H2_21_O_07(t *testing.T) {
	const year = 366 * 24 * time.Hour
	for in, want := range map[string]time.Duration{
		`3600`: time.Hour, `"3600"`: time.Hour, `3600.0`: time.Hour, `" 60 "`: time.Minute, `1`: time.Second,
		`3600.5`: 0, `0`: 0, `-1`: 0, `"-1"`: 0, `null`: 0, `"never"`: 0, `""`: 0, `{}`: 0, `[3600]`: 0, `true`: 0, `1e3`: 0, `"0x10"`: 0, `"1_000"`: 0,
		`9223372036854775807`: year, `99999999999999999999`: year, `"99999999999999999999"`: year, `100000000000000000000000000000000000000000`: 0,
		`"3600; rm"`: 0, `"1/2"`: 0, `"."`: 0, `"3.6.0"`: 0,
	} {
		a, f := answering(t, 200, jsonType, `{"access_token":"a","refresh_token":"r","token_type":"bearer","expires_in":`+in+`}`, nil)
		require.Nil(t, f, in)
		require.Equal(t, want, a.Lifetime, in)
		require.Equal(t, "r", a.Refresh.Reveal(), in)
	}
}

// H2-20: only a bearer token is used as one, in any case; what else came is kept.
func TestTokenType_H2_20(t *testing.T) {
	for typ, usable := range map[string]bool{`"Bearer"`: true, `"bearer"`: true, `"BEARER"`: true, `"mac"`: false, `"N_A"`: false, `"DPoP"`: false, `""`: false, `null`: false, `7`: false, `"bot"`: false} {
		a, f := answering(t, 200, jsonType, `{"access_token":"a","refresh_token":"r","token_type":`+typ+`}`, nil)
		require.Nil(t, f, typ)
		require.Equal(t, usable, a.Usable, typ)
		require.Equal(t, "r", a.Refresh.Reveal())
	}
	a, _ := answering(t, 200, jsonType, `{"access_token":"a","token_type":"bot"}`, func(c *Config) { c.Types = []string{"Bot"} })
	require.True(t, a.Usable, "a type that the profile names")
}

// H2-26 H2-27: scopes as each provider separates them, and where it nests them.
func TestScopes_H2_26_H2_27(t *testing.T) {
	for _, row := range []struct {
		in     string
		comma  bool
		scopes []string
		said   bool
	}{
		{`"b a b"`, false, []string{"a", "b"}, true}, {`"b,a"`, true, []string{"a", "b"}, true}, {`"b, a"`, true, []string{"a", "b"}, true},
		{`"b,a"`, false, []string{"b,a"}, true}, {`["b","a"]`, false, []string{"a", "b"}, true}, {`""`, false, nil, true},
		{`null`, false, nil, false}, {`7`, false, nil, false}, {`["a",7]`, false, nil, false},
	} {
		a, f := answering(t, 200, jsonType, `{"access_token":"a","token_type":"bearer","scope":`+row.in+`}`, func(c *Config) { c.Comma = row.comma })
		require.Nil(t, f)
		require.Equal(t, row.said, a.Scoped, row.in)
		require.ElementsMatch(t, row.scopes, a.Scopes, row.in)
	}
	a, f := answering(t, 200, jsonType, `{"ok":true,"authed/user":{"access_token":"u","token_type":"user","scope":"chat:write,users:read"}}`,
		func(c *Config) { c.At, c.Comma, c.Types = "/authed~1user", true, []string{"user"} })
	require.Nil(t, f)
	require.Equal(t, "u", a.Access.Reveal())
	require.Equal(t, []string{"chat:write", "users:read"}, a.Scopes)
}

// H2-28 H2-47 H2-48 H2-49 H2-52 O-03: what an answer without tokens means for what
// was sent.
func TestKinds_H2_28_H2_47_H2_49_O_03(t *testing.T) {
	for _, row := range []struct {
		why    string
		status int
		typ    string
		body   string
		kind   Kind
		code   string
	}{
		{"invalid_grant", 400, jsonType, `{"error":"invalid_grant"}`, Dead, "invalid_grant"},
		{"invalid_grant at 401", 401, jsonType, `{"error":"invalid_grant"}`, Dead, "invalid_grant"},
		{"invalid_grant at 200", 200, jsonType, `{"error":"invalid_grant","access_token":"` + canary + `"}`, Dead, "invalid_grant"},
		{"GitHub", 200, jsonType, `{"error":"bad_refresh_token","error_description":"` + canary + `"}`, Dead, "bad_refresh_token"},
		{"GitHub, as a form", 200, "application/x-www-form-urlencoded", `error=bad_verification_code&error_description=` + canary, Dead, "bad_verification_code"},
		{"the client", 401, jsonType, `{"error":"invalid_client"}`, Misconfigured, "invalid_client"},
		{"no such page", 404, "text/html", canary, Misconfigured, ""},
		{"a redirect", 307, "text/html", canary, Misconfigured, ""},
		{"an unknown word", 400, jsonType, `{"error":"` + canary + `"}`, Refused, "other"},
		{"no word", 400, jsonType, `{}`, Refused, ""},
		{"an error that is no text", 400, jsonType, `{"error":{"code":"invalid_grant"}}`, Refused, ""},
		{"too many", 429, jsonType, `{}`, Throttled, ""},
		{"too many in a word", 400, jsonType, `{"error":"slow_down"}`, Throttled, "slow_down"},
		{"500", 500, "text/html", canary, Unknown, ""},
		{"503", 503, jsonType, `{"error":"temporarily_unavailable"}`, Unknown, "temporarily_unavailable"},
		{"408", 408, jsonType, `{}`, Unknown, ""},
		{"HTML at 200", 200, "text/html", "<html>" + canary, Unknown, ""},
		{"nothing at 200", 200, jsonType, ``, Unknown, ""},
		{"no token at 200", 200, jsonType, `{"token_type":"bearer"}`, Unknown, ""},
		{"an array at 200", 200, jsonType, `["` + canary + `"]`, Unknown, ""},
		{"cut off at 200", 200, jsonType, `{"access_token":"` + canary, Unknown, ""},
		{"204", 204, jsonType, ``, Unknown, ""},
	} {
		_, f := answering(t, row.status, row.typ, row.body, nil)
		require.NotNil(t, f, row.why)
		require.Equal(t, row.kind, f.Kind, row.why)
		require.Equal(t, row.code, f.Code, row.why)
		require.Equal(t, row.status, f.Status, row.why)
		noCanary(t, f)
	}
	_, f := answering(t, 400, jsonType, `{"error":"gone"}`, func(c *Config) { c.Dead = []string{"gone"} })
	require.Equal(t, Dead, f.Kind, "H2-54")
}

// noCanary prints an error in every way (H2-72, O-19, K-01, K-02, K-07).
func noCanary(t testing.TB, err error) {
	t.Helper()
	for _, e := range []error{err, fmt.Errorf("a: %w", fmt.Errorf("b: %w", err)), errors.Join(err, err)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%s", "%x"} {
			require.NotContains(t, fmt.Sprintf(verb, e), canary)
		}
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		require.NotContains(t, fmt.Sprintf("%+v", e), canary)
	}
	var f *Failure
	if errors.As(err, &f) && f.Cause() != nil {
		require.NotContains(t, fmt.Sprintf("%+v %#v", f.Cause(), f.Cause()), canary)
	}
}

// H2-48: what never left may be sent again.
func TestNotSent_H2_48(t *testing.T) {
	refused := errors.New("refused")
	for why, edit := range map[string]func(*Config){
		"no connection": func(c *Config) { c.Egress = &egress.Options{Resolve: c.Egress.Resolve, Dial: nil} },
		"a secret that cannot be read": func(c *Config) {
			c.Secret = func(context.Context) ([]byte, error) { return nil, fmt.Errorf("%w: %s", refused, canary) }
		},
		"an empty secret": func(c *Config) { c.Secret = func(context.Context) ([]byte, error) { return nil, nil } },
	} {
		c := config(t, func(http.ResponseWriter, *http.Request) { t.Error("sent: " + why) })
		edit(&c)
		c.Endpoint.BaseURL = "http://127.0.0.1:1/token?api_key=" + canary
		if why == "no connection" {
			c.Endpoint.BaseURL = "http://127.0.0.1:1/token"
		}
		client, err := New(c)
		if err != nil {
			noCanary(t, err)
			c.Endpoint.BaseURL = "http://127.0.0.1:1/token"
			client, err = New(c)
		}
		require.NoError(t, err)
		_, err = client.Post(t.Context(), url.Values{"refresh_token": {canary}})
		var f *Failure
		require.ErrorAs(t, err, &f, why)
		require.Equal(t, NotSent, f.Kind, why)
		noCanary(t, err)
	}
}

// H2-31: no redirect takes the secrets elsewhere, and answers and times are
// bounded.
func TestBounds_H2_31(t *testing.T) {
	elsewhere := 0
	c := config(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			elsewhere++
		}
		http.Redirect(w, r, "http://127.0.0.1/elsewhere", http.StatusTemporaryRedirect)
	})
	_, err := newClient(t, c).Post(t.Context(), url.Values{"refresh_token": {canary}})
	require.Error(t, err)
	require.Zero(t, elsewhere)

	_, f := answering(t, 200, jsonType, `{"access_token":"`+strings.Repeat("a", 2<<20)+`"}`, nil)
	require.NotNil(t, f)
	require.Equal(t, Unknown, f.Kind)

	synctest.Test(t, func(t *testing.T) {
		c := config(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		start := time.Now()
		_, err := newClient(t, c).Post(t.Context(), url.Values{})
		var f *Failure
		require.ErrorAs(t, err, &f)
		require.Equal(t, Unknown, f.Kind)
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestRetryAfter_H2_52(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for in, want := range map[string]time.Duration{
			"120": 2 * time.Minute, " 120 ": 2 * time.Minute, "0": 0, "-1": 0, "": 0, "soon": 0, "1.5": 0, "99999999999": 0, "2147483647": 24 * time.Hour,
			time.Now().Add(time.Minute).UTC().Format(http.TimeFormat):  time.Minute,
			time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
		} {
			require.Equal(t, want, retryAfter(http.Header{"Retry-After": {in}}), in)
		}
	})
}

// H2-70 K-06: a secret prints nothing, also as an unexported field, behind
// pointers and in maps.
func TestSecretPrintsNothing_H2_70_K_06(t *testing.T) {
	s := NewSecret(canary)
	type holder struct {
		in  Secret
		Out Secret
		p   *Secret
		m   map[string]Secret
	}
	h := holder{s, s, &s, map[string]Secret{"x": s}}
	for _, v := range []any{s, &s, h, &h, []Secret{s}, Answer{Access: s, Refresh: s}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			require.NotContains(t, fmt.Sprintf(verb, v), canary)
			require.NotContains(t, fmt.Sprintf(verb, v), fmt.Sprintf("%x", canary))
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		require.NotContains(t, log.String(), canary)
		text, err := json.Marshal(v)
		require.True(t, err != nil || !bytes.Contains(text, []byte(canary)))
		var b bytes.Buffer
		require.True(t, gob.NewEncoder(&b).Encode(v) != nil || !bytes.Contains(b.Bytes(), []byte(canary)))
	}
}

// Reading an answer never fails to find a token that is there, never panics, and
// never prints what it read.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"access_token":"a","expires_in":"3600"}`, `{"error":"invalid_grant"}`, `<html>`, `access_token=a&scope=b`, `{"access_token":{}}`, `[]`, `{"a":{"access_token":"x"}}`} {
		f.Add(200, "application/x-www-form-urlencoded", []byte(s), "/a")
	}
	c := &Client{}
	f.Fuzz(func(t *testing.T, status int, typ string, body []byte, at string) {
		c.c.At = at
		a, fail := c.read(&reply{status, http.Header{"Content-Type": {typ}}, body})
		switch {
		case (a == nil) == (fail == nil):
			t.Fatal("neither or both")
		case a != nil && (a.Access.IsZero() || a.Lifetime < 0 || a.Lifetime > maxLifetime || status/100 != 2):
			t.Fatalf("an answer without a token: %+v", a)
		case fail != nil && fail.Code != "other" && fail.Code != "" && meanings[fail.Code] == 0 && fail.Code != "server_error":
			t.Fatalf("the server's own words: %v", fail)
		}
	})
}
