package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Source is what a connector's author writes.
type Source interface {
	// Changes returns a page of the objects that changed in a window: Start
	// included; of End nothing is expected. It MUST return what changed within,
	// deletions if the provider tells them, and MAY return more. It fails
	// rather than returning a page that is none: an empty page means that
	// nothing changed.
	Changes(ctx context.Context, w toolresult.Interval, cursor string) (Page, error)

	// All returns a page of everything that is there. It need not tell
	// deletions. The same holds for a page that is none.
	All(ctx context.Context, cursor string) (Page, error)
}

// Page is a page of items. The first one is asked for with an empty cursor.
type Page struct {
	Items []Item
	Next  string // where the next page begins, if there is one
	More  bool   // there is
}

// Options are options of a Syncer. No field is needed.
type Options struct {
	Window  time.Duration // the longest window that is asked for at once. 0: a day
	Behind  time.Duration // how far a window's end stays behind the present. 0: one minute
	Overlap time.Duration // how much of the last window is asked for again. 0: five minutes
	Pages   int           // how many pages one Sync or Reconcile reads. 0: 100

	// MaxAbsent is how much of what is live a walk may find absent, from 0 to
	// 1. 0: a half.
	MaxAbsent float64

	// Changed is told what changed for readers, deletions and access included,
	// after it was stored: it is where a cache is told (cache.Cache.Changed). Its
	// error is returned by the Syncer, and does not undo anything.
	Changed func(ctx context.Context, ids []authz.ResourceID) error
}

// Syncer keeps one feed up to date. It is safe for concurrent use, and several
// processes may have one for the same feed: one of them moves it, and the others
// stop with ErrVersion.
type Syncer struct {
	index  Index
	feed   Feed
	source Source
	opts   Options
}

// New returns a Syncer. It fails with ErrOptions, and starts nothing.
func New(index Index, f Feed, source Source, opts *Options) (*Syncer, error) {
	s := &Syncer{index: index, feed: f, source: source}
	if opts != nil {
		s.opts = *opts
	}
	o := &s.opts
	switch {
	case index == nil || source == nil || f.Tenant == "" || f.Connection == "" || f.Name == "":
		return nil, fmt.Errorf("%w: want an index, a source, and a feed with tenant, connection and name", ErrOptions)
	case o.Window < 0 || o.Behind < 0 || o.Overlap < 0 || o.Pages < 0 || !(o.MaxAbsent >= 0 && o.MaxAbsent <= 1):
		return nil, fmt.Errorf("%w: want no option under 0, and MaxAbsent of at most 1", ErrOptions)
	}
	setDefault(&o.Window, 24*time.Hour)
	setDefault(&o.Behind, time.Minute)
	setDefault(&o.Overlap, 5*time.Minute)
	setDefault(&o.Pages, 100)
	setDefault(&o.MaxAbsent, 0.5)
	return s, nil
}

func setDefault[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

// Progress is what a run has done.
type Progress struct {
	Pages   int
	Changed int  // objects that changed for readers
	Done    bool // there is nothing left to ask for now
}

// Sync takes in what has changed, at most Options.Pages pages. A feed that was
// never walked is walked first. If it fails, what was stored stays stored, and
// the next Sync goes on after it; the error is the source's or the index's.
func (s *Syncer) Sync(ctx context.Context) (Progress, error) {
	var p Progress
	cp, err := s.index.Checkpoint(ctx, s.feed)
	if err != nil {
		return p, err
	}
	if cp.Watermark.IsZero() {
		if p, err = s.Reconcile(ctx); err != nil || !p.Done {
			return p, err
		}
		if cp, err = s.index.Checkpoint(ctx, s.feed); err != nil {
			return p, err
		}
	}
	p.Done = false
	seen := map[string]bool{}
	latest := time.Now().UTC().Round(0).Add(-s.opts.Behind) // once: a present that moves on would never be reached
	for p.Pages < s.opts.Pages {
		if cp.End.IsZero() {
			end := cp.Watermark.Add(s.opts.Window)
			if end.After(latest) {
				end = latest
			}
			if !end.After(cp.Watermark) {
				p.Done = true
				return p, nil
			}
			cp.End, cp.Cursor = end, ""
		}
		if err := s.page(ctx, &cp, &p, seen); err != nil {
			return p, err
		}
	}
	return p, nil
}

// page reads and stores one page of the window. The watermark moves to the
// window's end with the last one, whatever times the objects carry.
func (s *Syncer) page(ctx context.Context, cp *Checkpoint, p *Progress, seen map[string]bool) error {
	page, err := s.source.Changes(ctx, toolresult.Interval{Start: cp.Watermark.Add(-s.opts.Overlap), End: cp.End}, cp.Cursor)
	if err != nil {
		return s.lostPlace(ctx, cp, err)
	}
	if err := check(&page, cp.Cursor, seen); err != nil {
		return s.lostPlace(ctx, cp, err)
	}
	next := *cp
	if next.Cursor = page.Next; !page.More {
		next.Watermark, next.End, next.Cursor = cp.End, time.Time{}, ""
	}
	return s.apply(ctx, &Batch{Items: page.Items, Next: &next}, cp, p)
}

// check refuses a page that cannot be stored or leads nowhere.
func check(page *Page, cursor string, seen map[string]bool) error {
	if page.More && (page.Next == "" || page.Next == cursor || seen[page.Next]) {
		return ErrStalled
	}
	if seen != nil && page.More {
		seen[page.Next] = true
	} else {
		clear(seen) // the next window begins with other positions, or the same
	}
	for _, it := range page.Items {
		if it.Object.Type == "" || it.Object.ID == "" || it.Version <= 0 {
			return ErrItem
		}
	}
	return nil
}

// lostPlace begins a window anew if the provider does not know the position any
// more, or it leads nowhere; the error is returned all the same.
func (s *Syncer) lostPlace(ctx context.Context, cp *Checkpoint, err error) error {
	if cp.Cursor == "" || !errors.Is(err, toolresult.CursorInvalid) && !errors.Is(err, ErrStalled) {
		return err
	}
	next := *cp
	next.End, next.Cursor = time.Time{}, ""
	_, aerr := s.index.Apply(ctx, s.feed, &Batch{At: time.Now().UTC(), Next: &next})
	return errors.Join(err, aerr)
}

func (s *Syncer) apply(ctx context.Context, b *Batch, cp *Checkpoint, p *Progress) error {
	b.At = time.Now().UTC().Round(0)
	changed, err := s.index.Apply(ctx, s.feed, b)
	if err != nil {
		return err
	}
	if p != nil {
		p.Pages++
		p.Changed += len(changed)
	}
	if b.Next != nil {
		*cp = *b.Next
		cp.Rev++
	}
	if len(changed) > 0 && s.opts.Changed != nil {
		return s.opts.Changed(ctx, changed)
	}
	return nil
}

// Event takes in what somebody has been told about objects, by a webhook for one,
// without waiting for a listing to show it. It moves no watermark.
func (s *Syncer) Event(ctx context.Context, items ...Item) error {
	if err := check(&Page{Items: items}, "", nil); err != nil {
		return err
	}
	return s.apply(ctx, &Batch{Items: items}, nil, nil)
}

// Reconcile walks through everything, at most Options.Pages pages, and goes on
// where the last one stopped; Progress.Done says that the walk is over. Then
// what it has not met is absent. A position that the provider does not know any
// more begins the walk anew.
func (s *Syncer) Reconcile(ctx context.Context) (Progress, error) {
	var p Progress
	cp, err := s.index.Checkpoint(ctx, s.feed)
	if err != nil {
		return p, err
	}
	seen := map[string]bool{}
	for p.Pages < s.opts.Pages && !p.Done {
		if cp.Walk.IsZero() {
			cp.Walk, cp.WalkCursor = time.Now().UTC().Round(0), ""
		}
		if err := s.step(ctx, &cp, &p, seen); err != nil {
			return p, err
		}
	}
	return p, nil
}

// step reads and stores one page of the walk.
func (s *Syncer) step(ctx context.Context, cp *Checkpoint, p *Progress, seen map[string]bool) error {
	page, err := s.source.All(ctx, cp.WalkCursor)
	if err == nil {
		err = check(&page, cp.WalkCursor, seen)
	}
	if err != nil {
		if cp.WalkCursor != "" && (errors.Is(err, toolresult.CursorInvalid) || errors.Is(err, ErrStalled)) {
			return errors.Join(err, s.restart(ctx, cp))
		}
		return err
	}
	next := *cp
	b := &Batch{Items: page.Items, Walk: cp.Walk, MaxAbsent: s.opts.MaxAbsent, Next: &next}
	if next.WalkCursor = page.Next; !page.More {
		b.Absent = true
		next.Walk, next.WalkCursor, next.Walked = time.Time{}, "", cp.Walk
		if next.Watermark.IsZero() {
			next.Watermark = cp.Walk.Add(-s.opts.Behind) // what changed while it went
		}
	}
	err = s.apply(ctx, b, cp, p)
	if errors.Is(err, ErrTooManyAbsent) {
		return errors.Join(err, s.restart(ctx, cp))
	}
	p.Done = err == nil && !page.More
	return err
}

func (s *Syncer) restart(ctx context.Context, cp *Checkpoint) error {
	next := *cp
	next.Walk, next.WalkCursor = time.Time{}, ""
	_, err := s.index.Apply(ctx, s.feed, &Batch{At: time.Now().UTC(), Next: &next})
	return err
}
