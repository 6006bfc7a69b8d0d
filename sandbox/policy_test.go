package sandbox_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
	"github.com/drawbridge-sdk/drawbridge/sandbox"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// source is the static policy of S1 16.6.2, as it stands there.
const source = `sandbox_policy:
  filesystem:
    allow_read:
      - "./"
    allow_write:
      - "./"
      - "/tmp/agent-task-*"
    deny_read:
      - "~/.ssh"
      - ".env"
      - "**/*secret*"
  network:
    default: "deny"
    allow_domains:
      - "github.com"
      - "packages.example.org"
    deny_private_ip_ranges: true
  process:
    timeout_seconds: 300
    max_child_processes: 32
    blocked_commands:
      - "sudo"
      - "rm -rf /"
      - "chmod -R 777"
  credentials:
    inject_per_tool: true
    expose_to_model: false
    redact_in_logs: true
`

func dir(t testing.TB) string {
	d, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return d
}

func resolve(t testing.TB, text, ws, home string) *sandbox.Rules {
	t.Helper()
	p, err := sandbox.ParsePolicy([]byte(text))
	require.NoError(t, err)
	r, err := p.Resolve(sandbox.Base{Workspace: ws, Home: home})
	require.NoError(t, err)
	return r
}

// S1, acceptance 4: the policy of the source loads, explains itself, and its
// blocked commands are auxiliary.
func TestSourcePolicy_S1(t *testing.T) {
	ws, home := dir(t), dir(t)
	r := resolve(t, source, ws, home)
	require.Equal(t, []string{ws}, r.Read)
	require.Contains(t, r.Write, ws)
	require.Equal(t, 5*time.Minute, r.Timeout)
	for _, row := range []struct {
		op      sandbox.Op
		allowed bool
		rule    string
	}{
		{sandbox.Op{Kind: sandbox.OpRead, Target: ws + "/main.go"}, true, "allow_read"},
		{sandbox.Op{Kind: sandbox.OpRead, Target: home + "/.ssh/id_ed25519"}, false, "allow_read"},
		{sandbox.Op{Kind: sandbox.OpRead, Target: ws + "/.env"}, false, `deny_read[1] ".env"`},
		{sandbox.Op{Kind: sandbox.OpRead, Target: ws + "/sub/.env"}, false, "deny_read[1]"},
		{sandbox.Op{Kind: sandbox.OpRead, Target: ws + "/.ENV"}, false, "deny_read[1]"},
		{sandbox.Op{Kind: sandbox.OpRead, Target: ws + "/a/my-secret.txt"}, false, `"**/*secret*"`},
		{sandbox.Op{Kind: sandbox.OpRead, Target: ws + "/a/secrets/plain.txt"}, false, `"**/*secret*"`},
		{sandbox.Op{Kind: sandbox.OpWrite, Target: ws + "/.git/hooks/pre-commit"}, false, "built-in"},
		{sandbox.Op{Kind: sandbox.OpWrite, Target: "/etc/passwd"}, false, "allow_write"},
		{sandbox.Op{Kind: sandbox.OpConnect, Target: "github.com"}, true, "github.com"},
		{sandbox.Op{Kind: sandbox.OpConnect, Target: "api.github.com"}, false, "allow_domains"},
		{sandbox.Op{Kind: sandbox.OpConnect, Target: "127.0.0.1"}, false, "allow_domains"},
		{sandbox.Op{Kind: sandbox.OpEnv, Target: "AWS_SECRET_ACCESS_KEY"}, false, "env"},
		{sandbox.Op{Kind: sandbox.OpRun, Target: "/usr/bin/sudo id"}, false, "blocked_commands"},
		{sandbox.Op{Kind: "fly", Target: ws}, false, "no such"},
	} {
		d := r.Decide(row.op)
		require.Equal(t, row.allowed, d.Allowed, "%v: %s", row.op, d.Rule)
		require.Contains(t, d.Rule, row.rule, "%v", row.op)
	}
	text := r.Explain(nil)
	for _, s := range []string{"may read   " + ws, "~/.ssh", "**/*secret*", "github.com, packages.example.org", "5m0s", "32", "auxiliary", `"rm -rf /"`, "none of the host's"} {
		require.Contains(t, text, s)
	}
	rep := sandbox.NewReport(sandbox.LevelProcess, "none", r)
	rep.Set(sandbox.ProcCommands, sandbox.Auxiliary, "a match of strings", "strings")
	text = r.Explain(rep)
	require.Regexp(t, `proc.commands +auxiliary`, text)
	require.NotRegexp(t, `proc.commands.*REFUSED`, text)
	require.Regexp(t, `net.egress.*REFUSED: requires enforced`, text)
}

// S1: what is not understood is refused, with its line.
func TestPolicyRefuses_S1(t *testing.T) {
	for _, row := range []struct{ why, text, says string }{
		{"an unknown field", "sandbox_policy:\n  filesystem:\n    allow_raed: [\"./\"]\n", "line 3"},
		{"another document", source + "---\nsandbox_policy: {}\n", "second document"},
		{"a field twice", "sandbox_policy:\n  name: a\n  name: b\n", "line 3"},
		{"an alias", "sandbox_policy:\n  filesystem:\n    allow_read: &x [\"./\"]\n    allow_write: *x\n", "line 3"},
		{"a merge key", "sandbox_policy:\n  network: {<<: {allow_domains: [a.example]}}\n", "line 2"},
		{"no text", "", "empty"},
		{"an open network", "sandbox_policy:\n  network:\n    default: allow\n", "line 3: sandbox_policy.network.default"},
		{"private addresses by a switch", "sandbox_policy:\n  network:\n    deny_private_ip_ranges: false\n", "line 3"},
		{"secrets for the model", "sandbox_policy:\n  credentials:\n    expose_to_model: true\n", "line 3"},
		{"unredacted logs", "sandbox_policy:\n  credentials:\n    redact_in_logs: false\n", "line 3"},
		{"a claim that does not exist", "sandbox_policy:\n  require: {fs.reed: none}\n", "no claim"},
		{"a strength that does not exist", "sandbox_policy:\n  require: {fs.read: strong}\n", "line 2"},
		{"a way up", "sandbox_policy:\n  filesystem:\n    allow_read:\n      - ok\n      - ../x\n", "line 5"},
		{"the whole machine", "sandbox_policy:\n  filesystem: {allow_read: [\"/\"]}\n", "whole machine"},
		{"a pattern for the whole machine", "sandbox_policy:\n  filesystem: {allow_read: [\"/*\"]}\n", "last element only"},
		{"a pattern at any depth", "sandbox_policy:\n  filesystem: {allow_write: [\"**\"]}\n", "last element"},
		{"a pattern that is not closed", "sandbox_policy:\n  filesystem: {deny_read: [\"[a\"]}\n", "not closed"},
		{"another user's home", "sandbox_policy:\n  filesystem: {deny_read: [\"~root/.ssh\"]}\n", "another user"},
		{"a host that is an address", "sandbox_policy:\n  network: {allow_domains: [\"127.0.0.1\"]}\n", "host name"},
		{"a host in other letters", "sandbox_policy:\n  network: {allow_domains: [\"GitHub.com\"]}\n", "lower-case"},
		{"a host that is not ASCII", "sandbox_policy:\n  network: {allow_domains: [\"ⓛocalhost\"]}\n", "ASCII"},
		{"a host with a trailing dot", "sandbox_policy:\n  network: {allow_domains: [\"github.com.\"]}\n", "trailing dot"},
		{"a whole top-level domain", "sandbox_policy:\n  network: {allow_domains: [\"*.com\"]}\n", "top-level"},
		{"every host", "sandbox_policy:\n  network: {allow_domains: [\"*\"]}\n", "host name"},
		{"a range with host bits", "sandbox_policy:\n  network: {allow_private: [\"10.0.0.1/8\"]}\n", "without host bits"},
		{"a variable that loads code", "sandbox_policy:\n  credentials: {env: [\"LD_PRELOAD\"]}\n", "run code"},
		{"a variable with a value", "sandbox_policy:\n  credentials: {env: [\"A=b\"]}\n", "no name"},
		{"a timeout that overflows", "sandbox_policy:\n  process: {timeout_seconds: 9223372036854775807}\n", "86400"},
		{"a negative limit", "sandbox_policy:\n  process: {max_output_bytes: -1}\n", "must be from 0"},
		{"a control character", "sandbox_policy:\n  filesystem: {allow_read: [\"a\\eb\"]}\n", "control character"},
		{"a blocked space", "sandbox_policy:\n  process: {blocked_commands: [\" \"]}\n", "only space"},
	} {
		t.Run(row.why, func(t *testing.T) {
			_, err := sandbox.ParsePolicy([]byte(row.text))
			require.ErrorIs(t, err, toolresult.InvalidInput)
			require.ErrorContains(t, err, row.says)
		})
	}
	var at *strictyaml.Error
	_, err := sandbox.ParsePolicy([]byte("sandbox_policy:\n  network:\n    default: allow\n"))
	require.ErrorAs(t, err, &at)
	require.Equal(t, 3, at.Line)
}

// S1: the zero policy permits nothing, and cannot be weakened by being silent.
func TestZeroPolicy_S1(t *testing.T) {
	ws := dir(t)
	r, err := (&sandbox.Policy{}).Resolve(sandbox.Base{Workspace: ws})
	require.NoError(t, err)
	for _, op := range []sandbox.Op{
		{Kind: sandbox.OpRead, Target: ws}, {Kind: sandbox.OpRead, Target: "/usr/bin/true"}, {Kind: sandbox.OpWrite, Target: ws + "/x"},
		{Kind: sandbox.OpConnect, Target: "example.com"}, {Kind: sandbox.OpConnect, Target: ""}, {Kind: sandbox.OpEnv, Target: "PATH"},
	} {
		require.False(t, r.Decide(op).Allowed, "%v", op)
	}
	require.ErrorIs(t, r.CheckCommand(&sandbox.Command{Path: "/usr/bin/true"}), toolresult.PermissionDenied)
	require.ErrorIs(t, r.CheckCommand(nil), toolresult.InvalidInput)

	var none sandbox.Rules
	require.ErrorIs(t, none.Check(), toolresult.InvalidInput)
	require.False(t, none.Decide(sandbox.Op{}).Allowed)
	require.Error(t, (*sandbox.Report)(nil).Check(r, nil))
	u, ok := (&sandbox.Report{Rules: r.Digest()}).Check(r, nil).(*sandbox.UnenforcedError)
	require.True(t, ok)
	require.ErrorIs(t, u, toolresult.Unsupported)
	require.True(t, u.Has(sandbox.NetEgress), "case 101: an empty list of hosts is a claim, not an open network")
}

// Case 120, 121: the base is the host's, and what cannot be made canonical is
// an error.
func TestResolveRefuses(t *testing.T) {
	ws := dir(t)
	require.NoError(t, os.Symlink(filepath.Join(ws, "gone"), filepath.Join(ws, "dangling")))
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(ws, "dev")))
	for _, row := range []struct {
		why   string
		base  sandbox.Base
		allow string
		says  string
	}{
		{"no workspace", sandbox.Base{}, "./", "absolute"},
		{"a relative workspace", sandbox.Base{Workspace: "."}, "./", "absolute"},
		{"a workspace that is the machine", sandbox.Base{Workspace: "/"}, "./", "whole machine"},
		{"a workspace that is not there", sandbox.Base{Workspace: filepath.Join(ws, "no")}, "./", "canonical"},
		{"a home that nobody gave", sandbox.Base{Workspace: ws}, "~/x", "no home"},
		{"a path that is not there (case 121)", sandbox.Base{Workspace: ws}, "no/such", "canonical"},
		{"a link that leads nowhere (case 121)", sandbox.Base{Workspace: ws}, "dangling", "canonical"},
		{"a link to a device", sandbox.Base{Workspace: ws}, "dev", "regular file"},
		{"the kernel's interface", sandbox.Base{Workspace: ws}, "/proc/sys", "kernel"},
	} {
		_, err := (&sandbox.Policy{Filesystem: sandbox.Filesystem{AllowWrite: []string{row.allow}}}).Resolve(row.base)
		require.ErrorIs(t, err, toolresult.InvalidInput, row.why)
		require.ErrorContains(t, err, row.says, row.why)
	}
}

// Case 105: a twin of the prefix is another directory. Case 104: a link in a
// shared directory is not taken for what the pattern means.
func TestResolvePaths(t *testing.T) {
	ws := dir(t)
	for _, d := range []string{"ws", "ws-evil", "task-1", "real"} {
		require.NoError(t, os.Mkdir(filepath.Join(ws, d), 0o700))
	}
	require.NoError(t, os.Symlink("/etc", filepath.Join(ws, "task-2")))
	require.NoError(t, os.Symlink(filepath.Join(ws, "real"), filepath.Join(ws, "link")))
	r, err := (&sandbox.Policy{Filesystem: sandbox.Filesystem{
		AllowRead: []string{"ws", "link", "ws/"}, AllowWrite: []string{ws + "/task-*"}, DenyRead: []string{"link/key", "./ws/sub/*.pem"},
	}}).Resolve(sandbox.Base{Workspace: ws})
	require.NoError(t, err)
	require.Equal(t, []string{ws + "/real", ws + "/ws"}, r.Read)
	require.Equal(t, []string{ws + "/task-1"}, r.Write)
	for p, want := range map[string]bool{
		"/ws/x": true, "/ws": true, "/ws-evil/x": false, "/ws/../ws-evil/x": false, "/real/x": true, "/real/key": false,
		"/ws/sub/a.pem": false, "/ws/sub/a.pem/below": false, "/ws/sub/deeper/a.pem": true, "/task-1/x": true, "/task-2/passwd": false, "": false,
	} {
		require.Equal(t, want, r.Decide(sandbox.Op{Kind: sandbox.OpRead, Target: ws + p}).Allowed, p)
	}
}

// A workspace whose own name matches a floating rule is not denied as a whole.
func TestFloatingBeginsBelow(t *testing.T) {
	ws := filepath.Join(dir(t), "my-secret-project")
	require.NoError(t, os.Mkdir(ws, 0o700))
	r := resolve(t, source, ws, dir(t))
	require.True(t, r.Decide(sandbox.Op{Kind: sandbox.OpRead, Target: ws + "/main.go"}).Allowed)
	require.False(t, r.Decide(sandbox.Op{Kind: sandbox.OpRead, Target: ws + "/Secret.txt"}).Allowed)
}

// S1: Tighten never loosens, whatever the two are.
func TestTighten_S1(t *testing.T) {
	ws := dir(t)
	for _, d := range []string{"a/b/c", "a/x", "d"} {
		require.NoError(t, os.MkdirAll(filepath.Join(ws, d), 0o700))
	}
	paths := []string{"./", "a", "a/b", "a/b/c", "a/x", "d"}
	list := func(t *rapid.T, from []string, label string) []string {
		return rapid.SliceOfN(rapid.SampledFrom(from), 0, 3).Draw(t, label)
	}
	strengths := []sandbox.Strength{sandbox.None, sandbox.Auxiliary, sandbox.Snapshot, sandbox.Enforced}
	draw := func(t *rapid.T, n string) *sandbox.Rules {
		p := sandbox.Policy{
			Filesystem:  sandbox.Filesystem{AllowRead: list(t, paths, n+"r"), AllowWrite: list(t, paths, n+"w"), DenyRead: list(t, []string{"c", "a/b", "**/x"}, n+"d"), System: rapid.Bool().Draw(t, n+"s"), HardLinks: rapid.Bool().Draw(t, n+"h")},
			Network:     sandbox.Network{AllowDomains: list(t, []string{"a.example", "*.a.example", "x.a.example", "*.x.a.example"}, n+"n")},
			Process:     sandbox.Process{Timeout: time.Duration(rapid.IntRange(0, 100).Draw(t, n+"t")) * time.Second, MaxChildren: rapid.IntRange(0, 3).Draw(t, n+"c"), BlockedCommands: list(t, []string{"sudo", "rm"}, n+"b")},
			Credentials: sandbox.Credentials{Env: list(t, []string{"A", "B"}, n+"e")},
		}
		if rapid.Bool().Draw(t, n+"req") {
			p.Require = map[sandbox.Claim]sandbox.Strength{sandbox.ProcTree: rapid.SampledFrom(strengths).Draw(t, n+"q"), sandbox.FSLinks: rapid.SampledFrom(strengths).Draw(t, n+"l")}
		}
		r, err := p.Resolve(sandbox.Base{Workspace: ws})
		require.NoError(t, err)
		return r
	}
	rapid.Check(t, func(rt *rapid.T) {
		x, y := draw(rt, "x"), draw(rt, "y")
		z, err := x.Tighten(y)
		require.NoError(rt, err)
		var ops []sandbox.Op
		for _, p := range []string{"", "/f", "/a", "/a/f", "/a/b", "/a/b/f", "/a/b/c/f", "/a/x/f", "/d/f", "/d/c"} {
			ops = append(ops, sandbox.Op{Kind: sandbox.OpRead, Target: ws + p}, sandbox.Op{Kind: sandbox.OpWrite, Target: ws + p})
		}
		ops = append(ops, sandbox.Op{Kind: sandbox.OpRead, Target: "/usr/bin/true"}, sandbox.Op{Kind: sandbox.OpEnv, Target: "A"}, sandbox.Op{Kind: sandbox.OpRun, Target: "sudo"})
		for _, h := range []string{"a.example", "x.a.example", "y.x.a.example", "b.example", "xa.example"} {
			ops = append(ops, sandbox.Op{Kind: sandbox.OpConnect, Target: h})
		}
		for _, op := range ops {
			both := x.Decide(op).Allowed && y.Decide(op).Allowed
			require.Equal(rt, both, z.Decide(op).Allowed, "%v: %v %v", op, x.Decide(op), y.Decide(op))
		}
		require.LessOrEqual(rt, z.Timeout, min(x.Timeout, y.Timeout))
		// What satisfies the tightened rules satisfies both.
		for _, c := range sandbox.Claims() {
			for _, s := range strengths {
				if ok(z, c, s) {
					require.True(rt, ok(x, c, s) && ok(y, c, s), "%s %s", c, s)
				}
			}
		}
	})
}

// ok reports whether a report in which all is enforced but c passes.
func ok(r *sandbox.Rules, c sandbox.Claim, s sandbox.Strength) bool {
	rep := sandbox.NewReport(sandbox.LevelProcess, "test", r)
	for _, x := range sandbox.Claims() {
		rep.Set(x, sandbox.Enforced, "")
	}
	rep.Set(c, s, "test")
	return rep.Check(r, nil) == nil
}

// Rules travel as JSON to another machine, and only unchanged ones arrive.
func TestRulesTravel(t *testing.T) {
	r := resolve(t, source, dir(t), dir(t))
	text, err := json.Marshal(r)
	require.NoError(t, err)
	got, err := sandbox.ParseRules(text, r.Digest())
	require.NoError(t, err)
	require.NoError(t, got.Check())
	require.Equal(t, r.Digest(), got.Digest())
	for _, evil := range []string{
		strings.Replace(string(text), `"system":false`, `"system":true`, 1),
		strings.Replace(string(text), `"github.com"`, `"evil.example"`, 1), "{}", "", "null",
	} {
		_, err = sandbox.ParseRules([]byte(evil), r.Digest())
		require.ErrorIs(t, err, toolresult.InvalidInput)
	}
	got.Write = append(got.Write, "/etc")
	require.ErrorIs(t, got.Check(), toolresult.InvalidInput, "rules that were changed after they were fixed")
	require.Error(t, sandbox.NewReport(sandbox.LevelProcess, "x", r).Check(got, nil))
	_, err = r.Tighten(got)
	require.ErrorIs(t, err, toolresult.InvalidInput)
}

// Delegated is somebody's word, and never taken for an observation.
func TestDelegated(t *testing.T) {
	ws := dir(t)
	plain, err := (&sandbox.Policy{}).Resolve(sandbox.Base{Workspace: ws})
	require.NoError(t, err)
	require.False(t, ok(plain, sandbox.FSRead, sandbox.Delegated))
	trusting, err := (&sandbox.Policy{Require: map[sandbox.Claim]sandbox.Strength{sandbox.FSRead: sandbox.Delegated}}).Resolve(sandbox.Base{Workspace: ws})
	require.NoError(t, err)
	require.True(t, ok(trusting, sandbox.FSRead, sandbox.Delegated))
	require.True(t, ok(trusting, sandbox.FSRead, sandbox.Enforced))
	require.False(t, ok(trusting, sandbox.FSRead, sandbox.Snapshot))
	require.NotEqual(t, plain.Digest(), trusting.Digest(), "what is accepted changes what is approved")
	both, err := plain.Tighten(trusting)
	require.NoError(t, err)
	require.False(t, ok(both, sandbox.FSRead, sandbox.Delegated))
}

// Case 137: a program cannot fill the log with what it was denied.
func TestDenialsAreBounded(t *testing.T) {
	var d sandbox.Denials
	for i := range 10_000 {
		d.Add(sandbox.Denial{Claim: sandbox.NetEgress, Op: "connect", Target: fmt.Sprint("host", i%1000)})
	}
	d.Add(sandbox.Denial{Claim: sandbox.NetEgress, Op: "connect", Target: "host1"})
	list, dropped := d.List()
	require.Len(t, list, 256)
	require.Equal(t, 7440, dropped)
	require.Equal(t, 11, list[1].Count)
	var e sandbox.Denials
	e.Add(sandbox.Denial{Target: "\x1b[31m\u202eevil\n" + strings.Repeat("x", 999)})
	list, _ = e.List()
	require.NotContains(t, list[0].Target, "\x1b")
	require.LessOrEqual(t, len(list[0].Target), 256)
}

func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte(source))
	f.Add([]byte("sandbox_policy: {filesystem: {allow_read: ['~', '[', '/x/*']}, require: {fs.read: none}}"))
	ws := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := sandbox.ParsePolicy(text)
		if err != nil {
			require.ErrorIs(t, err, toolresult.InvalidInput)
			return
		}
		r, err := p.Resolve(sandbox.Base{Workspace: ws})
		if err != nil {
			require.ErrorIs(t, err, toolresult.InvalidInput)
			return
		}
		require.NoError(t, r.Check())
		for _, w := range r.Write {
			require.NotContains(t, []string{"/", "/proc", "/sys", "/dev"}, w)
		}
		for _, target := range []string{"/", "/proc/self/environ", "/dev/mem"} {
			require.False(t, r.Decide(sandbox.Op{Kind: sandbox.OpRead, Target: target}).Allowed)
		}
		require.NotEmpty(t, r.Explain(nil))
	})
}
