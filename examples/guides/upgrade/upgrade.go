// Package upgrade has what the guide does before and while a new version goes
// out: of the SDK, of a database, of a connector.
package upgrade

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/release"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
)

// Migrate brings a database up to date, and says what to do where it must not.
// Run it from a program of its own, with the right to change tables; the replicas
// need rights on rows only.
func Migrate(ctx context.Context, db *sql.DB, dialect sqlstore.Dialect, atRest *credential.Keyring) error {
	_, err := sqlstore.Open(ctx, db, dialect, &sqlstore.Options{Seal: atRest})
	switch {
	case errors.Is(err, sqlstore.ErrNewer):
		return fmt.Errorf("a newer release has been here: start that one, or put the backup back: %w", err)
	case errors.Is(err, sqlstore.ErrSchema):
		return fmt.Errorf("somebody has edited a migration: use a released version: %w", err)
	}
	return err
}

// Write returns what a connector promises, for a file that is kept beside it.
func Write(c connector.Connector) ([]byte, error) { return release.Of(c).Encode() }

// Changes is what a new version changes for those who rely on it: a line for each,
// the heaviest first. An error says that it breaks them without saying so in its
// version.
func Changes(released []byte, next connector.Connector) ([]string, error) {
	was, err := release.Decode(released)
	if err != nil {
		return nil, err
	}
	report := release.Compare(was, release.Of(next))
	var out []string
	for _, c := range report.Changes {
		out = append(out, c.String())
	}
	return out, report.Err()
}
