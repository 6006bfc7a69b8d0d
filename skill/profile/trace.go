package profile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/loader"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Trace collects what runs did, in memory. It is a [connector.Audit], and its
// Watch is for loader.Options. The zero Trace is empty. It is safe for
// concurrent use and must not be copied after use. What must last is kept by
// whoever keeps the [Explanation].
type Trace struct {
	mu   sync.Mutex
	runs map[string]*run
}

var _ connector.Audit = (*Trace)(nil)

// maxSteps bounds what is kept of a run. What does not fit is counted.
const maxSteps = 10000

type run struct {
	profile *Profile
	who     authz.PrincipalKey
	visible map[string]bool
	loaded  []Loaded
	calls   []Call
	lost    int
}

// Begin makes a run known. It is CONFLICT if the run is known with another
// profile or for somebody else: a run has one profile.
func (t *Trace) Begin(id string, who authz.Principal, p *Profile) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id == "" || p == nil || p.digest == "" || who.IsZero() {
		return toolresult.NewError(toolresult.InvalidInput, "a run needs an id, a principal and a profile")
	}
	if old, ok := t.runs[id]; ok {
		if old.profile.digest != p.digest || old.who != who.Key() {
			return toolresult.NewError(toolresult.Conflict, "the run has another profile or principal")
		}
		return nil
	}
	if t.runs == nil {
		t.runs = map[string]*run{}
	}
	t.runs[id] = &run{profile: p, who: who.Key(), visible: map[string]bool{}}
	return nil
}

// End forgets a run.
func (t *Trace) End(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, id)
}

// See records what a run was shown: names of tools and refs of skills.
func (t *Trace) See(id string, names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.runs[id]; ok {
		for _, n := range names {
			if len(r.visible) < maxSteps {
				r.visible[n] = true
			} else if !r.visible[n] {
				r.lost++
			}
		}
	}
}

// Watch records one step of loading. Steps of unknown runs are not kept.
func (t *Trace) Watch(ev loader.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.runs[ev.Run]
	if !ok || ev.Run == "" {
		return
	}
	if len(r.loaded) >= maxSteps {
		r.lost++
		return
	}
	r.loaded = append(r.loaded, Loaded{Step: ev.Step, Origin: ev.Origin, Skill: ev.Name, Version: ev.Version, Digest: ev.Digest,
		Path: ev.Path, File: ev.File, Bytes: ev.Bytes, At: ev.At, Code: ev.Code})
}

// Record implements [connector.Audit]. Events of unknown runs are not kept, and
// it never fails.
func (t *Trace) Record(_ context.Context, e *connector.AuditEvent) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.runs[e.Run]
	if !ok || e.Run == "" {
		return nil
	}
	c := call(e)
	// The end of a change replaces its beginning.
	i := slices.IndexFunc(r.calls, func(o Call) bool { return o.begun && o.key == c.key && o.Tool == c.Tool })
	switch {
	case c.key != "" && i >= 0:
		r.calls[i] = c
	case len(r.calls) >= maxSteps:
		r.lost++
	default:
		r.calls = append(r.calls, c)
	}
	return nil
}

func call(e *connector.AuditEvent) Call {
	c := Call{
		CallID: e.Result.CallID, Tool: e.Action.Capability, Connector: e.Action.Connector, Version: e.Action.Version,
		Verdict: verdicts[e.Verdict], Policy: e.Revision, Connection: e.Connection, Actor: e.Actor, Surface: e.Surface,
		Status: e.Result.Status, Code: e.Result.Code, Effect: e.Result.Effect.Disposition, Operation: e.Result.Effect.OperationID,
		Data: e.Result.DataDigest, Ref: e.Result.DataRef, At: e.Time, key: e.Key,
	}
	if e.Result.CallID == "" && e.Result.Status == "" { // about to be sent
		c.begun, c.Effect = true, toolresult.EffectUnknown
	}
	for _, id := range e.Target {
		c.Targets = append(c.Targets, id.Type+"/"+id.ID)
	}
	return c
}

var verdicts = map[authz.Verdict]string{authz.Deny: "deny", authz.Allow: "allow", authz.AllowWithApproval: "allow with approval", authz.Prohibit: "prohibit"}

// Loaded is one step of loading a skill.
type Loaded struct {
	Step    string               `json:"step"`
	Origin  string               `json:"origin"`
	Skill   string               `json:"skill"`
	Version string               `json:"version,omitempty"`
	Digest  skill.Digest         `json:"digest"`
	Path    string               `json:"path,omitempty"`
	File    skill.Digest         `json:"file_digest,omitempty"`
	Bytes   int                  `json:"bytes"`
	At      time.Time            `json:"at"`
	Code    toolresult.ErrorCode `json:"code,omitempty"` // why it was refused
}

// Call is one call of a tool. It holds no arguments and no content.
type Call struct {
	CallID    string `json:"call_id"`
	Tool      string `json:"tool"`
	Connector string `json:"connector"`
	Version   string `json:"version"`

	// Verdict, Policy and Targets are the grant: what was decided, by which
	// revision, for which objects.
	Verdict    string   `json:"verdict"`
	Policy     string   `json:"policy_revision"`
	Targets    []string `json:"targets,omitempty"`
	Connection string   `json:"connection,omitempty"`
	Actor      string   `json:"actor,omitempty"`
	Surface    string   `json:"surface,omitempty"`

	Status toolresult.Status    `json:"status"`
	Code   toolresult.ErrorCode `json:"code,omitempty"`

	// Effect is what is known about the outside. A change that was about to
	// be sent when the trace ends is unknown.
	Effect    toolresult.Disposition `json:"effect"`
	Operation string                 `json:"operation_id,omitempty"`

	Data string    `json:"data_digest,omitempty"`
	Ref  string    `json:"data_ref,omitempty"`
	At   time.Time `json:"at"`

	key   string
	begun bool
}

// Explanation says what a run had and did. It is plain data.
type Explanation struct {
	Run       string             `json:"run"`
	Principal authz.PrincipalKey `json:"principal"`
	Profile   *Profile           `json:"profile"`
	Digest    skill.Digest       `json:"profile_digest"`
	Visible   []string           `json:"visible"`
	Loaded    []Loaded           `json:"loaded"`
	Called    []Call             `json:"called"`

	// Outside are the calls that changed something, or may have.
	Outside []Call `json:"outside"`

	// Unexpected says what does not fit the profile, such as a tool at another
	// version, or a call that another revision of the policy decided.
	Unexpected []string `json:"unexpected,omitempty"`

	// Lost counts what was not kept because there was too much.
	Lost int `json:"lost,omitempty"`
}

// Explain says what a run had and did up to now, or NOT_FOUND.
func (t *Trace) Explain(id string) (*Explanation, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.runs[id]
	if !ok {
		return nil, toolresult.NewError(toolresult.NotFound, "there is no such run")
	}
	e := &Explanation{Run: id, Principal: r.who, Profile: r.profile, Digest: r.profile.digest, Visible: []string{},
		Loaded: append([]Loaded{}, r.loaded...), Called: append([]Call{}, r.calls...), Outside: []Call{}, Lost: r.lost}
	for n := range r.visible {
		e.Visible = append(e.Visible, n)
	}
	slices.Sort(e.Visible)
	for _, c := range e.Called {
		if c.Effect != toolresult.EffectNone && c.Effect != toolresult.EffectNotApplied {
			e.Outside = append(e.Outside, c)
		}
	}
	e.Unexpected = r.unexpected()
	return e, nil
}

// unexpected compares what happened with the profile.
func (r *run) unexpected() (out []string) {
	add := func(text string) {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	pinned := r.profile.facts.Skill
	for _, l := range r.loaded {
		if l.Code == "" && (l.Skill != pinned.Name || l.Digest != pinned.Artifact) {
			add(fmt.Sprintf("loaded %s %s from %s, which is not the profile's", l.Skill, l.Digest, l.Origin))
		}
	}
	for _, c := range r.calls {
		i := slices.IndexFunc(r.profile.facts.Tools, func(t Tool) bool { return t.Name == c.Tool })
		switch {
		case slices.Contains(r.profile.facts.Prohibited, c.Tool):
			add("called " + c.Tool + ", which is prohibited: " + outcome(c))
		case i < 0:
			add("called " + c.Tool + ", which is not in the profile: " + outcome(c))
		case c.Version != "" && c.Version != r.profile.facts.Tools[i].Version:
			add("called " + c.Tool + " at " + c.Version + " and not at " + r.profile.facts.Tools[i].Version)
		}
		if c.Policy != "" && c.Policy != r.profile.facts.Policy {
			add("decided by the policy " + c.Policy + " and not by " + r.profile.facts.Policy)
		}
	}
	return out
}

func outcome(c Call) string { return cmp.Or(string(c.Code), string(c.Status), "about to be sent") }

// String writes the explanation for people.
func (e *Explanation) String() string {
	var b strings.Builder
	s := e.Profile.facts.Skill
	fmt.Fprintf(&b, "run %s for %s, profile %s (%s), skill %s %s (%s), policy %s\n", e.Run, e.Principal.Subject, e.Profile.ID(), e.Digest, s.Name, s.Version, s.Artifact, e.Profile.Policy())
	fmt.Fprintf(&b, "visible: %s\n", strings.Join(e.Visible, ", "))
	for _, l := range e.Loaded {
		fmt.Fprintf(&b, "loaded: %s %s %s %s\n", l.Skill, cmp.Or(l.Path, "SKILL.md"), l.Digest, l.Code)
	}
	for _, c := range e.Called {
		fmt.Fprintf(&b, "called: %s %s (%s %s): %s by %s on %s: %s\n", c.CallID, c.Tool, c.Connector, c.Version, c.Verdict, cmp.Or(c.Policy, "no policy"), strings.Join(c.Targets, " "), outcome(c))
	}
	for _, c := range e.Outside {
		fmt.Fprintf(&b, "outside: %s %s: operation %s\n", c.Tool, c.Effect, cmp.Or(c.Operation, "not recorded"))
	}
	for _, u := range e.Unexpected {
		fmt.Fprintf(&b, "unexpected: %s\n", u)
	}
	return b.String()
}
