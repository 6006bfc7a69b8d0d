package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore/internal/column"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Approvals is an authz.ApprovalStore on a database. That an approval is used
// once is held by the index on operations, in the transaction that records the
// operation. It is safe for concurrent use by any number of goroutines and
// processes. It removes nothing.
type Approvals struct {
	d *database
	q approvalStatements
}

var _ authz.ApprovalStore = (*Approvals)(nil)

type approvalStatements struct{ get, insert, swap, pending string }

// approvalColumns are in the order of values and scan.
const approvalColumns = "tenant, id, rev, digest, capability, version, targets, targets_digest, versions, issuer, subject, connection, revision, " +
	"operation, request, runtime_key, rendering, verdict, asked, approver_tenant, approver_issuer, approver_subject, approved, expires, refused"

// Approvals returns the authz.ApprovalStore on the same database.
func (s *Store) Approvals() *Approvals {
	names := strings.Split(approvalColumns, ", ")
	list := "SELECT " + approvalColumns + " FROM drawbridge_approvals WHERE "
	return &Approvals{s.d, approvalStatements{
		get:    s.d.bind(list + "tenant = ? AND id = ?"),
		insert: s.d.bind("INSERT INTO drawbridge_approvals (" + approvalColumns + ") VALUES (" + strings.Repeat("?, ", len(names)-1) + "?) ON CONFLICT DO NOTHING"),
		swap:   s.d.bind("UPDATE drawbridge_approvals SET " + strings.Join(names[2:], " = ?, ") + " = ? WHERE tenant = ? AND id = ? AND rev = ?"),
		pending: s.d.bind(list + "tenant = ? AND approver_tenant = '' AND approver_issuer = '' AND approver_subject = '' AND expires > ? " +
			"ORDER BY asked, id LIMIT ?"),
	}}
}

// verdicts are the words that are stored. An unfamiliar one is authz.Deny.
var verdicts = [...]string{authz.Deny: "deny", authz.Allow: "allow", authz.AllowWithApproval: "allow_with_approval", authz.Prohibit: "prohibit"}

func verdictWord(v authz.Verdict) string {
	if int(v) < len(verdicts) {
		return verdicts[v]
	}
	return verdicts[authz.Deny]
}

func renderingOf(tenant, id string) credential.Place {
	return credential.Place{Tenant: tenant, Record: "approval " + id, Field: "rendering"}
}

func (a *Approvals) values(p authz.Approval) ([]any, error) {
	var errs [4]error
	var times [3]int64
	for i, at := range []time.Time{p.Asked, p.Approved, p.Expires} {
		times[i], errs[i] = column.Instant(at)
	}
	s := p.Statement
	b := s.Binding
	rendering, err := a.d.lock(renderingOf(b.Requester.Tenant, p.ID), []byte(p.Rendering))
	errs[3] = err
	t, refused := column.Text, 0
	if p.Refused {
		refused = 1
	}
	return []any{
		t(b.Requester.Tenant), t(p.ID), p.Rev, t(b.Digest), t(b.Capability), t(b.Version), column.Targets(p.Targets), t(b.Targets), t(b.Versions),
		t(b.Requester.Issuer), t(b.Requester.Subject), t(b.Connection), t(b.Revision), t(s.Operation), t(s.Request), t(p.Key), rendering, verdictWord(p.Verdict),
		times[0], t(p.Approver.Tenant), t(p.Approver.Issuer), t(p.Approver.Subject), times[1], times[2], refused,
	}, errors.Join(errs[:]...)
}

func (a *Approvals) scan(row interface{ Scan(...any) error }) (authz.Approval, error) {
	var p authz.Approval
	var list, verdict string
	var rendering []byte
	var refused int64
	s := &p.Statement
	b := &s.Binding
	err := row.Scan(
		textColumn{&b.Requester.Tenant}, textColumn{&p.ID}, &p.Rev, textColumn{&b.Digest}, textColumn{&b.Capability}, textColumn{&b.Version}, &list, textColumn{&b.Targets}, textColumn{&b.Versions},
		textColumn{&b.Requester.Issuer}, textColumn{&b.Requester.Subject}, textColumn{&b.Connection}, textColumn{&b.Revision}, textColumn{&s.Operation}, textColumn{&s.Request}, textColumn{&p.Key}, &rendering, &verdict,
		timeColumn{&p.Asked}, textColumn{&p.Approver.Tenant}, textColumn{&p.Approver.Issuer}, textColumn{&p.Approver.Subject}, timeColumn{&p.Approved}, timeColumn{&p.Expires}, &refused,
	)
	if err != nil {
		return authz.Approval{}, err
	}
	text, err1 := a.d.unlock(renderingOf(b.Requester.Tenant, p.ID), rendering)
	ids, err2 := column.Untargets(list)
	if err := errors.Join(err1, err2); err != nil {
		return authz.Approval{}, err
	}
	p.Rendering, p.Targets, p.Verdict = string(text), ids, authz.Verdict(max(0, slices.Index(verdicts[:], verdict)))
	p.Refused = refused != 0 // and only an exact 0 is a yes
	return p, nil
}

// Approval implements [authz.ApprovalStore].
func (a *Approvals) Approval(ctx context.Context, tenant, id string) (authz.Approval, error) {
	p, err := a.scan(a.d.db.QueryRowContext(ctx, a.q.get, column.Text(tenant), column.Text(id)))
	if errors.Is(err, sql.ErrNoRows) {
		return authz.Approval{}, toolresult.NewError(toolresult.NotFound, "there is no such approval")
	}
	return p, failure(ctx, err)
}

// PutApproval implements [authz.ApprovalStore].
func (a *Approvals) PutApproval(ctx context.Context, p authz.Approval) (authz.Approval, error) {
	p = p.Clone()
	was := p.Rev
	if was < 0 {
		return authz.Approval{}, authz.ErrApprovalVersion
	}
	p.Rev++
	args, err := a.values(p)
	if err != nil {
		return authz.Approval{}, toolresult.WrapError(toolresult.Internal, "the approval cannot be stored", err)
	}
	statement := a.q.insert
	if was > 0 {
		statement, args = a.q.swap, append(args[2:], args[0], args[1], was)
	}
	stored, err := one(a.d.exec(ctx, statement, args...))
	switch {
	case err != nil:
		return authz.Approval{}, failure(ctx, err)
	case !stored:
		return authz.Approval{}, authz.ErrApprovalVersion
	}
	return p, nil
}

// PendingApprovals implements [authz.ApprovalStore].
func (a *Approvals) PendingApprovals(ctx context.Context, tenant string, at time.Time, limit int) ([]authz.Approval, error) {
	n, err := column.Instant(at)
	if err != nil {
		return nil, toolresult.WrapError(toolresult.Internal, "the time cannot be compared with", err)
	}
	rows, err := a.d.db.QueryContext(ctx, a.q.pending, column.Text(tenant), n, max(0, limit))
	if err != nil {
		return nil, failure(ctx, err)
	}
	defer rows.Close()
	var out []authz.Approval
	for rows.Next() {
		p, err := a.scan(rows)
		if err != nil {
			return nil, failure(ctx, err)
		}
		out = append(out, p)
	}
	return out, failure(ctx, rows.Err())
}
