// Package process runs programs on this kernel inside the boundary that a
// sandbox policy draws.
//
//	func main() {
//		self := process.Init() // first: this program is its own helper
//		executor, err := process.New(&process.Options{Self: self})
//		...
//		running, err := executor.Start(ctx, rules, &sandbox.Command{Path: "/usr/bin/git", Args: []string{"status"}})
//
// # Two ways to start
//
// In thread mode one thread of this program gives up its capabilities, its
// right to new privileges, its files (Landlock) and its system calls (seccomp),
// starts the program, and ends. It costs little more than a plain start and
// needs no helper, and it can hold less: no process tree, no limits of the
// kernel, no network but none at all.
//
// In re-exec mode a helper, this program once more or another that calls
// [Init], starts in seven namespaces of its own, builds a root of only what the
// rules permit, and then does what thread mode does. What the rules deny by
// name is covered up. The network has nothing in it but a listener, which the
// helper made inside and handed out: a proxy of ours answers there.
//
// Auto takes the cheapest that holds everything that the rules require.
//
// # What holds
//
// [Executor.Probe] finds out by doing it once, and its Report says what is
// missing and why. On a kernel without user namespaces, Landlock or seccomp the
// claims are none, and Start refuses what requires them.
//
// Some things no mode here can hold, and the Report says so: memory of all
// processes together, unless there is a cgroup for it; a count of processes
// when root's own files must be written; a name that a rule denies and that
// appears later; what another program of the host does with files that were
// left in the workspace.
//
// # Containers
//
// [NewBubblewrap] runs the same rules through the command bwrap.
//
// # What this package does not do
//
// It does not protect against faults of the kernel. It decides nothing about
// who may run what. It looks into no environment variable and no search path.
package process
