//go:build unix

package skill

import (
	"io/fs"
	"syscall"
)

// linked reports whether a file has another name.
func linked(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Nlink > 1
}
