//go:build !unix

package launch

const nonblock = 0
