//go:build unix

package egress

import (
	"net"
	"syscall"
)

// probe asks a socket whether it has something to read.
type probe struct {
	raw   syscall.RawConn
	ask   func(fd uintptr) bool // made once, as is all that it needs
	b     [1]byte
	quiet bool
}

// newProbe returns nil for a connection that is no socket: it cannot be asked,
// and is not used again.
func newProbe(c net.Conn) *probe {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	p := &probe{raw: raw}
	p.ask = func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), p.b[:])
		p.quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	}
	return p
}

// silent reports whether the socket has nothing to read and has not ended. It
// does not wait. What is read is lost; the connection is then closed anyway.
func (p *probe) silent() bool {
	if p == nil {
		return false
	}
	p.quiet = false
	return p.raw.Read(p.ask) == nil && p.quiet
}
