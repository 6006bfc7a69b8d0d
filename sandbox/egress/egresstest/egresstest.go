// Package egresstest puts an http.Handler where a provider would be, for tests
// of code that uses package egress: the real client and server of net/http over
// pipes in memory, so that nothing touches a socket and a test can run in a
// bubble of testing/synctest, where an hour passes at once.
//
// It skips nothing of package egress: addresses are checked, connections are
// made and closed, limits run.
package egresstest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
)

// Base is the BaseURL of the profiles that Serve returns.
const Base = "http://provider.test"

// Serve serves h until the end of the test and returns a profile and options
// that reach it:
//
//	profile, opts := egresstest.Serve(t, handler)
//	e, err := egress.New(profile, opts)
//
// The profile may be changed before it is used; another host in BaseURL reaches
// h as well. In a synctest bubble, call Serve inside of it.
func Serve(t testing.TB, h http.Handler) (egress.Profile, *egress.Options) {
	t.Helper()
	l := &listener{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: h}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return Profile(), &egress.Options{Resolve: resolve, Dial: l.dial}
}

// Profile returns the profile that Serve returns: name "test", Base, plaintext,
// on a private network.
func Profile() egress.Profile {
	return egress.Profile{
		Name:      "test",
		BaseURL:   Base,
		Plaintext: true,
		Private:   []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}
}

func resolve(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
}

// listener is a net.Listener that connections are handed to.
type listener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *listener) dial(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, errors.New("egresstest: connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "pipe" }
func (addr) String() string  { return "egresstest" }
