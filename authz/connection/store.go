package connection

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
)

// Errors of a Store.
var (
	// ErrVersion says that somebody else was first: read again.
	ErrVersion = errors.New("connection: version has changed")
	// ErrExists says that there is such a record already.
	ErrExists = errors.New("connection: exists")
	// ErrAccountTaken says that the owner has the account connected already.
	ErrAccountTaken = errors.New("connection: the owner has connected this account already")
)

// Record is a connection with what is needed to use it, as a Store keeps it.
type Record struct {
	Connection

	Version int64 // 1 for a new one; grows with each write

	// Access and Refresh are sealed for the tenant, the connection and the
	// field; empty if there is none.
	Access, Refresh []byte

	// For says for whom an exchanged access token is, beside the owner: through
	// which client, acting as whom, with which scopes. "" of other grants.
	For string `json:",omitempty"`

	Lease    Lease
	Attempt  string        // the refresh that made the tokens; "" for the first ones
	Lifetime time.Duration // that the provider last reported; 0 if it never did

	RefreshAt time.Time // when the access token is to be replaced; zero: when it is rejected
	RetryAt   time.Time // nothing is sent to the issuer before
	Failures  int       // attempts since the last success
	Late      bool      // the one late retry of a lost refresh is under way or was made
	Rejected  time.Time // when the provider last refused an access token; zero for never
}

// Clone returns a copy that shares nothing.
func (r Record) Clone() Record {
	r.Connection = r.clone()
	r.Access, r.Refresh = bytes.Clone(r.Access), bytes.Clone(r.Refresh)
	return r
}

// Lease is the right to send something to the issuer for one connection.
type Lease struct {
	Attempt string // one refresh or revocation; "" if nobody holds it
	Until   time.Time
}

// Query selects records. Those of one owner, of one tenant, or of all.
type Query struct {
	// Tenant is whose records; needed unless All is set.
	Tenant string
	// All selects those of all tenants, for an operator's background work.
	All bool

	Owner    authz.PrincipalKey // exactly this one; the zero key: everybody of the tenant
	Provider string             // "": all
	State    State              // "": all
	Live     bool               // all but those that are Disconnected
	Due      time.Time          // RetryAt not after it and Lease.Until not after it; zero: all

	// After is where a page starts: after this record, in the order of tenant
	// and ID. The zero value is the beginning.
	AfterTenant, AfterID string
	Limit                int // needed, at most 1000
}

// Records keeps connections. Two rules are the store's, because they need
// atomicity; in SQL they are a primary key and a partial unique index:
//
//   - one record per tenant and ID
//   - one record per Owner, Provider, Org and Account among those whose State
//     is not [Disconnected] (ErrAccountTaken)
//
// Records are copied in and out. Times keep their moment to the microsecond at
// least. All methods are safe for concurrent use by several processes, and a
// write is durable when it returns nil. After any error that is not one of this
// package's the caller must read again before it believes anything.
type Records interface {
	// Create inserts rec with Version 1. It fails with ErrExists or
	// ErrAccountTaken.
	Create(ctx context.Context, rec Record) (Record, error)

	// Get returns a record, or NOT_FOUND. It never returns one of another
	// tenant.
	Get(ctx context.Context, tenant, id string) (Record, error)

	// CompareAndSwap replaces the record whose Version is rec.Version, and
	// returns it with the next Version. It fails with ErrVersion, also if there
	// is no such record, or with ErrAccountTaken. Tenant and ID say which;
	// everything else may change.
	CompareAndSwap(ctx context.Context, rec Record) (Record, error)

	// List returns at most q.Limit records in the order of tenant and ID. A
	// query without a tenant and without All, or without a limit from 1 to
	// 1000, is INVALID_INPUT.
	List(ctx context.Context, q *Query) ([]Record, error)

	// SweepRecords removes records that are Disconnected, were updated before a
	// moment, and whose Reason is not ReasonLeak, and says how many they were.
	SweepRecords(ctx context.Context, before time.Time) (int, error)
}

// Stage is how far a transaction is. Any word that is not below is over.
type Stage string

// The stages of a transaction.
const (
	Begun  Stage = "begun"  // a link was made
	Opened Stage = "opened" // the user followed it and was sent to the provider
	Taken  Stage = "taken"  // the answer came; whoever took it acts on it, once
	Done   Stage = "done"   // Connection says what came of it
	Failed Stage = "failed" // Failure says why
)

// Transaction is one attempt of one user to connect one account. It holds
// hashes of the state and of the browser's secret, and the verifier sealed.
type Transaction struct {
	ID      string             // 128 random bits and more; part of the link and of the state
	Owner   authz.PrincipalKey // for whom, and nobody else
	Version int64              // 1 for a new one; grows with each write

	// What was fixed when it began. The answer is acted on with these, whatever
	// the profile says by then.
	Provider, Issuer, TokenEndpoint, ClientID, RedirectURI, Resource string

	Scopes     []string // asked for
	Org        string   // that the account must belong to; "": any
	Connection string   // that is extended, then that was made; "" for a new one
	Generation int64    // of that connection when it began
	ReturnTo   string   // a path of the host's own; "" for its default

	Stage    Stage
	Failure  string   // a word of this package; set when Failed
	State    [32]byte // SHA-256 of the secret part of state; set when Opened
	Browser  [32]byte // SHA-256 of the browser's secret; set when Opened
	Verifier []byte   // sealed; removed when Taken is over

	Created, Expires time.Time
}

// Clone returns a copy that shares nothing.
func (t Transaction) Clone() Transaction {
	t.Scopes, t.Verifier = slices.Clone(t.Scopes), bytes.Clone(t.Verifier)
	return t
}

// Transactions keeps transactions, under the same rules as Records. A
// transaction is taken once because the swap from Opened to Taken succeeds
// once.
type Transactions interface {
	// AddTransaction inserts t with Version 1, or fails with ErrExists.
	AddTransaction(ctx context.Context, t Transaction) (Transaction, error)

	// Transaction returns one, or NOT_FOUND. It never returns one of another
	// tenant.
	Transaction(ctx context.Context, tenant, id string) (Transaction, error)

	// SwapTransaction replaces the transaction whose Version is t.Version, and
	// returns it with the next Version, or fails with ErrVersion.
	SwapTransaction(ctx context.Context, t Transaction) (Transaction, error)

	// SweepTransactions removes those that expired before a moment, and says
	// how many they were.
	SweepTransactions(ctx context.Context, before time.Time) (int, error)
}

// Hold is an incident: while it stands, nothing that it names gets a
// credential.
type Hold struct {
	Tenant, ID string // both needed; ID is the caller's, unique in the tenant

	Run        string // a task that is isolated; "": none
	Capability string // that is disabled in the tenant; "": none
	Connection string // whose revocation must be confirmed; "": none

	Note    string // for operators; no secret
	Created time.Time
}

// Holds keeps incidents, under the same rules as Records.
type Holds interface {
	// AddHold inserts h, or fails with ErrExists.
	AddHold(ctx context.Context, h Hold) error

	// Holds returns those of a tenant, oldest first, then by ID.
	Holds(ctx context.Context, tenant string) ([]Hold, error)

	// RemoveHold removes one. It is no error if there is none.
	RemoveHold(ctx context.Context, tenant, id string) error
}

// Store is everything that must last. Memory is one, package sqlconnection another
// in a SQL database; package connectiontest checks one.
type Store interface {
	Records
	Transactions
	Holds
}
