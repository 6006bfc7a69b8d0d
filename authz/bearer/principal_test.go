package bearer_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/bearer"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// H1-32: what a principal says of itself comes from the token and the server, and from
// nothing else in the request.
func TestPrincipal_A3_H1_32(t *testing.T) {
	w := newWorld(t, func(s *setup) { s.tenant = bearer.TenantClaim("/https:~1~1acme.test~1org/id") })
	end := time.Now().Add(time.Minute).Unix()
	token := w.as.Sign(w.with(map[string]any{"https://acme.test/org": map[string]any{"id": "t-1"}, "tenant": "evil", "email": "root@evil.test", "exp": end,
		"scope": "b a b"}), nil)
	got := w.post(token, set("X-Tenant", "evil"), query("tenant=evil"))
	require.Equal(t, 200, got.Status, w.log.String())
	id := w.who.Identity()
	require.Equal(t, "t-1", id.Tenant)
	require.Equal(t, "https://issuer.test", id.Issuer)
	require.Equal(t, "alice", id.Subject)
	require.Equal(t, "client-1", id.Client)
	require.Equal(t, []string{"a", "b"}, id.Scopes)
	require.Nil(t, id.Delegation)
	require.Equal(t, end+30, id.Expires.Unix(), "as long as the token is accepted")
	require.Equal(t, "bearer", w.who.Authority())
}

func TestTenant_A3(t *testing.T) {
	for name, row := range map[string]struct {
		tenant bearer.TenantFunc
		claims map[string]any
		status int
	}{
		"a claim":                  {bearer.TenantClaim("/tenant"), map[string]any{"tenant": "a"}, 200},
		"no claim":                 {bearer.TenantClaim("/tenant"), nil, 401},
		"a claim that is a number": {bearer.TenantClaim("/tenant"), map[string]any{"tenant": 7}, 401},
		"no pointer":               {bearer.TenantClaim("tenant"), map[string]any{"tenant": "a"}, 401},
		"nobody's":                 {func(context.Context, *bearer.Claims) (string, error) { return "", nil }, nil, 401},
		"the directory is away":    {func(context.Context, *bearer.Claims) (string, error) { return "acme", errors.New("dial tcp 10.0.0.5") }, nil, 503},
		"a tenant that is no name": {bearer.OneTenant("a\nb"), nil, 401},
		"a mapping of issuer and name": {func(_ context.Context, c *bearer.Claims) (string, error) {
			return map[string]string{"alice": "acme"}[c.Subject], nil
		}, nil, 200},
	} {
		w := newWorld(t, func(s *setup) { s.tenant = row.tenant })
		got := w.post(w.as.Sign(w.with(row.claims), nil))
		require.Equal(t, row.status, got.Status, name)
		require.NotContains(t, got.Text, "10.0.0.5", "H1-12")
		if name == "no claim" {
			require.Contains(t, w.log.String(), "belongs to no tenant")
		}
	}
}

// H1-33: who acts for the subject is in the principal and has no right by itself.
func TestDelegation_H1_33(t *testing.T) {
	w := newWorld(t)
	act := map[string]any{"sub": "agent", "iss": "https://issuer.test", "act": map[string]any{"sub": "earlier"}}
	require.Equal(t, 200, w.post(w.as.Sign(w.with(map[string]any{"act": act}), nil)).Status, w.log.String())
	require.Equal(t, "alice", w.who.Key().Subject, "the subject is whose rights count")
	require.Equal(t, "agent", w.who.Identity().Delegation.Actor)
	require.Equal(t, []string{"tickets.read"}, w.who.Scopes())

	var seen []string
	w = newWorld(t, func(s *setup) {
		s.tenant = func(_ context.Context, c *bearer.Claims) (string, error) { seen = c.Actors; return "acme", nil }
	})
	w.post(w.as.Sign(w.with(map[string]any{"act": act}), nil))
	require.Equal(t, []string{"agent", "earlier"}, seen)
}

// Issuers that are older than RFC 9068 put things elsewhere.
func TestOtherClaims(t *testing.T) {
	w := newWorld(t, func(s *setup) { s.jwt.ScopeClaim, s.jwt.ClientClaim = "scp", "azp" })
	require.Equal(t, 200, w.post(w.as.Sign(w.with(map[string]any{"scp": []string{"x", "y z"}, "azp": "app", "client_id": nil}), nil)).Status, w.log.String())
	require.Equal(t, []string{"x", "y", "z"}, w.who.Scopes())
	require.Equal(t, "app", w.who.Identity().Client)
}

// H1-60, H1-61: A token that is bound to a key goes to the function for that kind, and to
// nobody without one.
func TestConfirm_H1_60_H1_61(t *testing.T) {
	var asked []string
	answer := error(nil)
	check := func(_ context.Context, p *bearer.Proof) error {
		require.Len(t, p.TokenHash, 43)
		require.Equal(t, "alice", p.Claims.Subject)
		body := make([]byte, 1)
		n, _ := p.Request.Body.Read(body)
		require.Zero(t, n)
		asked = append(asked, p.Scheme+" "+p.Member+" "+p.Value+" "+p.Request.Header.Get("DPoP"))
		return answer
	}
	w := newWorld(t, func(s *setup) {
		s.opts.Confirm = map[string]func(context.Context, *bearer.Proof) error{"jkt": check, "x5t#S256": check}
	})
	rows := []struct {
		name   string
		cnf    any
		scheme string
		err    error
		status int
		asked  string
	}{
		{"a key of DPoP", map[string]any{"jkt": "k"}, "DPoP", nil, 200, "DPoP jkt k proof"},
		{"the scheme in another case", map[string]any{"jkt": "k"}, "dpop", nil, 200, "DPoP jkt k proof"},
		{"a certificate", map[string]any{"x5t#S256": "c"}, "Bearer", nil, 200, "Bearer x5t#S256 c proof"},
		{"no proof", map[string]any{"jkt": "k"}, "DPoP", errors.New("no"), 401, "DPoP jkt k proof"},
		{"a proof that cannot be checked now", map[string]any{"jkt": "k"}, "DPoP", toolresult.NewError(toolresult.Timeout, "the replay cache"), 503, "DPoP jkt k proof"},
		{"a key of DPoP, as Bearer", map[string]any{"jkt": "k"}, "Bearer", nil, 401, ""},
		{"a certificate, as DPoP", map[string]any{"x5t#S256": "c"}, "DPoP", nil, 401, ""},
		{"no key, as DPoP", nil, "DPoP", nil, 401, ""},
		{"a kind that is not known", map[string]any{"kid": "k"}, "Bearer", nil, 401, ""},
		{"a value that is no string", map[string]any{"x5t#S256": map[string]any{}}, "Bearer", nil, 401, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			asked, answer = nil, row.err
			token := w.as.Sign(w.with(map[string]any{"cnf": row.cnf}), nil)
			got := w.post("", set("Authorization", row.scheme+" "+token), set("DPoP", "proof"))
			require.Equal(t, row.status, got.Status, w.log.String())
			if row.asked == "" {
				require.Empty(t, asked)
				return
			}
			require.Equal(t, []string{row.asked}, asked)
		})
	}
	both := map[string]any{"jkt": "k", "new": "x"}
	answer = nil
	got := w.post("", set("Authorization", "DPoP "+w.as.Sign(w.with(map[string]any{"cnf": both}), nil)))
	require.Equal(t, 401, got.Status, "one kind that is known does not make up for one that is not")
}

// The answers to one token in one request do not depend on what the request
// says about hosts.
func TestHostHeaderIsNotAsked_A1(t *testing.T) {
	w := newWorld(t)
	got := w.post("", func(r *http.Request) { r.Host = "evil.test" })
	require.Contains(t, got.Challenge, metadataURL)
	require.NotContains(t, got.Challenge, "evil")
}
