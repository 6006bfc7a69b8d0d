// Package token speaks to token and revocation endpoints (RFC 6749, 7009, 7523,
// 8693) for package connection.
//
// It is our own and not golang.org/x/oauth2 because of what that does with a
// credential that works once: it probes for the way to authenticate and so sends
// a code or refresh token twice, it loses a rotated token when expires_in is not
// to its taste, it takes a missing expires_in for immortality, it follows a
// redirect with the secret in the body, and its errors print what the server
// said.
//
// One call of [Client.Post] is one request at most. Its failure says whether the
// server may have acted on it: [Failure.Kind].
package token

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// Secret is a text that nothing prints and nothing encodes. It holds the text in
// a function, because fmt and reflection look through every other shape. The
// zero Secret is none.
type Secret struct{ reveal func() string }

// NewSecret returns text as a secret; "" is none.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{func() string { return text }}
}

// IsZero reports whether there is none.
func (s Secret) IsZero() bool { return s.reveal == nil }

// Reveal returns the text, for the wire and for sealing.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// String returns "secret".
func (s Secret) String() string { return "secret" }

// Format implements [fmt.Formatter].
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

var errEncode = errors.New("token: a secret is not for encoding")

// MarshalText implements [encoding.TextMarshaler]. It always fails.
func (s Secret) MarshalText() ([]byte, error) { return nil, errEncode }

// MarshalJSON implements [json.Marshaler]. It always fails.
func (s Secret) MarshalJSON() ([]byte, error) { return nil, errEncode }

// GobEncode implements [gob.GobEncoder]. It always fails.
func (s Secret) GobEncode() ([]byte, error) { return nil, errEncode }

// Method is how a client authenticates. It is fixed by configuration and never
// probed for.
type Method string

// The methods, by their registered names (RFC 7591, section 2).
const (
	Basic   Method = "client_secret_basic"
	Post    Method = "client_secret_post"
	KeyJWT  Method = "private_key_jwt"
	Nothing Method = "none" // a public client
)

// Config describes an endpoint and how we authenticate there.
type Config struct {
	Endpoint egress.Profile // BaseURL is the endpoint
	Egress   *egress.Options

	ClientID string
	Method   Method
	Secret   func(context.Context) ([]byte, error) // Basic and Post
	Key      *Key                                  // KeyJWT

	Dead  []string // error codes that mean what invalid_grant means
	Types []string // further token types that are used as bearer
	At    string   // JSON Pointer to the object with the tokens; "" is the whole answer
	Comma bool     // scopes are separated by commas
}

// Client sends to one endpoint. It is safe for concurrent use.
type Client struct {
	c        Config
	endpoint *egress.Endpoint
}

const (
	maxBody    = 1 << 20
	maxTimeout = time.Minute
)

// New checks the configuration. The time limit of the profile is the time that
// one request takes at most; 10 s if it has none.
func New(c Config) (*Client, error) {
	p := c.Endpoint
	u, err := url.Parse(p.BaseURL)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("the base URL is no URL of an endpoint")
	case p.Redirects != 0:
		return nil, errors.New("the profile must allow no redirects: they would carry the secrets elsewhere")
	case u.Scheme != "https" && !Loopback(u.Hostname()):
		return nil, errors.New("the endpoint must be https; http is for loopback")
	case p.Limits.Total > maxTimeout:
		return nil, fmt.Errorf("the limit on one exchange is at most %v", maxTimeout)
	case c.ClientID == "" && c.Method != Nothing:
		return nil, errors.New("a client id is needed")
	}
	switch c.Method {
	case Basic, Post:
		if c.Secret == nil {
			return nil, fmt.Errorf("%s needs a function that reads the secret", c.Method)
		}
	case KeyJWT:
		if c.Key == nil {
			return nil, fmt.Errorf("%s needs a key", c.Method)
		}
	case Nothing:
	default:
		return nil, fmt.Errorf("%q is no way to authenticate: want client_secret_basic, client_secret_post, private_key_jwt or none", c.Method)
	}
	if p.Limits.Total == 0 {
		p.Limits.Total = 10 * time.Second
	}
	if p.Limits.ResponseBytes == 0 || p.Limits.ResponseBytes > maxBody {
		p.Limits.ResponseBytes = maxBody
	}
	c.Dead, c.Types = slices.Clone(c.Dead), slices.Clone(c.Types)
	e, err := egress.New(p, c.Egress)
	if err != nil {
		return nil, err
	}
	return &Client{c, e}, nil
}

// Loopback reports whether a host is this machine, the one place for http.
func Loopback(host string) bool {
	return host == "127.0.0.1" || host == "::1" || host == "localhost"
}

// Timeout is how long one request takes at most.
func (c *Client) Timeout() time.Duration { return c.endpoint.Profile().Limits.Total }

// URL is the endpoint's address.
func (c *Client) URL() string { return c.endpoint.Profile().BaseURL }

// Post sends the form once and returns the tokens. The error is a [*Failure].
func (c *Client) Post(ctx context.Context, form url.Values) (*Answer, error) {
	sent := time.Now()
	r, f := c.post(ctx, form)
	if f != nil {
		return nil, f
	}
	a, f := c.read(r)
	if f != nil {
		return nil, f
	}
	a.Sent = sent
	return a, nil
}

// Revoke sends a token to a revocation endpoint (RFC 7009, section 2.1). A
// token that the server does not know is revoked.
func (c *Client) Revoke(ctx context.Context, token Secret, hint string) error {
	r, f := c.post(ctx, url.Values{"token": {token.Reveal()}, "token_type_hint": {hint}})
	switch {
	case f != nil:
		return f
	case r.status/100 == 2:
		return nil
	}
	return c.refusal(r, c.code(r.body))
}

// reply is what came back, whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// post sends one form. It adds what authenticates the client.
func (c *Client) post(ctx context.Context, form url.Values) (*reply, *Failure) {
	form, err := c.complete(ctx, form)
	if err != nil {
		return nil, &Failure{Kind: NotSent, cause: err}
	}
	s := c.endpoint.Open(ctx, &egress.Hooks{Authorize: c.authorize})
	defer s.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, &Failure{Kind: NotSent, cause: err}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := s.RoundTrip(req) // no http.Client: nothing follows a redirect, and no error quotes a URL
	if err != nil {
		return nil, transport(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, transport(err)
	}
	return &reply{resp.StatusCode, resp.Header, body}, nil
}

// complete adds what goes into the body.
func (c *Client) complete(ctx context.Context, form url.Values) (url.Values, error) {
	out := url.Values{}
	for k, v := range form {
		out[k] = v
	}
	switch c.c.Method {
	case Nothing:
		if c.c.ClientID != "" {
			out.Set("client_id", c.c.ClientID)
		}
	case Post:
		secret, err := c.secret(ctx)
		if err != nil {
			return nil, err
		}
		out.Set("client_id", c.c.ClientID)
		out.Set("client_secret", secret)
	case KeyJWT:
		assertion, err := c.c.Key.Sign(&Claims{Issuer: c.c.ClientID, Subject: c.c.ClientID, Audience: c.URL()})
		if err != nil {
			return nil, err
		}
		out.Set("client_id", c.c.ClientID)
		out.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		out.Set("client_assertion", assertion.Reveal())
	}
	return out, nil
}

// authorize adds what goes into a header. Both parts are form-encoded first
// (RFC 6749, section 2.3.1).
func (c *Client) authorize(ctx context.Context, _ string, req *http.Request) error {
	if c.c.Method != Basic {
		return nil
	}
	secret, err := c.secret(ctx)
	if err != nil {
		return err
	}
	req.SetBasicAuth(url.QueryEscape(c.c.ClientID), url.QueryEscape(secret))
	return nil
}

func (c *Client) secret(ctx context.Context) (string, error) {
	s, err := c.c.Secret(ctx)
	if err != nil {
		return "", errors.New("token: the client secret cannot be read") // its reader may have quoted it
	}
	if len(s) == 0 {
		return "", errors.New("token: the client secret is empty")
	}
	return string(s), nil
}
