package process

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

// ociConfig is what of the OCI runtime specification's config.json is used.
type ociConfig struct {
	Version  string     `json:"ociVersion"`
	Process  ociProcess `json:"process"`
	Root     ociRoot    `json:"root"`
	Hostname string     `json:"hostname"`
	Mounts   []ociMount `json:"mounts"`
	Linux    ociLinux   `json:"linux"`

	links map[string]string // symbolic links of the root
}

type ociProcess struct {
	User            ociUser     `json:"user"`
	Args            []string    `json:"args"`
	Env             []string    `json:"env"`
	Cwd             string      `json:"cwd"`
	Capabilities    struct{}    `json:"capabilities"` // none, in every set
	Rlimits         []ociRlimit `json:"rlimits"`
	NoNewPrivileges bool        `json:"noNewPrivileges"`
}

type ociUser struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

type ociRlimit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

type ociRoot struct {
	Path     string `json:"path"`
	Readonly bool   `json:"readonly"`
}

type ociMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options,omitempty"`
}

type ociLinux struct {
	Namespaces    []ociNamespace `json:"namespaces"`
	UIDMappings   []ociMapping   `json:"uidMappings"`
	GIDMappings   []ociMapping   `json:"gidMappings"`
	Resources     ociResources   `json:"resources"`
	Seccomp       ociSeccomp     `json:"seccomp"`
	MaskedPaths   []string       `json:"maskedPaths"`
	ReadonlyPaths []string       `json:"readonlyPaths"`
}

type ociNamespace struct {
	Type string `json:"type"`
}

type ociMapping struct {
	ContainerID int `json:"containerID"`
	HostID      int `json:"hostID"`
	Size        int `json:"size"`
}

type ociResources struct {
	Pids   *ociLimit  `json:"pids,omitempty"`
	Memory *ociMemory `json:"memory,omitempty"`
}

type ociLimit struct {
	Limit int64 `json:"limit"`
}

type ociMemory struct {
	Limit int64 `json:"limit"`
}

type ociSeccomp struct {
	Default       string       `json:"defaultAction"`
	Architectures []string     `json:"architectures"`
	Syscalls      []ociSyscall `json:"syscalls"`
}

type ociSyscall struct {
	Names  []string `json:"names"`
	Action string   `json:"action"`
	Errno  uint     `json:"errnoRet"`
	Args   []ociArg `json:"args,omitempty"`
}

type ociArg struct {
	Index    uint   `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

// fill is given always.
func (c *ociConfig) fill(id identity) {
	c.Version, c.Hostname, c.links = "1.0.2", "sandbox", map[string]string{}
	c.Root = ociRoot{"rootfs", true}
	c.Process.NoNewPrivileges = true
	c.Process.Rlimits = []ociRlimit{{Type: "RLIMIT_CORE"}}
	for _, n := range []string{"user", "mount", "pid", "network", "ipc", "uts", "cgroup"} {
		c.Linux.Namespaces = append(c.Linux.Namespaces, ociNamespace{n})
	}
	// A runtime insists on a user 0 inside.
	c.Linux.UIDMappings, c.Linux.GIDMappings = []ociMapping{{0, id.uid, 1}}, []ociMapping{{0, id.gid, 1}}
	c.Linux.MaskedPaths = []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/proc/acpi"}
	c.Linux.ReadonlyPaths = []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"}
	c.Linux.Seccomp = ociFilter()
	c.mount("/proc", "proc", "proc", "nosuid", "nodev", "noexec")
	c.mount("/dev", "tmpfs", "tmpfs", "nosuid", "noexec", "mode=755", "size=65536")
	c.mount("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777")
}

func (c *ociConfig) mount(at, kind, from string, options ...string) {
	c.Mounts = append(c.Mounts, ociMount{at, kind, from, options})
}

// readOnly is recursive: what is mounted below is read-only, too.
func (c *ociConfig) readOnly(p string) { c.mount(p, "bind", p, "rbind", "rro", "nosuid", "nodev") }

func (c *ociConfig) system() {
	for _, p := range sandbox.System() {
		info, err := os.Lstat(p)
		switch {
		case err != nil:
		case info.Mode()&os.ModeSymlink != 0:
			if to, err := os.Readlink(p); err == nil {
				c.links[p] = to
			}
		default:
			c.readOnly(p)
		}
	}
}

// configure is the boundary in the runtime's words, outermost mounts first.
func configure(r *sandbox.Rules, cmd *sandbox.Command, found *sandbox.Found) *ociConfig {
	c := &ociConfig{}
	c.fill(as(r))
	if r.System {
		c.system()
	}
	for _, p := range r.Read {
		c.readOnly(p)
	}
	writable := func(list []string) {
		for _, p := range list {
			c.mount(p, "bind", p, "rbind", "rw", "nosuid", "nodev")
		}
	}
	writable(r.Write)
	writable(above(r.Write, append(append([]string{}, found.Deny...), found.ReadOnly...)))
	for _, p := range found.ReadOnly {
		c.readOnly(p)
	}
	for _, p := range found.Deny {
		if info, err := os.Lstat(p); err == nil && info.IsDir() {
			c.mount(p, "tmpfs", "tmpfs", "ro", "nosuid", "nodev", "noexec", "mode=000", "size=4096")
		} else {
			c.mount(p, "bind", "/dev/null", "bind", "ro", "nosuid", "nodev", "noexec") // a device without the right to devices: cannot be opened
		}
	}
	c.Process.Args, c.Process.Cwd = append([]string{cmd.Path}, cmd.Args...), dirOf(r, cmd)
	c.Process.Env = environ(cmd, "/tmp", false)
	if r.MaxFile > 0 {
		c.Process.Rlimits = append(c.Process.Rlimits, ociRlimit{"RLIMIT_FSIZE", uint64(r.MaxFile), uint64(r.MaxFile)})
	}
	tasks := int64(0)
	if r.MaxChildren > 0 {
		tasks = int64(r.MaxChildren) + 1
	}
	c.Linux.Resources = limitsOf(tasks, r.MaxMemory)
	return c
}

// limitsOf are limits of the container's cgroup; 0 is none.
func limitsOf(tasks, memory int64) (out ociResources) {
	if tasks > 0 {
		out.Pids = &ociLimit{tasks}
	}
	if memory > 0 {
		out.Memory = &ociMemory{memory}
	}
	return out
}

// deniedNames are the calls of denied, by their names: a runtime takes no
// numbers. One that an architecture does not have is passed over there.
var deniedNames = []string{
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
	"mount", "umount2", "pivot_root", "chroot", "setns", "unshare",
	"open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_tree_attr",
	"open_by_handle_at", "name_to_handle_at",
	"bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
	"swapon", "swapoff", "acct", "syslog", "quotactl", "quotactl_fd", "vhangup",
	"settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname", "setdomainname",
	"lookup_dcookie", "fanotify_init", "fanotify_mark", "migrate_pages", "move_pages", "mbind", "set_mempolicy",
	"iopl", "ioperm", "modify_ldt", "uselib", "ustat", "sysfs", "_sysctl", "socket",
}

// ociFilter is the filter of build(want{}) in the runtime's words. Calls of
// another architecture end the process: only one is listed.
func ociFilter() ociSeccomp {
	name := "SCMP_ARCH_X86_64"
	if arch == unix.AUDIT_ARCH_AARCH64 {
		name = "SCMP_ARCH_AARCH64"
	}
	deny := func(call string, errno unix.Errno, args ...ociArg) ociSyscall {
		return ociSyscall{[]string{call}, "SCMP_ACT_ERRNO", uint(errno), args}
	}
	out := ociSeccomp{Default: "SCMP_ACT_ALLOW", Architectures: []string{name}}
	out.Syscalls = append(out.Syscalls, ociSyscall{deniedNames, "SCMP_ACT_ERRNO", uint(unix.EPERM), nil},
		deny("clone3", unix.ENOSYS),
		deny("socketpair", unix.EPERM, ociArg{0, unix.AF_UNIX, 0, "SCMP_CMP_NE"}))
	for bit := uint64(1); bit < 1<<32; bit <<= 1 {
		if namespaces&bit != 0 {
			out.Syscalls = append(out.Syscalls, deny("clone", unix.EPERM, ociArg{0, bit, bit, "SCMP_CMP_MASKED_EQ"}))
		}
	}
	for _, request := range []uint64{tiocsti, tioclinux} {
		out.Syscalls = append(out.Syscalls, deny("ioctl", unix.EPERM, ociArg{1, 0xffffffff, request, "SCMP_CMP_MASKED_EQ"}))
	}
	return out
}
