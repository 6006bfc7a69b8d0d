package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/job"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// oneCall is the subcommand of the process that is killed: it makes the approved
// call with the arguments that it reads, and prints the envelope if it lives to
// see one.
const oneCall = "one-call"

func makeCall(ctx context.Context, w *world, in io.Reader, out io.Writer) error {
	who, err := w.Principal(caller)
	if err != nil {
		return err
	}
	args, err := io.ReadAll(io.LimitReader(in, 1<<20))
	if err != nil {
		return err
	}
	r := w.Invoker.Invoke(ctx, &connector.InvokeRequest{Principal: who, Capability: "create_incident_ticket", Arguments: args,
		Profile: w.caps.profile.ID(), Key: alr.OperationKey, Run: runID, Surface: "go"})
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

// crash makes the call in a process of its own, and kills that with SIGKILL when
// the ticket system has answered and before the answer has arrived. It returns
// the process id.
func (s *story) crash(ctx context.Context) (pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	args, err := json.Marshal(s.draft(subject))
	if err != nil {
		return 0, err
	}
	for range 3 {
		var said bytes.Buffer
		cmd := exec.Command(self, s.w.oneCallArgs()...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(args), &said, &said
		killed, err := s.kill(ctx, cmd)
		if err != nil {
			return 0, err
		}
		if killed {
			return cmd.Process.Pid, nil
		}
		// It ended by itself before anything was sent: a machine that is very
		// busy ran out of time. The same key may be tried again.
		var r toolresult.Result
		if json.Unmarshal(said.Bytes(), &r) != nil || r.Effect.Disposition == toolresult.EffectUnknown || toolresult.Code(r.Err()) != toolresult.Timeout {
			return 0, fmt.Errorf("the process that makes the call ended by itself: %s", strings.TrimSpace(said.String()))
		}
	}
	return 0, errors.New("the process that makes the call had no time to make it")
}

// kill starts a process and kills it once its answer is held back. Killed is
// false if it ended by itself, and then nothing is held.
func (s *story) kill(ctx context.Context, cmd *exec.Cmd) (killed bool, err error) {
	held := s.w.wire.hold()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-held:
	case <-ended:
		return false, nil
	case <-ctx.Done():
	}
	if err := cmd.Process.Kill(); err != nil { // SIGKILL, to the process that was started here
		return false, err
	}
	if err := <-ended; err == nil || ctx.Err() != nil {
		return false, errors.Join(errors.New("the process was not killed in the middle of its call"), ctx.Err())
	}
	return true, nil
}

// oneCallArgs are the arguments by which another process has the same state and
// the same way to the ticket system.
func (w *world) oneCallArgs() []string {
	args := []string{oneCall, "-state", w.state.where.dir, "-tickets", w.tickets, "-ticket-timeout", w.real.patience.String()}
	if w.state.where.postgres != "" {
		args = append(args, "-postgres", w.state.where.postgres)
	}
	if *w.real.keys != "" && w.real.is("tickets") {
		args = append(args, "-keys", *w.real.keys)
	}
	return args
}

// recoverAll runs the job that a host runs in the background, each second in
// place of each minute, until nothing is left behind. It sends no change.
func (s *story) recoverAll(ctx context.Context) error {
	sweep := job.Recover(s.w.Invoker, 10)
	sweep.Every = time.Second
	runner, err := job.Open(ctx, s.w.state.db, s.w.state.dialect, []job.Sweep{sweep}, nil)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(running) }()
	defer func() { stop(); <-ended }()
	for {
		left, err := s.left(ctx)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case err := <-ended:
			ended <- nil
			return fmt.Errorf("the job ended: %w", errors.Join(err, ctx.Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// left are the operations whose outcome is not known.
func (s *story) left(ctx context.Context) ([]operation.Record, error) {
	return s.w.state.Unsettled(ctx, time.Now().Add(time.Hour), 10)
}

// wait waits, for something outside of this program.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unknown reports whether an effect is not known, as far as a result says.
func unknown(r *toolresult.Result) bool { return r.Meaning() == toolresult.MeaningUnknownEffect }
