package writes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func approvals() []check.Check {
	return []check.Check{
		{
			ID: "approval/required", Since: frozen, Needs: needsWrite, Kills: []string{"approval-ignored"},
			Promise: "A change that a person has to approve is not made before, however often it is asked for.",
			Run: onWrites(func(ctx context.Context, s *check.Session, c check.Call) {
				c.Key = "approval-required-key-" + c.Capability
				unapproved(ctx, s, c)
			}),
		},
		{
			ID: "approval/bound-to-arguments", Since: frozen, Needs: needsWrite, Kills: []string{"approval-any"},
			Promise: "The approval of one change does not make another.",
			Run: onWrites(func(ctx context.Context, s *check.Session, c check.Call) {
				other := c
				if other.Args = c.Sample.Other; other.Args == "" || other.Args == c.Args {
					s.Inconclusive("no second change to compare with: set Sample.Other of " + c.Capability)
					return
				}
				first := s.Prepare(ctx, c)
				named := other
				named.Approval, named.Key = first.Approval, first.Key
				unapproved(ctx, s, named)
				s.Do(ctx, first)
				unapproved(ctx, s, other)
			}),
		},
		{
			ID: "approval/bound-to-principal", Since: frozen, Needs: needsWrite, Kills: []string{"approval-anyone"},
			Promise: "An approval is for the one who asked: nobody else can make the change by it.",
			Run: onWrites(func(ctx context.Context, s *check.Session, c check.Call) {
				first := s.Prepare(ctx, c)
				other := c
				other.Who, other.Approval, other.Key = check.Carol, first.Approval, first.Key
				unapproved(ctx, s, other)
				s.Do(ctx, first)
				other.Approval, other.Key = "", ""
				unapproved(ctx, s, other)
			}),
		},
		{
			ID: "approval/single-use", Since: frozen, Needs: needsWrite, Kills: []string{"approval-reusable"},
			Promise: "One approval makes one change; the same again needs another.",
			Run: onWrites(func(ctx context.Context, s *check.Session, c check.Call) {
				first := s.Prepare(ctx, c)
				s.Expect(first.Approval != "", c.Capability+": no approval could be got", "one")
				s.Do(ctx, first)
				again := c
				again.Key = "approval-again-key-" + c.Capability
				unapproved(ctx, s, again)
				again.Approval = first.Approval
				unapproved(ctx, s, again)
			}),
		},
		{
			ID: "approval/expires", Since: frozen, Needs: needsWrite, Kills: []string{"approval-immortal"},
			Promise: "An approval that is over makes no change.",
			Run: onWrites(func(ctx context.Context, s *check.Session, c check.Call) {
				first := s.Prepare(ctx, c)
				s.Wait(48 * time.Hour)
				unapproved(ctx, s, first)
			}),
		},
		{
			ID: "approval/shown-is-sent", Since: frozen, Needs: needsWrite, Kills: []string{"hidden-field"},
			Promise: "What a person is shown is what is sent: where it goes, and every text in it.",
			Run:     onWrites(runShown),
		},
	}
}

// onWrites runs f for each write, each on a session whose policy asks for an
// approval of everything.
func onWrites(f func(ctx context.Context, s *check.Session, c check.Call)) func(context.Context, *check.Session) {
	return func(ctx context.Context, s *check.Session) {
		for i, c := range s.Writes() {
			if i > 0 {
				s = s.Fresh()
			}
			s.Policy.Set(func(req *authz.Request) (authz.Decision, error) {
				d := check.AllowAsked(req)
				if req.Principal.Key().Subject != check.Dave {
					d.Verdict = authz.AllowWithApproval
				}
				return d, nil
			})
			f(ctx, s, c)
		}
	}
}

// unapproved expects that a call is refused for its approval, twice, and that
// nothing is changed.
func unapproved(ctx context.Context, s *check.Session, c check.Call) {
	if c.Unapproved = true; c.Key == "" {
		c.Key = s.Request(c).Key // one change that is asked for twice
	}
	before, sent := s.Snapshot(), len(check.Changed(s.Seen()))
	for range 2 {
		r := s.Do(ctx, c)
		s.WantCode(c, r, toolresult.ApprovalRequired, toolresult.ApprovalInvalid, toolresult.Conflict)
	}
	s.Expect(len(check.Changed(s.Seen())) == sent && s.Snapshot() == before, c.Capability+": a change was made that nobody approved", "nothing")
}

func runShown(ctx context.Context, s *check.Session, c check.Call) {
	first := c
	first.Unapproved, first.Key = true, "approval-shown-key-"+c.Capability
	r := s.Do(ctx, first)
	if !s.Expect(r.Error != nil && r.Error.Approval != nil, c.Capability+": "+s.Describe(r), "a question with what would be sent") {
		return
	}
	shown := r.Error.Approval.Rendering
	first.Unapproved = false
	n := s.Requests()
	s.Do(ctx, first)
	sent := check.Changed(s.Since(n))
	if !s.Expect(len(sent) == 1, fmt.Sprintf("%s: %d changes were sent", c.Capability, len(sent)), "one") {
		return
	}
	x := sent[0]
	s.Expect(strings.Contains(shown, x.Method) && strings.Contains(shown, x.URL), c.Capability+": the question does not show "+x.Method+" "+x.URL+": "+shown, "where it goes")
	for _, text := range leaves(x.Body) {
		s.Expect(strings.Contains(shown, text), c.Capability+": the question does not show "+text, "everything that is sent")
	}
}

// leaves lists the texts and numbers of a JSON body; of another body, its whole.
func leaves(body []byte) (out []string) {
	var v any
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return []string{string(body)}
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			quoted, err := json.Marshal(v)
			if err == nil {
				out = append(out, strings.Trim(string(quoted), `"`))
			}
		case json.Number:
			out = append(out, v.String())
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return slices.Compact(out)
}
