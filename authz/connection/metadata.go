package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// Metadata is what an authorization server says about itself (RFC 8414).
type Metadata struct {
	Issuer                string
	AuthorizationEndpoint string
	TokenEndpoint         string
	RevocationEndpoint    string // "" if it has none
	S256                  bool
	SendsIssuer           bool
}

const maxMetadata = 256 << 10

// WellKnown returns where the metadata of an issuer are (RFC 8414 section 3.1):
// the well-known part goes between host and path.
func WellKnown(issuer string) (string, error) {
	u, err := url.Parse(issuer)
	if err != nil || !webURL(issuer, true) {
		return "", errors.New("connection: an issuer is an https URL, or http on loopback, without query and fragment")
	}
	return u.Scheme + "://" + u.Host + "/.well-known/oauth-authorization-server" + strings.TrimSuffix(u.EscapedPath(), "/"), nil
}

// Discover reads the metadata of an issuer once, for an administrator who writes
// a profile. at is the egress profile of the document; its BaseURL is usually
// [WellKnown] of the issuer. Redirects are refused, and a document whose issuer
// is not byte for byte the one that was asked for (RFC 8414 section 3.3). opts
// may be nil.
//
// It is not for every start: what is discovered anew each time can be changed by
// whoever holds the host, and connections are bound to what it said.
func Discover(ctx context.Context, issuer string, at egress.Profile, opts *egress.Options) (Metadata, error) {
	u, err := url.Parse(at.BaseURL)
	switch {
	case err != nil || at.Redirects != 0 || u.Scheme != "https" && !token.Loopback(u.Hostname()):
		return Metadata{}, errors.New("connection: metadata are read over https, or http on loopback, without redirects")
	case at.Limits.ResponseBytes == 0 || at.Limits.ResponseBytes > maxMetadata:
		at.Limits.ResponseBytes = maxMetadata
	}
	e, err := egress.New(at, opts)
	if err != nil {
		return Metadata{}, fmt.Errorf("connection: metadata: %w", err)
	}
	defer e.CloseIdleConnections()
	s := e.Open(ctx, nil)
	defer s.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.BaseURL, nil)
	if err != nil {
		return Metadata{}, errors.New("connection: the address of the metadata is no URL")
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.RoundTrip(req)
	if err != nil {
		return Metadata{}, fmt.Errorf("connection: metadata: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return Metadata{}, fmt.Errorf("connection: no metadata: status %d", resp.StatusCode)
	}
	return readMetadata(issuer, body)
}

func readMetadata(issuer string, body []byte) (Metadata, error) {
	var doc struct {
		Issuer        string   `json:"issuer"`
		Authorization string   `json:"authorization_endpoint"`
		Token         string   `json:"token_endpoint"`
		Revocation    string   `json:"revocation_endpoint"`
		Methods       []string `json:"code_challenge_methods_supported"`
		SendsIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return Metadata{}, errors.New("connection: the metadata are no JSON object of RFC 8414")
	}
	if doc.Issuer != issuer || issuer == "" {
		return Metadata{}, fmt.Errorf("connection: the metadata are of issuer %q, and %q was asked for: they must be the same, byte for byte; pin the provider's spelling in the profile if both are its own", short(doc.Issuer), short(issuer))
	}
	m := Metadata{doc.Issuer, doc.Authorization, doc.Token, doc.Revocation, slices.Contains(doc.Methods, "S256"), doc.SendsIssuer}
	for name, v := range map[string]string{"authorization_endpoint": m.AuthorizationEndpoint, "token_endpoint": m.TokenEndpoint, "revocation_endpoint": m.RevocationEndpoint} {
		if !webURL(v, false) && (v != "" || name != "revocation_endpoint") {
			return Metadata{}, fmt.Errorf("connection: the metadata's %s is not https, or http on loopback", name)
		}
	}
	if !m.S256 {
		return Metadata{}, errors.New("connection: the metadata do not name S256 among code_challenge_methods_supported: a server that does not check PKCE is refused")
	}
	return m, nil
}

func short(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}

// Fill writes what the server said into a profile. What else an egress profile
// needs is the administrator's.
func (m Metadata) Fill(p *Provider) {
	p.Issuer, p.AuthorizationEndpoint, p.S256, p.SendsIssuer = m.Issuer, m.AuthorizationEndpoint, m.S256, m.SendsIssuer
	p.Token.BaseURL, p.Revocation.BaseURL = m.TokenEndpoint, m.RevocationEndpoint
}

// ClientDocument returns the document that a host serves at its client id, for
// servers that read clients from there (OAuth Client ID Metadata Document). The
// id is an https URL with a path, and the client a public one, or one with
// [PrivateKeyJWT]: a document holds no secret.
func ClientDocument(clientID, name, auth string, redirects ...string) ([]byte, error) {
	u, err := url.Parse(clientID)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Contains(clientID, "#"):
		return nil, errors.New("connection: the client id must be an https URL without query and fragment")
	case strings.Trim(u.Path, "/") == "" || u.Path != cleanPath(u.Path):
		return nil, errors.New("connection: the client id must have a path, without dot segments")
	case name == "" || len(redirects) == 0:
		return nil, errors.New("connection: a client has a name and redirect URIs")
	case auth != PublicClient && auth != PrivateKeyJWT:
		return nil, errors.New("connection: a client that is known by its document has no shared secret")
	}
	for _, r := range redirects {
		if !webURL(r, false) {
			return nil, errors.New("connection: a redirect URI must be https, or http on loopback, without a fragment")
		}
	}
	return json.Marshal(map[string]any{
		"client_id": clientID, "client_name": name, "redirect_uris": redirects, "token_endpoint_auth_method": auth,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	})
}

// cleanPath leaves out dot segments.
func cleanPath(p string) string {
	steps := strings.Split(p, "/")
	return strings.Join(slices.DeleteFunc(steps, func(s string) bool { return s == "." || s == ".." }), "/")
}
