package connection

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Memory is a Store that forgets everything with the process, for tests. The
// zero Memory is ready.
type Memory struct {
	mu           sync.Mutex
	records      map[memoryKey]Record
	transactions map[memoryKey]Transaction
	holds        map[memoryKey]Hold
}

type memoryKey struct{ tenant, id string }

func (a memoryKey) compare(b memoryKey) int {
	return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.id, b.id))
}

func keyOf(r Record) memoryKey { return memoryKey{r.Owner.Tenant, r.ID} }

func put[V any](m *map[memoryKey]V, k memoryKey, v V) {
	if *m == nil {
		*m = map[memoryKey]V{}
	}
	(*m)[k] = v
}

// taken reports whether another record has the account.
func (m *Memory) taken(r Record) bool {
	for k, o := range m.records {
		if k != keyOf(r) && r.State != Disconnected && o.State != Disconnected &&
			o.Owner == r.Owner && o.Provider == r.Provider && o.Org == r.Org && o.Account == r.Account {
			return true
		}
	}
	return false
}

// Create implements [Records].
func (m *Memory) Create(_ context.Context, rec Record) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.records[keyOf(rec)]; ok {
		return Record{}, ErrExists
	}
	if m.taken(rec) {
		return Record{}, ErrAccountTaken
	}
	rec = rec.Clone()
	rec.Version = 1
	put(&m.records, keyOf(rec), rec)
	return rec.Clone(), nil
}

// Get implements [Records].
func (m *Memory) Get(_ context.Context, tenant, id string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[memoryKey{tenant, id}]
	if !ok {
		return Record{}, toolresult.NewError(toolresult.NotFound, "no such connection")
	}
	return r.Clone(), nil
}

// CompareAndSwap implements [Records].
func (m *Memory) CompareAndSwap(_ context.Context, rec Record) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.records[keyOf(rec)]; !ok || old.Version != rec.Version {
		return Record{}, ErrVersion
	}
	if m.taken(rec) {
		return Record{}, ErrAccountTaken
	}
	rec = rec.Clone()
	rec.Version++
	m.records[keyOf(rec)] = rec
	return rec.Clone(), nil
}

// List implements [Records].
func (m *Memory) List(_ context.Context, q *Query) ([]Record, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(m.records), memoryKey.compare)
	var out []Record
	for _, k := range keys {
		if r := m.records[k]; len(out) < q.Limit && k.compare(memoryKey{q.AfterTenant, q.AfterID}) > 0 && q.selects(r) {
			out = append(out, r.Clone())
		}
	}
	return out, nil
}

// SweepRecords implements [Records].
func (m *Memory) SweepRecords(_ context.Context, before time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.records)
	maps.DeleteFunc(m.records, func(_ memoryKey, r Record) bool {
		return r.State == Disconnected && r.Reason != ReasonLeak && r.Updated.Before(before)
	})
	return n - len(m.records), nil
}

// Check returns INVALID_INPUT for a query that selects by accident. Stores call
// it.
func (q *Query) Check() error {
	switch {
	case q == nil || q.Tenant == "" && !q.All:
		return toolresult.NewError(toolresult.InvalidInput, "a query for connections names a tenant, or says All")
	case q.Tenant != "" && q.All:
		return toolresult.NewError(toolresult.InvalidInput, "a query for connections names a tenant or says All, not both")
	case q.Owner != (authz.PrincipalKey{}) && q.Owner.Tenant != q.Tenant:
		return toolresult.NewError(toolresult.InvalidInput, "the owner of a query is of its tenant")
	case q.Limit < 1 || q.Limit > 1000:
		return toolresult.NewError(toolresult.InvalidInput, "the limit of a query is from 1 to 1000")
	}
	return nil
}

func (q *Query) selects(r Record) bool {
	return (q.All || r.Owner.Tenant == q.Tenant) &&
		(q.Owner == (authz.PrincipalKey{}) || r.Owner == q.Owner) &&
		(q.Provider == "" || r.Provider == q.Provider) &&
		(q.State == "" || r.State == q.State) && (!q.Live || r.State != Disconnected) &&
		(q.Due.IsZero() || !r.RetryAt.After(q.Due) && !r.Lease.Until.After(q.Due))
}

// AddTransaction implements [Transactions].
func (m *Memory) AddTransaction(_ context.Context, t Transaction) (Transaction, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := memoryKey{t.Owner.Tenant, t.ID}
	if _, ok := m.transactions[k]; ok {
		return Transaction{}, ErrExists
	}
	t = t.Clone()
	t.Version = 1
	put(&m.transactions, k, t)
	return t.Clone(), nil
}

// Transaction implements [Transactions].
func (m *Memory) Transaction(_ context.Context, tenant, id string) (Transaction, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.transactions[memoryKey{tenant, id}]
	if !ok {
		return Transaction{}, toolresult.NewError(toolresult.NotFound, "no such transaction")
	}
	return t.Clone(), nil
}

// SwapTransaction implements [Transactions].
func (m *Memory) SwapTransaction(_ context.Context, t Transaction) (Transaction, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := memoryKey{t.Owner.Tenant, t.ID}
	if old, ok := m.transactions[k]; !ok || old.Version != t.Version {
		return Transaction{}, ErrVersion
	}
	t = t.Clone()
	t.Version++
	m.transactions[k] = t
	return t.Clone(), nil
}

// SweepTransactions implements [Transactions].
func (m *Memory) SweepTransactions(_ context.Context, before time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.transactions)
	maps.DeleteFunc(m.transactions, func(_ memoryKey, t Transaction) bool { return t.Expires.Before(before) })
	return n - len(m.transactions), nil
}

// AddHold implements [Holds].
func (m *Memory) AddHold(_ context.Context, h Hold) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := memoryKey{h.Tenant, h.ID}
	if _, ok := m.holds[k]; ok {
		return ErrExists
	}
	put(&m.holds, k, h)
	return nil
}

// Holds implements [Holds].
func (m *Memory) Holds(_ context.Context, tenant string) ([]Hold, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Hold
	for k, h := range m.holds {
		if k.tenant == tenant {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b Hold) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// RemoveHold implements [Holds].
func (m *Memory) RemoveHold(_ context.Context, tenant, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.holds, memoryKey{tenant, id})
	return nil
}
