package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/authztest"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// serveStdio makes the test's own program a server on stdio, for clients that
// start one. It is an argument because they pass no environment on.
const serveStdio = "serve-stdio"

func TestMain(m *testing.M) {
	if !slices.Contains(os.Args[1:], serveStdio) {
		goleak.VerifyTestMain(m)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	a, err := adapter(false)
	if err == nil {
		err = a.ServeStdio(ctx)
	}
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// inspector is the command line of @modelcontextprotocol/inspector, or skips the
// test.
func inspector(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("DRAWBRIDGE_NODE")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("DRAWBRIDGE_NODE is not set, and CI=true says that it is")
		}
		t.Skip("DRAWBRIDGE_NODE names no directory with node@22 and @modelcontextprotocol/inspector@2.12.0")
	}
	node := filepath.Join(dir, "node_modules", "node", "bin", "node")
	cli := filepath.Join(dir, "node_modules", ".bin", "mcp-inspector")
	for _, f := range []string{node, cli} {
		_, err := os.Stat(f)
		require.NoError(t, err, "DRAWBRIDGE_NODE is set and does not hold what it should")
	}
	return []string{node, cli, "--cli"}
}

// inspect runs the client and returns what it printed.
func inspect(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	words := append(inspector(t), args...)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	t.Logf("inspector %s: %v\n%s", strings.Join(args, " "), err, out.String())
	return out.String()
}

// The inspector lists, calls and meets an error: over HTTP in revision
// 2026-07-28, and over stdio in that and in 2025-11-25.
func TestInspector_M1(t *testing.T) {
	inspector(t)
	self, err := os.Executable()
	require.NoError(t, err)
	a, err := adapter(true)
	require.NoError(t, err)
	srv := httptest.NewServer(a.HTTP())
	t.Cleanup(srv.Close)
	overHTTP := []string{srv.URL, "--transport", "http", "--header", "Authorization: Bearer alice"}
	for name, row := range map[string]struct {
		era    string
		before []string
		after  []string
	}{
		"HTTP, 2026-07-28":  {"modern", overHTTP, nil},
		"stdio, 2026-07-28": {"modern", []string{"--transport", "stdio"}, []string{"--", self, serveStdio}},
		"stdio, 2025-11-25": {"legacy", []string{"--transport", "stdio"}, []string{"--", self, serveStdio}},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(args ...string) string {
				words := append([]string{}, row.before...)
				words = append(words, "--protocol-era", row.era, "--format", "json")
				return inspect(t, append(append(words, args...), row.after...)...)
			}
			call := func(tool, args string) string {
				return run("--method", "tools/call", "--tool-name", tool, "--tool-args-json", args)
			}
			list := run("--method", "tools/list", "--strict")
			require.NotContains(t, list, "unportable", "and every client's dialect of JSON Schema is enough")
			require.Contains(t, list, "notes.read")
			require.NotContains(t, list, "notes.secret")
			require.Contains(t, call("notes.read", `{"name":"a"}`), "the text of a")
			require.Contains(t, call("notes.read", `{"name":"missing"}`), "NOT_FOUND")
			require.Contains(t, call("notes.read", `{"name":7}`), "INVALID_INPUT")
			require.NotContains(t, call("notes.secret", `{"name":"a"}`), "the text of a")
		})
	}
}

type note struct {
	Name string `json:"name" jsonschema:"of the note"`
}

// adapter serves two capabilities, one of which alice may not see.
func adapter(overHTTP bool) (*mcpadapter.Adapter, error) {
	read := func(_ context.Context, _ *connector.ReadCall, in note) (*connector.Answer[string], error) {
		if in.Name == "missing" {
			return nil, toolresult.NewError(toolresult.NotFound, "there is no such note")
		}
		return connector.Found("the text of " + in.Name), nil
	}
	spec := func(name string) connector.Spec {
		return connector.Spec{Name: name, Description: "Reads a note.", Sensitivity: risk.Internal}
	}
	c, err := connector.New(connector.Info{ID: "notes", Version: "1.0.0", Owner: "team", Auth: connector.Auth{Mode: connector.AuthNone}},
		connector.Read(spec("notes.read"), connector.OnConnection[note], read),
		connector.Read(spec("notes.secret"), connector.OnConnection[note], read))
	if err != nil {
		return nil, err
	}
	host := authz.NewAuthority("host")
	alice, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "https://issuer.test", Subject: "alice"})
	if err != nil {
		return nil, err
	}
	policy := authztest.Policy(func(r *authz.Request) (authz.Decision, error) {
		if r.Action.Capability == "notes.secret" {
			return authz.Decision{Verdict: authz.Deny, Revision: "r1"}, nil
		}
		return authz.Decision{Verdict: authz.Allow, Scope: authz.WholeConnection(), Revision: "r1"}, nil
	})
	inv, err := connector.NewInvoker(policy, []*authz.Authority{host}, []connector.Connector{c}, nil)
	if err != nil {
		return nil, err
	}
	return mcpadapter.New(inv, func(_ context.Context, r *http.Request) (authz.Principal, error) {
		if overHTTP && r.Header.Get("Authorization") != "Bearer alice" {
			return authz.Principal{}, toolresult.NewError(toolresult.AuthenticationRequired, "who?")
		}
		return alice, nil
	}, nil)
}
