//go:build unix

package sandbox

import (
	"io/fs"
	"syscall"
)

// nonblock: opening a pipe must not wait for a writer; and a link that takes
// the place of a file between look and open is not followed.
const nonblock = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// links is how many names a file has.
func links(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

const knowsLinks = true
