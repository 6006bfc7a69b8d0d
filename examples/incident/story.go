package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// story is a run: an MCP server over HTTP, and a client for each person.
type story struct {
	w       *world
	out     printer
	base    string
	tokens  map[string]string // token -> user; made for this run
	clients map[string]*mcp.ClientSession
	failed  []string

	found     *findings
	operation string // of alice's ticket
	file      string // the evidence page; may be empty
}

// tell runs the story and fails if anything in it is not as it has to be.
func tell(ctx context.Context, w *world, out io.Writer, file string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s := &story{w: w, out: printer{out}, tokens: map[string]string{}, clients: map[string]*mcp.ClientSession{}, found: newFindings(), file: file}
	stop, err := s.serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, user := range []string{"alice", "bob"} {
		if err := s.connect(ctx, user); err != nil {
			return err
		}
		defer s.clients[user].Close()
	}
	for _, act := range []func(context.Context) error{s.recover, s.tools, s.evidence, s.logs, s.refusal, s.approval, s.ticket, s.diagnosis} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	if s.failed != nil {
		return errors.New("not as it has to be: " + strings.Join(s.failed, "; "))
	}
	return nil
}

// serve puts the invoker on MCP over HTTP. A request's bearer token says who
// calls; a later version verifies tokens of an authorization server instead.
func (s *story) serve(context.Context) (stop func(), err error) {
	who := func(_ context.Context, r *http.Request) (authz.Principal, error) {
		if r == nil {
			return authz.Principal{}, toolresult.NewError(toolresult.AuthenticationRequired, "the story is told over HTTP")
		}
		user, ok := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		if !ok {
			return authz.Principal{}, toolresult.NewError(toolresult.AuthenticationRequired, "the token is not known")
		}
		return s.w.Principal(user)
	}
	adapter, err := mcpadapter.New(s.w.Invoker, who, s.w.options())
	if err != nil {
		return nil, err
	}
	for _, user := range []string{"alice", "bob"} {
		s.tokens[rand.Text()] = user
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: adapter.HTTP(), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	s.base = "http://" + l.Addr().String()
	return func() { _ = srv.Close(); <-done }, nil
}

// bearer puts a person's token on what their client sends.
type bearer struct {
	token string
	next  *http.Transport
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

func (s *story) connect(ctx context.Context, user string) error {
	for token, u := range s.tokens {
		if u != user {
			continue
		}
		transport := &mcp.StreamableClientTransport{Endpoint: s.base, HTTPClient: &http.Client{Transport: bearer{token, &http.Transport{}}}, DisableStandaloneSSE: true}
		client, err := mcp.NewClient(&mcp.Implementation{Name: "incident-agent-of-" + user, Version: "1.0.0"}, nil).Connect(ctx, transport, nil)
		s.clients[user] = client
		return err
	}
	return fmt.Errorf("%s has no token", user)
}

// call calls a tool as a person and returns the envelope.
func (s *story) call(ctx context.Context, user, tool, key string, args any) (*toolresult.Result, error) {
	p := &mcp.CallToolParams{Name: tool, Arguments: args}
	if key != "" {
		p.Meta = mcp.Meta{mcpadapter.OperationMeta: key}
	}
	res, err := s.clients[user].CallTool(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	text, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return nil, err
	}
	var r toolresult.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	if user == "alice" { // the agent whose report it is
		s.found.note(tool, s.w.versions[tool], &r)
	}
	return &r, nil
}

// must notes what has to be so.
func (s *story) must(ok bool, what string) {
	if !ok {
		s.failed = append(s.failed, what)
	}
}

// recover looks up what an earlier run left behind: a process that was killed
// between sending a change and its receipt.
func (s *story) recover(ctx context.Context) error {
	left, err := s.w.state.Unsettled(ctx, time.Now().Add(time.Hour), 10)
	if err != nil || len(left) == 0 {
		return err
	}
	s.out.title("What an earlier run left behind")
	for _, rec := range left {
		s.out.line("%s, key %s: %s", rec.Binding.Capability, rec.Key, rec.State)
	}
	settled := 0
	for tries := 0; settled < len(left) && tries < 30; tries++ { // a request of the killed process may still be under way
		n, err := s.w.Invoker.Recover(ctx, 10)
		if settled += n; err != nil {
			return err
		}
		if settled < len(left) {
			if err := pause(ctx); err != nil {
				return err
			}
		}
	}
	s.out.line("looked up at the provider, nothing sent: %d of %d settled", settled, len(left))
	s.must(settled == len(left), "what was left behind is settled")
	return nil
}

// pause waits a second: a real system may still be at it.
func pause(ctx context.Context) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *story) tools(ctx context.Context) error {
	s.out.title("%s: P95 latency of %s/%s", alr.AlertID, alr.Namespace, alr.Service)
	list, err := s.clients["alice"].ListTools(ctx, nil)
	if err != nil {
		return err
	}
	var names []string
	for _, t := range list.Tools {
		names = append(names, t.Name)
	}
	s.out.line("alice is on call and sees %d tools: %s", len(names), strings.Join(names, ", "))
	return nil
}

// question is one read, and how its data are shown.
type question struct {
	tool  string
	args  map[string]any
	about string
}

func window(args map[string]any) map[string]any {
	args["start"], args["end"] = "2026-04-29T02:35:00Z", "2026-04-29T02:50:00Z"
	return service(args)
}

func service(args map[string]any) map[string]any {
	args["namespace"], args["service"] = alr.Namespace, alr.Service
	return args
}

func (s *story) evidence(ctx context.Context) error {
	s.out.title("Evidence")
	for _, q := range evidence() {
		r, err := s.call(ctx, "alice", q.tool, "", q.args)
		if err != nil {
			return err
		}
		s.out.result(q.tool, q.about, r)
		s.must(r.Err() == nil, q.tool+" answers")
	}
	return nil
}

// logs asks for a page of the log and says aloud that it is one.
func (s *story) logs(ctx context.Context) error {
	args := window(map[string]any{"page_size": 3})
	r, err := s.call(ctx, "alice", "loki_search", "", args)
	if err != nil {
		return err
	}
	s.out.result("loki_search", "a page of three lines", r)
	s.must(r.Status == toolresult.StatusPartial && r.NextCursor != "", "the log search stays partial")
	args["cursor"] = r.NextCursor
	next, err := s.call(ctx, "alice", "loki_search", "", args)
	if err != nil {
		return err
	}
	s.out.result("loki_search", "the next page, by its cursor", next)
	s.must(next.Err() == nil, "the cursor is good for the same question")
	other, err := s.call(ctx, "bob", "loki_search", "", args)
	if err != nil {
		return err
	}
	s.out.result("loki_search", "the same cursor in bob's hands", other)
	s.must(toolresult.Code(other.Err()) == toolresult.CursorInvalid, "a cursor is its owner's")
	return nil
}

// refusal asks for another tenant's service.
func (s *story) refusal(ctx context.Context) error {
	s.out.title("Another tenant's service")
	before := s.w.requests()
	args := window(map[string]any{"metric": "latency_p95"})
	args["namespace"], args["service"] = alr.OtherNamespace, alr.OtherService
	r, err := s.call(ctx, "alice", "prometheus_query_range", "", args)
	if err != nil {
		return err
	}
	s.out.result("prometheus_query_range", alr.OtherNamespace+"/"+alr.OtherService, r)
	s.must(toolresult.Code(r.Err()) == toolresult.PermissionDenied, "another tenant's service is refused")
	if before >= 0 {
		s.out.line("requests that left for a provider: %d", s.w.requests()-before)
		s.must(s.w.requests() == before, "nothing is sent")
	}
	return nil
}

func ticket(subject string) map[string]any {
	return map[string]any{"project": "inc", "subject": subject, "priority": "high",
		"description": "P95 of prod/order-service rose from 0.21 s to 2.1 s at 02:37Z, two minutes after a rollout. Cause not established."}
}

const subject = alr.AlertID + ": P95 of order-service at 2.1 s since 02:37Z"

// approval shows what bob gets: he may create a ticket once somebody has
// approved it.
func (s *story) approval(ctx context.Context) error {
	s.out.title("A ticket, by bob")
	r, err := s.call(ctx, "bob", "create_incident_ticket", "bob-"+alr.OperationKey, ticket(subject))
	if err != nil {
		return err
	}
	s.out.result("create_incident_ticket", "the policy wants a person's approval", r)
	s.must(toolresult.Code(r.Err()) == toolresult.ApprovalRequired && r.Error.Approval != nil, "bob needs an approval")
	s.must(r.Effect.Disposition == toolresult.EffectNone, "nothing was attempted")
	return nil
}

// ticket is created once, although its receipt is lost.
func (s *story) ticket(ctx context.Context) error {
	s.out.title("A ticket, by alice, whose receipt is lost")
	if s.w.lose() {
		s.out.line("(the ticket system will do the work and the connection will break before it answers)")
	}
	r, err := s.call(ctx, "alice", "create_incident_ticket", alr.OperationKey, ticket(subject))
	if err != nil {
		return err
	}
	s.out.result("create_incident_ticket", "operation key "+alr.OperationKey, r)
	if s.w.redmine != nil {
		s.must(r.Meaning() == toolresult.MeaningUnknownEffect, "a lost receipt is an unknown effect")
	}
	if r.Meaning() == toolresult.MeaningUnknownEffect {
		if r, err = s.resolve(ctx, r); err != nil {
			return err
		}
	}
	s.operation = r.Effect.OperationID
	var created struct{ Ticket string }
	s.must(r.Effect.Disposition == toolresult.EffectApplied && json.Unmarshal(r.Data, &created) == nil, "the ticket is found")
	again, err := s.call(ctx, "alice", "create_incident_ticket", alr.OperationKey, ticket(subject))
	if err != nil {
		return err
	}
	s.out.result("create_incident_ticket", "the same operation once more", again)
	s.must(string(again.Data) == string(r.Data), "a repeat returns the stored receipt")
	if n := s.w.created(); n >= 0 {
		s.out.line("tickets in the ticket system: %d", n)
		s.must(n == 1, "one ticket")
		s.must(created.Ticket == fmt.Sprintf("INC-%d", alr.Ticket), "it is INC-4821")
	}
	s.out.title("%s, created once", created.Ticket)
	return nil
}

// resolve is what a runtime does about an unknown effect: it does not repeat the
// change under another key, it looks.
func (s *story) resolve(ctx context.Context, unknown *toolresult.Result) (*toolresult.Result, error) {
	reworded, err := s.call(ctx, "alice", "create_incident_ticket", alr.OperationKey+"-2", ticket("order-service is slow"))
	if err != nil {
		return nil, err
	}
	s.out.result("create_incident_ticket", "reworded, under a new key", reworded)
	s.must(toolresult.Code(reworded.Err()) == toolresult.Conflict, "a reworded repeat is refused while the first is unknown")
	for range 20 {
		r, err := s.call(ctx, "alice", mcpadapter.StatusTool, "", map[string]any{"operation_id": unknown.Effect.OperationID})
		if err != nil {
			return nil, err
		}
		s.out.result(mcpadapter.StatusTool, unknown.Effect.OperationID, r)
		if r.Meaning() != toolresult.MeaningUnknownEffect {
			return r, nil
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	return unknown, nil
}
