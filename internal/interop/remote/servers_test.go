package remote

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter/remote"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// program is a process with its pipes. The test started it, and ends it.
type program struct {
	io.Reader
	io.WriteCloser
	cmd *exec.Cmd
}

// Close ends the process and waits for it.
func (p *program) Close() error {
	_ = p.WriteCloser.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	return nil
}

func start(ctx context.Context, dir string, env []string, words ...string) (*program, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), io.Discard
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &program{out, in, cmd}, cmd.Start()
}

func opened(t *testing.T, s remote.Server) *host {
	h, err := newHost(s, remote.Options{Probe: 2 * time.Second})
	require.NoError(t, err)
	require.NoError(t, h.open(t.Context()))
	t.Logf("%+v; cannot be offered: %q", h.listing.Peer, h.refused)
	t.Cleanup(func() { _ = h.c.Close() })
	return h
}

// M5, acceptance 3: a modern server of the TypeScript SDK is a connector.
func TestTypeScriptServer_M5(t *testing.T) {
	modules, nodejs := node(t)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	text, err := os.ReadFile("testdata/modern.mjs")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modern.mjs"), text, 0o600))
	p, err := start(t.Context(), dir, nil, nodejs, "modern.mjs")
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	line, err := bufio.NewReader(p).ReadString('\n')
	require.NoError(t, err)
	s, err := onLoopback("http://127.0.0.1:" + strings.TrimSpace(strings.TrimPrefix(line, "listening on ")) + "/mcp")
	require.NoError(t, err)
	h := opened(t, s)
	require.Equal(t, "2026-07-28", h.listing.Peer.Version)

	r, err := h.call(t.Context(), "add", map[string]any{"a": 2, "b": 40})
	require.NoError(t, err)
	require.Equal(t, toolresult.MeaningComplete, r.Meaning())
	require.JSONEq(t, `{"content":[],"structured":{"sum":42},"changed":0}`, string(r.Data), "the same answer as text is not repeated")
	_, err = h.call(t.Context(), "add", map[string]any{"a": "two"})
	require.ErrorIs(t, err, toolresult.InvalidInput)
	_, err = h.call(t.Context(), "fails", map[string]any{})
	require.ErrorIs(t, err, toolresult.ProviderError)
	r, err = h.call(t.Context(), "hostile", map[string]any{})
	require.NoError(t, err)
	require.Contains(t, string(r.Data), "[image: x] (hxxps://collector[.]example/?q=)\"")
}

// M5, acceptance 3: the reference server with everything, of an older revision,
// over stdio and over HTTP.
func TestServerEverything_M5(t *testing.T) {
	modules, nodejs := node(t)
	index := filepath.Join(modules, "@modelcontextprotocol", "server-everything", "dist", "index.js")
	_, err := os.Stat(index)
	require.NoError(t, err)
	for name, server := range map[string]func(*testing.T) remote.Server{
		"stdio": func(t *testing.T) remote.Server {
			return remote.Server{Launch: func(ctx context.Context, _ authz.Principal) (io.ReadWriteCloser, error) {
				return start(ctx, t.TempDir(), nil, nodejs, index, "stdio")
			}}
		},
		"HTTP": func(t *testing.T) remote.Server {
			port := free(t)
			p, err := start(t.Context(), t.TempDir(), []string{"PORT=" + port}, nodejs, index, "streamableHttp")
			require.NoError(t, err)
			t.Cleanup(func() { _ = p.Close() })
			go func() { _, _ = io.Copy(io.Discard, p) }()
			listening(t, "127.0.0.1:"+port)
			s, err := onLoopback("http://127.0.0.1:" + port + "/mcp")
			require.NoError(t, err)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := opened(t, server(t))
			require.Equal(t, "2025-11-25", h.listing.Peer.Version)
			require.GreaterOrEqual(t, len(h.server.Tools), 10)
			r, err := h.call(t.Context(), "echo", map[string]any{"message": "hello"})
			require.NoError(t, err)
			require.Contains(t, string(r.Data), "Echo: hello")
			require.Equal(t, toolresult.Untrusted, r.Provenance.Trust)
			r, err = h.call(t.Context(), "get-sum", map[string]any{"a": 2, "b": 3})
			require.NoError(t, err)
			require.Contains(t, string(r.Data), "5")
			r, err = h.call(t.Context(), "get-tiny-image", map[string]any{})
			require.NoError(t, err)
			require.Contains(t, string(r.Data), `"sha256"`)
			require.Contains(t, r.Coverage.Missing, remote.GapOriginal, "a picture is not in an answer, and there is no store for it here")
			r, err = h.call(t.Context(), "get-structured-content", map[string]any{"location": "New York"})
			require.NoError(t, err)
			require.Contains(t, string(r.Data), `"structured":{`)
			_, err = h.call(t.Context(), "get-sum", map[string]any{"a": "x"})
			require.ErrorIs(t, err, toolresult.InvalidInput)
		})
	}
}

// free returns a port on which nothing listens.
func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// listening waits until somebody does.
func listening(t *testing.T, address string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = c.Close()
			return
		}
		require.False(t, errors.Is(err, context.DeadlineExceeded), "%s: nobody listens", address)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
