package main

import (
	"bytes"
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

func TestEmbedded(t *testing.T) { check(t, "") }

func TestReal(t *testing.T) { check(t, peers.Prometheus(t)) }
