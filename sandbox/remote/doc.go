// Package remote runs programs in somebody else's sandbox: a service with
// virtual machines, a fleet of containers, another host of one's own.
//
//	x, err := remote.New(service, nil)
//	rules = rules.Delegated() // this service's word is taken, and the digest says so
//	running, err := x.Start(ctx, rules, &sandbox.Command{Path: "/usr/bin/make"})
//
// [Service] is all that a service must do, in two calls; how they travel is the
// service's matter. [Serve] makes one of any executor, for the machine at the
// other end.
//
// # Whose word
//
// Nothing that a service says is an observation. Whatever strength it names, the
// report here says delegated, with the service's words, and rules that did not
// ask for delegation are refused. Three things are held here, whatever the
// service does, and the report says so where it is the whole claim: no more
// output than permitted is taken, a run that lasts too long is given up, and
// nothing but the command's own variables is sent.
//
// What can be noticed is noticed. Before a run: a report about other rules, with
// a claim that is missing, twice or unknown. After it: an outcome for another
// request, with a weaker report than was promised, that took longer than it
// could have, or that says of itself what cannot be. Then Wait returns an error and
// no result. A service that lies consistently cannot be told from an honest one:
// run package sandboxtest against it.
//
// # What this package does not do
//
// It copies no files: the workspace of the rules must be there, under the same
// path. It speaks no network protocol and authenticates nobody. It does not
// repeat a run whose outcome is not known.
package remote
