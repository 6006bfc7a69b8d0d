package sandbox

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// ToolType is what stands behind a tool. It decides how its boundary is drawn:
// a search in documents and a shell do not share one. The zero ToolType is
// none, and has no profile.
type ToolType uint8

// The tool types.
const (
	NoToolType     ToolType = iota
	SearchAPI               // reads from a service over HTTP; starts nothing
	SaaSConnector           // reads and changes one system over HTTP; starts nothing
	RepositoryRead          // reads files of a checkout by calls of this program; starts nothing
	ShellCode               // runs commands and code in a workspace
	MCPServer               // an approved program that speaks MCP on its streams
	BrowserTool             // a browser that is driven
	UntrustedCode           // code that nobody vouches for
)

var toolTypes = [...]string{"none", "search_api", "saas_connector", "repository_read", "shell_code", "mcp_server", "browser", "untrusted_code"}

// String returns the word used in reports and as the name of the policy.
func (t ToolType) String() string {
	if int(t) < len(toolTypes) {
		return toolTypes[t]
	}
	return fmt.Sprintf("tool_type(%d)", uint8(t))
}

// Scope is what a profile cannot know: where one tool goes. The zero Scope
// leads nowhere.
type Scope struct {
	Hosts   []string       // as in Network.AllowDomains
	Private []netip.Prefix // as in Network.AllowPrivate
	Env     []string       // as in Credentials.Env; for programs only
	Read    []string       // as in Filesystem.AllowRead: what a program needs besides the system and its workspace; for programs only
}

// Profile is how a tool of one type is confined. Policy may be changed before
// Resolve: a profile is where to begin, and [Rules.Tighten] what only removes.
type Profile struct {
	Type   ToolType
	Policy Policy
	Least  Level // the lightest level that may carry it

	// Programs says whether the tool starts programs at all. If not, its
	// policy is enforced by the calls that the host makes for it (package
	// egress, [Rules.Files]), and no program starts under it.
	Programs bool
}

// secretNames are files that hold credentials, at any depth.
var secretNames = []string{
	".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa", "id_ed25519", "id_ecdsa", ".netrc", ".npmrc", ".pypirc",
	".git-credentials", ".ssh", ".aws", ".gcloud", ".azure", ".kube", ".docker", ".gnupg",
}

// NewProfile returns the profile of a type, for one tool. The error is
// INVALID_INPUT: a scope that the type has no use for is refused, because
// whoever wrote it expects it to mean something.
func NewProfile(t ToolType, s Scope) (*Profile, error) {
	if t == NoToolType || int(t) >= len(toolTypes) {
		return nil, toolresult.NewError(toolresult.InvalidInput, "a profile needs one of the tool types")
	}
	p := &Profile{Type: t, Policy: Policy{
		Name:    t.String(),
		Network: Network{AllowDomains: slices.Clone(s.Hosts), AllowPrivate: slices.Clone(s.Private)},
	}}
	switch t {
	case SearchAPI, SaaSConnector:
		p.Least = LevelPath
	case RepositoryRead:
		p.Least = LevelPath
		p.Policy.Filesystem = Filesystem{AllowRead: []string{"./"}, DenyRead: slices.Clone(secretNames)}
	default:
		p.programs(s)
	}
	if err := p.refuse(s); err != nil {
		return nil, err
	}
	return p, p.Policy.Validate()
}

// programs fills in the types that start something.
func (p *Profile) programs(s Scope) {
	p.Programs, p.Least = true, LevelProcess
	p.Policy.Credentials.Env = slices.Clone(s.Env)
	p.Policy.Filesystem = Filesystem{System: true, AllowRead: slices.Clone(s.Read), AllowWrite: []string{"./"}}
	switch p.Type {
	case ShellCode:
		p.Policy.Filesystem.DenyRead = slices.Clone(secretNames)
		p.Policy.Process = Process{Timeout: 5 * time.Minute, MaxChildren: 32}
	case MCPServer:
		// It lives as long as its session, in a directory of its own, and is
		// the very file that was approved.
		p.Policy.Process = Process{Timeout: maxTimeout, MaxOutput: 64 << 20}
		p.Policy.Require = map[Claim]Strength{ProcImage: Enforced}
	case BrowserTool:
		// A page is foreign code. The browser locks it up itself, with
		// namespaces that a filter of ours would deny.
		p.Least = LevelContainer
		p.Policy.Filesystem.AllowWrite = []string{"./profile", "./downloads"}
		p.Policy.Process = Process{Timeout: 10 * time.Minute}
		p.Policy.Require = map[Claim]Strength{ProcKernel: None}
	case UntrustedCode:
		p.Least = LevelRemote
		p.Policy.Process = Process{Timeout: time.Minute, MaxChildren: 32, MaxMemory: 1 << 30, MaxFile: 64 << 20}
	}
}

// refuse says what of the scope the type cannot have.
func (p *Profile) refuse(s Scope) error {
	switch {
	case !p.Programs && len(s.Env)+len(s.Read) > 0:
		return p.invalid("it starts no program, so it has no variables and no directories to read")
	case p.Type == RepositoryRead && len(s.Hosts)+len(s.Private) > 0:
		return p.invalid("who reads a repository reaches no network")
	case p.Type == UntrustedCode && len(s.Private) > 0:
		return p.invalid("code that nobody vouches for reaches no private address")
	case p.Type == BrowserTool && len(s.Private) > 0:
		return p.invalid("a page may ask for any address, so a browser reaches no private one")
	case p.Type == SaaSConnector && (len(s.Hosts) != 1 || strings.HasPrefix(s.Hosts[0], "*")):
		return p.invalid("a connector has exactly one host, without a wildcard: its credential goes there")
	}
	return nil
}

func (p *Profile) invalid(why string) error {
	return fmt.Errorf("sandbox: profile %s: %s: %w", p.Type, why, toolresult.NewError(toolresult.InvalidInput, "the scope does not fit the tool type").With("/scope", why))
}

// Resolve fixes the profile's policy for one run. Rules for another machine
// take its word; see [Rules.Delegated].
func (p *Profile) Resolve(b Base) (*Rules, error) {
	r, err := p.Policy.Resolve(b)
	if err != nil {
		return nil, err
	}
	if p.Least == LevelRemote {
		return r.Delegated(), nil
	}
	return r, nil
}

// Executor returns x for tools of this type: it refuses everything when the
// type starts no programs, and when x lies on a lighter level than the type
// needs. The refusal is UNSUPPORTED, and nothing was started.
func (p *Profile) Executor(x Executor) Executor { return &leveled{x: x, profile: *p} }

type leveled struct {
	x       Executor
	profile Profile
}

// refusal says why a report is not enough, or is empty.
func (l *leveled) refusal(rep *Report) string {
	switch {
	case !l.profile.Programs:
		return "a tool of type " + l.profile.Type.String() + " starts no programs"
	case rep.Level < l.profile.Least:
		return fmt.Sprintf("a tool of type %s needs the level %s, and this executor is %s", l.profile.Type, l.profile.Least, rep.Level)
	}
	return ""
}

// Probe implements [Executor].
func (l *leveled) Probe(ctx context.Context, r *Rules) (*Report, error) {
	rep, err := l.x.Probe(ctx, r)
	if err != nil {
		return nil, err
	}
	why := l.refusal(rep)
	if why == "" {
		return rep, nil
	}
	none := NewReport(rep.Level, rep.Backend, r)
	for _, c := range Claims() {
		none.Set(c, None, why)
	}
	return none, nil
}

// Start implements [Executor].
func (l *leveled) Start(ctx context.Context, r *Rules, c *Command) (Running, error) {
	rep, err := l.x.Probe(ctx, r)
	if err != nil {
		return nil, err
	}
	if why := l.refusal(rep); why != "" {
		u := &UnenforcedError{Level: rep.Level, Backend: rep.Backend}
		for _, n := range needs {
			// All of them: no requirement of the policy talks a level away.
			u.Missing = append(u.Missing, Missing{Enforcement{Claim: n.claim, Gap: why}, max(r.required(n), Auxiliary)})
		}
		return nil, u
	}
	return l.x.Start(ctx, r, c)
}

// Delegated returns the same rules for a machine whose word is taken: every
// claim that they require may be delegated. It removes no rule, and what this
// machine holds itself as strongly as the rules said before is as good. The
// digest is another one.
func (r *Rules) Delegated() *Rules {
	d := *r
	d.Require = maps.Clone(r.Require)
	if d.Require == nil {
		d.Require = map[Claim]Strength{}
	}
	for _, n := range needs {
		if r.required(n) != None {
			d.Require[n.claim] = Delegated
		}
	}
	return d.sealed()
}
