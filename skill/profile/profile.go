package profile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// World is what there is at the moment, as the host knows it.
type World struct {
	// Skills, Who and Scope find the skill's version: the registry, the
	// principal that the run works for, and where it works.
	Skills *registry.Registry
	Who    authz.Principal
	Scope  string

	// Connectors are those of the host's invoker.
	Connectors []connector.Connector

	// Protocols are the revisions of MCP that were negotiated, by the ID of
	// the connector, for those that are remote servers. A remote server cannot
	// be pinned: its contract is recorded as observed.
	Protocols map[string]string

	// Policy is the revision of the policy in force. It is needed.
	Policy string

	// Sandboxes are the digests of the host's sandbox policies by name.
	Sandboxes map[string]skill.Digest
}

// Tool is one tool of a profile.
type Tool struct {
	Name      string `json:"name"`
	Connector string `json:"connector"`
	Version   string `json:"version"` // exact

	// Contract is the digest of the declaration (connector.Declaration.Digest).
	Contract skill.Digest `json:"contract"`

	SideEffect  risk.SideEffect  `json:"side_effect"`
	Sensitivity risk.Sensitivity `json:"data_sensitivity"`

	// Observed says that the contract is what a remote server showed, and not
	// what it promised. Protocol is the revision of MCP that it spoke.
	Observed bool   `json:"observed,omitempty"`
	Protocol string `json:"protocol,omitempty"`
}

// facts are a Profile in JSON.
type facts struct {
	ID          string                  `json:"id"`
	Skill       Skill                   `json:"skill"`
	Tools       []Tool                  `json:"tools"` // by name
	Credentials string                  `json:"credentials"`
	Sandbox     Sandbox                 `json:"sandbox"`
	Sandboxes   map[string]skill.Digest `json:"sandbox_digests"`
	Policy      string                  `json:"policy_revision"`
	Prohibited  []string                `json:"prohibited"` // sorted
}

// Skill is the version of the skill in a profile.
type Skill struct {
	Name     string       `json:"name"`
	Version  string       `json:"version"`
	Artifact skill.Digest `json:"artifact_digest"`
	Scope    string       `json:"scope"`

	// Suite and Evidence say what it was validated by.
	Suite    string `json:"suite"`
	Evidence string `json:"evidence"`
}

// Profile is a composition of exact versions. It is immutable and safe for
// concurrent use. The zero Profile selects nothing.
type Profile struct {
	facts  facts
	digest skill.Digest
}

// Unresolved names everything that a composition asks for and is not there, or
// not as it asks. Its code is UNSUPPORTED.
type Unresolved struct {
	ID      string
	Missing []string
}

// Error lists them.
func (u *Unresolved) Error() string {
	return "capability profile " + u.ID + ": not there: " + strings.Join(u.Missing, "; ")
}

// Unwrap returns the code.
func (u *Unresolved) Unwrap() error { return toolresult.Unsupported }

// Resolve makes a Profile of a composition and what there is. It pins nothing
// for a run: that is done when the run loads the skill. The error is
// [*Unresolved], INVALID_INPUT for a Spec that Parse would refuse, or that of
// the registry.
func Resolve(ctx context.Context, s *Spec, w *World) (*Profile, error) {
	if s == nil || w == nil || w.Skills == nil {
		return nil, fmt.Errorf("capability profile: %w: want a composition, and a world with a registry of skills", toolresult.InvalidInput)
	}
	if p := s.problems(); p != nil {
		return nil, fmt.Errorf("capability profile: %w: %s: %s", toolresult.InvalidInput, p[0].path, p[0].text)
	}
	u := &Unresolved{ID: s.ID}
	f := facts{ID: s.ID, Credentials: s.Credentials, Sandbox: s.Sandbox, Policy: w.Policy, Sandboxes: map[string]skill.Digest{}, Tools: []Tool{}}
	f.Prohibited = append([]string{}, s.Prohibited...)
	slices.Sort(f.Prohibited)
	if w.Policy == "" {
		u.Missing = append(u.Missing, "the revision of the policy")
	}
	rec, err := current(ctx, s, w)
	if err != nil && toolresult.Code(err) != toolresult.NotFound {
		return nil, err
	}
	f.skill(s, w, rec, err == nil, u)
	f.sandbox(w, u)
	f.tools(s, w, u)
	if u.Missing != nil {
		return nil, u
	}
	return seal(f)
}

// current finds the version of the skill that a new run would get.
func current(ctx context.Context, s *Spec, w *World) (registry.Record, error) {
	if s.SkillVersion != "" {
		rec, err := w.Skills.Record(ctx, w.Who, s.Skill, s.SkillVersion)
		if err == nil && (rec.Status != registry.Published || !slices.Contains(rec.Scope, w.Scope)) {
			err = toolresult.NewError(toolresult.NotFound, "the version is not published for the scope")
		}
		return rec, err
	}
	recs, err := w.Skills.Current(ctx, w.Who, w.Scope)
	if err != nil {
		return registry.Record{}, err
	}
	i := slices.IndexFunc(recs, func(r registry.Record) bool { return r.Name == s.Skill })
	if i < 0 || w.Scope == "" {
		return registry.Record{}, toolresult.NewError(toolresult.NotFound, "no version is published for the scope")
	}
	return recs[i], nil
}

func (f *facts) skill(s *Spec, w *World, rec registry.Record, found bool, u *Unresolved) {
	if !found {
		u.Missing = append(u.Missing, "a published version of the skill "+s.Skill+" for the scope "+w.Scope)
		return
	}
	f.Skill = Skill{Name: rec.Name, Version: rec.Version, Artifact: rec.Artifact, Scope: w.Scope}
	if e := rec.Validation; e != nil {
		f.Skill.Suite, f.Skill.Evidence = e.Suite, e.URI
	}
	if s.Suite != "" && s.Suite != f.Skill.Suite {
		u.Missing = append(u.Missing, "evidence of the suite "+s.Suite+" for "+rec.Name+" "+rec.Version)
	}
}

func (f *facts) sandbox(w *World, u *Unresolved) {
	for _, name := range []string{f.Sandbox.Filesystem, f.Sandbox.Egress, f.Sandbox.Env} {
		d, ok := w.Sandboxes[name]
		if !ok || !d.Valid() {
			u.Missing = append(u.Missing, "the sandbox policy "+name)
		}
		f.Sandboxes[name] = d
	}
}

func (f *facts) tools(s *Spec, w *World, u *Unresolved) {
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		id, major, _ := contract(s.Tools[name])
		t, err := find(w, name, id, major)
		if err != nil {
			u.Missing = append(u.Missing, err.Error())
			continue
		}
		f.Tools = append(f.Tools, t)
	}
}

// find finds the one tool with a name at a major version of its connector.
func find(w *World, name, id, major string) (Tool, error) {
	for _, c := range w.Connectors {
		m := c.Manifest()
		if m.ID != id {
			continue
		}
		if got, _, _ := strings.Cut(m.Version, "."); major != "" && got != major {
			return Tool{}, fmt.Errorf("%s: %s is version %s and not %s", name, id, m.Version, major)
		}
		for i := range m.Capabilities {
			if d := &m.Capabilities[i]; d.Name == name {
				protocol, remote := w.Protocols[id]
				return Tool{name, id, m.Version, skill.Digest(d.Digest()), d.Class.SideEffect, d.Class.Sensitivity, remote, protocol}, nil
			}
		}
		return Tool{}, fmt.Errorf("%s: %s %s does not offer it", name, id, m.Version)
	}
	return Tool{}, fmt.Errorf("%s: there is no connector %s", name, id)
}

// seal computes the digest, which is over the canonical JSON (RFC 8785).
func seal(f facts) (*Profile, error) {
	text, err := json.Marshal(f)
	if err == nil {
		text, err = strictjson.Canonical(text)
	}
	if err != nil {
		return nil, fmt.Errorf("capability profile: %w", err)
	}
	return &Profile{f, skill.DigestOf(text)}, nil
}

// ID is the name that the team gave it. Two profiles of one ID differ by digest.
func (p *Profile) ID() string { return p.facts.ID }

// Digest is over everything in the profile.
func (p *Profile) Digest() skill.Digest { return p.digest }

// Skill returns the version of the skill.
func (p *Profile) Skill() Skill { return p.facts.Skill }

// Tools returns the tools, by name.
func (p *Profile) Tools() []Tool { return slices.Clone(p.facts.Tools) }

// Policy is the revision of the policy that it was resolved under. Every call
// is decided by the policy of its own time; a trace shows the difference.
func (p *Profile) Policy() string { return p.facts.Policy }

// Prohibited returns the names that are refused, sorted.
func (p *Profile) Prohibited() []string { return slices.Clone(p.facts.Prohibited) }

// Sandbox returns the names of the sandbox policies, and their digests by name.
func (p *Profile) Sandbox() (Sandbox, map[string]skill.Digest) {
	return p.facts.Sandbox, maps.Clone(p.facts.Sandboxes)
}

// Selection is the profile that an invoker narrows by: the tools at their exact
// versions, and what is prohibited. It widens nothing.
func (p *Profile) Selection() authz.Profile {
	s := authz.Profile{ID: p.facts.ID, Revision: string(p.digest), Prohibited: p.Prohibited(), Capabilities: map[string]string{}}
	for _, t := range p.facts.Tools {
		s.Capabilities[t.Name] = t.Version
	}
	return s
}

// MarshalJSON writes the profile, in canonical form.
func (p *Profile) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(p.facts)
	if err != nil {
		return nil, err
	}
	return strictjson.Canonical(text)
}

// UnmarshalJSON reads what MarshalJSON wrote, into a zero Profile: another one
// is immutable. Whoever has a digest to compare with uses [Load].
func (p *Profile) UnmarshalJSON(text []byte) error {
	if p.digest != "" {
		return errors.New("capability profile: a profile is not changed; read into a zero one")
	}
	if _, err := strictjson.Parse(text); err != nil {
		return fmt.Errorf("capability profile: %w: %w", toolresult.InvalidInput, err)
	}
	var f facts
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return fmt.Errorf("capability profile: %w: %w", toolresult.InvalidInput, err)
	}
	read, err := seal(f)
	if err == nil {
		*p = *read
	}
	return err
}

// ErrDigest says that a profile that was kept is not the one that was pinned.
var ErrDigest = errors.New("capability profile: the text has another digest than was pinned")

// Load reads a profile that was kept as JSON, and refuses one that has not the
// digest that was recorded for it, with [ErrDigest].
func Load(text []byte, want skill.Digest) (*Profile, error) {
	var p Profile
	if err := p.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	if p.digest != want {
		return nil, ErrDigest
	}
	return &p, nil
}

// Drift says what is no longer as the profile pinned it, by name, and for each
// what to do. Calls of a tool that drifted should pause until a new profile is
// resolved. Empty: nothing.
func (p *Profile) Drift(w *World) map[string]string {
	out := map[string]string{}
	for _, t := range p.facts.Tools {
		now, err := find(w, t.Name, t.Connector, "")
		switch {
		case err != nil:
			out[t.Name] = "it is gone; resolve a new profile without it"
		case now.Version != t.Version:
			out[t.Name] = "it is version " + now.Version + " and not " + t.Version + "; resolve a new profile and check arguments and grants again"
		case now.Contract != t.Contract:
			out[t.Name] = "its contract changed within the version; suspend it and ask its owner"
		case now.Protocol != t.Protocol:
			out[t.Name] = "it speaks " + cmp.Or(now.Protocol, "no protocol") + " and not " + t.Protocol + "; validate it again"
		}
	}
	for name, d := range p.facts.Sandboxes {
		if w.Sandboxes[name] != d {
			out[name] = "the sandbox policy changed; resolve a new profile"
		}
	}
	if w.Policy != p.facts.Policy {
		out["policy"] = "the policy is another revision; calls are decided by it, and a new profile says so"
	}
	return out
}
