package peers

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// PostgreSQL starts a PostgreSQL with an empty database and returns its
// connection string, such as
//
//	host=127.0.0.1 port=PORT user=postgres dbname=postgres sslmode=disable
//
// to which tests that share it append " search_path=NAME" or the like. It
// flushes nothing to the disk: it survives killed clients, which is what tests
// do, and no power cut. It needs the Debian package postgresql, whose programs
// lie in no PATH. PostgreSQL refuses to run as root, so that it then runs as the
// user postgres of that package.
func PostgreSQL(t testing.TB) string {
	t.Helper()
	bin := postgresBin(t)
	dir, as := t.TempDir(), postgresUser(t)
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatalf("peers: %v", err)
	}
	if as != nil {
		if err := os.Chown(data, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatalf("peers: %v", err)
		}
		reachable(t, dir)
	}
	runAs(t, as, data, filepath.Join(bin, "initdb"), "--pgdata=.", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	host, port, err := net.SplitHostPort(freePort(t))
	if err != nil {
		t.Fatalf("peers: %v", err)
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", ".", "-h", host, "-p", port, "-k", "",
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=100")
	cmd.Dir, cmd.SysProcAttr = data, &syscall.SysProcAttr{Credential: as}
	s := start(t, dir, cmd)
	isReady := filepath.Join(bin, "pg_isready")
	s.until(t, func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, isReady, "-h", host, "-p", port).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	return fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres sslmode=disable", host, port)
}

// postgresBin returns the directory of the newest version's programs.
func postgresBin(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		absent(t, "initdb is not installed (Debian package postgresql)")
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // a name that is no number is the oldest
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) }))
}

// postgresUser returns whom the server runs as: nil for the test's own user.
func postgresUser(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		absent(t, "there is no user postgres (Debian package postgresql): %v", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		t.Fatalf("peers: the user postgres has the id %q and the group %q", u.Uid, u.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// reachable lets others walk through the test's own directories.
func reachable(t testing.TB, dir string) {
	t.Helper()
	for range 2 { // the test's, and that of all of its name
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatalf("peers: %v", err)
		}
		dir = filepath.Dir(dir)
	}
}

func runAs(t testing.TB, as *syscall.Credential, dir, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("peers: %s: %v\n%s", program, err, out)
	}
}
