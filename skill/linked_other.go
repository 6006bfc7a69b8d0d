//go:build !unix

package skill

import "io/fs"

// linked cannot be known here without opening the file.
func linked(fs.FileInfo) bool { return false }
