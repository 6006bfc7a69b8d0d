package operationtest_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/operation/operationtest"
)

// wrong are stores with one mistake each, and a word of the clause that finds
// it.
var wrong = map[string]struct {
	store func() operation.Store
	says  string
}{
	"forgets nanoseconds":                  {func() operation.Store { return &coarse{} }, "every field comes back"},
	"forgets the targets":                  {func() operation.Store { return &forgetful{} }, "every field comes back"},
	"says ErrExists without the record":    {func() operation.Store { return &silent{} }, "the record that is in the way"},
	"takes no notice of the version":       {func() operation.Store { return &careless{} }, "changes nothing"},
	"finds what is held":                   {func() operation.Store { return &greedy{} }, "held by nobody"},
	"finds the newest first":               {func() operation.Store { return &backward{} }, "oldest first"},
	"mixes the tenants":                    {func() operation.Store { return &mixed{} }, "tenants never meet"},
	"frees an approval when it settles":    {func() operation.Store { return &lenient{} }, "stays used"},
	"shares memory":                        {func() operation.Store { return &shared{recs: map[string]operation.Record{}} }, "copied in and out"},
	"reads, and then writes":               {func() operation.Store { return &racy{} }, "exactly one wins"},
	"lets an open intent have a new one":   {func() operation.Store { return &blindIntent{} }, "among the open ones"},
	"has another handle that sees nothing": {nil, "there for every handle"},
}

const chosen = "OPERATIONTEST_WRONG"

// TestWrongStore runs the suite over the store that the environment names. Its
// parent wants it to fail.
func TestWrongStore(t *testing.T) {
	name := os.Getenv(chosen)
	if name == "" {
		return // run by TestSuiteFindsMistakes
	}
	var s operation.Store
	if wrong[name].store != nil {
		s = wrong[name].store()
	}
	operationtest.Run(t, func(testing.TB) operation.Store {
		if s == nil {
			return &operation.Memory{}
		}
		return s
	}, nil)
}

func TestSuiteFindsMistakes(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for name, w := range wrong {
		cmd := exec.Command(self, "-test.run=^TestWrongStore$", "-test.v", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
		cmd.Env = append(os.Environ(), chosen+"="+name)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, name)
		require.Regexp(t, "--- FAIL: TestWrongStore/[^\n]*"+underscored(w.says), string(out), name)
	}
}

func underscored(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == ' ' {
			b[i] = '_'
		}
	}
	return string(b)
}

type coarse struct{ operation.Memory }

func (c *coarse) Get(ctx context.Context, tenant, id string) (operation.Record, error) {
	r, err := c.Memory.Get(ctx, tenant, id)
	r.PreparedAt = r.PreparedAt.Truncate(time.Microsecond)
	return r, err
}

type forgetful struct{ operation.Memory }

func (f *forgetful) Create(ctx context.Context, r operation.Record) (operation.Record, error) {
	r.Targets = nil
	return f.Memory.Create(ctx, r)
}

type silent struct{ operation.Memory }

func (s *silent) Create(ctx context.Context, r operation.Record) (operation.Record, error) {
	got, err := s.Memory.Create(ctx, r)
	if err != nil {
		got = operation.Record{}
	}
	return got, err
}

type careless struct{ operation.Memory }

func (c *careless) CompareAndSwap(ctx context.Context, r operation.Record) (operation.Record, error) {
	if now, err := c.Get(ctx, r.Binding.Requester.Tenant, r.ID); err == nil {
		r.Rev = now.Rev
	}
	return c.Memory.CompareAndSwap(ctx, r)
}

type greedy struct{ operation.Memory }

func (g *greedy) Unsettled(ctx context.Context, at time.Time, n int) ([]operation.Record, error) {
	return g.Memory.Unsettled(ctx, at.Add(time.Second), n)
}

type backward struct{ operation.Memory }

func (b *backward) Unsettled(ctx context.Context, at time.Time, n int) ([]operation.Record, error) {
	out, err := b.Memory.Unsettled(ctx, at, 1000)
	slices.Reverse(out)
	return out[:min(n, len(out))], err
}

type mixed struct{ operation.Memory }

func (m *mixed) Create(ctx context.Context, r operation.Record) (operation.Record, error) {
	tenant := r.Binding.Requester.Tenant
	r.Binding.Requester.Tenant = "all"
	got, err := m.Memory.Create(ctx, r)
	got.Binding.Requester.Tenant = tenant
	return got, err
}

func (m *mixed) CompareAndSwap(ctx context.Context, r operation.Record) (operation.Record, error) {
	tenant := r.Binding.Requester.Tenant
	r.Binding.Requester.Tenant = "all"
	got, err := m.Memory.CompareAndSwap(ctx, r)
	got.Binding.Requester.Tenant = tenant
	return got, err
}

func (m *mixed) Get(ctx context.Context, tenant, id string) (operation.Record, error) {
	got, err := m.Memory.Get(ctx, "all", id)
	if err == nil {
		got.Binding.Requester.Tenant = tenant
	}
	return got, err
}

type lenient struct{ operation.Memory }

func (l *lenient) CompareAndSwap(ctx context.Context, r operation.Record) (operation.Record, error) {
	approval := r.Approval
	if r.State.Settled() {
		r.Approval = ""
	}
	got, err := l.Memory.CompareAndSwap(ctx, r)
	got.Approval = approval
	return got, err
}

// shared keeps what it is given, and gives out what it keeps.
type shared struct {
	operation.Memory
	mu   sync.Mutex
	recs map[string]operation.Record
}

func (s *shared) Create(ctx context.Context, r operation.Record) (operation.Record, error) {
	got, err := s.Memory.Create(ctx, r)
	if err == nil {
		s.keep(got)
	}
	return got, err
}

func (s *shared) CompareAndSwap(ctx context.Context, r operation.Record) (operation.Record, error) {
	got, err := s.Memory.CompareAndSwap(ctx, r)
	if err == nil {
		s.keep(got)
	}
	return got, err
}

func (s *shared) keep(r operation.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recs[r.Binding.Requester.Tenant+" "+r.ID] = r
}

func (s *shared) Get(ctx context.Context, tenant, id string) (operation.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.recs[tenant+" "+id]; ok {
		return r, nil
	}
	return s.Memory.Get(ctx, tenant, id)
}

// racy decides by what it has read, without a lock.
type racy struct{ operation.Memory }

func (c *racy) Create(ctx context.Context, r operation.Record) (operation.Record, error) {
	got, err := c.Memory.Create(ctx, r)
	if err == operation.ErrExists && got.Rev == 1 && got.Holder != "" { // the other has only just been here
		return r, nil
	}
	return got, err
}

// blindIntent looks for open intents when a change leaves, and not before.
type blindIntent struct{ operation.Memory }

func (b *blindIntent) Create(ctx context.Context, r operation.Record) (operation.Record, error) {
	intent := r.Intent
	if r.State == operation.Prepared {
		r.Intent = "prepared " + r.ID
	}
	got, err := b.Memory.Create(ctx, r)
	got.Intent = intent
	return got, err
}
