package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const subject = alr.AlertID + ": latency of order-service"

// draft is the ticket that the agent proposes: what its evidence says, and no
// more.
func (s *story) draft(subject string) map[string]any {
	said := []string{}
	for _, part := range []struct {
		tool string
		text func() string
	}{{"prometheus_query_range", s.found.rise}, {"list_recent_deployments", s.found.deployed}} {
		if _, ok := s.found.cites[part.tool]; ok {
			said = append(said, part.text())
		}
	}
	said = append(said, "The cause is not established.")
	return map[string]any{"project": "inc", "subject": subject, "priority": "high", "description": strings.Join(said, " ")}
}

const create = "create_incident_ticket"

// approval asks a person about the ticket as it would be sent.
func (s *story) approval(ctx context.Context) error {
	s.out.title("A ticket, which a person approves")
	r, err := s.written(ctx, create, "the policy wants a person's approval", alr.OperationKey, s.draft(subject))
	switch {
	case err != nil:
		return err
	case r.Effect.Disposition == toolresult.EffectApplied:
		s.out.line("An earlier run over the same state has created it: this is its receipt.")
		return s.settled(r)
	case r.Error == nil || r.Error.Approval == nil:
		return fmt.Errorf("no approval was asked for: %w", r.Err())
	}
	s.must(r.Effect.Disposition == toolresult.EffectNone, "nothing was attempted")
	lead, err := s.w.Principal(approver)
	if err != nil {
		return err
	}
	q, err := s.w.Invoker.Approval(ctx, lead, r.Error.Approval.ID)
	if err != nil {
		return err
	}
	s.out.blank()
	s.out.line("This, byte for byte, is what would be sent:")
	s.out.whole(q.Rendering)
	answer, err := s.ask.answer(ctx, s, q)
	if err != nil {
		return err
	}
	s.facts.Approval = approved{Asked: true, Given: answer.Given(), How: s.ask.how(), Rendering: q.Rendering, Digest: short(q.Statement.Digest()), Script: s.ask.mode == "script"}
	if !answer.Given() {
		s.refused("the ticket", "a person said no ("+s.ask.how()+")")
		return s.declined(ctx)
	}
	s.out.line("%s by %s", s.out.paint(good, "approved"), s.ask.how())
	other, err := s.call(ctx, caller, create, alr.OperationKey, s.draft(subject+"!"))
	if err != nil {
		return err
	}
	s.refused("the same ticket with one more character", string(toolresult.Code(other.Err()))+": one approval is for these bytes")
	s.must(other.Err() != nil && other.Effect.Disposition == toolresult.EffectNone, "an approval is for what was shown")
	return nil
}

// declined shows that a no stays one.
func (s *story) declined(ctx context.Context) error {
	r, err := s.call(ctx, caller, create, alr.OperationKey, s.draft(subject))
	if err != nil {
		return err
	}
	s.refused("the same ticket, asked for again", string(toolresult.Code(r.Err())))
	s.must(toolresult.Code(r.Err()) == toolresult.ApprovalInvalid && r.Effect.Disposition == toolresult.EffectNone, "a person's no stays one")
	s.must(s.w.created() <= 0, "nothing was created")
	return nil
}

// killed makes the approved call in a process that does not survive it.
func (s *story) killed(ctx context.Context) error {
	s.out.title("The receipt is lost, and the process is killed")
	if !s.facts.Approval.Given {
		s.out.line("There is nothing to send.")
		return nil
	}
	done := s.out.working("another process sends the ticket")
	pid, err := s.crash(ctx)
	done()
	if err != nil {
		return err
	}
	s.facts.Killed = pid
	s.out.line("Process %d sent the ticket. The ticket system did the work and answered; the answer was held back on the way, and the process got SIGKILL before it could store anything.", pid)
	left, err := s.left(ctx)
	if err != nil {
		return err
	}
	for _, rec := range left {
		s.out.line("What the ledger (%s) says: %s, key %s, %s.", s.w.state.database, rec.Binding.Capability, rec.Key, rec.State)
	}
	s.must(len(left) == 1, "the ledger knows of one operation without an outcome")
	again, err := s.written(ctx, create, "the agent, started again, repeats its call", alr.OperationKey, s.draft(subject))
	if err != nil {
		return err
	}
	s.must(unknown(again), "a lost receipt is an unknown effect")
	s.operation = again.Effect.OperationID
	return s.reworded(ctx)
}

// reworded tries to get round the unknown outcome by another key. A script
// approves that, too: it does not help.
func (s *story) reworded(ctx context.Context) error {
	key, args := alr.OperationKey+"-2", s.draft("order-service is slow")
	r, err := s.call(ctx, caller, create, key, args)
	if err != nil {
		return err
	}
	want, what := toolresult.ApprovalRequired, "other words under a new key"
	if s.ask.mode == "script" && r.Error != nil && r.Error.Approval != nil {
		lead, err := s.w.Principal(approver)
		if err != nil {
			return err
		}
		q, err := s.w.Invoker.Approval(ctx, lead, r.Error.Approval.ID)
		if err != nil {
			return err
		}
		if _, err := s.ask.answer(ctx, s, q); err != nil {
			return err
		}
		if r, err = s.call(ctx, caller, create, key, args); err != nil {
			return err
		}
		want, what = toolresult.Conflict, what+", although approved"
	}
	s.out.blank()
	s.refused(what, string(toolresult.Code(r.Err()))+": the first ticket may be there")
	s.must(toolresult.Code(r.Err()) == want && r.Effect.Disposition == toolresult.EffectNone, "a reworded repeat is refused while the first is unknown")
	return nil
}

// recovery looks what became of the ticket, and sends none.
func (s *story) recovery(ctx context.Context) error {
	s.out.title("Recovery: look, do not repeat")
	if s.operation == "" {
		s.out.line("There is nothing to recover.")
		return nil
	}
	s.out.line("A job looks at what was left behind, as soon as the dead request can no longer be under way.")
	done := s.out.working("the job waits, then asks the ticket system for " + alr.OperationKey)
	err := s.recoverAll(ctx)
	done()
	if err != nil {
		return err
	}
	r, err := s.asked(ctx, mcpadapter.StatusTool, "from the ticket system's own record", map[string]any{"operation_id": s.operation})
	if err != nil {
		return err
	}
	again, err := s.written(ctx, create, "the same call once more: its stored receipt", alr.OperationKey, s.draft(subject))
	if err != nil {
		return err
	}
	s.must(string(again.Data) == string(r.Data), "a repeat returns the stored receipt")
	return s.settled(r)
}

// settled notes a ticket whose record was read.
func (s *story) settled(r *toolresult.Result) error {
	var created struct{ Ticket string }
	if r.Effect.Disposition != toolresult.EffectApplied || json.Unmarshal(r.Data, &created) != nil || created.Ticket == "" {
		return errors.New("the ticket is not found")
	}
	s.operation, s.ticket = r.Effect.OperationID, created.Ticket
	s.out.blank()
	if n := s.w.created(); n >= 0 {
		s.out.line("Tickets in the ticket system: %d.", n)
		s.must(n == 1, "one ticket")
	}
	s.must(created.Ticket == fmt.Sprintf("INC-%d", alr.Ticket), "it is INC-4821")
	s.out.line("%s", s.out.paint(bold, created.Ticket+", created once."))
	return nil
}
