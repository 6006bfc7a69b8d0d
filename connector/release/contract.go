package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// format is the first member of every file. Another one is refused.
const format = "drawbridge contract 1"

// maxFile bounds a contract file.
const maxFile = 16 << 20

// Contract is what others rely on in one release of a connector. It holds no
// address and no credential, and is safe to publish.
type Contract struct {
	Format       string       `json:"format"`
	Connector    string       `json:"connector"`
	Version      string       `json:"version"`
	Provider     string       `json:"provider_api_version,omitempty"`
	Auth         string       `json:"auth"`
	Exclude      []string     `json:"exclude,omitempty"`
	Preserve     []string     `json:"preserve,omitempty"`
	Capabilities []Capability `json:"capabilities"`
}

// Capability is one capability in a Contract. Texts of enumerations are those of
// manifests.
type Capability struct {
	Name         string          `json:"name"`
	Kind         string          `json:"kind"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	SideEffect   string          `json:"side_effect"`
	Sensitivity  string          `json:"sensitivity"`
	Scopes       []string        `json:"scopes,omitempty"`
	Routes       []string        `json:"routes,omitempty"`
	URI          string          `json:"uri,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	Output       json.RawMessage `json:"output,omitempty"`
	TimeoutMS    int64           `json:"timeout_ms"`
	PageSize     int             `json:"page_size,omitempty"`
	Bytes        int64           `json:"bytes"`
	Approval     string          `json:"approval,omitempty"`
	Repeats      string          `json:"repeats,omitempty"`
	Reconcilable bool            `json:"reconcilable,omitempty"`
	Compensation string          `json:"compensation,omitempty"`
	Digest       string          `json:"digest"` // of the declaration, so that no difference goes unseen
}

// Of returns the contract of a connector, as it would be called now.
func Of(c connector.Connector) Contract {
	m := c.Manifest()
	out := Contract{Format: format, Connector: m.ID, Version: m.Version, Provider: m.ProviderAPIVersion, Auth: string(m.Auth.Mode),
		Exclude: sorted(m.Exclude), Preserve: sorted(m.Preserve)}
	for i := range m.Capabilities {
		out.Capabilities = append(out.Capabilities, capabilityOf(&m.Capabilities[i]))
	}
	slices.SortFunc(out.Capabilities, func(a, b Capability) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func capabilityOf(d *connector.Declaration) Capability {
	c := Capability{
		Name: d.Name, Kind: string(d.Kind), Title: d.Title, Description: d.Description,
		SideEffect: d.Class.SideEffect.String(), Sensitivity: d.Class.Sensitivity.String(),
		Scopes: sorted(d.Scopes), URI: d.URI, Input: d.Input, Output: d.Output,
		TimeoutMS: d.Limits.Timeout.Milliseconds(), PageSize: d.Limits.PageSize, Bytes: d.Limits.Bytes, Digest: d.Digest(),
	}
	for _, r := range d.Routes {
		c.Routes = append(c.Routes, routeText(r))
	}
	slices.Sort(c.Routes)
	if d.Kind == connector.KindWrite {
		c.Approval, c.Reconcilable, c.Compensation = "by_policy", d.Reconcilable, d.Compensation
		if d.Approval == connector.ApprovalAlways {
			c.Approval = "always"
		}
		c.Repeats = repeats(d.Idempotency)
	}
	return c
}

// routeText is a route in one line: what it asks, and whose objects that are.
func routeText(r connector.Route) string {
	text := r.Pattern
	if r.Effect == connector.Changes {
		text += " (changes)"
	}
	switch {
	case r.WholeConnection:
		return text + " of the whole connection"
	case r.Unscoped != "":
		return text + " of nobody's objects"
	}
	return text + " of " + strings.Join(sorted(r.Touches), ", ")
}

// repeats says what the provider does with a request that it gets twice.
func repeats(i connector.Idempotency) string {
	switch {
	case i.Header != "":
		return fmt.Sprintf("header %s for %s", i.Header, i.Window)
	case i.Natural:
		return "natural"
	case i.Field != "":
		return "searched at " + i.Field
	}
	return ""
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// Encode returns the file of a contract: JSON with one member a line, the same
// for the same contract.
func (c Contract) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	if err := e.Encode(c); err != nil {
		return nil, fmt.Errorf("release: the contract of %s cannot be written: %w", c.Connector, err)
	}
	return b.Bytes(), nil
}

// Decode reads a file that Encode wrote. Unknown and double members, another
// format, two capabilities of one name and anything over 16 MiB are errors.
func Decode(file []byte) (Contract, error) {
	if len(file) > maxFile {
		return Contract{}, fmt.Errorf("release: the contract has %d bytes, at most %d are read", len(file), maxFile)
	}
	if _, err := strictjson.Parse(file); err != nil {
		return Contract{}, fmt.Errorf("release: the contract is not strict JSON: %w", err)
	}
	var c Contract
	d := json.NewDecoder(bytes.NewReader(file))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Contract{}, fmt.Errorf("release: the contract cannot be read: %w", err)
	}
	if c.Format != format {
		return Contract{}, fmt.Errorf("release: the contract's format is %q, this program reads %q", c.Format, format)
	}
	seen := map[string]bool{}
	for _, cap := range c.Capabilities {
		if cap.Name == "" || seen[cap.Name] {
			return Contract{}, fmt.Errorf("release: the contract has a capability %q twice, or without a name", cap.Name)
		}
		seen[cap.Name] = true
	}
	return c, nil
}
