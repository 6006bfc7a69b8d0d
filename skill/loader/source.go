package loader

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/skill/registry"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// FromRegistry is a [Source] of the versions that are current in a scope. To
// activate one pins it for the run: a run that has an older version of the skill
// gets [*skill.MismatchError] for the newer entry, and goes on with its own.
func FromRegistry(origin string, r *registry.Registry, scope string) Source {
	return &registered{origin, r, scope}
}

type registered struct {
	origin string
	r      *registry.Registry
	scope  string
}

func (s *registered) Origin() string { return s.origin }

func (s *registered) List(ctx context.Context, who authz.Principal) ([]Listed, []Skipped, error) {
	recs, err := s.r.Current(ctx, who, s.scope)
	if err != nil {
		return nil, nil, err
	}
	var out []Listed
	var skipped []Skipped
	for _, rec := range recs {
		p, err := s.r.Peek(ctx, who, rec.Name, rec.Version)
		if err == nil {
			err = p.Verify(rec.Artifact, nil)
		}
		if err != nil {
			skipped = append(skipped, Skipped{s.origin, rec.Name, err})
			continue
		}
		out = append(out, listed(p, rec.Version, needs(rec.Dependencies)))
	}
	return out, skipped, nil
}

func (s *registered) Load(ctx context.Context, who authz.Principal, run string, l Listed) (*skill.Package, error) {
	if _, err := s.r.Start(ctx, who, registry.StartRequest{Run: run, Name: l.Name, Version: l.Version, Scope: s.scope}); err != nil {
		return nil, err
	}
	p, _, err := s.r.Load(ctx, who, run, l.Name)
	return p, err
}

func needs(d registry.Dependencies) (out []Need) {
	if d.ToolContract != "" {
		out = append(out, Need{Kind: "tool_contract", Name: d.ToolContract})
	}
	if d.RuntimeProfile != "" {
		out = append(out, Need{Kind: "runtime_profile", Name: d.RuntimeProfile})
	}
	out = append(out, sortedNeeds("skill", d.Skills)...)
	return append(out, sortedNeeds("external", d.External)...)
}

func listed(p *skill.Package, version string, needs []Need) Listed {
	return Listed{Name: strings.Clone(p.Name()), Version: version, Digest: p.Digest(), Description: strings.Clone(p.Document().Description), Needs: needs}
}

// FromDirectory is a [Source] of the skills in the directories directly below
// root, which stays the caller's to close. A skill that breaks a rule which the
// profile weighs as an error is skipped with the reasons. Everybody may use them.
func FromDirectory(origin string, root *os.Root, profile skill.Profile, limits *skill.Limits) Source {
	return &directory{origin, root, profile, limits}
}

type directory struct {
	origin  string
	root    *os.Root
	profile skill.Profile
	limits  *skill.Limits
}

func (s *directory) Origin() string { return s.origin }

func (s *directory) List(ctx context.Context, _ authz.Principal) ([]Listed, []Skipped, error) {
	f, err := s.root.Open(".")
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var out []Listed
	var skipped []Skipped
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		p, err := s.open(e.Name())
		if err != nil {
			skipped = append(skipped, Skipped{s.origin, e.Name(), err})
			continue
		}
		l := listed(p, "", nil)
		l.Name = e.Name()
		out = append(out, l)
	}
	return out, skipped, nil
}

// open reads the skill in a directory, and no other place: neither a link nor a
// path.
func (s *directory) open(name string) (*skill.Package, error) {
	if strings.ContainsAny(name, `/\`) || name == "" || name == "." || name == ".." {
		return nil, toolresult.NewError(toolresult.NotFound, "there is no such skill")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) { // it would write lines of its own into the catalogue
		return nil, &skill.PathError{Path: name, Text: "has a character in its name that cannot be printed"}
	}
	info, err := s.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, toolresult.NewError(toolresult.NotFound, "there is no such skill")
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &skill.PathError{Path: name, Text: "is not a directory; links to skills are not followed"}
	}
	sub, err := s.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	p, err := skill.Open(sub, s.limits)
	if err != nil {
		return nil, err
	}
	if err := p.Check(s.profile, name).Err(); err != nil {
		return nil, err
	}
	return p, nil
}

func (s *directory) Load(_ context.Context, _ authz.Principal, _ string, l Listed) (*skill.Package, error) {
	return s.open(l.Name)
}
