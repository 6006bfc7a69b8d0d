package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/sqlconnection"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/gateway"
	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/world"
)

// demo is one replica with everything that it needs, in this process.
func demo(ctx context.Context, c *gateway.Command) (err error) {
	w, err := world.Start(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if c.Listen, err = settled(c.Listen); err != nil { // tokens are for one URL
		return err
	}
	cfg := demoConfig(w, "http://"+c.Listen+"/mcp", dir)
	if err := connect(ctx, cfg, w, "alice"); err != nil {
		return err
	}
	for _, person := range []string{"alice", "bob"} {
		token, err := w.Token(person, cfg.Public)
		if err != nil {
			return err
		}
		fmt.Printf("%s's token, for an MCP client: %s\n", person, token)
		if person == "alice" {
			fmt.Printf(try, cfg.Public, token)
		}
	}
	fmt.Println("\nbob has connected no account: his calls say so, with a link. Interrupt to drain and end.")
	return c.Serve(ctx, cfg)
}

// try is a call that a person can paste.
const try = `
  curl -s %s -H 'Authorization: Bearer %s' \
    -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -H 'Mcp-Protocol-Version: 2025-11-25' \
    -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_runbooks","arguments":{"namespace":"prod","service":"order-service"}}}'

`

// settled chooses a port, if the address leaves it open.
func settled(addr string) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func demoConfig(w *world.World, public, dir string) *gateway.Config {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return &gateway.Config{Public: public, Dir: dir, Key: "1", Keys: map[string][]byte{"1": key}, Issuer: w.IdentityURL,
		Provider: w.ProviderURL, ProviderIssuer: w.ProviderURL, Client: world.Gateway, ClientSecret: world.Secret, Return: world.ReturnToHere,
		ConnectPage: "http://127.0.0.1/connect/", People: map[string]gateway.Person{
			"alice": {Tenant: "acme", Groups: []string{"on-call"}}, "bob": {Tenant: "globex", Groups: []string{"on-call"}}}}
}

// connect connects a person's account, as a page of the host would.
func connect(ctx context.Context, cfg *gateway.Config, w *world.World, person string) (err error) {
	db, err := gateway.OpenDB(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := sqlconnection.Open(ctx, db, sqlstore.SQLite)
	if err != nil {
		return err
	}
	m, err := gateway.Accounts(cfg, store, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	p, err := authz.NewAuthority("demo").Principal(authz.Identity{Tenant: cfg.People[person].Tenant, Issuer: cfg.Issuer, Subject: person})
	if err != nil {
		return err
	}
	link, err := m.Begin(ctx, p, &connection.BeginRequest{Provider: gateway.Desk, Scopes: []string{world.Scope}})
	if err != nil {
		return err
	}
	d, err := m.Open(ctx, p, link.ID)
	if err != nil {
		return err
	}
	back, err := w.Consent(person, d.URL)
	if err != nil {
		return err
	}
	_, err = m.Callback(ctx, p, d.Browser, back)
	return err
}
