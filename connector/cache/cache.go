package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/risk"
	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cache/generation"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// ErrOptions is what New returns, wrapped, for what it does not do.
var ErrOptions = errors.New("cache: options")

const (
	defaultBytes = 32 << 20
	defaultTTL   = time.Minute
	maxTTL       = time.Hour
	maxEntry     = 16  // of Options.Bytes an entry takes at most one in so many
	overhead     = 512 // what an entry weighs beside its value

	// underWay is how long a write keeps what depends on its objects out of the
	// cache if nobody says how it ended.
	underWay = 2 * time.Minute
)

// Options are options of New.
type Options struct {
	// Bytes bounds what the entries take, as JSON and with what they weigh
	// beside that. 0: 32 MiB. One that takes a sixteenth of it is not kept.
	Bytes int64

	// TTL is how long an entry is good, at most one hour. 0: one minute.
	TTL time.Duration

	// Public are names of reads whose answers may be given to whoever in the
	// tenant is allowed to make the read, whoever made it first, and with
	// whichever account. That is an operator's statement about the data.
	Public []string
}

// Cache is the cache of one connector in one process. It is safe for concurrent
// use, starts nothing and has nothing to close.
type Cache struct {
	connector string
	gens      generation.Store
	opts      Options
	entries   *otter.Cache[string, *entry]
}

// entry is an answer and what it depends on.
type entry struct {
	text    []byte // JSON, so that nobody shares a value
	at      time.Time
	until   time.Time
	objects []authz.ResourceID
	marks   []generation.Mark
	gens    []generation.State
}

func (e *entry) weight() int64 {
	n := int64(overhead + len(e.text))
	for _, id := range e.objects {
		n += int64(len(id.Type)+len(id.ID)) + 128
	}
	return n
}

// New returns a cache for the connector with the given id. It fails with
// ErrOptions.
func New(connector string, gens generation.Store, opts *Options) (*Cache, error) {
	c := &Cache{connector: connector, gens: gens}
	if opts != nil {
		c.opts = *opts
		c.opts.Public = slices.Clone(opts.Public)
	}
	o := &c.opts
	switch {
	case connector == "" || gens == nil:
		return nil, fmt.Errorf("%w: want the connector's id and a store of generations", ErrOptions)
	case o.Bytes < 0 || o.TTL < 0 || o.TTL > maxTTL:
		return nil, fmt.Errorf("%w: want Bytes that are not under 0, and a TTL of at most %v", ErrOptions, maxTTL)
	}
	if o.Bytes == 0 {
		o.Bytes = defaultBytes
	}
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	var err error
	c.entries, err = otter.New(&otter.Options[string, *entry]{
		MaximumWeight: uint64(o.Bytes),
		Weigher:       func(_ string, e *entry) uint32 { return uint32(min(e.weight(), 1<<31)) },
		Executor:      func(f func()) { f() }, // no goroutines of its own
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return c, nil
}

// Read says what is read.
type Read struct {
	// Name tells reads of one connector apart, such as the capability's name
	// and the kind of request; needed.
	Name string

	// Arguments are all that the answer depends on beside the grant: a value
	// that encoding/json writes the same way each time.
	Arguments any

	// Objects are what the answer is about, as routes and grants name them. An
	// entry is given out only to a grant that permits them all.
	Objects []authz.ResourceID

	// Narrow says that the answer changes with its Objects only, and that
	// every write and every event that changes it names one of them. Otherwise
	// it ends with any change of the connector in its tenant, and so it does
	// without Objects, as the answer of a search.
	Narrow bool
}

// Call is what is needed of a call: *connector.ReadCall and *connector.Call are
// Calls.
type Call interface {
	Principal() authz.Principal
	Grant() authz.Grant
	Connection() connector.Connection
}

// Found is a value and where it comes from.
type Found[T any] struct {
	Value T
	At    time.Time // when the provider was asked
	Hit   bool      // it was not asked now
}

// Get returns what is kept for this call and this read, or what load returns,
// which it then keeps. The value is the caller's own: it has been through JSON,
// also when it comes from load.
//
// A grant that is over, or an object that it does not permit, is an error and
// no miss: PERMISSION_DENIED or whatever authz.Grant.Check says. Errors of load
// are returned as they are.
func Get[T any](ctx context.Context, c *Cache, call Call, r Read, load func(ctx context.Context) (T, error)) (Found[T], error) {
	key, marks, err := c.place(call, r)
	if err != nil {
		return Found[T]{}, err
	}
	gens, e, usable := c.states(ctx, key, marks)
	if e != nil {
		good, err := c.good(ctx, key, call, e)
		if err != nil {
			return Found[T]{}, err
		}
		if good {
			v, err := decode[T](e.text)
			return Found[T]{v, e.at, true}, err
		}
	}
	at := time.Now().UTC()
	v, err := load(ctx)
	if err != nil {
		return Found[T]{}, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return Found[T]{}, toolresult.WrapError(toolresult.ContractViolation, "what was read cannot be kept as JSON", err)
	}
	if usable {
		c.keep(key, &entry{text, at, c.end(at, call), slices.Clone(r.Objects), marks, gens})
	}
	v, err = decode[T](text)
	return Found[T]{v, at, false}, err
}

func decode[T any](text []byte) (v T, err error) {
	if err := json.Unmarshal(text, &v); err != nil {
		return v, toolresult.WrapError(toolresult.ContractViolation, "what was read does not come back from JSON", err)
	}
	return v, nil
}

// end is when an entry is over: with the grant that it was read under, if that
// is earlier.
func (c *Cache) end(at time.Time, call Call) time.Time {
	end := at.Add(c.opts.TTL)
	if g := call.Grant().Expires(); !g.IsZero() && g.Before(end) {
		end = g
	}
	return end
}

// place returns where the answer would be kept, and what it depends on.
func (c *Cache) place(call Call, r Read) (key string, marks []generation.Mark, err error) {
	g := call.Grant()
	switch {
	case g.IsZero():
		return "", nil, toolresult.NewError(toolresult.ContractViolation, "only a call that was granted reads")
	case r.Name == "":
		return "", nil, toolresult.NewError(toolresult.ContractViolation, "a read without a name is no key")
	case len(r.Objects) > 0 && !g.Permits(r.Objects...):
		return "", nil, errNotPermitted()
	}
	args, err := json.Marshal(r.Arguments)
	if err != nil {
		return "", nil, toolresult.WrapError(toolresult.ContractViolation, "the arguments cannot be written as JSON", err)
	}
	id, conn := g.Principal().Identity(), call.Connection()
	who := []string{"for all", id.Tenant}
	if !slices.Contains(c.opts.Public, r.Name) {
		who = []string{"for one", id.Tenant, id.Issuer, id.Subject, id.Client, strings.Join(id.Scopes, " "), conn.ID, conn.Account, conn.Org, conn.BaseURL, g.Revision()}
		if d := id.Delegation; d != nil {
			who = append(who, "delegated", d.Actor, d.Run, strings.Join(d.Scopes, " "))
		}
	}
	objects := make([]string, 0, 2*len(r.Objects))
	for _, o := range r.Objects {
		objects = append(objects, o.Type, o.ID)
	}
	key = strictjson.Digest(strictjson.Digest(who...), g.Scope().Digest(), c.connector, r.Name, string(args), strictjson.Digest(objects...))
	return key, c.marks(id.Tenant, conn.ID, r), nil
}

func (c *Cache) marks(tenant, connection string, r Read) []generation.Mark {
	out := []generation.Mark{mark(tenant, "connector", c.connector), connectionMark(tenant, connection)}
	if len(r.Objects) == 0 || !r.Narrow {
		return append(out, anyMark(tenant, c.connector))
	}
	for _, id := range r.Objects {
		out = append(out, objectMark(tenant, c.connector, id))
	}
	return out
}

func errNotPermitted() error {
	return toolresult.NewError(toolresult.PermissionDenied, "the grant does not permit what would be read")
}

// states asks once for all that a call and the entry under its key depend on.
// They are not the same: what is public was read through somebody's connection,
// and ends with that one. It returns the states of marks, whether they can be
// relied on, and the entry if nothing of what it depends on has changed.
func (c *Cache) states(ctx context.Context, key string, marks []generation.Mark) ([]generation.State, *entry, bool) {
	all, e := marks, (*entry)(nil)
	if kept, ok := c.entries.GetIfPresent(key); ok {
		e = kept
		all = slices.Concat(marks, e.marks)
	}
	gens, err := c.gens.Current(ctx, all)
	if err != nil || len(gens) != len(all) {
		return nil, nil, false
	}
	now := time.Now()
	open := func(list []generation.State) bool {
		return slices.ContainsFunc(list, func(g generation.State) bool { return g.Open.After(now) })
	}
	own, its := gens[:len(marks):len(marks)], gens[len(marks):]
	switch {
	case open(own):
		return own, nil, false
	case e == nil || open(its):
		return own, nil, true
	case !same(e.gens, its):
		c.entries.Invalidate(key)
		return own, nil, true
	}
	return own, e, true
}

// good reports whether an entry may be given out for this call.
func (c *Cache) good(ctx context.Context, key string, call Call, e *entry) (bool, error) {
	if !e.until.After(time.Now()) {
		c.entries.Invalidate(key)
		return false, nil
	}
	g := call.Grant()
	if err := g.Check(ctx); err != nil { // revocation beats what is kept
		return false, err
	}
	if len(e.objects) > 0 && !g.Permits(e.objects...) {
		return false, errNotPermitted()
	}
	return true, nil
}

// same compares numbers: when a write was open is of no interest any more.
func same(a, b []generation.State) bool {
	return slices.EqualFunc(a, b, func(x, y generation.State) bool { return x.N == y.N })
}

func (c *Cache) keep(key string, e *entry) {
	if e.weight() < c.opts.Bytes/maxEntry {
		c.entries.Set(key, e)
	}
}

// Bytes returns about how much the entries take.
func (c *Cache) Bytes() int64 { return int64(c.entries.WeightedSize()) }

// Changed ends what depends on objects of the connector, in all replicas: they
// were changed, deleted or shared otherwise. Without ids everything of the
// connector ends, in that tenant. An error means that it may not have.
func (c *Cache) Changed(ctx context.Context, tenant string, ids ...authz.ResourceID) error {
	return c.gens.Advance(ctx, c.changes(tenant, ids), time.Time{})
}

func (c *Cache) changes(tenant string, ids []authz.ResourceID) []generation.Mark {
	if len(ids) == 0 {
		return []generation.Mark{mark(tenant, "connector", c.connector)}
	}
	out := []generation.Mark{anyMark(tenant, c.connector)}
	for _, id := range ids {
		out = append(out, objectMark(tenant, c.connector, id))
	}
	return out
}

// Purge ends what was read through a connection, in all replicas, and frees
// what this process holds, of that and of everything else: it is part of a
// disconnection, which is rare. Other processes free theirs as it is asked for
// or displaced.
func (c *Cache) Purge(ctx context.Context, tenant, connection string) error {
	err := c.gens.Advance(ctx, []generation.Mark{connectionMark(tenant, connection)}, time.Time{})
	c.entries.InvalidateAll()
	return err
}

// Audit returns a sink that ends what a write changes and hands on to next,
// which may be nil. Before a write is sent it closes the cache for what depends
// on the write's objects, and an error there keeps the write from being sent. At
// the end it opens it again, unless nobody knows what the write did; then it
// stays closed for two minutes, as it does when the process dies.
func (c *Cache) Audit(next connector.Audit) connector.Audit {
	return connector.AuditFunc(func(ctx context.Context, e *connector.AuditEvent) error {
		err := c.wrote(ctx, e)
		before := e.Result.CallID == ""
		if next == nil || err != nil && before {
			return err
		}
		return errors.Join(err, next.Record(ctx, e))
	})
}

func (c *Cache) wrote(ctx context.Context, e *connector.AuditEvent) error {
	if e.Action.Connector != c.connector || e.Action.Class.SideEffect == risk.ReadOnly {
		return nil
	}
	open := time.Time{}
	switch d := e.Result.Effect.Disposition; {
	case e.Result.CallID == "", d == toolresult.EffectUnknown, d == toolresult.EffectPending:
		open = time.Now().Add(underWay)
	case d == toolresult.EffectNone:
		return nil // it was refused before anything was recorded
	}
	return c.gens.Advance(ctx, c.changes(e.Principal.Tenant, e.Target), open)
}
