package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/internal/strictyaml"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Status is where a version is in its life. The zero Status is none and gives a
// version to nobody.
type Status string

const (
	Draft      Status = "draft"
	Validated  Status = "validated"
	Published  Status = "published"
	Deprecated Status = "deprecated"
	Retired    Status = "retired"
)

// Record is what is known about one version of a skill.
type Record struct {
	Name    string `yaml:"name" json:"name"`
	Version string `yaml:"version" json:"version"` // a semantic version, without "v"
	Owner   string `yaml:"owner" json:"owner"`     // who answers for it; the same for every version
	Status  Status `yaml:"status" json:"status"`

	// Artifact is the digest of the package. It never changes.
	Artifact skill.Digest `yaml:"artifact_digest" json:"artifact_digest"`

	// Source says where the package was made, such as a commit. For people.
	Source string `yaml:"source" json:"source,omitempty"`

	// Scope names where it may be used, such as "staging". Empty: nowhere.
	Scope []string `yaml:"scope" json:"scope"`

	// What following the skill may change and reveal. Unclassified is refused.
	SideEffect  risk.SideEffect  `yaml:"side_effect" json:"side_effect"`
	Sensitivity risk.Sensitivity `yaml:"data_sensitivity" json:"data_sensitivity"`

	Dependencies Dependencies `yaml:"dependencies" json:"dependencies"`

	// Validation is the evidence that counts. Nil: none yet.
	Validation *Evidence        `yaml:"validation" json:"validation,omitempty"`
	Reviews    []Review         `yaml:"reviews" json:"reviews,omitempty"`
	Signature  *skill.Signature `yaml:"signature" json:"signature,omitempty"`

	// PreviousStable is the version to go back to. Empty: there was none.
	PreviousStable string `yaml:"previous_stable" json:"previous_stable"`
	Changelog      string `yaml:"changelog" json:"changelog"`

	Registrant Person `yaml:"registrant" json:"registrant"` // filled in by Register
	Revision   int64  `yaml:"revision" json:"revision"`     // filled in by the store, from 1
}

// Dependencies are what a skill needs to be there. They are checked by name when
// it is loaded; nothing is fetched.
type Dependencies struct {
	ToolContract   string `yaml:"tool_contract" json:"tool_contract,omitempty"`
	RuntimeProfile string `yaml:"runtime_profile" json:"runtime_profile,omitempty"`

	// Skills are other skills by name, each as one package.
	Skills map[string]skill.Digest `yaml:"skills" json:"skills,omitempty"`

	// External is what cannot be packed, by name, with the version of its
	// contract or the name of a snapshot.
	External map[string]string `yaml:"external" json:"external,omitempty"`
}

// Evidence says that a suite was run on one package in one context.
type Evidence struct {
	Suite string `yaml:"suite" json:"suite"`
	URI   string `yaml:"evidence" json:"evidence"` // where the results are

	// Artifact is the package that was tested. Evidence for another one does
	// not count.
	Artifact skill.Digest `yaml:"artifact_digest" json:"artifact_digest"`

	// Context is the digest of what it was tested with: the contracts of the
	// tools, the model, the runtime. When that changes the evidence is stale.
	Context skill.Digest `yaml:"context_digest" json:"context_digest"`

	Passed bool      `yaml:"passed" json:"passed"`
	At     time.Time `yaml:"at" json:"at"` // filled in by Attach, as is By
	By     Person    `yaml:"by" json:"by"`
}

// Review is what one person says about one package.
type Review struct {
	Reviewer Person       `yaml:"reviewer" json:"reviewer"`
	Artifact skill.Digest `yaml:"artifact_digest" json:"artifact_digest"`
	Approved bool         `yaml:"approved" json:"approved"`
	Note     string       `yaml:"note" json:"note,omitempty"`
	At       time.Time    `yaml:"at" json:"at"`
}

// Person is a principal of the registry's tenant.
type Person struct {
	Issuer  string `yaml:"issuer" json:"issuer"`
	Subject string `yaml:"subject" json:"subject"`
}

// Event is what happened to a record.
type Event struct {
	What     string    `json:"what"` // "register", "validate", "review", "move"
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	From     Status    `json:"from"`
	To       Status    `json:"to"`
	By       Person    `json:"by"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"`
	Revision int64     `json:"revision"` // of the record that it led to
}

// ParseRecord reads a record as people write one, in YAML. It checks the form
// and no status: [Registry.Register] takes it as a draft. The error is
// INVALID_INPUT, with lines.
func ParseRecord(text []byte) (Record, error) {
	var r Record
	if err := strictyaml.Decode(text, &r); err != nil {
		return Record{}, fmt.Errorf("skill record: %w: %w", toolresult.InvalidInput, err)
	}
	if problems := r.problems(); problems != nil {
		return Record{}, fmt.Errorf("skill record: %w: %s", toolresult.InvalidInput, strings.Join(problems, "; "))
	}
	return r, nil
}

const maxText = 4096 // bytes of a text for people

// problems lists what is wrong with the form of a record.
func (r *Record) problems() (out []string) {
	add := func(bad bool, text string) {
		if bad {
			out = append(out, text)
		}
	}
	add(!properName(r.Name), "name: want 1 to 64 of a to z, 0 to 9 and single hyphens")
	_, ok := parseVersion(r.Version)
	add(!ok, "version: want a semantic version such as 1.4.0")
	add(r.Owner == "" || len(r.Owner) > 256, "owner: want who answers for it")
	add(!r.SideEffect.Known(), "side_effect: want what following the skill may change")
	add(!r.Sensitivity.Known(), "data_sensitivity: want what it may reveal")
	_, ok = parseVersion(r.PreviousStable)
	add(r.PreviousStable != "" && (!ok || r.PreviousStable == r.Version), "previous_stable: want another version, or nothing")
	add(len(r.Changelog) > maxText || len(r.Source) > maxText, "changelog, source: want at most 4096 bytes")
	add(r.Artifact != "" && !r.Artifact.Valid(), "artifact_digest: want sha256: and 64 hexadecimal digits")
	add(len(r.Scope) > 64 || slices.Contains(r.Scope, ""), "scope: want at most 64 names")
	for name, d := range r.Dependencies.Skills {
		add(!properName(name) || !d.Valid(), "dependencies.skills: want names with digests of packages")
	}
	return out
}

func properName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" &&
		s[0] != '-' && s[len(s)-1] != '-' && !strings.Contains(s, "--")
}

// clone copies what a caller could change.
func (r Record) clone() Record {
	r.Scope, r.Reviews = slices.Clone(r.Scope), slices.Clone(r.Reviews)
	r.Dependencies.Skills = cloneMap(r.Dependencies.Skills)
	r.Dependencies.External = cloneMap(r.Dependencies.External)
	if r.Validation != nil {
		e := *r.Validation
		r.Validation = &e
	}
	if r.Signature != nil {
		s := skill.Signature{Key: r.Signature.Key, Bytes: slices.Clone(r.Signature.Bytes)}
		r.Signature = &s
	}
	return r
}

func cloneMap[V any](m map[string]V) map[string]V {
	if m == nil {
		return nil
	}
	out := make(map[string]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
