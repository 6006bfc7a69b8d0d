// Package mutants holds connectors that are deliberately wrong, to prove that
// each check of package connectortest can fail, and references that are right,
// to prove that each can pass.
//
// A connector author may read it as a list of classic errors: each mutant names
// the public bug that it copies.
//
// # The references
//
// [Desk] is a ticket desk as most providers are: cursors, an idempotency key that
// the provider enforces, a lookup. [Warehouse] has another shape in everything
// that may differ: page numbers, jobs that are accepted and finish later, and a
// provider without keys. Both must be clean, so that no check copies the habits
// of one.
//
// # Adding a check
//
//  1. Write the check in the file of its area (connectortest/internal/reads or
//     writes): one value, with its promise, what it needs, the names of the
//     mutants that it kills, and what it does.
//  2. Add a row with the mutant's name to the catalogue here, and say which
//     public bug it copies.
//  3. Put the bug behind d.is("its-name") into the reference: in the connector
//     (desk.go), the provider's rules, the surface (surface.go) or the host
//     (host.go). Ask d.is as late as possible, behind the condition that makes
//     the bug matter (if r.Error != nil && d.is("x")): a check that never gets
//     there in the clean reference is not run against that mutant, because
//     nothing would be different.
//  4. Run go test ./connector/connectortest/ -run TestEveryMutantDies -update, and
//     read what changed in testdata/matrix.golden: every further check that the
//     mutant fails is there, and has to be meant.
//
// # Which part is wrong
//
// Much of what a connector promises is kept by the governed path, whatever the
// connector does. There the mutant is in the part that can break it all the same:
// a surface that keeps results, a host whose policy fails open, a broker that
// keeps a token. Operators have such parts, and the suite runs over theirs too
// (Fixture.Host, Fixture.Through).
package mutants
