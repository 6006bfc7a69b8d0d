package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/sqlconnection"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/gateway"
	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/world"
)

// accounts connects accounts, as the host's own page does with a person in a
// browser, over the database of the replicas.
type accounts struct {
	db     *sql.DB
	m      *connection.Manager
	world  *world.World
	issuer string
	who    *authz.Authority

	mu    sync.Mutex
	again map[string][]time.Time // when somebody had to consent again
}

func openAccounts(ctx context.Context, cfg *gateway.Config, w *world.World) (_ *accounts, err error) {
	a := &accounts{world: w, issuer: cfg.Issuer, who: authz.NewAuthority("load"), again: map[string][]time.Time{}}
	if a.db, err = gateway.OpenDB(ctx, cfg); err != nil {
		return nil, err
	}
	dialect := sqlstore.SQLite
	if cfg.DSN != "" {
		dialect = sqlstore.PostgreSQL
	}
	store, err := sqlconnection.Open(ctx, a.db, dialect)
	if err == nil {
		a.m, err = gateway.Accounts(cfg, store, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		return nil, errors.Join(err, a.db.Close())
	}
	return a, nil
}

func (a *accounts) close(ctx context.Context) error {
	return errors.Join(a.m.Close(context.WithoutCancel(ctx)), a.db.Close())
}

// connect lets a person consent, for a connection that is there or a new one.
func (a *accounts) connect(ctx context.Context, name, tenant, connectionID string) error {
	p, err := a.who.Principal(authz.Identity{Tenant: tenant, Issuer: a.issuer, Subject: name})
	if err != nil {
		return err
	}
	link, err := a.m.Begin(ctx, p, &connection.BeginRequest{Provider: gateway.Desk, Scopes: []string{world.Scope}, Connection: connectionID})
	if err != nil {
		return err
	}
	d, err := a.m.Open(ctx, p, link.ID)
	if err != nil {
		return err
	}
	back, err := a.world.Consent(name, d.URL)
	if err != nil {
		return err
	}
	_, err = a.m.Callback(ctx, p, d.Browser, back)
	return err
}

// reconnect consents again, if the person's connection is over. Otherwise it says
// how it is, unless somebody else was first.
func (a *accounts) reconnect(ctx context.Context, name, tenant string, since time.Time) (states string, err error) {
	a.mu.Lock() // one at a time: it happens when a replica was killed inside a refresh
	defer a.mu.Unlock()
	if times := a.again[name]; len(times) > 0 && times[len(times)-1].After(since) {
		return "", nil
	}
	p, err := a.who.Principal(authz.Identity{Tenant: tenant, Issuer: a.issuer, Subject: name})
	if err != nil {
		return "", err
	}
	list, err := a.m.Connections(ctx, p)
	if err != nil {
		return "", err
	}
	for _, c := range list {
		if c.State == connection.Reauthorize {
			a.again[name] = append(a.again[name], time.Now())
			return "", a.connect(ctx, name, tenant, c.ID)
		}
		states += string(c.State) + " "
	}
	return states, nil
}

func (a *accounts) consents(name string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.again[name])
}
