package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/ledger"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// What can happen to a call, beside the provider's troubles.
const (
	dieAtPoint = "the worker dies at a point"
	dieAtTime  = "the worker dies at some time"
	callTwice  = "the call is made twice"
)

var everyFault = []string{
	dieAtPoint, dieAtPoint, dieAtPoint, dieAtTime, callTwice, // the points are many
	killBefore, killAfter, dropBefore, dropAfter, busyBefore, busyAfter, applyLate, answerLate,
}

const (
	lastPoint  = 9               // two around each of three writes to the ledger, and those of audit
	flightMax  = 2               // calls at once, per worker: each kill hits few others
	runTimeout = 5 * time.Minute // a run that is not settled then is unresolved
)

type config struct {
	store       string
	runs, procs int
	seed        uint64
	faults      []string
	forget      bool // the provider does not keep its word about idempotency keys: a control
}

// game is one execution.
type game struct {
	config
	dsn, api, control string
	crew              *crew
	seats             chan struct{}
	deaths            atomic.Int64
	misreported       atomic.Int64
	client            http.Client
}

// play makes all runs and counts.
func play(ctx context.Context, h *peers.Program, c config) (report, error) {
	g := &game{config: c, seats: make(chan struct{}, flightMax*c.procs)}
	g.dsn = sqlstore.SQLiteDSN(filepath.Join(h.TempDir(), "operations.db"))
	if c.store == "postgres" {
		g.dsn = peers.PostgreSQL(h)
	}
	_, in, out, err := again("provider", fmt.Sprint("FORGET=", c.forget))
	if err != nil {
		return report{}, err
	}
	defer in.Close()
	if !out.Scan() {
		return report{}, errors.New("crashtest: the provider did not start")
	}
	g.api, g.control, _ = strings.Cut(out.Text(), " ")
	db, store, err := openStore(ctx, g.store, g.dsn) // makes the schema, too
	if err != nil {
		return report{}, err
	}
	defer db.Close()
	g.crew = &crew{g: g, ps: make([]*process, c.procs)}
	defer g.crew.close()
	var wg sync.WaitGroup
	errs := make([]error, c.runs)
	for i := range c.runs {
		wg.Go(func() { errs[i] = g.run(ctx, i, store) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return report{}, err
	}
	fmt.Fprintf(os.Stderr, "%d workers died\n", g.deaths.Load())
	return g.count(ctx, store)
}

// count compares the ledger with the provider.
func (g *game) count(ctx context.Context, store operation.Store) (report, error) {
	r := report{Runs: g.runs, Misreported: int(g.misreported.Load())}
	for i := range g.runs {
		applied, err := g.truth(thing(i))
		if err != nil {
			return r, err
		}
		r.Writes += applied
		r.Duplicated += max(0, applied-1)
		rec, err := store.Get(ctx, owner.Tenant, ledger.ID(owner, g.key(i)))
		if err != nil && !errors.Is(err, toolresult.NotFound) {
			return r, err
		}
		switch d := rec.Disposition(); {
		case err != nil, applied > 0 && rec.State == operation.NotApplied:
			r.Lost++
			g.complain(i, "lost: the ledger says %v (%v), the provider applied %d", rec.State, err, applied)
		case !rec.State.Settled():
			r.Unresolved++
			g.complain(i, "unresolved: %v", rec.State)
		case d == toolresult.EffectApplied && applied == 0:
			r.Misreported++
			g.complain(i, "the ledger says applied, and it is not")
		}
	}
	return r, nil
}

func (g *game) complain(i int, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "run %d: %s\n", i, fmt.Sprintf(format, args...))
}

func thing(i int) string { return fmt.Sprint("thing-", i) }

func (g *game) key(i int) string { return fmt.Sprintf("crashtest-%d-%d", g.seed, i) }

// run makes one change: one to three calls in trouble, and then calls without
// until it is settled.
func (g *game) run(ctx context.Context, i int, store operation.Store) error {
	rnd := rand.New(rand.NewPCG(g.seed, uint64(i)))
	j := job{Capability: []string{"things.create", "things.create_keyed"}[i%2], Thing: thing(i), Key: g.key(i)}
	bad := 1 + rnd.IntN(3)
	deadline := time.Now().Add(runTimeout)
	for n := 0; time.Now().Before(deadline); n++ {
		fault := ""
		if n < bad {
			fault = g.faults[rnd.IntN(len(g.faults))]
		}
		if err := g.round(i, j, fault, rnd); err != nil {
			return err
		}
		rec, err := store.Get(ctx, owner.Tenant, ledger.ID(owner, j.Key))
		switch {
		case errors.Is(err, toolresult.NotFound):
		case err != nil:
			return err
		case rec.State.Settled() && n >= bad:
			return nil
		}
		pause := 20 * time.Millisecond
		if err == nil && rec.Until.After(time.Now()) && n > 0 { // somebody dead may hold it: nothing happens before
			pause = min(time.Until(rec.Until)+10*time.Millisecond, time.Duration(1+rnd.IntN(20))*time.Second)
		}
		time.Sleep(pause)
	}
	return nil
}

// round is one call, or the same call twice, and checks what it was told.
func (g *game) round(i int, j job, fault string, rnd *rand.Rand) error {
	g.seats <- struct{}{}
	defer func() { <-g.seats }()
	p, q, err := g.crew.two(rnd)
	if err != nil {
		return err
	}
	t := trouble{Do: fault, PID: p.cmd.Process.Pid}
	twice := false
	switch fault {
	case dieAtPoint:
		j.Die, t.Do = 1+rnd.IntN(lastPoint), ""
	case dieAtTime:
		t.Do = ""
		time.AfterFunc(time.Duration(rnd.IntN(40))*time.Millisecond, p.kill)
	case callTwice:
		twice, t.Do = true, ""
	}
	if err := g.plan(j.Thing, t); err != nil {
		return err
	}
	if !twice {
		a, err := p.call(j)
		if err != nil {
			return nil // it died: somebody else goes on
		}
		return g.check(i, a, fault, true)
	}
	var second answer
	var secondErr error
	done := make(chan struct{})
	go func() { defer close(done); second, secondErr = q.call(j) }()
	first, firstErr := p.call(j)
	<-done
	if firstErr == nil {
		err = g.check(i, first, fault, false)
	}
	if secondErr == nil {
		err = errors.Join(err, g.check(i, second, fault, false))
	}
	return err
}

// check compares an answer with the provider's count. alone says that no other
// call can have changed it since.
func (g *game) check(i int, a answer, fault string, alone bool) error {
	applied, err := g.truth(thing(i))
	if err != nil {
		return err
	}
	wrong := ""
	switch {
	case a.Invalid != "":
		wrong = "an invalid result: " + a.Invalid
	case a.Operation == "" && applied > 0:
		wrong = "no operation is named, and it was applied"
	case a.Disposition == toolresult.EffectApplied && applied == 0:
		wrong = "applied is said, and it was not"
	case a.Disposition == toolresult.EffectNotApplied && applied > 0 && alone:
		wrong = "not applied is said, and it was"
	case a.Disposition == toolresult.EffectUnknown && a.Code != toolresult.OutcomeUnknown:
		wrong = "unknown without its code"
	}
	if wrong != "" {
		g.misreported.Add(1)
		g.complain(i, "misreported: %s (%v %s, %q)", wrong, a.Disposition, a.Code, fault)
	}
	return nil
}

func (g *game) plan(thing string, t trouble) error {
	body, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = g.ask(http.MethodPut, "/plan/"+thing, body)
	return err
}

func (g *game) truth(thing string) (int, error) {
	text, err := g.ask(http.MethodGet, "/truth/"+thing, nil)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (g *game) ask(method, path string, body []byte) (string, error) {
	req, err := http.NewRequest(method, g.control+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("crashtest: the provider's control answered %s", resp.Status)
	}
	return string(text), err
}
