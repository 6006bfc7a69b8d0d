package bearer

import (
	"container/list"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// A fingerprint stands for a token where something is remembered about it. It
// is keyed, so that memory holds no token and nothing to try tokens against.
type fingerprint [sha256.Size]byte

type fingerprints [sha256.Size]byte // the key

func newFingerprints() (key fingerprints) {
	_, _ = rand.Read(key[:]) // never fails
	return key
}

func (key *fingerprints) of(token secret) fingerprint {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte(token()))
	return fingerprint(mac.Sum(nil))
}

// lru remembers the values that were used last. It is not safe for concurrent
// use; its zero value remembers nothing.
type lru[V any] struct {
	max   int
	by    map[fingerprint]*list.Element
	order list.List // of *remembered[V], the last used first
}

type remembered[V any] struct {
	key   fingerprint
	value V
}

func (l *lru[V]) get(key fingerprint) (v V, ok bool) {
	e, ok := l.by[key]
	if !ok {
		return v, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*remembered[V]).value, true
}

func (l *lru[V]) put(key fingerprint, v V) {
	l.drop(key)
	if l.by == nil {
		l.by = map[fingerprint]*list.Element{}
	}
	l.by[key] = l.order.PushFront(&remembered[V]{key, v})
	if l.order.Len() > l.max {
		l.drop(l.order.Back().Value.(*remembered[V]).key)
	}
}

func (l *lru[V]) drop(key fingerprint) {
	if e, ok := l.by[key]; ok {
		l.order.Remove(e)
		delete(l.by, key)
	}
}

// What signatures remembers: a signature that was found good stays good while
// the key is the one that it was verified by.
const (
	maxVerified      = 2048    // tokens
	maxVerifiedToken = 4 << 10 // bytes of one; longer ones are verified each time
)

// A verified is a token whose signature was found good. Everything that depends
// on the time, on the keys that there are now and on the request is checked each
// time.
type verified struct {
	v      *Verifier
	kid    string
	first  *jose.JSONWebKey // of the keys with that id; every fetch brings others
	claims *Claims
}

// verifications are those of one Bearer.
type verifications struct {
	key fingerprints
	mu  sync.Mutex
	lru lru[verified]
}

// recall returns the claims of a token that was verified before. It returns
// neither claims nor a failure if all of it has to be done again.
func (m *verifications) recall(ctx context.Context, f fingerprint) (*Verifier, *Claims, *failure) {
	m.mu.Lock()
	e, ok := m.lru.get(f)
	m.mu.Unlock()
	if !ok {
		return nil, nil, nil
	}
	if bad := e.claims.checkTimes(time.Now(), e.v.leeway); bad != nil {
		return nil, nil, bad
	}
	keys, bad := e.v.jwt.keys.find(ctx, e.kid, e.claims.IssuedAt)
	if bad != nil {
		return nil, nil, bad
	}
	if &keys[0] != e.first {
		return nil, nil, nil
	}
	return e.v, e.claims, nil
}

func (m *verifications) keep(f fingerprint, e verified) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.put(f, e)
}
