package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Spec is a composition by names, as people write it.
type Spec struct {
	ID    string `yaml:"id"`
	Skill string `yaml:"skill"`

	// SkillVersion asks for one published version. "": the current one.
	SkillVersion string `yaml:"skill_version"`

	// Tools maps the names of capabilities to the connector and the major
	// version that offers them: "ticket-connector-v5". Empty: no tools.
	Tools map[string]string `yaml:"tools"`

	// Credentials is [FromRunBinding]: there is nothing else that could be
	// written here.
	Credentials string `yaml:"credentials"`

	Sandbox Sandbox `yaml:"sandbox"`

	// Suite is the set of regression tests that the skill must have passed.
	// "": the one that its record names.
	Suite string `yaml:"suite"`

	// Prohibited names what is refused in this composition, whatever else
	// allows it.
	Prohibited []string `yaml:"prohibited"`
}

// Sandbox names the policies of the host that the run is confined by.
type Sandbox struct {
	Filesystem string `yaml:"filesystem" json:"filesystem"`
	Egress     string `yaml:"egress" json:"egress"`
	Env        string `yaml:"env" json:"env"`
}

// FromRunBinding is the only way for a run to get credentials: the connection of
// its principal, resolved at each call.
const FromRunBinding = "resolve_from_run_binding"

// maxTools is how many tools a composition may have.
const maxTools = 256

// Parse reads a composition: YAML with the one field capability_profile. The
// error is INVALID_INPUT and lists every problem, with lines.
func Parse(text []byte) (*Spec, error) {
	var file struct {
		Profile *Spec `yaml:"capability_profile"`
	}
	if err := strictyaml.Decode(text, &file); err != nil {
		return nil, fmt.Errorf("capability profile: %w: %w", toolresult.InvalidInput, err)
	}
	if file.Profile == nil {
		return nil, fmt.Errorf("capability profile: %w: there is no field capability_profile", toolresult.InvalidInput)
	}
	var lines []string
	for _, p := range file.Profile.problems() {
		lines = append(lines, strictyaml.At(text, "capability_profile."+p.path, p.text).Error())
	}
	if lines != nil {
		return nil, fmt.Errorf("capability profile: %w: %s", toolresult.InvalidInput, strings.Join(lines, "\n"))
	}
	return file.Profile, nil
}

type problem struct{ path, text string }

// problems lists what is wrong with a Spec. Values are not quoted: one may be a
// secret that was pasted into the wrong place.
func (s *Spec) problems() (out []problem) {
	add := func(bad bool, path, text string) {
		if bad {
			out = append(out, problem{path, text})
		}
	}
	add(!word(s.ID), "id", "want a name of letters, digits, dots, dashes and underscores")
	add(!word(s.Skill), "skill", "want the name of a skill")
	add(s.SkillVersion != "" && !word(s.SkillVersion), "skill_version", "want a version, or nothing")
	add(s.Suite != "" && !word(s.Suite), "suite", "want the name of a suite, or nothing")
	add(s.Credentials != FromRunBinding, "credentials", "want "+FromRunBinding+": a composition holds no credential")
	add(!word(s.Sandbox.Filesystem), "sandbox.filesystem", "want the name of the host's policy for files")
	add(!word(s.Sandbox.Egress), "sandbox.egress", "want the name of the host's policy for the network")
	add(!word(s.Sandbox.Env), "sandbox.env", "want the name of the host's policy for the environment")
	add(len(s.Tools) > maxTools, "tools", fmt.Sprintf("want at most %d", maxTools))
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		path := "tools." + name
		_, _, ok := contract(s.Tools[name])
		add(!word(name), "tools", "want names of capabilities")
		add(!ok, path, "want a connector with a major version, such as ticket-connector-v5")
		add(slices.Contains(s.Prohibited, name), path, "is prohibited below; keep one of the two")
	}
	for i, name := range s.Prohibited {
		add(!word(name), fmt.Sprintf("prohibited[%d]", i), "want the name of a capability")
		add(slices.Contains(s.Prohibited[:i], name), fmt.Sprintf("prohibited[%d]", i), "occurs twice; keep one")
	}
	return out
}

func word(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// contract splits "ticket-connector-v5".
func contract(s string) (connector, major string, ok bool) {
	i := strings.LastIndex(s, "-v")
	if i < 1 || !word(s) {
		return "", "", false
	}
	major = s[i+2:]
	return s[:i], major, major != "" && len(major) < 10 && strings.Trim(major, "0123456789") == "" && (major[0] != '0' || major == "0")
}
