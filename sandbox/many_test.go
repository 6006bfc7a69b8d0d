package sandbox

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// S6: a program may leave any number of names that a scan has to remember, such
// as links to one file. Compared each with each, these would keep the host for
// hours.
func TestTopmostOfMany_S6(t *testing.T) {
	list := make([]string, 0, maxScanned/4)
	for i := range cap(list) {
		list = append(list, fmt.Sprintf("/work/space/link%d", i))
	}
	require.Len(t, topmost(list), len(list))
	require.Equal(t, []string{"/work"}, topmost(append(list, "/work")))
}

// It is what comparing each with each would find.
func TestTopmost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.StringMatching(`(/[ab.-]{1,2}){0,4}|/`)).Draw(t, "paths")
		list = slices.DeleteFunc(list, func(p string) bool { return p == "" })
		var want []string
		for _, p := range sorted(list) {
			if !slices.ContainsFunc(list, func(q string) bool { return q != p && Within(q, p) }) {
				want = append(want, p)
			}
		}
		require.Equal(t, want, topmost(list))
	})
}
