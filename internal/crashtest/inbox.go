package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/connector/webhook"
	"github.com/drawbridge-sdk/drawbridge/internal/peers"
)

const (
	inboxSecret  = "crashtest"
	inboxLease   = 2 * time.Second // what a killed receiver held is handed out again after that
	inboxWorkers = 64
	inboxObjects = 200
	inboxFlight  = 64 // deliveries at once, as of a provider with many senders
)

type inboxConfig struct {
	rate      int           // deliveries per second
	span      time.Duration // of deliveries; retries go on after it
	every     time.Duration // between kills
	duplicate float64       // part of the deliveries that are sent again
	seed      uint64
	most      int  // kills; 0: no end
	naive     bool // a handler that has its effect outside of the transaction: a control
}

// inboxReport is the line.
type inboxReport struct {
	Deliveries     int     `json:"deliveries"`
	Events         int     `json:"events"`
	Duplicates     int     `json:"duplicates"`
	Retries        int     `json:"retries"` // deliveries that were not acknowledged
	Kills          int     `json:"kills"`
	Handled        int     `json:"handled"`
	Stale          int     `json:"stale"` // older than what was handled when they came
	Lost           int     `json:"lost"`
	ProcessedTwice int     `json:"processed_twice"`
	OutOfOrder     int     `json:"out_of_order"`
	Rate           float64 `json:"rate"` // deliveries per second that were sent
	Seconds        float64 `json:"seconds"`
}

func (r inboxReport) ok() bool { return r.Lost == 0 && r.ProcessedTwice == 0 && r.OutOfOrder == 0 }

// inboxEvent is what is delivered.
type inboxEvent struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Version int64  `json:"version"`
	Pad     string `json:"pad"`
}

// receive is a receiver process: it takes deliveries and handles them until it
// is killed.
func receive() {
	ctx := context.Background()
	db, store, err := openStore(ctx, "sqlite", os.Getenv("DSN"))
	if err != nil {
		fatal(err)
	}
	v, err := webhook.GitHub([]string{inboxSecret}, nil)
	if err != nil {
		fatal(err)
	}
	inbox := store.Inbox()
	endpoint, err := webhook.NewEndpoint(v, inbox, webhook.Place{Tenant: owner.Tenant, Source: "provider"}, &webhook.EndpointOptions{Describe: describe})
	if err != nil {
		fatal(err)
	}
	handler := handleOnce(inbox)
	if os.Getenv("NAIVE") == "true" {
		handler = handleNaively(db)
	}
	p, err := webhook.NewProcessor(inbox, handler, &webhook.ProcessorOptions{Workers: inboxWorkers, Lease: inboxLease, Poll: 20 * time.Millisecond, Attempts: 1000})
	if err != nil {
		fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }() // the parent is gone
	go func() { fatal(http.Serve(l, endpoint)) }()
	fmt.Println("http://" + l.Addr().String())
	if err := p.Run(ctx); err != nil {
		fatal(err)
	}
}

func describe(d *webhook.Delivery) webhook.Subject {
	var e inboxEvent
	if err := json.Unmarshal(d.Body, &e); err != nil {
		fatal(err)
	}
	return webhook.Subject{Object: e.Object, Version: e.Version}
}

const effect = "INSERT INTO crashtest_effects (id, object, version) VALUES (?, ?, ?)"

// handleOnce has its effect in the transaction that settles the event.
func handleOnce(inbox *sqlstore.Inbox) webhook.Handler {
	return func(ctx context.Context, e *webhook.Event) error {
		return inbox.Commit(ctx, e, func(ctx context.Context, tx sqlstore.Tx) error {
			_, err := tx.ExecContext(ctx, effect, e.ID, e.Object, e.Version)
			return err
		})
	}
}

// handleNaively has it before, as a handler does whose effect is elsewhere, and
// takes its time after that.
func handleNaively(db *sql.DB) webhook.Handler {
	return func(ctx context.Context, e *webhook.Event) error {
		_, err := db.ExecContext(ctx, effect, e.ID, e.Object, e.Version)
		<-time.After(100 * time.Millisecond)
		return err
	}
}

// inboxGame is one execution.
type inboxGame struct {
	inboxConfig
	dsn     string
	address atomic.Value // of the receiver that is alive
	client  http.Client
	retries atomic.Int64
	kills   int
}

// playInbox delivers, kills and counts.
func playInbox(ctx context.Context, h *peers.Program, c inboxConfig) (inboxReport, error) {
	g := &inboxGame{inboxConfig: c, dsn: sqlstore.SQLiteDSN(filepath.Join(h.TempDir(), "inbox.db"))}
	g.client.Timeout = 15 * time.Second
	g.client.Transport = &http.Transport{MaxIdleConnsPerHost: inboxFlight}
	defer g.client.CloseIdleConnections()
	db, _, err := openStore(ctx, "sqlite", g.dsn)
	if err != nil {
		return inboxReport{}, err
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE crashtest_effects (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, object TEXT NOT NULL, version INTEGER NOT NULL)"); err != nil {
		return inboxReport{}, err
	}
	over, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	killed := make(chan error, 1)
	ready := make(chan struct{})
	wg.Go(func() { killed <- g.killer(over, ready) })
	select {
	case <-ready:
	case err := <-killed:
		return inboxReport{}, err
	}
	r := g.deliver(ctx)
	if err := g.settle(ctx, db, len(g.plan())); err != nil {
		return r, err
	}
	stop()
	if err := <-killed; err != nil {
		return r, err
	}
	r.Kills, r.Retries = g.kills, int(g.retries.Load())
	return r, g.countInbox(db, &r)
}

// killer keeps one receiver alive, and kills it at intervals.
func (g *inboxGame) killer(ctx context.Context, ready chan struct{}) error {
	for first := true; ; first = false {
		cmd, in, out, err := again("receiver", "DSN="+g.dsn, fmt.Sprint("NAIVE=", g.naive))
		if err != nil {
			return err
		}
		if !out.Scan() {
			return errors.New("crashtest: the receiver did not start")
		}
		g.address.Store(out.Text())
		if first {
			close(ready)
		}
		due := time.After(g.every)
		if g.most > 0 && g.kills >= g.most {
			due = nil
		}
		select {
		case <-ctx.Done():
		case <-due:
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		in.Close()
		if ctx.Err() != nil {
			return nil
		}
		g.kills++
	}
}

// plan is every event, the versions of an object in order.
func (g *inboxGame) plan() []inboxEvent {
	n := int(float64(g.rate) * g.span.Seconds() * (1 - g.duplicate))
	out := make([]inboxEvent, n)
	pad := hex.EncodeToString(make([]byte, 500))
	for i := range out {
		out[i] = inboxEvent{fmt.Sprintf("event-%d-%d", g.seed, i), fmt.Sprint("object-", i%inboxObjects), int64(i/inboxObjects + 1), pad}
	}
	return out
}

// deliver sends all, at the rate, in another order than they happened, and some
// of them several times.
func (g *inboxGame) deliver(ctx context.Context) inboxReport {
	rnd := rand.New(rand.NewPCG(g.seed, 1))
	events := g.plan()
	r := inboxReport{Events: len(events)}
	for i := range events { // most go no further than where the same object's next one was
		j := min(i+rnd.IntN(inboxObjects*2), len(events)-1)
		events[i], events[j] = events[j], events[i]
	}
	seats := make(chan struct{}, inboxFlight)
	var wg sync.WaitGroup
	began := time.Now()
	for next := 0; next < len(events); r.Deliveries++ {
		time.Sleep(time.Until(began.Add(time.Duration(r.Deliveries) * time.Second / time.Duration(g.rate))))
		e := events[next]
		if next > 0 && rnd.Float64() < g.duplicate {
			e = events[rnd.IntN(next)]
			r.Duplicates++
		} else {
			next++
		}
		seats <- struct{}{}
		wg.Go(func() {
			defer func() { <-seats }()
			for !g.send(ctx, e) {
				g.retries.Add(1)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	r.Rate = float64(int(float64(r.Deliveries)/time.Since(began).Seconds()*10)) / 10
	wg.Wait()
	return r
}

// send is one attempt, and reports whether it was acknowledged.
func (g *inboxGame) send(ctx context.Context, e inboxEvent) bool {
	body, err := json.Marshal(e)
	if err != nil {
		fatal(err)
	}
	m := hmac.New(sha256.New, []byte(inboxSecret))
	m.Write(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.address.Load().(string), bytes.NewReader(body))
	if err != nil {
		fatal(err)
	}
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(m.Sum(nil)))
	req.Header.Set("X-GitHub-Delivery", e.ID)
	resp, err := g.client.Do(req)
	if err != nil {
		return false // it is dead, or died
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}

// settle waits until nothing is left to be handled, while kills go on.
func (g *inboxGame) settle(ctx context.Context, db *sql.DB, want int) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		var open, all int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE state IN ('waiting', 'held')), count(*) FROM drawbridge_inbox").Scan(&open, &all); err != nil {
			return err
		}
		if open == 0 && all >= want {
			return nil
		}
	}
	return nil // what is left is counted as lost
}

// countInbox compares what was sent with what was handled.
func (g *inboxGame) countInbox(db *sql.DB, r *inboxReport) error {
	for _, index := range []string{"CREATE INDEX crashtest_id ON crashtest_effects (id)", "CREATE INDEX crashtest_object ON crashtest_effects (object, version, seq)"} {
		if _, err := db.Exec(index); err != nil { // only now: it would slow the handlers
			return err
		}
	}
	for _, e := range g.plan() {
		var state sql.NullString
		var effects int
		if err := db.QueryRow("SELECT (SELECT state FROM drawbridge_inbox WHERE tenant = ? AND source = 'provider' AND id = ?), (SELECT count(*) FROM crashtest_effects WHERE id = ?)", owner.Tenant, e.ID, e.ID).Scan(&state, &effects); err != nil {
			return err
		}
		switch {
		case effects > 1:
			r.ProcessedTwice++
		case effects == 1 && state.String == "done":
			r.Handled++
		case effects == 0 && state.String == "stale":
			r.Stale++
		default:
			r.Lost++
			fmt.Fprintf(os.Stderr, "lost: %s is %q with %d effects\n", e.ID, state.String, effects)
		}
	}
	err := db.QueryRow("SELECT count(*) FROM crashtest_effects a JOIN crashtest_effects b ON a.object = b.object AND a.seq < b.seq AND a.version > b.version").Scan(&r.OutOfOrder)
	if err != nil {
		return err
	}
	// the newest of an object is never stale
	var newest int
	err = db.QueryRow("SELECT count(*) FROM drawbridge_inbox i WHERE state = 'stale' AND NOT EXISTS (SELECT 1 FROM crashtest_effects e WHERE e.object = i.object AND e.version > i.version)").Scan(&newest)
	r.Lost += newest
	return err
}
