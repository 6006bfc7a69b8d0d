package skill

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const good = "---\nname: incident-diagnosis\ndescription: Diagnoses alerts. Use it when a service misbehaves.\n---\n# Method\n\nRead [the metrics](references/metrics.md).\n"

// tree is files by path; a path that ends in "!" is executable.
func tree(extra ...string) map[string]string {
	files := map[string]string{"SKILL.md": good, "references/metrics.md": "p95\n", "scripts/check.sh!": "#!/bin/sh\nexit 0\n"}
	for i := 0; i+1 < len(extra); i += 2 {
		files[extra[i]] = extra[i+1]
	}
	return files
}

func plant(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		plain, exec := strings.CutSuffix(name, "!")
		at := filepath.Join(dir, filepath.FromSlash(plain))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		mode := os.FileMode(0o644)
		if exec {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(at, []byte(text), mode))
	}
	return dir
}

func open(t testing.TB, dir string, l *Limits) (*Package, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	return Open(root, l)
}

// packed is a tar of a good skill with more headers after it.
func packed(t testing.TB, more ...func(*tar.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, file("SKILL.md", good)(w))
	for _, m := range more {
		require.NoError(t, m(w))
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func file(name, text string) func(*tar.Writer) error {
	return entryOf(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, text)
}

func entryOf(h tar.Header, text string) func(*tar.Writer) error {
	return func(w *tar.Writer) error {
		h.Size = int64(len(text))
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err := io.WriteString(w, text)
		return err
	}
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

func TestDirectoryAttacks_L2(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	for _, row := range []struct {
		name  string
		build func(dir string) error
		says  string
	}{
		{"a link out of the directory", func(d string) error { return os.Symlink(outside, d+"/references/x.md") }, "is a symbolic link"},
		{"a link inside the directory", func(d string) error { return os.Symlink("metrics.md", d+"/references/x.md") }, "is a symbolic link"},
		{"a link to a directory", func(d string) error { return os.Symlink("references", d+"/refs") }, "is a symbolic link"},
		{"a link that leads nowhere", func(d string) error { return os.Symlink("nowhere", d+"/x") }, "is a symbolic link"},
		{"a link in place of SKILL.md", func(d string) error {
			return firstOf(os.Remove(d+"/SKILL.md"), os.Symlink(outside, d+"/SKILL.md"))
		}, "is a symbolic link"},
		{"a hard link to a file outside", func(d string) error {
			return firstOf(os.WriteFile(d+"/../hard-"+filepath.Base(d), []byte("x"), 0o600), os.Link(d+"/../hard-"+filepath.Base(d), d+"/x"))
		}, "is a hard link"},
		{"two names of one file", func(d string) error { return os.Link(d+"/references/metrics.md", d+"/x.md") }, "is a hard link"},
		{"a pipe, which must not be waited for", func(d string) error { return syscall.Mkfifo(d+"/pipe", 0o644) }, "is a pipe"},
		{"a socket", func(d string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d + "/s", Net: "unix"})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		}, "is a socket"},
		{"a set-user bit", func(d string) error {
			return firstOf(os.WriteFile(d+"/su", nil, 0o755), os.Chmod(d+"/su", 0o755|os.ModeSetuid))
		}, "set-user"},
		{"names that differ in case", func(d string) error { return os.WriteFile(d+"/Skill.md", nil, 0o644) }, "case or Unicode form"},
		{"directories that differ in case", func(d string) error {
			return firstOf(os.Mkdir(d+"/Scripts", 0o755), os.WriteFile(d+"/Scripts/x", nil, 0o644))
		}, "case or Unicode form"},
		{"a name in Unicode form NFD", func(d string) error { return os.WriteFile(d+"/cafe\u0301.md", nil, 0o644) }, "form NFC"},
		{"a name that is not UTF-8", func(d string) error { return os.WriteFile(d+"/a\xff", nil, 0o644) }, "not UTF-8"},
		{"a line end in a name", func(d string) error { return os.WriteFile(d+"/a\nb", nil, 0o644) }, "cannot be printed"},
		{"a name that turns text around", func(d string) error { return os.WriteFile(d+"/a\u202etxt.sh", nil, 0o644) }, "cannot be printed"},
		{"a backslash in a name", func(d string) error { return os.WriteFile(d+`/..\x`, nil, 0o644) }, "backslash"},
		{"a stream of NTFS", func(d string) error { return os.WriteFile(d+"/SKILL.md:x", nil, 0o644) }, "Windows refuses"},
		{"a device of Windows", func(d string) error { return os.WriteFile(d+"/aux.md", nil, 0o644) }, "device of Windows"},
		{"a dot at the end of a name", func(d string) error { return os.WriteFile(d+"/SKILL.md.", nil, 0o644) }, "Windows drops"},
		{"more files than may be", func(d string) error { return many(d, 5) }, "at most 6 files"},
		{"more bytes than may be", func(d string) error { return os.WriteFile(d+"/big", make([]byte, 4097), 0o644) }, "at most 4096 bytes"},
		{"more directories than may be, so that a file behind them is not seen", func(d string) error { return manyDirs(d, 20) }, "at most 12 files and directories"},
		{"more directories below each other than may be", func(d string) error {
			return firstOf(manyDirs(d, 4), manyDirs(d+"/d0", 4), manyDirs(d+"/d1", 4))
		}, "at most 12 files and directories"},
		{"deeper than may be", func(d string) error { return os.MkdirAll(d+"/a/b/c/d/e", 0o755) }, "directories deep"},
		{"no SKILL.md", func(d string) error { return os.Remove(d + "/SKILL.md") }, "no SKILL.md"},
		{"SKILL.md in another case", func(d string) error { return os.Rename(d+"/SKILL.md", d+"/skill.md") }, "rename it"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := plant(t, tree())
			require.NoError(t, row.build(dir))
			p, err := open(t, dir, &Limits{Files: 6, Bytes: 4096, Depth: 4})
			require.Nil(t, p)
			require.ErrorContains(t, err, row.says)
			require.ErrorIs(t, err, toolresult.InvalidInput)
			require.NotContains(t, err.Error(), "secret\n")
		})
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func many(dir string, n int) error {
	for i := range n {
		if err := os.WriteFile(fmt.Sprintf("%s/f%d", dir, i), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func manyDirs(dir string, n int) error {
	for i := range n {
		if err := os.Mkdir(fmt.Sprintf("%s/d%d", dir, i), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func TestArchiveAttacks_L2(t *testing.T) {
	link := func(typ byte, name, to string) func(*tar.Writer) error {
		return entryOf(tar.Header{Typeflag: typ, Name: name, Linkname: to, Mode: 0o644}, "")
	}
	long := strings.Repeat("d/", 200) + "x"
	bomb := zipped(append(packed(t), make([]byte, 64<<20)...))
	truncated := packed(t, file("a", strings.Repeat("x", 2000)))
	var zipFile bytes.Buffer
	require.NoError(t, zip.NewWriter(&zipFile).Close())
	for _, row := range []struct {
		name string
		raw  []byte
		says string
	}{
		{"a path with ..", packed(t, file("../x", "")), "has .. in its path"},
		{"a path with .. inside", packed(t, file("references/../../x", "")), "has .. in its path"},
		{"a path with .. behind ./", packed(t, file("./../x", "")), "has .. in its path"},
		{"an absolute path", packed(t, file("/etc/cron.d/x", "")), "absolute path"},
		{"an absolute path behind ./", packed(t, file(".//etc/x", "")), "absolute path"},
		{"a directory with an absolute path", packed(t, entryDir("/a")), "absolute path"}, // it was never done with, once
		{"a directory with ..", packed(t, entryDir("../a")), "has .. in its path"},
		{"a directory in form NFD", packed(t, entryDir("cafe\u0301")), "form NFC"},
		{"a directory that is too deep", packed(t, entryDir("a/b/c/d/e/f/g/h/i")), "directories deep"},
		{"a path of Windows", packed(t, file(`..\..\x`, "")), "backslash"},
		{"a drive", packed(t, file("C:/x", "")), "Windows refuses"},
		{"an empty step", packed(t, file("a//b", "")), "empty step"},
		{"a dot as a step", packed(t, file("a/./b", "")), "empty step or a dot"},
		{"a symbolic link", packed(t, link(tar.TypeSymlink, "a", "/etc/passwd")), "is a symbolic link"},
		{"a symbolic link and a file through it", packed(t, link(tar.TypeSymlink, "d", "/tmp"), file("d/x", "")), "is a symbolic link"},
		{"a hard link", packed(t, link(tar.TypeLink, "a", "SKILL.md")), "is a hard link"},
		{"a hard link out of the archive", packed(t, link(tar.TypeLink, "a", "/etc/shadow")), "is a hard link"},
		{"a character device", packed(t, entryOf(tar.Header{Typeflag: tar.TypeChar, Name: "tty"}, "")), "is a device"},
		{"a block device", packed(t, entryOf(tar.Header{Typeflag: tar.TypeBlock, Name: "sda"}, "")), "is a device"},
		{"a pipe", packed(t, entryOf(tar.Header{Typeflag: tar.TypeFifo, Name: "p"}, "")), "is a pipe"},
		{"a file with the name of a directory", packed(t, link(tar.TypeReg, "a", ""), entryDir("a")), "occurs twice"},
		{"a file below a file", packed(t, file("a", ""), file("a/b", "")), "below a path that is a file"},
		{"a file twice", packed(t, file("SKILL.md", "other")), "occurs twice"},
		{"a PAX path that leaves", packed(t, paxPath("../"+strings.Repeat("p", 120))), "has .. in its path"},
		{"a PAX record that readers differ on", packed(t, pax("SCHILY.xattr.user.x", "1")), "PAX record"},
		{"a PAX record for a vendor", packed(t, pax("VENDOR.linkpath", "/etc/passwd")), "PAX record"},
		{"a PAX header for all that follows", packed(t, entryOf(tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "evil"}}, "")), "PAX header for all"},
		{"names that differ in case", packed(t, file("skill.md", "")), "case or Unicode form"},
		{"names that fold alike", packed(t, file("stra\u00dfe", ""), file("STRASSE", "")), "case or Unicode form"},
		{"a name in form NFD", packed(t, file("cafe\u0301", "")), "form NFC"},
		{"a set-user bit", packed(t, entryOf(tar.Header{Typeflag: tar.TypeReg, Name: "su", Mode: 0o4755}, "")), "set-user"},
		{"a path that is too deep", packed(t, file(long, "")), "directories deep"},
		{"a path that is too long", packed(t, file(strings.Repeat("x", 600), "")), "more than 512 bytes"},
		{"too many files", packed(t, fill(600)), "at most 512 files"},
		{"too many directories", packed(t, dirs(1200)), "more than 1024 entries"},
		{"a file that is too large", packed(t, file("big", strings.Repeat("x", 17<<20))), "at most 16777216 bytes"},
		{"a file that says it is too large", sizeOnly(t), "at most 16777216 bytes"},
		{"a bomb of gzip", bomb, "unpacks to more"},
		{"a bomb in a file", zipped(packed(t, file("big", strings.Repeat("\x00", 17<<20)))), "at most 16777216 bytes"},
		{"a second archive after the end", append(packed(t), packed(t)...), "after the end"},
		{"a second gzip after the end", append(zipped(packed(t)), zipped(packed(t))...), "after the end"},
		{"text after the end", append(zipped(packed(t)), "x"...), "after the end"},
		{"a tar that was cut off", truncated[:len(truncated)-3000], "cannot be read"},
		{"a gzip that was cut off", zipped(packed(t))[:100], "cannot be read"},
		{"a zip", zipFile.Bytes(), "is a zip"},
		{"no archive at all", []byte("hello"), "cannot be read"},
		{"an empty archive", nil, "no SKILL.md"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, err := ReadArchive(bytes.NewReader(row.raw), nil)
			require.Nil(t, p)
			require.ErrorContains(t, err, row.says)
			require.ErrorIs(t, err, toolresult.InvalidInput)
		})
	}
}

func entryDir(name string) func(*tar.Writer) error {
	return entryOf(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, "")
}

func paxPath(name string) func(*tar.Writer) error {
	return entryOf(tar.Header{Typeflag: tar.TypeReg, Name: name, Format: tar.FormatPAX}, "")
}

func pax(key, value string) func(*tar.Writer) error {
	return entryOf(tar.Header{Typeflag: tar.TypeReg, Name: "x", PAXRecords: map[string]string{key: value}, Format: tar.FormatPAX}, "")
}

func fill(n int) func(*tar.Writer) error {
	return func(w *tar.Writer) error {
		for i := range n {
			if err := file(fmt.Sprintf("f%d", i), "")(w); err != nil {
				return err
			}
		}
		return nil
	}
}

func dirs(n int) func(*tar.Writer) error {
	return func(w *tar.Writer) error {
		for i := range n {
			if err := entryDir(fmt.Sprintf("d%d", i))(w); err != nil {
				return err
			}
		}
		return nil
	}
}

// sizeOnly is a header that promises a terabyte, with nothing behind it.
func sizeOnly(t *testing.T) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, file("SKILL.md", good)(w))
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big", Size: 1 << 40}))
	return b.Bytes()
}

// What was approved is what is loaded: whatever is changed afterwards has
// another digest, and the error names the file.
func TestSwappedAfterApproval_L2(t *testing.T) {
	approved, err := open(t, plant(t, tree()), nil)
	require.NoError(t, err)
	for _, row := range []struct {
		name, path, what string
		files            map[string]string
	}{
		{"a script with other content", "scripts/check.sh", "content", tree("scripts/check.sh!", "#!/bin/sh\nexit 1\n")},
		{"a script that lost a byte", "scripts/check.sh", "content", tree("scripts/check.sh!", "#!/bin/sh\nexit 0")},
		{"an extra file", "scripts/more.sh", "added", tree("scripts/more.sh", "")},
		{"a hidden extra file", ".env", "added", tree(".env", "")},
		{"other instructions", "SKILL.md", "content", tree("SKILL.md", good+"And more.\n")},
		{"line ends", "references/metrics.md", "content", tree("references/metrics.md", "p95\r\n")},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, err := open(t, plant(t, row.files), nil)
			require.NoError(t, err)
			err = p.Verify(approved.Digest(), approved.Manifest())
			require.ErrorIs(t, err, toolresult.Conflict)
			require.Equal(t, []Change{{row.path, row.what}}, err.(*MismatchError).Changes)
			require.ErrorContains(t, err, row.path)
		})
	}
	t.Run("a file that became executable", func(t *testing.T) {
		dir := plant(t, tree())
		require.NoError(t, os.Chmod(dir+"/references/metrics.md", 0o755))
		p, err := open(t, dir, nil)
		require.NoError(t, err)
		require.Equal(t, []Change{{"references/metrics.md", "executable bit"}}, p.Verify(approved.Digest(), approved.Manifest()).(*MismatchError).Changes)
	})
	t.Run("a file that is gone", func(t *testing.T) {
		dir := plant(t, tree())
		require.NoError(t, os.Remove(dir+"/scripts/check.sh"))
		p, err := open(t, dir, nil)
		require.NoError(t, err)
		require.Equal(t, []Change{{"scripts/check.sh", "removed"}}, p.Verify(approved.Digest(), approved.Manifest()).(*MismatchError).Changes)
	})
	t.Run("nothing", func(t *testing.T) {
		p, err := open(t, plant(t, tree()), nil)
		require.NoError(t, err)
		require.NoError(t, p.Verify(approved.Digest(), nil))
	})
}
