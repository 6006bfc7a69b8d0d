//go:build unix

package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
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
		list = append(list, fmt.Sprintf("/srv/space/link%d", i))
	}
	require.Len(t, topmost(list), len(list))
	require.Equal(t, []string{"/srv"}, topmost(append(list, "/srv")))
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

// S6: a pipe that a program has put in the place of a directory keeps nobody
// waiting, and a directory with more names than may be looked at is not
// remembered whole.
func TestReadDir_S6(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	list, err := readDir(dir, 5)
	require.NoError(t, err)
	require.Len(t, list, 5)
	list, err = readDir(dir, 100)
	require.NoError(t, err)
	require.Len(t, list, 20)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Log("there are no pipes here:", err)
		return
	}
	_, err = readDir(pipe, 5)
	require.Error(t, err)
	// The entry says that it is a directory, as it did when it was listed.
	info, err := os.Lstat(dir)
	require.NoError(t, err)
	s := &scan{r: &Rules{}, ctx: t.Context()}
	require.NoError(t, s.walk(pipe, fs.FileInfoToDirEntry(info)))
	require.Equal(t, []string{pipe}, s.found.Deny, "what cannot be looked into is covered")
}
