package skill

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Digest is "sha256:" with 64 lower-case hexadecimal digits.
type Digest string

// DigestOf returns the digest of bytes.
func DigestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest("sha256:" + hex.EncodeToString(sum[:]))
}

// Valid reports whether d has the form of a digest.
func (d Digest) Valid() bool {
	text, ok := strings.CutPrefix(string(d), "sha256:")
	return ok && len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// File is one file of a package.
type File struct {
	Path       string // from the skill's directory, with slashes
	Size       int64
	Digest     Digest // of the bytes as they are
	Executable bool   // for anybody
}

// Manifest lists every file of a package, sorted by the bytes of the path.
type Manifest []File

// manifestHead names what the digest of a package is taken over, so that no
// other text has the same digest by design.
const manifestHead = "drawbridge skill package 1\n"

// Text is what the digest of the package is over: a first line, and a line for
// each file with the hexadecimal sha256 of its bytes, its size, "x" or "-" for
// executable or not, and the path, with blanks between them.
func (m Manifest) Text() []byte {
	b := bytes.NewBufferString(manifestHead)
	for _, f := range m {
		x := "-"
		if f.Executable {
			x = "x"
		}
		fmt.Fprintf(b, "%s %d %s %s\n", strings.TrimPrefix(string(f.Digest), "sha256:"), f.Size, x, f.Path)
	}
	return b.Bytes()
}

// Digest is the digest of the package: of [Manifest.Text].
func (m Manifest) Digest() Digest { return DigestOf(m.Text()) }

// Find returns the file with a path.
func (m Manifest) Find(path string) (File, bool) {
	i, ok := slices.BinarySearchFunc(m, path, func(f File, p string) int { return cmp.Compare(f.Path, p) })
	if !ok {
		return File{}, false
	}
	return m[i], true
}

// Bytes is the size of all files together.
func (m Manifest) Bytes() (n int64) {
	for _, f := range m {
		n += f.Size
	}
	return n
}

// Change says what became of one file from one manifest to another: "added",
// "removed", "content" or "executable bit".
type Change struct{ Path, What string }

// Changes compares m, which was there before, with another, sorted by path.
func (m Manifest) Changes(other Manifest) []Change {
	var out []Change
	for _, f := range m {
		now, ok := other.Find(f.Path)
		switch {
		case !ok:
			out = append(out, Change{f.Path, "removed"})
		case now.Digest != f.Digest:
			out = append(out, Change{f.Path, "content"})
		case now.Executable != f.Executable:
			out = append(out, Change{f.Path, "executable bit"})
		}
	}
	for _, f := range other {
		if _, ok := m.Find(f.Path); !ok {
			out = append(out, Change{f.Path, "added"})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return out
}
