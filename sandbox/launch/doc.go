// Package launch starts local programs, such as MCP servers, that a person has
// approved, and exactly those.
//
// Who lets a model's host start programs from a list has given away the host to
// whoever can change the list, the program, the script behind it, or an
// argument. So a launch is described once, shown whole, approved by its
// fingerprint, and compared again each time that it is started:
//
//	plan, err := launch.Inspect(spec, rules)       // finds and hashes what would run
//	fmt.Print(plan.Text(), plan.Fingerprint())     // a person reads it and keeps the fingerprint
//	...
//	p, err := launch.Start(ctx, executor, spec, rules, approvals, nil)
//	defer p.Close()                                // p reads and writes the program
//
// # What the fingerprint covers
//
// Path and contents of the executable; of the interpreter that its first line
// names; of every argument that names a file, and of the files in Spec.Files;
// each argument; the names of the variables; the directory; the digest of the
// sandbox's rules; and what was accepted in Spec.Mutable. The executor is given
// these contents as pins (see sandbox.Command): it runs the bytes that were
// hashed, whatever lies under their names by then, or refuses.
//
// # What is refused
//
// A relative program, because a search can be hijacked; a program or a pinned
// file that the rules permit the program to write; hidden, bidirectional and
// control characters anywhere; and launches whose code is decided when they
// start: package runners (npx, uvx, pipx run), images without a digest, shells,
// programs that start others (env, sudo, xargs), interpreters whose code is an
// argument or a module. Who has read the reasons in Plan.Warnings and accepts
// them writes why into Spec.Mutable, which the approval is bound to.
//
// # What this package does not do
//
// It reads no settings of a project and no search path, listens on no port, and
// opens no browser: specifications come from the operator's code or store. It
// knows package runners by name; one under another name is only as harmless as
// the sandbox makes it. What a program loads after it has started (modules,
// libraries, plug-ins) is bounded by the rules and not pinned, unless it is
// named in Spec.Files. Programs that run long are ended by the rules' timeout
// and see at most their max_output_bytes: choose both for a server.
package launch
