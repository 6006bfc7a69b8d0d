// Package loader gives skills to a run a step at a time: the catalogue, the body
// of one skill, one of its files.
//
//	l, err := loader.New([]loader.Source{loader.FromRegistry("sre", reg, "prod")}, &loader.Options{Has: has})
//	cat, err := l.Catalogue(ctx, who)
//	act, err := l.Activate(ctx, who, run, cat.Entries[0])
//	text, err := act.Read(ctx, "references/metrics.md")
//
// Each step asks the source again: whether the caller may use the skill now,
// whether the version may still be given out, and whether the package has the
// digest that the catalogue showed. A file that was swapped, added or made
// executable in between stops the skill at the next step, whichever file is
// asked for.
//
// # Nothing is dropped silently
//
// A [Catalogue] has a budget of tokens. What does not fit is shortened, and then
// left out by name; what could not be read is named with the reasons; skills of
// one name from several sources are all kept, under names that tell them apart.
// What a skill needs and is not there is named by [*Unavailable], and nothing
// else is offered in its place.
//
// # What this package does not do
//
// It gives text to a host. It opens no file for anybody, runs no script and
// grants nothing: allowed-tools are not read here. Which source is trusted is the
// host's decision, when it makes the list of sources and by [Options.Approve].
package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Source is where skills come from. It is safe for concurrent use.
type Source interface {
	// Origin is the host's name for the source. What a source says about
	// itself is no part of it.
	Origin() string

	// List returns what the caller may use now, and what could not be read
	// with the reason. It MUST read each package whole and give its digest.
	List(ctx context.Context, who authz.Principal) ([]Listed, []Skipped, error)

	// Load returns the package of something that List returned, for a run. It
	// MUST ask again whether the caller may use it, and MUST read it afresh.
	Load(ctx context.Context, who authz.Principal, run string, l Listed) (*skill.Package, error)
}

// Listed is one skill of a source.
type Listed struct {
	Name, Version string // Version is empty if the source has none
	Digest        skill.Digest
	Description   string
	Needs         []Need
}

// Need is something that a skill says it needs. Kind is "tool_contract",
// "runtime_profile", "skill", "external" or "resource"; Version is that of an
// external thing, or the digest of a skill.
type Need struct{ Kind, Name, Version string }

// String returns "tool_contract observability-v3".
func (n Need) String() string { return strings.TrimSpace(n.Kind + " " + n.Name + " " + n.Version) }

// Skipped is something that could not be read, and why.
type Skipped struct {
	Origin, Name string
	Err          error
}

// Entry is one skill of a catalogue. It is text and can be kept.
type Entry struct {
	Listed
	Origin string

	// Ref names the entry in its catalogue: the skill's name, or
	// "origin/name" if several sources have one of that name.
	Ref string

	// Shown is the description as the catalogue shows it: whole, or cut to
	// fit the budget.
	Shown string
}

// Catalogue is what a run is told about at first. The caller owns it.
type Catalogue struct {
	Entries    []Entry             // that fit, by Ref
	Left       []Entry             // that do not fit; they can be activated all the same
	Skipped    []Skipped           // that could not be read
	Collisions map[string][]string // name: the refs that have it
	Tokens     int                 // that Text takes
}

// Text returns a line for each entry.
func (c *Catalogue) Text() string {
	var b strings.Builder
	for _, e := range c.Entries {
		b.WriteString(line(e))
	}
	return b.String()
}

func line(e Entry) string {
	return "- " + e.Ref + ": " + strings.Join(strings.Fields(e.Shown), " ") + "\n"
}

// Find returns the entry with a ref, also one that was left out. A name that
// several have is no ref: it would be a guess which is meant.
func (c *Catalogue) Find(ref string) (Entry, bool) {
	for _, list := range [][]Entry{c.Entries, c.Left} {
		if i := slices.IndexFunc(list, func(e Entry) bool { return e.Ref == ref }); i >= 0 {
			return list[i], true
		}
	}
	return Entry{}, false
}

// Event is one step, for the record of a run.
type Event struct {
	Run     string // empty for the catalogue
	Step    string // "catalogue", "activate" or "read"
	Origin  string
	Name    string
	Version string
	Digest  skill.Digest
	Path    string       // of a file
	File    skill.Digest // of a file
	Bytes   int
	At      time.Time
	Code    toolresult.ErrorCode // why it was refused; empty if it was not
}

// Options are what a loader may be given besides.
type Options struct {
	// Tokens is the budget of a catalogue. 0: 4000.
	Tokens int

	// Count counts the tokens of a text. Nil: one for four ASCII characters
	// and one for each other character.
	Count func(string) int

	// Has says whether something that a skill needs is there. Nil: nothing is.
	Has func(ctx context.Context, n Need) bool

	// Approve is asked before a body is given out, with every file that the
	// skill has. An error refuses. Nil: nobody is asked.
	Approve func(ctx context.Context, e Entry, files skill.Manifest) error

	// Watch is told about each step, before its result is given out. Nil:
	// nobody is told.
	Watch func(Event)
}

// Loader gives skills to runs. It keeps nothing between calls and is safe for
// concurrent use.
type Loader struct {
	sources []Source
	opts    Options
}

const defaultTokens = 4000

// New returns a loader over sources, whose origins differ. opts may be nil.
func New(sources []Source, opts *Options) (*Loader, error) {
	l := &Loader{sources: slices.Clone(sources)}
	if opts != nil {
		l.opts = *opts
	}
	l.opts.Tokens = cmp.Or(max(l.opts.Tokens, 0), defaultTokens)
	if l.opts.Count == nil {
		l.opts.Count = estimate
	}
	seen := map[string]bool{}
	for _, s := range sources {
		if s == nil || s.Origin() == "" || seen[s.Origin()] || strings.Contains(s.Origin(), "/") {
			return nil, errors.New("skill loader: each source needs an origin of its own, without a slash")
		}
		seen[s.Origin()] = true
	}
	return l, nil
}

func estimate(s string) int {
	ascii, other := 0, 0
	for _, r := range s {
		if r < utf8.RuneSelf {
			ascii++
		} else {
			other++
		}
	}
	return (ascii+3)/4 + other
}

// Catalogue returns what the caller may use now. A source that fails as a whole
// is named in Skipped; if all fail, that is the error.
func (l *Loader) Catalogue(ctx context.Context, who authz.Principal) (*Catalogue, error) {
	c := &Catalogue{Collisions: map[string][]string{}}
	var all []Entry
	var errs []error
	for _, s := range l.sources {
		listed, skipped, err := s.List(ctx, who)
		if err != nil {
			errs = append(errs, err)
			c.Skipped = append(c.Skipped, Skipped{Origin: s.Origin(), Err: err})
			continue
		}
		c.Skipped = append(c.Skipped, skipped...)
		for _, one := range listed {
			all = append(all, Entry{Listed: one, Origin: s.Origin(), Ref: one.Name, Shown: one.Description})
		}
	}
	if len(errs) > 0 && len(errs) == len(l.sources) {
		return nil, errs[0]
	}
	c.name(all)
	l.fit(c, all)
	for _, e := range all {
		l.watch(Event{Step: "catalogue", Bytes: len(e.Shown)}, e, nil)
	}
	return c, nil
}

// name gives entries refs that differ.
func (c *Catalogue) name(all []Entry) {
	count := map[string]int{}
	for _, e := range all {
		count[e.Name]++
	}
	for i := range all {
		if e := &all[i]; count[e.Name] > 1 {
			e.Ref = e.Origin + "/" + e.Name
			c.Collisions[e.Name] = append(c.Collisions[e.Name], e.Ref)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Ref, b.Ref) })
	for _, refs := range c.Collisions {
		slices.Sort(refs)
	}
}

// shortest is how many characters of a description are kept at least.
const shortest = 60

// fit shortens all long descriptions alike until they fit, and leaves out what
// still does not.
func (l *Loader) fit(c *Catalogue, all []Entry) {
	longest := 0
	for _, e := range all {
		longest = max(longest, utf8.RuneCountInString(e.Description))
	}
	low, high := min(shortest, longest), longest // low is taken if nothing longer fits
	for low < high {
		if mid := (low + high + 1) / 2; l.total(all, mid) <= l.opts.Tokens {
			low = mid
		} else {
			high = mid - 1
		}
	}
	for i := range all {
		all[i].Shown = cut(all[i].Description, low)
		if cost := l.opts.Count(line(all[i])); c.Tokens+cost <= l.opts.Tokens {
			c.Tokens += cost
			c.Entries = append(c.Entries, all[i])
		} else {
			c.Left = append(c.Left, all[i])
		}
	}
}

func (l *Loader) total(all []Entry, most int) (n int) {
	for _, e := range all {
		e.Shown = cut(e.Description, most)
		n += l.opts.Count(line(e))
	}
	return n
}

func cut(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "..."
		}
	}
	return s
}

// Unavailable says what a skill needs and is not there. Its code is UNSUPPORTED.
type Unavailable struct {
	Ref     string
	Missing []Need
}

// Error names everything that is missing.
func (u *Unavailable) Error() string {
	var names []string
	for _, n := range u.Missing {
		names = append(names, n.String())
	}
	return fmt.Sprintf("skill loader: %s cannot be used: not there: %s; provide them, there is no other way", u.Ref, strings.Join(names, ", "))
}

// Unwrap returns the code.
func (u *Unavailable) Unwrap() error { return toolresult.Unsupported }

// Activation is a skill that a run works by. Its fields belong to the caller.
type Activation struct {
	Entry Entry
	Body  string         // of SKILL.md
	Files skill.Manifest // that can be read

	l     *Loader
	who   authz.Principal
	run   string
	entry Entry // as it was approved
	files skill.Manifest
}

// Activate gives a run the body of a skill that a catalogue listed. The run has
// the version from then on. It refuses: a package that is not the one that was
// listed ([*skill.MismatchError]), needs that are not there ([*Unavailable]), and
// what Approve refuses.
func (l *Loader) Activate(ctx context.Context, who authz.Principal, run string, e Entry) (*Activation, error) {
	p, err := l.load(ctx, who, run, e, nil)
	if err == nil {
		err = l.missing(ctx, e, p)
	}
	if err == nil && l.opts.Approve != nil {
		err = l.opts.Approve(ctx, e, p.Manifest())
	}
	if err != nil {
		l.watch(Event{Run: run, Step: "activate"}, e, err)
		return nil, err
	}
	a := &Activation{Entry: e, Body: p.Document().Body, Files: p.Manifest(), l: l, who: who, run: run, entry: e, files: p.Manifest()}
	l.watch(Event{Run: run, Step: "activate", Bytes: len(a.Body)}, e, nil)
	return a, nil
}

func (l *Loader) load(ctx context.Context, who authz.Principal, run string, e Entry, before skill.Manifest) (*skill.Package, error) {
	i := slices.IndexFunc(l.sources, func(s Source) bool { return s.Origin() == e.Origin })
	if i < 0 {
		return nil, toolresult.NewError(toolresult.NotFound, "there is no such source of skills")
	}
	p, err := l.sources[i].Load(ctx, who, run, e.Listed)
	if err != nil {
		return nil, err
	}
	if err := p.Verify(e.Digest, before); err != nil {
		return nil, err
	}
	return p, nil
}

// missing checks what the record says that the skill needs, and the files that
// its body links to.
func (l *Loader) missing(ctx context.Context, e Entry, p *skill.Package) error {
	u := &Unavailable{Ref: e.Ref}
	for _, n := range e.Needs {
		if l.opts.Has == nil || !l.opts.Has(ctx, n) {
			u.Missing = append(u.Missing, n)
		}
	}
	for _, name := range p.MissingLinks() {
		u.Missing = append(u.Missing, Need{Kind: "resource", Name: name})
	}
	if u.Missing == nil {
		return nil
	}
	return u
}

// Read returns one file of the skill, by its path in Files. Anything else does
// not exist.
func (a *Activation) Read(ctx context.Context, path string) ([]byte, error) {
	ev := Event{Run: a.run, Step: "read", Path: path}
	p, err := a.l.load(ctx, a.who, a.run, a.entry, a.files)
	var b []byte
	if err == nil {
		b, err = p.ReadFile(path)
	}
	if err != nil {
		a.l.watch(ev, a.entry, err)
		return nil, err
	}
	ev.File, ev.Bytes = skill.DigestOf(b), len(b)
	a.l.watch(ev, a.entry, nil)
	return b, nil
}

func (l *Loader) watch(ev Event, e Entry, err error) {
	if l.opts.Watch == nil {
		return
	}
	ev.Origin, ev.Name, ev.Version, ev.Digest, ev.At, ev.Code = e.Origin, e.Name, e.Version, e.Digest, time.Now().UTC().Round(0), toolresult.Code(err)
	l.opts.Watch(ev)
}

// sortedNeeds lists entries of a map as needs.
func sortedNeeds[V ~string](kind string, m map[string]V) (out []Need) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, Need{kind, k, string(m[k])})
	}
	return out
}
