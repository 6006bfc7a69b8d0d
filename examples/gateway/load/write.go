package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// change is one intent of a person, and what the person was told in the end.
type change struct {
	person *person
	key    string
	args   map[string]any

	asked     bool   // at least one call left
	attempts  int    // calls with the key
	vanished  int    // of these, without an answer
	operation string // its id, once somebody said it
	told      string // "applied", "not_applied", "unknown", or "" for no answer at all
	ticket    string
	last      string // what the last answer said, for who looks into it
}

// write makes one change after the other until ctx ends. What is not settled then
// is left to the audit.
func (p *person) write(ctx context.Context) {
	a, dice := p.agent(), p.dice(2)
	defer a.http.CloseIdleConnections()
	for i := 0; ctx.Err() == nil; i++ {
		c := &change{person: p, key: p.key(i), args: map[string]any{"project": "inc", "subject": p.subject(p.key(i))}}
		p.g.books.open(c)
		for ctx.Err() == nil && !c.settled() {
			c.hasty(ctx, a, dice)
			if !c.settled() {
				pause(ctx, time.Duration(50+dice.IntN(200))*time.Millisecond)
			}
		}
		if c.told == "applied" && dice.IntN(8) == 0 && ctx.Err() == nil {
			c.repeat(ctx, a)
		}
		pause(ctx, time.Duration(dice.IntN(150))*time.Millisecond)
	}
}

// hasty is a step of somebody who does not always wait for the answer: what was
// asked goes on, or not, and the next step asks another replica about it.
func (c *change) hasty(ctx context.Context, a *agent, dice *rand.Rand) {
	if dice.IntN(10) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+dice.IntN(150))*time.Millisecond)
		defer cancel()
		defer func() {
			if ctx.Err() != nil {
				c.person.g.books.hasty.Add(1)
			}
		}()
	}
	c.step(ctx, a)
}

func (c *change) settled() bool { return c.told == "applied" || c.told == "not_applied" }

// step repeats the call under the same key, or looks the outcome up, whichever is
// due.
func (c *change) step(ctx context.Context, a *agent) {
	var e *envelope
	looked := c.told == "unknown" && c.operation != ""
	if looked {
		e = c.person.call(ctx, a, modern, "operation_status", "", map[string]any{"operation_id": c.operation})
	} else {
		c.asked = true
		c.attempts++
		if e = c.person.call(ctx, a, modern, "create_incident_ticket", c.key, c.args); e == nil {
			c.vanished++
		}
	}
	if e == nil {
		return
	}
	c.last = fmt.Sprintf("%s %s %s, looked up: %v", e.Status, e.code(), e.Effect.Disposition, looked)
	if id := e.Effect.OperationID; id != "" {
		c.operation = id
	}
	c.hear(e, looked)
}

// hear takes in what an answer says about the change. That it did not happen is
// final: whoever still wants it takes another key.
func (c *change) hear(e *envelope, looked bool) {
	b := &c.person.g.books
	switch e.Effect.Disposition {
	case "applied":
		c.told = "applied"
		var r row
		if json.Unmarshal(e.Data, &r) == nil && r.Name != "" {
			c.ticket = r.Name
		}
		c.person.mu.Lock()
		if c.ticket != "" {
			c.person.tickets = append(c.person.tickets, c.ticket)
		}
		c.person.op = c.operation
		c.person.mu.Unlock()
	case "unknown", "pending":
		c.told = "unknown"
	case "not_applied":
		b.excuse(e.code())
		c.told = "not_applied"
	case "none":
		if slices.Contains(excuses, e.code()) { // it could not be found out now
			b.excuse(e.code())
			return
		}
		fallthrough
	default: // a look-up of what is not there, or an answer about nothing
		b.blame(&b.wrong, "%s, %s: %s with the effect %q, looked up: %v: %s", c.person.name, c.key, e.code(), e.Effect.Disposition, looked, e.message())
		c.told, c.operation = "", ""
	}
}

// repeat makes the same call once more: it must be the same ticket.
func (c *change) repeat(ctx context.Context, a *agent) {
	c.attempts++
	e := c.person.call(ctx, a, modern, "create_incident_ticket", c.key, c.args)
	if e == nil {
		return
	}
	var r row
	b := &c.person.g.books
	if e.Effect.Disposition != "applied" || c.ticket != "" && (json.Unmarshal(e.Data, &r) != nil || r.Name != c.ticket) {
		b.blame(&b.wrong, "%s, %s was %s and is now %s %s (%s)", c.person.name, c.key, c.ticket, e.Effect.Disposition, r.Name, e.code())
		return
	}
	b.repeated.Add(1)
}
