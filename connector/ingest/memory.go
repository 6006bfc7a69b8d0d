package ingest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// Memory is an Index that forgets everything with the process: for tests. The
// zero Memory is ready.
type Memory struct {
	mu    sync.Mutex
	feeds map[Feed]*memoryFeed
}

var _ Index = (*Memory)(nil)

type memoryFeed struct {
	cp      Checkpoint
	records map[authz.ResourceID]Record
}

// Checkpoint implements [Index].
func (m *Memory) Checkpoint(_ context.Context, f Feed) (Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.feeds[f] == nil {
		return Checkpoint{}, nil
	}
	return m.feeds[f].cp, nil
}

// Apply implements [Index].
func (m *Memory) Apply(_ context.Context, f Feed, b *Batch) ([]authz.ResourceID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.feeds[f]
	if was == nil {
		was = &memoryFeed{}
	}
	if b.Next != nil && b.Next.Rev != was.cp.Rev {
		return nil, ErrVersion
	}
	next := &memoryFeed{was.cp, maps.Clone(was.records)}
	if next.records == nil {
		next.records = map[authz.ResourceID]Record{}
	}
	changed := next.merge(b)
	if b.Absent {
		live, absent := 0, []Record(nil)
		for _, r := range next.records {
			if r.State == Live {
				live++
			}
			if a, ok := r.Absentee(b.Walk, b.At); ok {
				absent = append(absent, a)
			}
		}
		if b.TooMany(len(absent), live) {
			return nil, ErrTooManyAbsent
		}
		for _, a := range absent {
			next.records[a.Object] = a
			changed = append(changed, a.Object)
		}
	}
	if b.Next != nil {
		next.cp = *b.Next
		next.cp.Rev++
	}
	if m.feeds == nil {
		m.feeds = map[Feed]*memoryFeed{}
	}
	m.feeds[f] = next
	return changed, nil
}

func (f *memoryFeed) merge(b *Batch) (changed []authz.ResourceID) {
	for i := range b.Items {
		it := &b.Items[i]
		r, ok := f.records[it.Object].Merge(it, b.At, b.Walk)
		f.records[it.Object] = r
		if ok && !slices.Contains(changed, it.Object) {
			changed = append(changed, it.Object)
		}
	}
	return changed
}

// TooMany reports whether so many absent ones of so many live ones are more than
// the batch allows. It is for those who implement an Index.
func (b *Batch) TooMany(absent, live int) bool {
	return absent > 10 && float64(absent) > b.MaxAbsent*float64(live)
}

// Find implements [Index].
func (m *Memory) Find(_ context.Context, q *Query) (out []Record, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.feeds[q.Feed]
	if f == nil {
		return nil, nil
	}
	for _, r := range f.records {
		words := Words(r.Title + "\n" + r.Text)
		if r.State != Live || !slices.ContainsFunc(q.Readers, func(s string) bool { return slices.Contains(r.Readers, s) }) ||
			slices.ContainsFunc(q.Words, func(w string) bool { return !slices.Contains(words, w) }) {
			continue
		}
		out = append(out, r.Clone())
	}
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(b.Applied.Compare(a.Applied), cmp.Compare(a.Object.Type, b.Object.Type), cmp.Compare(a.Object.ID, b.Object.ID))
	})
	out = out[min(max(q.Offset, 0), len(out)):]
	return out[:min(max(q.Limit, 0), len(out))], nil
}

// Purge implements [Index].
func (m *Memory) Purge(_ context.Context, tenant, connection string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.feeds, func(f Feed, _ *memoryFeed) bool { return f.Tenant == tenant && f.Connection == connection })
	return nil
}
