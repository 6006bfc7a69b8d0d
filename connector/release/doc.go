// Package release compares what two releases of a connector promise.
//
// A connector's users are not its compiler: a policy names its capabilities,
// people have consented to its scopes, approvals were given by its effect, and a
// model has learned its arguments. A changed default breaks all of that
// without a compile error. So a release keeps its contract in a file, and the
// next one is compared with it in a test:
//
//	was, err := release.Decode(file)                  // testdata/release.json
//	now := release.Of(tickets)
//	report := release.Compare(was, now)
//	require.NoError(t, report.Err())                  // breaking, and no new major version
//
// The file is written once for each release with [Contract.Encode]. A remote MCP
// server wrapped as a connector is compared the same way.
//
// # What breaks
//
// Arguments may be accepted more widely and not more narrowly; answers may be
// promised more narrowly and not more widely. A default that changes, a
// capability or a kind that is gone, a scope more, a higher effect or
// sensitivity break. What is looser (a person is not asked any more, an effect
// said to be lower) breaks nobody's code and is reported as [Review]: somebody
// has to look at it. So is a text that a model reads. Where two schemas
// cannot be compared, the answer is that it breaks.
//
// # What it does not do
//
// It does not run anything: that a connector does what it promises is for the
// contract harness. It does not rename: a capability with another name is one
// that is gone and one that is new.
package release
