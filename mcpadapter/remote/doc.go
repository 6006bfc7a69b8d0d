// Package remote makes a connector of somebody else's MCP server.
//
// The server is used and not believed. What a person has looked at and approved
// is all that exists: [Review] asks a server for its tools, [Listing.Pin] keeps
// the definitions that were approved, and [New] makes a connector of these pins
// and of what the operator says about each tool. What a tool may change, what
// its answers may reveal, whose text they are and which objects it touches is
// said by the operator; the server's annotations are pinned and shown, and never
// decide anything.
//
//	listing, err := remote.Review(ctx, server, admin, nil)
//	pins, err := listing.Pin("search_issues")
//	c, err := remote.New(server, pins, nil)
//	inv, err := connector.NewInvoker(policy, trusted, []connector.Connector{c}, &connector.Options{Endpoints: []egress.Profile{server.Profile}, ...})
//
// # A call
//
// A call goes the governed path like any other. Over HTTP every byte leaves by
// the call's own client: one route for each approved tool, and no other tool's
// name passes the transport; the credential is put on by the host's broker; a
// change is rendered, approved and sent once, and a lost answer is an unknown
// effect. A server over stdio is started by the operator's [Launcher], once for
// each caller, and a change to it is dispatched (see [connector.Call.Dispatch]).
//
// Each caller has a session of its own, whatever the revision of the protocol:
// 2026-07-28, in which requests stand for themselves, or 2025-11-25 and before.
// Before a call the session's list of tools is compared with the pins, at most
// [Options.Recheck] old. A tool whose name, title, description, schemas or
// annotations have changed is suspended for everybody, with a readable
// difference in [Connector.Tools], until the operator approves it anew or calls
// [Connector.Resume]. The order of names in a schema does not count. New tools
// stay closed.
//
// # Answers
//
// An answer is {"content": [...], "structured": ..., "changed": n, "original":
// ...}. Its source is named and untrusted unless the operator says otherwise for
// that tool. Its text is rid of what cannot be seen, and images, links, tags and
// addresses are written so that nothing renders or follows them; nothing in it is
// ever fetched. "changed" says how many texts differ from what was sent. What was
// sent is kept as an artifact that "original" names, with the binary parts that
// an answer does not carry; reading it is authorized like any artifact.
//
// # What this package does not do
//
// It does not end sessions at a server on the network (they end by the server's
// own timeout), because nobody's call would carry the request.
//
// It offers tools only, no resources and prompts. It answers no questions of a
// server unless [Options.Elicit] does, never on a change, and declares no other
// capability. It trusts no hint, cannot look up what became of a change (so each
// asks for approval), and starts no process itself.
package remote
