package mutants

// writeMutants are wrong about changes.
var writeMutants = []Mutant{
	{"read-mutates", "a GET that changes something: what was read is marked as read, and a crawler deletes the pages (the Google Web Accelerator, 2005)"},
	{"drop-is-not-applied", "a lost answer taken for a change that was not made: lib/pq#939, go-sql-driver/mysql#295"},
	{"drop-is-success", "a lost answer taken for a receipt, because the request was written without an error"},
	{"all-unknown", "every failure of a change as unknown, also one that never left: nobody looks any more"},
	{"cancel-is-not-applied", "a caller's deadline taken for a rollback"},
	{"502-is-not-applied", "a gateway's 502 taken for the provider's refusal: the provider may have acted"},
	{"idem-dropped", "a new key for each attempt at the same intent, made where the request is sent"},
	{"retry-new-key", "a key that a layer below makes for each request, over the one that the caller chose"},
	{"getbody-set", "a request that is sent again on a new connection when the answer was lost: what net/http does for a POST with an Idempotency-Key, and nginx did for every POST before 1.9.13"},
	{"key-ignores-args", "an old receipt for a new change under the same key, whose arguments nobody compared"},
	{"key-global", "keys of all callers in one space: somebody else's receipt"},
	{"retry-without-key", "a client that repeats whatever failed, also what nobody gave a key to"},
	{"no-dedupe", "a proxy that drops the headers that it does not know, Idempotency-Key among them"},
	{"reconcile-guesses", "a look-up that says no when it has not looked properly"},
	{"preview-writes", "a dry run that reserves a number"},
}
