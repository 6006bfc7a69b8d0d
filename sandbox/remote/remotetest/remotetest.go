// Package remotetest checks that a service does what remote.Service asks for:
//
//	func TestService(t *testing.T) { remotetest.Run(t, service) }
//
// It is about the two calls. Whether the service's boundary holds is for
// package sandboxtest, run against remote.New(service, nil); a service needs
// both. The service must see this machine's temporary directory and have
// /bin/sh, which it does when it is the other end of a test.
//
// It knows what it tries; passing is no proof of anything else.
package remotetest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/remote"
)

// Run runs all cases.
func Run(t *testing.T, s remote.Service) {
	for _, c := range cases {
		t.Run(c.says, func(t *testing.T) { c.do(&bench{t, s}) })
	}
}

type bench struct {
	*testing.T
	s remote.Service
}

var cases = []struct {
	says string
	do   func(*bench)
}{
	{"a report is about the rules that were asked about, and speaks of every claim once", probed},
	{"rules without their digest are refused by Probe", probeForged},
	{"and by Run, before anything ran", runForged},
	{"arguments arrive as they are, and streams are connected", streamed},
	{"a program's own status is told", exited},
	{"a signal is told, with a status of -1", signalled},
	{"the variables of the request and no others of this process", variables},
	{"the outcome names its request and says what was enforced", named},
	{"what cannot be enforced is refused before anything ran", refused},
	{"the end of the context ends the program", ended},
	{"the timeout of the rules ends it too, and is told", timedOut},
	{"a program that is not there is an error, not an outcome", missing},
}

func (b *bench) rules(change func(*sandbox.Policy)) (*sandbox.Rules, json.RawMessage) {
	b.Helper()
	dir, err := os.MkdirTemp("", "remotetest-")
	require.NoError(b, err)
	b.Cleanup(func() { os.RemoveAll(dir) })
	p := &sandbox.Policy{
		Name: "remotetest", Require: map[sandbox.Claim]sandbox.Strength{},
		Filesystem: sandbox.Filesystem{System: true, AllowWrite: []string{"./"}}, Credentials: sandbox.Credentials{Env: []string{"GIVEN"}},
	}
	for _, c := range sandbox.Claims() {
		p.Require[c] = sandbox.None
	}
	if change != nil {
		change(p)
	}
	r, err := p.Resolve(sandbox.Base{Workspace: dir})
	require.NoError(b, err)
	text, err := json.Marshal(r)
	require.NoError(b, err)
	return r, text
}

// shell is a request to run a script.
func (b *bench) shell(script string, change func(*sandbox.Policy)) (*remote.Request, *sandbox.Rules) {
	r, text := b.rules(change)
	return &remote.Request{Rules: text, Digest: r.Digest(), Path: "/bin/sh", Args: []string{"-c", script}}, r
}

func (b *bench) run(ctx context.Context, q *remote.Request, in string) (*remote.Outcome, string, error) {
	var out, errs bytes.Buffer // a service may write both at once
	got, err := b.s.Run(ctx, q, remote.Streams{Stdin: strings.NewReader(in), Stdout: &out, Stderr: &errs})
	return got, out.String() + errs.String(), err
}

func probed(b *bench) {
	r, text := b.rules(nil)
	rep, err := b.s.Probe(b.Context(), text, r.Digest())
	require.NoError(b, err)
	require.Equal(b, r.Digest(), rep.Rules)
	_, err = rep.Delegate(r)
	require.NoError(b, err)
	require.Len(b, rep.Claims, len(sandbox.Claims()))
}

// forged are rules that say more than their digest.
func (b *bench) forged() *remote.Request {
	q, _ := b.shell("echo ran > ran", nil)
	q.Rules = json.RawMessage(strings.Replace(string(q.Rules), `"system":true`, `"system":false`, 1))
	return q
}

func probeForged(b *bench) {
	q := b.forged()
	_, err := b.s.Probe(b.Context(), q.Rules, q.Digest)
	require.Error(b, err)
}

func runForged(b *bench) {
	q := b.forged()
	var r sandbox.Rules
	require.NoError(b, json.Unmarshal(q.Rules, &r))
	_, _, err := b.run(b.Context(), q, "")
	require.Error(b, err)
	require.NoFileExists(b, filepath.Join(r.Workspace, "ran"))
}

func streamed(b *bench) {
	q, _ := b.shell(`cat; echo "$1|$2"; echo error >&2`, nil)
	q.Args = append(q.Args, "sh", "two words", "--x=$(id)")
	_, out, err := b.run(b.Context(), q, "input\n")
	require.NoError(b, err)
	require.Contains(b, out, "input\n")
	require.Contains(b, out, "two words|--x=$(id)")
	require.Contains(b, out, "error")
}

func exited(b *bench) {
	q, _ := b.shell("exit 7", nil)
	got, _, err := b.run(b.Context(), q, "")
	require.NoError(b, err)
	require.Equal(b, 7, got.ExitCode)
	require.Empty(b, got.Signal)
}

func signalled(b *bench) {
	q, _ := b.shell("/bin/sh -c 'kill -9 $$'; ulimit -t 1; while :; do :; done", nil)
	got, _, err := b.run(b.Context(), q, "")
	require.NoError(b, err)
	require.Equal(b, -1, got.ExitCode)
	require.NotEmpty(b, got.Signal)
}

func variables(b *bench) {
	b.Setenv("REMOTETEST_SECRET", "of this process")
	q, _ := b.shell("env", nil)
	q.Env = map[string]string{"GIVEN": "yes"}
	_, out, err := b.run(b.Context(), q, "")
	require.NoError(b, err)
	require.Contains(b, out, "GIVEN=yes")
	require.NotContains(b, out, "REMOTETEST_SECRET")
	q.Env = map[string]string{"LD_PRELOAD": "/x"}
	_, _, err = b.run(b.Context(), q, "")
	require.Error(b, err, "a variable that the rules do not list")
}

func named(b *bench) {
	q, r := b.shell("true", nil)
	got, _, err := b.run(b.Context(), q, "")
	require.NoError(b, err)
	require.Equal(b, q.Sum(), got.Request)
	require.NotNil(b, got.Report)
	require.Equal(b, r.Digest(), got.Report.Rules)
}

func refused(b *bench) {
	r, text := b.rules(nil)
	rep, err := b.s.Probe(b.Context(), text, r.Digest())
	require.NoError(b, err)
	for _, c := range sandbox.Claims() {
		if rep.Of(c).Strength != sandbox.None {
			continue
		}
		q, strict := b.shell("echo ran > ran", func(p *sandbox.Policy) { p.Require[c] = sandbox.Enforced })
		_, _, err := b.run(b.Context(), q, "")
		require.Error(b, err, c)
		require.NoFileExists(b, filepath.Join(strict.Workspace, "ran"))
	}
}

func ended(b *bench) {
	q, _ := b.shell("echo ready; sleep 600", nil)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	_, err := b.s.Run(ctx, q, remote.Streams{Stdin: strings.NewReader(""), Stdout: ready(cancel), Stderr: ready(cancel)})
	if err == nil {
		return // an outcome that says how it was ended
	}
	require.Error(b, ctx.Err())
}

// ready calls itself when something is written.
type ready func()

func (f ready) Write(p []byte) (int, error) { f(); return len(p), nil }

func timedOut(b *bench) {
	q, _ := b.shell("sleep 600", func(p *sandbox.Policy) { p.Process.Timeout = 200 * time.Millisecond })
	got, _, err := b.run(b.Context(), q, "")
	require.NoError(b, err)
	require.True(b, got.TimedOut)
}

func missing(b *bench) {
	q, r := b.shell("true", nil)
	q.Path = filepath.Join(r.Workspace, "no-such-program")
	_, _, err := b.run(b.Context(), q, "")
	require.Error(b, err)
}
