package reads

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/connectortest/check"
	"github.com/drawbridge-sdk/drawbridge/connector/release"
	"github.com/drawbridge-sdk/drawbridge/internal/schema"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

func manifest() []check.Check {
	return []check.Check{
		{
			ID: "manifest/name", Since: frozen, Modes: anyCall, Static: true, Kills: []string{"bad-name"},
			Promise: "The connector has an id in lower case and a semantic version, so that tools can compare releases.",
			Run:     runName,
		},
		{
			ID: "manifest/ops-unique", Since: frozen, Modes: anyCall, Static: true, Kills: []string{"dup-op", "op-order"},
			Promise: "The names of capabilities are unique, and their order is the same each time.",
			Run:     runUnique,
		},
		{
			ID: "manifest/pure", Since: frozen, Static: true, Kills: []string{"manifest-from-clock"},
			Promise: "The manifest is the same each time, at every hour and from every instance, and belongs to whoever asked.",
			Run:     runPure,
		},
		{
			ID: "manifest/effects-declared", Since: frozen, Modes: anyCall, Static: true, Kills: []string{"effect-zero"},
			Promise: "Each capability says what it changes and what it may reveal; what is not said is refused, and not taken for a read.",
			Run:     runEffects,
		},
		{
			ID: "manifest/egress-declared", Since: frozen, Modes: anyCall, Own: true, Needs: check.NeedsRoutes, Kills: []string{"host-undeclared"},
			Promise: "An ordinary call asks for no host and no route that is not declared.",
			Run:     runEgress,
		},
		{
			ID: "manifest/scopes-least", Level: check.Extended, Needs: needsScopes, Kills: []string{"scope-extra"},
			Promise: "Every sample works with exactly the scopes that are declared, and none of them is unused.",
			Run:     runScopes,
		},
		{
			ID: "manifest/text-inert", Since: frozen, Modes: anyCall, Static: true, Kills: []string{"desc-hidden-text"},
			Promise: "Names and descriptions are plain text of bounded length, without characters that people do not see.",
			Run:     runInert,
		},
		{
			ID: "manifest/interfaces-match", Since: frozen, Modes: anyCall, Static: true, Kills: []string{"lookup-missing"},
			Promise: "What the manifest declares the connector implements: a change that can be looked up has a look-up.",
			Run:     runInterfaces,
		},
		{
			ID: "manifest/compatible", Level: check.Extended, Modes: anyCall, Static: true, Kills: []string{"new-required-arg"},
			Promise: "A release that takes something away from callers of the last one has a new major version.",
			Needs: func(s *check.Subject) string {
				if s.Fixture.Released == nil {
					return "the fixture names no released version"
				}
				return ""
			},
			Run: runCompatible,
		},
	}
}

var (
	goodID  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	version = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

func runName(_ context.Context, s *check.Session) {
	m := s.Manifest
	s.Expect(goodID.MatchString(m.ID), "id "+m.ID, "an id of lower case letters, digits, _ and -")
	s.Expect(version.MatchString(m.Version), "version "+m.Version, "a semantic version such as 1.2.3")
}

func runUnique(_ context.Context, s *check.Session) {
	if s.Connector == nil {
		return
	}
	names := func() (out []string) {
		for _, d := range s.Connector.Manifest().Capabilities {
			out = append(out, d.Name)
		}
		return out
	}
	first := names()
	for range 4 {
		again := names()
		s.Expect(slices.Equal(first, again), fmt.Sprint(again), fmt.Sprint("each time ", first))
	}
	sorted := slices.Sorted(slices.Values(first))
	s.Expect(len(slices.Compact(sorted)) == len(first), fmt.Sprint(first), "each name once")
}

func runPure(_ context.Context, s *check.Session) {
	if s.Connector == nil {
		return
	}
	text := func(c connector.Connector) string {
		b, err := json.Marshal(c.Manifest().Capabilities)
		if err != nil {
			s.Fail("the manifest cannot be written: "+err.Error(), "plain data")
		}
		return check.Digest(c.Manifest()) + string(b)
	}
	first := text(s.Connector)
	s.Wait(400*24*time.Hour + 7*time.Hour)
	s.Expect(text(s.Connector) == first, "another manifest a year later", "the same")
	if other, err := s.Fixture.New(); err == nil && other != nil {
		s.Expect(text(other) == first, "another manifest from a second instance", "the same")
	}
	m := s.Connector.Manifest()
	for i := range m.Capabilities {
		m.Capabilities[i].Name = "changed"
		for j := range m.Capabilities[i].Routes {
			m.Capabilities[i].Routes[j].Pattern = "GET /changed"
		}
	}
	s.Expect(text(s.Connector) == first, "a change to a returned manifest shows in the next one", "a manifest that belongs to whoever asked for it")
}

func runEffects(_ context.Context, s *check.Session) {
	for _, d := range s.Manifest.Capabilities {
		write := d.Kind == connector.KindWrite
		s.Expect(d.Class.SideEffect.Known() && write == (d.Class.SideEffect != risk.ReadOnly), fmt.Sprintf("%s is a %s with the effect %v", d.Name, d.Kind, d.Class.SideEffect), "a declared effect that fits the kind")
		s.Expect(d.Class.Sensitivity.Known(), fmt.Sprintf("%s has the sensitivity %v", d.Name, d.Class.Sensitivity), "one that is declared")
		for _, r := range d.Routes {
			s.Expect(r.Effect == connector.Reads || write && r.Effect == connector.Changes, fmt.Sprintf("%s: %q says nothing of its effect, or changes something", d.Name, r.Pattern), "a route that says what it does")
		}
	}
}

func runEgress(ctx context.Context, s *check.Session) {
	worked := 0
	for _, c := range askingAll(s) {
		s := s.Fresh()
		r := s.Do(ctx, c)
		s.Expect(s.Violation(r) == "" && toolresult.Code(r.Err()) != toolresult.EgressDenied, c.Capability+": "+s.Describe(r), "only requests that are declared")
		s.Expect(len(s.Foreign()) == 0, fmt.Sprintf("%s asks for %v", c.Capability, s.Foreign()), "no other host than the endpoint")
		if s.Requests() > 0 && r.Error == nil {
			worked++
		}
	}
	if worked == 0 {
		s.Inconclusive("no ordinary call asks the provider and works")
	}
}

func needsScopes(s *check.Subject) string {
	for _, d := range s.Manifest.Capabilities {
		if len(d.Scopes) > 0 {
			return check.NeedsCredential(s)
		}
	}
	return "no capability declares a scope"
}

func runScopes(ctx context.Context, s *check.Session) {
	if _, ok := s.Double.(check.DoubleWithScopes); !ok {
		s.Inconclusive("the double does not tell credentials with different scopes apart: let it implement DoubleWithScopes")
		return
	}
	for _, c := range askingAll(s) {
		declared := s.Declaration(c.Capability).Scopes
		s.WantData(c, s.Fresh().Do(ctx, c))
		if s.Kind(c) == connector.KindWrite {
			continue // one that is for looking a change up is not needed by the ordinary call
		}
		for _, scope := range declared {
			t := s.Fresh()
			t.Broker.Narrow(func(all []string) []string {
				return slices.DeleteFunc(slices.Clone(all), func(x string) bool { return x == scope })
			})
			r := t.Do(ctx, c)
			t.Expect(r.Error != nil, fmt.Sprintf("%s works without the scope %s", c.Capability, scope), "a scope that is declared is needed")
		}
	}
}

// longestText bounds a description, in bytes.
const longestText = 4096

func runInert(_ context.Context, s *check.Session) {
	for _, d := range s.Manifest.Capabilities {
		for what, text := range map[string]string{"name": d.Name, "title": d.Title, "description": d.Description} {
			s.Expect(len(text) <= longestText && inert(text), fmt.Sprintf("the %s of %s has characters that do not show, or is too long", what, d.Name), "plain text")
		}
		for _, raw := range []json.RawMessage{d.Input, d.Output} {
			for _, text := range texts(parse(raw)) {
				s.Expect(inert(text), "a text in a schema of "+d.Name+" has characters that do not show", "plain text")
			}
		}
	}
}

func inert(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp) || unicode.IsControl(r) && r != '\n' && r != '\t' {
			return false
		}
	}
	return true
}

func runInterfaces(_ context.Context, s *check.Session) {
	_, looks := s.Connector.(connector.ConnectorWithLookup)
	for _, d := range s.Manifest.Capabilities {
		s.Expect(looks || d.Kind != connector.KindWrite || !d.Reconcilable, d.Name+" says that it can be looked up, and the connector is no ConnectorWithLookup", "an implementation of what is declared")
		s.Expect(d.Kind == connector.KindWrite || !d.Reconcilable && d.Compensation == "", d.Name+" reads, and says something about changes", "a declaration that fits the kind")
		back := d.Compensation == "" || s.Declaration(d.Compensation) != nil
		s.Expect(back, d.Name+" is made up for by "+d.Compensation+", which is not declared", "a capability of this connector")
	}
}

func runCompatible(_ context.Context, s *check.Session) {
	was, err := release.Decode(s.Fixture.Released)
	if err != nil {
		s.Inconclusive("Fixture.Released: " + err.Error())
		return
	}
	err = release.Compare(was, release.Of(s.Connector)).Err()
	s.Expect(err == nil, fmt.Sprint(err), "a new major version, or nothing taken away")
}

// parsed reads both schemas of a capability, by the rules of the host.
func parsed(d *connector.Declaration) (in, out error) {
	if d.Input != nil {
		_, in = schema.Parse(d.Input, true)
	}
	if d.Output != nil {
		_, out = schema.Parse(d.Output, false)
	}
	return in, out
}
