package connectors_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/connectortest"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

var update = flag.Bool("update", false, "write testdata/double-*.json anew")

// The embedded providers are held against the real ones: what differs is known.
// The result has a date, and goes stale. T1.
func TestDoublesAgainstRealSystems_T1(t *testing.T) {
	for name := range realSystems {
		t.Run(name, func(t *testing.T) {
			text := compareNow(t, name, fixtures()[name])
			got, err := check.DecodeCompared(text)
			require.NoError(t, err)
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(comparedFile(name), text, 0o644))
			}
			kept, err := os.ReadFile(comparedFile(name))
			require.NoError(t, err)
			want, err := check.DecodeCompared(kept)
			require.NoError(t, err)
			require.Equal(t, want.Differences, got.Differences, "what differs has changed: look at it, and run with -update")
			require.GreaterOrEqual(t, got.Exchanges, want.Exchanges)
		})
	}
}

// realSystems can be started here.
var realSystems = map[string]func(testing.TB) string{"metrics": peers.Prometheus, "alerts": peers.Alertmanager}

func compareNow(t *testing.T, name string, f connectortest.Fixture) []byte {
	t.Helper()
	base := realSystems[name](t)
	f.Real = func(context.Context, testing.TB) (connectortest.Real, error) {
		return connectortest.Real{URL: base, Token: func(_, user string) string { return "no-credential-" + user }}, nil
	}
	return connectortest.CompareDouble(t, f)
}

// compared is what is known about a double: made now where the real systems are
// sure to be installed, and kept from the last time elsewhere.
func compared(t *testing.T, name string, f connectortest.Fixture) []byte {
	t.Helper()
	if os.Getenv("CI") == "true" {
		return compareNow(t, name, f)
	}
	text, err := os.ReadFile(comparedFile(name))
	require.NoError(t, err)
	return text
}

func comparedFile(name string) string { return filepath.Join("testdata", "double-"+name+".json") }
