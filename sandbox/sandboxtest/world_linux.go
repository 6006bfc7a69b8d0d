package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// world is what an attempt happens in: a workspace, a host around it with
// something to steal and to break, and a process to attack.
type world struct {
	root   string
	guest  string
	owner  int
	secret string // what must not be seen
	env    string // the name of a variable with the secret
	fd     int    // an open file with the secret, as a careless host leaves it
	victim *exec.Cmd
	tcp    net.Listener
	udp    net.PacketConn
	unix   []net.Listener
}

// begin is what the file that takes the guest's output begins with.
const begin = "BEGIN\n"

func (w *world) path(rel string) string { return filepath.Join(w.root, rel) }

func (w *world) exists(rel string) bool {
	_, err := os.Lstat(w.path(rel))
	return err == nil
}

func (w *world) holds(rel, text string) bool {
	got, _ := os.ReadFile(w.path(rel))
	return strings.Contains(string(got), text)
}

func newWorld(dir string, owner int) (w *world, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	w = &world{root: dir, owner: owner, secret: "S3cr3t" + rand.Text(), env: "SANDBOXTEST_" + rand.Text(), fd: -1}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if os.Geteuid() != 0 {
		w.owner = 0
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return w, err
	}
	for _, d := range []string{"bin", "shared", "socks"} {
		if err := os.Mkdir(w.path(d), 0o755); err != nil {
			return w, err
		}
	}
	if w.guest, err = w.install(); err != nil {
		return w, err
	}
	if err := w.reset(); err != nil {
		return w, err
	}
	if err := w.listen(); err != nil {
		return w, err
	}
	// As a careless host does: a secret in its environment, an open file that
	// is passed on.
	if err := os.Setenv(w.env, w.secret); err != nil {
		return w, err
	}
	if err := os.WriteFile(w.path("socks/open"), []byte(w.secret), 0o600); err != nil {
		return w, err
	}
	if w.fd, err = syscall.Open(w.path("socks/open"), syscall.O_RDONLY, 0); err != nil {
		return w, err
	}
	w.victim = exec.Command(w.guest, mark, "outlive", "argument-"+w.secret)
	w.as(w.victim)
	return w, w.victim.Start()
}

// install copies this binary to where the rules permit reading it.
func (w *world) install() (string, error) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer exe.Close()
	to := w.path("bin/guest")
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, exe)
	return to, errors.Join(err, out.Chmod(0o755), out.Close())
}

// as makes a command run as who the sandboxed one runs as.
func (w *world) as(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if w.owner != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.owner), Gid: uint32(w.owner)}
	}
}

// uid is who programs run as.
func (w *world) uid() int {
	if w.owner != 0 {
		return w.owner
	}
	return os.Geteuid()
}

func (w *world) listen() (err error) {
	if w.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	if w.udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		return err
	}
	for _, name := range []string{w.path("shared/s"), w.path("socks/s"), "@" + w.env} {
		l, err := net.Listen("unix", name)
		if err != nil {
			return err
		}
		w.unix = append(w.unix, l)
		if name[0] != '@' {
			if err := os.Chmod(name, 0o777); err != nil {
				return err
			}
		}
	}
	if err := w.give(w.path("shared")); err != nil {
		return err
	}
	return w.setuid()
}

func (w *world) close() {
	if w.victim != nil && w.victim.Process != nil {
		w.victim.Process.Kill()
		w.victim.Wait()
	}
	for _, l := range append(w.unix, w.tcp) {
		if l != nil {
			l.Close()
		}
	}
	if w.udp != nil {
		w.udp.Close()
	}
	if w.fd >= 0 {
		syscall.Close(w.fd)
	}
	os.Unsetenv(w.env)
}

// reset puts the files back.
func (w *world) reset() error {
	for _, d := range []string{"ws", "ws-evil", "outside", "free"} {
		if err := os.RemoveAll(w.path(d)); err != nil {
			return err
		}
	}
	for _, d := range []string{"ws/sub", "ws/case", "ws/keys", "ws/.git/hooks", "ws-evil", "outside/dir", "free"} {
		if err := os.MkdirAll(w.path(d), 0o755); err != nil {
			return err
		}
	}
	for rel, text := range map[string]string{
		"ws/allowed.txt": "allowed content", "ws/.env": w.secret, "ws/sub/.env": w.secret, "ws/case/.ENV": w.secret,
		"ws/my-secret.txt": w.secret, "ws/keys/id": w.secret, "ws/.git/config": "[core]", "ws/.git/hooks/pre-push": "#!/bin/sh",
		"ws-evil/file": w.secret, "outside/file": w.secret, "outside/victim": "victim", "outside/out": begin, "free/file": "free",
	} {
		if err := os.WriteFile(w.path(rel), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := os.Link(w.path("outside/file"), w.path("ws/hard")); err != nil {
		return err
	}
	for name, to := range map[string]string{"out": w.path("outside/file"), "up": "../outside/file", "chain": "out", "env": ".env", "dir": w.path("outside")} {
		if err := os.Symlink(to, w.path("ws/"+name)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(w.path("ws/foreign"), foreignProgram, 0o755); err != nil {
		return err
	}
	for _, d := range []string{"ws", "ws-evil", "outside", "free"} {
		if err := w.give(w.path(d)); err != nil {
			return err
		}
	}
	return nil
}

// setuid makes a program that would run as root, where this process may.
func (w *world) setuid() error {
	if os.Geteuid() != 0 || w.owner == 0 {
		return nil
	}
	text, err := os.ReadFile(w.guest)
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.path("shared/suid"), text, 0o755); err != nil {
		return err
	}
	return os.Chmod(w.path("shared/suid"), 0o755|os.ModeSetuid)
}

func (w *world) give(dir string) error {
	if w.owner == 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, w.owner, w.owner))
	})
}

// rules are those of the suite, changed by the case. Every claim may be weak,
// but those of require: a weak executor must be able to start.
func (w *world) rules(c *Case, require map[sandbox.Claim]sandbox.Strength) (*sandbox.Rules, error) {
	p := &sandbox.Policy{
		Name: "sandboxtest", Require: map[sandbox.Claim]sandbox.Strength{},
		Filesystem: sandbox.Filesystem{
			System: true, AllowRead: []string{w.path("bin")}, AllowWrite: []string{"./", w.path("shared"), w.path("free")},
			DenyRead: []string{".env", "**/*secret*", "keys"},
		},
		Process: sandbox.Process{Timeout: 20 * time.Second},
	}
	for _, claim := range sandbox.Claims() {
		p.Require[claim] = require[claim]
	}
	if c.policy != nil {
		c.policy(w, p)
	}
	return p.Resolve(sandbox.Base{Workspace: w.path("ws")})
}

// attempt is what was seen of one run.
type attempt struct {
	exit    int
	signal  string
	out     string
	reopen  bool // the file of the output was changed by another way than writing
	elapsed time.Duration
	result  *sandbox.Result // inside
	err     error           // nothing ran
	hit     bool
}

func (a *attempt) says() string {
	s := fmt.Sprintf("exit %d", a.exit)
	if a.signal != "" {
		s = a.signal
	}
	return printable(s + ": " + a.out)
}

func (c *Case) command(w *world) (string, []string) {
	if c.program != "" {
		return c.program, c.args(w)
	}
	return w.guest, append([]string{mark}, c.args(w)...)
}

// patience is how long an attempt outside may take that would go on for ever:
// it has got through then. Any other may take long on a busy machine.
const (
	patience = 3 * time.Second
	longest  = time.Minute
)

func (w *world) outside(ctx context.Context, c *Case) *attempt {
	limit := longest
	if c.endless {
		limit = patience
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	program, args := c.command(w)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = w.path("ws")
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	w.as(cmd)
	a := &attempt{}
	w.output(c, a, func(f *os.File) error {
		cmd.Stdout, cmd.Stderr = f, f
		began := time.Now()
		err := cmd.Run()
		a.elapsed = time.Since(began)
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return err
		}
		a.exit = cmd.ProcessState.ExitCode()
		if st := cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signaled() {
			a.signal = st.Signal().String()
		}
		return nil
	})
	return a
}

func (w *world) inside(ctx context.Context, x sandbox.Executor, c *Case, rep *sandbox.Report) *attempt {
	require := map[sandbox.Claim]sandbox.Strength{}
	if c.Claim != "" {
		require[c.Claim] = rep.Of(c.Claim).Strength // what it claims, it must also be able to promise
	}
	rules, err := w.rules(c, require)
	if err != nil {
		return &attempt{err: err}
	}
	program, args := c.command(w)
	a := &attempt{}
	w.output(c, a, func(f *os.File) error {
		run, err := x.Start(ctx, rules, &sandbox.Command{Path: program, Args: args, Stdout: f, Stderr: f})
		if err != nil {
			return err
		}
		if a.result, err = run.Wait(); err != nil {
			return err
		}
		a.exit, a.signal, a.elapsed = a.result.ExitCode, a.result.Signal, a.result.Elapsed
		return nil
	})
	return a
}

// output gives the run a file outside of the workspace for its output, and
// looks at what happened.
func (w *world) output(c *Case, a *attempt, run func(*os.File) error) {
	f, err := os.OpenFile(w.path("outside/out"), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		a.err = err
		return
	}
	a.err = run(f)
	a.err = errors.Join(a.err, f.Close())
	text, _ := os.ReadFile(w.path("outside/out"))
	rest, ok := bytes.CutPrefix(text, []byte(begin))
	a.out, a.reopen = string(rest), !ok
	if a.err != nil {
		return
	}
	if c.through != nil {
		a.hit = c.through(w, a)
	} else {
		a.hit = a.exit == exitThrough && a.signal == ""
	}
	w.sweep()
}

// sweep ends what got away.
func (w *world) sweep() { w.strays(true) }

// strays lists the processes that bear the mark of this world and are not the
// victim.
func (w *world) strays(kill bool) (n int) {
	list, _ := os.ReadDir("/proc")
	for _, d := range list {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || w.victim == nil || pid == w.victim.Process.Pid {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", d.Name(), "cmdline"))
		if bytes.Contains(line, []byte(w.env)) {
			n++
			if kill {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	return n
}
