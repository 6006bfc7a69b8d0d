package authserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	grantJWT      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	typeAccess    = "urn:ietf:params:oauth:token-type:access_token"
)

// client authenticates the sender of a form, in the one way that it registered.
func (s *Server) client(r *http.Request) (Client, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, secret, basic := r.BasicAuth()
	f := r.PostForm
	if basic {
		id, secret = unescape(id), unescape(secret)
		c, ok := s.clients[id]
		return c, ok && c.Secret != "" && !c.Post && equal(secret, c.Secret) && !f.Has("client_secret") && !f.Has("client_assertion")
	}
	c, ok := s.clients[f.Get("client_id")]
	switch {
	case !ok:
		return c, false
	case f.Get("client_assertion_type") == assertionType:
		return c, c.Key != nil && s.assertion(f.Get("client_assertion"), c, r) == c.ID
	case c.Secret != "":
		return c, c.Post && equal(f.Get("client_secret"), c.Secret)
	}
	return c, c.Key == nil || f.Get("grant_type") == grantJWT
}

func unescape(v string) string {
	out, err := url.QueryUnescape(v)
	if err != nil {
		return ""
	}
	return out
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// assertion verifies a signed assertion of a client and returns its subject, or
// "". s.mu is held.
func (s *Server) assertion(text string, c Client, r *http.Request) string {
	subject, _ := s.assert(text, c, r)
	return subject
}

// assert returns the scopes of an assertion as well.
func (s *Server) assert(text string, c Client, r *http.Request) (subject, scope string) {
	t, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA})
	if err != nil {
		return "", ""
	}
	var claims struct {
		jwt.Claims
		Scope string `json:"scope"`
	}
	if t.Claims(c.Key, &claims) != nil || claims.Issuer != c.ID || claims.ID == "" || claims.Expiry == nil || s.jtis[claims.ID] {
		return "", ""
	}
	at := strings.TrimSuffix(s.opts.Issuer, "/")
	aud := []string{s.opts.Issuer, at + r.URL.Path, "http://" + r.Host + r.URL.Path}
	end := claims.Expiry.Time()
	if !slices.ContainsFunc(aud, func(a string) bool { return claims.Audience.Contains(a) }) || !time.Now().Before(end) || time.Until(end) > 5*time.Minute {
		return "", ""
	}
	s.jtis[claims.ID] = true
	return claims.Subject, claims.Scope
}

// token is the token endpoint.
func (s *Server) token(r *http.Request) (int, map[string]any) {
	f := r.PostForm
	grant := f.Get("grant_type")
	c, ok := s.client(r)
	if !ok {
		return s.fail("invalid_client")
	}
	var out map[string]any
	var word string
	s.mu.Lock()
	if !s.serves(f["resource"]) {
		word = "invalid_target"
	} else {
		switch grant {
		case "authorization_code":
			out, word = s.redeem(c, f)
		case "refresh_token":
			out, word = s.renew(c, f)
		case "client_credentials":
			if word = "unauthorized_client"; c.Secret != "" || c.Key != nil {
				out, word = s.issue(Token{User: User{ID: c.ID}, Client: c.ID, Scopes: strings.Fields(f.Get("scope")), Resource: f.Get("resource"), grant: newToken("grant")}, ""), ""
			}
		case grantJWT:
			out, word = s.bearer(c, f, r)
		case grantExchange:
			out, word = s.exchange(c, f)
		default:
			word = "unsupported_grant_type"
		}
	}
	if word == "" {
		s.counts["issued "+grant]++
	}
	s.mu.Unlock()
	if word != "" {
		return s.fail(word)
	}
	return http.StatusOK, out
}

// issue makes an access token. refresh is a refresh token that goes with it; ""
// for none.
func (s *Server) issue(t Token, refresh string) map[string]any {
	t.Expires = time.Now().Add(s.opts.AccessFor)
	id := newToken("access")
	s.access[id] = &t
	out := map[string]any{"access_token": id, "token_type": "Bearer", "expires_in": int(s.opts.AccessFor / time.Second), "scope": strings.Join(t.Scopes, " ")}
	if refresh != "" {
		out["refresh_token"] = refresh
	}
	return out
}

// redeem takes a code. A second time ends what the first one gave.
func (s *Server) redeem(c Client, f url.Values) (map[string]any, string) {
	k := s.codes[f.Get("code")]
	switch {
	case k == nil || k.Client != c.ID:
		return nil, "invalid_grant"
	case k.used:
		s.grants[k.grant] = true
		s.counts["reuse"]++
		return nil, "invalid_grant"
	}
	sum := sha256.Sum256([]byte(f.Get("code_verifier")))
	if k.redirect != f.Get("redirect_uri") || !time.Now().Before(k.expires) || k.Resource != f.Get("resource") ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != k.challenge {
		return nil, "invalid_grant"
	}
	k.used = true
	next := ""
	if !s.opts.NoRefresh {
		next = newToken("refresh")
		s.refresh[next] = &refresh{Token: k.Token}
	}
	return s.issue(k.Token, next), ""
}

// renew takes a refresh token.
func (s *Server) renew(c Client, f url.Values) (map[string]any, string) {
	id := f.Get("refresh_token")
	t := s.refresh[id]
	switch {
	case t == nil || t.Client != c.ID || s.grants[t.grant]:
		return nil, "invalid_grant"
	case t.used:
		s.grants[t.grant] = true
		s.counts["reuse"]++
		return nil, "invalid_grant"
	case t.Resource != f.Get("resource"):
		return nil, "invalid_target"
	}
	if f.Has("scope") {
		if asked := strings.Fields(f.Get("scope")); !within(asked, t.Scopes) {
			return nil, "invalid_scope"
		}
	}
	if s.opts.EndsAccess {
		for _, a := range s.access {
			a.ended = a.ended || a.grant == t.grant
		}
	}
	if s.opts.Rotation == Never {
		return s.issue(t.Token, ""), ""
	}
	if p := s.refresh[t.previous]; p != nil {
		p.used = true // the new one was used
	}
	next := newToken("refresh")
	s.refresh[next] = &refresh{Token: t.Token, previous: id}
	t.used = s.opts.Rotation == Strict
	return s.issue(t.Token, next), ""
}

// bearer takes an assertion (RFC 7523).
func (s *Server) bearer(c Client, f url.Values, r *http.Request) (map[string]any, string) {
	if c.Key == nil {
		return nil, "unauthorized_client"
	}
	sub, scope := s.assert(f.Get("assertion"), c, r)
	if sub == "" {
		return nil, "invalid_grant"
	}
	return s.issue(Token{User: User{ID: sub}, Client: c.ID, Scopes: strings.Fields(scope), Resource: f.Get("resource"), grant: newToken("grant")}, ""), ""
}

// exchange takes somebody's token (RFC 8693).
func (s *Server) exchange(c Client, f url.Values) (map[string]any, string) {
	u, ok := s.subjects[f.Get("subject_token")]
	switch {
	case !ok || f.Get("subject_token_type") == "":
		return nil, "invalid_request"
	case f.Get("requested_token_type") != typeAccess:
		return nil, "invalid_request"
	}
	out := s.issue(Token{User: u, Client: c.ID, Scopes: strings.Fields(f.Get("scope")), Resource: f.Get("resource"), grant: newToken("grant")}, "")
	out["issued_token_type"] = typeAccess
	return out, ""
}
