// Package sandbox turns one policy into a boundary around a program, and says
// honestly which parts of it hold on this machine.
//
// A policy is what an administrator can read and sign: which files may be read
// and written, which hosts may be reached, how long a program may run, which
// variables it sees. An [Executor] runs a program under it. Between the two
// stands the [Report]: for every [Claim] of the policy how strongly it is
// enforced, by what, and what is missing.
//
//	policy, err := sandbox.ParsePolicy(text)
//	rules, err := policy.Resolve(sandbox.Base{Workspace: dir})
//	running, err := executor.Start(ctx, rules, &sandbox.Command{Path: "/usr/bin/git", Args: []string{"status"}})
//	result, err := running.Wait()
//
// # Refusal instead of pretence
//
// A policy that uses a claim requires it. When the executor cannot enforce it
// here, Start returns an [UnenforcedError] and nothing runs. There is no option
// that makes a warning of it. Who accepts a gap writes it into the policy:
//
//	require: {proc.tree: none}
//
// That changes the digest that approvals are bound to, and the gap still stands
// in every Report and in the text of [Rules.Explain].
//
// # Strengths
//
// None, auxiliary (a string match: it helps, and is bypassed by who wants to),
// snapshot (true for what existed when the program started), enforced (by the
// kernel, or by our own proxy on the only way out), delegated (somebody else's
// executor says so).
//
// # The zero policy
//
// The zero Policy permits nothing: no file, so no program either, no host, no
// variable. Limits that are zero take a default; there is no way to say
// unlimited. Policies are combined with [Rules.Tighten], which can only remove.
//
// # Levels
//
// Path ([Rules.Open]) confines file calls that a Go program makes itself.
// Process (package sandbox/process) confines a program on this kernel,
// Container does it by the command of a container runtime, Remote is somebody
// else's machine. Package sandbox/sandboxtest attacks any of them.
//
// # What this package does not do
//
// It starts nothing itself. It decides nothing about who may call a tool; that
// is package authz. None of the levels path and process protects against a
// fault of the kernel: run code that nobody trusts in a virtual machine or on
// another machine.
package sandbox
