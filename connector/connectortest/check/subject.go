package check

import (
	"fmt"
	"slices"
	"testing"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/internal/route"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// A Subject is the connector that is tested, as far as it is the same for all
// checks.
type Subject struct {
	Fixture  *Fixture
	Manifest connector.Manifest
	Mode     Mode

	// Ordinary holds what became of the ordinary call of each sample, in their
	// order, on an undisturbed session.
	Ordinary []Ordinary

	// Brief says that only whether a check fails matters: after its first finding
	// the calls that it still makes are not made.
	Brief bool

	double func(testing.TB) Double // of the mode
	tours  *tours
	routes []*route.Table // of the manifest's capabilities
}

// Ordinary is what became of the ordinary call of a sample.
type Ordinary struct {
	Works    bool
	Why      string // it does not
	Detail   string // lines for whoever wrote it: the cause, the exchanges; without secrets
	Requests int
	Result   *toolresult.Result
	Sent     []*Exchange
}

// Like returns a subject with another fixture of which the same is known: it is
// for a connector that makes the same manifest and the same ordinary calls.
func (s *Subject) Like(f *Fixture) *Subject {
	out := *s
	out.Fixture = f
	out.tours = &tours{done: map[string]*tour{}}
	return &out
}

// Declaration returns the declaration of a capability, or nil.
func (s *Subject) Declaration(name string) *connector.Declaration {
	i := slices.IndexFunc(s.Manifest.Capabilities, func(d connector.Declaration) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Manifest.Capabilities[i]
}

// Has reports whether the manifest declares a capability of a kind.
func (s *Subject) Has(kind connector.Kind) bool {
	return slices.ContainsFunc(s.Manifest.Capabilities, func(d connector.Declaration) bool { return d.Kind == kind })
}

// NeedsKind is for Check.Needs: the check is about capabilities of these kinds.
func NeedsKind(kinds ...connector.Kind) func(*Subject) string {
	return func(s *Subject) string {
		for _, k := range kinds {
			if s.Has(k) {
				return ""
			}
		}
		return fmt.Sprintf("the manifest declares no capability of kind %v", kinds)
	}
}

// NeedsRoutes is for Check.Needs: the check is about requests to the provider.
func NeedsRoutes(s *Subject) string {
	for _, d := range s.Manifest.Capabilities {
		if len(d.Routes) > 0 {
			return ""
		}
	}
	return "no capability declares a route"
}

// NeedsCredential is for Check.Needs.
func NeedsCredential(s *Subject) string {
	if s.Manifest.Auth.Mode == connector.AuthNone {
		return "the provider asks for no credential"
	}
	return NeedsRoutes(s)
}

// All is for Check.Needs: the first reason of several, or none.
func All(needs ...func(*Subject) string) func(*Subject) string {
	return func(s *Subject) string {
		for _, n := range needs {
			if why := n(s); why != "" {
				return why
			}
		}
		return ""
	}
}

// unsampled lists capabilities without a sample.
func (s *Subject) unsampled() (out []string) {
	for _, d := range s.Manifest.Capabilities {
		if !slices.ContainsFunc(s.Fixture.Samples, func(x Sample) bool { return x.Capability == d.Name }) {
			out = append(out, d.Name)
		}
	}
	return out
}

// Blocks says why nothing can be concluded from a check, because the ordinary
// calls do not work; empty: it can be run.
func (s *Subject) Blocks(c *Check) string {
	if c.Static || c.Own {
		return ""
	}
	return s.control()
}

// control says why nothing can be concluded from calls, or nothing.
func (s *Subject) control() string {
	if missing := s.unsampled(); len(missing) > 0 {
		return fmt.Sprintf("the fixture has no sample for %v", missing)
	}
	for i, o := range s.Ordinary {
		if !o.Works {
			return fmt.Sprintf("the ordinary call of %s does not work: %s", s.Fixture.Samples[i].Capability, o.Why)
		}
	}
	return ""
}
