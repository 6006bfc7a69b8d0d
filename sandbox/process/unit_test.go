//go:build linux

package process_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
	"github.com/drawbridge-sdk/drawbridge/sandbox/sandboxtest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// judge runs a filter as the kernel would.
func judge(code []unix.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	word := func(off uint32) uint32 {
		switch off {
		case 0:
			return nr
		case 4:
			return arch
		}
		if i := int(off-16) / 8; i < len(args) {
			return uint32(args[i] >> (8 * ((off - 16) % 8)))
		}
		return 0
	}
	a := uint32(0)
	for pc := 0; ; pc++ {
		c := code[pc]
		yes := false
		switch c.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = word(c.K)
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= c.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return c.K
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(c.K)
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			yes = a == c.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			yes = a >= c.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			yes = a&c.K != 0
		default:
			panic("an instruction that no filter of ours has")
		}
		if yes {
			pc += int(c.Jt)
		} else {
			pc += int(c.Jf)
		}
	}
}

// Cases 126 and 127: the guard comes first, so that the numbers of another
// architecture are never compared with ours. Checked here too, because not
// every machine can make such calls.
func TestFilter(t *testing.T) {
	const allow, perm, nosys, kill = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ERRNO | 1, unix.SECCOMP_RET_ERRNO | 38, unix.SECCOMP_RET_KILL_PROCESS
	if process.Arch == 0 {
		_, err := process.Build(false, false)
		require.Error(t, err, "no table: no filter, and no claim")
		return
	}
	none, err := process.Build(false, false)
	require.NoError(t, err)
	inet, err := process.Build(true, false)
	require.NoError(t, err)
	read, err := process.Build(false, true)
	require.NoError(t, err)
	thread, err := process.BuildForThread()
	require.NoError(t, err)
	for _, row := range []struct {
		says string
		code []unix.SockFilter
		arch uint32
		nr   uint32
		args []uint64
		want uint32
	}{
		{"a harmless call passes", none, process.Arch, unix.SYS_READ, nil, allow},
		{"case 126: int 0x80 is the end, whatever the number", none, unix.AUDIT_ARCH_I386, 3, nil, kill},
		{"case 126: also with no number of ours", none, unix.AUDIT_ARCH_I386, 9999, nil, kill},
		{"an unknown architecture too", none, 0, 0, nil, kill},
		{"case 128: clone3 is not there", none, process.Arch, unix.SYS_CLONE3, nil, nosys},
		{"threads are made", none, process.Arch, unix.SYS_CLONE, []uint64{0x3d0f00}, allow},
		{"case 129: a namespace is not", none, process.Arch, unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | 17}, perm},
		{"not hidden in the upper half", none, process.Arch, unix.SYS_CLONE, []uint64{1<<40 | unix.CLONE_NEWNS}, perm},
		{"a child of the host", none, process.Arch, unix.SYS_CLONE, []uint64{unix.CLONE_PARENT | 17}, perm},
		{"limits of its own", thread, process.Arch, unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CPU}, allow},
		{"limits of somebody else", thread, process.Arch, unix.SYS_PRLIMIT64, []uint64{4711, unix.RLIMIT_CPU}, perm},
		{"in a namespace there is nobody else", none, process.Arch, unix.SYS_PRLIMIT64, []uint64{4711, unix.RLIMIT_CPU}, allow},
		{"its own processors", thread, process.Arch, unix.SYS_SCHED_SETAFFINITY, []uint64{0}, allow},
		{"those of somebody else", thread, process.Arch, unix.SYS_SCHED_SETAFFINITY, []uint64{4711}, perm},
		{"its own priority", thread, process.Arch, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0}, allow},
		{"that of somebody else", thread, process.Arch, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 4711}, perm},
		{"that of a user", thread, process.Arch, unix.SYS_SETPRIORITY, []uint64{unix.PRIO_USER, 0}, perm},
		{"its own turn at the disk", thread, process.Arch, unix.SYS_IOPRIO_SET, []uint64{1, 0}, allow},
		{"that of somebody else", thread, process.Arch, unix.SYS_IOPRIO_SET, []uint64{1, 4711}, perm},
		{"a call behind these", thread, process.Arch, unix.SYS_IOCTL, []uint64{0, 0x5412}, perm},
		{"and a harmless one", thread, process.Arch, unix.SYS_READ, nil, allow},
		{"no sockets", none, process.Arch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, perm},
		{"a pair of sockets", none, process.Arch, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, 1, 0}, allow},
		{"but of no other family", none, process.Arch, unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, 1, 0}, perm},
		{"TCP, with a proxy", inet, process.Arch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, allow},
		{"TCP by its number", inet, process.Arch, unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM, 6}, allow},
		{"case 91: MPTCP is another", inet, process.Arch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, perm},
		{"case 93: UDP", inet, process.Arch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, 0}, perm},
		{"case 94: unix", inet, process.Arch, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, perm},
		{"case 96: vsock", inet, process.Arch, unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, perm},
		{"raw", inet, process.Arch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW, 6}, perm},
		{"case 134: typing", none, process.Arch, unix.SYS_IOCTL, []uint64{0, 0x5412}, perm},
		{"not hidden in the upper half", none, process.Arch, unix.SYS_IOCTL, []uint64{0, 1<<32 | 0x5412}, perm},
		{"other ioctls", none, process.Arch, unix.SYS_IOCTL, []uint64{0, 0x5413}, allow},
		{"modes may be changed where something is writable", none, process.Arch, unix.SYS_FCHMOD, nil, allow},
		{"case 117: and not where nothing is", read, process.Arch, unix.SYS_FCHMOD, nil, perm},
		{"case 117: nor by fchmodat2", read, process.Arch, 452, nil, perm},
		{"case 117: nor flags by ioctl", read, process.Arch, unix.SYS_IOCTL, []uint64{3, 0x40086602}, perm},
	} {
		require.Equal(t, row.want, judge(row.code, row.arch, row.nr, row.args...), row.says)
	}
	for _, nr := range process.Denied {
		require.EqualValues(t, perm, judge(none, process.Arch, nr), nr)
	}
	if process.Arch == unix.AUDIT_ARCH_X86_64 {
		require.EqualValues(t, nosys, judge(none, process.Arch, 0x40000000|unix.SYS_READ), "case 127: x32")
		require.EqualValues(t, nosys, judge(none, process.Arch, 0xffffffff), "case 127: x32")
	}
}

// Case 141, acceptance 2: what a machine lacks is none, with the reason, and
// required it is a refusal before anything starts.
func TestMissingFeatures_S2(t *testing.T) {
	ws := workspace(t)
	no := errors.New("not on this machine")
	for _, row := range []struct {
		lacks string
		x     *process.Executor
		none  []sandbox.Claim
	}{
		{"everything", process.Lacking(nil, 0, no, no, no), sandbox.Claims()},
		{"user namespaces, in re-exec mode", process.Lacking(&process.Options{Mode: process.Reexec, Self: self}, 7, nil, nil, no), sandbox.Claims()},
		{"Landlock, in thread mode", process.Lacking(&process.Options{Mode: process.Thread}, 0, nil, no, no), sandbox.Claims()},
		{"seccomp, in re-exec mode", process.Lacking(&process.Options{Mode: process.Reexec, Self: self}, 7, no, no, nil), []sandbox.Claim{sandbox.ProcKernel, sandbox.NetFamilies, sandbox.FSSocket}},
		{"signals in Landlock", process.Lacking(&process.Options{Mode: process.Thread}, 5, nil, nil, no), []sandbox.Claim{sandbox.ProcPeers}},
		{"a proxy", process.Lacking(&process.Options{Mode: process.Reexec, Self: self}, 7, nil, nil, nil), []sandbox.Claim{sandbox.NetEgress, sandbox.NetPrivate}},
	} {
		t.Run(row.lacks, func(t *testing.T) {
			for _, c := range row.none {
				if c == sandbox.ProcCommands {
					continue // advice is nobody's feature
				}
				r := rules(t, ws, func(p *sandbox.Policy) {
					p.Require = map[sandbox.Claim]sandbox.Strength{}
					for _, other := range sandbox.Claims() {
						p.Require[other] = sandbox.None
					}
					p.Require[c] = sandbox.Snapshot
					p.Network.AllowDomains = []string{"example.com"}
				})
				rep, err := row.x.Probe(t.Context(), r)
				require.NoError(t, err)
				require.Equal(t, sandbox.None, rep.Of(c).Strength, c)
				require.NotEmpty(t, rep.Of(c).Gap, c)
				_, err = row.x.Start(t.Context(), r, &sandbox.Command{Path: "/bin/sh", Args: []string{"-c", "touch started"}})
				var u *sandbox.UnenforcedError
				require.ErrorAs(t, err, &u)
				require.True(t, u.Has(c))
				require.ErrorIs(t, err, toolresult.Unsupported)
				require.NoFileExists(t, filepath.Join(ws, "started"))
			}
		})
	}
}

// needs returns an executor for the rules, or says why there is none here; the
// test then only makes sure that Start refuses.
func needs(t *testing.T, mode process.Mode, proxy sandbox.Proxy) (*process.Executor, bool) {
	t.Helper()
	x, err := process.New(&process.Options{Mode: mode, Self: self, Proxy: proxy})
	require.NoError(t, err)
	r := rules(t, workspace(t), nil)
	rep, err := x.Probe(t.Context(), r)
	require.NoError(t, err)
	if rep.Of(sandbox.FSRead).Strength != sandbox.None {
		return x, true
	}
	_, err = x.Start(t.Context(), r, &sandbox.Command{Path: "/bin/true"})
	require.ErrorIs(t, err, toolresult.Unsupported)
	t.Log(mode, "does not work here, and refuses:", rep.Of(sandbox.FSRead).Gap)
	return nil, false
}

// weakly accepts what thread mode does not hold.
func weakly(p *sandbox.Policy) {
	p.Require = map[sandbox.Claim]sandbox.Strength{sandbox.ProcTree: 0, sandbox.FSMetadata: 0}
}

// Case 143: whatever the scheduler does, the program is confined and the host
// is not.
func TestThreadIsLocked(t *testing.T) {
	x, ok := needs(t, process.Thread, nil)
	if !ok {
		return
	}
	r := rules(t, workspace(t), weakly)
	// A test before this one that starts a program as another user (os/exec with
	// Credential) clears the flag for the whole process: the child of a vfork
	// shares the memory that it belongs to.
	require.NoError(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0))
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			for range 5 {
				_, err := os.ReadFile("/etc/hostname")
				require.NoError(t, err, "the host was confined")
				fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
				require.NoError(t, err, "the host was confined")
				unix.Close(fd)
			}
		})
		all.Go(func() {
			res := run(t, x, r, &sandbox.Command{Path: "/bin/cat", Args: []string{"/etc/shadow"}})
			require.NotZero(t, res.ExitCode, "the program was not confined")
		})
	}
	all.Wait()
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	require.NoError(t, err)
	require.Equal(t, 1, dumpable, "the host was left as it was")
}

// Case 120 and 151: the command widens nothing, and what a guest could set
// makes no program of the host run code.
func TestCommandRefused(t *testing.T) {
	ws := workspace(t)
	require.NoError(t, os.WriteFile(filepath.Join(ws, ".env"), nil, 0o600))
	r := rules(t, ws, func(p *sandbox.Policy) {
		p.Filesystem.DenyRead = []string{".env"}
		p.Credentials.Env = []string{"LANGUAGE"}
		p.Process.BlockedCommands = []string{"sudo"}
	})
	x := executor(t, process.Auto)
	for _, row := range []struct {
		says string
		c    *sandbox.Command
		code toolresult.ErrorCode
	}{
		{"no command", nil, toolresult.InvalidInput},
		{"a program by its name only", &sandbox.Command{Path: "sh"}, toolresult.InvalidInput},
		{"a path that is not clean", &sandbox.Command{Path: "/bin/../bin/sh"}, toolresult.InvalidInput},
		{"a program outside", &sandbox.Command{Path: "/opt/evil"}, toolresult.PermissionDenied},
		{"a denied file as a program", &sandbox.Command{Path: filepath.Join(ws, ".env")}, toolresult.PermissionDenied},
		{"case 120: a directory outside", &sandbox.Command{Path: "/bin/sh", Dir: "/root"}, toolresult.PermissionDenied},
		{"case 120: a directory above", &sandbox.Command{Path: "/bin/sh", Dir: filepath.Dir(ws)}, toolresult.PermissionDenied},
		{"case 151: a variable that loads code", &sandbox.Command{Path: "/bin/sh", Env: map[string]string{"LD_PRELOAD": "x"}}, toolresult.PermissionDenied},
		{"a variable that nobody listed", &sandbox.Command{Path: "/bin/sh", Env: map[string]string{"HTTP_PROXY": "x"}}, toolresult.PermissionDenied},
		{"a NUL in an argument", &sandbox.Command{Path: "/bin/sh", Args: []string{"a\x00b"}}, toolresult.InvalidInput},
		{"a NUL in a variable", &sandbox.Command{Path: "/bin/sh", Env: map[string]string{"LANGUAGE": "a\x00b"}}, toolresult.InvalidInput},
		{"a blocked text", &sandbox.Command{Path: "/bin/sh", Args: []string{"-c", "sudo id"}}, toolresult.PermissionDenied},
		{"a pin without a digest", &sandbox.Command{Path: "/bin/sh", Pins: []sandbox.Pin{{Path: "/bin/sh"}}}, toolresult.InvalidInput},
	} {
		_, err := x.Start(t.Context(), r, row.c)
		require.ErrorIs(t, err, row.code, row.says)
	}
	_, err := process.New(&process.Options{Mode: process.Reexec})
	require.ErrorIs(t, err, toolresult.InvalidInput, "without Init a program would start itself again and again")
	_, err = process.New(&process.Options{Helper: "helper"})
	require.ErrorIs(t, err, toolresult.InvalidInput)
	_, err = process.New(&process.Options{Mode: 9})
	require.ErrorIs(t, err, toolresult.InvalidInput)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = x.Start(cancelled, r, &sandbox.Command{Path: "/bin/true"})
	require.ErrorIs(t, err, context.Canceled)
}

// Case 155, 156: what runs is what was approved, also when the file is another
// by then, in place or by another file.
func TestPins_S7(t *testing.T) {
	x, ok := needs(t, process.Reexec, nil)
	if !ok {
		return
	}
	ws := workspace(t)
	script := filepath.Join(ws, "tool")
	text := []byte("#!/bin/sh\necho approved; echo evil >> tool; exec cat tool\n")
	require.NoError(t, os.WriteFile(script, text, 0o755))
	sum := sha256.Sum256(text)
	real, err := filepath.EvalSymlinks(script)
	require.NoError(t, err)
	pin := sandbox.Pin{Path: real, Digest: "sha256:" + hex.EncodeToString(sum[:])}
	r := rules(t, ws, nil)
	var out bytes.Buffer
	run(t, x, r, &sandbox.Command{Path: real, Pins: []sandbox.Pin{pin}, Stdout: &out})
	require.Contains(t, out.String(), "approved")
	require.NotContains(t, out.String(), "\nevil", "the program cannot change itself")

	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch ran\n"), 0o755))
	_, err = x.Start(t.Context(), r, &sandbox.Command{Path: real, Pins: []sandbox.Pin{pin}})
	require.ErrorIs(t, err, toolresult.ApprovalInvalid)
	require.NoFileExists(t, filepath.Join(ws, "ran"))

	thread := executor(t, process.Thread)
	_, err = thread.Start(t.Context(), rules(t, ws, weakly), &sandbox.Command{Path: real, Pins: []sandbox.Pin{pin}})
	require.ErrorIs(t, err, toolresult.Unsupported, "thread mode cannot, and says so")
}

// Case 112, 162: a protected file that was not there cannot be forbidden; it
// is reported, and the report says so.
func TestProtectedFileMade(t *testing.T) {
	x, ok := needs(t, process.Reexec, nil)
	if !ok {
		return
	}
	ws := workspace(t)
	r := rules(t, ws, nil)
	res := run(t, x, r, &sandbox.Command{Path: "/bin/sh", Args: []string{"-c", "echo '{}' > .mcp.json"}})
	require.Zero(t, res.ExitCode)
	require.Equal(t, sandbox.Snapshot, res.Report.Of(sandbox.FSDenyWrite).Strength)
	require.Len(t, res.Denials, 1)
	require.Equal(t, sandbox.FSDenyWrite, res.Denials[0].Claim)
	require.Contains(t, res.Denials[0].Target, ".mcp.json")
	res = run(t, x, r, &sandbox.Command{Path: "/bin/sh", Args: []string{"-c", "echo evil > .mcp.json"}})
	require.NotZero(t, res.ExitCode, "now it is there, and protected")
	require.Empty(t, res.Denials)
}

// Denials of the filter are exact.
func TestDenialsAreExact(t *testing.T) {
	x, ok := needs(t, process.Reexec, nil)
	if !ok {
		return
	}
	res := run(t, x, rules(t, workspace(t), nil), &sandbox.Command{Path: "/usr/bin/unshare", Args: []string{"-U", "true"}})
	if !res.Exact[sandbox.ProcKernel] {
		require.Equal(t, sandbox.None, res.Report.Of(sandbox.ProcKernel).Strength)
		return
	}
	require.NotEmpty(t, res.Denials)
	require.True(t, res.Denials[0].Exact)
	require.Equal(t, "namespaces", res.Denials[0].Target)
}

// scripted answers every proxy request by its host.
type scripted struct{}

func (scripted) Serve(ctx context.Context, l net.Listener, r *sandbox.Rules, denied func(sandbox.Denial)) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return nil
		}
		b := make([]byte, 4096)
		n, _ := c.Read(b)
		line, _, _ := strings.Cut(string(b[:n]), "\r\n")
		host := strings.TrimSuffix(strings.TrimPrefix(strings.Fields(line + " - -")[1], "http://"), "/")
		if d := r.Decide(sandbox.Op{Kind: sandbox.OpConnect, Target: host}); d.Allowed {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
		} else {
			denied(sandbox.Denial{Claim: sandbox.NetEgress, Op: "connect", Target: host, Rule: d.Rule, Exact: true})
			io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
		c.Close()
	}
}

// Case 90, 99: the only way out is the proxy, through a listener that came out
// of the program's empty network.
func TestProxyIsTheOnlyWay(t *testing.T) {
	x, ok := needs(t, process.Reexec, scripted{})
	if !ok {
		return
	}
	r := rules(t, workspace(t), func(p *sandbox.Policy) { p.Network.AllowDomains = []string{"good.example"} })
	ask := func(host string) string {
		var out bytes.Buffer
		// bash has TCP of its own; no client is needed.
		res := run(t, x, r, &sandbox.Command{Path: "/bin/bash", Args: []string{"-c", `exec 5<>/dev/tcp/127.0.0.1/3128; printf 'GET http://` + host + `/ HTTP/1.1\r\n\r\n' >&5; cat <&5`}, Stdout: &out})
		require.Equal(t, sandbox.Enforced, res.Report.Of(sandbox.NetEgress).Strength)
		require.True(t, res.Exact[sandbox.NetEgress])
		if host != "good.example" {
			require.True(t, slices.ContainsFunc(res.Denials, func(d sandbox.Denial) bool { return d.Claim == sandbox.NetEgress && d.Target == host && d.Exact }))
		}
		return out.String()
	}
	require.Contains(t, ask("good.example"), "hello")
	require.Contains(t, ask("evil.example"), "403")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	res := run(t, x, r, &sandbox.Command{Path: "/bin/bash", Args: []string{"-c", "exec 5<>/dev/tcp/127.0.0.1/" + port}})
	require.NotZero(t, res.ExitCode, "the host's loopback is another")
}

// A helper of its own, for programs that take long to start.
func TestHelperBinary(t *testing.T) {
	dir := workspace(t)
	exe := filepath.Join(dir, "helper")
	cmd := exec.Command("go", "build", "-o", exe, "./testdata/helper")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	x, err := process.New(&process.Options{Helper: exe})
	require.NoError(t, err)
	r := rules(t, workspace(t), nil)
	rep, err := x.Probe(t.Context(), r)
	require.NoError(t, err)
	if rep.Of(sandbox.FSRead).Strength == sandbox.None {
		require.Error(t, rep.Check(r, nil))
		return
	}
	var stdout bytes.Buffer
	res := run(t, x, r, &sandbox.Command{Path: "/bin/sh", Args: []string{"-c", "cat; exit 3"}, Stdin: strings.NewReader("through"), Stdout: &stdout})
	require.Equal(t, 3, res.ExitCode)
	require.Equal(t, "through", stdout.String())

	evil, err := process.New(&process.Options{Mode: process.Reexec, Helper: "/bin/true"})
	require.NoError(t, err)
	_, err = evil.Start(t.Context(), r, &sandbox.Command{Path: "/bin/true"})
	require.ErrorIs(t, err, toolresult.Unsupported, "a helper that builds nothing is no helper")
}

// The end of the context and Kill end everything.
func TestKill(t *testing.T) {
	for _, mode := range []process.Mode{process.Thread, process.Reexec} {
		x, ok := needs(t, mode, nil)
		if !ok {
			continue
		}
		r := rules(t, workspace(t), weakly)
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		p, err := x.Start(ctx, r, &sandbox.Command{Path: "/bin/sh", Args: []string{"-c", "echo ready; sleep 100 & sleep 100"}, Stdout: in})
		require.NoError(t, err)
		_, err = out.Read(make([]byte, 16))
		require.NoError(t, err)
		cancel()
		res, err := p.Wait()
		require.NoError(t, err)
		require.True(t, res.TimedOut)
		require.Equal(t, syscall.SIGKILL.String(), res.Signal)
		_, err = p.Wait()
		require.Error(t, err, "Wait is called once")
		require.NoError(t, p.Kill())

		p, err = x.Start(t.Context(), r, &sandbox.Command{Path: "/bin/sleep", Args: []string{"100"}})
		require.NoError(t, err)
		require.NoError(t, p.Kill())
		res, err = p.Wait()
		require.NoError(t, err)
		require.False(t, res.TimedOut)
		require.Less(t, res.Elapsed, 50*time.Second)
	}
}

// Acceptance 4: the texts that the source blocks see few of the known
// spellings; the report calls them auxiliary.
// S6: a program that makes the host its tracer cannot keep it waiting. Its
// thread is another than the first, which the kernel hides behind the first
// until its tracer has asked for it; or it stops, and would stay so.
func TestHostMadeTracer_S6(t *testing.T) {
	for _, how := range []string{"thread", "stopped"} {
		t.Run(how, func(t *testing.T) {
			x, ok := needs(t, process.Reexec, nil)
			if !ok {
				return
			}
			process.Weaken(x, func(s *process.Spec) { s.Filter = nil })
			ws := workspace(t)
			text, err := os.ReadFile("/proc/self/exe")
			require.NoError(t, err)
			exe := filepath.Join(ws, "program")
			require.NoError(t, os.WriteFile(exe, text, 0o755))
			r := rules(t, ws, func(p *sandbox.Policy) { p.Process.Timeout = time.Minute })
			res := run(t, x, r, &sandbox.Command{Path: exe, Args: []string{traced, how}})
			require.False(t, res.TimedOut)
			if how == "thread" {
				require.Equal(t, 3, res.ExitCode)
			} else {
				require.Equal(t, syscall.SIGKILL.String(), res.Signal)
			}
		})
	}
}

// traced is how this binary knows that it is to be traced.
const traced = "make-the-host-my-tracer"

// beTraced makes the parent the tracer of a thread, and ends by status 3.
func beTraced(how string) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			beTraced(how) // keeps the first thread
		}
		all := unix.Sigset_t{}
		for i := range all.Val {
			all.Val[i] = ^all.Val[i] // the runtime's own signals would stop it
		}
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil); err != nil {
			os.Exit(4)
		}
		if _, _, e := unix.RawSyscall(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0); e != 0 {
			os.Exit(5)
		}
		if how == "stopped" {
			unix.PthreadSigmask(unix.SIG_UNBLOCK, &all, nil)
			unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGUSR1)
		}
		os.Exit(3)
	}()
	select {}
}

func TestBlockedCommandsAreAdvice(t *testing.T) {
	matched, all := sandboxtest.Matched([]string{"sudo", "rm -rf /", "chmod -R 777"})
	require.Less(t, matched, all/4)
	t.Log(matched, "of", all, "spellings hold a blocked text")
	r := rules(t, workspace(t), func(p *sandbox.Policy) { p.Process.BlockedCommands = []string{"sudo"} })
	for _, mode := range []process.Mode{process.Thread, process.Reexec} {
		rep, err := executor(t, mode).Probe(t.Context(), r)
		require.NoError(t, err)
		require.LessOrEqual(t, rep.Of(sandbox.ProcCommands).Strength, sandbox.Auxiliary)
	}
}
