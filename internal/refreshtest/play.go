package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

type config struct {
	store                                   string
	procs, goroutines, seconds, connections int
	kill                                    bool
}

// game is one execution.
type game struct {
	config
	dsn, base, control string
	calls, errors      atomic.Int64
	killed, busy       atomic.Int64
}

// play connects accounts, lets workers call, and counts.
func play(ctx context.Context, h *peers.Program, c config) (report, error) {
	g := &game{config: c}
	g.dsn = sqlstore.SQLiteDSN(filepath.Join(h.TempDir(), "connections.db"))
	if c.store == "postgres" {
		g.dsn = peers.PostgreSQL(h)
	}
	server, in, out, err := peers.Again(role+"=server", fmt.Sprint("SLOW=", c.kill))
	if err != nil {
		return report{}, err
	}
	defer func() { in.Close(); _ = server.Wait() }()
	if !out.Scan() {
		return report{}, errors.New("the server did not start")
	}
	g.base, g.control, _ = strings.Cut(out.Text(), " ")
	db, store, err := openStore(ctx, c.store, g.dsn)
	if err != nil {
		return report{}, err
	}
	defer db.Close()
	m, err := newManager(g.base, store)
	if err != nil {
		return report{}, err
	}
	defer m.Close(ctx)
	if err := g.connect(ctx, m); err != nil {
		return report{}, err
	}
	started := time.Now()
	if err := g.crew(ctx); err != nil {
		return report{}, err
	}
	r := report{Calls: int(g.calls.Load()), Killed: int(g.killed.Load()), Unavailable: int(g.busy.Load()), Connections: c.connections, kill: c.kill,
		Seconds: time.Since(started).Round(time.Millisecond).Seconds()}
	return r, g.judge(ctx, store, m, &r)
}

// connect connects an account for each user.
func (g *game) connect(ctx context.Context, m *connection.Manager) error {
	who, err := principals(g.connections)
	if err != nil {
		return err
	}
	for i, p := range who {
		link, err := m.Begin(ctx, p, &connection.BeginRequest{Provider: "tickets", Scopes: []string{"read"}})
		if err != nil {
			return err
		}
		d, err := m.Open(ctx, p, link.ID)
		if err != nil {
			return err
		}
		text, err := ask(http.PostForm(g.control+"/consent", url.Values{"user": {user(i)}, "url": {d.URL}}))
		if err != nil {
			return err
		}
		q, err := url.ParseQuery(text)
		if err != nil {
			return err
		}
		if _, err := m.Callback(ctx, p, d.Browser, q); err != nil {
			return err
		}
		if g.kill {
			time.Sleep(accessFor / time.Duration(g.connections)) // they are not all due at once, to die at once
		}
	}
	return nil
}

func ask(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the control answered %s: %s", resp.Status, text)
	}
	return string(text), err
}

// crew keeps the workers running for as long as was asked.
func (g *game) crew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(g.seconds)*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, g.procs)
	for i := range g.procs {
		wg.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				errs[i] = g.worker(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// worker runs one until it dies or the time is over.
func (g *game) worker(ctx context.Context) error {
	cmd, in, out, err := peers.Again(role+"=worker", "STORE="+g.store, "DSN="+g.dsn, "BASE="+g.base, fmt.Sprint("KILL=", g.kill),
		fmt.Sprint("CONNECTIONS=", g.connections), fmt.Sprint("GOROUTINES=", g.goroutines))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { in.Close() })
	defer stop()
	g.read(out)
	err = cmd.Wait()
	exit, died := errors.AsType[*exec.ExitError](err)
	switch {
	case died && exit.ExitCode() == -1 && g.kill:
		g.killed.Add(1)
		return nil
	case err == nil && ctx.Err() == nil:
		return errors.New("a worker ended by itself")
	}
	return err
}

func (g *game) read(out *bufio.Scanner) {
	for out.Scan() {
		var p progress
		if json.Unmarshal(out.Bytes(), &p) == nil { // half a line: it was killed while it wrote
			g.calls.Add(int64(p.Calls))
			g.errors.Add(int64(p.Errors))
			g.busy.Add(int64(p.Unavailable))
		}
	}
}

// judge compares the store with the server.
func (g *game) judge(ctx context.Context, store connection.Store, m *connection.Manager, r *report) error {
	var t truth
	text, err := ask(http.Get(g.control + "/truth"))
	if err == nil {
		err = json.Unmarshal([]byte(text), &t)
	}
	if err != nil {
		return err
	}
	r.Expiries, r.TokenRequests = t.Expiries, t.Requests // before the last calls below
	who, err := principals(g.connections)
	if err != nil {
		return err
	}
	c := &caller{m: m, base: g.base, who: who, api: http.Client{Timeout: 10 * time.Second}}
	var wg sync.WaitGroup
	for i := range who {
		wg.Go(func() {
			if err := c.call(ctx, i); err != nil { // waits for the leases of the dead
				c.errors.Add(1)
				if !errors.Is(err, toolresult.ConnectionRequired) {
					fmt.Fprintln(os.Stderr, "refreshtest:", user(i), "in the end:", err)
				}
			}
		})
	}
	wg.Wait()
	r.Errors = int(g.errors.Load() + c.errors.Load())
	if text, err = ask(http.Get(g.control + "/truth")); err == nil {
		err = json.Unmarshal([]byte(text), &t)
	}
	if err != nil {
		return err
	}
	r.InvalidGrants = t.InvalidGrants
	list, err := store.List(ctx, &connection.Query{Tenant: "acme", Limit: 1000})
	for _, rec := range list {
		if rec.State != connection.Reauthorize {
			continue
		}
		r.Lost++
		r.Errors-- // its last call, which had to fail
		if rec.Reason != connection.ReasonUnknown || int(rec.Tokens) >= t.Issued[rec.Account] {
			r.WronglyLost++
			fmt.Fprintf(os.Stderr, "refreshtest: %s is lost for %q; %d tokens were issued and %d stored\n", rec.Account, rec.Reason, t.Issued[rec.Account], rec.Tokens)
		}
	}
	return err
}
