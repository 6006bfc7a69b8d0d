package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/remote"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/egresstest"
)

// issues is somebody else's MCP server, with the issues of two tenants.
type issues struct {
	handler http.Handler

	mu    sync.Mutex
	items map[string]map[string]string // titles by tenant and id
}

type issueArgs struct {
	ID    string `json:"id,omitempty"`
	Title string `json:"title,omitempty"`
}

func newIssues(serve func(*mcp.Server) http.Handler) *issues {
	d := &issues{items: map[string]map[string]string{
		check.TenantA: {"a-1": "disk full", "a-2": "login slow"}, check.TenantB: {"b-1": "printer", "b-2": "badge"},
	}}
	s := mcp.NewServer(&mcp.Implementation{Name: "issues", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{}})
	id := json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z]-[0-9]{1,6}$"}},"required":["id"],"additionalProperties":false}`)
	title := json.RawMessage(`{"type":"object","properties":{"title":{"type":"string","minLength":1,"maxLength":200}},"required":["title"],"additionalProperties":false}`)
	s.AddTool(&mcp.Tool{Name: "get_issue", Description: "One issue.", InputSchema: id}, d.get)
	s.AddTool(&mcp.Tool{Name: "create_issue", Description: "Makes an issue.", InputSchema: title}, d.create)
	d.handler = serve(s)
	return d
}

// tenant is whose token a request bears.
func (d *issues) tenant(h http.Header) string {
	rest, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer issues-token-of-")
	tenant, _, _ := strings.Cut(rest, "-")
	if !ok || d.items[tenant] == nil {
		return ""
	}
	return tenant
}

func (d *issues) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.tenant(r.Header) == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	d.handler.ServeHTTP(w, r)
}

func (d *issues) get(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var in issueArgs
	if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
		return nil, err
	}
	title, ok := d.items[d.tenant(r.Extra.Header)][in.ID]
	if !ok {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "there is no such issue"}}}, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.ID + ": " + title}}}, nil
}

func (d *issues) create(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var in issueArgs
	if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
		return nil, err
	}
	mine := d.items[d.tenant(r.Extra.Header)]
	if mine == nil {
		return nil, errors.New("nobody")
	}
	id := fmt.Sprintf("n-%d", len(mine)+1)
	mine[id] = in.Title
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: id}}}, nil
}

// Token implements connectortest.Double.
func (*issues) Token(tenant, user string) string { return "issues-token-of-" + tenant + "-" + user }

// Snapshot implements connectortest.Double.
func (d *issues) Snapshot() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return json.Marshal(maps.Clone(d.items))
}

// contract is the fixture of the server, as a connector made of what was reviewed
// and pinned. A tool that fails says so in words and not by a code, so no sample
// names what is missing.
func contract(t *testing.T, serve func(testing.TB, *mcp.Server) http.Handler) connectortest.Fixture {
	t.Helper()
	double := func(t testing.TB) *issues {
		return newIssues(func(s *mcp.Server) http.Handler { return serve(t, s) })
	}
	alice, _ := authztest.Principal(t, check.TenantA, check.Alice)
	d := double(t)
	profile, eg := egresstest.Serve(t, d)
	s := remote.Server{ID: "issues", Version: "1.0.0", Owner: "team", Party: remote.PartyProvider, Profile: profile, Path: "/mcp",
		Auth:  connector.Auth{Mode: connector.AuthAPIKey},
		Tools: []remote.Tool{{Name: "get_issue", Class: reads}, {Name: "create_issue", Class: writes}}}
	listing, err := remote.Review(t.Context(), s, alice, &remote.Options{Egress: eg, Credentials: tokens{double: d}})
	require.NoError(t, err)
	pins, err := listing.Pin("get_issue", "create_issue")
	require.NoError(t, err)
	return connectortest.Fixture{
		New:    func() (connector.Connector, error) { return remote.New(s, pins, nil) },
		Double: func(t testing.TB) connectortest.Double { return double(t) },
		Samples: []connectortest.Sample{
			{Capability: "issues.get_issue", Args: `{"id":"a-1"}`, Bob: `{"id":"b-1"}`, Other: `{"id":"a-2"}`},
			{Capability: "issues.create_issue", Args: `{"title":"it rains in"}`, Other: `{"title":"the door sticks"}`},
		},
	}
}

// A remote MCP server keeps the contract of connectors, in both eras of the
// protocol. What it has no words for does not apply, and says why. K3 W1 W3 E5
func TestRemoteServersKeepTheContract(t *testing.T) {
	for era, serve := range map[string]func(testing.TB, *mcp.Server) http.Handler{
		"2026-07-28": func(_ testing.TB, s *mcp.Server) http.Handler { return modern(s) },
		"2025-11-25": legacy,
	} {
		t.Run(era, func(t *testing.T) { connectortest.Test(t, contract(t, serve)) })
	}
}

// What does not apply is not passed over in silence, and is no pass either.
func TestWhatARemoteServerCannotPromiseDoesNotApply(t *testing.T) {
	report := connectortest.Run(t, contract(t, func(_ testing.TB, s *mcp.Server) http.Handler { return modern(s) }))
	for id, why := range map[string]string{
		"errors/not-found-is-not-empty": "no read names one object",
		"cursor/complete":               "no capability of kind [list]",
		"write/reconcile-tells":         "no change can be looked up",
		"write/one-key-per-call":        "no change bears a key",
		"write/duplicate-delivery":      "enforces no key",
		"webhook/signature-required":    "has no webhooks",
	} {
		i := slices.IndexFunc(report.Results, func(r connectortest.Result) bool { return r.Check == id })
		require.GreaterOrEqual(t, i, 0, id)
		require.Equal(t, check.NotApplicable, report.Results[i].Verdict, id)
		require.Contains(t, report.Results[i].Reason, why, id)
	}
	require.GreaterOrEqual(t, report.Count(check.Pass), 95, "what applies was exercised")
}

// tokens is a broker for the review.
type tokens struct {
	keys
	double *issues
}

// Apply implements credential.Broker.
func (b tokens) Apply(_ context.Context, _ credential.Handle, _ string, r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+b.double.Token(check.TenantA, check.Alice))
	return nil
}
