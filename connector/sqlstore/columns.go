package sqlstore

import (
	"errors"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore/internal/column"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// How bytes are kept: the first one says it.
const (
	plain  = 'p'
	sealed = 's'
)

var errPlaintext = errors.New("sqlstore: a text is not sealed, or is and there is no Sealer: see Options")

// lock seals bytes for a place. Nil stays nil.
func (d *database) lock(at credential.Place, b []byte) ([]byte, error) {
	switch {
	case b == nil:
		return nil, nil
	case d.seal == nil:
		return append([]byte{plain}, b...), nil
	}
	s, err := d.seal.Seal(at, b)
	if err != nil {
		return nil, err
	}
	return append([]byte{sealed}, s...), nil
}

// unlock undoes lock.
func (d *database) unlock(at credential.Place, b []byte) ([]byte, error) {
	switch {
	case b == nil:
		return nil, nil
	case len(b) > 0 && b[0] == plain && d.plaintext:
		return b[1:], nil
	case len(b) > 0 && b[0] == sealed && d.seal != nil:
		out, err := d.seal.Open(at, b[1:])
		if err == nil && out == nil {
			out = []byte{}
		}
		return out, err
	}
	return nil, errPlaintext
}

// columns are those of an operation, in the order of values and scan.
const columns = "tenant, id, rev, state, resolution, runtime_key, provider_id, intent, approval, approval_ends, " +
	"digest, capability, version, targets, targets_digest, versions, issuer, subject, connection, revision, " +
	"request, arguments, output, request_id, code, sends, outside, " +
	"prepared_at, first_sent, sent_at, settled_at, settled_by, holder, held_until"

// values returns a record's columns.
func (d *database) values(r operation.Record) ([]any, error) {
	var errs []error
	at := func(t time.Time) int64 {
		n, err := column.Instant(t)
		errs = append(errs, err)
		return n
	}
	bytes := func(field string, b []byte) []byte {
		b, err := d.lock(credential.Place{Tenant: r.Binding.Requester.Tenant, Record: r.ID, Field: field}, b)
		errs = append(errs, err)
		return b
	}
	outside := 0
	if r.Outside {
		outside = 1
	}
	b := r.Binding
	out := []any{
		column.Text(b.Requester.Tenant), column.Text(r.ID), r.Rev, r.State.String(), r.Resolution.String(), column.Text(r.Key), column.Text(r.ProviderID), column.Text(r.Intent), column.Text(r.Approval), at(r.ApprovalEnds),
		column.Text(b.Digest), column.Text(b.Capability), column.Text(b.Version), column.Targets(r.Targets), column.Text(b.Targets), column.Text(b.Versions), column.Text(b.Requester.Issuer), column.Text(b.Requester.Subject), column.Text(b.Connection), column.Text(b.Revision),
		column.Text(r.Request), bytes("arguments", r.Arguments), bytes("output", r.Output), column.Text(r.RequestID), column.Text(string(r.Code)), int64(r.Sent), outside,
		at(r.PreparedAt), at(r.FirstSent), at(r.SentAt), at(r.SettledAt), column.Text(r.SettledBy), column.Text(r.Holder), at(r.Until),
	}
	return out, errors.Join(errs...)
}

// textColumn, timeColumn and wordColumn read one column into a field.
type textColumn struct{ to *string }

func (c textColumn) Scan(v any) (err error) {
	switch v := v.(type) {
	case string:
		*c.to, err = column.Untext(v)
	case []byte:
		*c.to, err = column.Untext(string(v))
	default:
		err = column.ErrText
	}
	return err
}

type timeColumn struct{ to *time.Time }

func (c timeColumn) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return column.ErrTime
	}
	*c.to = column.Uninstant(n)
	return nil
}

// wordColumn reads a state. A word that nobody knows is operation.Unknown.
type wordColumn struct{ to *operation.State }

func (c wordColumn) Scan(v any) error {
	switch v := v.(type) {
	case string:
		return c.to.UnmarshalText([]byte(v))
	case []byte:
		return c.to.UnmarshalText(v)
	}
	*c.to = operation.Unknown
	return nil
}

// scan reads a record from a row of columns.
func (d *database) scan(row interface{ Scan(...any) error }) (operation.Record, error) {
	var r operation.Record
	var code, list string
	var arguments, output []byte
	b := &r.Binding
	err := row.Scan(
		textColumn{&b.Requester.Tenant}, textColumn{&r.ID}, &r.Rev, wordColumn{&r.State}, wordColumn{&r.Resolution}, textColumn{&r.Key}, textColumn{&r.ProviderID}, textColumn{&r.Intent}, textColumn{&r.Approval}, timeColumn{&r.ApprovalEnds},
		textColumn{&b.Digest}, textColumn{&b.Capability}, textColumn{&b.Version}, &list, textColumn{&b.Targets}, textColumn{&b.Versions}, textColumn{&b.Requester.Issuer}, textColumn{&b.Requester.Subject}, textColumn{&b.Connection}, textColumn{&b.Revision},
		textColumn{&r.Request}, &arguments, &output, textColumn{&r.RequestID}, textColumn{&code}, &r.Sent, &r.Outside,
		timeColumn{&r.PreparedAt}, timeColumn{&r.FirstSent}, timeColumn{&r.SentAt}, timeColumn{&r.SettledAt}, textColumn{&r.SettledBy}, textColumn{&r.Holder}, timeColumn{&r.Until},
	)
	if err != nil {
		return operation.Record{}, err
	}
	r.Code = toolresult.ErrorCode(code)
	at := credential.Place{Tenant: b.Requester.Tenant, Record: r.ID, Field: "arguments"}
	var errs [3]error
	r.Arguments, errs[0] = d.unlock(at, arguments)
	at.Field = "output"
	r.Output, errs[1] = d.unlock(at, output)
	r.Targets, errs[2] = column.Untargets(list)
	if err := errors.Join(errs[:]...); err != nil {
		return operation.Record{}, err
	}
	return r, nil
}
