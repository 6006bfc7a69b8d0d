package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Executor confines programs on this kernel. It is safe for concurrent use.
type Executor struct {
	opts Options
	exe  string // of the helper; empty: none
	host func() host

	// adjust is nil, but in tests that open a hole on purpose.
	adjust func(*spec)
}

// host is what this machine can do, found out by doing it once.
type host struct {
	abi    int   // of Landlock; 0: none
	filter error // of seccomp
	thread error // of a trial of thread mode
	reexec error // of a trial of the helper
}

// New returns an executor. opts may be nil: thread mode only. It starts
// nothing yet.
func New(opts *Options) (*Executor, error) {
	x := &Executor{}
	if opts != nil {
		x.opts = *opts
	}
	switch {
	case x.opts.Mode > Reexec:
		return nil, toolresult.NewError(toolresult.InvalidInput, "no such mode")
	case x.opts.Helper != "" && !filepath.IsAbs(x.opts.Helper):
		return nil, toolresult.NewError(toolresult.InvalidInput, "the helper must be an absolute path")
	case x.opts.Helper != "":
		x.exe = x.opts.Helper
	case x.opts.Self.ok:
		x.exe = "/proc/self/exe"
	case x.opts.Mode == Reexec:
		return nil, toolresult.NewError(toolresult.InvalidInput, "re-exec mode needs Self, from Init at the start of main, or a Helper")
	}
	x.host = sync.OnceValue(x.try)
	return x, nil
}

// try finds out what works here.
func (x *Executor) try() host {
	h := host{abi: landlockABI()}
	_, h.filter = build(want{})
	if h.filter == nil {
		h.thread = threadWorks(h.abi)
	} else {
		h.thread = h.filter
	}
	h.reexec = errors.New("there is no helper: pass Self or Helper")
	if x.exe != "" {
		h.reexec = x.trial(&h)
	}
	return h
}

// trial takes the helper through all its steps. Without Landlock or without
// seccomp it still counts: the report then claims less.
func (x *Executor) trial(h *host) error {
	s := &spec{Trial: true, System: true, Dir: "/", ABI: h.abi, Listen: true, namespaces: allNamespaces}
	if h.abi < leastABI {
		s.ABI = 0
	}
	if h.filter == nil {
		s.Filter, _ = build(want{Inet: true, Deny: unix.SECCOMP_RET_USER_NOTIF})
		s.Notify = true
	}
	files, err := newStreams()
	if err != nil {
		return err
	}
	defer files.close()
	k, err := x.spawn(context.Background(), s, identity{os.Geteuid(), os.Getegid()}, files.child[:], func(pid int) {
		var status syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		return explain(err)
	}
	k.close()
	if !k.ready {
		return errors.New("the helper did not come to its end")
	}
	return nil
}

// explain says in words what the kernel says with a number that misleads.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("user namespaces are switched off or used up (user.max_user_namespaces): %w", err)
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("user namespaces or mounts in them are not permitted here: %w", err)
	}
	return err
}

// Probe implements [sandbox.Executor]. With Mode Auto the report is that of the
// mode that Start would choose.
func (x *Executor) Probe(ctx context.Context, r *sandbox.Rules) (*sandbox.Report, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	_, rep := x.choose(r, nil)
	return rep, ctx.Err()
}

// choose returns the mode and its report.
func (x *Executor) choose(r *sandbox.Rules, c *sandbox.Command) (Mode, *sandbox.Report) {
	switch x.opts.Mode {
	case Thread:
		return Thread, x.threadReport(r)
	case Reexec:
		return Reexec, x.reexecReport(r)
	}
	if rep := x.threadReport(r); rep.Check(r, c) == nil || x.exe == "" {
		return Thread, rep
	}
	return Reexec, x.reexecReport(r)
}

// Start implements [sandbox.Executor].
func (x *Executor) Start(ctx context.Context, r *sandbox.Rules, c *sandbox.Command) (sandbox.Running, error) {
	if err := r.CheckCommand(c); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	mode, rep := x.choose(r, c)
	if err := rep.Check(r, c); err != nil {
		return nil, err
	}
	if mode == Thread {
		return x.startInThread(ctx, r, c, rep)
	}
	return x.startHelper(ctx, r, c, rep)
}

// identity is who a program runs as.
type identity struct{ uid, gid int }

// as chooses: a program of a user runs as that user; a program of root as the
// owner of the first directory that it may write, else read, so that it owns
// nothing of root's.
func as(r *sandbox.Rules) identity {
	me := identity{os.Geteuid(), os.Getegid()}
	if me.uid != 0 {
		return me
	}
	for _, p := range append(append([]string{}, r.Write...), r.Read...) {
		var st unix.Stat_t
		if unix.Stat(p, &st) == nil {
			return identity{int(st.Uid), int(st.Gid)}
		}
	}
	return me
}

func (x *Executor) describe(rep *sandbox.Report, h host) {
	rep.Host["landlock"] = strconv.Itoa(h.abi)
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		rep.Host["kernel"] = unix.ByteSliceToString(u.Release[:])
	}
	for name, err := range map[string]error{"seccomp": h.filter, "thread": h.thread, "re-exec": h.reexec} {
		rep.Host[name] = "works"
		if err != nil {
			rep.Host[name] = err.Error()
		}
	}
}
