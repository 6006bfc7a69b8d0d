// Package hosted writes the entry by which a model vendor's own servers call an MCP
// server: OpenAI's tool of the type mcp, and Anthropic's mcp_servers and mcp_toolset.
//
// The entry says what a capability profile says, or what an operator says about a
// remote server, so that nobody keeps a second list by hand:
//
//	e, err := hosted.FromProfile(p, "enterprise-tickets", hosted.Place{Label: "tickets", URL: "https://mcp.example.com/mcp"})
//	tool, err := e.OpenAI() // one member of the request's tools
//
// # What it says
//
// Exactly the tools that are listed are allowed, and an entry without tools is
// refused, because vendors take no list for all tools. A tool that only reads
// needs no approval; every other is under always, whatever a policy may say later:
// the vendor asks no policy.
//
// # What it refuses
//
// What a vendor has no word for is an error that names it, and never left out: an
// approval for Anthropic, arguments that an operator fixed, objects that a grant is
// held to, a local server. So is whatever could carry a secret: an address with
// a user, a query or a fragment. A credential belongs to a request and not to a
// configuration; [Entry.NeedsCredential] says that one is to be added there.
//
// # What this package does not do
//
// It sends nothing and knows no credential. A vendor that calls a server does so
// without this SDK: the server sees the vendor, answers reach the model as they are,
// and nothing is recorded here. Where that matters, use package remote, or let
// the vendor call a server of package mcpadapter, which governs its calls itself.
package hosted
