package registry

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Memory is a [Store] that ends with the process. The zero Memory is empty. It
// must not be copied after use.
type Memory struct {
	mu       sync.Mutex
	records  map[[2]string]Record
	history  map[[2]string][]Event
	packages map[skill.Digest]*skill.Package
	pins     map[[2]string]Pin // by run and name
	finished map[string]time.Time
}

var _ Store = (*Memory)(nil)

func errConflict() error {
	return toolresult.NewError(toolresult.Conflict, "the record was changed by somebody else; read it again")
}

func errNotFound() error {
	return toolresult.NewError(toolresult.NotFound, "there is no such version or package")
}

func errFinished() error {
	return toolresult.NewError(toolresult.Conflict, "the run is finished; begin a new one")
}

// Put implements [Records].
func (m *Memory) Put(ctx context.Context, rec Record, ev Event) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{rec.Name, rec.Version}
	if m.records[key].Revision != rec.Revision {
		return Record{}, errConflict()
	}
	if m.records == nil {
		m.records, m.history = map[[2]string]Record{}, map[[2]string][]Event{}
	}
	rec = rec.clone()
	rec.Revision++
	ev.Revision = rec.Revision
	m.records[key] = rec
	m.history[key] = append(m.history[key], ev)
	return rec.clone(), nil
}

// Get implements [Records].
func (m *Memory) Get(_ context.Context, name, version string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, ok := m.records[[2]string{name, version}]
	if !ok {
		return Record{}, errNotFound()
	}
	return rec.clone(), nil
}

// List implements [Records].
func (m *Memory) List(_ context.Context, name string) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Record
	for _, rec := range m.records {
		if name == "" || rec.Name == name {
			out = append(out, rec.clone())
		}
	}
	SortRecords(out)
	return out, nil
}

// SortRecords sorts as [Records] lists: by name, and then by version as versions.
// It is for implementations of [Store].
func SortRecords(recs []Record) {
	slices.SortFunc(recs, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), compareVersions(a.Version, b.Version))
	})
}

// History implements [Records].
func (m *Memory) History(_ context.Context, name, version string) ([]Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.history[[2]string{name, version}]), nil
}

// PutPackage implements [Packages].
func (m *Memory) PutPackage(_ context.Context, p *skill.Package) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.packages == nil {
		m.packages = map[skill.Digest]*skill.Package{}
	}
	m.packages[p.Digest()] = p
	return nil
}

// Package implements [Packages]. The package is read again from its archive, so
// that it is verified as a package that was kept elsewhere is.
func (m *Memory) Package(_ context.Context, d skill.Digest) (*skill.Package, error) {
	m.mu.Lock()
	p, ok := m.packages[d]
	m.mu.Unlock()
	if !ok {
		return nil, errNotFound()
	}
	var b bytes.Buffer
	if err := p.WriteArchive(&b); err != nil {
		return nil, err
	}
	q, err := skill.ReadArchive(&b, &skill.Limits{Files: maxFiles, Bytes: maxBytes})
	if err != nil {
		return nil, err
	}
	if err := q.Verify(d, nil); err != nil {
		return nil, err
	}
	return q, nil
}

// What a store reads back is what was let in, whatever limits that had.
const (
	maxFiles = 1 << 16
	maxBytes = 1 << 30
)

// PutPin implements [Pins].
func (m *Memory) PutPin(_ context.Context, p Pin) (Pin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, over := m.finished[p.Run]; over {
		return Pin{}, errFinished()
	}
	key := [2]string{p.Run, p.Name}
	if first, ok := m.pins[key]; ok {
		return first, nil
	}
	if m.pins == nil {
		m.pins = map[[2]string]Pin{}
	}
	m.pins[key] = p
	return p, nil
}

// PinsOf implements [Pins].
func (m *Memory) PinsOf(_ context.Context, run string) ([]Pin, error) {
	return m.find(func(p Pin) bool { return p.Run == run }), nil
}

// Running implements [Pins].
func (m *Memory) Running(_ context.Context, name string) ([]Pin, error) {
	return m.find(func(p Pin) bool { return p.Name == name && p.Finished.IsZero() }), nil
}

func (m *Memory) find(want func(Pin) bool) (out []Pin) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pins {
		p.Finished = m.finished[p.Run]
		if want(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Pin) int { return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Name, b.Name)) })
	return out
}

// FinishRun implements [Pins].
func (m *Memory) FinishRun(_ context.Context, run string, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.finished == nil {
		m.finished = map[string]time.Time{}
	}
	if _, over := m.finished[run]; !over {
		m.finished[run] = at
	}
	return nil
}
