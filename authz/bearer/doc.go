// Package bearer is the first hop: an OAuth 2.1 resource server for access
// tokens, as MCP wants one. It turns a request with a token into an
// [authz.Principal], and every other request into an answer that says what to
// do.
//
//	issuer, err := bearer.NewJWT("https://id.example.com", keys, bearer.TenantClaim("/tenant"), nil)
//	b, err := bearer.New("https://mcp.example.com/mcp", []*bearer.Verifier{issuer}, &bearer.Options{
//		Scopes:     []string{"tickets.read"},
//		ToolScopes: scopesOf,
//	})
//	inv, err := connector.NewInvoker(policy, []*authz.Authority{b.Authority()}, connectors, nil)
//	server, err := mcpadapter.New(inv, b.Principal, nil)
//	mux.Handle(b.MetadataPath(), b.Metadata())
//	mux.Handle("/mcp", b.Handler(server.HTTP()))
//
// # Who issues
//
// The issuers are a fixed list of exact strings. What a token says of its issuer
// chooses the [Verifier], and a verifier has its own keys, audiences and tenants:
// a key of one issuer verifies no token of another. Nothing is folded, trimmed or
// normalized; an audience that is spelled differently is an alias that somebody
// wrote down.
//
// A verifier of [NewJWT] follows RFC 9068. It accepts asymmetric signatures of a
// short list, and keys of the issuer's own set and no others. It refuses what
// libraries let pass: a token without an end, an ID token, members with equal
// names, numbers in strings, extensions that it does not know.
//
// A verifier of [NewIntrospection] asks the issuer (RFC 7662) and believes the
// answer for half a minute at most, and not at all for a call of a tool unless
// [Options.Cached] says so.
//
// # When the issuer is away
//
// Keys that were fetched go on working for a bounded time. When that is over,
// or a token cannot be asked about, the answer is 503 and when to come back. It
// is never 401: a client throws a token away that is called invalid.
//
// Keys are fetched by the requests that need them, one at a time. A token that
// names an unknown key has them fetched again, at most once in half a minute for
// that reason; one that comes too early after such a fetch is neither believed
// nor called invalid. The keys of a fetch replace those before: a signature that
// was found good is remembered only while its key is there.
//
// # Scopes
//
// A scope is what a client was allowed to ask for; it is no right. [Options]
// name those that a request and a tool need, all of which a caller with too few
// is told at once. What the subject may do now is the policy's to say, in the
// invoker behind.
//
// # What leaves
//
// No token is in a principal, an error, a log line or the request that a handler
// gets, and none is sent anywhere but to its own issuer's introspection. The
// texts of answers are constant. A failure at a provider, the second hop, is a
// tool's result and never comes from here.
//
// # What this package does not do
//
// It issues nothing, discovers nothing, registers no client, and never calls a
// provider. It has no sessions. A token that is bound to a key of its holder is refused
// unless [Options.Confirm] has a function for that kind; there is one for DPoP
// here, see [NewDPoP], and none for mutual TLS. It reads no encrypted tokens and no signed introspection answers (RFC
// 9701). It has no limit on requests, which belongs in front of it.
package bearer
