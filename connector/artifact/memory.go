package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"math"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Memory is a Store that forgets everything with the process. It is for tests
// and for hosts that run as one process. It keeps count of every name of every
// run, so that no reference is ever used again.
type Memory struct {
	max int64

	mu    sync.Mutex
	used  int64
	items map[memoryKey]*item
	count map[memoryKey]int // by reference without a number
}

var _ Store = (*Memory)(nil)

type memoryKey struct {
	tenant string
	ref    Ref
}

// item is an artifact. Its fields are guarded by the store's mu.
type item struct {
	meta Meta
	data []byte
	gone bool
}

// NewMemory returns a store that holds at most maxBytes of all tenants
// together. A store of 0 bytes, as the zero Memory is, holds empty artifacts
// only.
func NewMemory(maxBytes int64) *Memory { return &Memory{max: maxBytes} }

// Put implements [Store]. A store without room is QUOTA_EXCEEDED.
func (m *Memory) Put(ctx context.Context, meta *Meta, r io.Reader, max int64) error {
	if err := meta.Check(); err != nil {
		return err
	}
	room := min(max, m.max, math.MaxInt64-1)
	data, err := io.ReadAll(io.LimitReader(&contextReader{ctx, r}, room+1))
	switch {
	case err != nil:
		return toolresult.WrapError(toolresult.Code(err), "the artifact could not be read", err)
	case int64(len(data)) > max:
		return toolresult.NewError(toolresult.ResultTooLarge, "the artifact is too large")
	case int64(len(data)) > room:
		return toolresult.NewError(toolresult.QuotaExceeded, "there is no room for the artifact")
	}
	sum := sha256.Sum256(data)

	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	if m.used+int64(len(data)) > m.max {
		return toolresult.NewError(toolresult.QuotaExceeded, "there is no room for the artifact")
	}
	if m.items == nil {
		m.items, m.count = map[memoryKey]*item{}, map[memoryKey]int{}
	}
	name := memoryKey{meta.Tenant, Ref{Run: meta.Ref.Run, Name: meta.Ref.Name}}
	m.count[name]++
	meta.Ref.N, meta.Size, meta.Digest = m.count[name], int64(len(data)), "sha256:"+hex.EncodeToString(sum[:])
	m.items[memoryKey{meta.Tenant, meta.Ref}] = &item{meta: *meta, data: data}
	m.used += meta.Size
	return nil
}

// Open implements [Store]. A reader fails with NOT_FOUND as soon as its
// artifact is removed or over.
func (m *Memory) Open(ctx context.Context, tenant string, ref Ref) (*Meta, io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	it := m.items[memoryKey{tenant, ref}]
	if it == nil || it.over() {
		return nil, nil, notFound()
	}
	meta := it.meta
	return &meta, &reader{ctx: ctx, store: m, item: it, rest: *bytes.NewReader(it.data), sum: sha256.New()}, nil
}

// Purge implements [Store].
func (m *Memory) Purge(_ context.Context, tenant, connection string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, it := range m.items {
		if k.tenant == tenant && it.meta.Connection == connection {
			m.remove(k)
		}
	}
	return nil
}

// sweep removes what is over.
func (m *Memory) sweep() {
	for k, it := range m.items {
		if it.over() {
			m.remove(k)
		}
	}
}

func (m *Memory) remove(k memoryKey) {
	it := m.items[k]
	m.used -= it.meta.Size
	it.gone, it.data = true, nil
	delete(m.items, k)
}

func (it *item) over() bool { return it.gone || !time.Now().Before(it.meta.Expires) }

func notFound() error { return toolresult.NewError(toolresult.NotFound, "no such artifact") }

// reader reads an artifact and checks its digest at the end.
type reader struct {
	ctx   context.Context
	store *Memory
	item  *item
	rest  bytes.Reader
	sum   hash.Hash
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, toolresult.WrapError(toolresult.Code(err), "the artifact was not read to its end", err)
	}
	r.store.mu.Lock()
	over, digest := r.item.over(), r.item.meta.Digest
	r.store.mu.Unlock()
	if over {
		return 0, notFound()
	}
	n, err := r.rest.Read(p)
	r.sum.Write(p[:n])
	if err == io.EOF && "sha256:"+hex.EncodeToString(r.sum.Sum(nil)) != digest {
		return 0, ErrDigest
	}
	return n, err
}

// Close ends the reading. It does not check the digest.
func (r *reader) Close() error { return nil }

// contextReader fails when its context is over.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
