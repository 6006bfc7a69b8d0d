// Package replicas is the host of the guide: everything that lasts is in a SQL
// database, everything that travels is sealed under keys that all replicas have,
// and so any of them can answer any call.
package replicas

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/sqlconnection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/job"
	"github.com/drawbridge-sdk/drawbridge/connector/release"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// Keys are random 32 bytes each, by id, of which Current seals and all open. They
// come from a secret store and are the same in every replica.
type Keys struct {
	Current string
	Keys    map[string][]byte
}

// Config is what the replicas of a host have in common. What is sealed at rest,
// cursors and request states have keys of their own.
type Config struct {
	Dialect                sqlstore.Dialect
	AtRest, Cursors, State Keys

	Policy     authz.Policy
	Trusted    *authz.Authority // of the first hop
	Who        mcpadapter.PrincipalFunc
	Connectors []connector.Connector
	Audit      connector.Audit

	Endpoints []egress.Profile
	Egress    *egress.Options        // nil: the network
	Static    credential.Broker      // keys of services
	Providers []*connection.Provider // where users connect accounts
	Accounts  *connection.Options
}

// Replica is one process of the host.
type Replica struct {
	Store    *sqlstore.Store
	Accounts *connection.Manager
	Invoker  *connector.Invoker
	Adapter  *mcpadapter.Adapter
	jobs     *job.Runner
}

// Open starts a replica on a database that it shares with the others.
func Open(ctx context.Context, db *sql.DB, c *Config) (*Replica, error) {
	atRest, err := credential.NewKeyring(c.AtRest.Current, c.AtRest.Keys)
	if err != nil {
		return nil, err
	}
	cursors, err := cursor.NewKeyring(c.Cursors.Current, c.Cursors.Keys, nil)
	if err != nil {
		return nil, err
	}
	r := &Replica{}
	if r.Store, err = sqlstore.Open(ctx, db, c.Dialect, &sqlstore.Options{Seal: atRest}); err != nil {
		return nil, err
	}
	accounts, err := sqlconnection.Open(ctx, db, c.Dialect)
	if err != nil {
		return nil, err
	}
	if r.Accounts, err = connection.New(accounts, atRest, c.Providers, c.Accounts); err != nil {
		return nil, err
	}
	r.Invoker, err = connector.NewInvoker(c.Policy, []*authz.Authority{c.Trusted}, c.Connectors, &connector.Options{
		Endpoints: c.Endpoints, Egress: c.Egress, Credentials: credential.Join(c.Static, r.Accounts), Audit: c.Audit,
		Operations: r.Store, Approvals: r.Store.Approvals(), Artifacts: r.Store.Artifacts(),
		Cursors: cursors, Recovery: authz.NewAuthority("recovery"),
	})
	if err != nil {
		return nil, err
	}
	r.Adapter, err = mcpadapter.New(r.Invoker, c.Who, &mcpadapter.Options{Name: "rooms", Version: "1.0.0", StateKey: c.State.Current, StateKeys: c.State.Keys})
	if err != nil {
		return nil, err
	}
	r.jobs, err = job.Open(ctx, db, c.Dialect, []job.Sweep{
		job.Recover(r.Invoker, 100),
		job.Expire(r.Store.Artifacts()),
		{Name: "disconnects", Every: time.Minute, Run: func(ctx context.Context) error { _, err := r.Accounts.Resume(ctx, 100); return err }},
	}, nil)
	return r, err
}

// HTTP serves MCP; once the replica drains, it answers 503.
func (r *Replica) HTTP() http.Handler { return r.Adapter.HTTP() }

// Work does what nobody asks for, until ctx ends.
func (r *Replica) Work(ctx context.Context) error { return r.jobs.Run(ctx) }

// Drain ends the replica in order: no new calls, those under way finish until
// ctx ends, and so do renewals of credentials.
func (r *Replica) Drain(ctx context.Context) error {
	return errors.Join(r.Adapter.Shutdown(ctx), r.Accounts.Close(ctx))
}

// Gate compares the contract that was released with the connector that is about
// to be. An error says what breaks for those who rely on it.
func Gate(released []byte, next connector.Connector) (*release.Report, error) {
	was, err := release.Decode(released)
	if err != nil {
		return nil, err
	}
	report := release.Compare(was, release.Of(next))
	return report, report.Err()
}
