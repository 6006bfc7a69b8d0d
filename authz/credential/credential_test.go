package credential_test

import (
	"bytes"
	"context"
	"encoding"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	canary = "CANARY-3f9c2b71"
	origin = "https://api.example.com"
	full   = "https://api.example.com:443"
)

func key(context.Context) ([]byte, error) { return []byte(canary), nil }

func newStatic(t testing.TB, opts *credential.StaticOptions) *credential.Static {
	t.Helper()
	s, err := credential.NewStatic("acme", origin, key, opts)
	require.NoError(t, err)
	return s
}

func ask(p authz.Principal) *credential.ResolveRequest {
	return &credential.ResolveRequest{Principal: p, Connector: "tickets", Capability: "tickets.get", Call: "c1", Mode: "api_key"}
}

func newRequest(t testing.TB, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	return req
}

func TestApply_C4(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	for _, row := range []struct {
		why          string
		opts         *credential.StaticOptions
		header, want string
	}{
		{"a bearer token by default", nil, "Authorization", "Bearer " + canary},
		{"a header of the provider's", &credential.StaticOptions{Header: "X-Redmine-API-Key"}, "X-Redmine-Api-Key", canary},
		{"with a prefix", &credential.StaticOptions{Header: "authorization", Prefix: "Token "}, "Authorization", "Token " + canary},
	} {
		s := newStatic(t, row.opts)
		r, err := s.Resolve(t.Context(), ask(alice))
		require.NoError(t, err, row.why)
		require.Equal(t, "static", r.Connection)
		req := newRequest(t, origin+"/tickets/5")
		req.Header[strings.ToLower(row.header)] = []string{"somebody else's"}
		req.Header.Set(row.header, "somebody else's")
		require.NoError(t, s.Apply(t.Context(), r.Handle, full, req), row.why)
		require.Equal(t, http.Header{row.header: {row.want}}, req.Header, row.why)
		require.NoError(t, s.Check(t.Context(), r.Handle))
	}
}

// Each refusal leaves the request as it was.
func TestApplyRefuses_C6_E7(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	s, other := newStatic(t, nil), newStatic(t, nil)
	mine, err := s.Resolve(t.Context(), ask(alice))
	require.NoError(t, err)
	theirs, err := other.Resolve(t.Context(), ask(alice))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended, err := s.Resolve(ctx, ask(alice))
	require.NoError(t, err)
	cancel()
	for _, row := range []struct {
		why         string
		h           credential.Handle
		origin, url string
		host        string
		want        error
	}{
		{"control", mine.Handle, full, origin + "/x", "", nil},
		{"the zero handle", credential.Handle{}, full, origin + "/x", "", toolresult.ConnectionRequired},
		{"a handle that nobody made", credential.NewHandle(), full, origin + "/x", "", toolresult.ConnectionRequired},
		{"a handle of another broker", theirs.Handle, full, origin + "/x", "", toolresult.ConnectionRequired},
		{"a handle whose call is over", ended.Handle, full, origin + "/x", "", toolresult.ConnectionRequired},
		{"another host", mine.Handle, "https://evil.example:443", "https://evil.example/x", "", toolresult.EgressDenied},
		{"another port", mine.Handle, "https://api.example.com:8443", "https://api.example.com:8443/x", "", toolresult.EgressDenied},
		{"plaintext", mine.Handle, "http://api.example.com:80", "http://api.example.com/x", "", toolresult.EgressDenied},
		{"a longer host", mine.Handle, "https://api.example.com.evil.example:443", "https://api.example.com.evil.example/x", "", toolresult.EgressDenied},
		{"the origin without its port", mine.Handle, origin, origin + "/x", "", toolresult.EgressDenied},
		{"a request that goes elsewhere than it says", mine.Handle, full, "https://evil.example/x", "", toolresult.EgressDenied},
		{"and names the right host", mine.Handle, full, "https://evil.example/x", "api.example.com", toolresult.EgressDenied},
		{"a request for another host of the same server", mine.Handle, full, origin + "/x", "evil.example", toolresult.EgressDenied},
		{"no origin", mine.Handle, "", origin + "/x", "", toolresult.EgressDenied},
	} {
		req := newRequest(t, row.url)
		if row.host != "" {
			req.Host = row.host
		}
		err := s.Apply(t.Context(), row.h, row.origin, req)
		require.ErrorIs(t, err, row.want, row.why)
		require.Equal(t, row.want != nil, len(req.Header) == 0, row.why)
		if row.want == toolresult.ConnectionRequired {
			require.ErrorIs(t, s.Check(t.Context(), row.h), row.want, row.why)
		}
	}
	require.ErrorIs(t, s.Apply(t.Context(), mine.Handle, full, nil), toolresult.EgressDenied)
}

// A3, E7: nobody gets the key of another tenant, and is told no more than that
// there is none.
func TestResolve_A3_S4_E7(t *testing.T) {
	a := authz.NewAuthority("test")
	caller := func(id authz.Identity) authz.Principal {
		id.Issuer, id.Subject = "i", "alice"
		p, err := a.Principal(id)
		require.NoError(t, err)
		return p
	}
	alice := caller(authz.Identity{Tenant: "acme"})
	opts := &credential.StaticOptions{Connector: "tickets", Mode: "api_key", Connection: "main", Account: "svc", Org: "o", Endpoint: "e", Scopes: []string{"read"}}
	s := newStatic(t, opts)
	var texts []string
	for _, row := range []struct {
		why    string
		change func(*credential.ResolveRequest)
		want   error
	}{
		{"control", func(r *credential.ResolveRequest) {}, nil},
		{"the connection by name", func(r *credential.ResolveRequest) { r.Connection = "main"; r.Scopes = []string{"read"} }, nil},
		{"another tenant", func(r *credential.ResolveRequest) { r.Principal = caller(authz.Identity{Tenant: "evil"}) }, toolresult.ConnectionRequired},
		{"another connector", func(r *credential.ResolveRequest) { r.Connector = "chat" }, toolresult.ConnectionRequired},
		{"another mode", func(r *credential.ResolveRequest) { r.Mode = "oauth" }, toolresult.ConnectionRequired},
		{"another connection", func(r *credential.ResolveRequest) { r.Connection = "other" }, toolresult.ConnectionRequired},
		{"a scope that the key lacks", func(r *credential.ResolveRequest) { r.Scopes = []string{"read", "write"} }, toolresult.InsufficientScope},
		{"nobody", func(r *credential.ResolveRequest) { r.Principal = authz.Principal{} }, toolresult.AuthenticationRequired},
		{"an identity that is over", func(r *credential.ResolveRequest) {
			r.Principal = caller(authz.Identity{Tenant: "acme", Expires: time.Now().Add(-time.Second)})
		}, toolresult.AuthenticationRequired},
		{"a delegation that is over", func(r *credential.ResolveRequest) {
			r.Principal = caller(authz.Identity{Tenant: "acme", Delegation: &authz.Delegation{Actor: "bot", Expires: time.Now().Add(-time.Second)}})
		}, toolresult.AuthenticationRequired},
	} {
		req := ask(alice)
		row.change(req)
		r, err := s.Resolve(t.Context(), req)
		require.ErrorIs(t, err, row.want, row.why)
		require.Equal(t, row.want != nil, r.Handle.IsZero(), row.why)
		if row.want == toolresult.ConnectionRequired {
			texts = append(texts, err.Error())
		}
		if row.want == nil {
			require.Equal(t, []string{"main", "svc", "o", "e"}, []string{r.Connection, r.Account, r.Org, r.Endpoint})
		}
	}
	for _, text := range texts {
		require.Equal(t, texts[0], text, "foreign and missing read alike")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Resolve(over, ask(alice))
	require.ErrorIs(t, err, toolresult.Cancelled)
	_, err = s.Resolve(t.Context(), nil)
	require.ErrorIs(t, err, toolresult.AuthenticationRequired)
	var zero credential.Static
	_, err = zero.Resolve(t.Context(), ask(alice))
	require.ErrorIs(t, err, toolresult.ConnectionRequired)
	require.ErrorIs(t, zero.Apply(t.Context(), credential.NewHandle(), full, newRequest(t, origin)), toolresult.ConnectionRequired)
}

// S4: a handle ends with its call, its lifetime and its principal.
func TestHandleEnds_S4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p, err := authz.NewAuthority("test").Principal(authz.Identity{Tenant: "acme", Issuer: "i", Subject: "s", Expires: start.Add(10 * time.Minute)})
		require.NoError(t, err)
		long, err := authz.NewAuthority("test").Principal(authz.Identity{Tenant: "acme", Issuer: "i", Subject: "s"})
		require.NoError(t, err)
		s := newStatic(t, &credential.StaticOptions{Lifetime: 30 * time.Minute})
		j := credential.Join(s)
		byIdentity, err := j.Resolve(t.Context(), ask(p))
		require.NoError(t, err)
		require.Equal(t, start.Add(10*time.Minute), byIdentity.Expires)
		byLifetime, err := j.Resolve(context.Background(), ask(long))
		require.NoError(t, err)
		require.Equal(t, start.Add(30*time.Minute), byLifetime.Expires)
		check := func(h credential.Handle, good bool) {
			t.Helper()
			for _, b := range []credential.Broker{s, j} {
				err := b.Apply(t.Context(), h, full, newRequest(t, origin))
				require.Equal(t, good, err == nil, err)
				require.Equal(t, good, b.Check(t.Context(), h) == nil)
			}
		}
		time.Sleep(10*time.Minute - time.Nanosecond)
		check(byIdentity.Handle, true)
		time.Sleep(time.Nanosecond)
		check(byIdentity.Handle, false)
		check(byLifetime.Handle, true)
		time.Sleep(20 * time.Minute)
		check(byLifetime.Handle, false)
	})
}

// S4: the end of a call counts at once, and not when somebody has cleaned up.
func TestHandleEndsAtOnce_S4(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	s := newStatic(t, nil)
	for range 500 {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := s.Resolve(ctx, ask(alice))
		require.NoError(t, err)
		cancel()
		require.ErrorIs(t, s.Check(t.Context(), r.Handle), toolresult.ConnectionRequired)
	}
}

// S4: after a suspected leak nothing more is signed, for running calls either.
func TestDisable_S4(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	s := newStatic(t, nil)
	r, err := s.Resolve(t.Context(), ask(alice))
	require.NoError(t, err)
	s.Disable()
	require.ErrorIs(t, s.Apply(t.Context(), r.Handle, full, newRequest(t, origin)), toolresult.ConnectionRequired)
	require.ErrorIs(t, s.Check(t.Context(), r.Handle), toolresult.ConnectionRequired)
	_, err = s.Resolve(t.Context(), ask(alice))
	require.ErrorIs(t, err, toolresult.ConnectionRequired)
}

// A key that could break out of its header is not sent, and not quoted.
func TestBadKeys_R10(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	for _, row := range []struct {
		why, key string
		err      error
		says     string
	}{
		{"a header more", canary + "\r\nX-Admin: 1", nil, "is not visible ASCII"},
		{"a line break at the end, as files have it", canary + "\n", nil, "ends with a line break"},
		{"NUL", canary + "\x00", nil, "is not visible ASCII"},
		{"a space", canary + " x", nil, "is not visible ASCII"},
		{"not ASCII", canary + "é", nil, "is not visible ASCII"},
		{"empty", "", nil, "is empty"},
		{"huge", strings.Repeat(canary, 1000), nil, "the limit is 8192"},
		{"it cannot be read", canary, errors.New("no such file"), "no such file"},
	} {
		s, err := credential.NewStatic("acme", origin, func(context.Context) ([]byte, error) { return []byte(row.key), row.err }, nil)
		require.NoError(t, err)
		r, err := s.Resolve(t.Context(), ask(alice))
		require.NoError(t, err)
		req := newRequest(t, origin)
		err = s.Apply(t.Context(), r.Handle, full, req)
		require.ErrorIs(t, err, toolresult.ProviderUnavailable, row.why)
		require.Empty(t, req.Header, row.why)
		cause := toolresult.AsError(err).Cause()
		require.ErrorContains(t, cause, row.says, row.why)
		require.NotContains(t, fmt.Sprintf("%+v %v", err, cause), canary, row.why)
	}
}

func TestKeyRotates(t *testing.T) {
	alice, _ := authztest.Principal(t, "acme", "alice")
	n := 0
	s, err := credential.NewStatic("acme", origin, func(context.Context) ([]byte, error) { n++; return fmt.Append(nil, "k", n), nil }, nil)
	require.NoError(t, err)
	r, err := s.Resolve(t.Context(), ask(alice))
	require.NoError(t, err)
	require.Zero(t, n, "to resolve is not to read")
	for _, want := range []string{"Bearer k1", "Bearer k2"} {
		req := newRequest(t, origin)
		require.NoError(t, s.Apply(t.Context(), r.Handle, full, req))
		require.Equal(t, want, req.Header.Get("Authorization"))
	}
}

func TestNewStaticRefuses(t *testing.T) {
	for _, row := range []struct {
		why, tenant, origin string
		secret              func(context.Context) ([]byte, error)
		opts                *credential.StaticOptions
		says                string
	}{
		{"no tenant", "", origin, key, nil, "needs a tenant"},
		{"no secret", "acme", origin, nil, nil, "a function that reads it"},
		{"no origin", "acme", "", key, nil, "an origin is"},
		{"a path", "acme", origin + "/v1", key, nil, "an origin is"},
		{"a slash", "acme", origin + "/", key, nil, "an origin is"},
		{"a user", "acme", "https://u:" + canary + "@api.example.com", key, nil, "an origin is"},
		{"a bad escape with a password", "acme", "https://u:" + canary + "%zz@api.example.com", key, nil, "is no URL"},
		{"another scheme", "acme", "ftp://api.example.com", key, nil, "an origin is"},
		{"no host", "acme", "https://:443", key, nil, "an origin is"},
		{"a header with a line break", "acme", origin, key, &credential.StaticOptions{Header: "X\r\nY"}, "not the name of a header field"},
		{"a header that frames", "acme", origin, key, &credential.StaticOptions{Header: "transfer-encoding"}, "cannot carry a key"},
		{"a prefix that breaks out", "acme", origin, key, &credential.StaticOptions{Header: "X-Key", Prefix: "a\nb"}, "the prefix"},
		{"a prefix without a header", "acme", origin, key, &credential.StaticOptions{Prefix: "Token "}, "Prefix needs a Header"},
		{"a lifetime that is over", "acme", origin, key, &credential.StaticOptions{Lifetime: -1}, "the lifetime is"},
	} {
		s, err := credential.NewStatic(row.tenant, row.origin, row.secret, row.opts)
		require.ErrorContains(t, err, row.says, row.why)
		require.NotContains(t, err.Error(), canary, row.why)
		require.Nil(t, s)
	}
	for _, same := range []string{origin, full, "https://API.example.com"} {
		s, err := credential.NewStatic("acme", same, key, nil)
		require.NoError(t, err)
		alice, _ := authztest.Principal(t, "acme", "alice")
		r, err := s.Resolve(t.Context(), ask(alice))
		require.NoError(t, err)
		require.NoError(t, s.Apply(t.Context(), r.Handle, full, newRequest(t, "https://api.EXAMPLE.com:443/x")), same)
	}
}

// asker is a broker that always asks for an account.
type asker struct{ credential.Broker }

func (asker) Resolve(context.Context, *credential.ResolveRequest) (credential.Resolved, error) {
	e := toolresult.NewError(toolresult.ConnectionRequired, "connect one")
	e.Connect = &toolresult.ConnectStep{Provider: "tickets"}
	return credential.Resolved{}, e
}

func TestJoin_A3(t *testing.T) {
	a := authz.NewAuthority("test")
	alice, bob, eve := authztest.Caller(t, a, "acme", "alice"), authztest.Caller(t, a, "umbrella", "bob"), authztest.Caller(t, a, "evil", "eve")
	static := func(tenant, secret, connection string) *credential.Static {
		s, err := credential.NewStatic(tenant, origin, func(context.Context) ([]byte, error) { return []byte(secret), nil }, &credential.StaticOptions{Connection: connection})
		require.NoError(t, err)
		return s
	}
	j := credential.Join(nil, asker{}, static("acme", "a1", "one"), static("umbrella", "u1", "one"), static("umbrella", "u2", "two"))
	for _, row := range []struct {
		why        string
		p          authz.Principal
		connection string
		want       error
		key        string
	}{
		{"the tenant's own", alice, "", nil, "Bearer a1"},
		{"two of them: which?", bob, "", toolresult.Conflict, ""},
		{"the one that was chosen", bob, "two", nil, "Bearer u2"},
		{"another tenant's by name", alice, "two", toolresult.ConnectionRequired, ""},
		{"none at all", eve, "", toolresult.ConnectionRequired, ""},
	} {
		req := ask(row.p)
		req.Connection = row.connection
		r, err := j.Resolve(t.Context(), req)
		require.ErrorIs(t, err, row.want, row.why)
		if errors.Is(err, toolresult.ConnectionRequired) {
			require.NotNil(t, toolresult.AsError(err).Connect, "the broker that can help is heard")
		}
		if row.want != nil {
			continue
		}
		out := newRequest(t, origin)
		require.NoError(t, j.Apply(t.Context(), r.Handle, full, out), row.why)
		require.Equal(t, row.key, out.Header.Get("Authorization"), row.why)
		require.NoError(t, j.Check(t.Context(), r.Handle))
	}
	require.ErrorIs(t, j.Apply(t.Context(), credential.NewHandle(), full, newRequest(t, origin)), toolresult.ConnectionRequired)
	require.ErrorIs(t, j.Check(t.Context(), credential.Handle{}), toolresult.ConnectionRequired)
	_, err := credential.Join().Resolve(t.Context(), ask(alice))
	require.ErrorIs(t, err, toolresult.ConnectionRequired)
	_, err = j.Resolve(t.Context(), nil)
	require.ErrorIs(t, err, toolresult.AuthenticationRequired)
}

// naive is what the leak table must catch.
type naive struct{ Secret string }

// sinks are the ways by which values get into logs and messages.
func sinks(v any) map[string]string {
	out := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T", "%t", "%08b", "%U", "%e", "%c", "%!"} {
		out[verb] = fmt.Sprintf(verb, v)
	}
	out["print"] = fmt.Sprint(v)
	out["in a struct"] = fmt.Sprintf("%+v %#v", struct{ V any }{v}, struct{ v any }{v})
	text, err := json.Marshal(v)
	out["json"] = string(text) + fmt.Sprint(err)
	text, err = xml.Marshal(v)
	out["xml"] = string(text) + fmt.Sprint(err)
	var buf bytes.Buffer
	out["gob error"] = fmt.Sprint(gob.NewEncoder(&buf).Encode(v))
	out["gob"] = buf.String()
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", v, slog.Group("g", "v", v))
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", v)
	out["slog"] = log.String()
	func() {
		defer func() { out["panic"] = fmt.Sprint(recover()) }()
		panic(v)
	}()
	out["error"] = fmt.Errorf("wrapped: %w / %v", errors.Join(errors.New(fmt.Sprint(v))), v).Error()
	return out
}

func leaks(v any, secret string) (where []string) {
	for name, text := range sinks(v) {
		if strings.Contains(text, secret) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", secret)) {
			where = append(where, name)
		}
	}
	return where
}

// C2, R10: nothing that a call holds prints the key, under any verb or encoder.
func TestNothingPrintsTheKey_C2_R10(t *testing.T) {
	require.Subset(t, leaks(naive{canary}, canary), []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "print", "json", "xml", "gob", "slog", "panic", "error"},
		"control: a plain string is caught in every sink")

	alice, _ := authztest.Principal(t, "acme", "alice")
	s := newStatic(t, &credential.StaticOptions{Account: "svc"})
	r, err := s.Resolve(t.Context(), ask(alice))
	require.NoError(t, err)
	require.NoError(t, s.Apply(t.Context(), r.Handle, full, newRequest(t, origin)), "the key was read once")
	refused := s.Apply(t.Context(), r.Handle, "https://evil.example:443", newRequest(t, "https://evil.example"))
	require.Error(t, refused)
	for name, v := range map[string]any{
		"handle": r.Handle, "pointer to a handle": &r.Handle, "resolved": r, "broker": s, "joined": credential.Join(s), "error": refused, "list": []credential.Handle{r.Handle},
		"map": map[string]credential.Handle{"h": r.Handle},
	} {
		require.Empty(t, leaks(v, canary), name)
	}
	for name, text := range sinks(r.Handle) {
		if name == "%p" || name == "in a struct" {
			continue // package fmt asks nobody there; an address is no credential
		}
		require.NotContains(t, text, "0x", "%s: not even its address", name)
	}
	for _, v := range []any{r.Handle, r, &r.Handle} {
		_, err := json.Marshal(v)
		require.ErrorContains(t, err, "a handle is not for encoding")
		require.ErrorContains(t, gob.NewEncoder(new(bytes.Buffer)).Encode(v), "a handle is not for encoding")
	}
	_, err = encoding.TextMarshaler(r.Handle).MarshalText()
	require.Error(t, err)
	_, err = encoding.BinaryMarshaler(r.Handle).MarshalBinary()
	require.Error(t, err)
}

func TestHandlesAreComparable(t *testing.T) {
	a, b := credential.NewHandle(), credential.NewHandle()
	c := a
	require.True(t, a == c && a != b && a != credential.Handle{})
	require.True(t, credential.Handle{}.IsZero() && !a.IsZero())
}

// C4: a key in the query replaces what stands there, and leaves the rest as it
// was written; what could break out of its place is refused.
func TestPlacement_C4(t *testing.T) {
	p, err := credential.NewPlacement(origin, &credential.PlacementOptions{Query: "key"})
	require.NoError(t, err)
	for in, want := range map[string]string{
		"/x":                   "key=a%2Fb%26c",
		"/x?b=1%20&a=2":        "b=1%20&a=2&key=a%2Fb%26c",
		"/x?key=theirs&a=2":    "a=2&key=a%2Fb%26c",
		"/x?a=2&key=1&key=two": "a=2&key=a%2Fb%26c",
	} {
		req := newRequest(t, origin+in)
		require.NoError(t, p.Put(full, req, []byte("a/b&c")))
		require.Equal(t, want, req.URL.RawQuery, in)
	}
	req := newRequest(t, origin+"/x")
	for _, key := range []string{"", "a b", "a\r\nX: y", "\x00", strings.Repeat("a", 9<<10)} {
		require.ErrorIs(t, p.Put(full, req, []byte(key)), toolresult.ProviderUnavailable)
	}
	require.ErrorIs(t, p.Put("https://other.example:443", req, []byte("k")), toolresult.EgressDenied)
	require.ErrorIs(t, credential.Placement{}.Put(full, req, []byte("k")), toolresult.EgressDenied, "the zero Placement")
	require.Empty(t, req.URL.RawQuery)
	for _, o := range []credential.PlacementOptions{{Query: "k", Header: "X"}, {Prefix: "Token "}, {Header: "a b"}, {Header: "Host"}} {
		_, err := credential.NewPlacement(origin, &o)
		require.Error(t, err)
	}
}
