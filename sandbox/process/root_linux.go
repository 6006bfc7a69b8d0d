package process

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// A tree is a detached copy of a mount, taken before the new root hides where
// it came from.
type tree struct {
	fd   int
	path string
	dir  bool
}

const (
	flagsTree   = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	flagsDevice = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	flagsCover  = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_RDONLY

	// own is where the new root keeps what it covers others with.
	own = "/.sandbox"

	// newRootAt is where the new root is built. Any directory does: it is
	// this process's own copy of the mounts.
	newRootAt = "/tmp"

	maxPinned = 1 << 30 // bytes of one pinned file
)

// newRoot builds a root of only what the rules permit, and makes it the root.
func (s *spec) newRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("root: private: %w", err)
	}
	b := builder{links: map[string]string{}}
	if err := b.collect(s); err != nil {
		return err
	}
	if err := b.assemble(s); err != nil {
		return err
	}
	if err := b.coverUp(s); err != nil {
		return err
	}
	return enter()
}

type builder struct {
	trees []tree
	links map[string]string
}

// collect takes copies of the mounts, while the old root is there.
func (b *builder) collect(s *spec) error {
	if s.System {
		for _, p := range sandbox.System() {
			if err := b.system(p); err != nil {
				return err
			}
		}
	}
	for _, p := range devices {
		if err := b.take(p, flagsDevice); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	for _, p := range s.Read {
		if slices.ContainsFunc(s.Write, func(w string) bool { return sandbox.Within(w, p) }) {
			continue
		}
		if err := b.take(p, flagsTree|unix.MOUNT_ATTR_RDONLY); err != nil {
			return err
		}
	}
	for _, p := range s.Write {
		if err := b.take(p, flagsTree); err != nil {
			return err
		}
	}
	slices.SortStableFunc(b.trees, func(x, y tree) int {
		return cmp.Compare(strings.Count(x.path, "/"), strings.Count(y.path, "/"))
	})
	return nil
}

// system takes a directory of the system, or the link that it is (/bin).
func (b *builder) system(p string) error {
	info, err := os.Lstat(p)
	switch {
	case err != nil:
		return nil // not on this machine
	case info.Mode()&os.ModeSymlink != 0:
		b.links[p], err = os.Readlink(p)
		return err
	}
	return b.take(p, flagsTree|unix.MOUNT_ATTR_RDONLY)
}

func (b *builder) take(p string, flags uint64) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, p, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("root: copy %s: %w", p, err)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: flags}); err != nil {
		return fmt.Errorf("root: flags of %s: %w", p, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("root: %s: %w", p, err)
	}
	b.trees = append(b.trees, tree{fd, p, st.Mode&unix.S_IFMT == unix.S_IFDIR})
	return nil
}

// assemble makes the new root and puts everything in its place.
func (b *builder) assemble(s *spec) error {
	size := 16 << 20
	for _, p := range s.Pins {
		if info, err := os.Stat(p.Path); err == nil {
			size += int(min(info.Size(), maxPinned))
		}
	}
	if err := unix.Mount("tmpfs", newRootAt, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=755,size=%d", size)); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	if err := scaffold(); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	for _, t := range b.trees {
		at := newRootAt + t.path
		if err := place(at, t.dir); err != nil {
			return fmt.Errorf("root: %w", err)
		}
		if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("root: attach %s: %w", t.path, err)
		}
		unix.Close(t.fd)
	}
	for p, to := range b.links {
		if err := os.MkdirAll(filepath.Dir(newRootAt+p), 0o755); err != nil {
			return fmt.Errorf("root: %w", err)
		}
		if err := os.Symlink(to, newRootAt+p); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("root: %w", err)
		}
	}
	return nil
}

// scaffold makes what every program expects: a /tmp of its own, /proc of its
// own processes only, links in /dev.
func scaffold() error {
	for _, d := range []string{"/tmp", "/proc", "/dev", own} {
		if err := os.Mkdir(newRootAt+d, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmpfs", newRootAt+"/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m"); err != nil {
		return fmt.Errorf("/tmp: %w", err)
	}
	// Read-only: user 0 may write to /proc/sys without any capability.
	if err := unix.Mount("proc", newRootAt+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, newRootAt+"/dev/"+name); err != nil {
			return err
		}
	}
	if err := os.Mkdir(newRootAt+own+"/dir", 0); err != nil {
		return err
	}
	return place(newRootAt+own+"/file", false)
}

// place makes what a mount is attached to, unless it is there.
func place(at string, dir bool) error {
	if dir {
		return os.MkdirAll(at, 0o755)
	}
	if _, err := os.Lstat(at); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// coverUp hides what is denied, fixes what is pinned, and protects what may
// not be written. Directories above all of these become mounts first: the
// kernel does not rename a mount, so that none can be moved from under its
// rule.
func (b *builder) coverUp(s *spec) error {
	all := slices.Concat(s.Deny, s.ReadOnly)
	for _, p := range s.Pins {
		all = append(all, p.Path)
	}
	for _, p := range above(s.Write, all) {
		if err := cover(newRootAt+p, newRootAt+p, 0); err != nil {
			return fmt.Errorf("root: hold %s: %w", p, err)
		}
	}
	for _, p := range s.ReadOnly {
		if err := cover(newRootAt+p, newRootAt+p, flagsTree|unix.MOUNT_ATTR_RDONLY); err != nil {
			return fmt.Errorf("root: protect %s: %w", p, err)
		}
	}
	for i, p := range s.Pins {
		if err := pin(p, fmt.Sprintf("%s%s/pin%d", newRootAt, own, i)); err != nil {
			return err
		}
	}
	for _, p := range s.Deny {
		if err := hide(newRootAt + p); err != nil {
			return fmt.Errorf("root: hide %s: %w", p, err)
		}
	}
	return nil
}

// above lists the directories between the writable ones and the paths,
// outermost first.
func above(writable, paths []string) (out []string) {
	for _, p := range paths {
		for d := filepath.Dir(p); d != filepath.Dir(d); d = filepath.Dir(d) {
			inside := slices.ContainsFunc(writable, func(w string) bool { return w != d && sandbox.Within(w, d) })
			if !inside {
				break
			}
			out = append(out, d)
		}
	}
	slices.Sort(out) // a directory sorts before what lies below it
	return slices.Compact(out)
}

// cover mounts one path over another with flags.
func cover(from, at string, flags uint64) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil // gone since it was found
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if flags != 0 {
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: flags}); err != nil {
			return err
		}
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// hide covers a file or directory with an empty one of mode 0, without the
// flag for devices and programs, so that opening it fails and does not read
// nothing.
func hide(at string) error {
	info, err := os.Lstat(at)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	from := newRootAt + own + "/file"
	if info.IsDir() {
		from = newRootAt + own + "/dir"
	}
	return cover(from, at, flagsCover)
}

// pin copies the file to where nobody can write, compares its digest, and
// mounts the copy over the name: what runs is what was compared.
func pin(p sandbox.Pin, to string) error {
	from, err := os.Open(newRootAt + p.Path)
	if err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o555)
	if err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), io.LimitReader(from, maxPinned))
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	if "sha256:"+hex.EncodeToString(sum.Sum(nil)) != p.Digest {
		return fmt.Errorf("%s %s", notPinned, p.Path)
	}
	if err := cover(to, newRootAt+p.Path, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_RDONLY); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	return nil
}

// notPinned begins the message of a helper that found other contents.
const notPinned = "pin: the contents are not those that were approved:"

// enter makes the new root the only one, and read-only.
func enter() error {
	if err := os.Chdir(newRootAt); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("root: pivot: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("root: leave the old one: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("root: read-only: %w", err)
	}
	return nil
}
