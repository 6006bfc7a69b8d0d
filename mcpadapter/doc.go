// Package mcpadapter serves the capabilities of an [connector.Invoker] as tools
// of the Model Context Protocol, over stdio and over Streamable HTTP.
//
//	a, err := mcpadapter.New(inv, who, &mcpadapter.Options{Name: "tickets", Version: "1.0.0"})
//	err = a.ServeStdio(ctx)                       // one caller, whom the host knows
//	err = http.ListenAndServe(addr, a.HTTP())     // many callers, each request by itself
//
// # Who is calling
//
// A [PrincipalFunc] is asked for every request, and its answer is used for that
// request alone. Nothing is kept in a session, and there are none over HTTP: a
// second request with another token is another caller, whatever came before it
// on the same connection. Over stdio the function gets no request: the caller is
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
// [Options.OperationID] says. Without either the change is refused. Callers who
// see a change also see the tool [StatusTool], by which the outcome of an
// operation is looked up and nothing is sent again.
//
// # Protocol
//
// Revision 2026-07-28 first, which has no sessions and no handshake; older ones
// as far as they work without sessions. Methods that the adapter does not need
// are unknown to it. It never asks the client for anything, so it cannot ask for
// a secret.
//
// # What this package does not do
//
// It verifies no token (a [PrincipalFunc] does), starts no server and no TLS, and
// serves neither resources nor prompts.
package mcpadapter
