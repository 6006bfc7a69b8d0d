package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
	"github.com/drawbridge-sdk/drawbridge/sandbox/process"
	"github.com/drawbridge-sdk/drawbridge/skill/profile"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// acts is how many acts there are.
const acts = 10

// story is a run: an MCP server over HTTP, and a client for each person.
type story struct {
	w    *world
	self process.Self
	out  *printer
	ask  *asker
	file string // the evidence page; may be empty

	base    string
	tokens  map[string]string // token -> user; made for this run
	clients map[string]*mcp.ClientSession
	lines   []*http.Transport // of the clients
	failed  []string

	found     *findings
	operation string // of the ticket
	ticket    string // its name, once the ticket system's record was read
	facts     facts  // for the page
}

// facts are what the page shows beside calls and report.
type facts struct {
	Skill, Profile, Policy string
	Granted                []string
	Loaded                 []profile.Loaded
	Asked                  []string // tools that the skill asks for beyond the profile
	Account                []string // what became of it
	Analysis               *analysis
	Refused                []refusal
	Approval               approved
	Killed                 int // process id
	Database               string
}

// refusal is something that was not let through.
type refusal struct{ What, Why string }

// approved is a person's answer, or a script's.
type approved struct {
	Asked     bool
	Given     bool
	How       string
	Rendering string
	Digest    string
	Script    bool
}

// tell runs the story and fails if anything in it is not as it has to be.
func tell(ctx context.Context, s *story) error {
	limit := 3 * time.Minute
	if s.ask.mode != "script" { // people take their time
		limit = time.Hour
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.tokens, s.clients, s.found = map[string]string{}, map[string]*mcp.ClientSession{}, newFindings()
	stop, err := s.serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, user := range []string{caller, approver} {
		if err := s.connect(ctx, user); err != nil {
			return errors.Join(err, s.hangUp())
		}
	}
	defer s.hangUp()
	for _, act := range []func(context.Context) error{
		s.beginning, s.capabilities, s.account, s.evidence, s.analysis, s.refusals, s.approval, s.killed, s.recovery, s.farewell, s.diagnosis,
	} {
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
	for _, user := range []string{caller, approver} {
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
		out := &http.Transport{}
		s.lines = append(s.lines, out)
		transport := &mcp.StreamableClientTransport{Endpoint: s.base, HTTPClient: &http.Client{Transport: bearer{token, out}}, DisableStandaloneSSE: true}
		client, err := mcp.NewClient(&mcp.Implementation{Name: "incident-agent-of-" + user, Version: "1.0.0"}, nil).Connect(ctx, transport, nil)
		if err == nil {
			s.clients[user] = client
		}
		return err
	}
	return fmt.Errorf("%s has no token", user)
}

// hangUp ends the clients and their connections.
func (s *story) hangUp() error {
	var errs []error
	for _, c := range s.clients {
		errs = append(errs, c.Close())
	}
	for _, l := range s.lines {
		l.CloseIdleConnections()
	}
	return errors.Join(errs...)
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
	if user == caller { // the agent whose report it is
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

// refused shows something that was not let through, and keeps it for the page.
func (s *story) refused(what, why string) {
	s.facts.Refused = append(s.facts.Refused, refusal{what, why})
	s.out.refused("%s: %s", what, why)
}

// asked calls a tool for the agent and shows the answer.
func (s *story) asked(ctx context.Context, tool, about string, args any) (*toolresult.Result, error) {
	return s.written(ctx, tool, about, "", args)
}

// written is asked for a change, under an operation key.
func (s *story) written(ctx context.Context, tool, about, key string, args any) (*toolresult.Result, error) {
	done := s.out.working("asking " + tool)
	r, err := s.call(ctx, caller, tool, key, args)
	done()
	if err == nil {
		s.out.result(tool, about, r)
	}
	return r, err
}
