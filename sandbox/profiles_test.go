package sandbox_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// scopes lead every type as far as it may go.
var scopes = map[sandbox.ToolType]sandbox.Scope{
	sandbox.SearchAPI:      {Hosts: []string{"docs.example.com"}},
	sandbox.SaaSConnector:  {Hosts: []string{"desk.example.com"}},
	sandbox.RepositoryRead: {},
	sandbox.ShellCode:      {Hosts: []string{"packages.example.org"}, Env: []string{"GIT_AUTHOR_NAME"}},
	sandbox.MCPServer:      {Hosts: []string{"api.example.net"}, Env: []string{"SERVER_MODE"}},
	sandbox.BrowserTool:    {Hosts: []string{"*.example.com"}},
	sandbox.UntrustedCode:  {},
}

func profileOf(t *testing.T, tt sandbox.ToolType) (*sandbox.Profile, *sandbox.Rules) {
	t.Helper()
	p, err := sandbox.NewProfile(tt, scopes[tt])
	require.NoError(t, err)
	ws := t.TempDir()
	for _, d := range []string{"profile", "downloads", "sub"} {
		require.NoError(t, os.Mkdir(filepath.Join(ws, d), 0o755))
	}
	r, err := p.Resolve(sandbox.Base{Workspace: ws})
	require.NoError(t, err)
	return p, r
}

// S5: what one type may do, another may not.
func TestToolTypes_S5(t *testing.T) {
	// Each letter is one operation of ops, in this order; "-" is denied.
	ops := func(ws string) []sandbox.Op {
		return []sandbox.Op{
			{Kind: sandbox.OpRead, Target: ws + "/main.go"},
			{Kind: sandbox.OpWrite, Target: ws + "/main.go"},
			{Kind: sandbox.OpRead, Target: ws + "/sub/.env"},
			{Kind: sandbox.OpWrite, Target: ws + "/.git/hooks/pre-push"},
			{Kind: sandbox.OpWrite, Target: ws + "/downloads/a"},
			{Kind: sandbox.OpRead, Target: "/etc/shadow"},
			{Kind: sandbox.OpConnect, Target: "docs.example.com"},
			{Kind: sandbox.OpConnect, Target: "packages.example.org"},
			{Kind: sandbox.OpEnv, Target: "GIT_AUTHOR_NAME"},
			{Kind: sandbox.OpEnv, Target: "GITHUB_TOKEN"},
		}
	}
	for tt, want := range map[sandbox.ToolType]string{
		sandbox.SearchAPI:      "------y---",
		sandbox.SaaSConnector:  "----------",
		sandbox.RepositoryRead: "y---------",
		sandbox.ShellCode:      "yy--y--yy-",
		sandbox.MCPServer:      "yyy-y-----",
		sandbox.BrowserTool:    "----y-y---",
		sandbox.UntrustedCode:  "yyy-y-----",
	} {
		t.Run(tt.String(), func(t *testing.T) {
			_, r := profileOf(t, tt)
			got := ""
			for _, op := range ops(r.Workspace) {
				if r.Decide(op).Allowed {
					got += "y"
				} else {
					got += "-"
				}
			}
			require.Equal(t, want, got)
			err := r.CheckCommand(&sandbox.Command{Path: "/bin/sh"})
			if tt == sandbox.SearchAPI || tt == sandbox.SaaSConnector || tt == sandbox.RepositoryRead {
				require.ErrorIs(t, err, toolresult.PermissionDenied, "nothing can be started")
			} else if tt != sandbox.BrowserTool { // whose workspace itself is not readable
				require.NoError(t, err)
			}
		})
	}
}

// S5: search_docs and bash do not share a boundary: not the rules, not what
// both permit, not an executor.
func TestSearchAndShellShareNothing_S5(t *testing.T) {
	search, err := sandbox.NewProfile(sandbox.SearchAPI, scopes[sandbox.SearchAPI])
	require.NoError(t, err)
	bash, err := sandbox.NewProfile(sandbox.ShellCode, scopes[sandbox.ShellCode])
	require.NoError(t, err)
	base := sandbox.Base{Workspace: t.TempDir()}
	rs, err := search.Resolve(base)
	require.NoError(t, err)
	rb, err := bash.Resolve(base)
	require.NoError(t, err)
	require.NotEqual(t, rs.Digest(), rb.Digest(), "an approval of one is none of the other")
	both, err := rs.Tighten(rb)
	require.NoError(t, err)
	require.Empty(t, both.Read)
	require.Empty(t, both.Write)
	require.Empty(t, both.Domains)
	require.Empty(t, both.Env)
	require.False(t, both.System)

	x := &counting{level: sandbox.LevelProcess, strength: sandbox.Enforced}
	_, err = search.Executor(x).Start(t.Context(), rs, &sandbox.Command{Path: "/bin/sh"})
	require.ErrorIs(t, err, toolresult.Unsupported)
	require.ErrorContains(t, err, "search_api starts no programs")
	require.Zero(t, x.started)
	_, err = bash.Executor(x).Start(t.Context(), rb, &sandbox.Command{Path: "/bin/sh"})
	require.NoError(t, err)
	require.Equal(t, 1, x.started)
}

// S2, S5: a level too light refuses, whatever it claims and whatever the policy
// gave up.
func TestLevelTooLight_S2(t *testing.T) {
	for tt, least := range map[sandbox.ToolType]sandbox.Level{
		sandbox.ShellCode: sandbox.LevelProcess, sandbox.MCPServer: sandbox.LevelProcess,
		sandbox.BrowserTool: sandbox.LevelContainer, sandbox.UntrustedCode: sandbox.LevelRemote,
	} {
		for level := sandbox.LevelPath; level <= sandbox.LevelRemote; level++ {
			p, r := profileOf(t, tt)
			x := &counting{level: level, strength: sandbox.Enforced}
			guarded := p.Executor(x)
			rep, err := guarded.Probe(t.Context(), r)
			require.NoError(t, err)
			_, err = guarded.Start(t.Context(), r, nil)
			if level >= least {
				require.NoError(t, err, "%s on %s", tt, level)
				require.NoError(t, rep.Check(r, nil))
				continue
			}
			var u *sandbox.UnenforcedError
			require.ErrorAs(t, err, &u)
			require.Len(t, u.Missing, len(sandbox.Claims()))
			require.Contains(t, u.Error(), "needs the level "+least.String())
			require.Error(t, rep.Check(r, nil), "and the report says it")
			require.Zero(t, x.started)

			for _, c := range sandbox.Claims() { // a policy that requires nothing at all
				if p.Policy.Require == nil {
					p.Policy.Require = map[sandbox.Claim]sandbox.Strength{}
				}
				p.Policy.Require[c] = sandbox.None
			}
			lax, err := p.Policy.Resolve(sandbox.Base{Workspace: r.Workspace})
			require.NoError(t, err)
			_, err = guarded.Start(t.Context(), lax, nil)
			require.ErrorIs(t, err, toolresult.Unsupported)
			require.Zero(t, x.started)
		}
	}
}

// S5: a server runs the very file that was approved, whoever starts it.
func TestServerIsPinned_S5(t *testing.T) {
	_, r := profileOf(t, sandbox.MCPServer)
	rep := report(t, r, sandbox.LevelProcess, sandbox.Enforced)
	require.NoError(t, rep.Check(r, &sandbox.Command{}))
	rep.Set(sandbox.ProcImage, sandbox.None, "thread mode cannot")
	var u *sandbox.UnenforcedError
	require.ErrorAs(t, rep.Check(r, &sandbox.Command{}), &u)
	require.True(t, u.Has(sandbox.ProcImage))
}

// S5: what a type has no use for is refused, not forgotten.
func TestScopeRefused_S5(t *testing.T) {
	private := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, row := range []struct {
		says string
		tt   sandbox.ToolType
		s    sandbox.Scope
	}{
		{"no type", sandbox.NoToolType, sandbox.Scope{}},
		{"a type that there is not", sandbox.ToolType(99), sandbox.Scope{}},
		{"variables without a program", sandbox.SearchAPI, sandbox.Scope{Env: []string{"A"}}},
		{"directories without a program", sandbox.SaaSConnector, sandbox.Scope{Hosts: []string{"a.example"}, Read: []string{"/usr"}}},
		{"a connector to nowhere", sandbox.SaaSConnector, sandbox.Scope{}},
		{"a connector to two hosts", sandbox.SaaSConnector, sandbox.Scope{Hosts: []string{"a.example", "b.example"}}},
		{"a connector to any host below", sandbox.SaaSConnector, sandbox.Scope{Hosts: []string{"*.example.com"}}},
		{"a repository with a network", sandbox.RepositoryRead, sandbox.Scope{Hosts: []string{"a.example"}}},
		{"a repository with variables", sandbox.RepositoryRead, sandbox.Scope{Env: []string{"A"}}},
		{"a browser in the office network", sandbox.BrowserTool, sandbox.Scope{Hosts: []string{"a.example"}, Private: private}},
		{"foreign code in the office network", sandbox.UntrustedCode, sandbox.Scope{Private: private}},
		{"a host that is none", sandbox.ShellCode, sandbox.Scope{Hosts: []string{"http://a.example/"}}},
		{"a variable that loads code", sandbox.ShellCode, sandbox.Scope{Env: []string{"A=B"}}},
	} {
		_, err := sandbox.NewProfile(row.tt, row.s)
		require.ErrorIs(t, err, toolresult.InvalidInput, row.says)
	}
	scope := sandbox.Scope{Hosts: []string{"a.example"}}
	p, err := sandbox.NewProfile(sandbox.ShellCode, scope)
	require.NoError(t, err)
	p.Policy.Network.AllowDomains[0] = "b.example"
	p.Policy.Filesystem.DenyRead[0] = "x"
	require.Equal(t, "a.example", scope.Hosts[0], "a profile shares nothing")
	q, err := sandbox.NewProfile(sandbox.ShellCode, scope)
	require.NoError(t, err)
	require.Equal(t, ".env", q.Policy.Filesystem.DenyRead[0], "with another either")
}

// S2: delegation takes a word for what is required, and nothing else changes.
func TestDelegated_S2(t *testing.T) {
	_, r := profileOf(t, sandbox.ShellCode)
	d := r.Delegated()
	require.NoError(t, d.Check())
	require.NoError(t, r.Check(), "the rules themselves are as they were")
	require.NotEqual(t, r.Digest(), d.Digest())
	require.Equal(t, r.Write, d.Write)

	word := report(t, d, sandbox.LevelRemote, sandbox.Delegated)
	require.NoError(t, word.Check(d, nil))
	require.Error(t, report(t, r, sandbox.LevelRemote, sandbox.Delegated).Check(r, nil), "a word is no observation")
	own := report(t, d, sandbox.LevelProcess, sandbox.Enforced)
	own.Set(sandbox.FSDenyRead, sandbox.Snapshot, "as usual")
	require.NoError(t, own.Check(d, nil), "what is held here is as good as a word")
	own.Set(sandbox.FSRead, sandbox.Snapshot, "weaker than usual")
	require.Error(t, own.Check(d, nil))
	require.Contains(t, d.Explain(own), "REFUSED: requires delegated")
}

// S2: another machine's report is worth a delegation, or it is refused.
func TestDelegateReport_S2(t *testing.T) {
	_, r := profileOf(t, sandbox.UntrustedCode)
	_, other := profileOf(t, sandbox.ShellCode)
	said := report(t, r, sandbox.LevelContainer, sandbox.Enforced)
	said.Set(sandbox.FSRead, sandbox.Snapshot, "a moment ago")
	said.Set(sandbox.FSDenyWrite, sandbox.Snapshot, "names\x1b[2J")
	said.Set(sandbox.ProcTree, sandbox.Auxiliary, "we try")
	got, err := said.Delegate(r)
	require.NoError(t, err)
	require.Equal(t, sandbox.LevelRemote, got.Level)
	require.Equal(t, sandbox.Delegated, got.Of(sandbox.FSWrite).Strength)
	require.Equal(t, sandbox.None, got.Of(sandbox.FSRead).Strength, "weaker than the claim has to be")
	require.Equal(t, sandbox.Delegated, got.Of(sandbox.FSDenyWrite).Strength)
	require.NotContains(t, got.Of(sandbox.FSDenyWrite).Gap, "\x1b")
	require.Equal(t, sandbox.None, got.Of(sandbox.ProcTree).Strength)
	for _, e := range got.Claims {
		require.NotEmpty(t, e.Gap, "%s: a word always has a gap", e.Claim)
	}
	for _, row := range []struct {
		says   string
		report *sandbox.Report
	}{
		{"none", nil},
		{"the zero report", &sandbox.Report{}},
		{"other rules", report(t, other, sandbox.LevelRemote, sandbox.Enforced)},
		{"no level", report(t, r, sandbox.NoLevel, sandbox.Enforced)},
		{"a level that there is not", report(t, r, 99, sandbox.Enforced)},
		{"a strength that there is not", report(t, r, sandbox.LevelRemote, 99)},
		{"a claim twice", twice(report(t, r, sandbox.LevelRemote, sandbox.Enforced), sandbox.FSRead)},
		{"a claim that there is not", twice(report(t, r, sandbox.LevelRemote, sandbox.Enforced), "fs.everything")},
	} {
		_, err := row.report.Delegate(r)
		require.ErrorIs(t, err, toolresult.Unsupported, row.says)
	}
	silent, err := (&sandbox.Report{Level: sandbox.LevelRemote, Rules: r.Digest()}).Delegate(r)
	require.NoError(t, err)
	require.Error(t, silent.Check(r, nil), "who says nothing holds nothing")
}

func report(t *testing.T, r *sandbox.Rules, l sandbox.Level, s sandbox.Strength) *sandbox.Report {
	t.Helper()
	rep := sandbox.NewReport(l, "test", r)
	for _, c := range sandbox.Claims() {
		rep.Set(c, s, "", "test")
	}
	return rep
}

func twice(r *sandbox.Report, c sandbox.Claim) *sandbox.Report {
	r.Claims = append(r.Claims, sandbox.Enforcement{Claim: c, Strength: sandbox.Enforced})
	return r
}

// counting says that it holds everything, and counts.
type counting struct {
	level    sandbox.Level
	strength sandbox.Strength
	started  int
}

func (x *counting) Probe(_ context.Context, r *sandbox.Rules) (*sandbox.Report, error) {
	rep := sandbox.NewReport(x.level, "counting", r)
	for _, c := range sandbox.Claims() {
		rep.Set(c, x.strength, "", "trust")
	}
	return rep, nil
}

func (x *counting) Start(context.Context, *sandbox.Rules, *sandbox.Command) (sandbox.Running, error) {
	x.started++
	return nil, nil
}
