// Package sqlregistry keeps a registry of skills in a SQL database, so that many
// processes share one:
//
//	db, err := sql.Open("pgx", "...")
//	store, err := sqlregistry.Open(ctx, db, sqlstore.PostgreSQL, "acme")
//	reg, err := registry.New("acme", store, policy, trusted, nil)
//
// It works on database/sql and imports no driver. It may share its database with
// package sqlstore: tables and migrations have names of their own.
//
// # What the database holds still
//
// Records, the events that led to them and packages are rows that are only ever
// added; that a revision is written once is their primary key. A run's pins and
// its end take one lock, the run's row, so that no pin slips in behind the end.
//
// What is read is checked: a record that is not that of its row, a revision that
// is missing and a package with another digest are errors and never answers.
//
// # What it does not do
//
// It seals nothing: skills are read by models and hold no secrets. It deletes
// nothing either. It does not notice that the last revisions of a record were
// taken away together: who can write to the tables can do that.
package sqlregistry
