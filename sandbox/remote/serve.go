package remote

import (
	"context"
	"encoding/json"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Serve returns the other end: a service that runs requests in an executor of
// its machine. Who receives requests must authenticate who sends them.
func Serve(x sandbox.Executor) Service { return server{x} }

type server struct{ x sandbox.Executor }

// Probe implements [Service].
func (s server) Probe(ctx context.Context, rules json.RawMessage, digest string) (*sandbox.Report, error) {
	r, err := sandbox.ParseRules(rules, digest)
	if err != nil {
		return nil, err
	}
	return s.x.Probe(ctx, r)
}

// Run implements [Service].
func (s server) Run(ctx context.Context, q *Request, st Streams) (*Outcome, error) {
	if q == nil {
		return nil, toolresult.NewError(toolresult.InvalidInput, "there is no request")
	}
	r, err := sandbox.ParseRules(q.Rules, q.Digest)
	if err != nil {
		return nil, err
	}
	run, err := s.x.Start(ctx, r, &sandbox.Command{Path: q.Path, Args: q.Args, Dir: q.Dir, Env: q.Env, Pins: q.Pins, Stdin: st.Stdin, Stdout: st.Stdout, Stderr: st.Stderr})
	if err != nil {
		return nil, err
	}
	res, err := run.Wait()
	if err != nil {
		return nil, err
	}
	return &Outcome{
		Request: q.Sum(), ExitCode: res.ExitCode, Signal: res.Signal, TimedOut: res.TimedOut, Truncated: res.Truncated,
		Denials: res.Denials, Dropped: res.Dropped, Report: res.Report,
	}, nil
}
