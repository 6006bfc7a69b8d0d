package bearer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// H1-53: the values that were used last are remembered, and no more than may be.
func TestMemoryIsBounded_H1_53(t *testing.T) {
	m := lru[int]{max: 3}
	for i := range 3 {
		m.put(fingerprint{byte(i)}, i)
	}
	_, ok := m.get(fingerprint{0})
	require.True(t, ok)
	m.put(fingerprint{3}, 3)
	_, ok = m.get(fingerprint{1})
	require.False(t, ok, "the one that was not used for longest is gone")
	m.put(fingerprint{0}, 7)
	v, _ := m.get(fingerprint{0})
	require.Equal(t, 7, v)
	require.Equal(t, 3, m.order.Len())
	require.Len(t, m.by, 3)
	m.drop(fingerprint{0})
	m.drop(fingerprint{9})
	require.Len(t, m.by, 2)
	var none lru[int]
	none.put(fingerprint{1}, 1)
	require.Empty(t, none.by)
}

// H1-52: what is remembered of a token is keyed: without the key nobody can tell
// whether a token is among them.
func TestFingerprints_H1_52(t *testing.T) {
	one, two := newFingerprints(), newFingerprints()
	token := secret(func() string { return "token" })
	require.Equal(t, one.of(token), one.of(token))
	require.NotEqual(t, one.of(token), two.of(token))
}
