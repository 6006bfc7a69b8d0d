package webhook

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Memory is an Inbox that forgets everything with the process: for tests. The
// zero Memory is ready.
type Memory struct {
	mu      sync.Mutex
	events  map[name]*Event
	names   map[name]bool
	objects map[name]object
}

var _ Inbox = (*Memory)(nil)

// name is one of an event's, or an object's. kind keeps them apart.
type name struct{ tenant, source, kind, id string }

type object struct {
	Last
	at time.Time
}

func (e *Event) names() []name {
	out := []name{{e.Tenant, e.Source, "id", e.ID}}
	if e.Digest != "" {
		out = append(out, name{e.Tenant, e.Source, "digest", e.Digest})
	}
	if e.Key != "" {
		out = append(out, name{e.Tenant, e.Source, "key", e.Key})
	}
	return out
}

func (e *Event) object() name { return name{e.Tenant, e.Source, "object", e.Object} }

// Put implements [Inbox].
func (m *Memory) Put(_ context.Context, e Event) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := e.names()
	if slices.ContainsFunc(all, func(n name) bool { return m.names[n] }) {
		return false, nil
	}
	if m.events == nil {
		m.events, m.names, m.objects = map[name]*Event{}, map[name]bool{}, map[name]object{}
	}
	for _, n := range all {
		m.names[n] = true
	}
	e = e.Clone()
	e.Begin()
	m.events[all[0]] = &e
	return true, nil
}

// Begin makes an event as it is stored first. It is for those who implement an
// Inbox.
func (e *Event) Begin() {
	e.State, e.Due, e.Attempts, e.Claim, e.Code, e.SettledAt, e.Last = Waiting, e.Received, 0, 0, "", time.Time{}, Last{}
}

// before orders the events of an object.
func before(a, b *Event) int {
	return cmp.Or(cmp.Compare(a.Version, b.Version), a.Received.Compare(b.Received), cmp.Compare(a.ID, b.ID))
}

// blocked reports whether another event of the same object comes first.
func (m *Memory) blocked(e *Event) bool {
	if e.Object == "" {
		return false
	}
	for _, o := range m.events {
		if o == e || o.object() != e.object() || o.State.Settled() {
			continue
		}
		if o.State == Held || before(o, e) < 0 { // Claim has taken back what was held too long
			return true
		}
	}
	return false
}

// Claim implements [Inbox].
func (m *Memory) Claim(_ context.Context, at, until time.Time, limit int) (out []Event, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*Event
	for _, e := range m.events {
		if e.State == Held && !e.Due.After(at) {
			e.State = Waiting
		}
		if !e.State.Settled() && !e.Due.After(at) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *Event) int { return cmp.Or(a.Received.Compare(b.Received), cmp.Compare(a.ID, b.ID)) })
	for _, e := range list {
		if len(out) >= limit {
			break
		}
		if m.blocked(e) {
			continue
		}
		e.State, e.Due = Held, until
		e.Claim++
		e.Attempts++
		c := e.Clone()
		c.Last = m.objects[e.object()].Last
		out = append(out, c)
	}
	return out, nil
}

// Settle implements [Inbox].
func (m *Memory) Settle(_ context.Context, e Event, o Outcome) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	there := m.events[e.names()[0]]
	switch {
	case there == nil || there.Claim != e.Claim || e.Claim == 0:
		return ErrClaim
	case there.State == Done && o.State == Done:
		return nil
	case there.State != Held:
		return ErrClaim
	}
	there.State, there.Due, there.Code = o.State, o.Due, o.Code
	if o.Unbegun {
		there.Attempts--
	}
	if o.State.Settled() {
		there.SettledAt = o.At
	}
	if o.State == Done || o.State == Stale {
		there.Body = nil
	}
	if o.State == Done && e.Object != "" {
		was := m.objects[e.object()]
		m.objects[e.object()] = object{Last{max(was.Version, e.Version), e.Deleted}, o.At}
	}
	return nil
}

// Event implements [Inbox].
func (m *Memory) Event(_ context.Context, tenant, source, id string) (Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.events[name{tenant, source, "id", id}]
	if e == nil {
		return Event{}, NoEvent()
	}
	return e.Clone(), nil
}

// NoEvent is what an Inbox returns for an event that it does not have.
func NoEvent() error { return toolresult.NewError(toolresult.NotFound, "there is no such event") }

// Revive implements [Inbox].
func (m *Memory) Revive(_ context.Context, tenant, source, id string, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.events[name{tenant, source, "id", id}]
	if e == nil || e.State != Failed {
		return NoEvent()
	}
	e.State, e.Due, e.Attempts, e.Code, e.SettledAt = Waiting, at, 0, "", time.Time{}
	return nil
}

// Forget implements [Inbox].
func (m *Memory) Forget(_ context.Context, before time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(func(e *Event) bool { return e.State.Settled() && e.Received.Before(before) })
	for n, o := range m.objects {
		if o.at.Before(before) {
			delete(m.objects, n)
		}
	}
	return nil
}

// Purge implements [Inbox].
func (m *Memory) Purge(_ context.Context, tenant, connection string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := func(e *Event) bool { return e.Tenant == tenant && e.Connection == connection }
	for _, e := range m.events {
		if of(e) {
			for n := range m.objects {
				if n.tenant == tenant && n.source == e.Source {
					delete(m.objects, n)
				}
			}
		}
	}
	m.remove(of)
	return nil
}

func (m *Memory) remove(which func(e *Event) bool) {
	for n, e := range m.events {
		if which(e) {
			for _, other := range e.names() {
				delete(m.names, other)
			}
			delete(m.events, n)
		}
	}
}
