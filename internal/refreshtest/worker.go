package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/authz/connection/sqlconnection"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// progress is a line of a worker: what happened since its last one.
type progress struct{ Calls, Errors, Unavailable int }

func openStore(ctx context.Context, kind, dsn string) (*sql.DB, connection.Store, error) {
	driver, dialect := "sqlite", sqlstore.SQLite
	if kind == "postgres" {
		driver, dialect = "pgx", sqlstore.PostgreSQL
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	s, err := sqlconnection.Open(ctx, db, dialect)
	if err != nil {
		db.Close()
	}
	return db, s, err
}

// newManager is one of the processes that share the store.
func newManager(base string, store connection.Store) (*connection.Manager, error) {
	keys, err := credential.NewKeyring("k1", map[string][]byte{"k1": bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		return nil, err
	}
	at := func(path string) egress.Profile {
		return egress.Profile{Name: "as", BaseURL: base + path, Plaintext: true, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Limits: egress.Limits{Total: 3 * time.Second}} // so that a lease is 8 s
	}
	p := &connection.Provider{
		Name: "tickets", Grant: connection.AuthorizationCode, Connectors: []string{"tickets"}, Issuer: base, SendsIssuer: true, S256: true,
		AuthorizationEndpoint: base + "/authorize", RedirectURI: redirect, Token: at("/token"), Revocation: at("/revoke"),
		ClientID: clientID, ClientAuth: connection.SecretBasic, Secret: func(context.Context) ([]byte, error) { return []byte(secret), nil },
		Scopes: []string{"read"}, ExpectRefresh: true, API: at(""), Confirm: whoami,
	}
	return connection.New(store, keys, []*connection.Provider{p}, &connection.Options{
		ConnectURL: func(id string) string { return "http://localhost/connect/" + id }, Lease: 8 * time.Second})
}

func whoami(ctx context.Context, c *http.Client, base string) (connection.Account, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/userinfo", nil)
	if err != nil {
		return connection.Account{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return connection.Account{}, err
	}
	defer resp.Body.Close()
	var me struct{ Sub, Org string }
	if resp.StatusCode != http.StatusOK {
		return connection.Account{}, errors.New("not confirmed")
	}
	err = json.NewDecoder(resp.Body).Decode(&me)
	return connection.Account{ID: me.Sub, Org: me.Org}, err
}

func user(i int) string { return fmt.Sprint("user-", i) }

// principals are the owners of the connections, one each.
func principals(n int) (out []authz.Principal, err error) {
	host := authz.NewAuthority("refreshtest")
	for i := range n {
		p, err := host.Principal(authz.Identity{Tenant: "acme", Issuer: "https://id.example", Subject: user(i), Expires: time.Now().Add(24 * time.Hour)})
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// caller makes calls.
type caller struct {
	m    *connection.Manager
	base string
	api  http.Client
	who  []authz.Principal
	over []atomic.Bool // must be consented to again

	kill                       bool
	calls, errors, unavailable atomic.Int64
	seen                       sync.Map // tokens that were sent to the API
}

// call resolves, and puts the credential on a request.
func (c *caller) call(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := c.m.Resolve(ctx, &credential.ResolveRequest{Principal: c.who[i], Connector: "tickets", Capability: "tickets.get", Run: "r", Call: "c", Mode: "oauth2", Scopes: []string{"read"}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/userinfo", nil)
	if err != nil {
		return err
	}
	if err := c.m.Apply(ctx, r.Handle, c.base, req); err != nil {
		return err
	}
	if _, known := c.seen.LoadOrStore(req.Header.Get("Authorization"), true); known {
		return nil
	}
	resp, err := c.api.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the API answered %s to a token that was just handed out", resp.Status)
	}
	return nil
}

// run calls until ctx ends.
func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		i := rand.N(len(c.who))
		if c.over[i].Load() {
			time.Sleep(time.Millisecond)
			continue
		}
		err := c.call(ctx, i)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			c.calls.Add(1)
		case errors.Is(err, toolresult.ConnectionRequired): // whether rightly, the parent decides
			c.over[i].Store(true)
		case c.kill && errors.Is(err, toolresult.ProviderUnavailable):
			c.unavailable.Add(1)
		default:
			c.errors.Add(1)
			fmt.Fprintln(os.Stderr, "refreshtest: a call failed:", err)
		}
	}
}

// work is a worker's process. It writes a line five times a second, and ends when
// its input does.
func work() {
	ctx, cancel := context.WithCancel(context.Background())
	_, store, err := openStore(ctx, os.Getenv("STORE"), os.Getenv("DSN"))
	if err != nil {
		fatal(err)
	}
	if os.Getenv("KILL") == "true" {
		store = mortal{store}
	}
	m, err := newManager(os.Getenv("BASE"), store)
	if err != nil {
		fatal(err)
	}
	n, err1 := strconv.Atoi(os.Getenv("CONNECTIONS"))
	goroutines, err2 := strconv.Atoi(os.Getenv("GOROUTINES"))
	who, err3 := principals(n)
	if err := errors.Join(err1, err2, err3); err != nil {
		fatal(err)
	}
	c := &caller{m: m, base: os.Getenv("BASE"), who: who, kill: os.Getenv("KILL") == "true", over: make([]atomic.Bool, n), api: http.Client{Timeout: 10 * time.Second}}
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() { c.run(ctx) })
	}
	out := json.NewEncoder(os.Stdout)
	say := func() {
		_ = out.Encode(progress{int(c.calls.Swap(0)), int(c.errors.Swap(0)), int(c.unavailable.Swap(0))})
	}
	for ctx.Err() == nil {
		select {
		case <-time.After(200 * time.Millisecond):
			say()
		case <-ctx.Done():
		}
	}
	wg.Wait()
	_ = m.Close(context.Background()) // what it began it ends: the counts are compared
	say()
}

// mortal is a store around whose writes of a refresh the process may end.
type mortal struct{ connection.Store }

const deadly = 60 // of as many points one kills

func point() {
	if rand.N(deadly) == 0 {
		die()
	}
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

func (m mortal) CompareAndSwap(ctx context.Context, r connection.Record) (connection.Record, error) {
	point() // before the lease, or between the server's commit and ours
	next, err := m.Store.CompareAndSwap(ctx, r)
	if err != nil {
		return next, err
	}
	point()
	if next.State == connection.Refreshing && rand.N(deadly) == 0 {
		time.AfterFunc(rand.N(20*time.Millisecond), die) // while the request is under way
	}
	return next, nil
}
