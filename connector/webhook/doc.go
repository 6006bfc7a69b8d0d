// Package webhook receives what providers send: it proves who sent it, stores it
// before it says thank you, and handles each event once, in order.
//
//	verifier, err := webhook.GitHub([]string{secret}, nil)
//	...
//	endpoint, err := webhook.NewEndpoint(verifier, store.Inbox(), webhook.Place{Tenant: "acme", Source: "github"}, nil)
//	...
//	mux.Handle("POST /hooks/github", endpoint)
//	...
//	processor, err := webhook.NewProcessor(store.Inbox(), handle, nil)
//	...
//	err = processor.Run(ctx) // or job.Webhooks(processor), on a job engine
//
// # Proof
//
// A [Verifier] knows one provider's scheme and its keys. It looks at the bytes
// as they came, before anybody decodes them: a body that was parsed and written
// again is another body. A header that the scheme wants must be there once. A
// scheme that signs a time has a window around it, of five minutes unless
// [Options] says otherwise, on both sides. There is no verifier without a key,
// and no empty key. Several keys are for rotation: one has to fit.
//
// [HMAC] describes the scheme of a provider that has none here.
//
// # Once
//
// A provider sends an event again for hours or days when it has not heard our
// thanks, with a new time and a new signature, so that the window protects
// against nothing here. An [Inbox] keeps names of what it has seen: the
// provider's id of the delivery; a digest of the body, where the id itself is
// not signed and a captured body could come back under another; and a name of
// the connector's own, such as object and version, for providers that give each
// emission a new id. They are kept for [Retention], which is longer than any
// provider here goes on, with what a person can send again by hand.
//
// The answer to the provider follows the commit. An Inbox that cannot store
// answers 503, and the provider comes back.
//
// # Order
//
// Providers promise no order. Events that name an object are handled one at a
// time and lowest version first; one that is older than what was handled is
// settled as [Stale] without being handled, and after a deletion only a
// restoration is. Events without an object have no order.
//
// # Handling
//
// A [Processor] claims events under a lease, so that any number of processes
// may run one, and hands them to a [Handler]. One whose process died is handed
// out again when its lease is over: a handler runs at least once for each event.
// That its effect happens once is its own business, and there are two ways:
//
//   - to change a provider, make a governed write with [Event.OperationKey] as
//     its key: the ledger of operations sends it once;
//   - to change the database that the inbox lies in, write in the transaction
//     that settles the event: sqlstore.Inbox.Commit.
//
// What arrives is the provider's users' text. A signature says who sent it, not
// that anybody may obey it: [Event.Result] is untrusted content, and there is no
// way to mark it as more.
//
// # What it does not do
//
// It registers no webhooks at providers. It answers no handshake that is not
// signed (Microsoft Graph's validationToken, Meta's hub.challenge): those prove
// nothing about who asks. It answers nothing but an acknowledgement: a webhook
// whose answer matters, such as a call flow of Twilio, is a [Verifier] and a
// handler of the host's. It does not verify OAuth 1 or RFC 9421 signatures.
package webhook
