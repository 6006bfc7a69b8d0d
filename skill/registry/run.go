package registry

import (
	"context"
	"slices"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Current returns what a new run in a scope gets, of every skill that the caller
// may use: the highest published version that has the scope. Scope "" is any.
// An empty list means nothing.
func (r *Registry) Current(ctx context.Context, who authz.Principal, scope string) ([]Record, error) {
	if err := r.may(ctx, who, actUse, "", authz.Discover); err != nil {
		return nil, err
	}
	all, err := r.store.List(ctx, "")
	if err != nil {
		return nil, err
	}
	// By name and version, so that the last one of a name is the highest.
	var out []Record
	for _, rec := range all {
		if rec.Status != Published || !in(rec, scope) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Name == rec.Name {
			out[n-1] = rec
		} else {
			out = append(out, rec)
		}
	}
	return r.usable(ctx, who, out)
}

func in(rec Record, scope string) bool {
	return scope == "" && len(rec.Scope) > 0 || slices.Contains(rec.Scope, scope)
}

// usable keeps the records of skills that the caller may use.
func (r *Registry) usable(ctx context.Context, who authz.Principal, recs []Record) ([]Record, error) {
	var out []Record
	for _, rec := range recs {
		switch err := r.may(ctx, who, actUse, rec.Name, authz.Execute); toolresult.Code(err) {
		case "":
			out = append(out, rec)
		case toolresult.NotFound, toolresult.PermissionDenied:
		default:
			return nil, err
		}
	}
	return out, nil
}

// StartRequest asks for a skill for a run.
type StartRequest struct {
	Run   string // 1 to 128 letters, digits, dots, dashes and underscores
	Name  string
	Scope string // where the run works, such as "prod"

	// Version asks for one version, which must be published. "": the current
	// one.
	Version string
}

// Start pins a version for a run and returns the pin, which the run records. A
// run that has a pin for the skill keeps it, whatever version is asked for: its
// own may be deprecated by now, and is an error only when it is retired. Another
// scope than the pin's is CONFLICT: a version for staging does not get into prod
// by way of a run that began there.
func (r *Registry) Start(ctx context.Context, who authz.Principal, req StartRequest) (Pin, error) {
	if err := r.may(ctx, who, actUse, req.Name, authz.Execute); err != nil {
		return Pin{}, err
	}
	if !properRun(req.Run) || req.Scope == "" {
		return Pin{}, toolresult.NewError(toolresult.InvalidInput, "a run needs an id of letters, digits, dots, dashes and underscores, and a scope")
	}
	pin, found, err := r.pinOf(ctx, req.Run, req.Name)
	if err != nil {
		return Pin{}, err
	}
	if !found {
		rec, err := r.choose(ctx, req)
		if err != nil {
			return Pin{}, err
		}
		pin, err = r.store.PutPin(ctx, Pin{Run: req.Run, Name: rec.Name, Version: rec.Version, Artifact: rec.Artifact,
			Scope: req.Scope, Revision: rec.Revision, At: time.Now().UTC().Round(0)})
		if err != nil {
			return Pin{}, err
		}
	}
	if pin.Scope != req.Scope {
		return Pin{}, toolresult.NewError(toolresult.Conflict, "the run has the skill in another scope; begin a new run")
	}
	// Read again: it may have been retired before the pin could be seen.
	if _, err = r.held(ctx, pin); err != nil {
		return Pin{}, err
	}
	return pin, nil
}

func (r *Registry) pinOf(ctx context.Context, run, name string) (Pin, bool, error) {
	pins, err := r.store.PinsOf(ctx, run)
	i := slices.IndexFunc(pins, func(p Pin) bool { return p.Name == name })
	if err != nil || i < 0 {
		return Pin{}, false, err
	}
	if !pins[i].Finished.IsZero() {
		return Pin{}, false, errFinished()
	}
	return pins[i], true, nil
}

// choose finds the version for a new pin.
func (r *Registry) choose(ctx context.Context, req StartRequest) (Record, error) {
	all, err := r.store.List(ctx, req.Name)
	if err != nil {
		return Record{}, err
	}
	for _, rec := range slices.Backward(all) {
		if rec.Status == Published && in(rec, req.Scope) && (req.Version == "" || rec.Version == req.Version) {
			return rec, r.signed(rec)
		}
	}
	return Record{}, toolresult.NotVisible(toolresult.NotFound, nil)
}

func (r *Registry) signed(rec Record) error {
	if r.opts.Keys == nil {
		return nil
	}
	if rec.Signature == nil {
		return skill.ErrSignature
	}
	return r.opts.Keys.Verify(rec.statement(), *rec.Signature)
}

// held returns the record of a pin, if the run may still have it.
func (r *Registry) held(ctx context.Context, pin Pin) (Record, error) {
	rec, err := r.read(ctx, pin.Name, pin.Version)
	switch {
	case err != nil:
		return Record{}, err
	case rec.Artifact != pin.Artifact:
		return Record{}, &skill.MismatchError{Want: pin.Artifact, Got: rec.Artifact}
	case rec.Status != Published && rec.Status != Deprecated:
		return Record{}, toolresult.NewError(toolresult.Conflict, "the version was retired; the run cannot go on with it")
	}
	return rec, r.signed(rec)
}

// Load returns the package and the record of a pin that a run holds. Each time
// it asks the policy, checks that the version is not retired and that its
// signature holds, and verifies every byte.
func (r *Registry) Load(ctx context.Context, who authz.Principal, run, name string) (*skill.Package, Record, error) {
	if err := r.may(ctx, who, actUse, name, authz.Execute); err != nil {
		return nil, Record{}, err
	}
	pin, found, err := r.pinOf(ctx, run, name)
	if err != nil {
		return nil, Record{}, err
	}
	if !found {
		return nil, Record{}, toolresult.NewError(toolresult.NotFound, "the run has not started with this skill")
	}
	rec, err := r.held(ctx, pin)
	if err != nil {
		return nil, Record{}, err
	}
	p, err := r.pkg(ctx, pin.Artifact)
	if err != nil {
		return nil, Record{}, err
	}
	return p, rec, nil
}

// pkg reads a package and takes no store's word for what it is.
func (r *Registry) pkg(ctx context.Context, d skill.Digest) (*skill.Package, error) {
	p, err := r.store.Package(ctx, d)
	if err == nil {
		err = p.Verify(d, nil)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Peek returns the package of a published record, verified, for a catalogue.
func (r *Registry) Peek(ctx context.Context, who authz.Principal, name, version string) (*skill.Package, error) {
	rec, err := r.get(ctx, who, actUse, name, version)
	if err != nil {
		return nil, err
	}
	if rec.Status != Published {
		return nil, toolresult.NotVisible(toolresult.NotFound, nil)
	}
	if err := r.signed(rec); err != nil {
		return nil, err
	}
	return r.pkg(ctx, rec.Artifact)
}

// PinsOf returns what a run used, also when it is over and the versions are
// retired: it explains the run. The caller sees the skills that it may use.
func (r *Registry) PinsOf(ctx context.Context, who authz.Principal, run string) ([]Pin, error) {
	if err := r.may(ctx, who, actUse, "", authz.Discover); err != nil {
		return nil, err
	}
	pins, err := r.store.PinsOf(ctx, run)
	if err != nil {
		return nil, err
	}
	var out []Pin
	for _, p := range pins {
		if err := r.may(ctx, who, actUse, p.Name, authz.Execute); err == nil {
			out = append(out, p)
		} else if c := toolresult.Code(err); c != toolresult.NotFound && c != toolresult.PermissionDenied {
			return nil, err
		}
	}
	return out, nil
}

// Finish ends a run: its pins hold no version back any more, and are kept. The
// caller is the runtime, which a policy allows skills.use of every skill that
// the run has.
func (r *Registry) Finish(ctx context.Context, who authz.Principal, run string) error {
	pins, err := r.store.PinsOf(ctx, run)
	if err != nil {
		return err
	}
	if err := r.may(ctx, who, actUse, "", authz.Discover); err != nil {
		return err
	}
	for _, p := range pins {
		if err := r.may(ctx, who, actUse, p.Name, authz.Execute); err != nil {
			return err
		}
	}
	return r.store.FinishRun(ctx, run, time.Now().UTC().Round(0))
}
