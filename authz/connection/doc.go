// Package connection keeps the accounts that users have connected at
// providers: consent, refresh, disconnect. It is the second of two hops; the
// first is from the caller to us, and no token ever crosses from one to the
// other.
//
// A [Provider] is the operator's profile of one provider: where it is, and where
// it departs from the standards. A [Manager] runs the connections of all
// providers over one [Store], in any number of processes, and is the
// credential.Broker of a connector.Invoker:
//
//	m, err := connection.New(store, keys, []*connection.Provider{tickets}, &connection.Options{ConnectURL: page})
//	inv, err := connector.NewInvoker(policy, trusted, connectors, &connector.Options{Credentials: m})
//
// # How an account is connected
//
// A call without an account ends with CONNECTION_REQUIRED and a link to the
// host's own page. The link lets nobody in: [Manager.Open] works for the user it
// was made for, signed in, and binds the transaction to that browser.
// [Manager.Callback] takes the provider's answer once, in that browser and for
// that user; checks the issuer before anything else; sends the code once, to the
// endpoint that was fixed when it began; and asks the provider whose account it
// is. Another organization or account than was asked for is not stored.
//
// What the administrator permits is all that is ever asked for, and of that only
// what is missing. To extend a connection leaves the old grant working until the
// new one is there.
//
// # Refreshing is a write
//
// A rotating refresh token works once. A refresh is therefore recorded before
// it is sent, under a lease that one process at a time can hold and that outlasts
// the request, and its result replaces the stored one only if nobody else's has.
// It goes on when its callers give up. New tokens are durable before anybody
// sees them.
//
// An answer that was lost may have been acted on. The connection is then
// [RefreshUnknown]: the access token is used while it lives, because a strict
// issuer ends it when the spent token is sent again; then there is one late retry.
// Refused, it means [ReasonUnknown], which is not [ReasonRevoked]. If that is lost
// as well, the issuer is down and nothing was learned: it is tried further and
// further apart, six times in all, before the user is asked.
//
// invalid_grant is believed after the record was read again. A registration that
// the issuer refuses is the operator's mistake, and no connection dies of it.
//
// # How one ends
//
// [Manager.Disconnect] has three parts, and says how far each is: no more calls,
// here and in every process, from the moment that it is stored; revocation at the
// provider (RFC 7009), the refresh token first; and the host's clean-up. What
// failed is tried again by [Manager.Resume], and nothing brings a connection
// back: a refresh that was under way loses, and what it got is revoked.
// A provider without revocation is [StepUnsupported], and not "done".
//
// [Manager.Contain] is for a suspected leak: a run, a capability or a connection
// is stopped, and stays stopped until the provider has confirmed the revocation.
//
// # Other grants
//
// [Manager.Install] stores what nobody consents to in a browser: client
// credentials, service accounts (RFC 7523), API keys, for a tenant or one
// principal. [TokenExchange] (RFC 8693) makes a connection of its own for each
// caller; what was exchanged through one client, or for an agent that acts for the
// user, is used for no other. Their access tokens are kept in the store, so that all processes share
// them. The provider sees one account for everybody whom an installed one serves:
// what each may reach is the policy's to say.
//
// # What this package does not do
//
// It serves no HTTP: package connectpage does, or the host's own pages, which call
// Begin, Pending, Open, Callback and Disconnect. It does not sign users in. It does not register clients
// (RFC 7591), speak DPoP, or do the device flow (RFC 8628). It repeats no change
// after a 401, only what reads. It cannot keep a
// secret from code in the same process that is out to get it. It does not read
// metadata by itself; see [Discover].
package connection
