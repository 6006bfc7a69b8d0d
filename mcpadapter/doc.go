// Package mcpadapter serves the capabilities of an [connector.Invoker] as tools,
// resources and prompts of the Model Context Protocol, over stdio and over
// Streamable HTTP.
//
//	inv, err := connector.NewInvoker(policy, []*authz.Authority{host}, connectors, opts)
//	if err != nil {
//		return err
//	}
//	// Over stdio the caller is whom the host says; req is nil.
//	who := func(_ context.Context, req *http.Request) (authz.Principal, error) {
//		return host.Principal(authz.Identity{Tenant: "acme", Issuer: "local", Subject: "alice"})
//	}
//	adapter, err := mcpadapter.New(inv, who, &mcpadapter.Options{Name: "tickets", Version: "1.0.0"})
//	if err != nil {
//		return err
//	}
//	if addr == "" {
//		return adapter.ServeStdio(ctx) // one caller, whom the host knows
//	}
//	return http.ListenAndServe(addr, adapter.HTTP()) // many: who asks req, such as bearer.Bearer.Principal does
//
// # Who is calling
//
// A [PrincipalFunc] is asked for every request, and its answer is used for that
// request alone. A session, where there is one, has no identity: a second request
// with another token is another caller, whatever came before it. Over stdio the function gets no request: the caller is
// whom the host environment says, and without an answer nothing is served.
//
// # What they see and what they may
//
// A list is what [connector.Invoker.Visible] says for the caller now, and is
// marked private. Callers who see the same tools share one server of the SDK, of
// which the adapter keeps a bounded number; it holds declarations and nobody's
// data. Seeing is not being allowed: a call goes through Invoke, which asks again.
// A tool that is hidden and one that does not exist are one answer, error -32602
// with one text, also when headers describe it.
//
// # Results
//
// A tool's result is the envelope: structuredContent is its JSON and fits the
// tool's outputSchema, the text beside it is [toolresult.Result.Text], and
// isError is true exactly for the status error. Everything else is a JSON-RPC
// error with a constant text. No text of a Go error leaves, whoever made it.
//
// # Changes
//
// A change needs an operation key from the runtime, the same for every attempt
// at the same intent. It is the string at "drawbridge.dev/operation" in _meta of
// the call, which a client program sets and a model does not, or else what
// [Options.OperationID] says:
//
//	r, err := session.CallTool(ctx, &mcp.CallToolParams{
//		Name: "tickets.create", Arguments: args,
//		Meta: mcp.Meta{mcpadapter.OperationMeta: "alert-17-ticket"},
//	})
//
// Without either the change is refused. Callers who
// see a change also see the tool [StatusTool], by which the outcome of an
// operation is looked up and nothing is sent again.
//
// # Resources, prompts and completion
//
// A capability that reads can be shown as a resource, a template or a prompt, by
// [Options.Resources] and [Options.Prompts]. It passes through the same gate: it
// is listed for those who may see it now, and each reading is a call. What is
// behind the data_ref of a result is read as a resource too, with the rights
// that the reader has then. Beside contents and messages the envelope without
// its data is in _meta, at [ResultMeta]: what is missing is said there.
//
// # Asking the user
//
// The adapter asks a client's user, if the client says that it can, for three
// things: what the host wants to know ([Options.Ask]), to connect an account, and
// to approve a change. A form is for harmless choices; one with a field for a
// secret is refused, and so is the call. For an account or an approval the user
// is sent to a page of the host, and a client that cannot show one gets a result
// with the link. What a client answers proves nothing: the call is made again,
// and the account or the approval is there or not. An accept is an approval only
// if the policy lets this very user approve this very change.
//
// In revision 2026-07-28 the request comes again with a requestState: sealed,
// bound to caller, method, name, arguments and operation, good once and for 15
// minutes. Clients of older revisions are asked while their call runs, over
// stdio, or over HTTP in a session ([Options.SessionTimeout]).
//
// # Protocol
//
// Revision 2026-07-28 first, which has no sessions and no handshake, and on the
// same URL older ones. Methods that the adapter does not need are unknown to it.
// Both eras pass all scenarios that the protocol's own conformance suite
// requires, with a server made by this package; see internal/interop.
//
// # Fast ways
//
// A plain tools/list or tools/call of revision 2026-07-28 is answered without a
// session of the SDK, byte for byte as the SDK would; whatever is unusual about a
// request is left to it. A list is encoded once for all who see the same. Where
// the policy is an [authz.PolicyWithRevision], it is asked about the tools once for a
// caller and a revision, and a change of the revision shows in the next list. Calls
// are always asked anew.
//
// # What this package does not do
//
// It verifies no token (a [PrincipalFunc] does), starts no server and no TLS,
// does not resume streams, and has no tasks: a change that takes long is
// pending, and is looked up. Changes of lists are not announced; a client asks
// again.
package mcpadapter
