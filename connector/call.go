package connector

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/internal/evidence"
	"github.com/drawbridge-sdk/drawbridge/sandbox/egress"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Call is what the runtime established about one call. Only an Invoker makes
// one, in tests too. It is the same for its whole life and carries no
// credential. Its methods are safe for concurrent use. A Call that no Invoker
// made says nothing and reaches nothing.
type Call struct{ s *state }

// mode says what the requests of a call may do.
type mode uint8

const (
	metadata mode = iota // before there is a grant: metadata routes only
	reading
	rendering // a write whose request is recorded and does not leave
	sending
)

// state is one run of a connector's code. A write has several: one to render,
// one to send, one to look.
type state struct {
	v         *Invoker
	cap       *registered
	path      *path // which call this is a run of
	mode      mode
	id        string
	principal authz.Principal
	grant     authz.Grant
	conn      Connection
	handle    credential.Handle
	endpoint  *egress.Endpoint
	args      json.RawMessage // canonical, without page_size and cursor
	decoded   *any            // of the path; see input
	page      PageRequest
	op        operation.Operation
	gate      gate // for rendering and sending
	progress  func(Progress)
	ctx       context.Context // of the call; sessions are bound to it

	mu       sync.Mutex
	over     bool
	full     *egress.Session // may change what the mode allows
	reads    *egress.Session // never changes anything
	requests int
	seen     []seen
	renewed  int // reads that were answered by 401 and may be sent once more
	denied   *Denied
	breach   string // the first thing that the transport refused because the connector broke its contract
	said     said
}

// seen is an exchange as the call's transport saw it.
type seen struct {
	evidence.Exchange
	at     time.Time
	answer *provider.Response // nil unless it was answered

	renewable bool // a 401 to what reads, and there is another credential now
}

// said is what the typed capabilities know beyond a Result.
type said struct {
	next       cursor.Position
	providerID string
	offset     int // of the page, -1 if the position is no number
	received   int
}

// gate is the last door of a write.
type gate interface {
	// commit is asked before the first byte of the change leaves.
	commit(ctx context.Context, d draft) error
	// saw is told of every exchange.
	saw(x evidence.Exchange)
	// outside is asked before the change leaves by another way.
	outside(ctx context.Context) error
	// object is told the provider's id of what is being changed.
	object(ctx context.Context, providerID string) error
}

// ID returns the runtime's id of the call.
func (c *Call) ID() string {
	if c == nil || c.s == nil {
		return ""
	}
	return c.s.id
}

// Capability returns the name of the capability.
func (c *Call) Capability() string {
	if c == nil || c.s == nil {
		return ""
	}
	return c.s.cap.decl.Name
}

// Arguments returns the validated arguments in canonical form (RFC 8785), with
// the schema's defaults, and without page_size and cursor. The caller must not
// change them.
func (c *Call) Arguments() json.RawMessage {
	if c == nil || c.s == nil {
		return nil
	}
	return c.s.args
}

// Page returns which page of a listing is asked for; the zero PageRequest for
// other kinds.
func (c *Call) Page() PageRequest {
	if c == nil || c.s == nil {
		return PageRequest{}
	}
	return c.s.page
}

// Principal returns who is calling.
func (c *Call) Principal() authz.Principal {
	if c == nil || c.s == nil {
		return authz.Principal{}
	}
	return c.s.principal
}

// Grant returns what the call may touch.
func (c *Call) Grant() authz.Grant {
	if c == nil || c.s == nil {
		return authz.Grant{}
	}
	return c.s.grant
}

// Connection returns the account that is used.
func (c *Call) Connection() Connection {
	if c == nil || c.s == nil {
		return Connection{}
	}
	return c.s.conn
}

// Operation returns the recorded intent of a write, and false for a read.
func (c *Call) Operation() (operation.Operation, bool) {
	if c == nil || c.s == nil {
		return operation.Operation{}, false
	}
	return c.s.op, c.s.op.ID != ""
}

// HTTPClient returns the client of this call: the endpoint profile, the
// routes, the grant, the credential, the deadline and the limits are in its
// transport. It may be given to a provider's library. A request with another
// context, or none, ends with the call all the same, and after the call the
// client refuses everything.
//
// In a write, the first request that may change something is recorded as
// dispatched before its first byte, and a second is refused.
func (c *Call) HTTPClient() *http.Client {
	if c == nil || c.s == nil {
		return closedClient()
	}
	return c.s.client(false)
}

// Dispatch records that the change is about to leave by another way than
// HTTPClient: a program, a message, a remote MCP server. It is durable when it
// returns nil; on any error nothing may be sent. It succeeds once per call, and
// never in the run that renders. A capability that declares a route that changes
// something cannot use it: its changes go through HTTPClient.
//
// A connector that reports an effect without HTTPClient or Dispatch having
// seen one violates the contract.
func (c *Call) Dispatch(ctx context.Context) error {
	if c == nil || c.s == nil || c.s.gate == nil {
		return toolresult.NewError(toolresult.ContractViolation, "a read dispatches nothing")
	}
	if slices.ContainsFunc(c.s.cap.decl.Routes, func(r Route) bool { return r.Effect == Changes }) {
		c.s.breached("a change with routes left by another way")
		return toolresult.NewError(toolresult.ContractViolation, "a capability with routes that change something changes nothing by another way")
	}
	return c.s.gate.outside(ctx)
}

// Progress tells the host how far the call is. It never blocks for long; hosts
// drop what they cannot use.
func (c *Call) Progress(p Progress) {
	if c == nil || c.s == nil || c.s.progress == nil {
		return
	}
	c.s.mu.Lock()
	over := c.s.over
	c.s.mu.Unlock()
	if !over {
		c.s.progress(p)
	}
}

// state is nil for a call that no Invoker made.
func (c *Call) state() *state {
	if c == nil {
		return nil
	}
	return c.s
}

// close ends what the call can do. It returns what the transport saw.
func (s *state) close() []seen {
	s.mu.Lock()
	full, reads := s.full, s.reads
	s.over, s.full, s.reads = true, nil, nil
	out := s.seen
	s.mu.Unlock()
	if full != nil {
		full.Close()
	}
	if reads != nil {
		reads.Close()
	}
	return out
}

func exchanges(list []seen) []evidence.Exchange {
	out := make([]evidence.Exchange, len(list))
	for i, x := range list {
		out[i] = x.Exchange
	}
	return out
}
