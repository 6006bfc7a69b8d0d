package mcpadapter_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/interop/governedcall"
)

// BenchmarkGovernedCall is one tools/call in memory through the SDK's client:
// governed, and the same tool added with the SDK's typed AddTool.
func BenchmarkGovernedCall(b *testing.B) {
	for name, open := range map[string]func(context.Context) (*governedcall.Side, error){
		"governed": governedcall.Governed, "sdk-typed": governedcall.Typed,
	} {
		b.Run(name, func(b *testing.B) {
			side, err := open(context.Background())
			require.NoError(b, err)
			defer side.Close()
			b.ReportAllocs()
			for b.Loop() {
				if err := side.Call(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What governance may cost in allocations is a promise: at most 0.6 of the
// SDK's typed tool.
func TestGovernedCallAllocates(t *testing.T) {
	count := func(open func(context.Context) (*governedcall.Side, error)) float64 {
		side, err := open(context.Background())
		require.NoError(t, err)
		defer side.Close()
		return testing.AllocsPerRun(100, func() { require.NoError(t, side.Call(context.Background())) })
	}
	governed, typed := count(governedcall.Governed), count(governedcall.Typed)
	t.Logf("governed %.0f, typed %.0f, ratio %.2f", governed, typed, governed/typed)
	require.LessOrEqual(t, governed, 0.6*typed)
}
