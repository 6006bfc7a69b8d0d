package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/cedarpolicy"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/examples/internal/host"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/loader"
	"github.com/drawbridge-sdk/drawbridge/skill/profile"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
)

//go:embed skill/incident-diagnosis
var skillFiles embed.FS

//go:embed profile.yaml
var profileText []byte

const (
	skillScope = "prod"
	skillDir   = "skill/incident-diagnosis"
)

// capabilities are what a run of the skill works with: a released version of
// the skill, and a profile in which every tool has its exact version.
type capabilities struct {
	profile *profile.Profile
	loader  *loader.Loader
	trace   *profile.Trace
	user    func() (authz.Principal, error) // who the run works for, to the registry
}

// identity is a person of the example's tenant.
func identity(subject string) authz.Identity {
	return authz.Identity{Tenant: host.Tenant, Issuer: "https://issuer.example.test", Subject: subject}
}

// openCapabilities releases the skill and resolves the profile against what
// there is.
func openCapabilities(ctx context.Context, policy *cedarpolicy.Policy, connectors []connector.Connector) (*capabilities, error) {
	team := &team{authority: authz.NewAuthority("the incident desk's registry")}
	var err error
	if team.Registry, err = registry.New(host.Tenant, &registry.Memory{}, policy, []*authz.Authority{team.authority}, nil); err != nil {
		return nil, err
	}
	if err := team.release(ctx); err != nil {
		return nil, fmt.Errorf("the skill: %w", err)
	}
	who, err := team.authority.Principal(identity(caller))
	if err != nil {
		return nil, err
	}
	spec, err := profile.Parse(profileText)
	if err != nil {
		return nil, err
	}
	p, err := profile.Resolve(ctx, spec, &profile.World{Skills: team.Registry, Who: who, Scope: skillScope, Connectors: connectors, Policy: policy.Revision(),
		Sandboxes: map[string]skill.Digest{
			"isolated-run-directory":      skill.DigestOf(sandboxText),
			"explicit-minimal-allowlist":  skill.DigestOf(sandboxText),
			"approved-provider-endpoints": endpointsDigest(connectors),
		}})
	if err != nil {
		return nil, err
	}
	c := &capabilities{profile: p, trace: &profile.Trace{}}
	has := func(_ context.Context, n loader.Need) bool { return n.Kind == "runtime_profile" && n.Name == p.ID() }
	c.loader, err = loader.New([]loader.Source{loader.FromRegistry("incident-desk", team.Registry, skillScope)}, &loader.Options{Has: has, Watch: c.trace.Watch})
	if err != nil {
		return nil, err
	}
	c.user = func() (authz.Principal, error) { return team.authority.Principal(identity(caller)) }
	return c, c.trace.Begin(runID, who, p)
}

// endpointsDigest is over the names of the egress profiles that connectors go
// through. Where they lead is the administrator's, per machine.
func endpointsDigest(connectors []connector.Connector) skill.Digest {
	var names []string
	for _, c := range connectors {
		names = append(names, c.Manifest().Endpoint)
	}
	return skill.DigestOf([]byte(strings.Join(names, "\n")))
}

// selection is the profile as the invoker narrows by it, for the one who works
// under it.
func (c *capabilities) selection() (authz.Profiles, error) {
	id := identity(caller)
	owner := authz.PrincipalKey{Tenant: id.Tenant, Issuer: id.Issuer, Subject: id.Subject}
	return authz.NewStaticProfiles(map[authz.PrincipalKey][]authz.Profile{owner: {c.profile.Selection()}})
}

// team are the people behind the skill: one writes it, another looks at it and
// releases it.
type team struct {
	*registry.Registry
	authority *authz.Authority
}

func (t *team) release(ctx context.Context) error {
	pkg, err := packageOf(skillFiles, skillDir)
	if err != nil {
		return err
	}
	author, err := t.authority.Principal(identity("carol"))
	if err != nil {
		return err
	}
	lead, err := t.authority.Principal(identity(approver))
	if err != nil {
		return err
	}
	name, version := pkg.Name(), pkg.Document().Metadata["version"]
	rec := registry.Record{Name: name, Version: version, Owner: "incident-desk", Scope: []string{skillScope}, Changelog: "first release",
		SideEffect: risk.CompensableWrite, Sensitivity: risk.Sensitive, Dependencies: registry.Dependencies{RuntimeProfile: "incident-capabilities-v42"}}
	if _, err := t.Register(ctx, author, pkg, rec); err != nil {
		return err
	}
	// The suite is what can be run here: the rules that every host of skills
	// agrees on.
	passed := len(pkg.Check(skill.Portable(), name)) == 0
	if _, err := t.Attach(ctx, author, name, version, registry.Evidence{Suite: "portable-skill", URI: "run at start", Artifact: pkg.Digest(), Context: skill.DigestOf(profileText), Passed: passed}); err != nil {
		return err
	}
	if _, err := t.Review(ctx, lead, name, version, registry.Review{Artifact: pkg.Digest(), Approved: true}); err != nil {
		return err
	}
	for _, to := range []registry.Status{registry.Validated, registry.Published} {
		if _, err := t.Move(ctx, lead, registry.MoveRequest{Name: name, Version: version, To: to}); err != nil {
			return err
		}
	}
	return nil
}

// packageOf reads a skill out of the program.
func packageOf(files fs.FS, dir string) (*skill.Package, error) {
	sub, err := fs.Sub(files, dir)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "skill")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := os.CopyFS(tmp, sub); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return skill.Open(root, nil)
}
