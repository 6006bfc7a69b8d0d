package ingest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Errors of this package.
var (
	// ErrOptions is what New returns, wrapped, for what it does not do.
	ErrOptions = errors.New("ingest: options")

	// ErrVersion says that somebody else has moved the feed's checkpoint: read
	// again, or leave it to them.
	ErrVersion = errors.New("ingest: the checkpoint has changed")

	// ErrStalled says that the provider's pages do not end: a page says that
	// there are more and gives the position of one that was there, or none.
	ErrStalled = errors.New("ingest: the pages go in a circle")

	// ErrTooManyAbsent says that a walk did not meet most of what was there. It
	// changed nothing, and begins anew.
	ErrTooManyAbsent = errors.New("ingest: most of the objects were not met; has the account lost its rights?")

	// ErrItem says that the source returned an item without an object or a
	// version. Nothing of its page is stored.
	ErrItem = errors.New("ingest: an item without an object or a version")
)

// Feed names what is kept up to date together.
type Feed struct {
	Tenant     string
	Connection string // whose disconnection removes it
	Name       string // within the connection
}

// Item is a state of an object, as the provider tells it.
type Item struct {
	Object authz.ResourceID

	// Version orders the states of an object: a sequence number, or a time of
	// the provider's as a number. Over 0.
	Version int64

	Title, Text string // untrusted

	// Deleted says that the object is gone. The rest says nothing then.
	Deleted bool

	// Access is who may read it; nil: as before, and nobody before that is
	// known. Only says that nothing else is told.
	Access     *Access
	AccessOnly bool
}

// Access is who may read an object, in the provider's names.
type Access struct {
	Version int64 // orders changes of access; 0: the item's
	Readers []string
}

// State is whether an object is there. The zero State is Absent.
type State uint8

const (
	Absent  State = iota // it was not met, or only its readers are known
	Live                 // it is there
	Deleted              // the provider said that it is gone
)

// Record is what an Index holds of an object.
type Record struct {
	Object        authz.ResourceID
	State         State
	Version       int64
	Title, Text   string
	Readers       []string // sorted, each once
	AccessVersion int64
	Applied       time.Time // when it last changed here
	Met           time.Time // beginning of the last walk that met it
}

// Clone returns a deep copy.
func (r Record) Clone() Record {
	r.Readers = slices.Clone(r.Readers)
	return r
}

// late is how long after a deletion a walk has to begin for its sight of the
// object to count: listings show what is gone for a while.
const late = time.Hour

// Merge returns what becomes of a record when an item comes at the given time,
// in a walk that began at walk, or in none; and whether something changed that
// readers can see. An unknown object is a zero Record. It is for those who
// implement an Index: all of them have the same rules.
func (r Record) Merge(it *Item, at, walk time.Time) (next Record, changed bool) {
	next = r.Clone()
	next.Object = it.Object
	if walk.After(next.Met) {
		next.Met = walk
	}
	switch {
	case it.Deleted:
		if r.State == Deleted {
			next.Version = max(r.Version, it.Version)
			return next, false
		}
		return Record{Object: it.Object, State: Deleted, Version: max(r.Version, it.Version), AccessVersion: r.AccessVersion, Applied: at, Met: next.Met}, true
	case r.State == Deleted && it.Version <= r.Version && walk.Before(r.Applied.Add(late)):
		return next, false // an older state that came late
	case !it.AccessOnly && it.Version >= r.Version:
		changed = r.State != Live || r.Version != it.Version || r.Text != it.Text || r.Title != it.Title
		next.State, next.Version, next.Title, next.Text = Live, it.Version, it.Title, it.Text
	case !it.AccessOnly && r.State == Absent && r.Version > 0 && !walk.IsZero(): // met again, in an older state than was known: the next change tells
		next.State, next.Version, next.Title, next.Text, changed = Live, it.Version, it.Title, it.Text, true
	case !it.AccessOnly && r.State == Deleted: // a walk long after: it is there
		next.State, next.Version, next.Title, next.Text, changed = Live, it.Version, it.Title, it.Text, true
	}
	if a := it.Access; a != nil && r.State != Deleted || a != nil && next.State == Live {
		v := a.Version
		if v == 0 {
			v = it.Version
		}
		readers := slices.Clone(a.Readers)
		slices.Sort(readers)
		readers = slices.Compact(readers)
		if v >= r.AccessVersion {
			changed = changed || !slices.Equal(readers, r.Readers)
			next.Readers, next.AccessVersion = readers, v
		}
	}
	if changed {
		next.Applied = at
	}
	return next, changed
}

// Absentee returns what becomes of a record that a whole walk has not met, and
// whether something does: it is live, and unchanged since the walk began.
func (r Record) Absentee(walk, at time.Time) (next Record, changed bool) {
	if r.State != Live || !r.Met.Before(walk) || !r.Applied.Before(walk) {
		return r, false
	}
	return Record{Object: r.Object, State: Absent, Version: r.Version, AccessVersion: r.AccessVersion, Readers: r.Readers, Applied: at, Met: r.Met}, true
}

// Checkpoint is how far a feed is.
type Checkpoint struct {
	Rev       int64     // 0 for a feed that is new
	Watermark time.Time // everything that changed before it was asked for; zero: no walk was ever finished
	End       time.Time // of the window that is being read; zero: none is
	Cursor    string    // position in that window

	Walk       time.Time // when the walk that is under way began; zero: none is
	WalkCursor string
	Walked     time.Time // when the last finished walk began
}

// Batch is what is stored in one step.
type Batch struct {
	Items []Item
	At    time.Time
	Walk  time.Time // beginning of the walk that met them; zero: none did

	// Absent says that the walk is over: what it has not met is absent, unless
	// that is more than MaxAbsent of what is live, which is ErrTooManyAbsent.
	// At most ten are always allowed.
	Absent    bool
	MaxAbsent float64

	// Next replaces the checkpoint whose Rev it has, or fails with ErrVersion.
	// Nil: the checkpoint stays.
	Next *Checkpoint
}

// Query is what an Index is asked for.
type Query struct {
	Feed
	Words   []string // all of them, as Words returns them
	Readers []string // one of them at least
	Offset  int
	Limit   int
}

// Index keeps records. It is safe for concurrent use by several processes, and
// what was applied is durable when it returns nil.
type Index interface {
	// Checkpoint returns a feed's, or a zero one.
	Checkpoint(ctx context.Context, f Feed) (Checkpoint, error)

	// Apply merges a batch by Record.Merge and Record.Absentee, in one step with
	// its checkpoint, and returns the objects that changed. Batches of one feed
	// are applied one after the other.
	Apply(ctx context.Context, f Feed, b *Batch) (changed []authz.ResourceID, err error)

	// Find returns live records that have all of the words and one of the
	// readers, latest applied first. Whoever delivers them has to check them
	// first: Search does.
	Find(ctx context.Context, q *Query) ([]Record, error)

	// Purge removes everything of a connection. It is part of a disconnection,
	// and an error means that it has to be repeated.
	Purge(ctx context.Context, tenant, connection string) error
}

const (
	maxWord  = 64   // bytes of a word that count
	maxWords = 2000 // of an object
)

// Words returns what of a text can be searched for: words of letters and digits
// in small letters, each once, in order of appearance; of scripts without spaces
// each character.
func Words(text string) []string {
	var out []string
	seen := map[string]bool{}
	add := func(w string) {
		if len(w) > maxWord {
			w = strings.ToValidUTF8(w[:maxWord], "")
		}
		if w != "" && !seen[w] && len(out) < maxWords {
			seen[w] = true
			out = append(out, w)
		}
	}
	word := 0
	lower := strings.ToLower(text)
	for i, c := range lower {
		single := unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana)
		if !single && (unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c)) {
			continue
		}
		add(lower[word:i])
		word = i + len(string(c))
		if single {
			add(string(c))
		}
	}
	if word < len(lower) {
		add(lower[word:])
	}
	return out
}

// Call is what is needed of a call: *connector.ReadCall and *connector.Call are
// Calls.
type Call interface {
	Principal() authz.Principal
	Grant() authz.Grant
}

// Check asks the provider, now and with the caller's own account, which of the
// objects the caller may read. It answers for each, in their order.
type Check func(ctx context.Context, ids []authz.ResourceID) ([]bool, error)

// SearchRequest is what is searched for. Feed, Readers and Check are needed.
type SearchRequest struct {
	Feed    Feed
	Text    string   // its words are searched for; empty: everything
	Readers []string // the caller's names at the provider: user and groups, from the connection, never from arguments
	Limit   int      // how many hits; 0: 20, at most 200
	Check   Check
}

// Hit is an object that the caller may read now, as it was when it was taken in.
// Its texts are untrusted.
type Hit struct {
	Object      authz.ResourceID
	Version     int64
	Title, Text string
	Applied     time.Time
}

// Found is what a search delivers.
type Found struct {
	Hits []Hit

	// More says that the index has more than was looked at. That some of it was
	// withheld is said by no number: a search that filters is always one whose
	// visibility is limited.
	More bool
}

// rounds is how often an index is asked for more, when what it had may not be
// delivered.
const rounds = 5

// Search returns what the caller may read of what matches. Each object passes
// two checks after the index: the call's grant, and SearchRequest.Check. If the
// check fails nothing is delivered, and its error is returned. A feed of another
// tenant is NOT_FOUND.
func Search(ctx context.Context, index Index, call Call, r *SearchRequest) (Found, error) {
	g := call.Grant()
	switch {
	case g.IsZero() || r.Check == nil:
		return Found{}, toolresult.NewError(toolresult.ContractViolation, "a search wants a grant and a live check")
	case r.Feed.Tenant != g.Principal().Key().Tenant:
		return Found{}, toolresult.NewError(toolresult.NotFound, "there is no such feed")
	}
	limit := r.Limit
	if limit <= 0 {
		limit = 20
	}
	limit = min(limit, 200)
	q := &Query{Feed: r.Feed, Words: Words(r.Text), Readers: r.Readers, Limit: 2*limit + 1}
	if len(q.Readers) == 0 || r.Text != "" && len(q.Words) == 0 {
		return Found{}, nil
	}
	var out Found
	for range rounds {
		list, err := index.Find(ctx, q)
		if err != nil {
			return Found{}, err
		}
		out.More = len(list) == q.Limit
		hits, err := deliverable(ctx, g, r.Check, list)
		if err != nil {
			return Found{}, err
		}
		out.Hits = append(out.Hits, hits...)
		if len(out.Hits) >= limit {
			out.More = out.More || len(out.Hits) > limit
			out.Hits = out.Hits[:limit]
			break
		}
		if !out.More {
			break
		}
		q.Offset += len(list)
	}
	return out, nil
}

// deliverable returns those that both checks let pass.
func deliverable(ctx context.Context, g authz.Grant, check Check, list []Record) ([]Hit, error) {
	list = slices.DeleteFunc(list, func(r Record) bool { return r.State != Live || !g.Permits(r.Object) })
	if len(list) == 0 {
		return nil, nil
	}
	ids := make([]authz.ResourceID, len(list))
	for i, r := range list {
		ids[i] = r.Object
	}
	may, err := check(ctx, ids)
	if err != nil {
		return nil, err
	}
	if len(may) != len(ids) {
		return nil, toolresult.NewError(toolresult.ContractViolation, "a live check answered for other objects than it was asked about")
	}
	var out []Hit
	for i, r := range list {
		if may[i] {
			out = append(out, Hit{r.Object, r.Version, r.Title, r.Text, r.Applied})
		}
	}
	return out, nil
}
