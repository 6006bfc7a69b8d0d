//go:build unix

package launch

import "syscall"

const nonblock = syscall.O_NONBLOCK
