package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/balance"
	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/gateway"
	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/world"
)

type config struct {
	span    time.Duration
	people  int
	seed    uint64
	store   string
	control []string // what the provider does wrong on purpose
	calm    bool     // no replica comes or goes
}

var controls = []string{"double", "lose", "cross", "refresh"}

const (
	writeTimeout = 3 * time.Second
	settle       = 2 * time.Second
	accessFor    = 3 * time.Second // of the provider's access tokens
)

// game is one execution.
type game struct {
	config
	world  *world.World
	fleet  *fleet
	desk   *accounts
	public string
	people []*person
	books  books       // what clients were told
	mixed  atomic.Bool // two releases are served
}

// play makes one execution, and judges it.
func play(ctx context.Context, h testing.TB, c config) (_ *report, err error) {
	g := &game{config: c}
	dir := h.TempDir()
	cfg, front, err := g.open(h, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, front.Close(), g.world.Close()) }()
	defer g.fleet.close()
	if g.desk, err = openAccounts(ctx, cfg, g.world); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.desk.close(ctx)) }()
	if err := g.hire(ctx, cfg); err != nil {
		return nil, err
	}
	started := time.Now()
	if err := g.run(ctx); err != nil {
		return nil, err
	}
	r := &report{Seconds: time.Since(started).Round(time.Millisecond).Seconds(), People: c.people, Store: c.store}
	return r, g.audit(ctx, r, dir)
}

// open starts the world, and a front that knows no replica yet, and writes down
// the configuration of replicas.
func (g *game) open(h testing.TB, dir string) (*gateway.Config, *http.Server, error) {
	dsn := ""
	if g.store == "postgres" {
		dsn = postgres(h)
	}
	var err error
	if g.world, err = world.Start(g.troubles()); err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, errors.Join(err, g.world.Close())
	}
	g.fleet = &fleet{dir: dir, config: filepath.Join(dir, "gateway.json"), balancer: &balance.Balancer{}, report: complain}
	front := &http.Server{Handler: g.fleet.balancer, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = front.Serve(l) }() // until it is closed
	g.public = "http://" + l.Addr().String() + "/mcp"
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	cfg := &gateway.Config{Public: g.public, DSN: dsn, Dir: dir, Key: "1", Keys: map[string][]byte{"1": key}, Issuer: g.world.IdentityURL,
		Provider: g.world.ProviderURL, ProviderIssuer: g.world.ProviderURL, Client: world.Gateway, ClientSecret: world.Secret, Return: world.ReturnToHere,
		ConnectPage: "http://127.0.0.1/connect/", WriteTimeout: gateway.Duration(writeTimeout), Settle: gateway.Duration(settle),
		Grace: gateway.Duration(time.Second), People: map[string]gateway.Person{}}
	for n := range g.config.people {
		cfg.People[name(n)] = gateway.Person{Tenant: tenant(n), Groups: []string{"on-call"}}
	}
	text, err := json.Marshal(cfg)
	if err == nil {
		err = os.WriteFile(g.fleet.config, text, 0o600)
	}
	if err != nil {
		return nil, nil, errors.Join(err, front.Close(), g.world.Close())
	}
	return cfg, front, nil
}

func complain(format string, args ...any) { fmt.Fprintf(os.Stderr, "load: "+format+"\n", args...) }

// troubles are what the provider does, and the controls, which are counted out so
// that they happen in a short run as well.
func (g *game) troubles() *world.Options {
	var mu sync.Mutex
	dice := mrand.New(mrand.NewPCG(g.seed, 1))
	does := func(control string) bool { return slices.Contains(g.control, control) }
	var changes, reads, refreshes atomic.Int64
	o := &world.Options{AccessFor: accessFor, Trouble: func() world.Trouble {
		switch n := changes.Add(1); {
		case n%5 == 2 && does("double"):
			return world.Twice
		case n%5 == 4 && does("lose"):
			return world.Never
		}
		mu.Lock()
		defer mu.Unlock()
		return misfortune(dice.IntN(100))
	}}
	if does("cross") {
		o.Mistake = func(account string) string {
			if reads.Add(1)%20 == 0 {
				return name(0)
			}
			return account
		}
	}
	if does("refresh") {
		o.Repeat = func() bool { return refreshes.Add(1)%2 == 0 }
	}
	return o
}

// misfortune is what happens to one change in a hundred, and so on.
func misfortune(percent int) world.Trouble {
	switch {
	case percent < 3:
		return world.DropAfter
	case percent < 6:
		return world.BusyAfter
	case percent < 7:
		return world.DropBefore
	case percent < 8:
		return world.BusyBefore
	case percent < 13:
		return world.Slow
	}
	return world.None
}

func name(n int) string { return fmt.Sprintf("person-%02d", n) }

func tenant(n int) string { return []string{"acme", "globex"}[n%2] }

// hire connects an account for each person, and signs them in.
func (g *game) hire(ctx context.Context, cfg *gateway.Config) error {
	for n := range g.config.people {
		if err := g.desk.connect(ctx, name(n), tenant(n), ""); err != nil {
			return err
		}
		token, err := g.world.Token(name(n), g.public)
		if err != nil {
			return err
		}
		g.people = append(g.people, newPerson(g, n, token))
	}
	for _, p := range g.people {
		p.stranger = g.people[(p.n+1)%len(g.people)]
	}
	return nil
}

// run lets people work while replicas come and go.
func (g *game) run(ctx context.Context) error {
	a, err := g.fleet.start(ctx, gateway.Current)
	if err != nil {
		return err
	}
	b, err := g.fleet.start(ctx, gateway.Current)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for _, p := range g.people {
		wg.Go(func() { p.write(work) })
		wg.Go(func() { p.read(work) })
	}
	if g.calm {
		g.calmly(ctx)
	} else {
		err = g.rollout(ctx, a, b)
	}
	stop()
	wg.Wait()
	for _, p := range g.people { // in a short run nobody may have come to it
		p.trespass(ctx)
	}
	return errors.Join(err, ctx.Err())
}

// calmly waits for the span, and on a slow machine until there is something to
// judge.
func (g *game) calmly(ctx context.Context) {
	began := time.Now()
	for time.Since(began) < patience && pause(ctx, 50*time.Millisecond) {
		done := 0
		for _, n := range g.world.Applied() {
			done += n
		}
		if time.Since(began) >= g.span && done >= 10 && g.books.crossed.Load() > 0 && len(g.world.Refreshes()) >= 4 {
			return
		}
	}
}

// rollout replaces both replicas by the next release, one after the other, and
// kills each of the new ones. The steps are at parts of the span.
func (g *game) rollout(ctx context.Context, a, b *process) error {
	began := time.Now()
	until := func(percent int) {
		select {
		case <-time.After(time.Until(began.Add(g.span * time.Duration(percent) / 100))):
		case <-ctx.Done():
		}
	}
	until(10)
	g.mixed.Store(true)
	c, err := g.fleet.start(ctx, gateway.Next) // beside the old ones
	if err != nil {
		return err
	}
	if err := g.fleet.knock(gateway.Breaking); err != nil {
		return err
	}
	until(30)
	if err := g.fleet.retire(ctx, a); err != nil {
		return err
	}
	d, err := g.fleet.start(ctx, gateway.Next)
	if err != nil {
		return err
	}
	until(45)
	if err := g.fleet.retire(ctx, b); err != nil {
		return err
	}
	g.mixed.Store(false)
	victims := []*process{c, d}
	if g.span < 15*time.Second {
		victims = victims[:1] // a short run is for tests, which have little time
	}
	for i, victim := range victims {
		until(55 + 20*i)
		if err := g.fleet.kill(victim); err != nil {
			return err
		}
		if _, err := g.fleet.start(ctx, gateway.Next); err != nil {
			return err
		}
	}
	until(100)
	return nil
}
