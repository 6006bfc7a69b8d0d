package egress

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An idle connection is closed after its time, without anybody asking.
func TestPoolForgets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	raw, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var p pool
		p.put(newConn(raw))
		require.Equal(t, 1, p.size())
		time.Sleep(idleTime - 1)
		synctest.Wait()
		require.Equal(t, 1, p.size())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Zero(t, p.size())
		_, err := raw.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.Nil(t, p.get())
	})
}

// What is no socket cannot be asked whether it was quiet, and is not kept.
func TestPoolKeepsSocketsOnly(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	var p pool
	p.put(newConn(a))
	require.Zero(t, p.size())
	_, err := a.Write([]byte("x"))
	require.Error(t, err)
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}
