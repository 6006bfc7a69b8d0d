// Package generation is what the caches of several processes share: a number for
// each thing that entries depend on, which grows when the thing changes. An entry
// remembers the numbers, and is good while they are the same.
//
// It is a package of its own so that a store of them needs no cache, and no
// connector. It holds no entries.
package generation

import (
	"context"
	"sync"
	"time"
)

// Mark names something that entries depend on: a digest, so that stores hold no
// names. It is comparable.
type Mark string

// State is the state of a mark. The zero State is that of a mark that never
// advanced. It is comparable.
type State struct {
	N    int64
	Open time.Time // until when a write may be under way; zero: none is
}

// Store is safe for concurrent use by any number of processes.
type Store interface {
	// Current returns the states of marks, in their order. What an Advance that
	// has returned anywhere did must be seen.
	Current(ctx context.Context, marks []Mark) ([]State, error)

	// Advance raises the number of each mark, to one that the mark never had,
	// and sets Open. It is durable, and seen by all, when it returns nil.
	Advance(ctx context.Context, marks []Mark, open time.Time) error
}

// Memory is a Store for tests, and for a program of one process. The zero Memory
// is ready.
type Memory struct {
	mu  sync.Mutex
	all map[Mark]State
}

var _ Store = (*Memory)(nil)

// Current implements [Store].
func (m *Memory) Current(_ context.Context, marks []Mark) ([]State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]State, len(marks))
	for i, k := range marks {
		out[i] = m.all[k]
	}
	return out, nil
}

// Advance implements [Store].
func (m *Memory) Advance(_ context.Context, marks []Mark, open time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[Mark]State{}
	}
	for _, k := range marks {
		m.all[k] = State{m.all[k].N + 1, open}
	}
	return nil
}
