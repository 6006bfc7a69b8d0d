// Package peers starts real servers for tests: Prometheus, Alertmanager, Redmine
// and, in front of one of them, an nginx that loses receipts, loaded with the
// data of package internal/alr; and an empty PostgreSQL. They listen on the
// loopback interface only, on a port that the system chooses.
//
//	base := peers.Prometheus(t) // http://127.0.0.1:PORT, ready, gone after the test
//
// A server that is not installed skips the test and says which package has it.
// With CI=true in the environment it fails the test instead, because .ci/run
// installs every one of them: a green run has met all peers.
//
// The servers run with temporary directories under the test's own and are ended
// by process id when the test ends. The package starts no container, downloads
// nothing, and is for tests only: it asks no password of anybody.
package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// startWithin is how long a server may take until it answers. Real times on two
// cores: Prometheus 0.2 s, Alertmanager 0.2 s, nginx 0.1 s, Redmine 6 s,
// PostgreSQL 2 s.
const startWithin = 3 * time.Minute

// find returns the path of each program, or ends the test: skipped, or failed
// where CI=true promises that debianPackage is installed.
func find(t testing.TB, debianPackage string, programs ...string) []string {
	t.Helper()
	var paths []string
	for _, name := range programs {
		path, err := lookPath(name)
		if err != nil {
			absent(t, "%s is not installed (Debian package %s)", name, debianPackage)
		}
		paths = append(paths, path)
	}
	return paths
}

// lookPath looks in the administrator's directories, too, where a user's PATH
// does not.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		return exec.LookPath(filepath.Join("/usr/sbin", name))
	}
	return path, err
}

func absent(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("peers: "+format+"; CI must have it", args...)
	}
	t.Skipf("peers: "+format, args...)
}

// freePort returns a loopback address nobody listens on at the moment.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("peers: no free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A server is one started program.
type server struct {
	cmd  *exec.Cmd
	log  string // file that holds its output
	done chan struct{}
}

// start runs cmd until the test ends.
func start(t testing.TB, dir string, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{cmd: cmd, log: filepath.Join(dir, filepath.Base(cmd.Path)+".log"), done: make(chan struct{})}
	out, err := os.Create(s.log)
	if err != nil {
		t.Fatalf("peers: %v", err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("peers: starting %s: %v", cmd.Path, err)
	}
	go func() {
		defer close(s.done)
		cmd.Wait() // the exit status of an ended server says nothing
	}()
	t.Cleanup(s.stop)
	return s
}

// stop asks the process to end, then makes it end.
func (s *server) stop() {
	s.cmd.Process.Signal(os.Interrupt)
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		s.cmd.Process.Kill()
		<-s.done
	}
}

// ready polls url until it answers with status.
func (s *server) ready(t testing.TB, url string, header http.Header, status int) {
	t.Helper()
	s.until(t, func(ctx context.Context) error { return probe(ctx, url, header, status) })
}

// until polls, and fails the test when that takes longer than startWithin or
// the server has ended.
func (s *server) until(t testing.TB, probe func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startWithin)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = probe(ctx); last == nil {
			return
		}
		select {
		case <-tick.C:
		case <-s.done:
			t.Fatalf("peers: %s ended at its start:\n%s", s.cmd.Path, tail(s.log))
		case <-ctx.Done():
			t.Fatalf("peers: %s was not ready after %s: %v\n%s", s.cmd.Path, startWithin, last, tail(s.log))
		}
	}
}

func probe(ctx context.Context, url string, header http.Header, status int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != status {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return nil
}

// tail returns the end of a log file.
func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	const most = 4000
	return string(text[max(0, len(text)-most):])
}

// run runs a command that must succeed, for at most startWithin.
func run(t testing.TB, dir string, env []string, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("peers: %s %v: %v\n%s", program, args, err, out)
	}
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatalf("peers: %v", err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatalf("peers: %v", err)
	}
}
