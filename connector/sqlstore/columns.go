package sqlstore

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// text returns s as a database holds it: PostgreSQL refuses zero bytes and what
// is not UTF-8, and an answer's request id may have either. Losing a receipt over
// that would be worse than one ugly column. No two texts have the same form.
func text(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") && !strings.HasPrefix(s, `\`) {
		return s
	}
	return `\` + base64.RawStdEncoding.EncodeToString([]byte(s))
}

var errText = errors.New("sqlstore: a column holds a text that was not written by this package")

// untext undoes text.
func untext(s string) (string, error) {
	out := s
	if body, escaped := strings.CutPrefix(s, `\`); escaped {
		b, err := base64.RawStdEncoding.Strict().DecodeString(body)
		if err != nil {
			return "", errText
		}
		out = string(b)
	}
	if text(out) != s {
		return "", errText
	}
	return out, nil
}

// noTime is the zero time. It is before every other.
const noTime = math.MinInt64

var errTime = errors.New("sqlstore: a time is not between 1678 and 2262")

func instant(t time.Time) (int64, error) {
	if t.IsZero() {
		return noTime, nil
	}
	n := t.UnixNano()
	if n == noTime || !time.Unix(0, n).Equal(t) {
		return 0, errTime
	}
	return n, nil
}

func uninstant(n int64) time.Time {
	if n == noTime {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

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
		n, err := instant(t)
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
		text(b.Requester.Tenant), text(r.ID), r.Rev, r.State.String(), r.Resolution.String(), text(r.Key), text(r.ProviderID), text(r.Intent), text(r.Approval), at(r.ApprovalEnds),
		text(b.Digest), text(b.Capability), text(b.Version), targets(r.Targets), text(b.Targets), text(b.Versions), text(b.Requester.Issuer), text(b.Requester.Subject), text(b.Connection), text(b.Revision),
		text(r.Request), bytes("arguments", r.Arguments), bytes("output", r.Output), text(r.RequestID), text(string(r.Code)), int64(r.Sent), outside,
		at(r.PreparedAt), at(r.FirstSent), at(r.SentAt), at(r.SettledAt), text(r.SettledBy), text(r.Holder), at(r.Until),
	}
	return out, errors.Join(errs...)
}

// textColumn, timeColumn and wordColumn read one column into a field.
type textColumn struct{ to *string }

func (c textColumn) Scan(v any) (err error) {
	switch v := v.(type) {
	case string:
		*c.to, err = untext(v)
	case []byte:
		*c.to, err = untext(string(v))
	default:
		err = errText
	}
	return err
}

type timeColumn struct{ to *time.Time }

func (c timeColumn) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return errTime
	}
	*c.to = uninstant(n)
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
	r.Targets, errs[2] = untargets(list)
	if err := errors.Join(errs[:]...); err != nil {
		return operation.Record{}, err
	}
	return r, nil
}

// targets are a JSON list of pairs, so that operators can read them.
func targets(ids []authz.ResourceID) string {
	if ids == nil {
		return ""
	}
	pairs := make([][2]string, len(ids))
	for i, id := range ids {
		pairs[i] = [2]string{text(id.Type), text(id.ID)}
	}
	b, _ := json.Marshal(pairs) // texts that are UTF-8
	return string(b)
}

func untargets(list string) ([]authz.ResourceID, error) {
	if list == "" {
		return nil, nil
	}
	var pairs [][2]string
	if err := json.Unmarshal([]byte(list), &pairs); err != nil {
		return nil, errText
	}
	ids := make([]authz.ResourceID, len(pairs))
	for i, p := range pairs {
		var err1, err2 error
		ids[i].Type, err1 = untext(p[0])
		ids[i].ID, err2 = untext(p[1])
		if err1 != nil || err2 != nil {
			return nil, errText
		}
	}
	return ids, nil
}
