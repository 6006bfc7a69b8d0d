package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// OCI confines programs through the command of a container runtime: runc, or
// another with its command line and configuration. It gives no network but
// none at all. The program is the container's first process; if a signal ends
// it, the exit code is 128 and the signal's number, as the runtime says it.
//
// A runtime keeps a container when whoever started it dies. So if this process
// is killed, what runs goes on; the report says so.
type OCI struct {
	path string
	host func() ociHost
}

// ociHost is what the runtime can do here, found out by doing it once.
type ociHost struct {
	works, count, memory error
}

// NewOCI returns an executor that runs the runtime at an absolute path.
func NewOCI(path string) (*OCI, error) {
	if !filepath.IsAbs(path) {
		return nil, toolresult.NewError(toolresult.InvalidInput, "the runtime must be an absolute path")
	}
	o := &OCI{path: path}
	o.host = sync.OnceValue(o.try)
	return o, nil
}

// try runs programs that do nothing, and programs that must not come far.
func (o *OCI) try() ociHost {
	h := ociHost{works: o.trial("exit 0", ociResources{}, 0)}
	if h.works != nil {
		h.count, h.memory = h.works, h.works
		return h
	}
	// Whether there is a limit shows only when it is met. Forking forks again
	// on failure in some shells, so a status other than success will do.
	h.count = o.trial("/bin/true && exit 3; exit 7", limitsOf(1, 0), 7, 2)
	h.memory = o.trial(`x=$(/usr/bin/head -c 134217728 /dev/zero | /usr/bin/tr '\0' x); [ ${#x} -gt 1000000 ] && exit 3; exit 7`, limitsOf(0, 64<<20), 7, 2, 137)
	return h
}

// trial runs a script, which must end with one of the statuses.
func (o *OCI) trial(script string, limits ociResources, want ...int) error {
	me := identity{os.Geteuid(), os.Getegid()}
	c := &ociConfig{}
	c.fill(me)
	c.system()
	c.Process.Args, c.Process.Cwd, c.Process.Env = []string{"/bin/sh", "-c", script}, "/", []string{"PATH=/usr/bin:/bin"}
	c.Linux.Resources = limits
	files, err := newStreams()
	if err != nil {
		return err
	}
	done := make(chan int, 1)
	box, err := o.start(c, me, files.child[:], func(pid int) {
		var status syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
				break
			}
		}
		done <- status.ExitStatus()
	})
	if err != nil {
		files.close()
		return err
	}
	defer box.remove()
	var says limited
	files.start(nil, nil, &says, 1024)
	status := <-done
	failed := box.failure()
	files.finish(time.Second)
	if failed != nil {
		return failed
	}
	for _, w := range want {
		if status == w {
			return nil
		}
	}
	return fmt.Errorf("the trial ended with status %d: %s", status, says.text)
}

// Probe implements [sandbox.Executor].
func (o *OCI) Probe(ctx context.Context, r *sandbox.Rules) (*sandbox.Report, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	name := filepath.Base(o.path)
	rep := sandbox.NewReport(sandbox.LevelContainer, name, r)
	rep.Limits = append([]sandbox.Limit{{Number: 135, Text: "when this process is killed, the container goes on"}}, notStopped...)
	h := o.host()
	if h.works != nil {
		for _, c := range sandbox.Claims() {
			rep.Set(c, sandbox.None, name+" does not work here: "+h.works.Error())
		}
		return rep, ctx.Err()
	}
	o.claims(rep, r, name, h)
	return rep, ctx.Err()
}

func (o *OCI) claims(rep *sandbox.Report, r *sandbox.Rules, name string, h ociHost) {
	for _, c := range []sandbox.Claim{sandbox.FSRead, sandbox.FSWrite, sandbox.FSMetadata, sandbox.FSExistence} {
		rep.Set(c, sandbox.Enforced, "", name)
	}
	rep.Set(sandbox.FSDenyRead, sandbox.Snapshot, gapName+"; a file that the host replaces loses its cover", name)
	rep.Set(sandbox.FSDenyWrite, sandbox.Snapshot, gapMade, name)
	rep.Set(sandbox.FSLinks, sandbox.Snapshot, gapName, name)
	for _, c := range []sandbox.Claim{sandbox.FSSocket, sandbox.NetFamilies, sandbox.ProcKernel} {
		rep.Set(c, sandbox.Enforced, "", "seccomp")
	}
	for _, c := range []sandbox.Claim{sandbox.NetEgress, sandbox.NetPrivate} {
		rep.Set(c, sandbox.Enforced, "", "empty network namespace")
		if len(r.Domains) > 0 {
			rep.Set(c, sandbox.None, "a container here has no network but none at all; the rules name hosts")
		}
	}
	for c, err := range map[sandbox.Claim]error{sandbox.ProcCount: h.count, sandbox.ProcMemory: h.memory} {
		rep.Set(c, sandbox.Enforced, "", "cgroup")
		if err != nil {
			rep.Set(c, sandbox.None, "the runtime's cgroup does not hold here: "+err.Error())
		}
	}
	rep.Set(sandbox.ProcTimeout, sandbox.Enforced, "", "kill of the pid namespace")
	rep.Set(sandbox.ProcTree, sandbox.Enforced, "", "pid namespace")
	rep.Set(sandbox.ProcFile, sandbox.Enforced, "", "RLIMIT_FSIZE")
	rep.Set(sandbox.ProcImage, sandbox.None, "the runtime starts what has the name at that time")
	rep.Set(sandbox.ProcOutput, sandbox.Enforced, "", "pipes")
	rep.Set(sandbox.ProcPeers, sandbox.Enforced, "", "pid namespace")
	rep.Set(sandbox.ProcCommands, sandbox.Auxiliary, gapCommands, "strings")
	rep.Set(sandbox.CredEnv, sandbox.Enforced, "", "environment made afresh")
	rep.Set(sandbox.CredFD, sandbox.Enforced, "", "close_range")
}

// Start implements [sandbox.Executor].
func (o *OCI) Start(ctx context.Context, r *sandbox.Rules, c *sandbox.Command) (sandbox.Running, error) {
	if err := r.CheckCommand(c); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	rep, err := o.Probe(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := rep.Check(r, c); err != nil {
		return nil, err
	}
	found, err := r.Scan(ctx)
	if err != nil {
		return nil, err
	}
	if len(found.Deny)+len(found.ReadOnly) > maxCovered {
		return nil, toolresult.NewError(toolresult.ResultTooLarge, "more files have to be covered than one run may have mounts; allow fewer directories or permit hard_links")
	}
	files, err := newStreams()
	if err != nil {
		return nil, fmt.Errorf("sandbox: streams: %w", err)
	}
	p := &running{report: rep, rules: r, found: found, streams: files, began: time.Now(), ended: make(chan ending, 1), exact: map[sandbox.Claim]bool{}}
	reaped := make(chan ending, 1)
	b, err := o.start(configure(r, c, found), as(r), files.child[:], func(pid int) {
		p.mu.Lock()
		p.pid = pid
		p.mu.Unlock()
		reaped <- p.reap(pid)
	})
	if err != nil {
		files.close()
		return nil, fmt.Errorf("sandbox: runtime: %w", err)
	}
	go func() { p.ended <- b.end(<-reaped) }()
	files.start(c.Stdin, c.Stdout, c.Stderr, r.MaxOutput)
	p.watch(ctx)
	return p, nil
}

// box is one container on disk.
type box struct {
	path, dir, id string
}

// end is what the end of the runtime says of the program. The container
// outlives a runtime that was killed, so it is ended here.
func (b *box) end(e ending) ending {
	if err := b.failure(); err != nil && e.err == nil {
		e.err = err
	}
	e.err = errors.Join(e.err, b.remove())
	return e
}

// start writes the bundle and starts the runtime on it.
func (o *OCI) start(c *ociConfig, id identity, stdio []*os.File, wait func(pid int)) (*box, error) {
	dir, err := os.MkdirTemp("", "sandbox-oci-")
	if err != nil {
		return nil, err
	}
	b := &box{path: o.path, dir: dir, id: filepath.Base(dir)}
	if err := b.write(c, id); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	err = forkClean(o.path, append(b.global(), "run", "--bundle", dir, b.id), stdio, wait)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return b, nil
}

// write makes the bundle. Who the program runs as may pass through it, and
// read nothing but the empty root.
func (b *box) write(c *ociConfig, id identity) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	root := filepath.Join(b.dir, "rootfs")
	if err := errors.Join(os.Chmod(b.dir, 0o711), os.WriteFile(filepath.Join(b.dir, "config.json"), text, 0o600), os.Mkdir(root, 0o755)); err != nil {
		return err
	}
	for name, to := range c.links {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return filepath.WalkDir(root, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, id.uid, id.gid))
	})
}

func (b *box) global() []string {
	return []string{"--root", filepath.Join(b.dir, "state"), "--log", filepath.Join(b.dir, "log"), "--log-format", "json"}
}

// failure is what the runtime says of itself: that is no end of the program.
func (b *box) failure() error {
	text, err := os.ReadFile(filepath.Join(b.dir, "log"))
	if err != nil {
		return nil // it had nothing to say
	}
	for line := range bytes.Lines(text[:min(len(text), 64<<10)]) {
		var l struct{ Level, Msg string }
		if json.Unmarshal(line, &l) == nil && (l.Level == "error" || l.Level == "fatal") {
			return fmt.Errorf("%s: %s", filepath.Base(b.path), strings.ToValidUTF8(l.Msg[:min(len(l.Msg), 512)], "?"))
		}
	}
	return nil
}

// remove ends what is left of the container, and takes its traces away.
func (b *box) remove() error {
	done := make(chan int, 1)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	err = forkClean(b.path, append(b.global(), "delete", "--force", b.id), []*os.File{null, null, null}, func(pid int) {
		var status syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
				break
			}
		}
		done <- status.ExitStatus()
	})
	if err != nil {
		return fmt.Errorf("the container may be left: %w", err)
	}
	if status := <-done; status != 0 {
		return fmt.Errorf("the container may be left: the runtime's delete ended with status %d", status)
	}
	return os.RemoveAll(b.dir)
}
