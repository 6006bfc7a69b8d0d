package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/world"
)

// books are what clients were told.
type books struct {
	reads, refused, repeated, unavailable, hasty, late atomic.Int64
	crossed, wrong                                     atomic.Int64

	mu      sync.Mutex
	changes []*change
	times   map[string][]time.Duration // by tool
	excuses map[string]int             // by code
	first   string
}

func (b *books) open(c *change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes = append(b.changes, c)
}

func (b *books) blame(n *atomic.Int64, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if n.Add(1) <= 5 {
		complain("%s", text)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first == "" {
		b.first = text
	}
}

func (b *books) excuse(code string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.excuses == nil {
		b.excuses = map[string]int{}
	}
	b.excuses[code]++
}

func (b *books) answered(tool string, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.times == nil {
		b.times = map[string][]time.Duration{}
	}
	b.times[tool] = append(b.times[tool], took)
}

// audit ends the replicas, settles what is open, and compares.
func (g *game) audit(ctx context.Context, r *report, dir string) error {
	if err := g.settle(ctx); err != nil {
		return err
	}
	if err := g.fleet.end(ctx); err != nil {
		return err
	}
	g.changes(r)
	g.refreshes(r)
	g.figures(r)
	var err error
	r.Leaked, err = g.leaks(dir)
	return err
}

// settle looks up what is unknown, and repeats calls that were not answered, until
// all is known or the time in which it must become known is over. A replica that
// was killed holds its operations for a while.
func (g *game) settle(ctx context.Context) error {
	deadline := time.Now().Add(writeTimeout + settle + 2*time.Minute)
	for time.Now().Before(deadline) {
		open := 0
		for _, c := range g.books.changes {
			if c.settled() || !c.asked {
				continue
			}
			a := c.person.agent()
			c.step(ctx, a)
			a.http.CloseIdleConnections()
			if !c.settled() {
				open++
			}
		}
		if open == 0 {
			return nil
		}
		if !pause(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil // the figures say what is left
}

// changes compares what was told with what was done.
func (g *game) changes(r *report) {
	applied := g.world.Applied()
	for _, c := range g.books.changes {
		at := world.Change{Account: c.person.name, Key: c.key}
		done := applied[at]
		delete(applied, at)
		if !c.asked {
			continue
		}
		r.Changes++
		if c.vanished > 0 {
			r.Vanished++
		}
		r.Applied += min(done, 1)
		r.Doubled += max(0, done-1)
		switch {
		case c.told == "applied" && done == 0:
			r.Lost++
			complain("lost: %s was told that %s was done", c.person.name, c.key)
		case c.told == "not_applied" && done > 0:
			r.Misreported++
			complain("misreported: %s was told that %s was not done", c.person.name, c.key)
		case !c.settled():
			r.Unresolved++
			complain("unresolved: %s of %s is %q after %d calls, done %d; the last answer: %s", c.key, c.person.name, c.told, c.attempts, done, c.last)
		}
		if done > 1 {
			complain("doubled: %s of %s was done %d times", c.key, c.person.name, done)
		}
	}
	r.Phantom = len(applied) // also what was done with another account
}

// slack is how long after the provider's answer a replica can die so that it has
// not stored it.
const slack = 2 * time.Second

// refreshes holds the provider's token endpoint against the life of its tokens.
func (g *game) refreshes(r *report) {
	last := map[string]world.Refresh{} // by account
	for _, one := range g.world.Refreshes() {
		r.Refreshes++
		switch was, again := last[one.Account]; {
		case one.Unknown:
			r.Repeated++
		case one.Spent && again && g.killedIn(was):
			r.Retried++ // the one late retry after a kill
		case one.Spent:
			r.Repeated++
			complain("the token of %s was sent twice, and nobody was killed meanwhile", one.Account)
		case one.Due:
			r.Expiries++
		default:
			r.Early++
		}
		last[one.Account] = one
	}
	for who, times := range g.desk.again {
		r.Consents += len(times)
		for _, at := range times {
			if !slices.ContainsFunc(g.fleet.kills, func(k time.Time) bool { return k.Before(at) }) {
				r.Repeated++
				complain("%s had to consent again, and nobody had been killed", who)
			}
		}
	}
}

func (g *game) killedIn(one world.Refresh) bool {
	return slices.ContainsFunc(g.fleet.kills, func(k time.Time) bool {
		return k.After(one.Began.Add(-slack)) && k.Before(one.Ended.Add(slack))
	})
}

func (g *game) figures(r *report) {
	b := &g.books
	r.Reads, r.Refused, r.Replays, r.Unavailable = b.reads.Load(), b.refused.Load(), b.repeated.Load(), b.unavailable.Load()
	r.CrossPrincipal, r.Wrong, r.First = b.crossed.Load(), b.wrong.Load(), b.first
	r.Excused, r.Hasty = b.excuses, b.hasty.Load()
	r.Late = b.late.Load()
	r.Killed, r.Unclean = len(g.fleet.kills), g.fleet.unfit
	r.Releases = map[string]int64{}
	for _, p := range g.fleet.all {
		if p.backend != nil {
			r.Releases[p.release] += p.backend.Served()
			r.Replicas++
		}
	}
	r.P50, r.P99 = map[string]float64{}, map[string]float64{}
	for _, tool := range slices.Sorted(maps.Keys(b.times)) {
		t := b.times[tool]
		slices.Sort(t)
		at := func(n int) float64 { return float64(t[len(t)*n/100].Round(100*time.Microsecond).Microseconds()) / 1000 }
		r.P50[tool], r.P99[tool] = at(50), at(99)
	}
}

// leaks looks for tokens, people and contents in everything that operators see.
// The audit log names people, as it must, and nothing else of these.
func (g *game) leaks(dir string) (int, error) {
	secrets := g.world.Secrets()
	for _, p := range g.people {
		secrets = append(secrets, p.token)
	}
	logs, err1 := filepath.Glob(filepath.Join(dir, "log-*"))
	traces, err2 := filepath.Glob(filepath.Join(dir, "traces-*"))
	audits, err3 := filepath.Glob(filepath.Join(dir, "audit-*"))
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, err
	}
	if len(logs) == 0 || len(traces) == 0 || len(audits) == 0 {
		return 0, errors.New("a log, traces or an audit is missing")
	}
	n := 0
	look := func(files []string, words ...string) error {
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for _, word := range words {
				if strings.Contains(string(text), word) {
					n++
					complain("%s holds %.20q", filepath.Base(file), word)
				}
			}
		}
		return nil
	}
	err := errors.Join(look(audits, append(secrets, "mark-of-")...), look(logs, append(secrets, "mark-of-", "person-")...), look(traces, append(secrets, "mark-of-", "person")...))
	return n, err
}
