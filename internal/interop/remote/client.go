// Package remote runs other people's MCP servers, and the client scenarios of
// the MCP conformance suite, against mcpadapter/remote behind an invoker: the
// governed path and nothing beside it.
//
// The tests need Node and the packages, in a directory that the environment
// variable DRAWBRIDGE_NODE names; see .ci/run. Without the variable they are
// skipped, and with CI=true they fail.
package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/remote"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// host is one caller of one server.
type host struct {
	authority *authz.Authority
	who       authz.Principal
	server    remote.Server
	opts      remote.Options
	listing   *remote.Listing
	c         *remote.Connector
	inv       *connector.Invoker
	refused   []string // tools that cannot be offered, and why
}

// everything allows all that a test asks for.
type everything struct{}

func (everything) Decide(context.Context, *authz.Request) (authz.Decision, error) {
	return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "r1"}, nil
}

func newHost(s remote.Server, opts remote.Options) (*host, error) {
	h := &host{authority: authz.NewAuthority("host"), server: s, opts: opts}
	h.server.ID, h.server.Version, h.server.Owner, h.server.Party = "far", "1.0.0", "team", remote.PartyProvider
	if h.server.Auth.Mode == "" {
		h.server.Auth = connector.Auth{Mode: connector.AuthNone}
	}
	var err error
	h.who, err = h.authority.Principal(authz.Identity{Tenant: "acme", Issuer: "https://issuer.test", Subject: "alice"})
	return h, err
}

// onLoopback is a server at an address of this machine.
func onLoopback(address string) (remote.Server, error) {
	u, err := url.Parse(address)
	if err != nil {
		return remote.Server{}, err
	}
	return remote.Server{Path: cmp.Or(u.Path, "/"), Profile: egress.Profile{Name: "far", BaseURL: u.Scheme + "://" + u.Host, Plaintext: true,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}}, nil
}

// attempts is how often a runtime tries again after a consent.
const attempts = 3

func again(err error) bool {
	return errors.Is(err, toolresult.ConnectionRequired) || errors.Is(err, toolresult.InsufficientScope)
}

// open reviews the server, approves every tool that can be used, and puts the
// connector behind an invoker.
func (h *host) open(ctx context.Context) error {
	var err error
	for range attempts {
		if h.listing, err = remote.Review(ctx, h.server, h.who, &h.opts); !again(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	for _, d := range h.listing.Tools {
		tool := remote.Tool{Name: d.Name, Class: risk.Class{SideEffect: risk.ReadOnly, Sensitivity: risk.Internal}}
		pins, err := h.listing.Pin(d.Name)
		if err != nil {
			return err
		}
		s := h.server
		s.Tools = []remote.Tool{tool}
		if _, err := remote.New(s, pins, &h.opts); err != nil {
			h.refused = append(h.refused, err.Error())
			continue
		}
		h.server.Tools = append(h.server.Tools, tool)
	}
	if len(h.server.Tools) == 0 {
		return nil
	}
	return h.serve()
}

func (h *host) serve() error {
	var names []string
	for _, t := range h.server.Tools {
		names = append(names, t.Name)
	}
	pins, err := h.listing.Pin(names...)
	if err != nil {
		return err
	}
	if h.c, err = remote.New(h.server, pins, &h.opts); err != nil {
		return err
	}
	opts := &connector.Options{Credentials: h.opts.Credentials}
	if h.server.Launch == nil {
		opts.Endpoints = []egress.Profile{h.server.Profile}
	}
	h.inv, err = connector.NewInvoker(everything{}, []*authz.Authority{h.authority}, []connector.Connector{h.c}, opts)
	return err
}

// call invokes a tool by the server's name for it.
func (h *host) call(ctx context.Context, name string, args any) (*toolresult.Result, error) {
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	capability := ""
	for _, t := range h.c.Tools() {
		if t.Name == name {
			capability = t.Capability
		}
	}
	var r *toolresult.Result
	for range attempts {
		if r = h.inv.Invoke(ctx, &connector.InvokeRequest{Principal: h.who, Capability: capability, Arguments: text}); !again(r.Err()) {
			break
		}
	}
	return r, r.Err()
}

// conformance plays one scenario of the suite.
func conformance(ctx context.Context, scenario, address, config string) error {
	var in struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		ToolCalls    []struct {
			Name      string
			Arguments map[string]any
		}
	}
	if config != "" {
		if err := json.Unmarshal([]byte(config), &in); err != nil {
			return err
		}
	}
	s, err := onLoopback(address)
	if err != nil {
		return err
	}
	opts := remote.Options{Name: "test-client", Version: "1.0.0"}
	if len(scenario) > 5 && scenario[:5] == "auth/" {
		s.Auth = connector.Auth{Mode: connector.AuthDelegatedOAuth}
		opts.Credentials = remote.NewOAuth(originOf(s.Profile.BaseURL), oauth(in.ClientID, in.ClientSecret))
	}
	if scenario == "sep-2322-client-request-state" {
		opts.Elicit = func(context.Context, authz.Principal, *remote.Question) (*remote.Reply, error) {
			return &remote.Reply{Action: "accept", Content: map[string]any{"confirmed": true}}, nil
		}
	}
	h, err := newHost(s, opts)
	if err != nil {
		return err
	}
	if err := h.open(ctx); err != nil {
		return fmt.Errorf("review: %w", err)
	}
	if h.c == nil {
		return nil
	}
	defer h.c.Close()
	if len(in.ToolCalls) > 0 {
		for _, c := range in.ToolCalls {
			r, err := h.call(ctx, c.Name, given(c.Arguments))
			fmt.Println(c.Name, r, err)
		}
		return nil
	}
	return h.callAll(ctx, scenario)
}

// callAll calls every tool that is offered. What a call says is the scenario's
// to judge; only those of a consent have to succeed.
func (h *host) callAll(ctx context.Context, scenario string) error {
	for _, t := range h.c.Tools() {
		args := map[string]any{}
		switch {
		case scenario == "tools_call":
			args = map[string]any{"a": 5, "b": 3}
		case scenario == "http-invalid-tool-headers":
			args = map[string]any{"region": "us-west1"}
		}
		r, err := h.call(ctx, t.Name, args)
		fmt.Println(t.Name, r, err)
		if err != nil && len(scenario) > 5 && scenario[:5] == "auth/" {
			return err
		}
	}
	return nil
}

// given leaves out what is null: the tools' schemas have no null, and the governed
// path sends nothing that a schema does not take.
func given(m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if v != nil {
			out[k] = v
		}
	}
	return out
}

// originOf writes an origin as the egress transport does.
func originOf(base string) string {
	e, err := egress.New(egress.Profile{Name: "o", BaseURL: base, Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, nil)
	if err != nil {
		return base
	}
	return e.Origin()
}

// oauth is the MCP SDK's client of OAuth with a person who says yes at once.
func oauth(id, secret string) func(authz.Principal) (auth.OAuthHandler, error) {
	return func(authz.Principal) (auth.OAuthHandler, error) {
		const redirect = "http://localhost:3000/callback"
		config := &auth.AuthorizationCodeHandlerConfig{
			RedirectURL: redirect, AuthorizationCodeFetcher: consent,
			ClientIDMetadataDocumentConfig:  &auth.ClientIDMetadataDocumentConfig{URL: "https://conformance-test.local/client-metadata.json"},
			DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{RedirectURIs: []string{redirect}}},
		}
		if id != "" && secret != "" {
			config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: id, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: secret}}
		}
		return auth.NewAuthorizationCodeHandler(config)
	}
}

// consent follows the one redirect of the suite's authorization server.
func consent(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		return nil, err
	}
	q := to.Query()
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}
