package remote

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// playConformance makes the test's own program the client of one scenario. The
// suite adds the server's address.
const playConformance = "play-conformance"

func TestMain(m *testing.M) {
	if i := slices.Index(os.Args, playConformance); i > 0 && i+1 < len(os.Args) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := conformance(ctx, os.Getenv("MCP_CONFORMANCE_SCENARIO"), os.Args[i+1], os.Getenv("MCP_CONFORMANCE_CONTEXT"))
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// node returns the directory of Node's packages and its program, or skips the
// test.
func node(t *testing.T) (dir, program string) {
	t.Helper()
	dir = os.Getenv("DRAWBRIDGE_NODE")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("DRAWBRIDGE_NODE is not set, and CI=true says that it is")
		}
		t.Skip("DRAWBRIDGE_NODE names no directory with the packages of .ci/run")
	}
	dir = filepath.Join(dir, "node_modules")
	program = filepath.Join(dir, "node", "bin", "node")
	_, err := os.Stat(program)
	require.NoError(t, err, "DRAWBRIDGE_NODE is set and does not hold Node")
	return dir, program
}

// M5, acceptance 3: every scored client scenario of revision 2026-07-28 passes
// with mcpadapter/remote.
func TestConformanceClient_M5(t *testing.T) {
	dir, program := node(t)
	suite := filepath.Join(dir, "@modelcontextprotocol", "conformance", "dist", "index.js")
	_, err := os.Stat(suite)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, suite, "client", "--command", self+" "+playConformance, "--requirements", "2026-07-28", "-o", t.TempDir())
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	t.Log(out.String())
	require.NoError(t, err)
	passed := regexp.MustCompile(`(?m)^\s*✓ (\S+): [1-9][0-9]* passed, 0 failed`).FindAllString(out.String(), -1)
	require.Len(t, passed, 32, "and none was left out")
}
