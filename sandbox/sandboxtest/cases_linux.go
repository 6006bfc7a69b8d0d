package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// in makes arguments in which "@/" stands for the world's directory.
func in(args ...string) func(*world) []string {
	return func(w *world) []string {
		out := make([]string, len(args))
		for i, a := range args {
			a = strings.ReplaceAll(a, "@victim", strconv.Itoa(w.victimPID()))
			a = strings.ReplaceAll(a, "@token", w.env)
			out[i] = strings.ReplaceAll(a, "@/", w.root+"/")
		}
		return out
	}
}

func (w *world) victimPID() int {
	if w.victim == nil || w.victim.Process == nil {
		return 0
	}
	return w.victim.Process.Pid
}

// Ways to see that an attempt succeeded.
func leaked(w *world, a *attempt) bool { return strings.Contains(a.out, w.secret) }

func changed(rel string) func(*world, *attempt) bool {
	return func(w *world, _ *attempt) bool { return w.holds(rel, "guest") }
}

func gone(rel string) func(*world, *attempt) bool {
	return func(w *world, _ *attempt) bool { return !w.exists(rel) }
}

func made(rel string) func(*world, *attempt) bool {
	return func(w *world, _ *attempt) bool { return w.exists(rel) }
}

func printed(text string) func(*world, *attempt) bool {
	return func(_ *world, a *attempt) bool { return strings.Contains(a.out, text) }
}

// Things that an attempt needs.
func asRoot(w *world) string {
	if w.uid() != 0 {
		return "only root can do this outside, and the programs of this run are not root's"
	}
	return ""
}

func asOther(w *world) string {
	if os.Geteuid() != 0 || w.owner == 0 {
		return "needs the suite to run as root and its programs as another user"
	}
	return ""
}

func file(path string) func(*world) string {
	return func(*world) string {
		if _, err := os.Stat(path); err != nil {
			return "this machine has no " + path
		}
		return ""
	}
}

func tool(name string) func(*world) string {
	return func(*world) string {
		if _, err := exec.LookPath(name); err != nil {
			return "this machine has no program " + name
		}
		return ""
	}
}

func noWrites(_ *world, p *sandbox.Policy) { p.Filesystem.AllowWrite = nil }

func limits(set func(*sandbox.Process)) func(*world, *sandbox.Policy) {
	return func(_ *world, p *sandbox.Policy) { set(&p.Process) }
}

func socket(family, kind, protocol int) func(*world) []string {
	return in("socket", strconv.Itoa(family), strconv.Itoa(kind), strconv.Itoa(protocol))
}

var cases = build()

func build() []Case {
	list := append(works(), files()...)
	list = append(list, network()...)
	list = append(list, processes()...)
	list = append(list, kernel()...)
	list = append(list, credentials()...)
	return append(list, commands()...)
}

// works is what the rules permit: a sandbox in which nothing works holds
// everything.
func works() []Case {
	return []Case{
		{ID: "files/read-allowed", Area: Files, Says: "an allowed file is read", args: in("read", "@/ws/allowed.txt"), through: printed("allowed content")},
		{ID: "files/write-allowed", Area: Files, Says: "an allowed file is written", args: in("write", "@/free/new.txt"), through: changed("free/new.txt")},
		{ID: "files/mkdir-allowed", Area: Files, Says: "a directory is made in the workspace", args: in("mkdir", "@/free/new"), through: made("free/new")},
		{ID: "files/rename-allowed", Area: Files, Says: "a file is renamed in the workspace", args: in("rename", "@/free/file", "@/free/other.txt"), through: made("free/other.txt")},
		{ID: "process/shell", Area: Process, Says: "a shell of the system runs", program: "/bin/sh", args: in("-c", "echo hello | cat"), through: printed("hello")},
		{ID: "process/children", Area: Process, Says: "a program starts another", args: in("run", "/bin/true")},
	}
}

func files() []Case {
	read := func(id string, number int, path, says string) Case {
		return Case{ID: "files/" + id, Number: number, Area: Files, Claim: sandbox.FSRead, Says: says, args: in("read", path), through: leaked}
	}
	deny := func(id string, number int, path, says string) Case {
		c := read(id, number, path, says)
		c.Claim = sandbox.FSDenyRead
		return c
	}
	write := func(id string, number int, says string, through func(*world, *attempt) bool, args ...string) Case {
		return Case{ID: "files/" + id, Number: number, Area: Files, Claim: sandbox.FSWrite, Says: says, args: in(args...), through: through}
	}
	protect := func(id string, number int, says string, through func(*world, *attempt) bool, args ...string) Case {
		c := write(id, number, says, through, args...)
		c.Claim = sandbox.FSDenyWrite
		return c
	}
	meta := func(id string, number int, args ...string) Case {
		return Case{ID: "files/" + id, Number: number, Area: Files, Claim: sandbox.FSMetadata, Says: "nothing of a file outside is changed, not even by what needs no open file", args: in(args...)}
	}
	list := []Case{
		read("outside", 103, "@/outside/file", "a file outside is not read by its absolute path"),
		read("dot-dot", 103, "@/ws/sub/../../outside/file", "nor by a way up"),
		read("symlink-out", 104, "@/ws/out", "nor by a link that was there"),
		read("symlink-up", 104, "@/ws/up", "nor by a relative one"),
		read("symlink-chain", 104, "@/ws/chain", "nor by a chain of links"),
		read("symlink-directory", 104, "@/ws/dir/file", "nor by a link to a directory"),
		read("twin", 105, "@/ws-evil/file", "a directory whose name only begins alike is another"),
		read("own-root", 109, "/proc/self/root@/outside/file", "nor by the own root in /proc"),
		read("victim-root", 109, "/proc/@victim/root@/outside/file", "nor by another process's root in /proc"),
		read("victim-cwd", 109, "/proc/@victim/cwd/../../../../../../../../../@/outside/file", "nor by its directory"),
		{ID: "files/symlink-made", Number: 104, Area: Files, Claim: sandbox.FSRead, Says: "nor by a link that it makes itself", args: in("symlink-and-read", "@/outside/file", "@/ws/made"), through: leaked},
		{ID: "files/link-made", Number: 106, Area: Files, Claim: sandbox.FSRead, Says: "nor by a hard link that it makes itself", args: in("link-and-read", "@/outside/file", "@/ws/made"), through: leaked},
		{ID: "files/hard-link", Number: 106, Area: Files, Claim: sandbox.FSLinks, Says: "nor by a hard link that was there before", args: in("read", "@/ws/hard"), through: leaked},
		{ID: "files/hard-link-write", Number: 106, Area: Files, Claim: sandbox.FSLinks, Says: "and nothing is written through one", args: in("append", "@/ws/hard"), through: changed("outside/file")},
		{ID: "files/handle", Number: 131, Area: Files, Claim: sandbox.ProcKernel, Says: "files have no handles that open them by number", args: in("handle", "@/ws/allowed.txt")},

		deny("denied-name", 0, "@/ws/.env", "a denied file is not read"),
		deny("denied-deeper", 0, "@/ws/sub/.env", "nor further down"),
		deny("denied-case", 118, "@/ws/case/.ENV", "nor in other letters"),
		deny("denied-glob", 119, "@/ws/my-secret.txt", "a pattern is really applied"),
		deny("denied-directory", 0, "@/ws/keys/id", "nor anything in a denied directory"),
		deny("denied-by-link", 104, "@/ws/env", "nor by a link inside"),
		{ID: "files/denied-renamed", Number: 113, Area: Files, Claim: sandbox.FSDenyRead, Says: "nor under a new name", args: in("replace-and-read", "@/ws/.env", "@/ws/sub/new"), through: leaked},
		{ID: "files/denied-linked", Number: 106, Area: Files, Claim: sandbox.FSDenyRead, Says: "nor by a new link to it", args: in("link-and-read", "@/ws/.env", "@/ws/sub/new"), through: leaked},
		{ID: "files/denied-parent-moved", Number: 113, Area: Files, Claim: sandbox.FSDenyRead, Says: "nor when a directory above is renamed", args: in("replace-and-read", "@/ws/sub", "@/ws/sub2"), through: leaked},
		{ID: "files/umount-cover", Number: 114, Area: Files, Claim: sandbox.FSDenyRead, Says: "what covers it cannot be taken away", args: in("umount-and-read", "@/ws/.env"), through: leaked},

		write("write-outside", 0, "a file outside is not changed", changed("outside/file"), "write", "@/outside/file"),
		write("append-outside", 0, "nor appended to", changed("outside/file"), "append", "@/outside/file"),
		write("create-outside", 0, "nor made", made("outside/new"), "write", "@/outside/new"),
		write("create-by-link", 104, "nor made through a link", made("outside/new"), "write", "@/ws/dir/new"),
		write("truncate-outside", 0, "nor cut", func(w *world, _ *attempt) bool { return !w.holds("outside/file", w.secret) }, "truncate", "@/outside/file"),
		write("mkdir-outside", 0, "no directory is made outside", made("outside/newdir"), "mkdir", "@/outside/newdir"),
		write("remove-outside", 0, "nothing is removed outside", gone("outside/victim"), "remove", "@/outside/victim"),
		write("rename-outside", 0, "nothing is moved in from outside", gone("outside/victim"), "rename", "@/outside/victim", "@/ws/victim"),
		write("rename-to-outside", 0, "nothing is moved out", made("outside/moved"), "rename", "@/ws/allowed.txt", "@/outside/moved"),
		write("write-program", 140, "the program itself is not changed", func(w *world, a *attempt) bool { return a.exit == exitThrough }, "rename", "@/bin/guest", "@/bin/guest"),
		write("remount", 115, "a read-only place is not made writable", changed("outside/file"), "remount-and-write", "@/outside/file"),

		protect("hooks", 125, "hooks that the host's git runs are not changed", changed("ws/.git/hooks/pre-push"), "write", "@/ws/.git/hooks/pre-push"),
		protect("hooks-new", 125, "nor new ones made", made("ws/.git/hooks/pre-commit"), "write", "@/ws/.git/hooks/pre-commit"),
		protect("git-config", 125, "nor git's settings", changed("ws/.git/config"), "append", "@/ws/.git/config"),
		protect("git-config-replaced", 125, "nor by another file in its place", func(w *world, _ *attempt) bool { return w.holds("ws/.git/config", "allowed") }, "rename", "@/ws/allowed.txt", "@/ws/.git/config"),
		protect("parent-renamed", 113, "nor by moving the directory above and making it anew", made("ws/.git/hooks/pre-commit"), "move-and-make", "@/ws/.git", "@/ws/.git/hooks/pre-commit"),

		meta("chmod-outside", 117, "chmod", "@/outside/file"),
		meta("chown-outside", 117, "chown", "@/outside/file"),
		meta("utimes-outside", 117, "utimes", "@/outside/file"),
		meta("xattr-outside", 117, "xattr", "@/outside/file"),
		{ID: "files/stat-outside", Area: Files, Claim: sandbox.FSExistence, Says: "whether a file outside exists is not seen", args: in("stat", "@/outside/file")},
		{ID: "files/device", Number: 116, Area: Files, Claim: sandbox.FSWrite, Says: "root makes no device in its workspace", needs: asRoot, args: in("mknod", "@/ws/disk")},
		{ID: "files/large", Number: 137, Area: Process, Claim: sandbox.ProcFile, Says: "no file becomes longer than permitted", args: in("fill", "@/ws/large", "8388608"), policy: limits(func(p *sandbox.Process) { p.MaxFile = 1 << 20 }),
			through: func(w *world, _ *attempt) bool {
				info, err := os.Stat(w.path("ws/large"))
				return err == nil && info.Size() > 1<<20
			}},
	}
	// Where nothing may be written, the calls that need no open file can be
	// denied altogether.
	for _, op := range []string{"chmod", "chown", "utimes", "xattr"} {
		c := meta(op+"-read-only", 117, op, "@/outside/file")
		c.policy = func(w *world, p *sandbox.Policy) {
			noWrites(w, p)
			p.Filesystem.AllowRead = append(p.Filesystem.AllowRead, "./")
		}
		list = append(list, c)
	}
	return list
}

func network() []Case {
	reach := func(id string, number int, says string, args func(*world) []string) Case {
		return Case{ID: "network/" + id, Number: number, Area: Network, Claim: sandbox.NetEgress, Says: says, args: args}
	}
	family := func(id string, number int, needs func(*world) string, args func(*world) []string) Case {
		return Case{ID: "network/" + id, Number: number, Area: Network, Claim: sandbox.NetFamilies, Says: "no socket but TCP is opened", needs: needs, args: args}
	}
	tcp := func(op string) func(*world) []string {
		return func(w *world) []string { return []string{op, w.tcp.Addr().String()} }
	}
	udp := func(w *world) []string { return []string{"udp", w.udp.LocalAddr().String()} }
	unixSocket := func(id string, number int, name string) Case {
		return Case{ID: "network/" + id, Number: number, Area: Network, Claim: sandbox.FSSocket, Says: "no unix socket of the host is connected to", args: in("unix", name)}
	}
	private := reach("private", 101, "an address of the host itself is not reached", tcp("tcp"))
	private.Claim = sandbox.NetPrivate
	return []Case{
		reach("tcp", 90, "a program that ignores the proxy reaches nothing; an empty list of hosts is none", tcp("tcp")),
		reach("mptcp", 91, "nor by MPTCP", tcp("mptcp")).with(file("/proc/sys/net/mptcp/enabled")),
		reach("fast-open", 92, "nor by data in the first packet", tcp("fast-open")),
		reach("udp", 93, "nor by UDP, so nor by questions to a name server", udp),
		private,
		unixSocket("unix-outside", 94, "@/socks/s"),
		unixSocket("unix-inside", 94, "@/shared/s"),
		unixSocket("unix-abstract", 95, "@@token"),
		family("vsock", 96, file("/dev/vsock"), socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)),
		family("netlink", 0, nil, socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)),
		family("datagram", 93, nil, socket(unix.AF_INET, unix.SOCK_DGRAM, 0)),
		family("unix", 94, nil, socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)),
		family("packet", 0, asRoot, socket(unix.AF_PACKET, unix.SOCK_RAW, 0)),
		family("raw", 0, asRoot, socket(unix.AF_INET, unix.SOCK_RAW, 1)),
		family("alg", 0, nil, socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)).withSocket(unix.AF_ALG, unix.SOCK_SEQPACKET),
		{ID: "network/io-uring", Number: 97, Area: Network, Claim: sandbox.ProcKernel, Says: "no ring makes calls that no filter sees", args: in("io-uring")},
	}
}

func (c Case) with(needs func(*world) string) Case {
	c.needs = needs
	return c
}

func (c Case) withSocket(family, kind int) Case {
	return c.with(func(*world) string {
		fd, err := unix.Socket(family, kind, 0)
		if err != nil {
			return fmt.Sprintf("the kernel has no sockets of family %d", family)
		}
		unix.Close(fd)
		return ""
	})
}

func processes() []Case {
	peer := func(id string, number int, args ...string) Case {
		return Case{ID: "process/" + id, Number: number, Area: Process, Claim: sandbox.ProcPeers, Says: "another process is neither signalled, traced nor read", args: in(args...)}
	}
	return []Case{
		peer("signal", 130, "signal", "@victim"),
		peer("trace", 130, "trace", "@victim"),
		{ID: "process/memory-of-other", Number: 130, Area: Process, Claim: sandbox.ProcPeers, Says: "its memory is not read", args: func(w *world) []string {
			return []string{"read-memory", strconv.Itoa(w.victimPID()), w.mapped()}
		}},
		{ID: "process/memory-file", Number: 130, Area: Process, Claim: sandbox.ProcPeers, Says: "nor by /proc", args: in("open-to-write", "/proc/@victim/mem")},
		{ID: "process/descriptor-of-other", Number: 131, Area: Process, Claim: sandbox.ProcPeers, Says: "its descriptors are not taken", args: in("take-descriptor", "@victim")},
		{ID: "process/compare", Number: 131, Area: Process, Claim: sandbox.ProcKernel, Says: "nor compared", args: in("compare", "@victim")},
		{ID: "process/exe-of-other", Number: 140, Area: Process, Claim: sandbox.ProcPeers, Says: "its program is not reached by /proc", args: in("open-exe", "@victim")},
		{ID: "process/timeout", Number: 135, Area: Process, Claim: sandbox.ProcTimeout, Says: "a program that ignores signals ends when its time is over", args: in("outlive", "@token"), endless: true,
			policy: limits(func(p *sandbox.Process) { p.Timeout = 300 * time.Millisecond }), through: func(_ *world, a *attempt) bool { return a.elapsed > patience-time.Second }},
		{ID: "process/daemon", Number: 135, Area: Process, Claim: sandbox.ProcTree, Says: "a process that detached itself does not outlive the run", args: in("daemon", "@token", "@/bin/guest"),
			through: func(w *world, _ *attempt) bool { return w.strays(false) > 0 }},
		{ID: "process/forks", Number: 136, Area: Process, Claim: sandbox.ProcCount, Says: "there are no more processes than permitted", args: in("forks", "60"),
			policy: limits(func(p *sandbox.Process) { p.MaxChildren = 40 }), through: printed("started 60")},
		{ID: "process/memory", Number: 137, Area: Process, Claim: sandbox.ProcMemory, Says: "all processes together use no more memory than permitted", args: in("take-memory", "268435456"),
			policy: limits(func(p *sandbox.Process) { p.MaxMemory = 128 << 20 })},
		{ID: "process/output", Number: 137, Area: Process, Claim: sandbox.ProcOutput, Says: "no more output arrives than permitted", args: in("flood", "1048576"),
			policy: limits(func(p *sandbox.Process) { p.MaxOutput = 64 << 10 }), through: func(_ *world, a *attempt) bool { return len(a.out) > 2*(64<<10) }},
		{ID: "process/setuid", Number: 138, Area: Process, Claim: sandbox.ProcKernel, Says: "a program with the setuid bit gives no rights", needs: asOther, args: in("via-setuid", "@/shared/suid")},
		{ID: "process/via-memory", Number: 142, Area: Process, Claim: sandbox.FSRead, Says: "nor a program that exists only in memory", args: in("via-memory", "@/outside/file"), through: leaked},
		{ID: "process/via-interpreter", Number: 142, Area: Process, Claim: sandbox.FSWrite, Says: "nor a script that the program wrote itself", program: "/bin/sh",
			args: in("-c", "printf '#!/bin/sh\\nprintf guest > @/outside/file' > @/free/s; chmod +x @/free/s; @/free/s; exec /bin/sh @/free/s"), through: changed("outside/file")},
		{ID: "process/via-loader", Number: 142, Area: Process, Claim: sandbox.FSRead, Says: "an interpreter or loader changes nothing about what is reached", program: "/bin/sh", args: in("-c", "for l in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do [ -e $l ] && exec $l /bin/cat @/outside/file; done"), through: leaked},
	}
}

// mapped is an address that the victim has memory at.
func (w *world) mapped() string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", w.victimPID()))
	first, _, _ := strings.Cut(string(text), "-")
	n, _ := strconv.ParseUint(first, 16, 64)
	return strconv.FormatUint(n, 10)
}

func kernel() []Case {
	call := func(id string, number int, says string, args ...string) Case {
		return Case{ID: "kernel/" + id, Number: number, Area: Process, Claim: sandbox.ProcKernel, Says: says, args: in(args...)}
	}
	userns := func(*world) string {
		cmd := exec.Command("/proc/self/exe", mark, "clone")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "user namespaces are not permitted here at all: " + printable(string(out))
		}
		return ""
	}
	open := func(path string) Case {
		return Case{ID: "kernel/open" + strings.ReplaceAll(path, "/", "-"), Number: 139, Area: Process, Claim: sandbox.FSWrite, Says: "the kernel's settings are not opened for writing", args: in("open-to-write", path),
			needs: func(w *world) string {
				if why := asRoot(w); why != "" {
					return why
				}
				return file(path)(w)
			}}
	}
	foreign := call("int-0x80", 126, "a call of another architecture does not pass the filter")
	foreign.program, foreign.args = "/bin/sh", in("-c", "exec @/ws/foreign")
	foreign.through = func(_ *world, a *attempt) bool { return a.exit == 0 && a.signal == "" }
	foreign.needs = func(w *world) string {
		if exec.Command(w.path("ws/foreign")).Run() != nil && foreignAbsent == "" {
			return "the kernel or the machine below it takes no calls by int 0x80"
		}
		return foreignAbsent
	}
	x32 := call("x32", 127, "nor one of the half-width numbers", "x32")
	x32.needs = func(*world) string {
		if err := raw(0x40000000 | unix.SYS_GETPID); err != nil {
			return "the kernel has no x32 calls"
		}
		return ""
	}
	root := func(c Case) Case { return c.with(asRoot) }
	return []Case{
		foreign, x32,
		call("trace-me", 130, "nobody traces", "trace-me"),
		call("unshare", 129, "no namespaces are made: they would give rights", "unshare"),
		call("clone", 129, "nor by clone", "clone").with(userns),
		call("clone3", 128, "nor by clone3, whose flags no filter sees", "clone3").with(userns),
		call("mount", 129, "the call that mounts is not reached", "mount", "@/ws/no-such-directory"),
		root(call("bpf", 0, "no program is loaded into the kernel", "bpf")),
		root(call("perf", 0, "no events of the machine are read", "perf")),
		call("keyctl", 0, "no keys of the session are reached", "keyctl"),
		call("tiocsti", 134, "nothing is typed into a terminal", "tiocsti"),
		call("tioclinux", 134, "nor pasted", "tioclinux"),
		open("/proc/sys/kernel/core_pattern"), open("/proc/sysrq-trigger"), open("/sys/kernel/mm/transparent_hugepage/enabled"), open("/sys/fs/cgroup/cpu/release_agent"),
	}
}

func credentials() []Case {
	return []Case{
		{ID: "credentials/environment", Number: 144, Area: Credentials, Claim: sandbox.CredEnv, Says: "no variable of the host is seen", args: in("environment"), through: leaked},
		{ID: "credentials/environment-of-other", Number: 145, Area: Credentials, Claim: sandbox.ProcPeers, Says: "nor in another process", args: in("read", "/proc/@victim/environ"), through: leaked},
		{ID: "credentials/arguments-of-other", Number: 146, Area: Credentials, Claim: sandbox.ProcPeers, Says: "nor a secret among another's arguments", args: in("read", "/proc/@victim/cmdline"), through: leaked},
		{ID: "credentials/descriptor", Number: 132, Area: Credentials, Claim: sandbox.CredFD, Says: "no open file of the host is passed on", args: in("descriptors"), through: leaked},
		{ID: "credentials/output-reopened", Number: 133, Area: Credentials, Claim: sandbox.CredFD, Says: "the file that takes the output is not opened again", args: in("reopen-output"), through: func(_ *world, a *attempt) bool { return a.reopen }},
	}
}
