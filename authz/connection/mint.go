package connection

import (
	"context"
	"net/url"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	typeAccess    = "urn:ietf:params:oauth:token-type:access_token"
	grantJWT      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// assert adds a signed assertion (RFC 7523 section 2.1), new for each request.
func (m *Manager) assert(prov *provider, rec *Record, form url.Values) error {
	c := &token.Claims{Issuer: prov.ClientID, Subject: prov.Assert, Audience: prov.AssertAudience, Scopes: prov.scopeText(rec.Scopes)}
	if c.Subject == "" {
		c.Subject = prov.ClientID
	}
	if c.Audience == "" {
		c.Audience = rec.TokenEndpoint
	}
	s, err := prov.key.Sign(c)
	if err != nil {
		return toolresult.WrapError(toolresult.ProviderUnavailable, "the service account's assertion cannot be signed", err)
	}
	form.Set("grant_type", grantJWT)
	form.Set("assertion", s.Reveal())
	return nil
}

// exchange adds what the caller showed at the first hop (RFC 8693 section 2.1).
// What comes back ends with it.
func (m *Manager) exchange(ctx context.Context, prov *provider, form url.Values, p authz.Principal) (end time.Time, err error) {
	if p.IsZero() {
		return end, toolresult.NewError(toolresult.AuthenticationRequired, "the caller is not known")
	}
	s, err := prov.Subject(ctx, p)
	if err != nil || s.Token == nil || s.Token() == "" {
		return end, toolresult.WrapError(toolresult.AuthenticationRequired, "there is nothing of the caller's to exchange", err)
	}
	if end = s.Expires; !end.IsZero() && !time.Now().Before(end) {
		return end, toolresult.NewError(toolresult.AuthenticationRequired, "what the caller showed is over")
	}
	form.Set("grant_type", grantExchange)
	form.Set("subject_token", s.Token())
	if s.Type == "" {
		s.Type = typeAccess
	}
	form.Set("subject_token_type", s.Type)
	form.Set("requested_token_type", typeAccess)
	return end, nil
}

// seen is a record as p may use it. A token that was exchanged for what one client
// showed, or for somebody who acts for the user, is not another's: the issuer has
// limited it to what that one may do, and the provider takes whoever sends it for
// that one. It is then as if there were none.
func (m *Manager) seen(rec Record, p authz.Principal) Record {
	prov := m.providers[rec.Provider]
	if prov == nil || prov.Grant != TokenExchange {
		return rec
	}
	if whose := p.Standing(); rec.For != whose {
		rec = rec.Clone()
		rec.For, rec.Access, rec.Expires, rec.RefreshAt = whose, nil, time.Time{}, time.Time{}
		rec.RetryAt, rec.Failures = time.Time{}, 0 // it was the other one who was refused
	}
	return rec
}

// fits reports whether an answer is what was asked for. An exchange must say
// what it issued: some servers issue a refresh token unless told otherwise.
func (p *provider) fits(a *token.Answer) bool {
	return a.Usable && (p.Grant != TokenExchange || a.Issued == typeAccess)
}
