package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/skill"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Directory is a [Store] in a directory, to be kept in Git. It only ever adds
// files, so that a merge of two branches that changed the same record conflicts
// in one file:
//
//	records/<name>/<version>/<revision>.json   a record and the event that led to it
//	packages/<sha256>.tar.gz                   a package
//	runs/<run>/<name>.json                     a pin
//	runs/<run>/_finished.json                  when the run was finished
//
// A file is written under tmp/, synced and then linked to its name, which fails
// if there is one: that is the compare and swap, also between processes. The
// file system must have hard links.
type Directory struct{ root *os.Root }

var _ Store = (*Directory)(nil)

// NewDirectory returns the store in a directory, which must stay open and is
// the caller's to close.
func NewDirectory(root *os.Root) (*Directory, error) {
	if root == nil {
		return nil, errors.New("skill registry: no directory")
	}
	for _, d := range []string{"records", "packages", "runs", "tmp"} {
		if err := root.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	return &Directory{root}, nil
}

type revision struct {
	Record Record `json:"record"`
	Event  Event  `json:"event"`
}

// Put implements [Records].
func (d *Directory) Put(ctx context.Context, rec Record, ev Event) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	if _, ok := parseVersion(rec.Version); !ok || !properName(rec.Name) {
		return Record{}, errNotFound()
	}
	dir := path.Join("records", rec.Name, rec.Version)
	have, err := d.revisions(dir)
	if err != nil {
		return Record{}, err
	}
	if int64(have) != rec.Revision {
		return Record{}, errConflict()
	}
	rec.Revision++
	ev.Revision = rec.Revision
	err = d.writeJSON(dir, revisionName(rec.Revision), revision{rec, ev})
	if errors.Is(err, fs.ErrExist) {
		err = errConflict()
	}
	if err != nil {
		return Record{}, err
	}
	return rec.clone(), nil
}

func revisionName(n int64) string { return fmt.Sprintf("%06d.json", n) }

// revisions counts the revisions of a record and refuses a gap: somebody
// removed history.
func (d *Directory) revisions(dir string) (int, error) {
	names, err := d.list(dir)
	if err != nil {
		return 0, err
	}
	for i, n := range names {
		if n != revisionName(int64(i+1)) {
			return 0, fmt.Errorf("skill registry: %s: want %s and found %s: revisions are missing, restore the directory", dir, revisionName(int64(i+1)), strconv.QuoteToASCII(n))
		}
	}
	return len(names), nil
}

// list returns the names in a directory, sorted; none if it is not there.
func (d *Directory) list(dir string) ([]string, error) {
	f, err := d.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// writeJSON writes a file that must not be there. Its error is then fs.ErrExist.
func (d *Directory) writeJSON(dir, name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return d.write(dir, name, append(b, '\n'))
}

func (d *Directory) write(dir, name string, content []byte) error {
	tmp := "tmp/" + rand.Text()
	f, err := d.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer d.root.Remove(tmp)
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := d.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := d.root.Link(tmp, path.Join(dir, name)); err != nil {
		return err
	}
	return d.sync(dir)
}

// sync makes names durable: the directory's, and those on the way to it.
func (d *Directory) sync(dir string) error {
	for ; ; dir = path.Dir(dir) {
		f, err := d.root.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil || dir == "." {
			return err
		}
	}
}

// readJSON reads what writeJSON wrote, and nothing that could be read in
// another way.
func (d *Directory) readJSON(name string, v any) error {
	b, err := d.root.ReadFile(name)
	if err != nil {
		return err
	}
	return decode(name, b, v)
}

func decode(name string, b []byte, v any) error {
	_, err := strictjson.Parse(b)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.DisallowUnknownFields()
		err = dec.Decode(v)
	}
	if err != nil {
		return fmt.Errorf("skill registry: %s: is not what the registry wrote: restore it: %w", name, err)
	}
	return nil
}

func (d *Directory) revision(name, version string, n int) (revision, error) {
	var r revision
	err := d.readJSON(path.Join("records", name, version, revisionName(int64(n))), &r)
	if err == nil && (r.Record.Name != name || r.Record.Version != version || r.Record.Revision != int64(n)) {
		err = fmt.Errorf("skill registry: records/%s/%s: revision %d is that of another record: restore it", name, version, n)
	}
	return r, err
}

// Get implements [Records].
func (d *Directory) Get(_ context.Context, name, version string) (Record, error) {
	if _, ok := parseVersion(version); !ok || !properName(name) {
		return Record{}, errNotFound()
	}
	n, err := d.revisions(path.Join("records", name, version))
	if err != nil {
		return Record{}, err
	}
	if n == 0 {
		return Record{}, errNotFound()
	}
	r, err := d.revision(name, version, n)
	return r.Record, err
}

// List implements [Records].
func (d *Directory) List(ctx context.Context, name string) ([]Record, error) {
	names := []string{name}
	if name == "" {
		var err error
		if names, err = d.list("records"); err != nil {
			return nil, err
		}
	}
	var out []Record
	for _, n := range names {
		if !properName(n) {
			continue
		}
		versions, err := d.list("records/" + n)
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			rec, err := d.Get(ctx, n, v)
			if err != nil {
				return nil, err
			}
			out = append(out, rec)
		}
	}
	SortRecords(out)
	return out, nil
}

// History implements [Records].
func (d *Directory) History(_ context.Context, name, version string) ([]Event, error) {
	if _, ok := parseVersion(version); !ok || !properName(name) {
		return nil, nil
	}
	n, err := d.revisions(path.Join("records", name, version))
	if err != nil {
		return nil, err
	}
	var out []Event
	for i := 1; i <= n; i++ {
		r, err := d.revision(name, version, i)
		if err != nil {
			return nil, err
		}
		out = append(out, r.Event)
	}
	return out, nil
}

func packageName(d skill.Digest) string {
	return strings.TrimPrefix(string(d), "sha256:") + ".tar.gz"
}

// PutPackage implements [Packages].
func (d *Directory) PutPackage(_ context.Context, p *skill.Package) error {
	var b bytes.Buffer
	if err := p.WriteArchive(&b); err != nil {
		return err
	}
	if err := d.write("packages", packageName(p.Digest()), b.Bytes()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Package implements [Packages].
func (d *Directory) Package(_ context.Context, digest skill.Digest) (*skill.Package, error) {
	if !digest.Valid() {
		return nil, errNotFound()
	}
	f, err := d.root.Open("packages/" + packageName(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNotFound()
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := skill.ReadArchive(f, &skill.Limits{Files: maxFiles, Bytes: maxBytes})
	if err != nil {
		return nil, err
	}
	if err := p.Verify(digest, nil); err != nil {
		return nil, err
	}
	return p, nil
}

// finishedName is the name of no skill.
const finishedName = "_finished.json"

// PutPin implements [Pins].
func (d *Directory) PutPin(_ context.Context, p Pin) (Pin, error) {
	if !properRun(p.Run) || !properName(p.Name) {
		return Pin{}, toolresult.NewError(toolresult.InvalidInput, "a pin needs a run and the name of a skill")
	}
	dir := "runs/" + p.Run
	if _, err := d.root.Stat(dir + "/" + finishedName); err == nil {
		return Pin{}, errFinished()
	}
	p.Finished = time.Time{}
	err := d.writeJSON(dir, p.Name+".json", p)
	if errors.Is(err, fs.ErrExist) {
		err = d.readJSON(dir+"/"+p.Name+".json", &p)
	}
	return p, err
}

// PinsOf implements [Pins].
func (d *Directory) PinsOf(_ context.Context, run string) ([]Pin, error) {
	if !properRun(run) {
		return nil, nil
	}
	names, err := d.list("runs/" + run)
	if err != nil {
		return nil, err
	}
	var finished time.Time
	if slices.Contains(names, finishedName) {
		if err := d.readJSON("runs/"+run+"/"+finishedName, &finished); err != nil {
			return nil, err
		}
	}
	var out []Pin
	for _, n := range names {
		if n == finishedName {
			continue
		}
		var p Pin
		if err := d.readJSON("runs/"+run+"/"+n, &p); err != nil {
			return nil, err
		}
		if p.Run != run || p.Name+".json" != n {
			return nil, fmt.Errorf("skill registry: runs/%s: %s is the pin of another run: restore it, and do not use runs that differ in case alone", run, strconv.QuoteToASCII(n))
		}
		p.Finished = finished
		out = append(out, p)
	}
	return out, nil
}

// Running implements [Pins].
func (d *Directory) Running(ctx context.Context, name string) ([]Pin, error) {
	runs, err := d.list("runs")
	if err != nil {
		return nil, err
	}
	var out []Pin
	for _, run := range runs {
		pins, err := d.PinsOf(ctx, run)
		if err != nil {
			return nil, err
		}
		for _, p := range pins {
			if p.Name == name && p.Finished.IsZero() {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b Pin) int { return cmp.Compare(a.Run, b.Run) })
	return out, nil
}

// FinishRun implements [Pins].
func (d *Directory) FinishRun(_ context.Context, run string, at time.Time) error {
	if !properRun(run) {
		return nil
	}
	if err := d.writeJSON("runs/"+run, finishedName, at); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
