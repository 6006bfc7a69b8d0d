package bearer

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// H1-60: what was used is never forgotten early to make room: when there is no
// room nobody is let in, and when it is over there is room again.
func TestReplaysAreBounded_H1_60(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memoryReplays{salt: newFingerprints()}
		use := func(i int) (bool, error) {
			var mark [32]byte
			binary.BigEndian.PutUint64(mark[:], uint64(i))
			return m.Use(t.Context(), mark, time.Now().Add(time.Minute))
		}
		for i := range maxReplays {
			first, err := use(i)
			require.NoError(t, err)
			require.True(t, first)
		}
		_, err := use(maxReplays)
		require.ErrorIs(t, err, errManyProofs)
		first, err := use(0)
		require.NoError(t, err)
		require.False(t, first, "it is remembered all the same")
		time.Sleep(90 * time.Second)
		first, err = use(maxReplays)
		require.NoError(t, err)
		require.True(t, first)
		require.Len(t, m.until, 1)
	})
}
