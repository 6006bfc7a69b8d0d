// Package sqlconnection keeps connections in a SQL database, so that many
// processes share them:
//
//	db, err := sql.Open("pgx", "...")
//	store, err := sqlconnection.Open(ctx, db, sqlstore.PostgreSQL)
//	m, err := connection.New(store, keys, providers, nil)
//
// It works on database/sql and imports no driver. It may share its database with
// packages sqlstore and sqlregistry: tables and migrations have names of their
// own.
//
// # What the database holds still
//
// A refresh is recorded before it is sent, by one update that names the version
// it replaces: of all processes one gets the lease. A transaction is taken in the
// same way. That an owner has an account once is a unique index over those
// connections that are not over.
//
// What is read is checked: a row that holds another row's record is an error and
// never an answer.
//
// # What it does not do
//
// It seals nothing and has no key: tokens and verifiers come to it sealed for
// their tenant, connection and field, so that a backup shows none, and a token
// that is moved to another row cannot be opened. Who can write to the tables can
// still change everything that is not sealed, such as scopes; grant that to the
// host alone.
package sqlconnection
