package column

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "x", `\`, `\eA`, "a\x00b", "\xff", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		stored := Text(s)
		require.True(t, utf8.ValidString(stored))
		require.NotContains(t, stored, "\x00")
		back, err := Untext(stored)
		require.NoError(t, err)
		require.Equal(t, s, back)
		if foreign, err := Untext(s); err == nil { // what somebody else wrote
			require.Equal(t, s, Text(foreign), "no two texts have the same form")
		}
	})
}

func FuzzTargets(f *testing.F) {
	f.Add("")
	f.Add(`[["project","inc"]]`)
	f.Add(`[["project","\\/w"],["a","b"]]`)
	f.Fuzz(func(t *testing.T, s string) {
		ids, err := Untargets(s)
		if err != nil {
			require.Nil(t, ids)
			return
		}
		again, err := Untargets(Targets(ids))
		require.NoError(t, err)
		require.Equal(t, ids, again)
	})
}
