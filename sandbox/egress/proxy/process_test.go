//go:build linux

package proxy_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress/proxy"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
)

var self process.Self

func TestMain(m *testing.M) {
	self = process.Init()
	goleak.VerifyTestMain(m)
}

// S3, cases 90, 98-102: a confined program reaches what its rules name through
// this proxy, nothing else, and what it tried stands in its result.
func TestConfinedProgram_S3(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(hello))
	defer server.Close()
	port := netip.MustParseAddrPort(server.Listener.Addr().String()).Port()
	w := &world{t: t, names: map[string][]netip.Addr{}}
	p, err := proxy.New(&proxy.Options{Ports: []uint16{port}, Egress: &egress.Options{Resolve: w.resolve, Dial: w.dial}})
	require.NoError(t, err)
	x, err := process.New(&process.Options{Self: self, Proxy: p})
	require.NoError(t, err)
	policy := &sandbox.Policy{
		Filesystem: sandbox.Filesystem{System: true, AllowRead: []string{"./"}},
		Network:    sandbox.Network{AllowDomains: []string{"allowed.test"}, AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}
	r, err := policy.Resolve(sandbox.Base{Workspace: t.TempDir()})
	require.NoError(t, err)
	rep, err := x.Probe(t.Context(), r)
	require.NoError(t, err)
	ask := func(line string) (string, *sandbox.Result) {
		var out bytes.Buffer
		c := &sandbox.Command{Path: "/bin/bash", Args: []string{"-c", `exec 5<>/dev/tcp/127.0.0.1/3128; printf '` + line + `' >&5; cat <&5`}, Stdout: &out}
		run, err := x.Start(t.Context(), r, c)
		if rep.Of(sandbox.NetEgress).Strength != sandbox.Enforced {
			require.Error(t, err)
			t.Log("cannot be held here, and is refused:", err)
			return "", nil
		}
		require.NoError(t, err)
		res, err := run.Wait()
		require.NoError(t, err)
		return out.String(), res
	}
	out, res := ask(fmt.Sprintf(`GET http://allowed.test:%d/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, port))
	if res == nil {
		return
	}
	require.Contains(t, out, "hello allowed.test")
	require.Empty(t, network(res))
	for _, line := range []string{`GET http://evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n`, `CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n`} {
		out, res = ask(line)
		require.Contains(t, out, "403")
		list := network(res)
		require.Len(t, list, 1)
		require.Equal(t, "evil.test", list[0].Target)
		require.True(t, list[0].Exact && res.Exact[sandbox.NetEgress])
	}
}

// network are the proxy's denials; a shell tries sockets of other kinds as well.
func network(r *sandbox.Result) (out []sandbox.Denial) {
	for _, d := range r.Denials {
		if d.Claim == sandbox.NetEgress {
			out = append(out, d)
		}
	}
	return out
}
