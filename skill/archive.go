package skill

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The archive of a package is a tar (ustar, or PAX for long paths and sizes)
// behind gzip, with the files in the order of the manifest and nothing else: no
// directories, owners, times or further modes. The same package gives the same
// archive with the same version of Go; its digest is that of the manifest, so
// that compression is no part of it.

// WriteArchive writes the package as an archive.
func (p *Package) WriteArchive(w io.Writer) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range p.manifest {
		mode := int64(0o644)
		if f.Executable {
			mode = 0o755
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Size: f.Size, Mode: mode}); err != nil {
			return err
		}
		if _, err := t.Write(p.content[f.Path]); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// ReadArchive reads a package from an archive: a tar, behind gzip or not, whose
// paths are those of the package, perhaps after "./". What [Open] refuses in a
// directory it refuses by the same names, and besides: hard links, sparse files,
// PAX records other than path, size and times, an archive that is not whole, and
// anything after its end. It never reads more than limits allow, however small
// the archive; limits may be nil.
func ReadArchive(r io.Reader, limits *Limits) (*Package, error) {
	b := builder{limits: limits.orDefaults()}
	// Headers and padding take at most 2 KiB for each file beside long paths.
	most := b.limits.Bytes + int64(b.limits.Files+16)*4096
	in := bufio.NewReader(r)
	plain := io.Reader(in)
	magic, _ := in.Peek(4)
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, &PathError{Text: "the archive is not a gzip", Err: err}
		}
		z.Multistream(false)
		plain = z
	case string(magic) == "PK\x03\x04" || string(magic) == "PK\x05\x06":
		return nil, &PathError{Text: "the archive is a zip; pack it as a tar behind gzip"}
	}
	bounded := &bounded{r: plain, left: most}
	if err := b.archive(tar.NewReader(bounded)); err != nil {
		return nil, err
	}
	if err := end(bounded, in); err != nil {
		return nil, err
	}
	return b.finish()
}

// end refuses what follows the archive: another reader might take it. Zeros are
// tar's own padding.
func end(plain io.Reader, in *bufio.Reader) error {
	buf := make([]byte, 4096)
	for {
		n, err := plain.Read(buf)
		if strings.Trim(string(buf[:n]), "\x00") != "" {
			return &PathError{Text: "there is something after the end of the archive"}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return &PathError{Text: "the archive is not whole", Err: err}
		}
	}
	if _, err := in.ReadByte(); err != io.EOF {
		return &PathError{Text: "there is something after the end of the archive", Err: err}
	}
	return nil
}

var errBomb = errors.New("it unpacks to more than a package may hold")

// bounded reads at most left bytes.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errBomb
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (b *builder) archive(r *tar.Reader) error {
	for entries := 0; ; entries++ {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return &PathError{Text: "the archive cannot be read", Err: err}
		}
		if most := b.limits.entries(); entries >= most {
			return &PathError{Text: fmt.Sprintf("the archive has more than %d entries", most)}
		}
		if err := b.member(h, r); err != nil {
			return err
		}
	}
}

func (b *builder) member(h *tar.Header, r io.Reader) error {
	name := strings.TrimPrefix(h.Name, "./")
	if what := cmp.Or(member(h), records(h)); what != "" {
		return &PathError{Path: h.Name, Text: what}
	}
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
		if name == "" || name == "." {
			return nil
		}
		if what := b.step(name); what != "" {
			return &PathError{Path: h.Name, Text: what}
		}
		return nil
	}
	if err := b.room(name, h.Size); err != nil {
		return err
	}
	return b.take(name, h.Size, h.Mode&0o111 != 0, r)
}

// member says why an entry of an archive is not a plain file or a directory.
func member(h *tar.Header) string {
	switch h.Typeflag {
	case tar.TypeSymlink:
		return "is a symbolic link; pack the file itself"
	case tar.TypeLink:
		return "is a hard link; pack the file itself"
	case tar.TypeChar, tar.TypeBlock:
		return "is a device"
	case tar.TypeFifo:
		return "is a pipe"
	case tar.TypeXGlobalHeader:
		return "is a PAX header for all that follows, which readers treat differently"
	case tar.TypeGNUSparse:
		return "is a sparse file"
	case tar.TypeReg, tar.TypeDir:
	default:
		return fmt.Sprintf("has the unknown type %q", h.Typeflag)
	}
	switch {
	case h.Linkname != "":
		return "is a file with the target of a link"
	case h.Mode&^0o777 != 0 && h.Mode&0o7000 != 0:
		return "has a set-user, set-group or sticky bit"
	case h.Typeflag == tar.TypeReg && strings.HasSuffix(h.Name, "/"):
		return "is a file with the name of a directory"
	}
	return ""
}

// records refuses PAX records that change what an entry is, or that readers
// treat differently.
func records(h *tar.Header) string {
	for k := range h.PAXRecords {
		switch k {
		case "path", "size", "mtime", "atime", "ctime":
		default:
			return "has the PAX record " + quote(k) + ", which readers treat differently"
		}
	}
	return ""
}
