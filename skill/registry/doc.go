// Package registry keeps which versions of a team's skills there are, what is
// known about each, and which of them may be used.
//
// A [Record] ties a version to the digest of a whole package, for good: a
// second package under the same version is refused. What is found out about a
// version is bound to that digest too. [Evidence] and a [Review] of another
// package do not count for this one.
//
//	draft -> validated -> published -> deprecated -> retired
//
// [Registry.Move] is the only way along, and says everything that stands in the
// way at once ([*Blocked]). A published version is what new runs get. A
// deprecated one is kept for the runs that have it. A retired one is not given
// to anybody.
//
// # Runs
//
// A run pins a version when it first uses a skill ([Registry.Start]) and keeps
// it until it ends ([Registry.Finish]), whatever is published or rolled back
// meanwhile. [Registry.Rollback] changes what new runs get, and reports the runs
// that still have what was rolled back: deciding about them, and about what they
// did outside, is the runtime's.
//
// # Who may
//
// Everything is asked of the policy that decides about tools, as a capability of
// the connector "skills" on an object of the type "skill" with the skill's name:
// skills.register, skills.validate, skills.review, skills.release and skills.use.
// Being registered grants nothing: a record's side effect and sensitivity are
// declarations, for policies to look at.
//
// # What this package does not do
//
// It runs no evaluation, sends no message and holds no lock: [Store] compares
// and swaps. It serves one tenant; a host with many makes one for each.
package registry
