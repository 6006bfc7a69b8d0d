//go:build linux

package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

// guest is how this binary knows that it is to attack its host.
const guest = "attack-the-host"

// attacks are what a program tries on the process that started it. Each prints
// what came of it, as JSON: the names of errors by what was tried.
var attacks = map[string]func(host int) map[string]string{
	"kin":   becomeKin,
	"limit": limitHost,
}

func attack(what, host string) {
	pid, _ := strconv.Atoi(host)
	text, err := json.Marshal(attacks[what](pid))
	if err != nil {
		os.Exit(4)
	}
	fmt.Println(string(text))
	os.Exit(0)
}

// becomeKin makes children that are the host's and not its own, inside of its
// group and out of it: what they leave when they end only the host could take
// away, and it does not know them.
func becomeKin(int) map[string]string {
	out := map[string]string{}
	for _, away := range []bool{false, true} {
		pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_PARENT|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if pid == 0 && e == 0 {
			if away {
				unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
			}
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		out[fmt.Sprint("kin away ", away)] = unix.ErrnoName(e)
	}
	time.Sleep(50 * time.Millisecond) // they end
	return out
}

// limitHost takes from the host what a user may take from another process of
// the same user. Each call asks for what the host has already.
func limitHost(host int) map[string]string {
	out := map[string]string{}
	try := func(name string, nr uintptr, args ...uintptr) {
		a := append(args, make([]uintptr, 6)...)
		_, _, e := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		out[name] = unix.ErrnoName(e)
	}
	pid := uintptr(host)
	var own unix.Rlimit
	try("prlimit", unix.SYS_PRLIMIT64, pid, unix.RLIMIT_MSGQUEUE, 0, uintptr(unsafe.Pointer(&own)))
	try("prlimit of itself", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_MSGQUEUE, 0, uintptr(unsafe.Pointer(&own)))
	var all [128]byte
	for i := range all {
		all[i] = 0xff
	}
	try("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, pid, uintptr(len(all)), uintptr(unsafe.Pointer(&all)))
	try("sched_setaffinity of itself", unix.SYS_SCHED_SETAFFINITY, 0, uintptr(len(all)), uintptr(unsafe.Pointer(&all)))
	var param [4]byte
	try("sched_setscheduler", unix.SYS_SCHED_SETSCHEDULER, pid, 0, uintptr(unsafe.Pointer(&param)))
	try("sched_setparam", unix.SYS_SCHED_SETPARAM, pid, uintptr(unsafe.Pointer(&param)))
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr}
	try("sched_setattr", unix.SYS_SCHED_SETATTR, pid, uintptr(unsafe.Pointer(&attr)), 0)
	try("setpriority", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, pid, 0)
	try("setpriority of all", unix.SYS_SETPRIORITY, unix.PRIO_USER, 0, 0)
	try("setpriority of itself", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 0)
	try("ioprio_set", unix.SYS_IOPRIO_SET, 1, pid, 2<<13|4)
	return out
}

// attacked runs an attack in a copy of this binary, and returns what it printed;
// nil if the mode does not work here.
func attacked(t *testing.T, mode process.Mode, what string) map[string]string {
	t.Helper()
	x, ok := needs(t, mode, nil)
	if !ok {
		return nil // and needs has made sure that it refuses
	}
	ws := workspace(t)
	text, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	exe := filepath.Join(ws, "program")
	require.NoError(t, os.WriteFile(exe, text, 0o755))
	r := rules(t, ws, func(p *sandbox.Policy) {
		p.Process.Timeout = time.Minute
		weakly(p)
	})
	var out bytes.Buffer
	res := run(t, x, r, &sandbox.Command{Path: exe, Args: []string{guest, what, strconv.Itoa(os.Getpid())}, Stdout: &out})
	require.Zero(t, res.ExitCode, "%s %s", res.Signal, out.String())
	said := map[string]string{}
	require.NoError(t, json.Unmarshal(out.Bytes(), &said))
	return said
}

// children are the processes that are this one's, ended or not.
func children(t *testing.T) (list []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/status")
	require.NoError(t, err)
	for _, d := range dirs {
		text, err := os.ReadFile(d)
		if err == nil && bytes.Contains(text, fmt.Appendf(nil, "\nPPid:\t%d\n", os.Getpid())) {
			list = append(list, string(text[:bytes.IndexByte(text, '\n')])+" "+filepath.Base(filepath.Dir(d)))
		}
	}
	return list
}

// S6: what a program starts is never a child of its host, which would not know it
// and keep what is left of it for as long as it lives.
func TestNoChildrenOfTheHost_S6(t *testing.T) {
	for _, mode := range []process.Mode{process.Thread, process.Reexec} {
		t.Run(mode.String(), func(t *testing.T) {
			before := children(t)
			said := attacked(t, mode, "kin")
			if said == nil {
				return
			}
			require.Equal(t, map[string]string{"kin away false": "EPERM", "kin away true": "EPERM"}, said)
			require.Empty(t, slices.DeleteFunc(children(t), func(c string) bool { return slices.Contains(before, c) }))
		})
	}
}

// S6: a program of the same user takes nothing from its host: neither its limits,
// by which the kernel would end it, nor its share of the machine.
func TestHostKeepsItsLimits_S6(t *testing.T) {
	for _, mode := range []process.Mode{process.Thread, process.Reexec} {
		t.Run(mode.String(), func(t *testing.T) {
			said := attacked(t, mode, "limit")
			for what, errno := range said {
				switch {
				case what == "prlimit of itself" || what == "sched_setaffinity of itself" || what == "setpriority of itself":
					require.Empty(t, errno, what)
				case what == "setpriority of all" && mode == process.Reexec: // all that it can see
				default:
					require.NotEmpty(t, errno, what)
				}
			}
		})
	}
}

// firstThread is how this binary knows that it is to start a program from main.
const firstThread = "start-from-main"

// useFirstThread starts programs as a command does, from main and on one
// processor: what main starts is then the next that its thread does.
func useFirstThread() {
	ws, err := os.MkdirTemp("", "process-ws-")
	if err != nil {
		os.Exit(4)
	}
	defer os.RemoveAll(ws)
	x, err := process.New(&process.Options{Self: self, Mode: process.Thread})
	if err != nil {
		os.Exit(5)
	}
	p := &sandbox.Policy{Filesystem: sandbox.Filesystem{System: true, AllowWrite: []string{"./"}}}
	weakly(p)
	r, err := p.Resolve(sandbox.Base{Workspace: ws})
	if err != nil {
		os.Exit(6)
	}
	for range 4 {
		running, err := x.Start(context.Background(), r, &sandbox.Command{Path: "/bin/true"})
		if err != nil {
			os.Exit(7)
		}
		if _, err := running.Wait(); err != nil {
			os.Exit(8)
		}
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", os.Getpid()))
	if err != nil {
		os.Exit(9)
	}
	os.Stdout.Write(text)
	os.RemoveAll(ws)
	os.Exit(0)
}

// Case 143: the first thread of the host never ends, so it is never the one that
// is confined. It would keep whatever descriptors the host had then, and be the
// host to everybody who asks whose process this is.
func TestFirstThreadIsSpared_S6(t *testing.T) {
	if _, ok := needs(t, process.Thread, nil); !ok {
		return
	}
	for range 3 { // which thread it is, is the scheduler's to say
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", firstThread)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "\nNoNewPrivs:\t0\n")
		require.Contains(t, string(out), "\nSeccomp:\t0\n")
	}
}
