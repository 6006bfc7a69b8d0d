package authz

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Binding is what a change is, as far as its owner and its payload say: what an
// operation is recorded under. It is comparable.
type Binding struct {
	Digest     string // "sha256:..." over the canonical JSON (RFC 8785) of the arguments
	Capability string
	Version    string // of the connector
	Targets    string // digest over the objects and their order
	Versions   string // digest over the versions of the objects; empty if they have none
	Requester  PrincipalKey
	Connection string
	Revision   string // of the policy that granted it
}

// Statement is everything that an approval holds still: the change, the
// operation it is part of, and the request that would go out, byte for byte. It
// is comparable.
type Statement struct {
	Binding
	Operation string // id of the operation
	Request   string // "sha256:..." of the rendered request
}

// Digest returns "sha256:..." over the statement. The policy's revision is not
// part of it: when the policy has changed, it is asked again, and a verdict as
// permissive as before keeps an approval valid.
func (s Statement) Digest() string {
	var b []byte
	for _, t := range []string{
		s.Binding.Digest, s.Capability, s.Version, s.Targets, s.Versions, s.Requester.Tenant, s.Requester.Issuer, s.Requester.Subject,
		s.Connection, s.Operation, s.Request,
	} {
		b = strconv.AppendInt(b, int64(len(t)), 10)
		b = append(append(b, ':'), t...)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ID returns the id of the statement's approval: nobody chooses it, so one
// statement has one approval.
func (s Statement) ID() string { return "apr_" + s.Digest()[len("sha256:"):][:32] }

// Differences names what differs between what was approved and what is asked
// for now, sorted. The names are for people: they say nothing of the values.
func (s Statement) Differences(now Statement) (names []string) {
	for name, same := range map[string]bool{
		"arguments": s.Binding.Digest == now.Binding.Digest, "capability": s.Capability == now.Capability, "connector version": s.Version == now.Version,
		"target": s.Targets == now.Targets, "version of the target": s.Versions == now.Versions, "requester": s.Requester == now.Requester,
		"connection": s.Connection == now.Connection, "operation": s.Operation == now.Operation, "rendered request": s.Request == now.Request,
	} {
		if !same {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Approval is a question to a person about one change, and the answer.
// Connecting an account is not an approval, and neither is a model's or a
// client's "accept". It is used by recording its operation, and one operation
// can use it.
type Approval struct {
	ID        string
	Statement Statement
	Key       string       // the operation's key, so that a host can repeat the call by the approval alone
	Targets   []ResourceID // empty: the whole connection
	Rendering string       // what would be sent, as a person is shown it
	Verdict   Verdict      // of the policy when it was asked for
	Asked     time.Time

	Approver PrincipalKey // a verified principal who answered; zero: nobody has
	Approved time.Time    // when, also if the answer is no
	Refused  bool         // the answer is no: for this very change, until Expires
	Expires  time.Time    // of the question, and then of the answer
	Rev      int64        // 0 for one that is not stored yet
}

// Answered reports whether somebody has said yes or no, in time or not.
func (a Approval) Answered() bool { return a.Approver != PrincipalKey{} }

// Given reports whether somebody has said yes, in time or not.
func (a Approval) Given() bool { return a.Answered() && !a.Refused }

// Clone returns a deep copy.
func (a Approval) Clone() Approval {
	a.Targets = slices.Clone(a.Targets)
	return a
}

// ErrApprovalVersion says that somebody else was first: read again.
var ErrApprovalVersion = errors.New("authz: the approval's version has changed")

// ApprovalStore keeps approvals. Records are copied in and out. All methods are
// safe for concurrent use by several processes, and a write is durable when it
// returns nil. The suite of connector/sqlstore holds implementations to it.
type ApprovalStore interface {
	// Approval returns one, or NOT_FOUND. It MUST NOT return another tenant's.
	Approval(ctx context.Context, tenant, id string) (Approval, error)

	// PutApproval stores a if the stored Rev is a.Rev, 0 meaning that there is
	// none, and returns it with the next Rev. Otherwise it changes nothing and
	// returns ErrApprovalVersion. The tenant is that of the statement's
	// requester.
	PutApproval(ctx context.Context, a Approval) (Approval, error)

	// PendingApprovals returns at most limit approvals of a tenant that nobody
	// has answered and that are not over at the given time, oldest first.
	PendingApprovals(ctx context.Context, tenant string, at time.Time, limit int) ([]Approval, error)
}

// MemoryApprovals is an ApprovalStore that forgets everything with the process.
// The zero value is ready.
type MemoryApprovals struct {
	mu   sync.Mutex
	kept map[[2]string]Approval
}

var _ ApprovalStore = (*MemoryApprovals)(nil)

// Approval implements [ApprovalStore].
func (m *MemoryApprovals) Approval(_ context.Context, tenant, id string) (Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.kept[[2]string{tenant, id}]
	if !ok {
		return Approval{}, toolresult.NewError(toolresult.NotFound, "there is no such approval")
	}
	return a.Clone(), nil
}

// PutApproval implements [ApprovalStore].
func (m *MemoryApprovals) PutApproval(_ context.Context, a Approval) (Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := [2]string{a.Statement.Requester.Tenant, a.ID}
	if m.kept[k].Rev != a.Rev {
		return Approval{}, ErrApprovalVersion
	}
	if m.kept == nil {
		m.kept = map[[2]string]Approval{}
	}
	a.Rev++
	m.kept[k] = a.Clone()
	return a, nil
}

// PendingApprovals implements [ApprovalStore].
func (m *MemoryApprovals) PendingApprovals(_ context.Context, tenant string, at time.Time, limit int) ([]Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Approval
	for k, a := range m.kept {
		if k[0] == tenant && !a.Answered() && a.Expires.After(at) {
			out = append(out, a.Clone())
		}
	}
	slices.SortFunc(out, func(a, b Approval) int { return a.Asked.Compare(b.Asked) })
	return out[:min(max(limit, 0), len(out))], nil
}
