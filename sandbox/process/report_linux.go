package process

import (
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
)

const (
	gapMetadata  = "Landlock has no right for modes, owners and times; rules that permit writing leave these calls open"
	gapExistence = "Landlock lets a program look whether a path exists"
	gapName      = "covers what was there at the start; a name that appears later is not known to the kernel"
	gapMade      = "protects what was there at the start; a protected name that is made later is reported after the run"
	gapEntries   = "; a directory with something denied below is granted entry by entry, and nothing can be made in it"
	gapCommands  = "a match of strings; any other spelling passes"
)

// notStopped are ways around that no executor of this package stops. Most are
// about what the host does with a directory that it shares with a program.
var notStopped = []sandbox.Limit{
	{Number: 87, Text: "a permitted host that serves others behind one name, or an encrypted TLS hello, reaches those; the proxy compares the name in the handshake"},
	{Number: 100, Text: "a rule like *.example.com lets data out in the names that are asked for, to whoever answers for example.com"},
	{Number: 107, Text: "what the host has mounted inside an allowed directory is part of it"},
	{Number: 111, Text: "a covered file that the host replaces while the program runs is no longer covered"},
	{Number: 112, Text: "a protected file that is not there at the start can be made; it is reported after the run"},
	{Number: 122, Text: "a link that the program leaves in the workspace leads where it says when the host follows it; read results through sandbox.Files"},
	{Number: 124, Text: "the host's own copying of a workspace follows what it follows; copy through sandbox.Files"},
	{Number: 125, Text: "a repository that the program makes in a new directory has hooks and settings that the host's git obeys"},
	{Number: 142, Text: "which programs may run is no boundary: an interpreter, a loader and memory run others; only what they reach is bounded"},
	{Number: 162, Text: "a new .mcp.json is a case of 112; launch servers by approval only"},
}

// threadReport says what thread mode holds.
func (x *Executor) threadReport(r *sandbox.Rules) *sandbox.Report {
	h := x.host()
	rep := sandbox.NewReport(sandbox.LevelProcess, Thread.String(), r)
	x.describe(rep, h)
	rep.Limits = notStopped
	if h.thread != nil {
		for _, c := range sandbox.Claims() {
			rep.Set(c, sandbox.None, "thread mode does not work here: "+h.thread.Error())
		}
		return rep
	}
	lock := fmt.Sprintf("landlock %d", h.abi)
	rep.Set(sandbox.FSRead, sandbox.Enforced, "", lock)
	rep.Set(sandbox.FSWrite, sandbox.Enforced, "", lock)
	rep.Set(sandbox.FSDenyRead, sandbox.Snapshot, gapName+gapEntries, lock)
	rep.Set(sandbox.FSDenyWrite, sandbox.Snapshot, gapMade+gapEntries, lock)
	rep.Set(sandbox.FSLinks, sandbox.Snapshot, gapName, lock)
	rep.Set(sandbox.FSMetadata, sandbox.None, gapMetadata)
	if len(r.Write) == 0 {
		rep.Set(sandbox.FSMetadata, sandbox.Enforced, "", "seccomp")
	}
	rep.Set(sandbox.FSExistence, sandbox.None, gapExistence)
	rep.Set(sandbox.FSSocket, sandbox.Enforced, "", "seccomp")
	for _, c := range []sandbox.Claim{sandbox.NetEgress, sandbox.NetPrivate} {
		rep.Set(c, sandbox.Enforced, "", "seccomp: no sockets")
		if len(r.Domains) > 0 {
			rep.Set(c, sandbox.None, "thread mode has no network but none at all; the rules name hosts")
		}
	}
	rep.Set(sandbox.NetFamilies, sandbox.Enforced, "", "seccomp")
	rep.Set(sandbox.ProcTimeout, sandbox.Enforced, "", "kill of the group")
	rep.Set(sandbox.ProcTree, sandbox.None, "a process that makes a session of its own survives the kill of the group")
	rep.Set(sandbox.ProcCount, sandbox.None, "limits of the kernel are of a process, and a thread is not one")
	rep.Set(sandbox.ProcMemory, sandbox.None, "limits of the kernel are of a process, and a thread is not one")
	rep.Set(sandbox.ProcFile, sandbox.None, "limits of the kernel are of a process, and a thread is not one")
	rep.Set(sandbox.ProcOutput, sandbox.Enforced, "", "pipes")
	rep.Set(sandbox.ProcPeers, sandbox.None, "Landlock before ABI 6 does not hold signals")
	if h.abi >= 6 {
		rep.Set(sandbox.ProcPeers, sandbox.Enforced, "", lock+" scope", "seccomp", "no /proc")
	}
	rep.Set(sandbox.ProcKernel, sandbox.Enforced, "", "seccomp", "no capabilities")
	rep.Set(sandbox.ProcImage, sandbox.None, "without a mount namespace a file can change between the check and the start")
	rep.Set(sandbox.ProcCommands, sandbox.Auxiliary, gapCommands, "strings")
	rep.Set(sandbox.CredEnv, sandbox.Enforced, "", "environment made afresh")
	rep.Set(sandbox.CredFD, sandbox.Enforced, "", "close_range")
	return rep
}

// reexecReport says what re-exec mode holds.
func (x *Executor) reexecReport(r *sandbox.Rules) *sandbox.Report {
	h := x.host()
	rep := sandbox.NewReport(sandbox.LevelProcess, Reexec.String(), r)
	x.describe(rep, h)
	rep.Limits = notStopped
	if h.reexec != nil {
		for _, c := range sandbox.Claims() {
			rep.Set(c, sandbox.None, "re-exec mode does not work here: "+h.reexec.Error())
		}
		return rep
	}
	files := []string{"mount namespace"}
	if h.abi >= leastABI {
		files = append(files, fmt.Sprintf("landlock %d", h.abi))
	}
	for _, c := range []sandbox.Claim{sandbox.FSRead, sandbox.FSWrite, sandbox.FSMetadata, sandbox.FSExistence} {
		rep.Set(c, sandbox.Enforced, "", files...)
	}
	rep.Set(sandbox.FSDenyRead, sandbox.Snapshot, gapName+"; a file that the host replaces loses its cover", "mount over it")
	rep.Set(sandbox.FSDenyWrite, sandbox.Snapshot, gapMade, "read-only mount")
	rep.Set(sandbox.FSLinks, sandbox.Snapshot, gapName, "mount over it")
	rep.Set(sandbox.FSSocket, sandbox.None, "without seccomp a socket in an allowed directory can be connected to")
	rep.Set(sandbox.NetFamilies, sandbox.None, "no seccomp")
	rep.Set(sandbox.ProcKernel, sandbox.None, "no seccomp")
	if h.filter == nil {
		rep.Set(sandbox.FSSocket, sandbox.Enforced, "", "seccomp", "network namespace")
		rep.Set(sandbox.NetFamilies, sandbox.Enforced, "", "seccomp")
		rep.Set(sandbox.ProcKernel, sandbox.Enforced, "", "seccomp", "no capabilities")
	}
	x.networkClaims(r, rep)
	rep.Set(sandbox.ProcTimeout, sandbox.Enforced, "", "kill of the pid namespace")
	rep.Set(sandbox.ProcTree, sandbox.Enforced, "", "pid namespace")
	rep.Set(sandbox.ProcCount, sandbox.Enforced, "", "RLIMIT_NPROC in a user namespace")
	if as(r).uid == 0 {
		rep.Set(sandbox.ProcCount, sandbox.None, "the kernel does not count processes of user 0; let another user own the directory that is written")
	}
	rep.Set(sandbox.ProcMemory, sandbox.None, "there is no cgroup for it, and other limits are of one process")
	rep.Set(sandbox.ProcFile, sandbox.Enforced, "", "RLIMIT_FSIZE")
	rep.Set(sandbox.ProcOutput, sandbox.Enforced, "", "pipes")
	rep.Set(sandbox.ProcPeers, sandbox.Enforced, "", "pid namespace")
	rep.Set(sandbox.ProcImage, sandbox.Enforced, "", "copy mounted over the name")
	rep.Set(sandbox.ProcCommands, sandbox.Auxiliary, gapCommands, "strings")
	rep.Set(sandbox.CredEnv, sandbox.Enforced, "", "environment made afresh", "pid namespace")
	rep.Set(sandbox.CredFD, sandbox.Enforced, "", "close_range")
	return rep
}

func (x *Executor) networkClaims(r *sandbox.Rules, rep *sandbox.Report) {
	for _, c := range []sandbox.Claim{sandbox.NetEgress, sandbox.NetPrivate} {
		switch {
		case len(r.Domains) == 0:
			rep.Set(c, sandbox.Enforced, "", "empty network namespace")
		case x.opts.Proxy == nil:
			rep.Set(c, sandbox.None, "the rules name hosts and the executor was given no proxy")
		default:
			rep.Set(c, sandbox.Enforced, "", "empty network namespace", "proxy")
		}
	}
}
