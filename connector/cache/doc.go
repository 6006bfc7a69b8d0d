// Package cache keeps what a provider answered, for whoever was allowed to read
// it and for as long as they are.
//
//	tickets, err := cache.New("tickets", store.Generations(), &cache.Options{Bytes: 64 << 20})
//	...
//	func get(ctx context.Context, call *connector.ReadCall, in GetTicket) (*connector.Answer[Ticket], error) {
//		found, err := cache.Get(ctx, tickets, call, cache.Read{Name: "get", Arguments: in, Objects: []authz.ResourceID{{Type: "ticket", ID: in.ID}}},
//			func(ctx context.Context) (Ticket, error) { return fetch(ctx, call, in) })
//		...
//	}
//	...
//	inv, err := connector.NewInvoker(..., &connector.Options{Audit: tickets.Audit(sink), ...})
//
// # Whose entries they are
//
// The key of an entry is made from the call's grant: tenant, issuer and subject,
// who acts for them and with which scopes, account, policy revision, and the
// scope that was granted; then from what is read. A capability's author cannot
// leave any of it out. Names in Options.Public are read once for a tenant: an
// operator says so, and no author.
//
// A hit is not an authorization. Before it is given out the policy is asked
// again, and each of the entry's objects must be in the grant of this call.
//
// # When they end
//
// Each entry remembers the generations of what it depends on, as they were before
// it was read (package generation): everything of the connector in its tenant, or
// its objects if the read is [Read.Narrow]; and its connection. They are compared at each hit, in a store
// that all replicas share, so that what one replica learns holds in all of them
// from the next call on, and no message can be lost. That costs a query for each
// hit, and it is why a time to live is only a second line here:
//
//   - a write through an Invoker whose audit sink is [Cache.Audit] ends what
//     depends on what it changes, before it is sent and after it has ended, and
//     between the two nothing that does is kept;
//   - an event of the provider's, a changed sharing, a deletion: [Cache.Changed];
//   - a disconnection: [Cache.Purge].
//
// If the store of generations cannot answer, nothing is taken from the cache and
// nothing is kept.
//
// # What it does not do
//
// It holds nothing that survives the process, and shares no values between
// replicas. It keeps no errors and joins no concurrent reads of the same thing.
// It does not know of changes that nobody tells it about, made at the provider by
// others: those are seen when the time to live is over. It is not encrypted: it
// is as private as the memory of the process.
package cache
