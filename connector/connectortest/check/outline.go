package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/connector"
)

// outline is what a caller of a released version relies on.
type outline struct {
	Version      string                 `json:"version"`
	Capabilities map[string]outlineItem `json:"capabilities"`
}

type outlineItem struct {
	Kind       connector.Kind `json:"kind"`
	SideEffect uint8          `json:"side_effect"`
	Required   []string       `json:"required,omitempty"`
	Arguments  []string       `json:"arguments,omitempty"`
}

// Outline writes what callers of a version rely on, to be kept beside the tests
// (testdata/released.json) and given as Fixture.Released to the tests of later
// versions.
func Outline(m connector.Manifest) []byte {
	text, err := json.MarshalIndent(outlineOf(m), "", "  ")
	if err != nil {
		return nil
	}
	return append(text, '\n')
}

func outlineOf(m connector.Manifest) outline {
	o := outline{Version: m.Version, Capabilities: map[string]outlineItem{}}
	for _, d := range m.Capabilities {
		var in struct {
			Required   []string
			Properties map[string]json.RawMessage
		}
		_ = json.Unmarshal(d.Input, &in) // one that cannot be read is the business of schema/closed-object
		item := outlineItem{Kind: d.Kind, SideEffect: uint8(d.Class.SideEffect), Required: in.Required}
		for name := range in.Properties {
			item.Arguments = append(item.Arguments, name)
		}
		slices.Sort(item.Required)
		slices.Sort(item.Arguments)
		o.Capabilities[d.Name] = item
	}
	return o
}

// Breaks lists what the manifest takes away from callers of the released version
// without a new major version.
func Breaks(released []byte, m connector.Manifest) ([]string, error) {
	var old outline
	if err := json.Unmarshal(released, &old); err != nil {
		return nil, fmt.Errorf("connectortest: Fixture.Released is not what Outline writes: %w", err)
	}
	now := outlineOf(m)
	if major(old.Version) != major(now.Version) {
		return nil, nil
	}
	var out []string
	for name, was := range old.Capabilities {
		is, there := now.Capabilities[name]
		switch {
		case !there:
			out = append(out, name+" is gone")
		case is.Kind != was.Kind:
			out = append(out, name+" is of another kind")
		case is.SideEffect > was.SideEffect:
			out = append(out, name+" has a stronger effect")
		}
		for _, r := range is.Required {
			if there && !slices.Contains(was.Required, r) {
				out = append(out, name+" needs the argument "+r)
			}
		}
		for _, a := range was.Arguments {
			if there && !slices.Contains(is.Arguments, a) {
				out = append(out, name+" does not take the argument "+a+" any more")
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func major(version string) string {
	head, _, _ := strings.Cut(version, ".")
	return head
}
