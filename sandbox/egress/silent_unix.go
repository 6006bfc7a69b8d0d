//go:build unix

package egress

import (
	"net"
	"syscall"
)

// silent reports whether a socket has nothing to read and has not ended. It
// does not wait. A connection that is no socket cannot be asked, and is not
// used again. What is read is lost; the connection is then closed anyway.
func silent(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	})
	return err == nil && quiet
}
