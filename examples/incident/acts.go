package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/connection"
	"github.com/drawbridge-sdk/drawbridge/internal/alr"
	"github.com/drawbridge-sdk/drawbridge/skill/loader"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// beginning says what this is about, and settles what an earlier run left
// behind.
func (s *story) beginning(ctx context.Context) error {
	s.out.heading(fmt.Sprintf("%s: is %s slow, and why?", alr.AlertID, alr.Service))
	s.out.line("%s is on call. An agent works for him: it reads six systems and opens one ticket in a seventh. Watch what it is given, what it is refused, what it admits not to know, and what becomes of the ticket when its process is killed in the middle.", caller)
	s.facts.Database = s.w.state.database
	if s.w.real.is("tickets") && s.w.state.drop {
		s.out.line("(Without -state the ledger ends with this run: another run could not know of its ticket.)")
	}
	left, err := s.left(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	s.out.blank()
	for _, rec := range left {
		s.out.line("An earlier run left behind: %s, key %s, %s.", rec.Binding.Capability, rec.Key, rec.State)
	}
	done := s.out.working("looking up what an earlier run left behind")
	err = s.recoverAll(ctx)
	done()
	if err == nil {
		s.out.line("Looked up at the provider, nothing sent: settled.")
	}
	return err
}

// capabilities loads the skill and shows what it may work with.
func (s *story) capabilities(ctx context.Context) error {
	s.out.title("What the agent may use")
	who, err := s.w.caps.user()
	if err != nil {
		return err
	}
	c, p := s.w.caps, s.w.caps.profile
	cat, err := c.loader.Catalogue(ctx, who)
	if err != nil {
		return err
	}
	entry, ok := cat.Find(p.Skill().Name)
	if !ok {
		return fmt.Errorf("the catalogue has no skill %s", p.Skill().Name)
	}
	act, err := c.loader.Activate(ctx, who, runID, entry)
	if err != nil {
		return err
	}
	if _, err := act.Read(ctx, "references/report.md"); err != nil {
		return err
	}
	names, err := s.granted(ctx)
	if err != nil {
		return err
	}
	c.trace.See(runID, append(names, entry.Ref)...)
	s.facts.Skill = fmt.Sprintf("%s %s, %s", p.Skill().Name, p.Skill().Version, short(string(p.Skill().Artifact)))
	s.facts.Profile, s.facts.Policy, s.facts.Granted = fmt.Sprintf("%s, %s", p.ID(), short(string(p.Digest()))), short(p.Policy()), names
	s.out.line("Skill    %s, released and loaded step by step", s.facts.Skill)
	s.out.line("Profile  %s: exact tools, one sandbox, no credential", s.facts.Profile)
	s.out.line("Policy   %s, in Cedar, asked again at each call", s.facts.Policy)
	s.out.line("Tools    %s", strings.Join(names, ", "))
	return s.beyond(ctx, act, names)
}

// granted are the tools that the agent sees.
func (s *story) granted(ctx context.Context) (names []string, err error) {
	list, err := s.clients[caller].ListTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, t := range list.Tools {
		names = append(names, t.Name)
	}
	return names, nil
}

// beyond calls what the skill asks for and the profile does not give.
func (s *story) beyond(ctx context.Context, act *loader.Activation, granted []string) error {
	pkg, err := packageOf(skillFiles, skillDir)
	if err != nil {
		return err
	}
	s.out.line("The skill asks for %d tools. To ask is not to be given:", len(pkg.Document().AllowedTools))
	for _, hint := range pkg.Document().AllowedTools {
		tool := hint.String()
		if slices.Contains(granted, tool) {
			continue
		}
		why := "not in the profile"
		if slices.Contains(s.w.caps.profile.Prohibited(), tool) {
			why = "prohibited in the profile; no connector offers it either"
		}
		_, err := s.clients[caller].CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"runbook": "RB-102", "service": alr.Service}})
		s.must(err != nil, tool+" is refused")
		s.facts.Asked = append(s.facts.Asked, tool)
		s.refused(tool, why)
	}
	s.must(len(s.facts.Asked) == 2, "the skill asks for two tools that it does not get")
	s.must(act.Entry.Digest == s.w.caps.profile.Skill().Artifact, "the skill that is loaded is the profile's")
	return nil
}

// account connects bob's account at the deployments service.
func (s *story) account(ctx context.Context) error {
	s.out.title("An account for the second hop")
	if s.w.accounts == nil {
		s.out.line("Deployments are a real system here, reached with the operator's key; nobody connects an account.")
		return nil
	}
	who, err := s.w.Principal(caller)
	if err != nil {
		return err
	}
	if err := s.unconnected(ctx, who); err != nil {
		return err
	}
	c, err := s.w.accounts.connect(ctx, who)
	if err != nil {
		return err
	}
	s.out.blank()
	s.out.line("%s consents at the embedded authorization server, with PKCE (here a script does what his browser would). The provider says whose account it is; nobody types it:", caller)
	said := fmt.Sprintf("connected: %s of %s, scope %s, %s", c.Account, c.Org, strings.Join(c.Scopes, " "), c.State)
	s.facts.Account = append(s.facts.Account, said)
	s.out.line("%s", said)
	s.must(c.Account == caller && c.State == connection.Active, "the account is connected")
	// The token lives for a second. The next use renews it.
	done := s.out.working("waiting until the access token is over")
	defer done()
	return wait(ctx, time.Second)
}

// unconnected shows that nothing is read before there is an account.
func (s *story) unconnected(ctx context.Context, who authz.Principal) error {
	before, err := s.w.accounts.manager.Connections(ctx, who)
	if err != nil {
		return err
	}
	if len(before) > 0 { // the story of an earlier run over the same state was broken off
		s.out.line("The authorization server that %s's account comes from has ended with an earlier run.", caller)
		return nil
	}
	q := rollouts()
	r, err := s.asked(ctx, q.tool, "before "+caller+" has connected an account", q.args)
	if err == nil {
		s.must(toolresult.Code(r.Err()) == toolresult.ConnectionRequired, "nobody's account is used before it is connected")
	}
	return err
}

// evidence asks what there is to be asked, and says what an answer lacks.
func (s *story) evidence(ctx context.Context) error {
	s.out.title("Evidence, and its gaps")
	for _, q := range evidence() {
		r, err := s.asked(ctx, q.tool, q.about, q.args)
		if err != nil {
			return err
		}
		s.must(r.Err() == nil, q.tool+" answers")
	}
	if a := s.w.accounts; a != nil {
		renewed := a.as.Count("issued refresh_token")
		s.facts.Account = append(s.facts.Account, fmt.Sprintf("used for the rollouts; the access token was over and was renewed %d time(s)", renewed))
		s.out.blank()
		s.out.line("The rollouts were read with %s's own token, which was over and was renewed: %d time(s).", caller, renewed)
		s.must(renewed >= 1, "the account's token was renewed")
	}
	return s.logs(ctx)
}

// logs asks for a page of the log and says aloud that it is one.
func (s *story) logs(ctx context.Context) error {
	args := window(map[string]any{"page_size": 3})
	r, err := s.asked(ctx, "loki_search", "a page of three lines", args)
	if err != nil {
		return err
	}
	s.must(r.Status == toolresult.StatusPartial && r.NextCursor != "", "the log search stays partial")
	args["cursor"] = r.NextCursor
	next, err := s.asked(ctx, "loki_search", "the next page, by its cursor", args)
	if err != nil {
		return err
	}
	s.must(next.Err() == nil, "the cursor is good for the same question")
	other, err := s.call(ctx, approver, "loki_search", "", args)
	if err != nil {
		return err
	}
	s.out.blank()
	s.refused("the same cursor in "+approver+"'s hands", string(toolresult.Code(other.Err())))
	s.must(toolresult.Code(other.Err()) == toolresult.CursorInvalid, "a cursor is its owner's")
	return nil
}

// analysis compares the P95 before and after, in a sandbox.
func (s *story) analysis(ctx context.Context) error {
	s.out.title("An analysis in a sandbox")
	done := s.out.working("running the analysis")
	a, err := analyse(ctx, s.self, s.found.points(), filepath.Join(s.w.state.where.dir, "key"))
	done()
	if err != nil {
		return err
	}
	s.facts.Analysis = a
	s.out.line("Policy %s: reads one directory, writes one, reaches no host, sees no variable.", short(a.Policy))
	if a.Said == "" {
		s.refused("the analysis", a.Why)
		for _, u := range a.Unheld {
			s.out.line("  %s", u)
		}
		s.out.line("The story goes on without it, and the report says so.")
		return nil
	}
	n, by := a.held()
	s.out.line("Held by this machine (%s): %d of %d claims, by %s and others.", a.Report.Backend, n, len(a.Report.Claims), strings.Join(by[:min(3, len(by))], ", "))
	s.out.line("P95: %s", harmless(a.Said))
	s.found.run.Verified[sandboxed] = s.found.cites["prometheus_query_range"].Call
	s.refused("the same program reading the host's "+a.Tried, "outside of its directory")
	s.must(a.Denied, "the program in the sandbox cannot read the host's files")
	return nil
}

// refusals asks for another tenant's service.
func (s *story) refusals(ctx context.Context) error {
	s.out.title("Another tenant's service")
	before := s.w.requests()
	args := window(map[string]any{"metric": "latency_p95"})
	args["namespace"], args["service"] = alr.OtherNamespace, alr.OtherService
	r, err := s.asked(ctx, "prometheus_query_range", alr.OtherNamespace+"/"+alr.OtherService, args)
	if err != nil {
		return err
	}
	s.must(toolresult.Code(r.Err()) == toolresult.PermissionDenied, "another tenant's service is refused")
	why := "refused before anything was sent"
	if before >= 0 {
		why = fmt.Sprintf("requests that left for a provider: %d", s.w.requests()-before)
		s.must(s.w.requests() == before, "nothing is sent")
	}
	s.refused("metrics of "+alr.OtherNamespace+"/"+alr.OtherService, string(toolresult.Code(r.Err()))+"; "+why)
	return nil
}

// farewell takes bob's account apart.
func (s *story) farewell(ctx context.Context) error {
	s.out.title("The account is disconnected")
	if s.w.accounts == nil {
		s.out.line("There is none.")
		return nil
	}
	who, err := s.w.Principal(caller)
	if err != nil {
		return err
	}
	all, err := s.w.accounts.manager.Connections(ctx, who)
	if err != nil {
		return err
	}
	for _, c := range all {
		c, err := s.w.accounts.manager.Disconnect(ctx, who, c.ID)
		if err != nil {
			return err
		}
		access, refresh := s.w.accounts.as.Live(caller)
		said := fmt.Sprintf("disconnected: calls stopped here (%s), tokens revoked at the provider (%s), %d left alive there", c.Disconnection.Local, c.Disconnection.Remote, access+refresh)
		s.facts.Account = append(s.facts.Account, said)
		s.out.line("%s", said)
		s.must(c.Disconnection.Remote == connection.StepDone && access+refresh == 0, "the account's tokens are revoked")
	}
	r, err := s.call(ctx, caller, rollouts().tool, "", rollouts().args)
	if err != nil {
		return err
	}
	s.refused("rollouts after that", string(toolresult.Code(r.Err())))
	s.must(toolresult.Code(r.Err()) == toolresult.ConnectionRequired, "a disconnected account is good for nothing")
	return nil
}

// short is the beginning of a digest.
func short(digest string) string { return digest[:min(len(digest), 19)] }
