package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Rights of Landlock, by what a rule of ours means. Devices are never made:
// the set that is usual for "read and write" would permit it, and root could
// then make a block device in its workspace.
const (
	readFile  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	readDir   = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFile = readFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	writeDir  = readDir | writeFile | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REFER
	onlyFiles = writeFile | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// handled is every right of an ABI: what is handled and not granted is denied.
// ABI 3 is the first that can hold a file's length; 5 devices; 6 signals and
// abstract sockets. Newer ABIs add nothing that seccomp does not deny anyway.
func handled(abi int) (fs, scoped uint64) {
	fs = writeDir | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	if abi >= 5 {
		fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return fs, scoped
}

const leastABI = 3

// A grant permits rights for a path and, if it is a directory, all below.
type grant struct {
	Path   string
	Access uint64
}

// landlockABI is the kernel's, 0 if it has none.
func landlockABI() int {
	n, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// landlock confines this thread, and what it starts, to the grants, at exactly
// this ABI: with fewer rights than asked for it fails. no_new_privs must be on.
func landlock(abi int, grants []grant) error {
	if abi < leastABI {
		return fmt.Errorf("landlock: the kernel has ABI %d, want %d", abi, leastABI)
	}
	var attr struct{ fs, net, scoped uint64 }
	attr.fs, attr.scoped = handled(abi)
	size := unsafe.Sizeof(attr)
	if abi < 6 {
		size = unsafe.Offsetof(attr.scoped)
	}
	if abi < 4 {
		size = unsafe.Offsetof(attr.net)
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: create: %w", errno)
	}
	defer unix.Close(int(fd))
	for _, g := range grants {
		if err := permit(int(fd), g, attr.fs); err != nil {
			return err
		}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: restrict: %w", errno)
	}
	return nil
}

func permit(ruleset int, g grant, all uint64) error {
	fd, err := unix.Open(g.Path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("landlock: %s: %w", g.Path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("landlock: %s: %w", g.Path, err)
	}
	// The kernel's struct is packed: 64 bits of rights, 32 of descriptor.
	var rule struct {
		access uint64
		fd     int32
	}
	rule.access, rule.fd = g.Access&all, int32(fd)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rule.access &= onlyFiles
	}
	if rule.access == 0 {
		return nil
	}
	if _, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %s: %w", g.Path, errno)
	}
	return nil
}

// systemGrants are those of filesystem.system.
func systemGrants() (out []grant) {
	for _, p := range sandbox.System() {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			out = append(out, grant{real, readDir})
		}
	}
	return out
}

func deviceGrants() (out []grant) {
	for _, d := range devices {
		if _, err := os.Stat(d); err == nil {
			out = append(out, grant{d, unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE})
		}
	}
	return out
}

var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// expand turns the rules into grants that leave out what was found to be
// denied. Landlock has no rule that denies, so a directory with something
// denied below is granted entry by entry, and what is made in it later is not
// granted: this fails closed.
func expand(r *sandbox.Rules, found *sandbox.Found) ([]grant, error) {
	e := expander{deny: set(found.Deny), readOnly: set(found.ReadOnly), overDeny: over(found.Deny), overReadOnly: over(found.ReadOnly)}
	e.overDirectory = over(slices.DeleteFunc(slices.Clone(found.Deny), func(p string) bool {
		info, err := os.Lstat(p)
		return err == nil && !info.IsDir()
	}))
	for _, p := range r.Read {
		e.add(p, readDir)
	}
	for _, p := range r.Write {
		e.add(p, writeDir)
	}
	err := errors.Join(e.errs...)
	if len(e.out) > maxGrants || errors.Is(err, errMany) {
		return nil, toolresult.NewError(toolresult.ResultTooLarge, "beside what is denied there are more files than one run may be granted one by one; allow fewer directories or permit hard_links")
	}
	return e.out, err
}

var errMany = errors.New("too many names in a directory")

// maxGrants bounds what is granted one by one. A program that ran before may
// have left any number of names.
const maxGrants = 1 << 16

// An expander looks at each name once, whatever their number: sets of what is
// denied and protected, and of the directories above these and the paths
// themselves.
type expander struct {
	deny, readOnly                        map[string]bool
	overDeny, overReadOnly, overDirectory map[string]bool
	out                                   []grant
	errs                                  []error
}

// entries returns the names of a directory, and no more than may be granted and
// one. A program that runs may have put a pipe or a link in its place.
func entries(p string) ([]os.DirEntry, error) {
	f, err := os.OpenFile(p, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(maxGrants + 2)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(list) > maxGrants+1 {
		err = errMany
	}
	return list, err
}

func set(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, p := range list {
		out[p] = true
	}
	return out
}

// over are the paths and the directories above them.
func over(list []string) map[string]bool {
	out := map[string]bool{}
	for _, p := range list {
		for ; !out[p]; p = filepath.Dir(p) {
			out[p] = true
		}
	}
	return out
}

// within reports whether p or a directory above it is in the set.
func within(in map[string]bool, p string) bool {
	for ; !in[p]; p = filepath.Dir(p) {
		if p == filepath.Dir(p) {
			return false
		}
	}
	return true
}

func (e *expander) add(p string, access uint64) {
	if len(e.out) > maxGrants || within(e.deny, p) {
		return
	}
	if within(e.readOnly, p) {
		access &= readDir
	}
	writes := access&^readDir != 0
	if !e.overDeny[p] && !(writes && e.overReadOnly[p]) {
		e.out = append(e.out, grant{p, access})
		return
	}
	list, err := entries(p)
	if err != nil {
		e.errs = append(e.errs, err)
		return
	}
	// The right to list holds for everything below, so it is not granted where
	// a denied directory lies.
	if !e.overDirectory[p] {
		e.out = append(e.out, grant{p, unix.LANDLOCK_ACCESS_FS_READ_DIR})
	}
	for _, d := range list {
		if d.Type()&os.ModeSymlink == 0 {
			e.add(filepath.Join(p, d.Name()), access)
		}
	}
}
