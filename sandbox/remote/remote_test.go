//go:build linux

package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
	"github.com/drawbridge-sdk/drawbridge/sandbox/remote"
	"github.com/drawbridge-sdk/drawbridge/sandbox/remote/remotetest"
	"github.com/drawbridge-sdk/drawbridge/sandbox/sandboxtest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

var self process.Self

func TestMain(m *testing.M) {
	sandboxtest.Guest()
	self = process.Init()
	goleak.VerifyTestMain(m)
}

// wire is the way to a service and back: everything is JSON once.
type wire struct{ remote.Service }

func again[T any](v *T, err error) (*T, error) {
	if err != nil || v == nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := new(T)
	return out, json.Unmarshal(text, out)
}

func (w wire) Probe(ctx context.Context, rules json.RawMessage, digest string) (*sandbox.Report, error) {
	return again(w.Service.Probe(ctx, rules, digest))
}

func (w wire) Run(ctx context.Context, q *remote.Request, s remote.Streams) (*remote.Outcome, error) {
	q, err := again(q, nil)
	if err != nil {
		return nil, err
	}
	return again(w.Service.Run(ctx, q, s))
}

func served(t *testing.T) remote.Service {
	t.Helper()
	x, err := process.New(&process.Options{Mode: process.Reexec, Self: self})
	require.NoError(t, err)
	return wire{remote.Serve(x)}
}

func executor(t *testing.T, s remote.Service) *remote.Executor {
	t.Helper()
	x, err := remote.New(s, nil)
	require.NoError(t, err)
	return x
}

// S2: the service over an executor of this machine keeps the contract.
func TestService_S2(t *testing.T) { remotetest.Run(t, served(t)) }

// S6: the suite attacks through the remote executor, whose claims are words.
func TestSuite_S6(t *testing.T) {
	r := sandboxtest.Run(t, executor(t, served(t)), nil)
	t.Log(r.Counts())
	for _, e := range r.Executor.Claims {
		if e.Claim != sandbox.ProcOutput {
			require.NotEqual(t, sandbox.Enforced, e.Strength, "%s: a word is no observation", e.Claim)
		}
	}
	require.Equal(t, sandbox.LevelRemote, r.Executor.Level)
}

// S2: rules that ask for more than a word are refused, and nothing is sent.
func TestWordIsNotTakenUnasked_S2(t *testing.T) {
	s := &scripted{}
	r := rules(t)
	_, err := executor(t, s).Start(t.Context(), r, sh("true"))
	var u *sandbox.UnenforcedError
	require.ErrorAs(t, err, &u)
	require.True(t, u.Has(sandbox.FSRead))
	require.False(t, u.Has(sandbox.ProcOutput), "that one is held here")
	require.Zero(t, s.runs)
	_, err = remote.New(nil, nil)
	require.ErrorIs(t, err, toolresult.InvalidInput)
	_, err = remote.New(s, &remote.Options{Grace: -1})
	require.ErrorIs(t, err, toolresult.InvalidInput)
}

// S5, S2: untrusted code goes to another machine, and to nothing less.
func TestUntrustedCode_S5(t *testing.T) {
	p, err := sandbox.NewProfile(sandbox.UntrustedCode, sandbox.Scope{})
	require.NoError(t, err)
	r, err := p.Resolve(sandbox.Base{Workspace: t.TempDir()})
	require.NoError(t, err)
	s := &scripted{}
	res, err := wait(p.Executor(executor(t, s)).Start(t.Context(), r, sh("true")))
	require.NoError(t, err)
	require.Equal(t, sandbox.Delegated, res.Report.Of(sandbox.ProcMemory).Strength)
	local, err := process.New(&process.Options{Self: self})
	require.NoError(t, err)
	_, err = p.Executor(local).Start(t.Context(), r, sh("true"))
	require.ErrorContains(t, err, "needs the level remote")
}

// S2: a lying service is refused before, or reported after. Each row is a lie.
func TestLies_S2(t *testing.T) {
	for _, row := range []struct {
		says string
		s    scripted
		want toolresult.ErrorCode
		at   string // "start" or "wait"
	}{
		{"no report at all", scripted{probe: func(*sandbox.Report) *sandbox.Report { return nil }}, toolresult.Unsupported, "start"},
		{"a report about other rules", scripted{probe: func(r *sandbox.Report) *sandbox.Report { r.Rules = "sha256:00"; return r }}, toolresult.Unsupported, "start"},
		{"a report on no level", scripted{probe: func(r *sandbox.Report) *sandbox.Report { r.Level = 0; return r }}, toolresult.Unsupported, "start"},
		{"a claim is left out", scripted{probe: func(r *sandbox.Report) *sandbox.Report { r.Claims = r.Claims[1:]; return r }}, toolresult.Unsupported, "start"},
		{"a claim is there twice", scripted{probe: func(r *sandbox.Report) *sandbox.Report { r.Claims = append(r.Claims, r.Claims[0]); return r }}, toolresult.Unsupported, "start"},
		{"a strength beyond all", scripted{probe: func(r *sandbox.Report) *sandbox.Report { r.Claims[0].Strength = 200; return r }}, toolresult.ProviderUnavailable, "start"},
		{"auxiliary for a boundary", scripted{probe: func(r *sandbox.Report) *sandbox.Report {
			r.Set(sandbox.NetEgress, sandbox.Auxiliary, "we look at names", "names")
			return r
		}}, toolresult.Unsupported, "start"},
		{"no outcome", scripted{run: func(*remote.Outcome) *remote.Outcome { return nil }}, toolresult.ContractViolation, "wait"},
		{"the zero outcome is no success", scripted{run: func(*remote.Outcome) *remote.Outcome { return &remote.Outcome{} }}, toolresult.ContractViolation, "wait"},
		{"another run's outcome", scripted{run: func(o *remote.Outcome) *remote.Outcome { o.Request = (&remote.Request{}).Sum(); return o }}, toolresult.ContractViolation, "wait"},
		{"an outcome without a report", scripted{run: func(o *remote.Outcome) *remote.Outcome { o.Report = nil; return o }}, toolresult.ContractViolation, "wait"},
		{"a weaker run than promised", scripted{run: func(o *remote.Outcome) *remote.Outcome {
			o.Report.Set(sandbox.NetEgress, sandbox.None, "the proxy was down")
			return o
		}}, toolresult.ContractViolation, "wait"},
		{"a signal and a status", scripted{run: func(o *remote.Outcome) *remote.Outcome { o.Signal = "killed"; return o }}, toolresult.ContractViolation, "wait"},
		{"a status that there is not", scripted{run: func(o *remote.Outcome) *remote.Outcome { o.ExitCode = 256; return o }}, toolresult.ContractViolation, "wait"},
		{"a signal of a page", scripted{run: func(o *remote.Outcome) *remote.Outcome {
			o.ExitCode, o.Signal = -1, strings.Repeat("x", 1<<20)
			return o
		}}, toolresult.ContractViolation, "wait"},
		{"an error without a code", scripted{fails: errors.New("token=hunter2 refused")}, toolresult.OutcomeUnknown, "wait"},
		{"an error with one", scripted{fails: toolresult.NewError(toolresult.QuotaExceeded, "no machine is left")}, toolresult.QuotaExceeded, "wait"},
	} {
		t.Run(row.says, func(t *testing.T) {
			run, err := executor(t, wire{&row.s}).Start(t.Context(), rules(t).Delegated(), sh("true"))
			if row.at == "start" {
				require.ErrorIs(t, err, row.want)
				require.Zero(t, row.s.runs, "nothing was started")
				return
			}
			require.NoError(t, err)
			res, err := run.Wait()
			require.ErrorIs(t, err, row.want)
			require.NotContains(t, err.Error(), "hunter2", "a service's text is not repeated")
			require.Nil(t, res)
		})
	}
}

// naive runs programs with no boundary and says that there is one.
type naive struct{}

func (naive) Probe(ctx context.Context, r *sandbox.Rules) (*sandbox.Report, error) {
	rep := sandbox.NewReport(sandbox.LevelRemote, "trust us", r)
	for _, c := range sandbox.Claims() {
		rep.Set(c, sandbox.Enforced, "", "magic")
	}
	return rep, ctx.Err()
}

func (n naive) Start(ctx context.Context, r *sandbox.Rules, c *sandbox.Command) (sandbox.Running, error) {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Workspace, c.Stdout, c.Stderr
	return lying{cmd, r}, cmd.Start()
}

type lying struct {
	cmd *exec.Cmd
	r   *sandbox.Rules
}

func (l lying) Kill() error { return l.cmd.Process.Kill() }

func (l lying) Wait() (*sandbox.Result, error) {
	l.cmd.Wait()
	rep, err := naive{}.Probe(context.Background(), l.r)
	return &sandbox.Result{ExitCode: max(l.cmd.ProcessState.ExitCode(), 0), Report: rep}, err
}

// S6: a service that lies consistently looks honest, until it is attacked.
func TestConsistentLieIsFoundByAttack_S6(t *testing.T) {
	dir, err := os.MkdirTemp("", "remote-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	only := []string{"files/outside", "files/append-outside", "files/denied-name", "files/hooks", "files/read-allowed"}
	rep, err := sandboxtest.Check(t.Context(), executor(t, wire{remote.Serve(naive{})}), dir, &sandboxtest.Options{Only: only})
	require.NoError(t, err)
	require.False(t, rep.OK())
	for _, claim := range []sandbox.Claim{sandbox.FSRead, sandbox.FSWrite, sandbox.FSDenyRead, sandbox.FSDenyWrite} {
		require.Contains(t, rep.Holes(), string(claim)+": BREACHED")
	}
	require.Equal(t, 4, rep.Counts()[sandboxtest.Breached])
}

// S2: what is held here, whatever the service does.
func TestHeldHere_S2(t *testing.T) {
	s := &scripted{work: func(ctx context.Context, st remote.Streams) {
		for range 100 {
			st.Stdout.Write(bytes.Repeat([]byte("x"), 64<<10))
		}
	}, run: func(o *remote.Outcome) *remote.Outcome {
		o.Dropped = -1 << 40
		for i := range 1000 {
			o.Denials = append(o.Denials, sandbox.Denial{Claim: sandbox.NetEgress, Op: "connect\x1b[31m", Target: strings.Repeat("a", i), Exact: true})
		}
		return o
	}}
	var out bytes.Buffer
	c := sh("true")
	c.Stdout = &out
	res, err := wait(executor(t, s).Start(t.Context(), rules(t).Delegated(), c))
	require.NoError(t, err)
	require.True(t, res.Truncated)
	require.Equal(t, 1<<20, out.Len())
	require.Len(t, res.Denials, 256)
	require.Positive(t, res.Dropped)
	require.Empty(t, res.Exact)
	for _, d := range res.Denials {
		require.False(t, d.Exact)
		require.NotContains(t, d.Op, "\x1b")
	}
}

// S2: a service that does not answer, or does not obey, is given up, and
// writes nothing into the caller's streams afterwards.
func TestGivenUp_S2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		wrote := make(chan error, 1)
		s := &scripted{work: func(_ context.Context, st remote.Streams) {
			<-release
			_, err := st.Stdout.Write([]byte("late"))
			wrote <- err
		}}
		var out bytes.Buffer
		c := sh("true")
		c.Stdout = &out
		began := time.Now()
		_, err := wait(executor(t, s).Start(t.Context(), rules(t).Delegated(), c))
		require.ErrorIs(t, err, toolresult.OutcomeUnknown)
		require.Equal(t, 2*time.Minute, time.Since(began), "the rules' minute, the grace, and the grace once more")
		close(release)
		require.Error(t, <-wrote)
		require.Zero(t, out.Len())
	})
}

// S2: Kill and the end of the context reach the service.
func TestKill_S2(t *testing.T) {
	obeys := func(ctx context.Context, _ remote.Streams) { <-ctx.Done() }
	killed := func(o *remote.Outcome) *remote.Outcome { o.ExitCode, o.Signal = -1, "killed"; return o }
	s := &scripted{work: obeys, run: killed}
	run, err := executor(t, s).Start(t.Context(), rules(t).Delegated(), sh("true"))
	require.NoError(t, err)
	require.NoError(t, run.Kill())
	require.NoError(t, run.Kill())
	res, err := run.Wait()
	require.NoError(t, err)
	require.Equal(t, "killed", res.Signal)
	require.False(t, res.TimedOut)
	_, err = run.Wait()
	require.ErrorContains(t, err, "twice")

	ctx, cancel := context.WithCancel(t.Context())
	run, err = executor(t, s).Start(ctx, rules(t).Delegated(), sh("true"))
	require.NoError(t, err)
	cancel()
	res, err = run.Wait()
	require.NoError(t, err)
	require.True(t, res.TimedOut)
	_, err = executor(t, s).Start(ctx, rules(t).Delegated(), sh("true"))
	require.ErrorIs(t, err, context.Canceled)
}

// scripted is a service that does what it is told.
type scripted struct {
	probe func(*sandbox.Report) *sandbox.Report
	run   func(*remote.Outcome) *remote.Outcome
	work  func(context.Context, remote.Streams)
	fails error
	runs  int
}

func (s *scripted) report(text json.RawMessage, digest string) (*sandbox.Report, error) {
	r, err := sandbox.ParseRules(text, digest)
	if err != nil {
		return nil, err
	}
	return naive{}.Probe(context.Background(), r)
}

func (s *scripted) Probe(ctx context.Context, text json.RawMessage, digest string) (*sandbox.Report, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	rep, err := s.report(text, digest)
	if err == nil && s.probe != nil {
		rep = s.probe(rep)
	}
	return rep, err
}

func (s *scripted) Run(ctx context.Context, q *remote.Request, st remote.Streams) (*remote.Outcome, error) {
	s.runs++
	if s.work != nil {
		s.work(ctx, st)
	}
	if s.fails != nil {
		return nil, s.fails
	}
	rep, err := s.report(q.Rules, q.Digest)
	o := &remote.Outcome{Request: q.Sum(), Report: rep}
	if s.run != nil {
		o = s.run(o)
	}
	return o, err
}

func rules(t *testing.T) *sandbox.Rules {
	t.Helper()
	p := &sandbox.Policy{Filesystem: sandbox.Filesystem{System: true, AllowWrite: []string{"./"}}}
	r, err := p.Resolve(sandbox.Base{Workspace: t.TempDir()})
	require.NoError(t, err)
	return r
}

func sh(script string) *sandbox.Command {
	return &sandbox.Command{Path: "/bin/sh", Args: []string{"-c", script}}
}

func wait(run sandbox.Running, err error) (*sandbox.Result, error) {
	if err != nil {
		return nil, err
	}
	return run.Wait()
}
