// Command skills runs the scenarios of SEP-2640 of the conformance suite against
// package mcpadapter/skills: the server's against what it serves, and the
// client's with it as the host.
//
// The tests need Node and the suite in a directory that the environment variable
// DRAWBRIDGE_NODE names:
//
//	npm install --prefix "$DRAWBRIDGE_NODE" node@22.23.3 @modelcontextprotocol/conformance@0.2.0-alpha.12
//
// Without the variable they are skipped, and with CI=true they fail.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/skills"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/skill/registry/registrytest"
)

// TestMain is also the host that the suite starts with the address of its server.
func TestMain(m *testing.M) {
	if os.Getenv("MCP_CONFORMANCE_SCENARIO") == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := host(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// host lists the skills of a server, and loads each and all of its files, unless
// the scenario is about what is not retrieved.
func host(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "drawbridge", Version: "0"}, nil)
	if err := skills.Prepare(client); err != nil {
		return err
	}
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	h, err := skills.NewHost("suite", session, nil)
	if err != nil {
		return err
	}
	list, err := h.List(ctx)
	if err != nil || os.Getenv("MCP_CONFORMANCE_SCENARIO") == "sep-2640-client-no-prefetch" {
		return err
	}
	if len(list.Rejected) > 0 {
		return list.Rejected[0].Err
	}
	for _, e := range list.Entries {
		s, err := h.Load(ctx, e)
		if err != nil {
			return err
		}
		for _, f := range e.Files {
			if _, err := s.Read(ctx, f.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// suite is the command line of the conformance suite, or skips the test.
func suite(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("DRAWBRIDGE_NODE")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("DRAWBRIDGE_NODE is not set, and CI=true says that it is")
		}
		t.Skip("DRAWBRIDGE_NODE names no directory with node@22.23.3 and @modelcontextprotocol/conformance@0.2.0-alpha.12")
	}
	words := []string{filepath.Join(dir, "node_modules", "node", "bin", "node"), filepath.Join(dir, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")}
	for _, f := range words {
		_, err := os.Stat(f)
		require.NoError(t, err, "DRAWBRIDGE_NODE is set and does not hold what it should")
	}
	return words
}

type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	ErrorMessage string `json:"errorMessage"`
}

// run runs one scenario and returns its checks.
func run(t *testing.T, args ...string) []check {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out := t.TempDir()
	words := append(suite(t), append(args, "-o", out)...)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = out
	cmd.Env = append(os.Environ(), "HOME="+out)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	files, globErr := filepath.Glob(filepath.Join(out, "*", "checks.json"))
	require.NoError(t, globErr)
	require.Len(t, files, 1, "%v\n%s", err, text.String())
	b, err := os.ReadFile(files[0])
	require.NoError(t, err)
	var checks []check
	require.NoError(t, json.Unmarshal(b, &checks))
	return checks
}

// passes wants every check to have passed but those that the revision does not
// have, and so many. What a scenario could not test is no pass.
func passes(t *testing.T, checks []check, want int, without ...string) {
	t.Helper()
	n := 0
	for _, c := range checks {
		switch {
		case c.Status == "SUCCESS":
			n++
		case c.Status == "INFO", c.Status == "SKIPPED" && slices.Contains(without, c.ID):
		default:
			t.Errorf("%s: %s: %s", c.ID, c.Status, c.ErrorMessage)
		}
	}
	require.Equal(t, want, n)
}

// The server's scenarios pass in both revisions.
//
// L2, A7, M1: skills over MCP, SEP-2640.
func TestServer_L2_A7_M1(t *testing.T) {
	suite(t)
	a, err := adapter(t)
	require.NoError(t, err)
	srv := httptest.NewServer(a.HTTP())
	t.Cleanup(srv.Close)
	// Cache hints are younger than 2025-11-25.
	hints := []string{"sep-2640-skills-list-cache-attributes", "sep-2640-skills-get-cache-attributes"}
	for _, row := range []struct {
		revision, scenario string
		checks             int
		without            []string
	}{
		{"2026-07-28", "sep-2640-skills-enumeration", 32, nil},
		{"2026-07-28", "sep-2640-skills-manifest", 6, nil},
		{"2026-07-28", "sep-2640-skills-directory", 7, nil},
		{"2025-11-25", "sep-2640-skills-enumeration", 30, hints},
		{"2025-11-25", "sep-2640-skills-manifest", 6, nil},
		{"2025-11-25", "sep-2640-skills-directory", 7, nil},
	} {
		t.Run(row.revision+" "+row.scenario, func(t *testing.T) {
			// The suite would leave out what is on no timeline of the specification.
			passes(t, run(t, "server", "--url", srv.URL, "--scenario", row.scenario, "--spec-version", row.revision, "--force"), row.checks, row.without...)
		})
	}
}

// The host's scenarios pass: nothing is retrieved before it is needed, and what
// differs from its entry is not used.
//
// L2, L4, M1: the host verifies.
func TestHost_L2_L4_M1(t *testing.T) {
	suite(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for _, scenario := range []string{"sep-2640-client-no-prefetch", "sep-2640-client-verify-digest", "sep-2640-client-verify-size", "sep-2640-client-verify-frontmatter"} {
		t.Run(scenario, func(t *testing.T) {
			passes(t, run(t, "client", "--command", self, "--scenario", scenario), 1)
		})
	}
}

// adapter serves two skills, one with a directory.
func adapter(t *testing.T) (*mcpadapter.Adapter, error) {
	alice, authority := authztest.Principal(t, "acme", "alice")
	carol := authztest.Caller(t, authority, "acme", "carol")
	trusted := []*authz.Authority{authority}
	reg, err := registry.New("acme", &registry.Memory{}, authztest.AllowAsked(), trusted, nil)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	for _, name := range []string{"incident-diagnosis", "ticket-triage"} {
		p := registrytest.Package(t, name, "")
		_, err1 := reg.Register(ctx, alice, p, registry.Record{Name: name, Version: "1.0.0", Owner: "sre", Scope: []string{"prod"}, SideEffect: risk.ReadOnly, Sensitivity: risk.Internal, Changelog: "first"})
		_, err2 := reg.Attach(ctx, alice, name, "1.0.0", registry.Evidence{Suite: "s", URI: "eval://x", Artifact: p.Digest(), Context: p.Digest(), Passed: true})
		_, err3 := reg.Review(ctx, carol, name, "1.0.0", registry.Review{Artifact: p.Digest(), Approved: true})
		_, err4 := reg.Move(ctx, alice, registry.MoveRequest{Name: name, Version: "1.0.0", To: registry.Validated})
		_, err5 := reg.Move(ctx, alice, registry.MoveRequest{Name: name, Version: "1.0.0", To: registry.Published})
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			return nil, err
		}
	}
	s, err := skills.NewServer(reg, "prod", &skills.ServerOptions{Prefix: "acme"})
	if err != nil {
		return nil, err
	}
	inv, err := connector.NewInvoker(authztest.AllowAsked(), trusted, nil, nil)
	if err != nil {
		return nil, err
	}
	return mcpadapter.New(inv, func(context.Context, *http.Request) (authz.Principal, error) { return alice, nil },
		&mcpadapter.Options{Extensions: []mcpadapter.Extension{s}})
}
