// Package ingest keeps an index of a provider's objects up to date, so that they
// can be searched, and delivers nothing from it that the caller may not read now.
//
//	syncer, err := ingest.New(store.Index(), ingest.Feed{Tenant: "acme", Connection: conn, Name: "wiki"}, source, nil)
//	...
//	_, err = syncer.Sync(ctx)      // every few minutes: what has changed
//	_, err = syncer.Reconcile(ctx) // now and then: what is there
//	...
//	hits, err := ingest.Search(ctx, store.Index(), call, &ingest.SearchRequest{Feed: feed, Text: in.Query, Readers: groups, Check: live})
//
// # What has changed
//
// [Syncer.Sync] asks the [Source] for windows of time, page by page. The end of
// a window is fixed before its first page and lies behind the present, because
// providers show changes late; the watermark moves to that end when the last
// page is stored, and never to a time that an object carries: one clock that is
// wrong would make it pass over everything else. The next window begins a little
// before the watermark. What comes twice changes nothing. Page and position are
// stored in one step, so that a process that dies, or a quota that is spent, loses
// no page.
//
// # What is gone
//
// A deletion leaves a tombstone: text and readers are erased, and an older state
// of the object that comes late does not bring it back. [Syncer.Event] takes in
// what a webhook says, a deletion above all, which a listing may never show.
// [Syncer.Reconcile] walks through everything, a number of pages at a time, and
// marks as absent what it has not met and nothing has changed since. That is an
// inference, which the next sight of the object ends. A walk that would make most
// of the index absent is an account that lost its rights, more likely than not:
// [ErrTooManyAbsent].
//
// # Who may read
//
// Readers are the provider's names for people and groups, for which an index is
// asked so that it does not have to be read whole. They come with objects or by
// themselves, in an order of their own. An object whose readers nobody has told
// has none. They are no authorization: [Search] delivers an object only if the
// grant of the call permits it and the [Check], asked at the provider now, does.
// A check that fails is an error of the search.
//
// # What it does not do
//
// It ranks by nothing but age, finds whole words only, and makes no embeddings:
// an [Index] of a host's own can. It fetches nothing itself, and has no goroutine;
// package job runs it at intervals. Text that was taken in stays what it was at
// the provider: untrusted.
package ingest
