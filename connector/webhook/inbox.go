package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Retention is how long an Inbox has to remember what it has seen. The longest
// that a provider here says it tries again is 30 days (Adyen); what a person can
// send again by hand is within that at the others.
const Retention = 35 * 24 * time.Hour

// ErrClaim says that the claim on an event is over: somebody else handles it, or
// has done so. Whoever gets it undoes what can be undone and stops.
var ErrClaim = errors.New("webhook: the claim on the event is over")

// State is where an event is. The zero State is Waiting.
type State uint8

const (
	Waiting State = iota // to be handled, when it is due
	Held                 // by a Processor, until it is due again
	Done                 // handled
	Stale                // not handled: something newer was, or its object is deleted
	Failed               // given up, after so many attempts: for a person
)

var states = [...]string{"waiting", "held", "done", "stale", "failed"}

// String returns the word that is stored.
func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return states[Waiting]
}

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It never fails: an
// unfamiliar word is Failed, so that a person looks at it and nobody handles it
// twice.
func (s *State) UnmarshalText(text []byte) error {
	if *s = Failed; slices.Contains(states[:], string(text)) {
		*s = State(slices.Index(states[:], string(text)))
	}
	return nil
}

// Settled reports whether nothing more happens to the event by itself.
func (s State) Settled() bool { return s == Done || s == Stale || s == Failed }

// Subject is what a connector knows about a delivery that the scheme does not.
// The zero Subject is fine: then there is no order, and the provider's id alone
// tells deliveries apart.
type Subject struct {
	// Key is another name of the same event, for a provider that gives each
	// emission a new id: object, type and version in one text. It may be empty.
	Key string

	// Object is what the event is about, such as "issue/42". Events of one
	// object in one Place are handled one at a time. It may be empty.
	Object string

	// Version orders the events of an object: a sequence number, or a time of
	// the provider's as a number. 0: it is not known, and the order of arrival
	// counts.
	Version int64

	// Deleted says that the object is gone. After that its other events are
	// Stale, whatever their versions, except one that is Restored.
	Deleted bool

	// Restored says that the object is there again.
	Restored bool
}

// Place is whose events they are.
type Place struct {
	Tenant     string // needed
	Source     string // name of the endpoint, within the tenant; needed
	Connection string // whose disconnection removes them; may be empty
}

// Event is a delivery that was believed and stored. What it says is the
// sender's: untrusted.
type Event struct {
	Place
	Subject
	ID       string // as in Delivery: with tenant and source it names the event
	Digest   string // as in Delivery; may be empty
	Scheme   string
	Type     string
	SignedAt time.Time // zero if the scheme signs no time
	Received time.Time
	Body     []byte // gone once it is Done or Stale

	State     State
	Attempts  int                  // handlers that were begun
	Due       time.Time            // when it may be handled; of one that is Held, by somebody else
	Claim     int64                // number of the claim; 0: never claimed
	Code      toolresult.ErrorCode // of the last attempt that failed
	SettledAt time.Time

	// Last is what is known about the object when the event is claimed.
	Last Last
}

// Last is what was handled of an object.
type Last struct {
	Version int64
	Deleted bool
}

// Superseded reports whether an event must not be handled any more. Equal
// versions are two events: providers count time in seconds.
func (e *Event) Superseded() bool {
	switch {
	case e.Object == "":
		return false
	case e.Last.Deleted:
		return !e.Restored || e.Version < e.Last.Version
	}
	return e.Version != 0 && e.Version < e.Last.Version && !e.Deleted
}

// Clone returns a deep copy.
func (e Event) Clone() Event {
	e.Body = slices.Clone(e.Body)
	return e
}

// OperationKey is the runtime key for a governed write that the event causes:
// the same for each attempt to handle it, so that the ledger of operations sends
// one write. A handler that makes several appends what tells them apart.
func (e *Event) OperationKey() string {
	return "webhook-" + strictjson.Digest(e.Tenant, e.Source, e.ID)[len("sha256:"):]
}

// Result returns the event as an answer with the given call id: its body, if
// that is JSON, else as a text, labelled untrusted, with where it comes from. It
// is how an event is shown to a model.
func (e *Event) Result(callID string) *toolresult.Result {
	data := json.RawMessage(e.Body)
	if _, err := strictjson.Parse(e.Body); err != nil {
		data, _ = json.Marshal(string(e.Body)) // of a text there is always one
	}
	r := toolresult.Complete(callID, data)
	r.Provenance = toolresult.Provenance{Service: e.Scheme, Object: e.Object, FetchedAt: e.Received.UTC(), RequestID: e.ID, Trust: toolresult.Untrusted}
	return r
}

// Outcome is how a claim ends.
type Outcome struct {
	State State                // Done, Stale, Failed; or Waiting, to be tried again
	Due   time.Time            // when, if Waiting
	Code  toolresult.ErrorCode // why, if Waiting or Failed
	At    time.Time            // now

	// Unbegun says that the attempt does not count: nobody has begun it.
	Unbegun bool
}

// Inbox keeps events. These rules are the store's, because they need atomicity:
//
//   - one event per tenant, source and ID; per tenant, source and Digest that is
//     not empty; and per tenant, source and Key that is not empty
//   - at most one Held event per tenant, source and Object that is not empty
//
// Events are copied in and out. All methods are safe for concurrent use by
// several processes, and what they did is durable when they return nil. After an
// error that is not one of this package's nothing is known.
type Inbox interface {
	// Put stores an event, Waiting and due when it was received, and reports
	// true; or false if one of its names is known, and then changes nothing.
	Put(ctx context.Context, e Event) (stored bool, err error)

	// Claim makes events Held until the given time and returns them, at most
	// limit: those that are Waiting or Held and due at the time at, the oldest
	// first. Of those that name an object, only the one with the lowest
	// version, and of these the first received, is claimed, and not while
	// another of the object is Held and not due, or Waiting to be tried again.
	// Claim and Attempts are one higher than before, and Last is filled in.
	// An event that cannot be read is an error, and those that can are returned
	// beside it.
	Claim(ctx context.Context, at, until time.Time, limit int) ([]Event, error)

	// Settle ends a claim. It fails with ErrClaim if the event is not Held
	// under the same Claim; but settling as Done what this claim has made Done
	// is no error. A body is removed when the event is Done or Stale. Done
	// raises what is known of the object to the event's version.
	Settle(ctx context.Context, e Event, o Outcome) error

	// Event returns an event, or NOT_FOUND.
	Event(ctx context.Context, tenant, source, id string) (Event, error)

	// Revive makes a Failed event Waiting again, due at the given time, with no
	// attempts made. It is NOT_FOUND if there is none that is Failed.
	Revive(ctx context.Context, tenant, source, id string, at time.Time) error

	// Forget removes what was settled and was received before the given time,
	// and what is known of objects that nothing was handled of since.
	Forget(ctx context.Context, before time.Time) error

	// Purge removes everything of a connection, whatever its state, and what
	// is known of objects of the sources that had it. It is part of a
	// disconnection, and an error means that it has to be repeated.
	Purge(ctx context.Context, tenant, connection string) error
}
