package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/examples/gateway/internal/world"
)

// person is one caller, with two agents: one reads and one changes.
type person struct {
	g        *game
	n        int
	name     string
	token    string
	stranger *person // somebody of the other tenant

	mu      sync.Mutex
	tickets []string // names of the person's tickets
	cursor  string   // a cursor of the person's own listing
	op      string   // an operation of the person's own
}

func newPerson(g *game, n int, token string) *person {
	return &person{g: g, n: n, name: name(n), token: token}
}

func (p *person) agent() *agent { return &agent{url: p.g.public, token: p.token, http: newHTTP()} }

func (p *person) dice(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(p.g.seed, uint64(p.n)<<8|stream))
}

// subject is the text of a ticket, which nobody else may see.
func (p *person) subject(what string) string { return world.Mark(p.name) + " " + what }

var marks = regexp.MustCompile(`mark-of-(person-\d+)\.`)

// call calls a tool, and returns nil if there was no answer.
func (p *person) call(ctx context.Context, a *agent, revision, tool, key string, args any) *envelope {
	params := map[string]any{"name": tool, "arguments": args}
	if key != "" {
		params["_meta"] = map[string]any{"drawbridge.dev/operation": key}
	}
	began := time.Now()
	m, text, status := a.ask(ctx, revision, "tools/call", tool, params)
	if m = p.judge(ctx, m, text, status); m == nil {
		return nil
	}
	e := m.Result.StructuredContent
	if e == nil {
		p.g.books.blame(&p.g.books.wrong, "%s, %s: a result without an envelope: %s", p.name, tool, text)
		return nil
	}
	p.g.books.answered(tool, time.Since(began))
	if e.code() == "CONNECTION_REQUIRED" {
		switch states, err := p.g.desk.reconnect(ctx, p.name, tenant(p.n), began); {
		case err != nil && ctx.Err() == nil:
			p.g.books.blame(&p.g.books.wrong, "%s could not consent again: %v", p.name, err)
		case err == nil && states != "" && p.g.world.Expired(p.name, began):
			p.g.books.late.Add(1) // the access token ended on its way; reads are repeated with the next one, changes are not
		case err == nil && states != "":
			p.g.books.blame(&p.g.books.wrong, "%s is told to connect an account, which is %s: %s", p.name, states, e.Error.Message)
		}
	}
	return e
}

// judge looks for somebody else in an answer, and returns it if it is a result.
func (p *person) judge(ctx context.Context, m *message, text string, status int) *message {
	b := &p.g.books
	for _, found := range marks.FindAllStringSubmatch(text, -1) {
		if found[1] != p.name {
			b.blame(&b.crossed, "%s got something of %s: %.300s", p.name, found[1], text)
			break
		}
	}
	switch {
	case status == 0 || status == 502 || status == 503:
		if ctx.Err() == nil {
			b.unavailable.Add(1)
		}
		return nil
	case m == nil || status != 200 || m.Result == nil:
		b.blame(&b.wrong, "%s: status %d, %.300s", p.name, status, text)
		return nil
	}
	return m
}

// pause waits a little, as a client does that is not answered.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads until ctx ends.
func (p *person) read(ctx context.Context) {
	a, dice := p.agent(), p.dice(1)
	defer a.http.CloseIdleConnections()
	for ctx.Err() == nil {
		revision := []string{modern, modern, older}[dice.IntN(3)]
		switch dice.IntN(10) {
		case 0:
			p.list(ctx, a, revision)
		case 1, 2, 3:
			p.pages(ctx, a, revision)
		case 4:
			p.ticket(ctx, a, revision, dice)
		case 5:
			p.expect(ctx, a, revision, "search_runbooks", map[string]any{"namespace": "prod", "service": "order-service"}, "partial")
		case 6, 7:
			p.expect(ctx, a, revision, "prometheus_query_range", map[string]any{"namespace": "prod", "service": "order-service", "metric": "requests",
				"start": "2026-04-29T02:38:00Z", "end": "2026-04-29T02:40:00Z", "step_seconds": 60}, "success")
		case 8:
			p.foreignCursor(ctx, a, revision)
		case 9:
			p.foreignOperation(ctx, a, revision)
		}
		pause(ctx, time.Duration(dice.IntN(60))*time.Millisecond)
	}
}

// excuses are answers of a read that say honestly that it could not be made:
// a killed replica held the right to renew the account, or had lost its tokens.
var excuses = []string{"PROVIDER_UNAVAILABLE", "CONNECTION_REQUIRED", "TIMEOUT", "AUTHENTICATION_REQUIRED"}

// expect calls a tool that reads, and returns what it said if it was good.
func (p *person) expect(ctx context.Context, a *agent, revision, tool string, args map[string]any, statuses ...string) *envelope {
	return p.good(p.call(ctx, a, revision, tool, "", args), tool, statuses...)
}

// good returns what was said if it has one of the statuses.
func (p *person) good(e *envelope, tool string, statuses ...string) *envelope {
	switch {
	case e == nil:
		return nil
	case slices.Contains(excuses, e.code()):
		p.g.books.excuse(e.code())
		return nil
	case !slices.Contains(statuses, e.Status):
		p.g.books.blame(&p.g.books.wrong, "%s, %s: %s %s", p.name, tool, e.Status, e.code())
		return nil
	}
	p.g.books.reads.Add(1)
	return e
}

var visible = "create_incident_ticket get_runbook get_ticket operation_status prometheus_query_range search_runbooks search_tickets"

func (p *person) list(ctx context.Context, a *agent, revision string) {
	m, text, status := a.ask(ctx, revision, "tools/list", "", map[string]any{})
	if m = p.judge(ctx, m, text, status); m == nil {
		return
	}
	names := []string{}
	for _, t := range m.Result.Tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != visible {
		p.g.books.blame(&p.g.books.wrong, "%s sees %q", p.name, got)
		return
	}
	p.g.books.reads.Add(1)
}

// row is a ticket in a listing.
type row struct {
	Name    string `json:"ticket"`
	Subject string
}

// pages lists the person's tickets, whose cursors go from replica to replica.
func (p *person) pages(ctx context.Context, a *agent, revision string) {
	args := map[string]any{"project": "inc", "status": "any", "page_size": 2}
	mixed, consents := p.g.mixed.Load(), p.g.desk.consents(p.name)
	for range 3 {
		e := p.call(ctx, a, revision, "search_tickets", "", args)
		if e != nil && e.code() == "CURSOR_INVALID" && (mixed || p.g.mixed.Load() || consents != p.g.desk.consents(p.name)) {
			p.g.books.excuse(e.code()) // a cursor is of one release, and of one consent: the listing starts again
			return
		}
		if e = p.good(e, "search_tickets", "success", "partial"); e == nil {
			return
		}
		var rows []row
		if err := json.Unmarshal(e.Data, &rows); err != nil {
			p.g.books.blame(&p.g.books.wrong, "%s: a page that is none: %v", p.name, err)
			return
		}
		for _, r := range rows {
			if !strings.HasPrefix(r.Subject, world.Mark(p.name)) {
				p.g.books.blame(&p.g.books.crossed, "%s lists a ticket %q", p.name, r.Subject)
			}
		}
		if e.NextCursor == "" {
			return
		}
		p.mu.Lock()
		p.cursor = e.NextCursor
		p.mu.Unlock()
		args["cursor"] = e.NextCursor
	}
}

func (p *person) ticket(ctx context.Context, a *agent, revision string, dice *rand.Rand) {
	p.mu.Lock()
	var one string
	if len(p.tickets) > 0 {
		one = p.tickets[dice.IntN(len(p.tickets))]
	}
	p.mu.Unlock()
	if one == "" {
		return
	}
	e := p.expect(ctx, a, revision, "get_ticket", map[string]any{"ticket": one}, "success")
	if e == nil {
		return
	}
	var r row
	if json.Unmarshal(e.Data, &r) != nil || r.Name != one || !strings.HasPrefix(r.Subject, world.Mark(p.name)) {
		p.g.books.blame(&p.g.books.crossed, "%s asked for %s and got %q", p.name, one, r.Subject)
	}
}

// foreignCursor goes on where somebody else was.
func (p *person) foreignCursor(ctx context.Context, a *agent, revision string) {
	p.stranger.mu.Lock()
	c := p.stranger.cursor
	p.stranger.mu.Unlock()
	if c == "" {
		return
	}
	p.refused(ctx, a, revision, "search_tickets", map[string]any{"project": "inc", "status": "any", "page_size": 2, "cursor": c}, "CURSOR_INVALID")
}

// foreignOperation looks up what somebody else has done.
func (p *person) foreignOperation(ctx context.Context, a *agent, revision string) {
	p.stranger.mu.Lock()
	op := p.stranger.op
	p.stranger.mu.Unlock()
	if op == "" {
		return
	}
	p.refused(ctx, a, revision, "operation_status", map[string]any{"operation_id": op}, "NOT_FOUND")
}

// trespass tries both once.
func (p *person) trespass(ctx context.Context) {
	a := p.agent()
	defer a.http.CloseIdleConnections()
	p.foreignCursor(ctx, a, modern)
	p.foreignOperation(ctx, a, modern)
}

func (p *person) refused(ctx context.Context, a *agent, revision, tool string, args map[string]any, code string) {
	e := p.call(ctx, a, revision, tool, "", args)
	switch {
	case e == nil:
	case e.code() == code:
		p.g.books.refused.Add(1)
	case slices.Contains(excuses, e.code()):
		p.g.books.excuse(e.code())
	default:
		p.g.books.blame(&p.g.books.crossed, "%s used something of %s in %s: %s %s", p.name, p.stranger.name, tool, e.Status, e.code())
	}
}

func (p *person) key(i int) string { return fmt.Sprintf("load-%x-%s-%d", p.g.seed, p.name, i) }
