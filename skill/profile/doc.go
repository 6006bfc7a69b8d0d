// Package profile composes what a run works with: one version of a skill, the
// contracts of its tools, the sandbox, the policy and the protocols that were
// negotiated.
//
// A [Spec] is what a team writes, in YAML. [Resolve] looks at what there is at
// the moment, and either returns a [Profile] in which every name has become a
// version and a digest, or names everything that is not there:
//
//	spec, err := profile.Parse(text)
//	p, err := profile.Resolve(ctx, spec, &profile.World{...})
//
// A Profile is immutable and has a digest. It holds no credential and no
// connection: those are chosen by the binding of each run. It narrows what a run
// sees ([Profile.Selection] goes to connector.Options.Profiles) and allows
// nothing by itself.
//
// [Profile.Drift] says what is no longer as it was pinned. The runtime pauses
// what depends on it, and resolves a new profile.
//
// # What a run can explain
//
// A [Trace] is told what was shown ([Trace.See]), is the watcher of the loader
// ([Trace.Watch]) and an audit sink of the invoker ([Trace.Record]).
// [Trace.Explain] answers from that, and from nothing else: what was visible,
// loaded and called, by whose grant, and what happened outside. An
// [Explanation] is plain data: it needs neither the registry nor the connectors
// to be as they were.
//
// # What this package does not do
//
// It does not run anything, does not switch a running task to another profile,
// and undoes nothing that happened outside.
package profile
