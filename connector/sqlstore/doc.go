// Package sqlstore keeps operations, approvals and artifacts in a SQL database,
// so that they outlive the process and several processes share them.
//
//	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN("/var/lib/app/operations.db"))
//	...
//	store, err := sqlstore.Open(ctx, db, sqlstore.SQLite, &sqlstore.Options{Seal: keyring})
//	...
//	inv, err := connector.NewInvoker(..., &connector.Options{
//		Operations: store, Approvals: store.Approvals(), Artifacts: store.Artifacts(), ...})
//
// It works on database/sql and imports no driver: the program chooses one.
// [SQLite] is tried with modernc.org/sqlite, one file and no server, and
// [PostgreSQL] with pgx. Both have one schema.
//
// # What the database holds still
//
// The rules of an operation.Store are a primary key and two partial unique
// indexes, so that they hold against every program that writes to the tables and
// not only against this one. A record is replaced by one UPDATE that names the
// version it was read at. No transaction is open while anything but the database
// is waited for.
//
// Each version of an operation adds a row to its history, in the same
// transaction: [Store.History]. This package has no statement that changes or
// removes one.
//
// # What is in clear
//
// Names, digests, states, times and the provider's ids are in clear, because
// operators look for them. Arguments, output and the bytes of artifacts are
// sealed for their tenant, record and column by a [Sealer], such as a
// credential.Keyring; so is what a person is shown of a change to approve. Open refuses to do without one unless Options.Plaintext
// says so aloud.
//
// # What it does not do
//
// It deletes no operation: how long they are kept is the host's decision. It
// does not notice a row that somebody with write access put back as it was
// before, except by its version. It makes no connection settings: Open checks
// those that durability depends on, and refuses a database without them.
package sqlstore
