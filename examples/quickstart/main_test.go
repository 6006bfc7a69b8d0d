package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

// What the README promises: three answers, of which none tells another tenant's
// figures.
func check(t *testing.T, prometheus string) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), prometheus, false, &out))
	text := out.String()
	for _, want := range []string{"=> complete", "2.1", "=> gaps, missing: [remaining_rows]", "PERMISSION_DENIED"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "7.77")
}

// The README shows this host and its policy as they are.
func TestReadmeShowsThisHost(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(source), "// host puts a connector")
	code, _, _ = strings.Cut(code, "// groups and services")
	require.Contains(t, string(readme), "```go\n// host puts a connector"+strings.TrimRight(code, "\n")+"\n```")
	require.Contains(t, string(readme), "```cedar\n"+strings.TrimRight(string(policyText), "\n")+"\n```")
}

func TestEmbedded(t *testing.T) { check(t, "") }

func TestReal(t *testing.T) { check(t, peers.Prometheus(t)) }
