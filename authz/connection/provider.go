package connection

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/internal/token"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// Grant is how an access token is had. The zero Grant is refused.
type Grant string

// The grants.
const (
	AuthorizationCode Grant = "authorization_code" // a user consents (RFC 6749 section 4.1, with PKCE)
	ClientCredentials Grant = "client_credentials" // the operator's client, for a tenant (RFC 6749 section 4.4)
	ServiceAccount    Grant = "service_account"    // a signed assertion, for a tenant (RFC 7523)
	TokenExchange     Grant = "token_exchange"     // for what the caller showed at the first hop (RFC 8693)
	APIKey            Grant = "api_key"            // a key that somebody was given
)

// How a client authenticates at the token endpoint (RFC 7591 section 2). It is
// stated, and never tried out: a second try sends a credential that works once
// twice.
const (
	SecretBasic   = string(token.Basic)
	SecretPost    = string(token.Post)
	PrivateKeyJWT = string(token.KeyJWT)
	PublicClient  = string(token.Nothing)
)

// Account is whose credential it is, as the provider says.
type Account struct {
	ID    string // needed
	Org   string // organization, workspace, site; "" if the provider has none
	Label string // for people
}

// Subject is what a caller showed at the first hop, for an exchange.
type Subject struct {
	Token   func() string // reveals it; a function, so that nothing prints it
	Type    string        // "urn:ietf:params:oauth:token-type:access_token" if empty
	Expires time.Time     // zero if it has no end
}

// Provider is the profile of one provider: where it is, what it can do, and
// where it departs from the standards. It is the operator's, is written in Go,
// and holds no secret but through functions. The zero Provider is refused.
type Provider struct {
	Name  string // what connections refer to; never used for another provider
	Title string // for people; Name if empty

	Grant      Grant
	Connectors []string // that the accounts serve; needed
	Modes      []string // of authentication of these connectors; empty: all

	// Issuer is compared byte for byte with what the provider says, as are
	// IssuerAliases, for providers whose metadata and answers disagree. It is
	// needed for AuthorizationCode.
	Issuer        string
	IssuerAliases []string
	// SendsIssuer says that each authorization response names the issuer (RFC
	// 9207: authorization_response_iss_parameter_supported). One without it is
	// then refused.
	SendsIssuer bool
	// S256 says that the provider checks PKCE, by its metadata or its
	// documentation. Without it AuthorizationCode is refused.
	S256 bool

	AuthorizationEndpoint string
	RedirectURI           string         // registered at the provider, and of this provider alone
	Token                 egress.Profile // BaseURL is the token endpoint
	Revocation            egress.Profile // BaseURL is the revocation endpoint (RFC 7009); the zero value: the provider has none

	ClientID   string
	ClientAuth string                                // SecretBasic, SecretPost, PrivateKeyJWT or PublicClient
	Secret     func(context.Context) ([]byte, error) // of SecretBasic and SecretPost; called for each request
	Key        crypto.Signer                         // of PrivateKeyJWT and ServiceAccount
	KeyID      string                                // its kid; may be empty

	// Scopes are all that is ever asked for: the administrator's limit. Of
	// these, Always are asked for with every consent.
	Scopes, Always []string
	CommaScopes    bool              // the provider separates scopes by commas
	Resource       string            // RFC 8707; sent as it is with every request; "": none
	Params         map[string]string // further parameters of the authorization request

	ExpectRefresh  bool          // the provider gives refresh tokens
	ScopeOnRefresh bool          // it wants the scopes named when refreshing
	RevokesGrant   bool          // revoking one token ends all that the user ever consented to
	Lifetime       time.Duration // of access tokens, when the provider does not say; 0: until it refuses one
	DeadCodes      []string      // error codes that mean what invalid_grant means
	TokenTypes     []string      // further token types that are bearer tokens in fact
	AnswerAt       string        // JSON Pointer to the object of the answer that holds the tokens; "": the whole

	// Subject returns what the caller showed at the first hop, of
	// TokenExchange. The token endpoint must be one that this is meant for: the
	// inbound token goes there and nowhere else.
	Subject func(context.Context, authz.Principal) (Subject, error)
	// Assert is whom an assertion of ServiceAccount speaks for; ClientID if
	// empty. AssertAudience is its aud: the token endpoint if empty.
	Assert, AssertAudience string

	// API is the provider's API: the credential is put on requests to its
	// origin and to those of Origins, and to no other.
	API       egress.Profile
	Origins   []string
	Placement credential.PlacementOptions
	Endpoint  string // egress profile of the connector for these accounts; "": the one that it names

	// Confirm asks the provider whose credential it is, with a client that
	// reads from API and nothing else. It is needed for AuthorizationCode: an
	// account is what the provider says, never what somebody typed.
	Confirm func(ctx context.Context, client *http.Client, base string) (Account, error)

	// Farewell removes what was set up at the provider under the connection,
	// such as webhooks, while there still is a credential. Revocation goes on
	// whatever it returns. It may be called again. Nil: nothing.
	Farewell func(ctx context.Context, client *http.Client, base string) error

	Egress *egress.Options // nil: the system's
}

// provider is a checked profile with its clients.
type provider struct {
	Provider
	token, revocation *token.Client // nil if there is none
	api               *egress.Endpoint
	places            []credential.Placement
	key               *token.Key
}

// reserved are the parameters of an authorization request that are ours.
var reserved = []string{"response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method", "resource", "request", "request_uri", "response_mode"}

func newProvider(p *Provider) (*provider, error) {
	if p == nil || p.Name == "" {
		return nil, errors.New("connection: a provider needs a name")
	}
	out := &provider{Provider: *p}
	for _, list := range []*[]string{&out.Connectors, &out.Modes, &out.IssuerAliases, &out.Scopes, &out.Always, &out.Origins} {
		*list = slices.Clone(*list)
	}
	if out.Title == "" {
		out.Title = p.Name
	}
	for _, check := range []func() error{out.check, out.checkGrant, out.open} {
		if err := check(); err != nil {
			return nil, fmt.Errorf("connection: provider %q: %w", p.Name, err)
		}
	}
	return out, nil
}

func (p *provider) check() error {
	switch {
	case len(p.Connectors) == 0:
		return errors.New("name the connectors that its accounts serve")
	case !subset(p.Always, p.Scopes):
		return errors.New("the field Always names a scope that is not in Scopes")
	case p.Lifetime < 0:
		return errors.New("the field Lifetime is negative")
	case p.API.BaseURL == "":
		return errors.New("the field API is needed: where the credential may go")
	}
	return nil
}

// checkGrant checks what each grant needs. It quotes no address: one may hold a
// password.
func (p *provider) checkGrant() error {
	switch p.Grant {
	case AuthorizationCode:
		return p.checkCode()
	case ClientCredentials:
		if p.ClientAuth == PublicClient {
			return errors.New("client credentials need a client that authenticates")
		}
	case ServiceAccount:
		if p.Key == nil {
			return errors.New("a service account needs a Key")
		}
	case TokenExchange:
		if p.Subject == nil {
			return errors.New("a token exchange needs Subject")
		}
		if p.Resource == "" {
			return errors.New("a token exchange needs Resource: say for whom the token is")
		}
	case APIKey:
		if p.Token.BaseURL != "" || p.Revocation.BaseURL != "" {
			return errors.New("an API key has no token endpoint")
		}
	default:
		return fmt.Errorf("%q is no grant", p.Grant)
	}
	return nil
}

func (p *provider) checkCode() error {
	switch {
	case !p.S256:
		return errors.New("the field S256 is not stated: a provider that does not check PKCE is refused (RFC 9700 section 2.1.1)")
	case p.Issuer == "":
		return errors.New("an Issuer is needed")
	case p.Confirm == nil:
		return errors.New("the field Confirm is needed: an account is what the provider says")
	case !webURL(p.AuthorizationEndpoint, false):
		return errors.New("the field AuthorizationEndpoint must be https, or http on loopback, without a fragment")
	case !webURL(p.RedirectURI, false):
		return errors.New("the field RedirectURI must be https, or http on loopback, without a fragment")
	}
	for name := range p.Params {
		if slices.Contains(reserved, name) {
			return fmt.Errorf("the field Params cannot set %s", name)
		}
	}
	return nil
}

// webURL reports whether a browser may be sent there.
func webURL(s string, bare bool) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && u.User == nil && u.Fragment == "" && !strings.Contains(s, "#") &&
		(u.Scheme == "https" || u.Scheme == "http" && token.Loopback(u.Hostname())) && (!bare || u.RawQuery == "")
}

// open makes the clients.
func (p *provider) open() (err error) {
	if p.Key != nil {
		if p.key, err = token.NewKey(p.Key, p.KeyID); err != nil {
			return fmt.Errorf("the field Key: %w", err)
		}
	}
	if p.Grant != APIKey {
		if p.token, err = p.client(p.Token); err != nil {
			return fmt.Errorf("the field Token: %w", err)
		}
	}
	if p.Revocation.BaseURL != "" {
		if p.revocation, err = p.client(p.Revocation); err != nil {
			return fmt.Errorf("the field Revocation: %w", err)
		}
	}
	if p.api, err = egress.New(p.API, p.Egress); err != nil {
		return fmt.Errorf("the field API: %w", err)
	}
	for _, origin := range append([]string{p.api.Origin()}, p.Origins...) {
		place, err := credential.NewPlacement(origin, &p.Placement)
		if err != nil {
			return err
		}
		p.places = append(p.places, place)
	}
	return nil
}

func (p *provider) client(at egress.Profile) (*token.Client, error) {
	return token.New(token.Config{
		Endpoint: at, Egress: p.Egress, ClientID: p.ClientID, Method: token.Method(p.ClientAuth), Secret: p.Secret, Key: p.key,
		Dead: p.DeadCodes, Types: p.TokenTypes, At: p.AnswerAt, Comma: p.CommaScopes,
	})
}

// serves reports whether the accounts are for a connector and mode.
func (p *provider) serves(req *credential.ResolveRequest) bool {
	return slices.Contains(p.Connectors, req.Connector) && (len(p.Modes) == 0 || slices.Contains(p.Modes, req.Mode))
}

// put puts a secret on a request, if it goes where this provider's secrets may.
func (p *provider) put(origin string, req *http.Request, secret string) error {
	for _, place := range p.places {
		if place.Serves(origin, req) {
			return place.Put(origin, req, []byte(secret))
		}
	}
	return errOrigin()
}

// scopeText joins scopes as the provider wants them.
func (p *provider) scopeText(scopes []string) string {
	if p.CommaScopes {
		return strings.Join(scopes, ",")
	}
	return strings.Join(scopes, " ")
}

// session runs f with a client that reads from the API with the secret on it.
func (p *provider) session(ctx context.Context, secret token.Secret, effect egress.Effect, f func(context.Context, *http.Client, string) error) error {
	s := p.api.Open(ctx, &egress.Hooks{
		Allow: func(_ context.Context, r *egress.Request) (egress.Effect, error) {
			if effect == egress.Reads && r.Method != http.MethodGet && r.Method != http.MethodHead {
				return egress.Changes, errors.New("connection: an account is confirmed by reading")
			}
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				return egress.Reads, nil
			}
			return egress.Changes, nil
		},
		Authorize: func(_ context.Context, origin string, r *http.Request) error {
			return p.put(origin, r, secret.Reveal())
		},
	})
	defer s.Close()
	return f(ctx, s.Client(), strings.TrimSuffix(p.api.BaseURL(), "/"))
}

// mints reports whether access tokens are had without a token that works once.
func (p *provider) mints() bool {
	return p.Grant == ClientCredentials || p.Grant == ServiceAccount || p.Grant == TokenExchange
}

// installed reports whether an operator holds its accounts.
func (p *provider) installed() bool {
	return p.Grant == ClientCredentials || p.Grant == ServiceAccount || p.Grant == APIKey
}

// fixes reports whether what was fixed at consent is still what the profile
// says. A code or token is sent to the endpoint that it comes from or nowhere.
func (p *provider) fixes(issuer, endpoint, client, resource string) bool {
	return p.Issuer == issuer && p.Token.BaseURL == endpoint && p.ClientID == client && p.Resource == resource
}

func subset(part, whole []string) bool { return len(lacking(part, whole)) == 0 }

// lacking returns what of need is not in have, sorted.
func lacking(need, have []string) (out []string) {
	for _, n := range need {
		if !slices.Contains(have, n) && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// union returns all of them, sorted, each once.
func union(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}
